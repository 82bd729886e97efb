//! Domain values as rows, and back. Every field of a row is named, so that a new column is a compile error here.

use std::fmt::Display;
use std::str::FromStr;

use roboco_domain::apply::Changes;
use roboco_domain::effect::Intended;
use roboco_domain::event::Event;
use roboco_domain::id::{CompanyId, TaskId};
use roboco_domain::inbox::InboxItem;
use roboco_domain::project::Project;
use roboco_domain::spawn::{Epoch, Seat, Spawn};
use roboco_domain::task::{Hold, Stage, Task};
use roboco_domain::time::Timestamp;
use sea_orm::IntoActiveModel;
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::entity::{agent_seat, attempt, event, inbox, intent, project, replay, spawn, task, transcript};
use super::fault::unreadable;
use crate::{Attempt, Block, CommitRequest, EndedEffect, EventRow, OpenIntent, Replay, StoreFault};

/// Version of the shape of an event's data.
const EVENT_SCHEMA: i64 = 1;

/// A count as the databases store it.
pub(super) fn stored(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A stored count.
pub(super) fn count(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}

/// Text without the one character PostgreSQL cannot store.
pub(super) fn clean(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

pub(super) fn to_json<T: Serialize>(what: &str, value: &T) -> Result<String, StoreFault> {
    serde_json::to_string(value).map_err(|cause| StoreFault {
        message: format!("a {what} cannot be written as JSON: {cause}"),
        retryable: false,
        remedy: None,
    })
}

pub(super) fn from_json<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, StoreFault> {
    serde_json::from_str(text).map_err(|cause| unreadable(what, cause))
}

/// An identifier or a word that was stored as text.
pub(super) fn parse<T: FromStr<Err: Display>>(what: &str, text: &str) -> Result<T, StoreFault> {
    text.parse().map_err(|cause| unreadable(what, cause))
}

fn parse_some<T: FromStr<Err: Display>>(what: &str, text: Option<&str>) -> Result<Option<T>, StoreFault> {
    text.map(|text| parse(what, text)).transpose()
}

const fn hold_kind(hold: &Hold) -> &'static str {
    match hold {
        Hold::Paused { .. } => "paused",
        Hold::Blocked { .. } => "blocked",
        Hold::Budget { .. } => "budget",
    }
}

pub(super) fn task_row(company: CompanyId, it: &Task) -> Result<task::Model, StoreFault> {
    let lease = it.ownership.lease.as_ref();
    Ok(task::Model {
        company_id: company.to_string(),
        id: it.id.to_string(),
        number: stored(it.number.0),
        project_id: it.project.to_string(),
        stage: it.stage.to_string(),
        hold_kind: it.hold.as_ref().map(|hold| hold_kind(hold).to_owned()),
        assignee: it.ownership.assignee.map(|agent| agent.to_string()),
        priority: i64::from(it.priority),
        lease_spawn: lease.map(|lease| lease.spawn.to_string()),
        lease_expires_at: lease.map(|lease| lease.expires_at.millis()),
        version: stored(it.version),
        doc: to_json("task", it)?,
    })
}

/// The task, with the expiry that heartbeats have written beside its document.
pub(super) fn task(row: &task::Model) -> Result<Task, StoreFault> {
    let mut task: Task = from_json("task", &row.doc)?;
    if let (Some(lease), Some(spawn), Some(expires)) = (&mut task.ownership.lease, &row.lease_spawn, row.lease_expires_at)
        && lease.spawn.to_string() == *spawn
    {
        lease.expires_at = Timestamp::from_millis(expires);
    }
    Ok(task)
}

pub(super) fn project_row(company: CompanyId, it: &Project) -> Result<project::Model, StoreFault> {
    Ok(project::Model {
        company_id: company.to_string(),
        id: it.id.to_string(),
        slug: it.slug.clone(),
        version: stored(it.version),
        doc: to_json("project", it)?,
    })
}

pub(super) fn spawn_row(company: CompanyId, it: &Spawn) -> Result<spawn::Model, StoreFault> {
    Ok(spawn::Model {
        company_id: company.to_string(),
        id: it.id.to_string(),
        task_number: stored(it.number.task.0),
        nth: stored(it.number.nth),
        task_id: it.task.to_string(),
        agent_id: it.agent.to_string(),
        state: it.state.to_string(),
        version: stored(it.version),
        doc: to_json("spawn", it)?,
    })
}

pub(super) fn seat_row(company: CompanyId, it: &Seat) -> agent_seat::Model {
    let Seat { agent, version, epoch, spawn } = it;
    agent_seat::Model {
        company_id: company.to_string(),
        agent_id: agent.to_string(),
        version: stored(*version),
        epoch: stored(epoch.0),
        spawn_id: spawn.map(|spawn| spawn.to_string()),
    }
}

pub(super) fn seat(row: &agent_seat::Model) -> Result<Seat, StoreFault> {
    Ok(Seat {
        agent: parse("seat", &row.agent_id)?,
        version: count(row.version),
        epoch: Epoch(count(row.epoch)),
        spawn: parse_some("seat", row.spawn_id.as_deref())?,
    })
}

pub(super) fn inbox_row(company: CompanyId, it: &InboxItem) -> Result<inbox::Model, StoreFault> {
    Ok(inbox::Model {
        company_id: company.to_string(),
        number: stored(it.number.0),
        task_id: it.task.to_string(),
        kind: it.kind.to_string(),
        decided_at: it.decided_at.map(Timestamp::millis),
        version: stored(it.version),
        doc: to_json("inbox item", it)?,
    })
}

pub(super) fn event_row(company: CompanyId, it: &EventRow) -> Result<event::Model, StoreFault> {
    let EventRow { seq, at, actor, task, spawn, correlation, moved, event } = it;
    Ok(event::Model {
        company_id: company.to_string(),
        seq: stored(*seq),
        at: at.millis(),
        kind: event.kind().to_owned(),
        schema: EVENT_SCHEMA,
        actor: actor.to_string(),
        task_id: task.map(|task| task.to_string()),
        spawn_id: spawn.map(|spawn| spawn.to_string()),
        correlation_id: correlation.to_string(),
        stage_from: moved.map(|(from, _)| from.to_string()),
        stage_to: moved.map(|(_, to)| to.to_string()),
        data: to_json("event", event)?,
    })
}

pub(super) fn event(row: &event::Model) -> Result<EventRow, StoreFault> {
    if row.schema != EVENT_SCHEMA {
        return Err(unreadable("event", format_args!("number {} has the unknown shape {}", row.seq, row.schema)));
    }
    let from = parse_some::<Stage>("event", row.stage_from.as_deref())?;
    let to = parse_some::<Stage>("event", row.stage_to.as_deref())?;
    Ok(EventRow {
        seq: count(row.seq),
        at: Timestamp::from_millis(row.at),
        actor: parse("event", &row.actor)?,
        task: parse_some("event", row.task_id.as_deref())?,
        spawn: parse_some("event", row.spawn_id.as_deref())?,
        correlation: parse("event", &row.correlation_id)?,
        moved: from.zip(to),
        event: from_json::<Event>("event", &row.data)?,
    })
}

/// `seq` is the number of the last event of the commit, `nth` the place among its effects.
pub(super) fn intent_row(company: CompanyId, it: &Intended, at: Timestamp, seq: u64, nth: usize) -> Result<intent::Model, StoreFault> {
    Ok(intent::Model {
        company_id: company.to_string(),
        id: it.intent.to_string(),
        task_id: it.effect.task().to_string(),
        kind: it.effect.kind().to_owned(),
        payload: to_json("effect", &it.effect)?,
        state: OPEN.to_owned(),
        attempts: 0,
        seq: stored(seq),
        nth: i64::try_from(nth).unwrap_or(i64::MAX),
        created_at: at.millis(),
        not_before: at.millis(),
        settled_at: None,
        result: None,
        error: None,
    })
}

/// State of an effect that is not finished.
pub(super) const OPEN: &str = "open";
/// State of an effect that is finished.
pub(super) const SETTLED: &str = "settled";

pub(super) fn open_intent(row: &intent::Model) -> Result<OpenIntent, StoreFault> {
    Ok(OpenIntent {
        intent: parse("effect", &row.id)?,
        effect: from_json("effect", &row.payload)?,
        attempts: u32::try_from(row.attempts).unwrap_or(u32::MAX),
        not_before: Timestamp::from_millis(row.not_before),
    })
}

/// None while it is open.
pub(super) fn ended_effect(row: &intent::Model) -> Result<Option<EndedEffect>, StoreFault> {
    let (Some(result), Some(at)) = (&row.result, row.settled_at) else { return Ok(None) };
    let (effect, result) = (from_json("effect", &row.payload)?, from_json("result", result)?);
    Ok(Some(EndedEffect { effect, result, at: Timestamp::from_millis(at) }))
}

pub(super) fn replay_row(company: CompanyId, it: &Replay, at: Timestamp) -> replay::Model {
    let Replay { key, digest, answer, waits_for } = it;
    replay::Model {
        company_id: company.to_string(),
        key: key.clone(),
        digest: digest.clone(),
        answer: answer.clone(),
        waits_for: waits_for.map(|intent| intent.to_string()),
        at: at.millis(),
    }
}

pub(super) fn replay(row: replay::Model) -> Result<Replay, StoreFault> {
    Ok(Replay { waits_for: parse_some("answer", row.waits_for.as_deref())?, key: row.key, digest: row.digest, answer: row.answer })
}

pub(super) fn attempt_row(company: CompanyId, it: &Attempt) -> attempt::ActiveModel {
    let Attempt { at, spawn, agent, verb, task, kind, message } = it;
    attempt::Model {
        company_id: company.to_string(),
        id: Uuid::now_v7().to_string(),
        at: at.millis(),
        spawn_id: spawn.map(|spawn| spawn.to_string()),
        agent_id: agent.to_string(),
        verb: clean(verb),
        task_id: task.map(|task| task.to_string()),
        kind: clean(kind),
        message: clean(message),
    }
    .into_active_model()
}

pub(super) fn attempt(row: attempt::Model) -> Result<Attempt, StoreFault> {
    Ok(Attempt {
        at: Timestamp::from_millis(row.at),
        spawn: parse_some("refused call", row.spawn_id.as_deref())?,
        agent: parse("refused call", &row.agent_id)?,
        task: parse_some("refused call", row.task_id.as_deref())?,
        verb: row.verb,
        kind: row.kind,
        message: row.message,
    })
}

pub(super) fn block(row: transcript::Model) -> Block {
    Block { n: count(row.n), at: Timestamp::from_millis(row.at), kind: row.kind, text: row.text }
}

/// The log rows of a commit, numbered from `first`. The move of a task is noted on one row only: the last one that can move it.
pub(super) fn log_of(request: &CommitRequest, first: u64) -> impl Iterator<Item = EventRow> {
    let own = facts_of(request.task, request.moved, &request.events);
    let others = request.also.iter().flat_map(|it| facts_of(Some(it.task), it.moved, &it.events));
    (first..).zip(own.chain(others)).map(|(seq, (task, moved, event))| EventRow {
        seq,
        at: request.at,
        actor: request.actor,
        task,
        spawn: request.spawn,
        correlation: request.correlation,
        moved,
        event: event.clone(),
    })
}

type Move = Option<(Stage, Stage)>;

fn facts_of(task: Option<TaskId>, moved: Move, events: &[Event]) -> impl Iterator<Item = (Option<TaskId>, Move, &Event)> {
    let last = events.len().saturating_sub(1);
    let mover = events.iter().rposition(can_move).unwrap_or(last);
    events.iter().enumerate().map(move |(index, event)| (task, moved.filter(|_| index == mover), event))
}

const fn can_move(event: &Event) -> bool {
    matches!(
        event,
        Event::TaskActivated {}
            | Event::TaskStarted {}
            | Event::TaskSubmitted { .. }
            | Event::HandedToQa { .. }
            | Event::HandedToGate { .. }
            | Event::HandedToPm { .. }
            | Event::ReviewPassed { .. }
            | Event::ReviewFailed { .. }
            | Event::ReviewReopened { .. }
            | Event::DocsRecorded { .. }
            | Event::SentToCeo {}
            | Event::ChangesRequested { .. }
            | Event::CeoRejected { .. }
            | Event::MergeRefused { finding: Some(_), .. }
            | Event::TaskCompleted {}
            | Event::TaskCancelled { .. }
            | Event::TaskReleased { .. }
    )
}

/// The highest numbers that the new rows of a commit use: of a task, of an inbox item.
pub(super) fn numbers_used(changes: &Changes) -> (Option<u64>, Option<u64>) {
    let task = changes.task.iter().chain(&changes.others).filter(|task| task.version == 1).map(|task| task.number.0).max();
    let inbox = changes.inbox.iter().filter(|item| item.version == 1).map(|item| item.number.0).max();
    (task, inbox)
}
