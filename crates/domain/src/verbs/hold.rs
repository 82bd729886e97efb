//! Holds: blocking, pausing, escalating, lifting, and giving a task up.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::approve::clean_up;
use super::review::{inbox_item, leave_review, leave_review_as};
use super::settle::part_ended;
use super::work::working_next;
use super::{Subject, subject};
use crate::command::{Actor, Fresh};
use crate::event::Event;
use crate::guard::GuardContext;
use crate::inbox::InboxKind;
use crate::input::clamp;
use crate::limits;
use crate::role::Role;
use crate::snapshot::{Answer, Decision};
use crate::task::{BlockerType, Hold, HoldReason, PartState, PausedBy, PausedRun, Resolver, Task};
use crate::time::Timestamp;

/// A task and a reason.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Because {
    /// The task: `T-142`, its id, or a unique prefix of it.
    pub task_id: String,
    /// Why; this is the record of the decision.
    pub reason: String,
}

/// Arguments of `i_am_blocked`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IAmBlocked {
    /// The task: `T-142`, its id, or a unique prefix of it.
    pub task_id: String,
    /// What stops you.
    pub reason: String,
    /// What kind of thing stops you.
    #[serde(default)]
    pub blocker_type: Option<BlockerType>,
    /// What would help.
    #[serde(default)]
    pub what_needed: Option<String>,
    /// For `provider_limit`: when it said to come back, in seconds.
    #[serde(default)]
    pub retry_after_s: Option<u64>,
}

/// Arguments of `pause`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// The task: `T-142`, its id, or a unique prefix of it.
    pub task_id: String,
    /// Stop the running agent at once. Left out, it may end its turn first, for a minute at most.
    #[serde(default)]
    pub now: bool,
}

subject!(Because => task_id, IAmBlocked => task_id, Pause => task_id);

fn blocked_hold(cx: GuardContext<'_>, text: &str, needs: Option<&str>, resolver: Resolver) -> Hold {
    Hold::Blocked {
        reason: HoldReason::Blocked,
        text: clamp(text, limits::NOTES_CHARS).into_owned(),
        needs: needs.map(|n| clamp(n, limits::NOTES_CHARS).into_owned()),
        raised_by: Some(cx.actor.agent()),
        resolver,
        since: cx.world.now,
    }
}

pub(crate) fn blocked(cx: GuardContext<'_>, args: &IAmBlocked) -> Decision {
    if args.blocker_type == Some(BlockerType::ProviderLimit) {
        // A provider that refuses is no fault of the task: it stays as it is, and the end of the run parks the provider.
        return Decision::new(Answer::next("end your turn; the work goes on when the provider accepts it again"))
            .event(Event::NoteRecorded { scope: "struggle".into(), text: clamp(&args.reason, limits::NOTES_CHARS).into_owned() });
    }
    let resolver = match args.blocker_type {
        Some(BlockerType::External) => Resolver::Human,
        Some(BlockerType::Internal | BlockerType::Question | BlockerType::Dependency | BlockerType::ProviderLimit) | None => {
            Resolver::CellPm
        }
    };
    let hold = blocked_hold(cx, &args.reason, args.what_needed.as_deref(), resolver);
    let human = (resolver == Resolver::Human).then(|| ask_ceo(cx, &args.reason));
    Decision::new(Answer::next("end your turn; it is held for whoever can help"))
        .event(Event::NoteRecorded { scope: "struggle".into(), text: clamp(&args.reason, limits::NOTES_CHARS).into_owned() })
        .event(Event::TaskHeld { hold })
        .events(human)
}

/// Until when the provider refuses, when that is what stops the caller.
pub(crate) fn limited_until(args: &IAmBlocked, now: Timestamp) -> Option<Timestamp> {
    let stated = args.retry_after_s.map_or(limits::PARK_RATE, Duration::from_secs);
    (args.blocker_type == Some(BlockerType::ProviderLimit)).then(|| now.after(stated.min(limits::PARK_SAID_MAX)))
}

fn ask_ceo(cx: GuardContext<'_>, reason: &str) -> Event {
    let text = format!("{} waits for you: {}", cx.task.number, clamp(reason, 200));
    Event::InboxOpened { item: inbox_item(cx.world, cx.task, InboxKind::Wait, text) }
}

