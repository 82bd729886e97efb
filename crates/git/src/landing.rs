//! Preparing what will land on a target: the merge commit that the target is then moved to.

use roboco_domain::id::ProjectId;
use roboco_domain::time::Timestamp;
use roboco_domain::vcs::{Base, Home, Oid};

use crate::error::GitError;
use crate::merge::Merge;
use crate::objects::{NewCommit, Person, Trailer, message, oid, write_commit};
use crate::path::RepoPath;
use crate::repos::{Repos, Store};

/// How work lands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// A commit with two parents; ancestry shows what was merged.
    Merge,
    /// One commit with all changes.
    Squash,
}

/// What to land, and in whose name.
#[derive(Debug, Clone)]
pub struct LandingRequest {
    /// The project.
    pub project: ProjectId,
    /// Where it lands.
    pub target: Base,
    /// The reviewed tip of the task's branch.
    pub head: Oid,
    /// First line of the message.
    pub subject: String,
    /// The rest of the message, may be empty.
    pub body: String,
    /// Lines at the end. `Task` among them recognises a landing whose answer was lost.
    pub trailers: Vec<Trailer>,
    /// Who approved it.
    pub author: Person,
    /// When it was approved; the same values give the same commit.
    pub at: Timestamp,
    /// Merge or squash. Only the origin's history can be squashed: a branch of assembled work shows by its ancestry what is in it, so
    /// there it is always a merge.
    pub method: Method,
}

/// What is to be done to land.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Landing {
    /// The commit exists in the store; the target can move to it after its tree has passed the gate.
    Ready {
        /// Tip of the target that it was built on.
        base: Oid,
        /// The commit.
        commit: Oid,
        /// Its tree.
        tree: Oid,
    },
    /// The two do not merge.
    Conflict {
        /// Tip of the target.
        base: Oid,
        /// The conflicting paths.
        paths: Vec<RepoPath>,
    },
    /// The target already holds this landing: an earlier move succeeded and its answer was lost.
    AlreadyLanded {
        /// The commit on the target.
        commit: Oid,
        /// Its tree.
        tree: Oid,
    },
}

/// Marks on a squashed commit what went into it.
const SQUASHED_KEY: &str = "Merged-Head";
const TASK_KEY: &str = "Task";

impl Repos {
    /// Builds the commit that lands `head` on the target's present tip. No branch moves.
    ///
    /// # Errors
    /// `NoBranch` when the target is gone, `NoCommit` when `head` is not there; faults of git and of the network.
    pub async fn prepare_landing(&self, request: &LandingRequest) -> Result<Landing, GitError> {
        let store = self.store(request.project)?;
        self.refresh(&store, &request.target).await?;
        let base = store.tip(&request.target)?;
        if let Some((commit, tree)) = self.landed_before(&store, &base, request).await? {
            return Ok(Landing::AlreadyLanded { commit, tree });
        }
        let Merge { tree, conflicts } = self.merge(&store, &base, &request.head).await?;
        if !conflicts.is_empty() {
            return Ok(Landing::Conflict { base, paths: conflicts });
        }
        let mut trailers = request.trailers.clone();
        let parents = match (request.target.home, request.method) {
            (Home::Store, _) | (Home::Origin, Method::Merge) => vec![&base, &request.head],
            (Home::Origin, Method::Squash) => {
                trailers.push(Trailer::new(SQUASHED_KEY, request.head.as_str()));
                vec![&base]
            }
        };
        let commit = NewCommit {
            tree: &tree,
            parents: &parents,
            author: &request.author,
            at: Some(request.at),
            message: message(&request.subject, &request.body, &trailers),
        };
        let commit = write_commit(&self.git, &store, commit).await?;
        self.remember_tree(&commit, &tree);
        Ok(Landing::Ready { base, commit, tree })
    }

    async fn landed_before(&self, store: &Store, base: &Oid, request: &LandingRequest) -> Result<Option<(Oid, Oid)>, GitError> {
        let task = request.trailers.iter().find(|trailer| trailer.key().eq_ignore_ascii_case(TASK_KEY)).map(Trailer::value);
        let trailer = |key| format!("%(trailers:key={key},valueonly,separator=%x20)");
        let format = format!("--format=%H%x09%T%x09%P%x09{}%x09{}", trailer(TASK_KEY), trailer(SQUASHED_KEY));
        let call = self.git.call("looking for an earlier landing").on(&store.dir).args(["log", "--first-parent", "-n", "1000", &format]);
        let text = String::from_utf8_lossy(&call.args([base.as_str(), &format!("^{}", request.head), "--"]).run().await?).into_owned();
        for line in text.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [commit, tree, parents, its_task, squashed] = fields.as_slice() else { continue };
            let merged = parents.split(' ').nth(1) == Some(request.head.as_str()) || *squashed == request.head.as_str();
            if merged && task.is_none_or(|task| task == *its_task) {
                return Ok(Some((oid(commit)?, oid(tree)?)));
            }
        }
        Ok(None)
    }
}
