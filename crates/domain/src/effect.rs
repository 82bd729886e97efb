//! Effects: work in the outside world that is recorded with the decision and done after the commit. Each is so detailed that doing it needs no choice.

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, IntentId, ProjectId, TaskId, TaskNumber};
use crate::project::{GateCommands, MergeMethod};
use crate::task::{GateVerdict, PendingKind};
use crate::time::Timestamp;
use crate::vcs::{Base, BranchName, Oid, Pin};

/// Name and address in a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// For people.
    pub name: String,
    /// Always under `agents.invalid`.
    pub email: String,
}

/// Who works in a branch's tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeFor {
    /// An author, who writes.
    #[default]
    Author,
    /// Nobody writes: work is only merged into the branch.
    Assembly,
}

/// Work to do after the commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Effect {
    /// Prepare a task's branch and its writable worktree.
    CutBranch {
        /// Whose branch.
        task: TaskId,
        /// Where.
        project: ProjectId,
        /// The branch to make or reuse.
        branch: BranchName,
        /// What it starts from.
        base: Base,
        /// Who gets a writable worktree of it.
        #[serde(default)]
        tree: TreeFor,
    },
    /// Commit the worktree.
    Commit {
        /// For which task.
        task: TaskId,
        /// Where.
        project: ProjectId,
        /// On which branch.
        branch: BranchName,
        /// First line.
        subject: String,
        /// The rest, may be empty.
        body: String,
        /// `Task`, `Agent`, `Spawn`.
        trailers: Vec<(String, String)>,
        /// Who made it.
        by: AgentId,
        /// Whether under a developer's right.
        as_author: bool,
        /// The same, as git writes it.
        author: Signature,
        /// When it was asked for.
        at: Timestamp,
        /// Only these paths; empty means everything.
        paths: Vec<String>,
        /// Globs nobody may change.
        protect: Vec<String>,
    },
    /// Merge the base into the branch.
    Sync {
        /// For which task.
        task: TaskId,
        /// Where.
        project: ProjectId,
        /// Into this branch.
        branch: BranchName,
        /// From this branch.
        base: Base,
        /// Who asked.
        author: Signature,
        /// When.
        at: Timestamp,
    },
    /// Run the project's checks on the exact commit.
    RunGate {
        /// For which task.
        task: TaskId,
        /// Where.
        project: ProjectId,
        /// The commit.
        commit: Oid,
        /// Its tree; the result belongs to it.
        tree: Oid,
        /// What to run.
        commands: GateCommands,
    },
    /// Fix the commits of a review and prepare the reviewer's tree.
    Pin {
        /// For which task.
        task: TaskId,
        /// Where.
        project: ProjectId,
        /// The branch it will be merged to.
        target: Base,
        /// The tip under review.
        head: Oid,
        /// Who reviews.
        reviewer: AgentId,
    },
    /// Merge accepted work into its target.
    Land {
        /// Which task.
        task: TaskId,
        /// For the trailer.
        number: TaskNumber,
        /// Where.
        project: ProjectId,
        /// To which branch.
        target: Base,
        /// The approved tip.
        head: Oid,
        /// First line of the merge commit.
        subject: String,
        /// `Task`, `Approved-by`.
        trailers: Vec<(String, String)>,
        /// Who approved.
        author: Signature,
        /// When.
        at: Timestamp,
        /// How.
        method: MergeMethod,
        /// What must pass on the merged tree.
        commands: GateCommands,
        /// A tree that has passed already.
        tested: Option<Oid>,
    },
    /// Remove the branch and the trees of an ended task; unsaved work goes to a rescue ref first.
    CleanUp {
        /// Which task.
        task: TaskId,
        /// Where.
        project: ProjectId,
        /// Its branch.
        branch: BranchName,
    },
    /// Remove a reviewer's tree.
    ReleaseReviewTree {
        /// For which task.
        task: TaskId,
        /// Where.
        project: ProjectId,
        /// Whose tree.
        reviewer: AgentId,
    },
}

