//! Bringing a target's new commits into a task's branch.

use roboco_domain::id::ProjectId;
use roboco_domain::time::Timestamp;
use roboco_domain::vcs::{Base, BranchName, Oid};

use crate::error::{GitError, Refusal};
use crate::merge::Merge;
use crate::objects::{NewCommit, Person, Trailer, message, write_commit};
use crate::path::{RepoPath, some_paths};
use crate::repos::{Repos, TreeName};
use crate::status::{self, Untracked};
use crate::tree::{Step, read_optional, write_atomically};

/// What to merge into a branch, and in whose name.
#[derive(Debug, Clone)]
pub struct SyncRequest {
    /// The project.
    pub project: ProjectId,
    /// The branch that gets the new commits.
    pub branch: BranchName,
    /// Where they come from.
    pub target: Base,
    /// Lines at the end of the merge's message.
    pub trailers: Vec<Trailer>,
    /// Who asked for it.
    pub author: Person,
    /// When it was asked for.
    pub at: Timestamp,
}

/// How bringing in the target went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyncOutcome {
    /// The branch already holds everything.
    UpToDate,
    /// The branch ends in this merge now, and the tree shows it.
    Merged(Oid),
    /// The tree shows the merge with conflict markers in these files. The next commit, once they are resolved, is the merge.
    Conflict(Vec<RepoPath>),
}

impl Repos {
    /// Merges the target's tip into a branch with a tree. Commits of the branch keep their ids.
    ///
    /// # Errors
    /// `DirtyTree` when there are uncommitted changes, `NoTree` and `NoBranch`; faults of git and of the network.
    pub async fn sync_branch(&self, request: &SyncRequest) -> Result<SyncOutcome, GitError> {
        let SyncRequest { project, branch, target, trailers, author, at } = request;
        let store = self.store(*project)?;
        let _lock = self.locks.lock(*project, &TreeName::Branch(branch.clone()).slug()).await;
        let tree = self.ready_tree(&store, branch).await?;
        if tree.merging()?.is_some() {
            let listed = read_optional(&tree.conflicts_file())?.unwrap_or_default();
            return Ok(SyncOutcome::Conflict(listed.split('\0').filter(|path| !path.is_empty()).map(unhex).collect()));
        }
        self.refresh(&store, target).await?;
        let (theirs, ours) = (store.tip(target)?, store.branch_tip(branch)?);
        if self.contains(&store, &ours, &theirs).await? {
            return Ok(SyncOutcome::UpToDate);
        }
        let dirty = status::dirty(self.git.call("looking for changes").on_tree(&tree.admin, &tree.path), Untracked::Counts).await?;
        if !dirty.is_empty() {
            return Err(Refusal::DirtyTree { branch: branch.clone(), paths: some_paths(&dirty) }.into());
        }
        let Merge { tree: merged, conflicts } = self.merge(&store, &ours, &theirs).await?;
        if !conflicts.is_empty() {
            let listed: Vec<String> = conflicts.iter().map(hex).collect();
            write_atomically(&tree.conflicts_file(), listed.join("\0").as_bytes())?;
            self.show_conflict(&store, &tree, Step::Conflict { head: ours, shown: merged, merging: theirs }).await?;
            return Ok(SyncOutcome::Conflict(conflicts));
        }
        let commit = NewCommit {
            tree: &merged,
            parents: &[&ours, &theirs],
            author,
            at: Some(*at),
            message: message(&format!("Merge {} into {branch}", target.branch), "", trailers),
        };
        let commit = write_commit(&self.git, &store, commit).await?;
        self.advance(&store, &tree, branch, &ours, &commit, "sync").await?;
        self.remember_tree(&commit, &merged);
        Ok(SyncOutcome::Merged(commit))
    }

    /// Gives up a merge with conflicts: the tree shows the branch again as it was. What was changed since is kept in a rescue ref,
    /// which is returned. A branch without such a merge is left alone.
    ///
    /// # Errors
    /// `NoTree`, and faults of git.
    pub async fn abort_sync(&self, project: ProjectId, branch: &BranchName) -> Result<Option<String>, GitError> {
        let store = self.store(project)?;
        let _lock = self.locks.lock(project, &TreeName::Branch(branch.clone()).slug()).await;
        let tree = self.ready_tree(&store, branch).await?;
        if tree.merging()?.is_none() {
            return Ok(None);
        }
        let head = store.branch_tip(branch)?;
        let (kept, _) = self.snapshot(&store, &tree, &head).await?;
        // With everything that is now safe in the index, going back also takes away the files that were new.
        let call = self.git.call("giving up a merge").on_tree(&tree.admin, &tree.path);
        call.args(["read-tree", "--reset", kept.as_str()]).run().await?;
        self.checkout(&tree, &head).await?;
        tree.end_merging()?;
        Ok(Some(kept))
    }
}

/// Paths are bytes; the list of them is a text file.
fn hex(path: &RepoPath) -> String {
    path.as_bytes().iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> RepoPath {
    let digit = |c: u8| char::from(c).to_digit(16).and_then(|d| u8::try_from(d).ok()).unwrap_or(0);
    let bytes: Vec<u8> = text.as_bytes().chunks(2).map(|pair| pair.iter().fold(0_u8, |sum, c| sum.wrapping_shl(4) | digit(*c))).collect();
    RepoPath::from_git(&bytes)
}
