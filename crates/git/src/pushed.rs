//! Moving a target to a prepared commit: the one place where an origin changes, or a branch of assembled work.

use std::path::Path;

use roboco_domain::id::ProjectId;
use roboco_domain::limits::GIT_NETWORK;
use roboco_domain::vcs::{Base, BranchName, Home, Oid};

use crate::error::GitError;
use crate::origin::Origin;
use crate::path::{RepoPath, some_paths};
use crate::refs::{self, Expected};
use crate::repos::{Repos, Store, TreeName, branch_ref};
use crate::status::{self, Untracked};

/// How moving a target went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pushed {
    /// The target holds the commit.
    Landed,
    /// The target is no longer where the commit was built on: prepare the landing again.
    Moved,
    /// The origin refused; nothing changed there.
    Refused(PushRefusal),
}

/// Why an origin refused. Every text says what a person can do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PushRefusal {
    /// The branch is checked out in a folder with uncommitted changes.
    #[error("your checkout has uncommitted changes{}: commit or stash them, then approve again", listed(paths))]
    DirtyCheckout {
        /// The changed paths.
        paths: Vec<RepoPath>,
    },
    /// Files that git does not know stand where new ones must go.
    #[error("files in your checkout that git does not know are in the way{}: move them away, then approve again", listed(paths))]
    InTheWay {
        /// The files.
        paths: Vec<RepoPath>,
    },
    /// The branch is protected at the origin.
    #[error("the origin protects this branch ({0}): allow this account to push to it, or merge there yourself")]
    Protected(String),
    /// The credential may not write.
    #[error("the origin does not accept a push with this credential ({0}): give one that may write, then approve again")]
    NoAccess(String),
}

fn listed(paths: &[RepoPath]) -> String {
    if paths.is_empty() { String::new() } else { format!(" ({})", some_paths(paths)) }
}

/// What git's answer to a push means.
#[derive(Debug, PartialEq, Eq)]
enum Answered {
    Moved,
    Dirty,
    InTheWay,
    Protected(String),
    NoAccess(String),
    Fault,
}

impl Repos {
    /// Moves the target to `commit` if it is still at `expected_base`; `commit` must descend from it. Asking again after the answer
    /// was lost gives `Landed`.
    ///
    /// In a folder where the branch is checked out, files move together with the branch; untracked files stay. A target that lives in the
    /// store moves there, and its tree with it if it has one; the origin is not spoken to.
    ///
    /// # Errors
    /// Faults of git and of the network; the target may then have moved or not, so ask again.
    pub async fn push_landing(&self, project: ProjectId, target: &Base, commit: &Oid, expected_base: &Oid) -> Result<Pushed, GitError> {
        let store = self.store(project)?;
        match target.home {
            Home::Origin => self.push_to_origin(&store, target, commit, expected_base).await,
            Home::Store => self.move_own_branch(&store, &target.branch, commit, expected_base).await,
        }
    }

    async fn push_to_origin(&self, store: &Store, target: &Base, commit: &Oid, expected: &Oid) -> Result<Pushed, GitError> {
        let branch = &target.branch;
        let doing = format!("pushing {} to {branch} of {}", commit.short(), store.origin);
        let call =
            self.git.call(doing.clone()).on(&store.dir).deadline(GIT_NETWORK).args(["push", "--porcelain", "--no-verify", "--no-signed"]);
        // The lease is the compare; the commit's parent is the expected tip, so this is always a fast-forward.
        let call = call.arg(format!("--force-with-lease=refs/heads/{branch}:{expected}")).args(store.origin.receive_pack(&self.git));
        let call = store.origin.open(call, &self.credential(store.project)).arg("--").arg(store.origin.location());
        let answer = call.arg(format!("{commit}:refs/heads/{branch}")).uninterrupted().answer().await?;
        if answer.code == Some(0) {
            return Ok(Pushed::Landed);
        }
        let porcelain = String::from_utf8_lossy(&answer.stdout.into_bytes()).into_owned();
        match classify(&porcelain, &answer.said) {
            Answered::Dirty => Ok(Pushed::Refused(PushRefusal::DirtyCheckout { paths: self.dirty_at_origin(store).await })),
            Answered::InTheWay => {
                let paths = self.in_the_way(store, expected, commit).await;
                Ok(Pushed::Refused(PushRefusal::InTheWay { paths }))
            }
            Answered::Protected(said) => Ok(Pushed::Refused(PushRefusal::Protected(said))),
            Answered::NoAccess(said) => Ok(Pushed::Refused(PushRefusal::NoAccess(said))),
            Answered::Moved => {
                self.refresh(store, target).await?;
                let tip = store.tip(target)?;
                if self.contains(store, &tip, commit).await? {
                    Ok(Pushed::Landed)
                } else if tip != *expected {
                    Ok(Pushed::Moved)
                } else {
                    Err(GitError::Command { doing, said: answer.said })
                }
            }
            Answered::Fault => Err(GitError::Command { doing, said: answer.said }),
        }
    }

