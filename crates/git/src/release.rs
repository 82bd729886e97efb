//! Taking trees and branches away without losing anything.
//!
//! What is not saved goes to a rescue ref first; then the tree is moved out of sight in one step; only then is it deleted. Deleting
//! never follows a link. What a ref cannot hold, a repository inside the tree for instance, stays in the trash.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use roboco_domain::id::ProjectId;
use roboco_domain::vcs::{BranchName, Oid};

use crate::error::{GitError, OrIo};
use crate::guard::Changes;
use crate::objects::{NewCommit, Person, oid, write_commit};
use crate::refs::{self, Expected};
use crate::repos::{Repos, Store, TreeName, branch_ref};
use crate::status::{self, Untracked};
use crate::tree::{Tree, read_optional, remove_optional};

/// Where unsaved work of trees is kept.
const RESCUE: &str = "refs/roboco/rescue";
/// Refs that are forgotten in one call.
const FORGOTTEN: usize = 1000;
/// Where the tips of branches are kept that were removed.
const ENDED: &str = "refs/roboco/ended";

/// What happens with changes that were not committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsaved {
    /// They are kept in a rescue ref.
    Rescue,
    /// They are thrown away; for trees that were made for that.
    Discard,
}

/// What became of a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Released {
    /// Refs that hold what was not saved.
    pub rescued: Vec<String>,
    /// Set when the tree holds something that no ref can hold, and so stays here.
    pub kept_at: Option<PathBuf>,
}

/// What became of a branch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ended {
    /// The ref that keeps the branch's last commit; `None` when there was no such branch any more.
    pub tip_at: Option<String>,
    /// What became of its tree.
    pub released: Released,
}

/// Whether everything in a tree is held by refs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    All,
    NotAll,
}

impl Repos {
    /// Takes a tree away. Its branch stays. A tree that is not there is fine.
    ///
    /// # Errors
    /// Faults of git and of the file system; asking again continues where it stopped.
    pub async fn release_tree(&self, project: ProjectId, name: &TreeName, unsaved: Unsaved) -> Result<Released, GitError> {
        let store = self.store(project)?;
        let _lock = self.locks.lock(project, &name.slug()).await;
        let tree = self.tree(&store, name);
        let mut released = Released::default();
        let mut held = Held::All;
        if tree.is_known() {
            released.rescued.extend(self.rescue_commits(&store, &tree).await?);
            if unsaved == Unsaved::Rescue && !tree.is_emptied() {
                match self.rescue_changes(&store, &tree).await {
                    Ok(None) => {}
                    Ok(Some((name, all))) => {
                        released.rescued.push(name);
                        held = all;
                    }
                    Err(error) => {
                        tracing::warn!(%error, tree = %tree.path.display(), "the changes cannot be kept in a ref; the tree stays in the trash");
                        held = Held::NotAll;
                    }
                }
            }
        }
        if tree.path.symlink_metadata().is_ok() {
            let bin = self.trash.join(format!("{project}-{}-{}", name.slug(), self.unique()));
            fs::create_dir(&bin).or_io("creating", &bin)?;
            let away = bin.join("tree");
            fs::rename(&tree.path, &away).or_io("moving away", &tree.path)?;
            match held {
                Held::All => remove_all(bin).await?,
                Held::NotAll => released.kept_at = Some(away),
            }
        }
        if tree.admin.exists() {
            remove_all(tree.admin).await?;
        }
        Ok(released)
    }

