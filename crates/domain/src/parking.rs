//! Parking: a provider that refuses is left alone for a while; its tasks are neither blocked nor blamed.
//!
//! Nothing is stored for it: what is parked follows from how the latest runs ended, and those are on record.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::id::SpawnId;
use crate::limits;
use crate::outcome::Outcome;
use crate::spawn::Spawn;
use crate::time::Timestamp;

/// A wait without a stated end is longer or shorter by up to this share, so that companies on one account do not come back together.
const JITTER_PERCENT: u32 = 10;
/// A stated end is never anticipated, and overstayed by this at most.
const OVERSTAY: Duration = Duration::from_secs(30);

/// Providers that refuse, and until when.
#[derive(Debug, Default)]
pub struct Parking {
    rows: BTreeMap<String, Parked>,
}

#[derive(Debug)]
struct Parked {
    /// When it refused last.
    since: Timestamp,
    until: Timestamp,
    /// Refusals in a row, each after the wait for the one before.
    times: u32,
}

impl Parking {
    /// What follows from runs that have ended, in any order. Older ones than those given are as if they had never been.
    pub fn rebuilt<'s>(spawns: impl IntoIterator<Item = &'s Spawn>) -> Self {
        let mut ended: Vec<&Spawn> = spawns.into_iter().filter(|spawn| spawn.ended_at.is_some()).collect();
        ended.sort_by_key(|spawn| (spawn.ended_at, spawn.id));
        let mut parking = Self::default();
        for spawn in ended {
            parking.note(spawn);
        }
        parking
    }

    /// Takes note of how a run ended; of one that has not ended, nothing is to be noted. Doing it again for the same run changes nothing.
    pub fn note(&mut self, spawn: &Spawn) {
        let (Some(outcome), Some(ended)) = (&spawn.outcome, spawn.ended_at) else { return };
        let earlier = self.rows.get(&spawn.provider);
        // A run that was under way when the provider refused another says nothing new: it may have lived on answers from before.
        let is_news = earlier.is_none_or(|row| spawn.intended_at >= row.since);
        let (base, stated) = match outcome {
            Outcome::Overloaded { until } => (limits::PARK_OVERLOAD, *until),
            Outcome::RateLimited { until } => (limits::PARK_RATE, *until),
            // A login does not come back by itself; look again in a while in case somebody logged in.
            Outcome::AuthMissing { .. } => (limits::PARK_LOGIN, None),
            Outcome::Completed { .. } => {
                if is_news {
                    self.rows.remove(&spawn.provider);
                }
                return;
            }
            Outcome::Unproductive
            | Outcome::Crashed { .. }
            | Outcome::OutOfMemory
            | Outcome::GatewayBroken { .. }
            | Outcome::Stalled { .. }
            | Outcome::BudgetStop
            | Outcome::Superseded
            | Outcome::Stopped { .. }
            | Outcome::Shutdown
            | Outcome::Lost => return,
        };
        let times = earlier.map_or(1, |row| row.times + u32::from(is_news));
        let until = until(spawn.id, ended, base * 2u32.pow((times - 1).min(4)), stated);
        let row = match earlier {
            // Several runs that hit one limit are one refusal; the latest end of it counts.
            Some(row) if !is_news => Parked { since: row.since.max(ended), until: row.until.max(until), times },
            Some(_) | None => Parked { since: ended, until, times },
        };
        self.rows.insert(spawn.provider.clone(), row);
    }

    /// Those that still refuse.
    pub fn parked(&self, now: Timestamp) -> BTreeMap<String, Timestamp> {
        self.rows.iter().filter(|(_, row)| row.until > now).map(|(name, row)| (name.clone(), row.until)).collect()
    }
}

/// When to come back after a refusal at `at`: not before `wait` is over, give or take, and not before the stated end.
fn until(spawn: SpawnId, at: Timestamp, wait: Duration, stated: Option<Timestamp>) -> Timestamp {
    let share = wait * JITTER_PERCENT / 100;
    let backed_off = at.after(wait.saturating_sub(share) + part(spawn, share * 2));
    let stated = stated.map(|stated| stated.after(part(spawn, OVERSTAY.min(stated.since(at) * JITTER_PERCENT / 100))));
    stated.map_or(backed_off, |stated| stated.max(backed_off))
}

