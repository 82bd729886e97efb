//! Durable truth: tasks, spawns, seats, projects, the event log and the outbox, on SQLite or PostgreSQL from the same code.
//!
//! [`Store::commit`] is the only way to change state, and it takes only what a decision made. No transaction here ever waits for anything
//! but the database. Two kinds of rows are written beside decisions because they are no decisions: heartbeats of leases, and records that
//! may be lost with the last 20 milliseconds (refused calls, transcript blocks).

mod sql;

pub use sql::{OpenError, OpenOptions, SqlStore};

use std::sync::Arc;

use async_trait::async_trait;
use roboco_domain::apply::Changes;
use roboco_domain::effect::{Effect, EffectResult, Intended};
use roboco_domain::event::Event;
use roboco_domain::id::{AgentId, CompanyId, CorrelationId, IntentId, ProjectId, SpawnId, SpawnNumber, TaskId, TaskRef};
use roboco_domain::inbox::InboxItem;
use roboco_domain::project::Project;
use roboco_domain::snapshot::NextNumbers;
use roboco_domain::spawn::{Seat, Spawn};
use roboco_domain::task::{Stage, Task};
use roboco_domain::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The database failed or is unreachable. Retrying may help when `retryable`.
#[derive(Debug, Clone, thiserror::Error)]
#[error("database: {message}")]
pub struct StoreFault {
    /// What happened, without secrets.
    pub message: String,
    /// Whether trying again may help.
    pub retryable: bool,
    /// What a person must do about it, when that is certain. Said to people in place of the message.
    pub remedy: Option<&'static str>,
}

/// Everything one decision writes, all or nothing.
#[derive(Debug, Clone)]
pub struct CommitRequest {
    /// When it was decided.
    pub at: Timestamp,
    /// Who caused it.
    pub actor: AgentId,
    /// Through which run.
    pub spawn: Option<SpawnId>,
    /// Traces the command.
    pub correlation: CorrelationId,
    /// The task the events are about.
    pub task: Option<TaskId>,
    /// The task's stage before and after, when it moved.
    pub moved: Option<(Stage, Stage)>,
    /// The facts, in order.
    pub events: Vec<Event>,
    /// Facts about other tasks that come with them; the log has them after the ones above.
    pub also: Vec<TaskEvents>,
    /// The rows as they will be; each version is one above the stored one, which is checked. New rows have version 1.
    pub changes: Changes,
    /// The numbers the decision was made with. They are checked, and raised past what was used, only when a task or an inbox item is created.
    pub numbers: NextNumbers,
    /// Work to do after the commit.
    pub effects: Vec<Intended>,
    /// The effect that this commit answers, with what it came to. The first result of an effect stands; settling it again changes nothing.
    pub settles: Option<(IntentId, EffectResult)>,
    /// The key under which the answer is kept for replay. A key that is taken makes the whole commit stale: look the answer up again.
    pub replay: Option<Replay>,
}

/// What happened to one more task in a commit.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskEvents {
    /// Which.
    pub task: TaskId,
    /// Its stage before and after, when it moved.
    pub moved: Option<(Stage, Stage)>,
    /// The facts, in order.
    pub events: Vec<Event>,
}

/// An answer kept for 24 hours, so that the same request is not done twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    /// Scoped by the caller: `{spawn or token}:{key}`.
    pub key: String,
    /// Digest of verb and body; the same key with another digest is a mistake of the caller.
    pub digest: String,
    /// The answer as JSON, without what an awaited effect adds.
    pub answer: String,
    /// The effect whose result completes the answer.
    pub waits_for: Option<IntentId>,
}

/// What became of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// Everything was written; the sequence number of the last event, or of the log when there was none.
    Yes(u64),
    /// Somebody else was faster: a version or a number has moved. Nothing was written; load again and decide again.
    Stale,
}

