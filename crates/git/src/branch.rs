//! Cutting a task's branch and looking at its tree.

use std::path::PathBuf;

use roboco_domain::effect::TreeFor;
use roboco_domain::id::ProjectId;
use roboco_domain::vcs::{Base, BranchName, Home, Oid};

use crate::error::{GitError, Refusal};
use crate::objects::oid;
use crate::path::RepoPath;
use crate::refs;
use crate::repos::{Fetch, Repos, Store, TreeName, branch_ref};
use crate::status::{self, Untracked};
use crate::tree::Head;

/// A branch, and its writable tree if somebody works in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Where the branch left its base.
    pub base: Oid,
    /// Tip of the branch.
    pub head: Oid,
    /// Tree of the tip; `None` when the branch has no commit of its own.
    pub tree: Option<Oid>,
    /// Where the writable tree of the branch lies; nothing was made there for a branch that work is only merged into.
    pub tree_path: PathBuf,
    /// Whether the branch was there before.
    pub reused: bool,
}

/// A tree as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeState {
    /// Tip of the branch.
    pub head: Oid,
    /// Tree of that commit.
    pub tree: Oid,
    /// Paths that differ from the commit, untracked ones included, ignored ones not; the first thousand.
    pub dirty: Vec<RepoPath>,
    /// Set while a merge with conflicts waits to be resolved.
    pub merging: Option<Oid>,
}

impl Repos {
    /// Cuts a branch at the tip of `from`, and gives an author a writable tree of it. An existing branch is reused with everything on
    /// it, and so is its tree. Calling again after a crash gives the same branch and the same tree. A base of the store is taken as it is
    /// there; the origin is not spoken to.
    ///
    /// # Errors
    /// `NoBranch` when `from` does not exist; faults of git and of the network.
    pub async fn cut_branch(&self, project: ProjectId, branch: &BranchName, from: &Base, wanted: TreeFor) -> Result<Cut, GitError> {
        let store = self.store(project)?;
        let name = TreeName::Branch(branch.clone());
        let tree = self.tree(&store, &name);
        let _lock = self.locks.lock(project, &name.slug()).await;
        let own = branch_ref(branch);
        let reused = refs::read(&store.dir, &own)?.is_some();
        match from.home {
            Home::Origin => {
                let also_as = (!reused).then_some(branch);
                self.fetch(&store, Fetch::One { branch: &from.branch, also_as }).await?;
            }
            Home::Store if reused => {}
            Home::Store => {
                let tip = store.tip(from)?;
                let call = self.git.call(format!("cutting branch {branch}")).on(&store.dir);
                call.args(["update-ref", "--no-deref", "-m", "cut", &own, tip.as_str(), &"0".repeat(tip.as_str().len())]).run().await?;
            }
        }
        let head = store.branch_tip(branch)?;
        if !reused {
            // Nothing was committed on a branch that is this young, so nobody has to search it.
            self.set_known_requests(&store, branch, &head, Vec::new());
        }
        let base = if reused { self.merge_base(&store, &store.tip(from)?, &head).await? } else { head.clone() };
        match wanted {
            TreeFor::Author => {
                self.ensure_tree(&store, &tree, Head::Branch(branch), &head).await?;
                self.finish_step(&store, &tree, branch).await?;
            }
            TreeFor::Assembly => {}
        }
        let committed = if head == base { None } else { Some(self.tree_of(&store, &head).await?) };
        Ok(Cut { base, head, tree: committed, tree_path: tree.path, reused })
    }

    /// The tip of a branch and what its tree holds beyond it.
    ///
    /// # Errors
    /// `NoTree` when the branch has none.
    pub async fn tree_state(&self, project: ProjectId, branch: &BranchName) -> Result<TreeState, GitError> {
        let store = self.store(project)?;
        let _lock = self.locks.lock(project, &TreeName::Branch(branch.clone()).slug()).await;
        let tree = self.ready_tree(&store, branch).await?;
        let head = store.branch_tip(branch)?;
        let dirty = status::dirty(self.git.call("looking for changes").on_tree(&tree.admin, &tree.path), Untracked::Counts).await?;
        Ok(TreeState { tree: self.tree_of(&store, &head).await?, head, dirty, merging: tree.merging()? })
    }

    /// The tip of a branch of the store, without starting a process. `None` when there is no such branch.
    ///
    /// # Errors
    /// `UnknownProject`, or `Broken` when the ref is damaged.
    pub fn branch_head(&self, project: ProjectId, branch: &BranchName) -> Result<Option<Oid>, GitError> {
        refs::read(&self.store(project)?.dir, &branch_ref(branch))
    }

    pub(crate) async fn merge_base(&self, store: &Store, one: &Oid, other: &Oid) -> Result<Oid, GitError> {
        if one == other {
            return Ok(one.clone());
        }
        let call = self.git.call("looking for the common ancestor").on(&store.dir);
        let answer = call.args(["merge-base", one.as_str(), other.as_str()]).answer().await?;
        match answer.code {
            Some(0) => oid(String::from_utf8_lossy(&answer.stdout.into_bytes()).trim()),
            Some(1) => Err(Refusal::Invalid(format!(
                "{} and {} have no common history: cut a new branch and bring the work over",
                one.short(),
                other.short()
            ))
            .into()),
            _ => Err(GitError::Command { doing: "looking for the common ancestor".to_owned(), said: answer.said }),
        }
    }
}
