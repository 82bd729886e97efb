//! The fifteen wire statuses: a projection of stage, hold and lease, computed at the edge and never stored.

use crate::role::words;
use crate::task::{Hold, Stage, Task};

words! {
    /// What people and older clients call the state of a task.
    Status {
        /// Not released.
        Backlog = "backlog",
        /// Waits for somebody to claim it.
        Pending = "pending",
        /// Claimed, not started.
        Claimed = "claimed",
        /// Being worked on.
        InProgress = "in_progress",
        /// Somebody must do something first.
        Blocked = "blocked",
        /// Set aside.
        Paused = "paused",
        /// Checks run.
        Verifying = "verifying",
        /// Sent back.
        NeedsRevision = "needs_revision",
        /// Waits for or is in QA.
        AwaitingQa = "awaiting_qa",
        /// Waits for or is in documentation.
        AwaitingDocumentation = "awaiting_documentation",
        /// Waits for or is in the PR gate.
        AwaitingPrReview = "awaiting_pr_review",
        /// Waits for the PM.
        AwaitingPmReview = "awaiting_pm_review",
        /// Waits for the CEO.
        AwaitingCeoApproval = "awaiting_ceo_approval",
        /// Ended well.
        Completed = "completed",
        /// Given up.
        Cancelled = "cancelled",
    }
}

words! {
    /// The three classes every status falls into.
    StatusClass {
        /// Waits for somebody.
        Waiting = "waiting",
        /// Somebody must act or acts.
        Active = "active",
        /// Over.
        Terminal = "terminal",
    }
}

impl Status {
    /// The status of a task; the first rule that matches decides.
    pub fn of(task: &Task) -> Self {
        let leased = task.ownership.lease.is_some();
        match (task.stage, &task.hold) {
            (Stage::Done, _) => Self::Completed,
            (Stage::Cancelled, _) => Self::Cancelled,
            (_, Some(Hold::Paused { .. })) => Self::Paused,
            (_, Some(Hold::Blocked { .. } | Hold::Budget { .. })) => Self::Blocked,
            (Stage::Backlog, None) => Self::Backlog,
            (Stage::Ready | Stage::Revision, None) if leased => Self::Claimed,
            (Stage::Ready, None) => Self::Pending,
            (Stage::Revision, None) => Self::NeedsRevision,
            (Stage::Working, None) => Self::InProgress,
            (Stage::SelfCheck, None) => Self::Verifying,
            (Stage::Qa, None) => Self::AwaitingQa,
            (Stage::Docs, None) => Self::AwaitingDocumentation,
            (Stage::Gate, None) => Self::AwaitingPrReview,
            (Stage::PmReview, None) => Self::AwaitingPmReview,
            (Stage::Ceo, None) => Self::AwaitingCeoApproval,
        }
    }

    /// Its class.
    pub const fn class(self) -> StatusClass {
        match self {
            Self::Backlog
            | Self::Pending
            | Self::Blocked
            | Self::Paused
            | Self::AwaitingQa
            | Self::AwaitingDocumentation
            | Self::AwaitingPrReview
            | Self::AwaitingPmReview
            | Self::AwaitingCeoApproval => StatusClass::Waiting,
            Self::Claimed | Self::InProgress | Self::Verifying | Self::NeedsRevision => StatusClass::Active,
            Self::Completed | Self::Cancelled => StatusClass::Terminal,
        }
    }
}
