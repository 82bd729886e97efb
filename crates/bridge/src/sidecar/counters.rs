//! Refused verbs, counted for bridges that keep no count of their own. Only refusals are seen here; no success takes anything back.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use roboco_domain::limits::{BREAKER_REFUSALS, BREAKER_SESSION_FACTOR, BREAKER_WINDOW};
use roboco_domain::rejection::Kind;
use roboco_domain::role::Role;
use roboco_domain::verb::Verb;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::exits::exits;

/// Verbs that look for work, take it or give it back: refusing them again and again costs nothing.
const UNLIMITED: &[&str] = &[
    "give_me_work",
    "triage",
    "triage_all",
    "evidence",
    "i_am_idle",
    "unclaim",
    "resume",
    "claim_review",
    "claim_doc_task",
    "i_will_work_on",
    "i_will_plan",
];
/// Most keys and most moments of a key that are kept; an honest agent reaches neither.
const KEYS: usize = 4096;
const MOMENTS: usize = 1000;

/// What is counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) verb: String,
    pub(super) task: Option<String>,
}

/// A refusal as a bridge reports it.
#[derive(Debug, Deserialize)]
pub(super) struct Attempted {
    verb: String,
    #[serde(default)]
    task_id: Option<String>,
    rejection_kind: String,
}

/// What the counts say about a verb.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Verdict {
    verb: String,
    task_id: Option<String>,
    /// Refusals in the window.
    attempts: usize,
    /// How many are allowed there; none for verbs without a limit.
    limit: Option<u32>,
    window_seconds: u64,
    open: bool,
    /// What the agent reads instead of the refusal while it is open.
    circuit_envelope: Option<Value>,
}

/// The counts of one session. Times are measured from any one moment.
#[derive(Debug, Default)]
pub(super) struct Counters {
    rows: HashMap<Key, Row>,
}

#[derive(Debug, Default)]
struct Row {
    window: VecDeque<Duration>,
    total: u32,
}

impl Row {
    /// Forgets what lies further back than the window; what is exactly that old stays.
    fn prune(&mut self, now: Duration) {
        self.window.retain(|at| now.saturating_sub(*at) <= BREAKER_WINDOW);
    }
}

impl Counters {
    /// Counts a refusal of one of the kinds that count, and says what the breaker makes of it.
    pub(super) fn attempted(&mut self, attempted: Attempted, role: Option<Role>, now: Duration) -> Verdict {
        let Attempted { verb, task_id, rejection_kind } = attempted;
        let key = Key { verb, task: task_id };
        if rejection_kind.parse::<Kind>().is_ok_and(Kind::counts) && self.has_room_for(&key, now) {
            let row = self.rows.entry(key.clone()).or_default();
            row.window.push_back(now);
            if row.window.len() > MOMENTS {
                row.window.pop_front();
            }
            row.total = row.total.saturating_add(1);
        }
        self.verdict(key, role, now)
    }

    /// The same without counting.
    pub(super) fn verdict(&mut self, key: Key, role: Option<Role>, now: Duration) -> Verdict {
        let (attempts, total) = match self.rows.get_mut(&key) {
            None => (0, 0),
            Some(row) => {
                row.prune(now);
                (row.window.len(), row.total)
            }
        };
        let verb = key.verb.as_str();
        let seconds = BREAKER_WINDOW.as_secs();
        let limit = limit(verb);
        let reason = limit.and_then(|cap| {
            let session = cap * BREAKER_SESSION_FACTOR;
            if attempts >= cap as usize {
                Some(format!("{verb} was refused {attempts} times in last {seconds}s"))
            } else {
                (total >= session).then(|| format!("{verb} was refused {total} times this session, its absolute cap {session} is reached"))
            }
        });
        let circuit_envelope = reason.map(|reason| envelope(&reason, &exits(role, verb)));
        Verdict {
            attempts,
            limit,
            window_seconds: seconds,
            open: circuit_envelope.is_some(),
            circuit_envelope,
            verb: key.verb,
            task_id: key.task,
        }
    }

    fn has_room_for(&mut self, key: &Key, now: Duration) -> bool {
        if self.rows.len() >= KEYS && !self.rows.contains_key(key) {
            self.rows.retain(|_, row| {
                row.prune(now);
                !row.window.is_empty()
            });
        }
        self.rows.len() < KEYS || self.rows.contains_key(key)
    }
}