impl Effect {
    /// The word for tables and logs.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::CutBranch { .. } => "cut_branch",
            Self::Commit { .. } => "commit",
            Self::Sync { .. } => "sync",
            Self::RunGate { .. } => "run_gate",
            Self::Pin { .. } => "pin",
            Self::Land { .. } => "land",
            Self::CleanUp { .. } => "clean_up",
            Self::ReleaseReviewTree { .. } => "release_review_tree",
        }
    }

    /// The task it belongs to.
    pub const fn task(&self) -> TaskId {
        match self {
            Self::CutBranch { task, .. }
            | Self::Commit { task, .. }
            | Self::Sync { task, .. }
            | Self::RunGate { task, .. }
            | Self::Pin { task, .. }
            | Self::Land { task, .. }
            | Self::CleanUp { task, .. }
            | Self::ReleaseReviewTree { task, .. } => *task,
        }
    }

    /// The kind of wait it puts on its task; none when nobody waits for it.
    pub const fn pending(&self) -> Option<PendingKind> {
        match self {
            Self::CutBranch { .. } => Some(PendingKind::CutBranch),
            Self::Commit { .. } => Some(PendingKind::Commit),
            Self::Sync { .. } => Some(PendingKind::Sync),
            Self::RunGate { .. } => Some(PendingKind::Gate),
            Self::Pin { .. } => Some(PendingKind::Pin),
            Self::Land { .. } => Some(PendingKind::Land),
            Self::CleanUp { .. } | Self::ReleaseReviewTree { .. } => None,
        }
    }
}

/// An effect with the key of its row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intended {
    /// The row's key, and the idempotency key of the work.
    pub intent: IntentId,
    /// The work.
    pub effect: Effect,
}

/// Why approved work did not land. Each leaves the task where it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum LandRefusal {
    /// It does not merge.
    Conflict {
        /// Where.
        paths: Vec<String>,
    },
    /// The target is checked out with uncommitted changes.
    DirtyCheckout {
        /// What is uncommitted.
        paths: Vec<String>,
    },
    /// The origin refused the push.
    Protected {
        /// What it said, cleaned.
        text: String,
    },
    /// The checks failed on the merged tree.
    GateFailed {
        /// End of the output.
        tail: String,
    },
    /// It could not be tried.
    Unavailable {
        /// Why.
        text: String,
    },
}

/// What an effect came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum EffectResult {
    /// Branch and worktree are there.
    BranchCut {
        /// Tip of the base it was cut from.
        base: Oid,
        /// Tip of the branch.
        head: Oid,
        /// Tree of the tip; absent when the branch has no commit of its own yet.
        tree: Option<Oid>,
    },
    /// A commit was made.
    Committed {
        /// The commit.
        oid: Oid,
        /// Its tree.
        tree: Oid,
        /// What it changed.
        files: Vec<String>,
    },
    /// There was nothing to commit.
    NothingToCommit,
    /// The commit was refused by a guard.
    CommitRefused {
        /// One sentence each.
        problems: Vec<String>,
    },
    /// The base was merged in, or there was nothing to merge.
    Synced {
        /// Tip afterwards.
        head: Oid,
        /// Its tree.
        tree: Oid,
    },
    /// The base was merged in and left conflicts in the worktree.
    SyncConflict {
        /// Where.
        paths: Vec<String>,
    },
    /// The checks ran.
    Gate {
        /// Outcome.
        verdict: GateVerdict,
        /// Commands and results.
        summary: String,
        /// End of the failed output.
        tail: Option<String>,
    },
    /// The review's commits are fixed.
    Pinned {
        /// Which.
        pin: Pin,
    },
    /// It is on the target.
    Landed {
        /// The merge commit.
        commit: Oid,
        /// Its tree.
        tree: Oid,
    },
    /// It is not on the target.
    LandRefused {
        /// Why.
        refusal: LandRefusal,
    },
    /// Nobody waits for it; it is done.
    Finished,
    /// It failed for good, after all tries.
    Failed {
        /// Why, cleaned.
        reason: String,
    },
}