    /// Takes a branch and its tree away. Its last commit stays reachable by a ref of ours. A branch that is not there is fine.
    ///
    /// # Errors
    /// Faults of git and of the file system; asking again continues where it stopped.
    pub async fn remove_branch(&self, project: ProjectId, branch: &BranchName) -> Result<Ended, GitError> {
        let store = self.store(project)?;
        let name = TreeName::Branch(branch.clone());
        let released = self.release_tree(project, &name, Unsaved::Rescue).await?;
        let _lock = self.locks.lock(project, &name.slug()).await;
        let own = branch_ref(branch);
        let Some(tip) = refs::read(&store.dir, &own)? else { return Ok(Ended { tip_at: None, released }) };
        let kept = format!("{ENDED}/{}/{}", ref_part(&name), tip.short());
        // One transaction: at no moment is the commit without a name.
        let steps = format!("update {kept}\0{tip}\0\0delete {own}\0{tip}\0");
        self.git
            .call(format!("removing branch {branch}"))
            .on(&store.dir)
            .args(["update-ref", "--no-deref", "-z", "--stdin"])
            .stdin(steps)
            .run()
            .await?;
        Ok(Ended { tip_at: Some(kept), released })
    }

    /// Deletes what has lain in the trash for longer than `keep`. Returns how many trees were deleted.
    ///
    /// # Errors
    /// `Io` when the trash cannot be read or emptied.
    pub async fn empty_trash(&self, keep: Duration, now: SystemTime) -> Result<usize, GitError> {
        let mut deleted = 0;
        for entry in fs::read_dir(&self.trash).or_io("reading", &self.trash)? {
            let path = entry.or_io("reading", &self.trash)?.path();
            if is_older(&path, keep, now) {
                remove_all(path).await?;
                deleted += 1;
            }
        }
        Ok(deleted)
    }

    /// Forgets refs of rescued work and of removed branches that are older than `keep`, a thousand at most. Returns how many were forgotten.
    ///
    /// # Errors
    /// Faults of git.
    pub async fn forget_rescues(&self, project: ProjectId, keep: Duration, now: SystemTime) -> Result<usize, GitError> {
        let store = self.store(project)?;
        // The log of a ref is written when the ref is made, so its age is the age of the rescue, not of the commit.
        let logs = store.dir.join("logs");
        let mut old = Vec::new();
        for kind in [RESCUE, ENDED] {
            old_files(&logs.join(kind), keep, now, &mut old);
        }
        old.truncate(FORGOTTEN);
        let names: Vec<String> = old.iter().filter_map(|file| file.strip_prefix(&logs).ok()?.to_str().map(str::to_owned)).collect();
        if !names.is_empty() {
            let steps: String = names.iter().map(|name| format!("delete {name}\0\0")).collect();
            let call = self.git.call("forgetting old rescues").on(&store.dir);
            call.args(["update-ref", "--no-deref", "-z", "--stdin"]).stdin(steps).run().await?;
        }
        Ok(names.len())
    }

    /// Commits that somebody made in the tree without the server: on a detached HEAD no branch holds them.
    async fn rescue_commits(&self, store: &Store, tree: &Tree) -> Result<Option<String>, GitError> {
        let head = read_optional(&tree.admin.join("HEAD"))?.unwrap_or_default();
        let Ok(head) = Oid::new(head.trim()) else { return Ok(None) };
        let made_at = read_optional(&tree.ready_mark())?.unwrap_or_default();
        if made_at.trim() == head.as_str() {
            return Ok(None);
        }
        self.rescue(store, tree, &head).await.map(Some)
    }

    async fn rescue_changes(&self, store: &Store, tree: &Tree) -> Result<Option<(String, Held)>, GitError> {
        if let TreeName::Branch(branch) = &tree.name
            && refs::read(&store.dir, &branch_ref(branch))?.is_some()
        {
            self.finish_step(store, tree, branch).await?;
        }
        if status::dirty(self.git.call("looking for changes").on_tree(&tree.admin, &tree.path), Untracked::Counts).await?.is_empty() {
            return Ok(None);
        }
        let head = read_optional(&tree.admin.join("HEAD"))?.unwrap_or_default();
        let parent = match (Oid::new(head.trim()), &tree.name) {
            (Ok(detached), _) => detached,
            (Err(_), TreeName::Branch(branch)) => store.branch_tip(branch)?,
            (Err(_), TreeName::Review(_)) => return Err(GitError::broken("keeping unsaved work", "the tree's HEAD is damaged")),
        };
        self.snapshot(store, tree, &parent).await.map(Some)
    }

