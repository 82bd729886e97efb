//! The one lane through which everything is written, on both databases.
//!
//! Requests queue up; whatever waits when the last transaction ends goes into the next one together, because making a transaction durable
//! costs more than filling it. Memory changes only after the database has said that the transaction is committed, then the events go out in
//! the order of their numbers, then the callers get their answers. A caller that stops waiting changes nothing: the lane is a task of its
//! own, so no transaction is left open and nothing is committed without being published.
//!
//! A group that fails is tried again one request at a time, so that only the guilty one fails. A request that has failed is never repeated
//! here when it may have been written. Every transaction leaves its name, so that one whose commit was not answered is looked for and its
//! callers are told what became of it. After such a commit, or when the database disagrees with memory, everything is loaded anew before
//! the next write.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use roboco_domain::id::{CompanyId, SpawnId};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbErr, SqliteTransactionMode, TransactionOptions, TransactionTrait};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::time::Instant;
use tracing::{error, warn};
use uuid::Uuid;

use super::fault::{fault, is_duplicate};
use super::load;
use super::memory::Memory;
use super::plan::{Miss, Plan, Target, Volume, Work, Write, plan};
use super::worker::Worker;
use crate::{Committed, EventRow, StoreFault};

/// Most requests in one transaction.
const GROUP: usize = 64;
/// Requests that may wait; more wait outside.
const QUEUE: usize = 1024;
/// Spawns whose transcript volume is remembered; it can be counted again at any time.
const VOLUMES: usize = 1024;
/// Events that another process has written are read this many at a time.
const MISSED_PAGE: u64 = 500;
/// For so long it is tried to find out what became of a commit that was not answered; nothing else can be written meanwhile.
const FIND_OUT: Duration = Duration::from_secs(15);
/// The wait between two such tries.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// The epoch of a process that never led.
const NEVER_LED: u64 = 0;

/// What the lane and the readers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) company: CompanyId,
    pub(super) events: broadcast::Sender<Arc<EventRow>>,
    memory: RwLock<Memory>,
    fence: AtomicU64,
}

impl Shared {
    pub(super) fn new(company: CompanyId, memory: Memory, events: broadcast::Sender<Arc<EventRow>>) -> Self {
        Self { company, events, memory: RwLock::new(memory), fence: AtomicU64::new(NEVER_LED) }
    }

    /// Looks at memory. The closure must be short: it holds a lock.
    pub(super) fn read<T>(&self, look: impl FnOnce(&Memory) -> T) -> T {
        look(&self.memory.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Memory) -> T) -> T {
        change(&mut self.memory.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on commits are refused unless this epoch leads. Returns whether it is another epoch than before.
    pub(super) fn lead_with(&self, epoch: u64) -> bool {
        self.fence.swap(epoch, Ordering::AcqRel) != epoch
    }

    fn fence(&self) -> Option<u64> {
        Some(self.fence.load(Ordering::Acquire)).filter(|epoch| *epoch != NEVER_LED)
    }
}

enum Message {
    Write(Work, oneshot::Sender<Result<Committed, StoreFault>>),
    Reload(oneshot::Sender<Result<(), StoreFault>>),
    Close(oneshot::Sender<()>),
}

/// The way into the lane.
#[derive(Debug, Clone)]
pub(super) struct LaneSender {
    queue: mpsc::Sender<Message>,
    writer: Worker,
}

impl LaneSender {
    /// Starts a lane on its own connection. It ends when every sender is gone, or when it is closed.
    pub(super) fn start(db: DatabaseConnection, shared: Arc<Shared>) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let lane = Lane { db, shared, volumes: HashMap::new(), trust: Trust::Certain };
        Self { queue, writer: Worker::start("the writer of the database", lane.serve(waiting)) }
    }

    /// Writes and waits until it is durable. The write goes on even if nobody waits any more.
    pub(super) async fn write(&self, work: Work) -> Result<Committed, StoreFault> {
        let (answer, answered) = oneshot::channel();
        self.queue.send(Message::Write(work, answer)).await.map_err(|_| self.gone())?;
        answered.await.map_err(|_| self.gone())?
    }

    /// Fails when nothing can be written any more.
    pub(super) fn check(&self) -> Result<(), StoreFault> {
        self.writer.check()
    }

    /// Loads memory anew.
    pub(super) async fn reload(&self) -> Result<(), StoreFault> {
        let (answer, answered) = oneshot::channel();
        self.queue.send(Message::Reload(answer)).await.map_err(|_| self.gone())?;
        answered.await.map_err(|_| self.gone())?
    }

    fn gone(&self) -> StoreFault {
        self.check().err().unwrap_or_else(closed)
    }

    /// Finishes what waits and closes the connection.
    pub(super) async fn close(&self) {
        let (answer, answered) = oneshot::channel();
        if self.queue.send(Message::Close(answer)).await.is_ok() && answered.await.is_err() {
            warn!("the database lane ended before it was closed");
        }
    }
}

fn closed() -> StoreFault {
    StoreFault { message: "the database was closed".into(), retryable: false, remedy: None }
}

/// Whether memory is known to be what the database holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    Certain,
    Doubtful,
}

