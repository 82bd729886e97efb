//! What keeps a project's store and its surroundings from growing for ever. Everything here is bounded and may be broken off anywhere;
//! the next call goes on.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use roboco_domain::id::ProjectId;
use roboco_domain::limits::{GIT_CLONE, GIT_NETWORK, TRASH_KEEP};

use crate::error::GitError;
use crate::release::{is_older, remove_all};
use crate::repos::{Repos, Store};
use crate::tree::{read_optional, remove_optional, write_atomically};

/// Objects outside packs from which on they are packed. Each costs a file, and git grows slow with many of them.
const LOOSE: u64 = 2000;
/// Packs from which on they are joined: every look-up may have to ask each of them.
const PACKS: u64 = 20;
/// How often everything is packed anew and what nobody can reach any more is let go.
const FULLY: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// No check runs and no file is written for this long; what is older has been forgotten by whoever made it.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);
/// Copies that are removed in one call.
const COPIES: usize = 20;
/// When everything was packed last, in seconds since 1970.
const FULLY_PACKED: &str = "roboco-packed";

/// What was done for a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Housekept {
    /// Refs of rescued work and of removed branches that were forgotten.
    pub forgotten: usize,
    /// Copies of commits that were removed because no check of this server owns them.
    pub copies_removed: usize,
    /// What became of the store's objects.
    pub packing: Packing,
}

/// What became of a store's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// There were few enough of them.
    NotNeeded,
    /// It was needed, but an operation of this project was under way: next time.
    Busy,
    /// Loose objects and small packs became one pack. Nothing was let go.
    Joined,
    /// Everything was packed anew; what no ref, log or index has reached for thirty days is gone.
    Everything,
}

impl Repos {
    /// Keeps a project's house: forgets what was rescued more than thirty days ago, removes copies of commits that an earlier server or a
    /// dead check left, and packs the store when it has become untidy. Meant to be called every hour or so; costs one short process when
    /// there is nothing to do. While it packs, which ends after five minutes at the latest, other operations of the project wait; it never
    /// begins to pack while one is under way.
    ///
    /// # Errors
    /// `UnknownProject`, and faults of git and of the file system; the next call goes on.
    pub async fn housekeep(&self, project: ProjectId, now: SystemTime) -> Result<Housekept, GitError> {
        let store = self.store(project)?;
        let forgotten = self.forget_rescues(project, TRASH_KEEP, now).await?;
        let copies_removed = remove_left_copies(self, project, now).await?;
        let packing = pack(self, &store, now).await?;
        tracing::debug!(%project, forgotten, copies_removed, ?packing, "the house is kept");
        Ok(Housekept { forgotten, copies_removed, packing })
    }
}

/// Copies of commits that an earlier server left, and those nobody can be using any more.
async fn remove_left_copies(repos: &Repos, project: ProjectId, now: SystemTime) -> Result<usize, GitError> {
    let mut removed = 0;
    for copy in entries(&repos.exports.join(project.to_string())) {
        let name = copy.file_name().unwrap_or_default().to_string_lossy();
        let number = name.rsplit_once('-').and_then(|(_, number)| number.parse::<u64>().ok());
        let left = number.is_some_and(|number| number < repos.first_unique) || is_older(&copy, ABANDONED, now);
        if removed < COPIES && left {
            remove_all(copy).await?;
            removed += 1;
        }
    }
    Ok(removed)
}

async fn pack(repos: &Repos, store: &Store, now: SystemTime) -> Result<Packing, GitError> {
    let mark = store.dir.join(FULLY_PACKED);
    let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let note = || write_atomically(&mark, seconds(now).to_string().as_bytes());
    let last = read_optional(&mark)?.and_then(|text| text.trim().parse::<u64>().ok());
    if last.is_none() {
        // A store begins in one pack.
        note()?;
    }
    let everything = last.is_some_and(|last| seconds(now).saturating_sub(last) >= FULLY.as_secs());
    if !everything && !is_untidy(repos, store).await? {
        return Ok(Packing::NotNeeded);
    }
    let Some(_alone) = repos.locks.alone(store.project) else { return Ok(Packing::Busy) };
    remove_unfinished(&store.dir, now)?;
    let call = repos.git.call("packing the repository").on(&store.dir).config("pack.threads", "1").config("pack.windowMemory", "256m");
    let call = call.config("repack.writeBitmaps", "false").args(["repack", "-d", "-l", "--quiet"]);
    if !everything {
        call.arg("--geometric=2").deadline(GIT_NETWORK).run().await?;
        return Ok(Packing::Joined);
    }
    // Noted before it is done: a store that is too large for the deadline must not try all day.
    note()?;
    let expiry = format!("--cruft-expiration=@{} +0000", seconds(now).saturating_sub(TRASH_KEEP.as_secs()));
    call.args(["--cruft", &expiry]).deadline(GIT_CLONE).run().await?;
    Ok(Packing::Everything)
}

async fn is_untidy(repos: &Repos, store: &Store) -> Result<bool, GitError> {
    let listed = repos.git.call("counting objects").on(&store.dir).args(["count-objects", "-v"]).run().await?;
    let listed = String::from_utf8_lossy(&listed);
    let number = |name: &str| {
        let mut lines = listed.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| *key == name).and_then(|(_, value)| value.parse::<u64>().ok())
    };
    match (number("count"), number("packs")) {
        (Some(loose), Some(packs)) => Ok(loose >= LOOSE || packs >= PACKS),
        _ => Err(GitError::broken("counting objects", "git printed something unexpected; check the git version")),
    }
}

/// Removes what gits that were stopped half-way had begun to write: packs, and the index files of exports.
fn remove_unfinished(store: &Path, now: SystemTime) -> Result<(), GitError> {
    let packs = entries(&store.join("objects/pack")).into_iter().map(|path| (path, [".tmp-", "tmp_"].as_slice()));
    let indexes = entries(store).into_iter().map(|path| (path, ["roboco-export-"].as_slice()));
    for (path, beginnings) in packs.chain(indexes) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if beginnings.iter().any(|beginning| name.starts_with(beginning)) && is_older(&path, ABANDONED, now) {
            remove_optional(&path)?;
        }
    }
    Ok(())
}

/// What lies in a directory; nothing, when there is none.
fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
