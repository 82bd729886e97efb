//! What is counted per run: refusals (the breaker), calls (the budget) and repetitions (the loop warning). In memory, behind one lock that
//! is never held across a wait; gone when the run ends.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use roboco_domain::breaker::{Breaker, Key, Trip};
use roboco_domain::id::{SpawnId, TaskId};
use roboco_domain::limits;
use roboco_domain::rejection::{Kind, Rejection};
use roboco_domain::task::Stage;
use roboco_domain::time::Timestamp;
use roboco_domain::verb::Verb;
use serde_json::Value;

/// Calls that are compared to find a loop.
const LOOP_MEMORY: usize = 10;
/// Equal calls among them that are a loop.
const LOOP_CALLS: usize = 3;
/// After the first warning about the budget, one more every so many calls.
const WARN_EVERY: u32 = 50;

#[derive(Debug, Default)]
pub(crate) struct Guard {
    rows: Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    breaker: Breaker,
    /// The stage a run last saw a task in: when it moved, its refusals are forgiven.
    stages: HashMap<(SpawnId, TaskId), Stage>,
    runs: HashMap<SpawnId, Run>,
}

#[derive(Debug, Default)]
struct Run {
    calls: u32,
    recent: VecDeque<u64>,
}

impl Guard {
    /// Counts a call; answers with what the agent should know. A run that calls too often is not refused here: its supervisor, which sees
    /// every tool of its client and not only ours, ends it.
    pub(crate) fn count(&self, spawn: SpawnId, verb: Verb, arguments: &Value) -> Option<String> {
        // Looking is no loop, and costs next to nothing.
        if verb.is_discovery() {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        (verb, arguments).hash(&mut hasher);
        let print = hasher.finish();
        let mut rows = self.lock();
        let run = rows.runs.entry(spawn).or_default();
        run.calls = run.calls.saturating_add(1);
        let calls = run.calls;
        if run.recent.len() == LOOP_MEMORY {
            run.recent.pop_front();
        }
        run.recent.push_back(print);
        let repeated = run.recent.iter().filter(|one| **one == print).count();
        drop(rows);
        if repeated >= LOOP_CALLS {
            return Some(format!(
                "{verb} was called {repeated} times with the same arguments in your last {LOOP_MEMORY} calls: do something else, or call \
                 i_am_blocked if you are stuck"
            ));
        }
        let warn = calls >= limits::TOOL_CALLS_WARN && (calls - limits::TOOL_CALLS_WARN).is_multiple_of(WARN_EVERY);
        warn.then(|| {
            format!(
                "this was call {calls}; a run is ended after {} uses of its tools: finish, or hand over with i_am_blocked",
                limits::TOOL_CALLS_STOP
            )
        })
    }

    /// Whether the breaker lets a call through. The task's stage is compared with the one this run saw last.
    ///
    /// # Errors
    /// `circuit_open`.
    pub(crate) fn admit(&self, key: Key, stage: Option<Stage>, now: Timestamp, exits: &[Verb]) -> Result<(), Rejection> {
        let mut rows = self.lock();
        if let (Some(task), Some(stage)) = (key.task, stage)
            && rows.stages.insert((key.spawn, task), stage).is_some_and(|seen| seen != stage)
        {
            rows.breaker.forgive(key.spawn, None, Some(task));
        }
        rows.breaker.admit(key, now, exits)
    }

    /// Counts a refusal.
    pub(crate) fn refused(&self, key: Key, kind: Kind, now: Timestamp) -> Trip {
        self.lock().breaker.refused(key, kind, now)
    }

    /// A success forgives the refusals before it.
    pub(crate) fn succeeded(&self, key: Key) {
        if !key.verb.is_discovery() {
            self.lock().breaker.forgive(key.spawn, Some(key.verb), key.task);
        }
    }

    /// Counts a refusal from before a restart.
    pub(crate) fn recall(&self, key: Key, kind: Kind, at: Timestamp) {
        self.lock().breaker.refused(key, kind, at);
    }

    /// The run is over.
    pub(crate) fn forget(&self, spawn: SpawnId) {
        let mut rows = self.lock();
        rows.breaker.forget(spawn);
        rows.stages.retain(|(run, _), _| *run != spawn);
        rows.runs.remove(&spawn);
    }

    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn spawn(n: u128) -> SpawnId {
        SpawnId::new(Uuid::from_u128(n))
    }

    #[test]
    fn the_call_budget_warns_from_100_on_and_looking_is_free() {
        let guard = Guard::default();
        for n in 1..=300_u32 {
            let warning = guard.count(spawn(1), Verb::Note, &json!({ "text": n }));
            let warned = warning.as_deref().is_some_and(|text| text.contains(&format!("call {n};")));
            assert_eq!(warned, matches!(n, 100 | 150 | 200 | 250 | 300), "call {n}: {warning:?}");
            assert_eq!(guard.count(spawn(1), Verb::GiveMeWork, &json!({})), None);
        }
        assert_eq!(guard.count(spawn(2), Verb::Note, &json!({})), None, "another run pays for it");
        guard.forget(spawn(1));
        assert_eq!(guard.count(spawn(1), Verb::Note, &json!({})), None);
    }

    #[test]
    fn the_third_equal_call_of_the_last_ten_is_a_loop_and_looking_is_none() {
        let guard = Guard::default();
        let call = |verb, n: u32| guard.count(spawn(1), verb, &json!({ "n": n }));
        assert_eq!(call(Verb::OpenPr, 0), None);
        assert_eq!(call(Verb::Commit, 0), None, "another tool with the same arguments is no repetition");
        assert_eq!(call(Verb::OpenPr, 0), None);
        assert!(matches!(call(Verb::OpenPr, 0), Some(text) if text.contains("open_pr was called 3 times")));
        for n in 1..=9 {
            assert_eq!(call(Verb::OpenPr, n), None);
        }
        assert_eq!(call(Verb::OpenPr, 0), None, "one warning condemned later calls");
        for _ in 0..5 {
            assert_eq!(call(Verb::GiveMeWork, 0), None);
        }
    }

    #[test]
    fn a_moved_task_and_a_success_forgive() {
        let guard = Guard::default();
        let task = TaskId::new(Uuid::from_u128(9));
        let key = Key { spawn: spawn(1), verb: Verb::IAmDone, task: Some(task) };
        let now = Timestamp::from_millis(0);
        let open = |stage| guard.admit(key, Some(stage), now, &[Verb::Unclaim]).is_err();
        let refuse = || (0..3).map(|_| guard.refused(key, Kind::TracingGap, now)).collect::<Vec<_>>();
        assert!(!open(Stage::Working));
        assert_eq!(refuse(), [Trip::Counted, Trip::Counted, Trip::Opened]);
        assert!(open(Stage::Working));
        assert!(!open(Stage::Revision), "the task moved");
        assert_eq!(refuse()[2], Trip::Opened);
        guard.succeeded(key);
        assert!(!open(Stage::Revision), "a success came after");
    }
}
