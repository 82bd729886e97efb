//! Merging two commits in the store, without any tree, and pinning what a review looks at.

use roboco_domain::id::ProjectId;
use roboco_domain::vcs::{Base, BranchName, Oid, Pin};

use crate::error::{GitError, Refusal};
use crate::objects::oid;
use crate::path::RepoPath;
use crate::repos::{Repos, Store};

/// How new the answer about the origin must be. What is known about a base in the store is always true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// Ask the origin now; a verdict or a landing is built on it.
    Fetch,
    /// What was seen last is good enough.
    Cached,
}

/// A pin, and what stands against merging it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinned {
    /// The commits looked at.
    pub pin: Pin,
    /// Paths that conflict; empty exactly when the pin has a merge tree.
    pub conflicts: Vec<RepoPath>,
}

/// The result of merging two commits.
pub(crate) struct Merge {
    /// The merged tree; with conflicts, one whose files hold conflict markers.
    pub(crate) tree: Oid,
    pub(crate) conflicts: Vec<RepoPath>,
}

impl Repos {
    /// Names the exact commits a review is for: the tip of `target`, `head`, and the tree of both merged.
    ///
    /// # Errors
    /// `NoBranch` when the target does not exist, `NoCommit` when `head` does not; faults of git and of the network.
    pub async fn pin(&self, project: ProjectId, target: &Base, head: &Oid, freshness: Freshness) -> Result<Pinned, GitError> {
        let store = self.store(project)?;
        if freshness == Freshness::Fetch {
            self.refresh(&store, target).await?;
        }
        let base = store.tip(target)?;
        let Merge { tree, conflicts } = self.merge(&store, &base, head).await?;
        let merge_tree = conflicts.is_empty().then_some(tree);
        Ok(Pinned { pin: Pin { base, head: head.clone(), merge_tree }, conflicts })
    }

    /// The tip of a base: what a branch that is cut from it now would begin with.
    ///
    /// # Errors
    /// `NoBranch` when it does not exist; faults of git and of the network.
    pub async fn base_head(&self, project: ProjectId, base: &Base, freshness: Freshness) -> Result<Oid, GitError> {
        let store = self.store(project)?;
        if freshness == Freshness::Fetch {
            self.refresh(&store, base).await?;
        }
        store.tip(base)
    }

    pub(crate) async fn merge(&self, store: &Store, into: &Oid, from: &Oid) -> Result<Merge, GitError> {
        let doing = format!("merging {} into {}", from.short(), into.short());
        let call = self.git.call(doing.clone()).on(&store.dir);
        let call = call.args(["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", into.as_str(), from.as_str()]);
        let answer = call.answer().await?;
        let bytes = answer.stdout.into_bytes();
        let mut fields = bytes.split(|b| *b == 0);
        // Git also ends with 1 when it cannot merge at all; only a tree on standard output means conflict.
        let tree = fields.next().and_then(|field| std::str::from_utf8(field).ok()).and_then(|text| oid(text.trim()).ok());
        match (answer.code, tree) {
            (Some(0), Some(tree)) => Ok(Merge { tree, conflicts: Vec::new() }),
            (Some(1), Some(tree)) => {
                let mut conflicts: Vec<RepoPath> = fields.filter(|path| !path.is_empty()).map(RepoPath::from_git).collect();
                conflicts.dedup();
                Ok(Merge { tree, conflicts })
            }
            _ if answer.said.contains("not something we can merge") => Err(Refusal::NoCommit(from.short().to_owned()).into()),
            _ if answer.said.contains("unrelated histories") => Err(Refusal::Invalid(format!(
                "{} and {} have no common history: cut a new branch and bring the work over",
                into.short(),
                from.short()
            ))
            .into()),
            _ => Err(GitError::Command { doing, said: answer.said }),
        }
    }

    /// Whether everything in `inner` is also in `outer`.
    pub(crate) async fn contains(&self, store: &Store, outer: &Oid, inner: &Oid) -> Result<bool, GitError> {
        if outer == inner {
            return Ok(true);
        }
        let doing = "comparing two commits";
        let call = self.git.call(doing).on(&store.dir).args(["merge-base", "--is-ancestor", inner.as_str(), outer.as_str()]);
        let answer = call.answer().await?;
        match answer.code {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(GitError::Command { doing: doing.to_owned(), said: answer.said }),
        }
    }

    /// Whether a branch lies behind its target, as it was last seen.
    ///
    /// # Errors
    /// `NoBranch` when one of them does not exist.
    pub async fn is_up_to_date(&self, project: ProjectId, branch: &BranchName, target: &Base) -> Result<bool, GitError> {
        let store = self.store(project)?;
        self.contains(&store, &store.branch_tip(branch)?, &store.tip(target)?).await
    }
}
