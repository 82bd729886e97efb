//! The store on SQLite or PostgreSQL, from the same entities and the same schema steps.
//!
//! Everything is written through one lane ([`lane`]); what decisions need is read from memory ([`memory`]); the rest is read by a few
//! connections of their own. One process leads a company and its memory is the truth; a second one finds its commits refused.

mod attempts;
#[expect(unreachable_pub, reason = "what the entity macro generates must be public")]
mod entity;
mod fault;
mod lane;
mod load;
mod memory;
mod migration;
mod open;
mod plan;
mod rows;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use roboco_domain::id::{AgentId, CompanyId, IntentId, ProjectId, SpawnId, SpawnNumber, TaskId, TaskRef};
use roboco_domain::inbox::InboxItem;
use roboco_domain::limits;
use roboco_domain::project::Project;
use roboco_domain::snapshot::NextNumbers;
use roboco_domain::spawn::{Seat, Spawn};
use roboco_domain::task::Task;
use roboco_domain::time::Timestamp;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict};
use sea_orm::{
    ColumnTrait, DatabaseConnection, DbBackend, EntityTrait, IntoActiveModel, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
    QueryTrait, Statement,
};
use tokio::sync::broadcast;

pub use open::{OpenError, OpenOptions};

use attempts::AttemptLog;
use entity::{api_token, attempt, company, event, intent, leader, replay, spawn, task, transcript};
use fault::fault;
use lane::{LaneSender, Shared};
use plan::Work;
use rows::{count, stored};

use crate::{
    Attempt, Block, CommitRequest, Committed, EndedEffect, EventRow, IntentState, Leadership, OpenIntent, Replay, Resolved, Store,
    StoreFault, TaskFilter,
};

/// Events a slow listener may be behind before it loses the oldest.
const LISTENER_LAG: usize = 1024;
/// Most tasks of one page.
const PAGE: u64 = 200;

/// A company's database on SQLite or PostgreSQL.
#[derive(Debug)]
pub struct SqlStore {
    shared: Arc<Shared>,
    readers: DatabaseConnection,
    lane: LaneSender,
    attempts: AttemptLog,
    statements: Arc<AtomicU64>,
}

impl SqlStore {
    /// Opens a database, makes it when it is new, and brings its schema up to date.
    ///
    /// # Errors
    /// `OpenError` names what is wrong with the file or the server, and what to do.
    pub async fn open(options: OpenOptions) -> Result<Self, OpenError> {
        let open::Connections { company, mut writer, mut readers } = open::connect(&options).await?;
        let memory = load::memory(&writer, company).await?;
        let statements = Arc::new(AtomicU64::new(0));
        for connection in [&mut writer, &mut readers] {
            let sent = Arc::clone(&statements);
            connection.set_metric_callback(move |_| {
                sent.fetch_add(1, Ordering::Relaxed);
            });
        }
        let backend = writer.get_database_backend();
        let shared = Arc::new(Shared::new(company, memory, broadcast::Sender::new(LISTENER_LAG)));
        let lane = LaneSender::start(writer, Arc::clone(&shared));
        let attempts = AttemptLog::start(lane.clone(), backend, company);
        Ok(Self { shared, readers, lane, attempts, statements })
    }

    /// Writes what still waits and closes every connection. Later calls fail.
    pub async fn close(&self) {
        self.attempts.flush().await;
        self.lane.close().await;
        if let Err(cause) = self.readers.close_by_ref().await {
            tracing::warn!(error = %cause, "the reading connections did not close cleanly");
        }
    }

    fn id(&self) -> String {
        self.shared.company.to_string()
    }

    fn backend(&self) -> DbBackend {
        self.readers.get_database_backend()
    }

    async fn rows(&self, statements: Vec<Statement>) -> Result<(), StoreFault> {
        self.lane.write(Work::Rows(statements)).await.map(|_| ())
    }

    async fn one_task(&self, found: sea_orm::Select<task::Entity>) -> Result<Option<Arc<Task>>, StoreFault> {
        let row = found.filter(task::Column::CompanyId.eq(self.id())).one(&self.readers).await.map_err(fault)?;
        row.map(|row| rows::task(&row).map(Arc::new)).transpose()
    }

