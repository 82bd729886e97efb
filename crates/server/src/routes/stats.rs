//! What the process has counted since it started: for people who want to know where time goes, and for benches.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use roboco_gateway::Gateway;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ServerState;

/// Where the counts come from. Clones share everything.
#[derive(Clone)]
pub struct Counters {
    gateway: Gateway,
    git_processes: Arc<dyn Fn() -> u64 + Send + Sync>,
    started: Instant,
}

impl Counters {
    /// Counts from now on; `git_processes` says how many processes of git were started so far.
    pub fn new(gateway: Gateway, git_processes: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { gateway, git_processes: Arc::new(git_processes), started: Instant::now() }
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counters").finish_non_exhaustive()
    }
}

/// Counts since the process started. Each only grows; differences of two readings say what happened between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stats {
    /// Statements sent to the database; the beginning and the end of a transaction are none.
    pub statements: u64,
    /// Processes of git that were started; one that serves many questions counts once.
    pub git_processes: u64,
    /// Verbs and tools agents called, refused ones included.
    pub verb_calls: u64,
    /// Microseconds these calls took together by the clock on the wall: database, queues and the effects a verb waits for included.
    /// Calls that ran side by side add up.
    pub verb_micros: u64,
    /// Milliseconds since the server began to listen.
    pub uptime_ms: u64,
}

pub(crate) async fn stats(State(state): State<ServerState>) -> Json<Stats> {
    let Counters { gateway, git_processes, started } = &state.counters;
    Json(Stats {
        statements: state.company.store().statements(),
        git_processes: git_processes(),
        verb_calls: gateway.calls(),
        verb_micros: u64::try_from(gateway.time_in_calls().as_micros()).unwrap_or(u64::MAX),
        uptime_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
    })
}