/// Why a group was not written.
enum Failure {
    /// A row that memory does not hold has another version.
    Stale,
    /// Memory is wrong.
    Lost,
    /// It is not known whether it was written.
    Unknown(StoreFault),
    /// The database refused.
    Fault(StoreFault),
}

/// What became of a commit that was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Written,
    Gone,
}

struct Lane {
    db: DatabaseConnection,
    shared: Arc<Shared>,
    volumes: HashMap<SpawnId, Volume>,
    trust: Trust,
}

impl Lane {
    async fn serve(mut self, mut waiting: mpsc::Receiver<Message>) {
        let mut messages = Vec::with_capacity(GROUP);
        while waiting.recv_many(&mut messages, GROUP).await > 0 {
            let mut group = Vec::with_capacity(messages.len());
            for message in messages.drain(..) {
                match message {
                    Message::Write(work, answer) => group.push((work, answer)),
                    Message::Reload(answer) => {
                        self.group(std::mem::take(&mut group)).await;
                        reply(answer, self.reload().await);
                    }
                    Message::Close(answer) => {
                        self.group(std::mem::take(&mut group)).await;
                        if let Err(cause) = self.db.close_by_ref().await {
                            warn!(error = %cause, "the database connection did not close cleanly");
                        }
                        reply(answer, ());
                        return;
                    }
                }
            }
            self.group(group).await;
        }
    }

    async fn group(&mut self, group: Vec<(Work, oneshot::Sender<Result<Committed, StoreFault>>)>) {
        if group.len() > 1 {
            let works: Vec<&Work> = group.iter().map(|(work, _)| work).collect();
            match self.together(&works).await {
                Ok(answers) => {
                    for ((_, answer), committed) in group.into_iter().zip(answers) {
                        reply(answer, Ok(committed));
                    }
                    return;
                }
                // It may have been written, so it is not written again.
                Err(Failure::Unknown(fault)) => {
                    group.into_iter().for_each(|(_, answer)| reply(answer, Err(fault.clone())));
                    return;
                }
                Err(Failure::Stale | Failure::Lost | Failure::Fault(_)) => {}
            }
        }
        for (work, answer) in group {
            let result = self.alone(&work).await;
            reply(answer, result);
        }
    }

    /// One request in a transaction of its own.
    async fn alone(&mut self, work: &Work) -> Result<Committed, StoreFault> {
        match self.together(&[work]).await {
            Ok(answers) => answers.first().copied().ok_or_else(closed),
            Err(Failure::Fault(fault) | Failure::Unknown(fault)) => Err(fault),
            Err(Failure::Stale) => Ok(Committed::Stale),
            Err(Failure::Lost) => {
                self.reload().await?;
                self.check_leadership().await?;
                Ok(Committed::Stale)
            }
        }
    }

    async fn together(&mut self, works: &[&Work]) -> Result<Vec<Committed>, Failure> {
        if self.trust == Trust::Doubtful {
            self.reload().await.map_err(Failure::Fault)?;
        }
        let volumes = self.volumes_of(works).await.map_err(Failure::Fault)?;
        let write = Uuid::now_v7();
        let target = Target { backend: self.db.get_database_backend(), company: self.shared.company, fence: self.shared.fence(), write };
        let planned = self.shared.read(|memory| plan(target, memory, volumes, works)).map_err(Failure::Fault)?;
        let Plan { writes, answers, staged, volumes } = planned;
        if !writes.is_empty() {
            match self.transact(writes).await {
                Ok(()) => {}
                Err(Failure::Unknown(fault)) => {
                    self.trust = Trust::Doubtful;
                    // Only decisions leave a name; the rest may be written again without harm.
                    let decides = works.iter().any(|work| matches!(work, Work::Commit(_)));
                    return match if decides { self.find_out(write).await } else { None } {
                        // Memory was loaded with it, and its events are out.
                        Some(Found::Written) => Ok(answers),
                        Some(Found::Gone) => Err(Failure::Fault(fault)),
                        None => Err(Failure::Unknown(fault)),
                    };
                }
                Err(failure) => return Err(failure),
            }
        }
        self.volumes.extend(volumes);
        let events = self.shared.change(|memory| memory.apply(staged));
        for event in events {
            publish(&self.shared, event);
        }
        Ok(answers)
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<(), Failure> {
        let options =
            TransactionOptions { sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate), ..TransactionOptions::default() };
        let transaction = self.db.begin_with_options(options).await.map_err(refused)?;
        for Write { statement, on_miss } in writes {
            let missed = match transaction.execute_raw(statement).await {
                Ok(result) => result.rows_affected() == 0,
                Err(cause) if on_miss != Miss::Fine && is_duplicate(&cause) => true,
                Err(cause) => return Err(rolled_back(transaction, refused(cause)).await),
            };
            match on_miss {
                Miss::Stale if missed => return Err(rolled_back(transaction, Failure::Stale).await),
                Miss::Lost if missed => return Err(rolled_back(transaction, Failure::Lost).await),
                Miss::Fine | Miss::Stale | Miss::Lost => {}
            }
        }
        transaction.commit().await.map_err(|cause| Failure::Unknown(fault(cause)))
    }

