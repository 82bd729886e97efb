//! Spawns and seats: one attempt to run an agent, and the right of a seat to be heard.

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, SpawnId, SpawnNumber, TaskId};
use crate::outcome::Outcome;
use crate::role::words;
use crate::time::Timestamp;
use crate::verb::Verb;

/// Fencing number of a seat: raised whenever a spawn is intended or revoked. A lower one is never heard again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl std::fmt::Display for Epoch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

words! {
    /// Where a spawn stands.
    SpawnState {
        /// Recorded; nothing was started yet.
        Intended = "intended",
        /// Its sandbox runs.
        Started = "started",
        /// Over.
        Ended = "ended",
    }
}

/// One attempt to run an agent for one task, from intent to outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spawn {
    /// Key.
    pub id: SpawnId,
    /// `T-142/3`.
    pub number: SpawnNumber,
    /// Optimistic version.
    pub version: u64,
    /// Who runs.
    pub agent: AgentId,
    /// For what.
    pub task: TaskId,
    /// With which right.
    pub epoch: Epoch,
    /// The verb its brief offers first.
    pub verb: Verb,
    /// Which client.
    pub provider: String,
    /// Which model, when one was chosen.
    pub model: Option<String>,
    /// Position.
    pub state: SpawnState,
    /// The client's conversation, once it named one; a later spawn may resume it.
    pub session: Option<String>,
    /// A conversation of an earlier spawn to go on with.
    pub resume: Option<String>,
    /// The closing verb that was accepted.
    pub closed_by: Option<Verb>,
    /// Set when it closed its part because its provider refuses: until when.
    #[serde(default)]
    pub limited_until: Option<Timestamp>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Reported by the client.
    pub usage: Usage,
    /// When it was recorded.
    pub intended_at: Timestamp,
    /// When its sandbox ran.
    pub started_at: Option<Timestamp>,
    /// When it was over.
    pub ended_at: Option<Timestamp>,
}

/// What a client says it used. Unknown is unknown, never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: Option<u64>,
    /// Tokens written.
    pub output_tokens: Option<u64>,
    /// Tokens read from the provider's cache.
    pub cache_read_tokens: Option<u64>,
    /// Tokens written to the provider's cache.
    pub cache_write_tokens: Option<u64>,
    /// Cost as the client reported it, in micro-dollars.
    pub reported_micro_usd: Option<u64>,
}

/// A seat's right to be heard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// Whose seat.
    pub agent: AgentId,
    /// Optimistic version; every claim raises it, which is how "one active task" is kept.
    pub version: u64,
    /// The current right.
    pub epoch: Epoch,
    /// The spawn that holds it.
    pub spawn: Option<SpawnId>,
}

impl Seat {
    /// A seat that never ran.
    pub const fn empty(agent: AgentId) -> Self {
        Self { agent, version: 0, epoch: Epoch(0), spawn: None }
    }
}