/// One row of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRow {
    /// Gap-free per company; commit order.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: AgentId,
    /// About which task.
    pub task: Option<TaskId>,
    /// Through which run.
    pub spawn: Option<SpawnId>,
    /// Traces the command.
    pub correlation: CorrelationId,
    /// The stage before and after; of the rows that one commit writes about a task, only on the one that moved it.
    pub moved: Option<(Stage, Stage)>,
    /// What happened.
    pub event: Event,
}

/// An effect that is not finished.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenIntent {
    /// Its key.
    pub intent: IntentId,
    /// The work.
    pub effect: Effect,
    /// How often it was tried.
    pub attempts: u32,
    /// Not before this moment.
    pub not_before: Timestamp,
}

/// What an effect's row says.
#[derive(Debug, Clone, PartialEq)]
pub enum IntentState {
    /// Not finished.
    Open,
    /// Finished: what was to be done, and what it came to.
    Settled(Box<Effect>, EffectResult),
    /// No such row, or it was pruned.
    Unknown,
}

/// An effect that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedEffect {
    /// The work.
    pub effect: Effect,
    /// What it came to.
    pub result: EffectResult,
    /// When that was recorded.
    pub at: Timestamp,
}

/// A refused call, kept for the breaker and for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// When.
    pub at: Timestamp,
    /// Whose run.
    pub spawn: Option<SpawnId>,
    /// Whose seat.
    pub agent: AgentId,
    /// What was called.
    pub verb: String,
    /// On which task.
    pub task: Option<TaskId>,
    /// Why it was refused.
    pub kind: String,
    /// In words.
    pub message: String,
}

/// A piece of a spawn's transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Counts from 1 inside the spawn.
    pub n: u64,
    /// When.
    pub at: Timestamp,
    /// `text`, `thinking`, `tool_call`, `tool_result`, `note`, `input`, `end`.
    pub kind: String,
    /// What was said; at most 8 KiB.
    pub text: String,
}

/// Which tasks a list shows.
#[derive(Debug, Clone, Default)]
pub struct TaskFilter {
    /// Only open ones (`Some(true)`), only ended ones (`Some(false)`).
    pub open: Option<bool>,
    /// Only of this project.
    pub project: Option<ProjectId>,
    /// Older than this one.
    pub before: Option<u64>,
    /// At most this many; 0, and everything above 200, means 200.
    pub limit: u64,
}

/// What a reference typed by a person stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolved {
    /// Exactly one.
    One(TaskId),
    /// None.
    None,
    /// Several.
    Many,
}

/// Whether this process may write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leadership {
    /// It leads, with this epoch.
    Leads(u64),
    /// Another process leads; its name and when its right ends.
    HeldBy(String, Timestamp),
}

/// The database of one company.
#[async_trait]
pub trait Store: Send + Sync + std::fmt::Debug {
    /// The company of this database; made at the first start.
    fn company(&self) -> CompanyId;

    /// Writes a decision, all or nothing: rows (each with its version checked), events with the next sequence numbers, effects, the settled
    /// effect and the replay row.
    async fn commit(&self, request: CommitRequest) -> Result<Committed, StoreFault>;

    /// A task, open or ended.
    async fn task(&self, id: TaskId) -> Result<Option<Arc<Task>>, StoreFault>;
    /// What a typed reference stands for.
    async fn resolve(&self, reference: &TaskRef) -> Result<Resolved, StoreFault>;
    /// Every open task. From memory, in the order of their numbers.
    async fn open_tasks(&self) -> Result<Vec<Arc<Task>>, StoreFault>;
    /// Tasks for a list, newest first.
    async fn tasks(&self, filter: &TaskFilter) -> Result<Vec<Arc<Task>>, StoreFault>;
    /// A project by id.
    async fn project(&self, id: ProjectId) -> Result<Option<Arc<Project>>, StoreFault>;
    /// A project by slug.
    async fn project_by_slug(&self, slug: &str) -> Result<Option<Arc<Project>>, StoreFault>;
    /// Every project, by slug.
    async fn projects(&self) -> Result<Vec<Arc<Project>>, StoreFault>;
    /// A seat; one that never ran is empty with version 0.
    async fn seat(&self, agent: AgentId) -> Result<Seat, StoreFault>;
    /// A spawn, live or ended.
    async fn spawn(&self, id: SpawnId) -> Result<Option<Spawn>, StoreFault>;
    /// A spawn by the number people use.
    async fn spawn_by_number(&self, number: SpawnNumber) -> Result<Option<Spawn>, StoreFault>;
    /// Every spawn that has not ended. From memory.
    async fn live_spawns(&self) -> Result<Vec<Spawn>, StoreFault>;
    /// The spawns of a task, oldest first.
    async fn spawns_of(&self, task: TaskId) -> Result<Vec<Spawn>, StoreFault>;
    /// Open inbox items, oldest first; of one task, or all.
    async fn open_inbox(&self, task: Option<TaskId>) -> Result<Vec<InboxItem>, StoreFault>;
    /// The numbers the next rows get. From memory.
    async fn next_numbers(&self) -> Result<NextNumbers, StoreFault>;