/// A part of a duration that looks random and is always the same for one run.
fn part(spawn: SpawnId, whole: Duration) -> Duration {
    let (high, low) = spawn.uuid().as_u64_pair();
    // The end of SplitMix64: numbers that follow each other become numbers that have nothing in common.
    let mixed = high ^ low;
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let thousandths = u32::try_from((mixed ^ (mixed >> 31)) % 1001).unwrap_or_default();
    whole * thousandths / 1000
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::id::{AgentId, SpawnNumber, TaskId, TaskNumber};
    use crate::spawn::{Epoch, SpawnState, Usage};
    use crate::verb::Verb;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000).after(Duration::from_secs(seconds))
    }

    /// A run of `claude` from one second to another.
    fn run(number: u128, from: u64, to: u64, outcome: Outcome) -> Spawn {
        Spawn {
            id: SpawnId::new(Uuid::from_u128(number)),
            number: SpawnNumber { task: TaskNumber(1), nth: 1 },
            version: 1,
            agent: AgentId::new(Uuid::nil()),
            task: TaskId::new(Uuid::nil()),
            epoch: Epoch(1),
            verb: Verb::IWillWorkOn,
            provider: "claude".into(),
            model: None,
            state: SpawnState::Ended,
            session: None,
            resume: None,
            closed_by: None,
            limited_until: None,
            outcome: Some(outcome),
            usage: Usage::default(),
            intended_at: at(from),
            started_at: Some(at(from)),
            ended_at: Some(at(to)),
        }
    }

    fn done() -> Outcome {
        Outcome::Completed { verb: "pass".into() }
    }

    fn until_of(parking: &Parking, now: Timestamp) -> Option<Timestamp> {
        parking.parked(now).get("claude").copied()
    }

    /// Whether a wait is that long, give or take a tenth.
    fn is_about(wait: Option<Duration>, seconds: u64) -> bool {
        let whole = Duration::from_secs(seconds);
        wait.is_some_and(|wait| wait >= whole * 9 / 10 && wait <= whole * 11 / 10)
    }

    #[test]
    fn a_stated_reset_is_never_anticipated_and_hardly_overstayed() {
        for number in 0..200 {
            let reset = at(3 * 24 * 3600);
            let mut parking = Parking::default();
            parking.note(&run(number, 0, 10, Outcome::RateLimited { until: Some(reset) }));
            let until = until_of(&parking, at(20)).unwrap();
            assert!(until >= reset && until <= reset.after(OVERSTAY), "{number}: {until:?}");
            assert_eq!(until_of(&parking, until), None);
        }
    }

    #[test]
    fn refusals_in_a_row_double_the_wait_four_times() {
        let mut parking = Parking::default();
        let mut now = 0;
        for (number, seconds) in [45, 90, 180, 360, 720, 720].into_iter().enumerate() {
            parking.note(&run(number as u128, now, now + 1, Outcome::Overloaded { until: None }));
            let wait = until_of(&parking, at(now + 1)).map(|until| until.since(at(now + 1)));
            assert!(is_about(wait, seconds), "{number}: {wait:?}");
            now += 1000;
        }
        parking.note(&run(7, now, now + 1, done()));
        assert_eq!(until_of(&parking, at(now + 1)), None);
        parking.note(&run(8, now + 2, now + 3, Outcome::Overloaded { until: None }));
        assert!(is_about(until_of(&parking, at(now + 3)).map(|until| until.since(at(now + 3))), 45), "a success ends the row");
    }

    #[test]
    fn runs_that_hit_one_limit_together_are_one_refusal() {
        let mut parking = Parking::default();
        for number in [0, 1, 1, 2, 3, 3, 3] {
            parking.note(&run(number, 0, 10, Outcome::Overloaded { until: None }));
        }
        assert!(is_about(until_of(&parking, at(10)).map(|until| until.since(at(10))), 45));
    }

    #[test]
    fn a_run_that_was_under_way_when_another_was_limited_does_not_lift_the_limit() {
        for stated in [None, Some(at(7200))] {
            let mut parking = Parking::default();
            parking.note(&run(1, 0, 100, Outcome::RateLimited { until: stated }));
            let until = until_of(&parking, at(100));
            parking.note(&run(2, 50, 110, done()));
            assert_eq!(until_of(&parking, at(110)), until, "{stated:?}");
            parking.note(&run(3, 8000, 8001, done()));
            assert!(parking.rows.is_empty(), "a later one shows that it is over");
        }
    }

    #[test]
    fn waits_are_spread_by_a_tenth_and_always_the_same_for_one_run() {
        let wait = |number| {
            let mut parking = Parking::default();
            parking.note(&run(number, 0, 0, Outcome::RateLimited { until: None }));
            until_of(&parking, at(0)).map(|until| until.since(at(0)))
        };
        let waits: Vec<_> = (0..300).map(wait).collect();
        assert!(waits.iter().all(|wait| is_about(*wait, 60)), "{waits:?}");
        let (least, most) = (waits.iter().flatten().min().unwrap(), waits.iter().flatten().max().unwrap());
        assert!(*least < Duration::from_millis(55_500) && *most > Duration::from_millis(64_500), "{least:?} to {most:?}");
        assert_eq!((0..300).map(wait).collect::<Vec<_>>(), waits);
    }

    #[test]
    fn what_is_parked_follows_from_the_runs_on_record_in_any_order() {
        let limited = |until| Outcome::RateLimited { until };
        let runs = [
            run(1, 0, 10, limited(None)),
            run(2, 100, 110, limited(None)),
            run(3, 5, 115, done()),
            run(4, 400, 410, limited(Some(at(410).after(HOUR)))),
            Spawn { outcome: None, ended_at: None, ..run(5, 300, 300, done()) },
            Spawn { provider: "codex".into(), ..run(6, 0, 500, done()) },
        ];
        let mut parking = Parking::default();
        for spawn in &runs[..4] {
            parking.note(spawn);
        }
        let expected = parking.parked(at(420));
        assert_eq!(expected.len(), 1);
        for shift in 0..runs.len() {
            let rebuilt = Parking::rebuilt(runs[shift..].iter().chain(&runs[..shift]));
            assert_eq!(rebuilt.parked(at(420)), expected);
        }
    }
}
