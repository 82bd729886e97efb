//! Inbox items: what waits for the CEO.

use serde::{Deserialize, Serialize};

use crate::id::{InboxNumber, TaskId};
use crate::role::words;
use crate::time::Timestamp;

words! {
    /// What the CEO is asked for.
    InboxKind {
        /// Approve or reject finished work.
        Approval = "approval",
        /// Lift a hold.
        Wait = "wait",
    }
}

/// One thing that waits for the CEO.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxItem {
    /// `I-31`.
    pub number: InboxNumber,
    /// Optimistic version.
    pub version: u64,
    /// What is asked.
    pub kind: InboxKind,
    /// About which task.
    pub task: TaskId,
    /// In one sentence.
    pub text: String,
    /// Since when.
    pub opened_at: Timestamp,
    /// What was decided; absent while it is open.
    pub decision: Option<String>,
    /// When.
    pub decided_at: Option<Timestamp>,
}
