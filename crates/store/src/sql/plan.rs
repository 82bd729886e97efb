//! What a group of requests makes of the database: the statements of one transaction, in order. Pure: nothing is sent from here.
//!
//! Requests are checked against memory and against what the requests before them in the group will have changed, so a lost race costs no
//! statement. Each statement says how many rows it must touch; the database thus checks the same versions again.

use std::collections::HashMap;
use std::sync::Arc;

use roboco_domain::apply::Changes;
use roboco_domain::id::{CompanyId, SpawnId, TaskId};
use roboco_domain::inbox::InboxItem;
use roboco_domain::limits;
use roboco_domain::project::Project;
use roboco_domain::spawn::{Seat, Spawn};
use roboco_domain::task::Task;
use roboco_domain::time::Timestamp;
use sea_orm::sea_query::{Expr, OnConflict, Query};
use sea_orm::{ActiveModelTrait, ColumnTrait, DbBackend, EntityTrait, IntoActiveModel, Iterable, QueryFilter, QueryTrait, Statement};

use uuid::Uuid;

use super::entity::{agent_seat, counter, event, inbox, intent, leader, project, replay, spawn, task, transcript};
use super::memory::{Counter, Memory, Staged};
use super::rows;
use crate::{Block, CommitRequest, Committed, StoreFault};

/// Rows in one insert; far below the number of values either database takes.
const ROWS_PER_INSERT: usize = 500;

/// Something to write.
#[derive(Debug)]
pub(super) enum Work {
    /// A decision.
    Commit(Box<CommitRequest>),
    /// A heartbeat.
    Renew {
        /// Of which task.
        task: TaskId,
        /// By which spawn.
        spawn: SpawnId,
        /// Until when.
        until: Timestamp,
    },
    /// Blocks of a transcript.
    Transcript {
        /// Of which spawn.
        spawn: SpawnId,
        /// In order.
        blocks: Vec<Block>,
    },
    /// Rows that no decision looks at.
    Rows(Vec<Statement>),
}

/// What a statement that touched no row, or found its key taken, says about the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Miss {
    /// It may happen.
    Fine,
    /// Somebody was faster on a row that memory does not hold.
    Stale,
    /// Memory is wrong: another process has written.
    Lost,
}

/// A statement with what it must find.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) statement: Statement,
    pub(super) on_miss: Miss,
}

/// How much of a spawn's transcript is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Volume {
    pub(super) blocks: u64,
    pub(super) bytes: u64,
}

/// A transaction to be.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) writes: Vec<Write>,
    /// One per request; what is not a commit is answered by `Yes` of the last number.
    pub(super) answers: Vec<Committed>,
    pub(super) staged: Staged,
    pub(super) volumes: HashMap<SpawnId, Volume>,
}

/// Where the statements go and under which right.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) backend: DbBackend,
    pub(super) company: CompanyId,
    /// The epoch of leadership this process writes under, once it has led.
    pub(super) fence: Option<u64>,
    /// The name of the transaction, left behind by one that commits a decision.
    pub(super) write: Uuid,
}

struct Planner<'a> {
    target: Target,
    memory: &'a Memory,
    staged: Staged,
    volumes: HashMap<SpawnId, Volume>,
    writes: Vec<Write>,
    intents: Vec<intent::ActiveModel>,
    replays: Vec<replay::ActiveModel>,
    decides: bool,
}

/// Plans a group. `volumes` holds an entry for every spawn whose transcript grows.
pub(super) fn plan(target: Target, memory: &Memory, volumes: HashMap<SpawnId, Volume>, works: &[&Work]) -> Result<Plan, StoreFault> {
    let staged = Staged::new(memory.counter);
    let mut planner =
        Planner { target, memory, staged, volumes, writes: Vec::new(), intents: Vec::new(), replays: Vec::new(), decides: false };
    let mut answers = Vec::with_capacity(works.len());
    for work in works {
        let answer = match work {
            Work::Commit(request) => planner.commit(request)?,
            Work::Renew { task, spawn, until } => planner.renew(*task, *spawn, *until),
            Work::Transcript { spawn, blocks } => planner.transcript(*spawn, blocks),
            Work::Rows(statements) => {
                planner.writes.extend(statements.iter().cloned().map(|statement| Write { statement, on_miss: Miss::Fine }));
                planner.done()
            }
        };
        answers.push(answer);
    }
    planner.finish(answers)
}

