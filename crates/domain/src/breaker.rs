//! The circuit breaker of verbs: the same refusal over and over is answered without being run.

use std::collections::BTreeMap;

use crate::id::{SpawnId, TaskId};
use crate::limits;
use crate::rejection::{Kind, Rejection, Remedy};
use crate::time::Timestamp;
use crate::verb::Verb;

/// Whose refusals are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The run.
    pub spawn: SpawnId,
    /// The verb.
    pub verb: Verb,
    /// The task; none for verbs that name none.
    pub task: Option<TaskId>,
}

/// What the breaker says to a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trip {
    /// It counts, nothing more.
    Counted,
    /// With this one it opens.
    Opened,
}

/// Refusals per run. Bounded: a run's rows go when it ends.
#[derive(Debug, Default)]
pub struct Breaker {
    rows: BTreeMap<Key, Row>,
}

#[derive(Debug, Default)]
struct Row {
    recent: Vec<Timestamp>,
    total: u32,
}

impl Breaker {
    /// Whether a call may run.
    ///
    /// # Errors
    /// `circuit_open`, with what else the caller can do.
    pub fn admit(&mut self, key: Key, now: Timestamp, exits: &[Verb]) -> Result<(), Rejection> {
        if key.verb.is_discovery() {
            return Ok(());
        }
        let cap = key.verb.breaker_cap();
        let Some(row) = self.rows.get_mut(&key) else { return Ok(()) };
        row.recent.retain(|at| now.since(*at) < limits::BREAKER_WINDOW);
        let used_up = row.total >= cap * limits::BREAKER_SESSION_FACTOR;
        if row.recent.len() < cap as usize && !used_up {
            return Ok(());
        }
        let shut = if used_up { Shut::ForThisRun { times: row.total } } else { Shut::ForNow { times: row.recent.len() } };
        Err(open(key.verb, shut, exits))
    }

    /// Counts a refusal.
    pub fn refused(&mut self, key: Key, kind: Kind, now: Timestamp) -> Trip {
        if !kind.counts() || key.verb.is_discovery() {
            return Trip::Counted;
        }
        let row = self.rows.entry(key).or_default();
        row.recent.retain(|at| now.since(*at) < limits::BREAKER_WINDOW);
        row.recent.push(now);
        row.total += 1;
        if row.recent.len() >= key.verb.breaker_cap() as usize { Trip::Opened } else { Trip::Counted }
    }

    /// A success of the verb, or a move of the task, forgives.
    pub fn forgive(&mut self, spawn: SpawnId, verb: Option<Verb>, task: Option<TaskId>) {
        self.rows.retain(|key, _| key.spawn != spawn || verb.is_some_and(|v| v != key.verb) || key.task != task);
    }

    /// The run is over.
    pub fn forget(&mut self, spawn: SpawnId) {
        self.rows.retain(|key, _| key.spawn != spawn);
    }
}

/// How long a breaker stays open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shut {
    /// Until its window is over.
    ForNow {
        /// Refusals within the window.
        times: usize,
    },
    /// As long as the run lasts, unless its task moves.
    ForThisRun {
        /// Refusals of the whole run.
        times: u32,
    },
}

impl std::fmt::Display for Shut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ForNow { times } => {
                let window = limits::BREAKER_WINDOW.as_secs();
                write!(f, "{times} times within {window} seconds for the same reason; it is not run again for now")
            }
            Self::ForThisRun { times } => write!(f, "{times} times in this run; it stays shut for this run"),
        }
    }
}

/// The refusal of an open breaker.
pub fn open(verb: Verb, shut: Shut, exits: &[Verb]) -> Rejection {
    let others: Vec<Verb> = exits.iter().copied().filter(|v| *v != verb).collect();
    let listed = others.iter().map(|v| v.as_str()).collect::<Vec<_>>().join(", ");
    Rejection::new(
        Kind::CircuitOpen,
        format!("{verb} was refused {shut}"),
        Remedy { verb: others.first().copied(), text: format!("read the last refusal and do something else: {listed}") },
    )
}