    /// Keeps the present content of a tree, untracked files included, as a commit on top of `parent` in a rescue ref.
    async fn snapshot_commit(&self, store: &Store, tree: &Tree, parent: &Oid) -> Result<(Oid, Held), GitError> {
        let draft = tree.draft()?;
        let call = |doing: &'static str| self.git.call(doing).on_tree(&tree.admin, &tree.path).index(&draft);
        call("keeping unsaved work").args(["add", "--all", "--", "."]).run().await?;
        let written = oid(&call("keeping unsaved work").arg("write-tree").line().await?)?;
        let args = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--ignore-submodules=none", parent.as_str(), written.as_str()];
        let changes = Changes::read(&self.git.call("keeping unsaved work").on(&store.dir).args(args).run().await?)?;
        let held = if changes.has_nested_repository() { Held::NotAll } else { Held::All };
        let text = format!("Unsaved work of {}\n", tree.name);
        let commit = NewCommit { tree: &written, parents: &[parent], author: &Person::roboco(), at: None, message: text };
        Ok((write_commit(&self.git, store, commit).await?, held))
    }

    pub(crate) async fn snapshot(&self, store: &Store, tree: &Tree, parent: &Oid) -> Result<(String, Held), GitError> {
        let made = self.snapshot_commit(store, tree, parent).await;
        remove_optional(&tree.draft_index())?;
        let (commit, held) = made?;
        Ok((self.rescue(store, tree, &commit).await?, held))
    }

    /// Names a commit in a rescue ref and makes sure that the name holds.
    async fn rescue(&self, store: &Store, tree: &Tree, commit: &Oid) -> Result<String, GitError> {
        let name = format!("{RESCUE}/{}/{}", ref_part(&tree.name), commit.short());
        refs::set(&self.git, &store.dir, &name, commit, Expected::Any, "rescue").await?;
        if refs::read(&store.dir, &name)?.as_ref() != Some(commit) {
            return Err(GitError::broken("keeping unsaved work", format!("{name} does not hold the commit; nothing was deleted")));
        }
        tracing::info!(project = %store.project, "unsaved work of {} is kept in {name}", tree.name);
        Ok(name)
    }
}

/// A tree's name as one component of a ref.
fn ref_part(name: &TreeName) -> String {
    let slug: String = name.slug().chars().map(|c| if matches!(c, '@' | '=') { '-' } else { c }).collect();
    // Two dots in a row or an ending of `.lock` are not accepted in a ref.
    format!("t-{}-t", slug.replace("..", ".-"))
}

pub(crate) fn is_older(path: &Path, keep: Duration, now: SystemTime) -> bool {
    let modified = fs::symlink_metadata(path).and_then(|meta| meta.modified());
    modified.ok().and_then(|at| now.duration_since(at).ok()).is_some_and(|age| age > keep)
}

fn old_files(dir: &Path, keep: Duration, now: SystemTime, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            old_files(&path, keep, now, found);
        } else if is_older(&path, keep, now) {
            found.push(path);
        }
    }
}

/// Deletes a directory and everything in it, read-only folders included. Links are deleted, never followed.
pub(crate) async fn remove_all(dir: PathBuf) -> Result<(), GitError> {
    let work = tokio::task::spawn_blocking(move || {
        if let Err(first) = fs::remove_dir_all(&dir) {
            if first.kind() == std::io::ErrorKind::NotFound {
                return Ok(());
            }
            open_up(&dir);
            fs::remove_dir_all(&dir).or_io("removing", &dir)?;
        }
        Ok(())
    });
    work.await.map_err(|error| GitError::broken("removing a directory", error.to_string()))?
}

/// Makes every folder below `dir` writable; some package managers write-protect what they install.
fn open_up(dir: &Path) {
    let is_folder = fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir());
    if !is_folder || fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).is_err() {
        return;
    }
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        open_up(&entry.path());
    }
}