fn limit(verb: &str) -> Option<u32> {
    if UNLIMITED.contains(&verb) {
        return None;
    }
    Some(verb.parse::<Verb>().map_or(BREAKER_REFUSALS, Verb::breaker_cap))
}

fn envelope(reason: &str, exits: &str) -> Value {
    let way = if exits.is_empty() { "end your turn".to_owned() } else { format!("call {exits}") };
    json!({
        "error": Kind::CircuitOpen, "message": format!("{reason}; stop repeating it"),
        "remediate": format!("read `inner`, which says what was wrong, and do that first; if you cannot, {way}"),
        "status": null, "task_id": null, "next": null, "evidence": {}, "context_briefing": {},
        "correlation_id": null, "current_state": null, "valid_next_verbs": null,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(counters: &mut Counters, verb: &str, task: Option<&str>, kind: &str, at: u64) -> Verdict {
        let attempted = Attempted { verb: verb.into(), task_id: task.map(str::to_owned), rejection_kind: kind.into() };
        counters.attempted(attempted, None, Duration::from_secs(at))
    }

    fn look(counters: &mut Counters, verb: &str, at: u64) -> Verdict {
        counters.verdict(Key { verb: verb.into(), task: None }, None, Duration::from_secs(at))
    }

    fn message(verdict: &Verdict) -> &str {
        verdict.circuit_envelope.as_ref().and_then(|envelope| envelope["message"].as_str()).unwrap_or_default()
    }

    #[test]
    fn gateway_row_027_the_window_slides() {
        let mut counters = Counters::default();
        for _ in 0..3 {
            refuse(&mut counters, "i_am_done", None, "tracing_gap", 0);
        }
        for (at, attempts, open) in [(59, 3, true), (60, 3, true), (61, 0, false)] {
            let seen = look(&mut counters, "i_am_done", at);
            assert_eq!((seen.attempts, seen.open), (attempts, open), "at {at} s");
        }
        let fourth = refuse(&mut counters, "i_am_done", None, "tracing_gap", 61);
        assert_eq!((fourth.attempts, fourth.open), (1, false));
    }

    #[test]
    fn gateway_row_028_the_ninth_of_a_slow_series_opens_for_the_session() {
        let mut counters = Counters::default();
        for nth in 0..8 {
            assert!(!refuse(&mut counters, "i_am_done", None, "invalid_state", nth * 200).open, "{nth}");
        }
        let ninth = refuse(&mut counters, "i_am_done", None, "invalid_state", 1600);
        assert!(ninth.open && ninth.attempts == 1);
        assert!(message(&ninth).contains("this session") && message(&ninth).contains("absolute cap 9"), "{}", message(&ninth));
        // It does not close by waiting, and the window is named first when it is full as well.
        assert!(look(&mut counters, "i_am_done", 100_000).open);
        let full = (100_001..=100_003).map(|at| refuse(&mut counters, "i_am_done", None, "invalid_state", at)).last().unwrap();
        assert!(message(&full).contains("in last 60s"), "{}", message(&full));
    }

    #[test]
    fn limits_of_every_class_of_verb() {
        for (verb, limit) in [
            ("i_am_done", Some(3)),
            ("pass", Some(3)),
            ("submit_root", Some(3)),
            ("commit", Some(3)),
            ("no_such_verb", Some(3)),
            ("open_pr", Some(5)),
        ] {
            assert_eq!(super::limit(verb), limit, "{verb}");
        }
        assert!(UNLIMITED.iter().all(|verb| super::limit(verb).is_none()));
    }

    #[test]
    fn counts_are_bounded() {
        let mut counters = Counters::default();
        for nth in 0..KEYS + 10 {
            refuse(&mut counters, "commit", Some(&nth.to_string()), "invalid_state", 0);
        }
        assert_eq!(counters.rows.len(), KEYS);
        // Later there is room again: what has left the window gives way.
        assert_eq!(refuse(&mut counters, "note", None, "invalid_state", 100).attempts, 1);
        for _ in 0..MOMENTS + 10 {
            refuse(&mut counters, "give_me_work", None, "invalid_state", 100);
        }
        assert_eq!(look(&mut counters, "give_me_work", 100).attempts, MOMENTS);
    }
}