pub(crate) fn escalate_up(cx: GuardContext<'_>, args: &super::Because) -> Decision {
    Decision::new(Answer::next("end your turn; the main PM decides"))
        .event(Event::TaskHeld { hold: blocked_hold(cx, &args.reason, None, Resolver::MainPm) })
}

pub(crate) fn escalate_to_ceo(cx: GuardContext<'_>, args: &super::Because) -> Decision {
    Decision::new(Answer::next("end your turn; the CEO decides"))
        .event(Event::TaskHeld { hold: blocked_hold(cx, &args.reason, None, Resolver::Human) })
        .event(ask_ceo(cx, &args.reason))
}

fn decide_inbox(cx: GuardContext<'_>, decision: &str) -> Vec<Event> {
    let open = cx.world.inbox.iter().filter(|i| i.decision.is_none());
    open.map(|i| Event::InboxDecided { number: i.number, decision: decision.to_owned() }).collect()
}

pub(crate) fn unblock(cx: GuardContext<'_>, args: &Because) -> Decision {
    let reason = clamp(&args.reason, limits::NOTES_CHARS).into_owned();
    Decision::new(Answer::next("it goes on where it stopped"))
        .event(Event::TaskUnheld { reason: reason.clone() })
        .events(decide_inbox(cx, &format!("unblocked: {}", clamp(&reason, 200))))
}

pub(crate) fn pause(cx: GuardContext<'_>, args: &Pause) -> Decision {
    let run = if args.now { PausedRun::Stops } else { PausedRun::EndsTurn };
    Decision::new(Answer::next("resume it when it should go on"))
        .event(Event::TaskHeld { hold: Hold::Paused { by: PausedBy::Human, since: cx.world.now, run } })
}

pub(crate) fn resume(cx: GuardContext<'_>) -> Decision {
    let next = if cx.actor.role() == Role::Developer { working_next(cx.task) } else { "go on where it stopped".into() };
    let decision = Decision::new(Answer::next(next)).event(Event::TaskUnheld { reason: "resumed".into() });
    // A worker that resumes takes its right back in the same breath; anybody else only lifts the hold.
    let lease = match cx.actor {
        Actor::Agent(agent) if agent.role == Role::Developer && crate::task::Stage::Working == cx.task.stage => {
            super::work::lease_for(cx).ok().map(|lease| Event::TaskReentered { lease })
        }
        Actor::Agent(_) | Actor::Ceo(_) | Actor::System(_) => None,
    };
    decision.events(lease)
}

pub(crate) fn cancel(cx: GuardContext<'_>, args: &Because, fresh: &Fresh) -> Decision {
    let task = cx.task;
    let reason = clamp(&args.reason, limits::NOTES_CHARS).into_owned();
    let mut decision = Decision::new(Answer::next("it is over; its branch is removed, unsaved work is kept under a rescue ref"))
        .event(Event::TaskCancelled { reason: reason.clone() })
        .events(decide_inbox(cx, "cancelled"))
        .effects(leave_review(task, fresh));
    decision.also.extend(part_ended(task, PartState::Cancelled, None));
    decision.effects.extend(has_branch(task).then(|| clean_up(task, fresh.intent())));
    // Nothing below work that was given up is worth delivering.
    for (nth, below) in cx.world.descendants.iter().enumerate() {
        decision.also.push((below.id, Event::TaskCancelled { reason: format!("{} was given up: {reason}", task.number) }));
        match part_ended(below, PartState::Cancelled, None) {
            Some((whole, event)) if whole == task.id => decision.events.push(event),
            ended => decision.also.extend(ended),
        }
        decision.effects.extend(has_branch(below).then(|| clean_up(below, fresh.intent_of(2 * nth))));
        decision.effects.extend(leave_review_as(below, fresh.intent_of(2 * nth + 1)));
    }
    decision
}

/// Whether there is a branch to remove. Whoever plans a task has its branch cut in the same breath: it may be there, be half there, or be on
/// its way.
fn has_branch(task: &Task) -> bool {
    task.plan.is_some() || task.delivery.base.is_some()
}
