//! Refused calls on their way to the database. They may come by the thousand, so nobody waits for them: they are written in batches, and
//! what does not fit is dropped and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use roboco_domain::id::CompanyId;
use sea_orm::{DbBackend, EntityTrait, QueryTrait};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use tracing::warn;

use super::entity::attempt;
use super::lane::LaneSender;
use super::plan::Work;
use super::rows;
use super::worker::Worker;
use crate::{Attempt, StoreFault};

/// Refused calls in one write.
const BATCH: usize = 256;
/// The oldest call of a batch waits at most this long, which is what a crash may lose.
const WAIT: Duration = Duration::from_millis(20);
/// Calls that may wait for a slow database.
const QUEUE: usize = 4096;

enum Message {
    Keep(Attempt),
    Flush(oneshot::Sender<()>),
}

/// Takes refused calls without waiting.
#[derive(Debug)]
pub(super) struct AttemptLog {
    queue: mpsc::Sender<Message>,
    dropped: Arc<AtomicU64>,
    worker: Worker,
}

impl AttemptLog {
    /// Starts writing through a lane. It ends, after writing the rest, when this value is dropped.
    pub(super) fn start(lane: LaneSender, backend: DbBackend, company: CompanyId) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let writer = Writer { lane, backend, company, dropped: Arc::clone(&dropped) };
        let worker = Worker::start("the keeper of refused calls", writer.serve(waiting));
        Self { queue, dropped, worker }
    }

    /// Fails when none can be kept any more.
    pub(super) fn check(&self) -> Result<(), StoreFault> {
        self.worker.check()
    }

    pub(super) fn keep(&self, attempt: Attempt) {
        if self.queue.try_send(Message::Keep(attempt)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until everything kept so far is written.
    pub(super) async fn flush(&self) {
        let (answer, answered) = oneshot::channel();
        if self.queue.send(Message::Flush(answer)).await.is_ok() && answered.await.is_err() {
            warn!("refused calls were lost: their writer has ended");
        }
    }
}

struct Writer {
    lane: LaneSender,
    backend: DbBackend,
    company: CompanyId,
    dropped: Arc<AtomicU64>,
}

impl Writer {
    async fn serve(self, mut waiting: mpsc::Receiver<Message>) {
        while let Some(first) = waiting.recv().await {
            let deadline = Instant::now() + WAIT;
            let mut batch = Vec::new();
            let mut next = Some(first);
            while let Some(message) = next.take() {
                match message {
                    Message::Keep(attempt) => batch.push(attempt),
                    Message::Flush(answer) => {
                        self.write(std::mem::take(&mut batch)).await;
                        if answer.send(()).is_err() {
                            warn!("nobody waits any more for refused calls to be written");
                        }
                        break;
                    }
                }
                if batch.len() < BATCH {
                    next = timeout_at(deadline, waiting.recv()).await.ok().flatten();
                }
            }
            self.write(batch).await;
        }
    }

    async fn write(&self, batch: Vec<Attempt>) {
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            warn!(dropped, "refused calls came faster than the database takes them; {dropped} were not kept");
        }
        if batch.is_empty() {
            return;
        }
        let lost = batch.len();
        let insert = attempt::Entity::insert_many(batch.iter().map(|attempt| rows::attempt_row(self.company, attempt)));
        if let Err(fault) = self.lane.write(Work::Rows(vec![insert.build(self.backend)])).await {
            warn!(lost, error = %fault, "{lost} refused calls were not kept");
        }
    }
}