impl Planner<'_> {
    fn done(&self) -> Committed {
        Committed::Yes(self.staged.counter.event.saturating_sub(1))
    }

    fn write(&mut self, statement: Statement, on_miss: Miss) {
        self.writes.push(Write { statement, on_miss });
    }

    fn known_task(&self, id: TaskId) -> Option<&Arc<Task>> {
        self.staged.tasks.get(&id).or_else(|| self.memory.tasks.get(&id))
    }

    fn known_spawn(&self, id: SpawnId) -> Option<&Spawn> {
        self.staged.spawns.get(&id).or_else(|| self.memory.spawns.get(&id))
    }

    fn known_project(&self, it: &Project) -> Option<&Arc<Project>> {
        self.staged.projects.get(&it.id).or_else(|| self.memory.projects.get(&it.id))
    }

    fn known_seat(&self, it: &Seat) -> Option<&Seat> {
        self.staged.seats.get(&it.agent).or_else(|| self.memory.seats.get(&it.agent))
    }

    fn known_inbox(&self, it: &InboxItem) -> Option<&InboxItem> {
        self.staged.inbox.get(&it.number).or_else(|| self.memory.inbox.get(&it.number))
    }

    /// Whether every row and number of the request is what it was when the decision was made, as far as memory knows.
    fn is_current(&self, request: &CommitRequest) -> bool {
        let changes = &request.changes;
        let (new_task, new_inbox) = rows::numbers_used(changes);
        let next = self.staged.counter.numbers();
        let numbers =
            new_task.is_none_or(|_| request.numbers.task == next.task) && new_inbox.is_none_or(|_| request.numbers.inbox == next.inbox);
        let task = tasks_of(changes).all(|it| follows(it.version, self.known_task(it.id).map(|known| known.version)));
        let spawn = changes.spawn.as_ref().is_none_or(|it| follows(it.version, self.known_spawn(it.id).map(|known| known.version)));
        let inbox = changes.inbox.iter().all(|it| follows(it.version, self.known_inbox(it).map(|known| known.version)));
        // Every seat and every project is in memory, so an unknown one has version 0.
        let seat = changes.seat.as_ref().is_none_or(|it| it.version == self.known_seat(it).map_or(0, |known| known.version) + 1);
        let project = changes.project.as_ref().is_none_or(|it| it.version == self.known_project(it).map_or(0, |known| known.version) + 1);
        numbers && task && spawn && inbox && seat && project
    }

    fn commit(&mut self, request: &CommitRequest) -> Result<Committed, StoreFault> {
        if !self.is_current(request) {
            return Ok(Committed::Stale);
        }
        self.decides = true;
        // Rows are written in one fixed order of tables and of tasks in theirs, the counter last, so that two writers cannot wait for each
        // other in a circle.
        let mut tasks: Vec<_> = tasks_of(&request.changes).collect();
        tasks.sort_by_key(|task| task.id);
        for task in tasks {
            self.task(task)?;
        }
        if let Some(project) = &request.changes.project {
            self.project(project)?;
        }
        if let Some(spawn) = &request.changes.spawn {
            self.spawn(spawn)?;
        }
        if let Some(seat) = &request.changes.seat {
            self.seat(seat);
        }
        for item in &request.changes.inbox {
            self.inbox(item)?;
        }
        let counter = self.staged.counter;
        let before = self.staged.events.len();
        self.staged.events.extend(rows::log_of(request, counter.event).map(Arc::new));
        let written = self.staged.events.len() - before;
        let (task, inbox) = rows::numbers_used(&request.changes);
        self.staged.counter = Counter {
            event: counter.event + written as u64,
            task: task.map_or(counter.task, |used| Ord::max(counter.task, used + 1)),
            inbox: inbox.map_or(counter.inbox, |used| Ord::max(counter.inbox, used + 1)),
        };
        let last = self.staged.counter.event.saturating_sub(1);
        for (nth, intended) in request.effects.iter().enumerate() {
            self.intents.push(rows::intent_row(self.target.company, intended, request.at, last, nth)?.into_active_model());
        }
        if let Some((id, result)) = &request.settles {
            // The first result stands: settling a settled effect again touches no row, and that is fine.
            let update = intent::Entity::update_many()
                .col_expr(intent::Column::State, Expr::value(rows::SETTLED))
                .col_expr(intent::Column::Result, Expr::value(rows::to_json("result", result)?))
                .col_expr(intent::Column::SettledAt, Expr::value(request.at.millis()))
                .filter(intent::Column::CompanyId.eq(self.target.company.to_string()))
                .filter(intent::Column::Id.eq(id.to_string()))
                .filter(intent::Column::State.eq(rows::OPEN));
            self.write(update.build(self.target.backend), Miss::Fine);
        }
        if let Some(replay) = &request.replay {
            self.replays.push(rows::replay_row(self.target.company, replay, request.at).into_active_model());
        }
        Ok(Committed::Yes(last))
    }

    fn task(&mut self, wanted: &Arc<Task>) -> Result<(), StoreFault> {
        let known = self.known_task(wanted.id).cloned();
        let task = known.as_ref().map_or_else(|| Arc::clone(wanted), |known| keep_renewal(wanted, known));
        let row = rows::task_row(self.target.company, &task)?.into_active_model();
        let statement = match task.version {
            1 => task::Entity::insert(row).build(self.target.backend),
            version => changed::<task::Entity, _>(row)
                .filter(task::Column::CompanyId.eq(self.target.company.to_string()))
                .filter(task::Column::Id.eq(task.id.to_string()))
                .filter(task::Column::Version.eq(rows::stored(version - 1)))
                .build(self.target.backend),
        };
        self.write(statement, miss(task.version, known.as_ref()));
        self.staged.tasks.insert(task.id, task);
        Ok(())
    }

    fn project(&mut self, it: &Arc<Project>) -> Result<(), StoreFault> {
        let row = rows::project_row(self.target.company, it)?.into_active_model();
        let statement = match it.version {
            1 => project::Entity::insert(row).build(self.target.backend),
            version => changed::<project::Entity, _>(row)
                .filter(project::Column::CompanyId.eq(self.target.company.to_string()))
                .filter(project::Column::Id.eq(it.id.to_string()))
                .filter(project::Column::Version.eq(rows::stored(version - 1)))
                .build(self.target.backend),
        };
        self.write(statement, Miss::Lost);
        self.staged.projects.insert(it.id, Arc::clone(it));
        Ok(())
    }

    fn spawn(&mut self, it: &Spawn) -> Result<(), StoreFault> {
        let on_miss = miss(it.version, self.known_spawn(it.id));
        let row = rows::spawn_row(self.target.company, it)?.into_active_model();
        let statement = match it.version {
            1 => spawn::Entity::insert(row).build(self.target.backend),
            version => changed::<spawn::Entity, _>(row)
                .filter(spawn::Column::CompanyId.eq(self.target.company.to_string()))
                .filter(spawn::Column::Id.eq(it.id.to_string()))
                .filter(spawn::Column::Version.eq(rows::stored(version - 1)))
                .build(self.target.backend),
        };
        self.write(statement, on_miss);
        self.staged.spawns.insert(it.id, it.clone());
        Ok(())
    }

    fn seat(&mut self, it: &Seat) {
        let row = rows::seat_row(self.target.company, it).into_active_model();
        let statement = match it.version {
            1 => agent_seat::Entity::insert(row).build(self.target.backend),
            version => changed::<agent_seat::Entity, _>(row)
                .filter(agent_seat::Column::CompanyId.eq(self.target.company.to_string()))
                .filter(agent_seat::Column::AgentId.eq(it.agent.to_string()))
                .filter(agent_seat::Column::Version.eq(rows::stored(version - 1)))
                .build(self.target.backend),
        };
        self.write(statement, Miss::Lost);
        self.staged.seats.insert(it.agent, it.clone());
    }

    fn inbox(&mut self, it: &InboxItem) -> Result<(), StoreFault> {
        let on_miss = miss(it.version, self.known_inbox(it));
        let row = rows::inbox_row(self.target.company, it)?.into_active_model();
        let statement = match it.version {
            1 => inbox::Entity::insert(row).build(self.target.backend),
            version => changed::<inbox::Entity, _>(row)
                .filter(inbox::Column::CompanyId.eq(self.target.company.to_string()))
                .filter(inbox::Column::Number.eq(rows::stored(it.number.0)))
                .filter(inbox::Column::Version.eq(rows::stored(version - 1)))
                .build(self.target.backend),
        };
        self.write(statement, on_miss);
        self.staged.inbox.insert(it.number, it.clone());
        Ok(())
    }

    fn renew(&mut self, id: TaskId, spawn: SpawnId, until: Timestamp) -> Committed {
        let held = self
            .known_task(id)
            .filter(|task| task.ownership.lease.as_ref().is_some_and(|lease| lease.spawn == spawn && lease.expires_at < until));
        let Some(mut task) = held.cloned() else { return self.done() };
        if let Some(lease) = &mut Arc::make_mut(&mut task).ownership.lease {
            lease.expires_at = until;
        }
        let update = task::Entity::update_many()
            .col_expr(task::Column::LeaseExpiresAt, Expr::value(until.millis()))
            .filter(task::Column::CompanyId.eq(self.target.company.to_string()))
            .filter(task::Column::Id.eq(id.to_string()))
            .filter(task::Column::LeaseSpawn.eq(spawn.to_string()));
        self.write(update.build(self.target.backend), Miss::Lost);
        self.staged.tasks.insert(id, task);
        self.done()
    }

    fn transcript(&mut self, spawn: SpawnId, blocks: &[Block]) -> Committed {
        let volume = self.volumes.entry(spawn).or_default();
        let mut taken = Vec::new();
        for block in blocks {
            let text = cut(&rows::clean(&block.text), limits::TRANSCRIPT_BLOCK_BYTES).to_owned();
            let bytes = text.len() as u64;
            if volume.blocks >= limits::TRANSCRIPT_BLOCKS || volume.bytes + bytes > limits::TRANSCRIPT_BYTES {
                break;
            }
            volume.blocks += 1;
            volume.bytes += bytes;
            let row = transcript::Model {
                company_id: self.target.company.to_string(),
                spawn_id: spawn.to_string(),
                n: rows::stored(block.n),
                at: block.at.millis(),
                kind: rows::clean(&block.kind),
                text,
                bytes: rows::stored(bytes),
            };
            taken.push(row.into_active_model());
        }
        // A client that got no answer sends its blocks again; the first copy stands.
        let twice = OnConflict::columns([transcript::Column::CompanyId, transcript::Column::SpawnId, transcript::Column::N])
            .do_nothing()
            .to_owned();
        for statement in inserts::<transcript::Entity, _>(taken, self.target.backend, Some(&twice)) {
            self.write(statement, Miss::Fine);
        }
        self.done()
    }

    /// The log, the outbox and the answers go in together for the whole group, then the counter moves.
    fn finish(mut self, answers: Vec<Committed>) -> Result<Plan, StoreFault> {
        let Target { backend, company, .. } = self.target;
        let log = self.staged.events.iter().map(|it| rows::event_row(company, it).map(IntoActiveModel::into_active_model));
        let log = log.collect::<Result<Vec<event::ActiveModel>, _>>()?;
        for statement in inserts::<event::Entity, _>(log, backend, None) {
            self.write(statement, Miss::Lost);
        }
        for statement in inserts::<intent::Entity, _>(std::mem::take(&mut self.intents), backend, None) {
            self.write(statement, Miss::Fine);
        }
        for statement in inserts::<replay::Entity, _>(std::mem::take(&mut self.replays), backend, None) {
            self.write(statement, Miss::Stale);
        }
        // Also when no number was used: who may write is asked with the counter, and the transaction leaves its name there.
        if self.decides {
            self.counter();
        }
        let Self { writes, staged, volumes, .. } = self;
        Ok(Plan { writes, answers, staged, volumes })
    }

    fn counter(&mut self) {
        let (old, new) = (self.memory.counter, self.staged.counter);
        let company = self.target.company.to_string();
        let mut update = counter::Entity::update_many()
            .col_expr(counter::Column::NextEvent, Expr::value(rows::stored(new.event)))
            .col_expr(counter::Column::NextTask, Expr::value(rows::stored(new.task)))
            .col_expr(counter::Column::NextInbox, Expr::value(rows::stored(new.inbox)))
            .col_expr(counter::Column::LastWrite, Expr::value(self.target.write.to_string()))
            .filter(counter::Column::CompanyId.eq(&company))
            .filter(counter::Column::NextEvent.eq(rows::stored(old.event)))
            .filter(counter::Column::NextTask.eq(rows::stored(old.task)))
            .filter(counter::Column::NextInbox.eq(rows::stored(old.inbox)));
        if let Some(epoch) = self.target.fence {
            let leads = Query::select()
                .expr(Expr::value(1))
                .from(leader::Entity)
                .and_where(leader::Column::CompanyId.eq(&company))
                .and_where(leader::Column::Epoch.eq(rows::stored(epoch)))
                .to_owned();
            update = update.filter(Expr::exists(leads));
        }
        self.write(update.build(self.target.backend), Miss::Lost);
    }
}