    /// Events after a sequence number, at most `limit`; of one task, or all.
    async fn events(&self, after: u64, task: Option<TaskId>, limit: u64) -> Result<Vec<EventRow>, StoreFault>;
    /// Events as they are committed. A reader that lags loses the oldest and is told so.
    fn subscribe(&self) -> tokio::sync::broadcast::Receiver<Arc<EventRow>>;

    /// Effects that are not finished, oldest first.
    async fn open_intents(&self) -> Result<Vec<OpenIntent>, StoreFault>;
    /// What an effect's row says.
    async fn intent(&self, id: IntentId) -> Result<IntentState, StoreFault>;
    /// The effects of a task that ended at a moment or later, newest first, at most `limit`.
    async fn ended_effects(&self, task: TaskId, since: Timestamp, limit: u64) -> Result<Vec<EndedEffect>, StoreFault>;
    /// Notes a failed try of an effect.
    async fn retry_intent(&self, id: IntentId, attempts: u32, not_before: Timestamp, error: &str) -> Result<(), StoreFault>;
    /// The answer kept under a key.
    async fn replay(&self, key: &str) -> Result<Option<Replay>, StoreFault>;

    /// Extends a lease, if this spawn still holds it. No event: a heartbeat is not a fact worth keeping.
    async fn renew_lease(&self, task: TaskId, spawn: SpawnId, until: Timestamp) -> Result<(), StoreFault>;

    /// Keeps a refused call. Never waits; may be lost in a crash.
    fn record_attempt(&self, attempt: Attempt);
    /// Refused calls since a moment, for the breaker after a restart.
    async fn attempts_since(&self, since: Timestamp) -> Result<Vec<Attempt>, StoreFault>;
    /// Appends to a transcript; blocks over the caps of a spawn are dropped.
    async fn append_transcript(&self, spawn: SpawnId, blocks: Vec<Block>) -> Result<(), StoreFault>;
    /// Blocks of a transcript after a number, at most `limit`.
    async fn transcript(&self, spawn: SpawnId, after: u64, limit: u64) -> Result<Vec<Block>, StoreFault>;

    /// Keeps the digest of a token of a person; the same name replaces.
    async fn put_token(&self, name: &str, agent: AgentId, digest: &str, at: Timestamp) -> Result<(), StoreFault>;
    /// Whose token has this digest.
    async fn token(&self, digest: &str) -> Result<Option<AgentId>, StoreFault>;

    /// Takes or renews the right to write, for `ttl`; fenced by a rising epoch.
    async fn lead(&self, holder: &str, now: Timestamp, ttl: std::time::Duration) -> Result<Leadership, StoreFault>;
    /// Gives the right up.
    async fn resign(&self, holder: &str) -> Result<(), StoreFault>;

    /// Removes what is past its retention.
    async fn prune(&self, now: Timestamp) -> Result<(), StoreFault>;
    /// Whether the database answers, and what writes to it is alive.
    async fn ping(&self) -> Result<(), StoreFault>;
    /// Statements sent so far, without BEGIN and COMMIT.
    fn statements(&self) -> u64;
}
