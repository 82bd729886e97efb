//! Decisions about spawns: recording one before it is started, hearing that it runs, and what its end means.

use std::time::Duration;

use super::review::inbox_item;
use crate::apply::is_fruitless;
use crate::command::Fresh;
use crate::event::Event;
use crate::id::{AgentId, SpawnId, SpawnNumber};
use crate::inbox::InboxKind;
use crate::limits;
use crate::outcome::Outcome;
use crate::rejection::{Kind, Rejection, Remedy};
use crate::snapshot::{Answer, Decision, Snapshot};
use crate::spawn::{Epoch, Spawn, SpawnState, Usage};
use crate::task::{Hold, HoldReason, Resolver, Stage, Task};
use crate::time::Timestamp;
use crate::verb::Verb;

/// Fruitless runs after which a task is held for a human instead of cooling down once more.
const STRIKES_HELD: u32 = limits::STRIKES + 5;

/// What a spawn is planned with.
pub(crate) struct NewSpawn<'a> {
    pub(crate) agent: AgentId,
    pub(crate) verb: Verb,
    pub(crate) provider: &'a str,
    pub(crate) model: Option<&'a str>,
    pub(crate) resume: Option<&'a str>,
}

pub(crate) fn plan(world: &Snapshot, task: &Task, new: &NewSpawn<'_>, fresh: &Fresh) -> Result<Decision, Rejection> {
    let not_now = |why: String| Err(Rejection::new(Kind::InvalidState, why, Remedy::tell("plan again")));
    let Some(seat) = world.seat.as_ref().filter(|s| s.agent == new.agent) else {
        return not_now("the seat was not looked at".into());
    };
    if let Some(running) = seat.spawn {
        return not_now(format!("the seat already runs {running}"));
    }
    if task.stage.is_terminal() || task.hold.as_ref().is_some_and(|h| !serves_hold(new.verb, h)) {
        return not_now(format!("{} has ended or is held", task.number));
    }
    let spawn = Spawn {
        id: SpawnId::new(fresh.row()),
        number: SpawnNumber { task: task.number, nth: task.counters.spawns + 1 },
        version: 0,
        agent: new.agent,
        task: task.id,
        epoch: Epoch(seat.epoch.0 + 1),
        verb: new.verb,
        provider: new.provider.to_owned(),
        model: new.model.map(str::to_owned),
        state: SpawnState::Intended,
        session: None,
        resume: new.resume.map(str::to_owned),
        closed_by: None,
        limited_until: None,
        outcome: None,
        usage: Usage::default(),
        intended_at: world.now,
        started_at: None,
        ended_at: None,
    };
    Ok(Decision::default().event(Event::SpawnIntended { spawn: Box::new(spawn) }))
}

/// A held task starts a run only for whoever lifts the hold.
const fn serves_hold(verb: Verb, hold: &Hold) -> bool {
    match hold {
        Hold::Blocked { .. } => matches!(verb, Verb::Unblock | Verb::EscalateToCeo),
        Hold::Paused { .. } => matches!(verb, Verb::Resume),
        Hold::Budget { .. } => false,
    }
}

pub(crate) fn started(world: &Snapshot, spawn: SpawnId) -> Decision {
    match &world.spawn {
        Some(s) if s.id == spawn && s.state == SpawnState::Intended => Decision::default().event(Event::SpawnStarted {}),
        Some(_) | None => Decision::default(),
    }
}

pub(crate) fn named(world: &Snapshot, spawn: SpawnId, session: &str) -> Decision {
    match &world.spawn {
        Some(s) if s.id == spawn && s.session.as_deref() != Some(session) => {
            Decision::default().event(Event::SpawnSessionNamed { session: session.to_owned() })
        }
        Some(_) | None => Decision::default(),
    }
}

/// Its part is closed by what it called, so that its end is no run without a result.
pub(crate) fn left(world: &Snapshot, spawn: SpawnId, verb: Verb) -> Decision {
    match &world.spawn {
        Some(s) if s.id == spawn && s.state != SpawnState::Ended && s.closed_by.is_none() => {
            Decision::default().event(Event::SpawnLeft { verb })
        }
        Some(_) | None => Decision::default(),
    }
}