    async fn one_spawn(&self, found: sea_orm::Select<spawn::Entity>) -> Result<Option<Spawn>, StoreFault> {
        let row = found.filter(spawn::Column::CompanyId.eq(self.id())).one(&self.readers).await.map_err(fault)?;
        row.map(|row| rows::from_json("spawn", &row.doc)).transpose()
    }
}

/// A prefix without dashes, as the stored text has it.
fn with_dashes(digits: &str) -> String {
    let mut text = String::with_capacity(36);
    for (index, digit) in digits.chars().enumerate() {
        if matches!(index, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(digit);
    }
    text
}

#[async_trait]
impl Store for SqlStore {
    fn company(&self) -> CompanyId {
        self.shared.company
    }

    async fn commit(&self, request: CommitRequest) -> Result<Committed, StoreFault> {
        self.lane.write(Work::Commit(Box::new(request))).await
    }

    async fn task(&self, id: TaskId) -> Result<Option<Arc<Task>>, StoreFault> {
        match self.shared.read(|memory| memory.tasks.get(&id).cloned()) {
            Some(task) => Ok(Some(task)),
            None => self.one_task(task::Entity::find().filter(task::Column::Id.eq(id.to_string()))).await,
        }
    }

    async fn resolve(&self, reference: &TaskRef) -> Result<Resolved, StoreFault> {
        let known = self.shared.read(|memory| match reference {
            TaskRef::Number(number) => memory.numbers.get(number).copied(),
            TaskRef::Id(id) => memory.tasks.contains_key(id).then_some(*id),
            TaskRef::Prefix(_) => None,
        });
        if let Some(id) = known {
            return Ok(Resolved::One(id));
        }
        let wanted = match reference {
            TaskRef::Number(number) => task::Column::Number.eq(stored(number.0)),
            TaskRef::Id(id) => task::Column::Id.eq(id.to_string()),
            TaskRef::Prefix(digits) => task::Column::Id.starts_with(with_dashes(digits)),
        };
        let found: Vec<String> = task::Entity::find()
            .select_only()
            .column(task::Column::Id)
            .filter(task::Column::CompanyId.eq(self.id()))
            .filter(wanted)
            .limit(2)
            .into_tuple()
            .all(&self.readers)
            .await
            .map_err(fault)?;
        match found.as_slice() {
            [] => Ok(Resolved::None),
            [only] => Ok(Resolved::One(rows::parse("task", only)?)),
            _ => Ok(Resolved::Many),
        }
    }

    async fn open_tasks(&self) -> Result<Vec<Arc<Task>>, StoreFault> {
        Ok(self.shared.read(|memory| memory.numbers.values().filter_map(|id| memory.tasks.get(id).cloned()).collect()))
    }

    async fn tasks(&self, filter: &TaskFilter) -> Result<Vec<Arc<Task>>, StoreFault> {
        let TaskFilter { open, project, before, limit } = filter;
        let mut found = task::Entity::find().filter(task::Column::CompanyId.eq(self.id()));
        found = match open {
            Some(true) => found.filter(task::Column::Stage.is_not_in(load::ended())),
            Some(false) => found.filter(task::Column::Stage.is_in(load::ended())),
            None => found,
        };
        if let Some(project) = project {
            found = found.filter(task::Column::ProjectId.eq(project.to_string()));
        }
        if let Some(before) = before {
            found = found.filter(task::Column::Number.lt(stored(*before)));
        }
        let page = if *limit == 0 { PAGE } else { Ord::min(PAGE, *limit) };
        let found = found.order_by_desc(task::Column::Number).limit(page).all(&self.readers).await.map_err(fault)?;
        found.iter().map(|row| rows::task(row).map(Arc::new)).collect()
    }

    async fn project(&self, id: ProjectId) -> Result<Option<Arc<Project>>, StoreFault> {
        Ok(self.shared.read(|memory| memory.projects.get(&id).cloned()))
    }

    async fn project_by_slug(&self, slug: &str) -> Result<Option<Arc<Project>>, StoreFault> {
        Ok(self.shared.read(|memory| memory.projects.values().find(|project| project.slug == slug).cloned()))
    }

    async fn projects(&self) -> Result<Vec<Arc<Project>>, StoreFault> {
        let mut projects: Vec<_> = self.shared.read(|memory| memory.projects.values().cloned().collect());
        projects.sort_by(|a, b| a.slug.cmp(&b.slug));
        Ok(projects)
    }

    async fn seat(&self, agent: AgentId) -> Result<Seat, StoreFault> {
        Ok(self.shared.read(|memory| memory.seats.get(&agent).cloned()).unwrap_or(Seat::empty(agent)))
    }

    async fn spawn(&self, id: SpawnId) -> Result<Option<Spawn>, StoreFault> {
        match self.shared.read(|memory| memory.spawns.get(&id).cloned()) {
            Some(spawn) => Ok(Some(spawn)),
            None => self.one_spawn(spawn::Entity::find().filter(spawn::Column::Id.eq(id.to_string()))).await,
        }
    }

    async fn spawn_by_number(&self, number: SpawnNumber) -> Result<Option<Spawn>, StoreFault> {
        let live = self.shared.read(|memory| memory.spawns.values().find(|spawn| spawn.number == number).cloned());
        if live.is_some() {
            return Ok(live);
        }
        let found = spawn::Entity::find()
            .filter(spawn::Column::TaskNumber.eq(stored(number.task.0)))
            .filter(spawn::Column::Nth.eq(stored(number.nth)));
        self.one_spawn(found).await
    }

    async fn live_spawns(&self) -> Result<Vec<Spawn>, StoreFault> {
        Ok(self.shared.read(|memory| memory.spawns.values().cloned().collect()))
    }

    async fn spawns_of(&self, task: TaskId) -> Result<Vec<Spawn>, StoreFault> {
        let found = spawn::Entity::find()
            .filter(spawn::Column::CompanyId.eq(self.id()))
            .filter(spawn::Column::TaskId.eq(task.to_string()))
            .order_by_asc(spawn::Column::Nth);
        found.all(&self.readers).await.map_err(fault)?.iter().map(|row| rows::from_json("spawn", &row.doc)).collect()
    }

    async fn open_inbox(&self, task: Option<TaskId>) -> Result<Vec<InboxItem>, StoreFault> {
        let wanted = |item: &&InboxItem| task.is_none_or(|task| item.task == task);
        Ok(self.shared.read(|memory| memory.inbox.values().filter(wanted).cloned().collect()))
    }

    async fn next_numbers(&self) -> Result<NextNumbers, StoreFault> {
        Ok(self.shared.read(|memory| memory.counter.numbers()))
    }

    async fn events(&self, after: u64, task: Option<TaskId>, limit: u64) -> Result<Vec<EventRow>, StoreFault> {
        let mut found = event::Entity::find().filter(event::Column::CompanyId.eq(self.id())).filter(event::Column::Seq.gt(stored(after)));
        if let Some(task) = task {
            found = found.filter(event::Column::TaskId.eq(task.to_string()));
        }
        let found = found.order_by_asc(event::Column::Seq).limit(limit).all(&self.readers).await.map_err(fault)?;
        found.iter().map(rows::event).collect()
    }

    fn subscribe(&self) -> broadcast::Receiver<Arc<EventRow>> {
        self.shared.events.subscribe()
    }

    async fn open_intents(&self) -> Result<Vec<OpenIntent>, StoreFault> {
        let found = intent::Entity::find()
            .filter(intent::Column::CompanyId.eq(self.id()))
            .filter(intent::Column::State.eq(rows::OPEN))
            .order_by_asc(intent::Column::Seq)
            .order_by_asc(intent::Column::CreatedAt)
            .order_by_asc(intent::Column::Nth);
        found.all(&self.readers).await.map_err(fault)?.iter().map(rows::open_intent).collect()
    }

    async fn intent(&self, id: IntentId) -> Result<IntentState, StoreFault> {
        let found = intent::Entity::find_by_id((self.id(), id.to_string())).one(&self.readers).await.map_err(fault)?;
        match found {
            None => Ok(IntentState::Unknown),
            Some(row) => match row.result {
                None => Ok(IntentState::Open),
                Some(result) => {
                    Ok(IntentState::Settled(Box::new(rows::from_json("effect", &row.payload)?), rows::from_json("result", &result)?))
                }
            },
        }
    }

    async fn ended_effects(&self, task: TaskId, since: Timestamp, limit: u64) -> Result<Vec<EndedEffect>, StoreFault> {
        let found = intent::Entity::find()
            .filter(intent::Column::CompanyId.eq(self.id()))
            .filter(intent::Column::TaskId.eq(task.to_string()))
            .filter(intent::Column::SettledAt.gte(since.millis()))
            .order_by_desc(intent::Column::SettledAt)
            .order_by_desc(intent::Column::Seq)
            .limit(limit);
        found.all(&self.readers).await.map_err(fault)?.iter().filter_map(|row| rows::ended_effect(row).transpose()).collect()
    }

    async fn retry_intent(&self, id: IntentId, attempts: u32, not_before: Timestamp, error: &str) -> Result<(), StoreFault> {
        let update = intent::Entity::update_many()
            .col_expr(intent::Column::Attempts, Expr::value(i64::from(attempts)))
            .col_expr(intent::Column::NotBefore, Expr::value(not_before.millis()))
            .col_expr(intent::Column::Error, Expr::value(rows::clean(error)))
            .filter(intent::Column::CompanyId.eq(self.id()))
            .filter(intent::Column::Id.eq(id.to_string()))
            .filter(intent::Column::State.eq(rows::OPEN));
        self.rows(vec![update.build(self.backend())]).await
    }

    async fn replay(&self, key: &str) -> Result<Option<Replay>, StoreFault> {
        let found = replay::Entity::find_by_id((self.id(), key.to_owned())).one(&self.readers).await.map_err(fault)?;
        found.map(rows::replay).transpose()
    }

    async fn renew_lease(&self, task: TaskId, spawn: SpawnId, until: Timestamp) -> Result<(), StoreFault> {
        self.lane.write(Work::Renew { task, spawn, until }).await.map(|_| ())
    }

    fn record_attempt(&self, attempt: Attempt) {
        self.attempts.keep(attempt);
    }

    async fn attempts_since(&self, since: Timestamp) -> Result<Vec<Attempt>, StoreFault> {
        let found = attempt::Entity::find()
            .filter(attempt::Column::CompanyId.eq(self.id()))
            .filter(attempt::Column::At.gte(since.millis()))
            .order_by_asc(attempt::Column::At)
            .order_by_asc(attempt::Column::Id);
        found.all(&self.readers).await.map_err(fault)?.into_iter().map(rows::attempt).collect()
    }

    async fn append_transcript(&self, spawn: SpawnId, blocks: Vec<Block>) -> Result<(), StoreFault> {
        if blocks.is_empty() {
            return Ok(());
        }
        self.lane.write(Work::Transcript { spawn, blocks }).await.map(|_| ())
    }

    async fn transcript(&self, spawn: SpawnId, after: u64, limit: u64) -> Result<Vec<Block>, StoreFault> {
        let found = transcript::Entity::find()
            .filter(transcript::Column::CompanyId.eq(self.id()))
            .filter(transcript::Column::SpawnId.eq(spawn.to_string()))
            .filter(transcript::Column::N.gt(stored(after)))
            .order_by_asc(transcript::Column::N)
            .limit(limit);
        Ok(found.all(&self.readers).await.map_err(fault)?.into_iter().map(rows::block).collect())
    }

    async fn put_token(&self, name: &str, agent: AgentId, digest: &str, at: Timestamp) -> Result<(), StoreFault> {
        let row = api_token::Model {
            company_id: self.id(),
            name: name.to_owned(),
            agent_id: agent.to_string(),
            digest: digest.to_owned(),
            created_at: at.millis(),
        };
        let replace = OnConflict::columns([api_token::Column::CompanyId, api_token::Column::Name])
            .update_columns([api_token::Column::AgentId, api_token::Column::Digest, api_token::Column::CreatedAt])
            .to_owned();
        let insert = api_token::Entity::insert(row.into_active_model()).on_conflict(replace);
        self.rows(vec![insert.build(self.backend())]).await
    }

    async fn token(&self, digest: &str) -> Result<Option<AgentId>, StoreFault> {
        let found = api_token::Entity::find()
            .filter(api_token::Column::CompanyId.eq(self.id()))
            .filter(api_token::Column::Digest.eq(digest))
            .one(&self.readers)
            .await
            .map_err(fault)?;
        found.map(|row| rows::parse("token", &row.agent_id)).transpose()
    }

    async fn lead(&self, holder: &str, now: Timestamp, ttl: Duration) -> Result<Leadership, StoreFault> {
        let until = now.after(ttl);
        let mine = || leader::Entity::update_many().filter(leader::Column::CompanyId.eq(self.id()));
        let take = mine()
            .col_expr(leader::Column::Holder, Expr::value(holder))
            .col_expr(leader::Column::Epoch, Expr::col(leader::Column::Epoch).add(1))
            .col_expr(leader::Column::ExpiresAt, Expr::value(until.millis()))
            .filter(leader::Column::Holder.ne(holder))
            .filter(leader::Column::ExpiresAt.lte(now.millis()));
        let renew = mine().col_expr(leader::Column::ExpiresAt, Expr::value(until.millis())).filter(leader::Column::Holder.eq(holder));
        self.rows(vec![take.build(self.backend()), renew.build(self.backend())]).await?;
        let row = load::leader(&self.readers, self.shared.company).await?;
        let row = row.ok_or_else(|| fault::unreadable("leader", "its row is missing; restore a backup"))?;
        if row.holder != holder {
            return Ok(Leadership::HeldBy(row.holder, Timestamp::from_millis(row.expires_at)));
        }
        let epoch = count(row.epoch);
        if self.shared.lead_with(epoch) {
            // Another process may have written since this one was opened.
            self.lane.reload().await?;
        }
        Ok(Leadership::Leads(epoch))
    }

    async fn resign(&self, holder: &str) -> Result<(), StoreFault> {
        let update = leader::Entity::update_many()
            .col_expr(leader::Column::Holder, Expr::value(""))
            .col_expr(leader::Column::ExpiresAt, Expr::value(0))
            .filter(leader::Column::CompanyId.eq(self.id()))
            .filter(leader::Column::Holder.eq(holder));
        self.rows(vec![update.build(self.backend())]).await
    }

    async fn prune(&self, now: Timestamp) -> Result<(), StoreFault> {
        let before = |keep: Duration| now.millis().saturating_sub(i64::try_from(keep.as_millis()).unwrap_or(i64::MAX));
        let backend = self.backend();
        let attempts = attempt::Entity::delete_many()
            .filter(attempt::Column::CompanyId.eq(self.id()))
            .filter(attempt::Column::At.lt(before(limits::ATTEMPT_KEEP)));
        let intents = intent::Entity::delete_many()
            .filter(intent::Column::CompanyId.eq(self.id()))
            .filter(intent::Column::State.eq(rows::SETTLED))
            .filter(intent::Column::SettledAt.lt(before(limits::INTENT_KEEP)));
        let replays = replay::Entity::delete_many()
            .filter(replay::Column::CompanyId.eq(self.id()))
            .filter(replay::Column::At.lt(before(limits::IDEMPOTENCY_KEEP)));
        let transcripts = transcript::Entity::delete_many()
            .filter(transcript::Column::CompanyId.eq(self.id()))
            .filter(transcript::Column::At.lt(before(limits::TRANSCRIPT_KEEP)));
        self.rows(vec![attempts.build(backend), intents.build(backend), replays.build(backend), transcripts.build(backend)]).await
    }

    async fn ping(&self) -> Result<(), StoreFault> {
        self.lane.check()?;
        self.attempts.check()?;
        company::Entity::find().count(&self.readers).await.map(|_| ()).map_err(fault)
    }

    fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }
}