    async fn move_own_branch(&self, store: &Store, branch: &BranchName, commit: &Oid, expected: &Oid) -> Result<Pushed, GitError> {
        let name = TreeName::Branch(branch.clone());
        let _lock = self.locks.lock(store.project, &name.slug()).await;
        let tree = self.tree(store, &name);
        if tree.exists() {
            self.finish_step(store, &tree, branch).await?;
        }
        let tip = store.branch_tip(branch)?;
        if tip != *expected {
            let landed = self.contains(store, &tip, commit).await?;
            return Ok(if landed { Pushed::Landed } else { Pushed::Moved });
        }
        if !tree.exists() {
            refs::set(&self.git, &store.dir, &branch_ref(branch), commit, Expected::At(expected), "land").await?;
            return Ok(Pushed::Landed);
        }
        let call = self.git.call("looking for changes").on_tree(&tree.admin, &tree.path);
        let paths = status::dirty(call, Untracked::Counts).await?;
        if !paths.is_empty() {
            return Ok(Pushed::Refused(PushRefusal::DirtyCheckout { paths }));
        }
        self.advance(store, &tree, branch, expected, commit, "land").await?;
        Ok(Pushed::Landed)
    }

    /// The changed paths of the folder that is the origin. Only for a sentence: not finding them changes nothing.
    async fn dirty_at_origin(&self, store: &Store) -> Vec<RepoPath> {
        self.status_at_origin(store, Untracked::Ignored).await
    }

    async fn in_the_way(&self, store: &Store, base: &Oid, commit: &Oid) -> Vec<RepoPath> {
        let Ok(new) = self.changed_paths(store, base, commit).await else { return Vec::new() };
        let Origin::Folder(folder) = &store.origin else { return Vec::new() };
        let known = self.status_at_origin(store, Untracked::Counts).await;
        known.into_iter().filter(|path| new.contains(path) && path.below(folder).symlink_metadata().is_ok()).collect()
    }

    async fn status_at_origin(&self, store: &Store, untracked: Untracked) -> Vec<RepoPath> {
        let Origin::Folder(folder) = &store.origin else { return Vec::new() };
        if !Path::new(folder).join(".git").exists() {
            return Vec::new();
        }
        let listed = status::dirty(self.git.call("looking for changes at the origin").within(folder), untracked).await;
        listed.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot list the changes at the origin");
            Vec::new()
        })
    }
}

fn classify(porcelain: &str, said: &str) -> Answered {
    let has = |text: &str, any: &[&str]| any.iter().any(|part| text.contains(part));
    let Some(line) = porcelain.lines().find(|line| line.starts_with("!\t")) else {
        const DENIED: &[&str] = &[
            "error: 403",
            "error: 401",
            "Authentication failed",
            "Permission denied",
            "could not read Username",
            "ccess denied",
            "not allowed to push",
            "Write access to repository not granted",
            "Permission to ",
        ];
        return if has(said, DENIED) { Answered::NoAccess(said.to_owned()) } else { Answered::Fault };
    };
    let reason = line.rsplit('\t').next().unwrap_or_default();
    if has(reason, &["Working directory has", "Working tree has", "Up-to-date check failed"]) {
        Answered::Dirty
    } else if has(reason, &["Could not update working tree"]) {
        Answered::InTheWay
    } else if has(
        reason,
        &["stale info", "fetch first", "non-fast-forward", "needs force", "incorrect old value", "failed to update ref", "cannot lock ref"],
    ) {
        Answered::Moved
    } else if has(said, &["insufficient permission", "Permission denied"]) {
        Answered::NoAccess(said.to_owned())
    } else if has(reason, &["unpacker error", "atomic", "failure"]) && !has(reason, &["declined", "protected"]) {
        Answered::Fault
    } else if has(reason, &["remote rejected"]) {
        Answered::Protected(if said.is_empty() { reason.to_owned() } else { said.to_owned() })
    } else {
        Answered::Fault
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_origins_are_understood() {
        let protected = "remote: error: GH006: Protected branch update failed for refs/heads/main.";
        for (reason, said, answered) in [
            ("[remote rejected] (Working directory has unstaged changes)", "", Answered::Dirty),
            ("[remote rejected] (Working directory has staged changes)", "", Answered::Dirty),
            ("[remote rejected] (Could not update working tree to new HEAD)", "", Answered::InTheWay),
            ("[rejected] (stale info)", "", Answered::Moved),
            ("[rejected] (fetch first)", "", Answered::Moved),
            ("[remote rejected] (incorrect old value provided)", "", Answered::Moved),
            ("[remote rejected] (protected branch hook declined)", protected, Answered::Protected(protected.to_owned())),
            (
                "[remote rejected] (pre-receive hook declined)",
                "",
                Answered::Protected("[remote rejected] (pre-receive hook declined)".to_owned()),
            ),
            ("[remote rejected] (unpacker error)", "error: No space left on device", Answered::Fault),
        ] {
            let porcelain = format!("To https://h/x\n!\tabc:refs/heads/main\t{reason}\nDone\n");
            assert_eq!(classify(&porcelain, said), answered, "{reason}");
        }
        for (said, denied) in [
            (
                "remote: Permission to a/b.git denied to c; fatal: unable to access 'https://h/a/b/': The requested URL returned error: 403",
                true,
            ),
            ("git@h: Permission denied (publickey).; fatal: Could not read from remote repository.", true),
            ("fatal: could not read Username for 'https://h': terminal prompts disabled", true),
            ("fatal: unable to access 'https://h/': Could not resolve host: h", false),
        ] {
            let expected = if denied { Answered::NoAccess(said.to_owned()) } else { Answered::Fault };
            assert_eq!(classify("", said), expected, "{said}");
        }
    }
}
