//! Frames that the control plane has not taken yet. Bounded: when it is full, whoever adds to it waits, and so the client waits too.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use roboco_domain::frame::{Exit, Frame, FrameError, Hello, Item, Line, PROTOCOL};
use tokio::sync::Notify;

/// Memory for unacknowledged frames, in encoded bytes: enough to bridge a restart of the control plane, small beside any client.
pub(crate) const SPOOL_BYTES: usize = 16 * 1024 * 1024;
/// What a frame costs beside its text: many short lines must not take far more memory than a few long ones.
const FRAME_COST: usize = 64;
/// Frames are written in groups of about this many bytes, to save system calls.
const BATCH_BYTES: usize = 64 * 1024;

/// The frames between the client and the control plane. One writer takes them, any number of readers add them.
pub(crate) struct Spool {
    cap: usize,
    state: Mutex<State>,
    /// There may be something to send.
    filled: Notify,
    /// There may be room, or nothing left.
    freed: Notify,
}

struct State {
    frames: VecDeque<(u64, String)>,
    bytes: usize,
    /// Number of the newest frame ever added.
    last: u64,
    /// Number of the newest frame handed to the writer.
    sent: u64,
    greeting: Greeting,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Greeting {
    Due,
    Said,
}

/// Which line of the client a frame carries.
#[derive(Clone, Copy)]
pub(crate) enum Channel {
    Out,
    Err,
}

impl Spool {
    pub(crate) fn new(cap: usize) -> Self {
        let state = State { frames: VecDeque::new(), bytes: 0, last: 0, sent: 0, greeting: Greeting::Due };
        Self { cap, state: Mutex::new(state), filled: Notify::new(), freed: Notify::new() }
    }

    /// Adds a line; waits while the spool is full.
    pub(crate) async fn push_line(&self, channel: Channel, line: Line) -> Result<(), FrameError> {
        let item = match channel {
            Channel::Out => Item::Out(line),
            Channel::Err => Item::Err(line),
        };
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // Registered before the look, so that room made in between is not missed.
            freed.as_mut().enable();
            if self.lock().bytes < self.cap {
                return self.push(item);
            }
            freed.await;
        }
    }

    /// Adds a line even when the spool is full. Only for the bridge's own few notices.
    pub(crate) fn push_notice(&self, text: String) -> Result<(), FrameError> {
        self.push(Item::Err(Line { text, cut: 0 }))
    }

    /// Adds the end; there is always room for it.
    pub(crate) fn push_exit(&self, exit: Exit) -> Result<(), FrameError> {
        self.push(Item::Exit(exit))
    }

    fn push(&self, item: Item) -> Result<(), FrameError> {
        let mut state = self.lock();
        let n = state.last + 1;
        let text = Frame::Numbered { n, item }.encode()?;
        state.last = n;
        state.bytes += text.len() + FRAME_COST;
        state.frames.push_back((n, text));
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// Forgets every frame up to `n`.
    pub(crate) fn acknowledge(&self, n: u64) {
        let mut state = self.lock();
        // A number that was never sent cannot have been taken.
        let n = n.min(state.sent);
        while let Some((number, text)) = state.frames.front()
            && *number <= n
        {
            let size = text.len() + FRAME_COST;
            state.bytes -= size;
            state.frames.pop_front();
        }
        drop(state);
        self.freed.notify_waiters();
    }

    /// A new connection has everything up to `n`: greet it and send the rest again.
    pub(crate) fn resume_after(&self, n: u64) {
        self.acknowledge(n);
        let mut state = self.lock();
        state.sent = state.frames.front().map_or(state.last, |(first, _)| first - 1);
        state.greeting = Greeting::Due;
        drop(state);
        self.filled.notify_one();
    }

    /// Waits for frames that were not sent on this connection; gives about [`BATCH_BYTES`] of whole lines.
    pub(crate) async fn next_batch(&self) -> Result<String, FrameError> {
        loop {
            let batch = self.take_batch()?;
            if !batch.is_empty() {
                return Ok(batch);
            }
            self.filled.notified().await;
        }
    }

    fn take_batch(&self) -> Result<String, FrameError> {
        let mut state = self.lock();
        let mut batch = String::new();
        if state.greeting == Greeting::Due {
            batch = Frame::Hello(Hello { protocol: PROTOCOL, last: state.last }).encode()?;
            batch.push('\n');
            state.greeting = Greeting::Said;
        }
        let sent = state.sent;
        let start = state.frames.partition_point(|(n, _)| *n <= sent);
        let mut newest = sent;
        for (n, text) in state.frames.iter().skip(start) {
            batch.push_str(text);
            batch.push('\n');
            newest = *n;
            if batch.len() >= BATCH_BYTES {
                break;
            }
        }
        state.sent = newest;
        Ok(batch)
    }

    /// Number of the newest frame.
    pub(crate) fn last(&self) -> u64 {
        self.lock().last
    }

    /// Whether whoever adds a line waits.
    pub(crate) fn is_full(&self) -> bool {
        self.lock().bytes >= self.cap
    }

    /// Waits until every frame was acknowledged.
    pub(crate) async fn drained(&self) {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if self.lock().frames.is_empty() {
                return;
            }
            freed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock; a poisoned one still guards consistent data.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line { text: text.into(), cut: 0 }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn unacknowledged_frames_are_sent_again_after_a_reconnect() {
        let spool = Spool::new(1000);
        for text in ["a", "b", "c"] {
            spool.push_line(Channel::Out, line(text)).await.unwrap();
        }
        let first = spool.next_batch().await.unwrap();
        assert_eq!(
            first.lines().collect::<Vec<_>>(),
            [r#"{"hello":{"protocol":1,"last":3}}"#, r#"{"n":1,"out":"a"}"#, r#"{"n":2,"out":"b"}"#, r#"{"n":3,"out":"c"}"#]
        );
        spool.acknowledge(1);
        spool.resume_after(2);
        let again = spool.next_batch().await.unwrap();
        assert_eq!(again.lines().collect::<Vec<_>>(), [r#"{"hello":{"protocol":1,"last":3}}"#, r#"{"n":3,"out":"c"}"#]);
        // Somebody who knows less than was acknowledged gets what is still there.
        spool.resume_after(0);
        assert!(spool.next_batch().await.unwrap().contains(r#""n":3"#));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_full_spool_makes_the_client_wait_but_never_its_end() {
        let spool = Spool::new(40);
        spool.push_line(Channel::Out, line("0123456789012345678901234567890123456789")).await.unwrap();
        let blocked = spool.push_line(Channel::Err, line("later"));
        tokio::pin!(blocked);
        assert!(futures_poll_once(blocked.as_mut()).await.is_none(), "added beyond the cap");
        spool.push_exit(Exit::Code(0)).unwrap();
        let batch = spool.next_batch().await.unwrap();
        assert!(batch.contains("exit") && !batch.contains("later"));
        spool.acknowledge(99);
        blocked.await.unwrap();
        assert!(spool.next_batch().await.unwrap().contains("later"));
        spool.acknowledge(3);
        spool.drained().await;
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_was_never_sent_cannot_be_acknowledged() {
        let spool = Spool::new(1000);
        spool.push_line(Channel::Out, line("a")).await.unwrap();
        spool.acknowledge(1);
        assert!(spool.next_batch().await.unwrap().contains(r#""out":"a""#));
    }

    async fn futures_poll_once<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(match future.as_mut().poll(context) {
                std::task::Poll::Ready(value) => Some(value),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }
}
