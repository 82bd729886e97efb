//! Adding a project: is the origin usable, what may be done there, and the first copy of its history.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use roboco_domain::id::ProjectId;
use roboco_domain::limits::GIT_NETWORK;
use roboco_domain::vcs::{Base, BranchName, Home, Oid};

use crate::error::{GitError, OrIo, Refusal};
use crate::objects::oid;
use crate::origin::{Access, Credential, Origin};
use crate::repos::{Fetch, Repos, Store};

/// What was found out about an origin without changing anything anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The origin.
    pub origin: Origin,
    /// The branch its HEAD is on.
    pub default_branch: BranchName,
    /// Tip of that branch.
    pub tip: Oid,
    /// What may be done there.
    pub access: Access,
}

/// A project that is ready to be worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// What the origin is.
    pub probe: Probe,
    /// What will not work as in an ordinary clone.
    pub warnings: Vec<Warning>,
}

/// Something in a repository that agents will not see as usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// There are submodules.
    #[error("this repository has submodules: their content is not fetched, and changes of a submodule are blocked")]
    Submodules,
    /// Some files are kept in LFS.
    #[error("this repository keeps files in Git LFS: agents see the small pointer files, not the content")]
    Lfs,
}

impl Repos {
    /// Looks at an origin: readable, not empty, which default branch, and whether work could land there.
    ///
    /// # Errors
    /// `Refused` with what to do when the origin is no repository, is empty, is shallow or cannot be read.
    pub async fn probe(&self, origin: &Origin, credential: &Credential) -> Result<Probe, GitError> {
        if let Origin::Folder(path) = origin {
            let git_dir = folder_git_dir(path).ok_or_else(|| Refusal::NotARepository(path.clone()))?;
            if git_dir.join("shallow").exists() {
                let why = "it is a shallow clone: run `git fetch --unshallow` there first";
                return Err(Refusal::BadOrigin { origin: origin.to_string(), why }.into());
            }
        }
        let call = self.git.call(format!("reading {origin}")).args(["ls-remote", "--symref"]).args(origin.upload_pack(&self.git));
        let call = origin.open(call, credential).arg("--").arg(origin.location()).args(["HEAD", "refs/heads/*"]);
        let answer = call.deadline(GIT_NETWORK).answer().await?;
        if answer.code != Some(0) {
            let refusal = match origin {
                Origin::Folder(path) if answer.said.contains("does not appear to be a git repository") => {
                    Refusal::NotARepository(path.clone())
                }
                Origin::Folder(_) | Origin::Url(_) => Refusal::Unreadable { origin: origin.to_string(), said: answer.said },
            };
            return Err(refusal.into());
        }
        let (default_branch, tip) = read_head(origin, &String::from_utf8_lossy(&answer.stdout.into_bytes()))?;
        let access = self.access(origin, credential).await?;
        Ok(Probe { origin: origin.clone(), default_branch, tip, access })
    }

    /// Adds a project: makes its bare store and copies the origin's branches into it. Nothing at the origin changes. Adding the same
    /// project again refreshes it; after a crash it finishes what was begun.
    ///
    /// # Errors
    /// Those of [`Repos::probe`], `OtherOrigin` when the project already has another one, and faults of the copy.
    pub async fn add(&self, project: ProjectId, origin: &Origin, credential: Credential) -> Result<Added, GitError> {
        let probe = self.probe(origin, &credential).await?;
        self.set_credential(project, credential);
        let _lock = self.locks.lock(project, "add").await;
        let dir = self.store_path(project);
        let (default_branch, new) = (probe.default_branch.clone(), self.repos.join(format!(".new-{project}")));
        let store = if dir.is_dir() {
            let known = self.store(project)?;
            if known.origin != *origin {
                return Err(Refusal::OtherOrigin(known.origin.to_string()).into());
            }
            Store { default_branch, ..known }
        } else {
            if new.exists() {
                std::fs::remove_dir_all(&new).or_io("removing", &new)?;
            }
            let format = if probe.tip.as_str().len() == 64 { "--object-format=sha256" } else { "--object-format=sha1" };
            self.git.call("making a repository").args(["init", "--quiet", "--bare", "--template=", format, "--"]).arg(&new).run().await?;
            Store { project, dir: new.clone(), origin: origin.clone(), default_branch }
        };
        self.fetch(&store, Fetch::Everything).await?;
        write_origin(&store)?;
        if store.dir == new {
            std::fs::rename(&new, &dir).or_io("renaming", &new)?;
        }
        let store = Store { dir, ..store };
        let tip = store.tip(&Base { branch: store.default_branch.clone(), home: Home::Origin })?;
        let warnings = self.oddities(&store, &tip).await?;
        Ok(Added { probe: Probe { tip, ..probe }, warnings })
    }

    /// The default branch of a project's origin as it was when the project was added or refreshed.
    ///
    /// # Errors
    /// `UnknownProject` when it was never added.
    pub fn default_branch(&self, project: ProjectId) -> Result<BranchName, GitError> {
        Ok(self.store(project)?.default_branch)
    }

