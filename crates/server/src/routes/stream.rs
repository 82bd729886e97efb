//! The live stream: the log from a position, then events as they happen, without gap or duplicate. Every frame carries its number, so a
//! reader that was cut off goes on where it stopped.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use futures::Stream;
use http::HeaderMap;
use roboco_company::fault::Fault;
use roboco_company::views::{EventView, Names};
use roboco_domain::id::TaskId;
use roboco_domain::limits;
use roboco_gateway::Problem;
use roboco_store::EventRow;
use serde::Deserialize;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::tasks;
use crate::ServerState;
use crate::failure;
use crate::input::{Correlation, Query};

/// Comments are sent this often when nothing happens, so that proxies keep the connection and a dead reader is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Rows read from the log at once.
const BATCH: u64 = 200;

/// What to follow.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Followed {
    task: Option<String>,
    after: Option<u64>,
}

pub(crate) async fn stream(
    State(state): State<ServerState>,
    Correlation(id): Correlation,
    Query(followed): Query<Followed>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Frame, Infallible>>>, Problem> {
    let task = match &followed.task {
        Some(typed) => Some(tasks::find(&state, typed, id).await?.id),
        None => None,
    };
    let last = match headers.get("last-event-id") {
        None => followed.after,
        Some(value) => {
            let read = value.to_str().ok().and_then(|text| text.trim().parse().ok());
            Some(read.ok_or_else(|| failure::unreadable("last-event-id", "the number of an event", id))?)
        }
    };
    // Subscribed before the log is read: what is committed in between is in one of the two, or in both.
    let receiver = state.company.store().subscribe();
    let reader = Reader {
        phase: if last.is_some() { Phase::Log } else { Phase::Live },
        last: last.unwrap_or(0),
        head: None,
        task,
        receiver,
        waiting: VecDeque::new(),
        names: Names::default(),
        state,
    };
    Ok(Sse::new(futures::stream::unfold(reader, Reader::next)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

enum Phase {
    /// Reading what was committed before.
    Log,
    /// Waiting for what is committed now.
    Live,
    /// Nothing follows.
    Over,
}

struct Reader {
    state: ServerState,
    phase: Phase,
    /// The last event that was sent or passed over.
    last: u64,
    /// The last event that was heard live.
    head: Option<u64>,
    task: Option<TaskId>,
    receiver: Receiver<Arc<EventRow>>,
    waiting: VecDeque<EventView>,
    names: Names,
}

impl Reader {
    async fn next(mut self) -> Option<(Result<Frame, Infallible>, Self)> {
        loop {
            if let Some(view) = self.waiting.pop_front() {
                return Some((Ok(frame(&view)), self));
            }
            let step = match self.phase {
                Phase::Over => return None,
                Phase::Log => self.read_log().await,
                Phase::Live => self.listen().await,
            };
            match step {
                Ok(Step::Again) => {}
                Ok(Step::Resync) => {
                    self.phase = Phase::Over;
                    return Some((Ok(Frame::default().event("resync").data("{}")), self));
                }
                Ok(Step::End) => return None,
                Err(fault) => {
                    tracing::warn!(%fault, "a live stream ended; its reader goes on from its last event");
                    return None;
                }
            }
        }
    }

    async fn read_log(&mut self) -> Result<Step, Fault> {
        if self.state.shutdown.is_cancelled() {
            return Ok(Step::End);
        }
        let rows = self.state.company.store().events(self.last, self.task, BATCH).await?;
        if (rows.len() as u64) < BATCH {
            self.phase = Phase::Live;
        }
        for row in &rows {
            self.last = row.seq;
            let view = self.state.company.event_view(row, &mut self.names).await?;
            self.waiting.push_back(view);
        }
        Ok(Step::Again)
    }

    async fn listen(&mut self) -> Result<Step, Fault> {
        let heard = tokio::select! {
            biased;
            () = self.state.shutdown.cancelled() => return Ok(Step::End),
            heard = self.receiver.recv() => heard,
        };
        let row = match heard {
            Ok(row) => row,
            Err(RecvError::Closed) => return Ok(Step::End),
            // It fell behind while the log was read: the log has what it missed.
            Err(RecvError::Lagged(_)) if self.head.is_none() && self.last > 0 => {
                self.phase = Phase::Log;
                return Ok(Step::Again);
            }
            Err(RecvError::Lagged(_)) => return Ok(Step::Resync),
        };
        if row.seq <= self.last {
            return Ok(Step::Again);
        }
        if self.receiver.len() > limits::STREAM_LAG {
            return Ok(Step::Resync);
        }
        let gap = self.head.is_some_and(|head| row.seq != head + 1);
        self.head = Some(row.seq);
        if gap {
            self.phase = Phase::Log;
            return Ok(Step::Again);
        }
        self.last = row.seq;
        if self.task.is_none() || row.task == self.task {
            let view = self.state.company.event_view(&row, &mut self.names).await?;
            self.waiting.push_back(view);
        }
        Ok(Step::Again)
    }
}

enum Step {
    Again,
    Resync,
    End,
}

fn frame(view: &EventView) -> Frame {
    let data = serde_json::to_string(view).unwrap_or_default();
    Frame::default().id(view.seq.to_string()).event(&view.kind).data(data)
}