/// Every task row that a commit writes.
fn tasks_of(changes: &Changes) -> impl Iterator<Item = &Arc<Task>> {
    changes.task.iter().chain(&changes.others)
}

/// Whether a version follows the known one. A row that memory does not hold is new, or it has ended and the database decides.
fn follows(version: u64, known: Option<u64>) -> bool {
    known.map_or(version >= 1, |known| version == known + 1)
}

/// What it means that a row was not as expected: only of an ended row does memory know nothing.
fn miss<T>(version: u64, known: Option<&T>) -> Miss {
    if version == 1 || known.is_some() { Miss::Lost } else { Miss::Stale }
}

/// A decision was made on the lease as it was loaded; a heartbeat since then must not be undone by it.
fn keep_renewal(wanted: &Arc<Task>, known: &Task) -> Arc<Task> {
    let (Some(new), Some(old)) = (&wanted.ownership.lease, &known.ownership.lease) else { return Arc::clone(wanted) };
    if new.spawn != old.spawn || new.expires_at >= old.expires_at {
        return Arc::clone(wanted);
    }
    let mut task = Arc::clone(wanted);
    if let Some(lease) = &mut Arc::make_mut(&mut task).ownership.lease {
        lease.expires_at = old.expires_at;
    }
    task
}

/// The longest beginning of at most `bytes` bytes that ends between two characters.
fn cut(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

/// An update of every column of a row.
fn changed<E, A>(row: A) -> sea_orm::UpdateMany<E>
where
    E: EntityTrait,
    A: ActiveModelTrait<Entity = E>,
{
    let mut update = E::update_many();
    for column in E::Column::iter() {
        if let sea_orm::ActiveValue::Set(value) | sea_orm::ActiveValue::Unchanged(value) = row.get(column) {
            update = update.col_expr(column, Expr::value(value));
        }
    }
    update
}

/// As few inserts as the number of rows allows.
fn inserts<E, A>(mut rows: Vec<A>, backend: DbBackend, conflict: Option<&OnConflict>) -> Vec<Statement>
where
    E: EntityTrait,
    A: ActiveModelTrait<Entity = E>,
{
    let mut statements = Vec::new();
    while !rows.is_empty() {
        let rest = rows.split_off(rows.len().min(ROWS_PER_INSERT));
        let insert = E::insert_many(std::mem::replace(&mut rows, rest));
        statements.push(match conflict {
            Some(conflict) => insert.on_conflict(conflict.clone()).build(backend),
            None => insert.build(backend),
        });
    }
    statements
}