    /// Whether work can land at the origin. A dry run of a push asks for write access and writes nothing.
    async fn access(&self, origin: &Origin, credential: &Credential) -> Result<Access, GitError> {
        if let Origin::Folder(path) = origin {
            let objects = folder_git_dir(path).unwrap_or_else(|| path.clone()).join("objects");
            let writable = rustix::fs::access(&objects, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok();
            let why = || format!("{} is not writable for this user: work can be read from there but cannot land", objects.display());
            return Ok(if writable { Access::Write } else { Access::ReadOnly(why()) });
        }
        // A push needs a repository to push from; an empty one and a deletion of nothing need no objects.
        let scratch = self.repos.join(format!(".probe-{}", self.unique()));
        self.git.call("making a repository").args(["init", "--quiet", "--bare", "--template=", "--"]).arg(&scratch).run().await?;
        let call = self.git.call(format!("asking {origin} for write access")).on(&scratch).args([
            "push",
            "--dry-run",
            "--porcelain",
            "--no-verify",
        ]);
        let call = origin.open(call, credential).arg("--").arg(origin.location()).arg(":refs/heads/roboco-write-check");
        let answer = call.deadline(GIT_NETWORK).answer().await;
        if let Err(error) = std::fs::remove_dir_all(&scratch) {
            tracing::warn!(%error, path = %scratch.display(), "a scratch repository stays behind");
        }
        let answer = answer?;
        // A remote that lets us in and then says that there is nothing to delete has granted the access.
        if answer.code == Some(0) || answer.said.contains("remote ref does not exist") {
            return Ok(Access::Write);
        }
        Ok(Access::ReadOnly(format!(
            "{origin} does not accept pushes with this credential ({}): work can be read but cannot land",
            answer.said
        )))
    }

    async fn oddities(&self, store: &Store, tip: &Oid) -> Result<Vec<Warning>, GitError> {
        let mut warnings = Vec::new();
        let list = self.git.call("listing files").on(&store.dir).args(["ls-tree", "-r", "-z", "--full-tree", tip.as_str()]);
        let answer = list.keep(256 * 1024 * 1024).answer().await?;
        let bytes = answer.stdout.into_bytes();
        let mut attributes = false;
        let mut submodules = false;
        for entry in bytes.split(|b| *b == 0) {
            submodules |= entry.starts_with(b"160000 ");
            attributes |= entry.ends_with(b".gitattributes");
        }
        if submodules {
            warnings.push(Warning::Submodules);
        }
        if attributes {
            let grep = self.git.call("looking for LFS files").on(&store.dir).env("GIT_LITERAL_PATHSPECS", "0");
            let grep = grep.args(["grep", "-q", "-F", "-e", "filter=lfs", tip.as_str(), "--", ":(glob)**/.gitattributes"]);
            if grep.answer().await?.code == Some(0) {
                warnings.push(Warning::Lfs);
            }
        }
        Ok(warnings)
    }
}

/// Where a folder keeps its repository, if it is the top of one.
pub(crate) fn folder_git_dir(path: &Path) -> Option<PathBuf> {
    let is_repository = |dir: &Path| dir.join("HEAD").is_file() && (dir.join("objects").is_dir() || dir.join("commondir").is_file());
    let inner = path.join(".git");
    if is_repository(&inner) {
        return Some(inner);
    }
    if inner.is_file() {
        let text = std::fs::read(&inner).ok()?;
        let target = text.strip_prefix(b"gitdir: ")?.trim_ascii_end();
        let dir = path.join(OsStr::from_bytes(target));
        let common = std::fs::read_to_string(dir.join("commondir")).map_or_else(|_| dir.clone(), |common| dir.join(common.trim()));
        return is_repository(&common).then_some(common);
    }
    is_repository(path).then(|| path.to_owned())
}

fn read_head(origin: &Origin, listing: &str) -> Result<(BranchName, Oid), GitError> {
    let lines: Vec<(&str, &str)> = listing.lines().filter_map(|line| line.split_once('\t')).collect();
    if !lines.iter().any(|(_, name)| name.starts_with("refs/heads/")) {
        return Err(Refusal::EmptyRepository(origin.to_string()).into());
    }
    let detached = || Refusal::DetachedOrigin(origin.to_string());
    let head = lines.iter().find_map(|(value, name)| if *name == "HEAD" { value.strip_prefix("ref: refs/heads/") } else { None });
    let branch = BranchName::new(head.ok_or_else(detached)?).map_err(|_| detached())?;
    let full = format!("refs/heads/{branch}");
    let tip = lines.iter().find(|(_, name)| *name == full).map(|(value, _)| oid(value)).ok_or_else(detached)??;
    Ok((branch, tip))
}

const ORIGIN_FILE: &str = "roboco-origin";

fn write_origin(store: &Store) -> Result<(), GitError> {
    let mut text = match &store.origin {
        Origin::Folder(_) => b"folder ".to_vec(),
        Origin::Url(_) => b"url ".to_vec(),
    };
    text.extend_from_slice(store.origin.location().as_bytes());
    text.extend_from_slice(format!("\nbranch {}\n", store.default_branch).as_bytes());
    crate::tree::write_atomically(&store.dir.join(ORIGIN_FILE), &text)
}

pub(crate) fn read_origin(store: &Path) -> Result<(Origin, BranchName), GitError> {
    let file = store.join(ORIGIN_FILE);
    let text = std::fs::read(&file).or_io("reading", &file)?;
    let mut origin = None;
    let mut branch = None;
    for line in text.split(|b| *b == b'\n') {
        if let Some(path) = line.strip_prefix(b"folder ") {
            origin = Some(Origin::Folder(std::ffi::OsString::from_vec(path.to_vec()).into()));
        } else if let Some(url) = line.strip_prefix(b"url ") {
            origin = Some(Origin::Url(String::from_utf8_lossy(url).into_owned()));
        } else if let Some(name) = line.strip_prefix(b"branch ") {
            branch = BranchName::new(String::from_utf8_lossy(name)).ok();
        }
    }
    origin.zip(branch).ok_or_else(|| {
        GitError::broken("reading where a project comes from", format!("{} is damaged; add the project again", file.display()))
    })
}