pub(crate) fn revoke(world: &Snapshot, spawn: SpawnId, reason: &str) -> Decision {
    let live = world.spawn.as_ref().filter(|s| s.id == spawn && s.state != SpawnState::Ended);
    let seat = world.seat.as_ref().filter(|s| s.spawn == Some(spawn));
    match (live, seat) {
        // Raised once: a second revocation of the same run has nothing left to take away.
        (Some(s), Some(seat)) if seat.epoch == s.epoch => {
            Decision::default().event(Event::SpawnRevoked { agent: s.agent, epoch: Epoch(seat.epoch.0 + 1), reason: reason.to_owned() })
        }
        _ => Decision::default(),
    }
}

/// When the task may start again after this end.
fn not_before(task: &Task, outcome: &Outcome, now: Timestamp) -> Option<Timestamp> {
    if matches!(outcome, Outcome::Crashed { .. } | Outcome::OutOfMemory) {
        let nth = recent_crashes(task, now);
        let wait = limits::CRASH_BACKOFF.get(nth).copied().unwrap_or(limits::COOLDOWN_MAX);
        return Some(now.after(wait));
    }
    let strikes = task.meter.strikes + 1;
    (is_fruitless(outcome) && strikes >= limits::STRIKES).then(|| {
        let doubled = limits::COOLDOWN.saturating_mul(1 << (strikes - limits::STRIKES).min(8));
        now.after(doubled.min(limits::COOLDOWN_MAX))
    })
}

fn recent_crashes(task: &Task, now: Timestamp) -> usize {
    task.meter.crashes.iter().filter(|at| now.since(**at) < Duration::from_secs(3600)).count()
}

pub(crate) fn ended(world: &Snapshot, task: &Task, spawn: SpawnId, outcome: &Outcome, usage: Usage) -> Decision {
    let Some(live) = world.spawn.as_ref().filter(|s| s.id == spawn && s.state != SpawnState::Ended) else {
        return Decision::default();
    };
    // A run that left because its provider refuses has brought nothing, and neither it nor its task is to blame.
    let limited = Outcome::RateLimited { until: live.limited_until };
    let left = matches!(outcome, Outcome::Completed { verb } if verb == Verb::IAmBlocked.as_str());
    let outcome = if left && live.limited_until.is_some() { &limited } else { outcome };
    let crashed = matches!(outcome, Outcome::Crashed { .. } | Outcome::OutOfMemory);
    let crashes = recent_crashes(task, world.now) + usize::from(crashed);
    let strikes = task.meter.strikes + u32::from(is_fruitless(outcome));
    let ended = Event::SpawnEnded { spawn, outcome: outcome.clone(), usage, not_before: not_before(task, outcome, world.now) };
    let used_up = (crashed && crashes > limits::CRASH_BACKOFF.len()) || (is_fruitless(outcome) && strikes >= STRIKES_HELD);
    let mut events = Vec::new();
    let held_for_ceo = task.hold.as_ref().is_some_and(Hold::is_for_ceo);
    if used_up && !held_for_ceo && !task.stage.is_terminal() && task.stage != Stage::Ceo {
        let agent = world.roster.slug(live.agent);
        let text = format!("runs of {agent} keep ending without a result (last: {})", outcome.word());
        events.push(Event::TaskHeld {
            hold: Hold::Blocked {
                reason: HoldReason::Runs,
                text: text.clone(),
                needs: Some("look at the transcript with `roboco logs`, mend the cause, then unblock it".into()),
                raised_by: None,
                resolver: Resolver::Human,
                since: world.now,
            },
        });
        let item = inbox_item(world, task, InboxKind::Wait, format!("{} waits for you: {text}", task.number));
        events.push(Event::InboxOpened { item });
    }
    Decision::new(Answer::default()).event(ended).events(events)
}