    /// What became of a transaction whose commit was not answered; none when the database cannot be asked in time.
    async fn find_out(&mut self, write: Uuid) -> Option<Found> {
        let deadline = Instant::now() + FIND_OUT;
        loop {
            let last = match load::last_write(&self.db, self.shared.company).await {
                Ok(last) => self.reload().await.map(|()| last),
                Err(fault) => Err(fault),
            };
            match last {
                Ok(last) => {
                    let written = last == Some(write.to_string());
                    warn!(written, "the database did not answer a commit; now it is known what became of it");
                    return Some(if written { Found::Written } else { Found::Gone });
                }
                Err(fault) if Instant::now() >= deadline => {
                    error!(error = %fault, "the database did not answer a commit, and cannot be asked what became of it");
                    return None;
                }
                Err(_) => tokio::time::sleep(ASK_AGAIN).await,
            }
        }
    }

    /// How much is stored of each transcript that the group appends to.
    async fn volumes_of(&mut self, works: &[&Work]) -> Result<HashMap<SpawnId, Volume>, StoreFault> {
        if self.volumes.len() > VOLUMES {
            self.volumes.clear();
        }
        let mut volumes = HashMap::new();
        for work in works {
            if let Work::Transcript { spawn, .. } = work {
                let known = match self.volumes.get(spawn) {
                    Some(volume) => *volume,
                    None => load::volume(&self.db, self.shared.company, *spawn).await?,
                };
                volumes.insert(*spawn, known);
            }
        }
        Ok(volumes)
    }

    /// Loads memory anew and publishes what was committed without being published.
    async fn reload(&mut self) -> Result<(), StoreFault> {
        self.trust = Trust::Doubtful;
        self.volumes.clear();
        let memory = load::memory(&self.db, self.shared.company).await?;
        let end = memory.counter.event;
        let mut next = self.shared.change(|old| std::mem::replace(old, memory)).counter.event;
        while next < end {
            let before = Ord::min(end, next + MISSED_PAGE);
            for event in load::events(&self.db, self.shared.company, next.saturating_sub(1), before).await? {
                publish(&self.shared, Arc::new(event));
            }
            next = before;
        }
        self.trust = Trust::Certain;
        Ok(())
    }

    /// Fails when this process has led and another one does now: deciding again would not help.
    async fn check_leadership(&self) -> Result<(), StoreFault> {
        let Some(mine) = self.shared.fence() else { return Ok(()) };
        let leader = load::leader(&self.db, self.shared.company).await?;
        match leader {
            Some(row) if row.epoch == super::rows::stored(mine) => Ok(()),
            Some(row) => {
                error!(leader = row.holder, "another process leads this company now; nothing more is written from here");
                Err(StoreFault {
                    message: format!("{} leads this company now; stop this process", row.holder),
                    retryable: false,
                    remedy: None,
                })
            }
            None => {
                Err(StoreFault { message: "the row of the leader is missing; restore a backup".into(), retryable: false, remedy: None })
            }
        }
    }
}

fn refused(cause: DbErr) -> Failure {
    Failure::Fault(fault(cause))
}

async fn rolled_back(transaction: sea_orm::DatabaseTransaction, why: Failure) -> Failure {
    if let Err(cause) = transaction.rollback().await {
        // The driver drops the connection, and with it the transaction.
        warn!(error = %cause, "a transaction did not roll back cleanly");
    }
    why
}

fn publish(shared: &Shared, event: Arc<EventRow>) {
    // Nobody may be listening; the log has it.
    drop(shared.events.send(event));
}

fn reply<T>(answer: oneshot::Sender<T>, value: T) {
    // The caller may have stopped waiting; what was written stays written.
    drop(answer.send(value));
}
