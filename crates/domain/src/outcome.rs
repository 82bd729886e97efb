//! How a spawn ended, as a closed set. Provider adapters map exit codes and error channels to it; no other code reads their text.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// The reason a spawn is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// The agent ended its part with a closing verb.
    Completed {
        /// The verb that ended it.
        verb: String,
    },
    /// The client ended its turn twice without a closing verb.
    Unproductive,
    /// The client died or could not be started.
    Crashed {
        /// Exit code; absent when it was killed by a signal or never ran.
        code: Option<i32>,
        /// One line for a person; never carries a secret.
        detail: String,
    },
    /// The sandbox ran out of memory.
    OutOfMemory,
    /// The provider refuses until a limit resets.
    RateLimited {
        /// When it said it will accept work again, if it said so.
        until: Option<Timestamp>,
    },
    /// The provider is overloaded.
    Overloaded {
        /// When it said to come back, if it said so.
        until: Option<Timestamp>,
    },
    /// No valid login or key; the text names the command to run.
    AuthMissing {
        /// What to do about it.
        remedy: String,
    },
    /// The client could not reach its verbs.
    GatewayBroken {
        /// What was seen.
        detail: String,
    },
    /// No sign of life for longer than the stall limit, or past the wall.
    Stalled {
        /// What was waited for.
        detail: String,
    },
    /// A cap on money was reached.
    BudgetStop,
    /// A newer spawn of the same seat took over.
    Superseded,
    /// An operator, or the end of its task, stopped it.
    Stopped {
        /// Why.
        reason: String,
    },
    /// The control plane shut down in an orderly way.
    Shutdown,
    /// The control plane died and the sandbox with it.
    Lost,
}

impl Outcome {
    /// The wire word of the outcome.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "completed",
            Self::Unproductive => "unproductive",
            Self::Crashed { .. } => "crashed",
            Self::OutOfMemory => "out_of_memory",
            Self::RateLimited { .. } => "rate_limited",
            Self::Overloaded { .. } => "overloaded",
            Self::AuthMissing { .. } => "auth_missing",
            Self::GatewayBroken { .. } => "gateway_broken",
            Self::Stalled { .. } => "stalled",
            Self::BudgetStop => "budget_stop",
            Self::Superseded => "superseded",
            Self::Stopped { .. } => "stopped",
            Self::Shutdown => "shutdown",
            Self::Lost => "lost",
        }
    }

    /// Whether the ending counts as a strike against (agent, task): the run happened and failed on its own.
    pub const fn is_strike(&self) -> bool {
        match self {
            Self::Unproductive | Self::Crashed { .. } | Self::OutOfMemory | Self::GatewayBroken { .. } | Self::Stalled { .. } => true,
            Self::Completed { .. }
            | Self::RateLimited { .. }
            | Self::Overloaded { .. }
            | Self::AuthMissing { .. }
            | Self::BudgetStop
            | Self::Superseded
            | Self::Stopped { .. }
            | Self::Shutdown
            | Self::Lost => false,
        }
    }
}
