//! What is told about each exchange: who, where, how it went. Never what was said.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::{HeaderMap, StatusCode, header};
use roboco_domain::time::Timestamp;

use crate::Caller;

/// How an exchange ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The whole answer was passed on.
    Complete,
    /// The client hung up first.
    ClientGone,
    /// No connection, or the upstream broke off; a sentence for a person.
    UpstreamFailed(String),
    /// The upstream was silent for too long.
    TimedOut,
}

/// One exchange with an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// Who asked.
    pub caller: Caller,
    /// Which provider.
    pub provider: String,
    /// What the upstream answered; absent when it did not.
    pub status: Option<u16>,
    /// When it asked to be asked again.
    pub retry_after: Option<Duration>,
    /// When the account's limit resets, if the upstream said so.
    pub limit_resets: Option<Timestamp>,
    /// From the request to the end.
    pub duration: Duration,
    /// Bytes of the request's body.
    pub sent: u64,
    /// Bytes of the answer's body.
    pub received: u64,
    /// How it ended.
    pub end: End,
}

/// Wants to know about exchanges. Called on the path of requests, so it must not block.
pub trait Observer: Send + Sync {
    /// An exchange is over.
    fn exchange(&self, exchange: &Exchange);

    /// There is no valid credential for a provider, or the provider refused it; `remedy` is what a person must do.
    fn auth_missing(&self, caller: Caller, provider: &str, remedy: &str);
}

/// Tells the observer exactly once, also when everything is dropped because the client hung up.
pub(crate) struct Watch {
    observer: Arc<dyn Observer>,
    exchange: Exchange,
    started: Instant,
    sent: Arc<AtomicU64>,
}

impl Watch {
    pub(crate) fn start(observer: Arc<dyn Observer>, caller: Caller, provider: &str) -> Self {
        let exchange = Exchange {
            caller,
            provider: provider.to_owned(),
            status: None,
            retry_after: None,
            limit_resets: None,
            duration: Duration::ZERO,
            sent: 0,
            received: 0,
            end: End::ClientGone,
        };
        Self { observer, exchange, started: Instant::now(), sent: Arc::new(AtomicU64::new(0)) }
    }

    /// Counts the bytes of the request's body.
    pub(crate) fn sent(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.sent)
    }

    /// The upstream began to answer.
    pub(crate) fn answered(&mut self, status: StatusCode, headers: &HeaderMap) {
        let number = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).and_then(|text| text.trim().parse::<u64>().ok());
        self.exchange.status = Some(status.as_u16());
        self.exchange.retry_after = number(header::RETRY_AFTER.as_str()).map(Duration::from_secs);
        self.exchange.limit_resets = number("anthropic-ratelimit-unified-reset")
            .and_then(|seconds| i64::try_from(seconds).ok()?.checked_mul(1000))
            .map(Timestamp::from_millis);
    }

    /// A piece of the answer passed; returns all bytes so far.
    pub(crate) fn received(&mut self, bytes: usize) -> u64 {
        self.exchange.received = self.exchange.received.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        self.exchange.received
    }

    /// How it ended, unless the client hangs up now.
    pub(crate) fn end(&mut self, end: End) {
        self.exchange.end = end;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.exchange.duration = self.started.elapsed();
        self.exchange.sent = self.sent.load(Ordering::Relaxed);
        let Exchange { caller, provider, status, duration, received, end, .. } = &self.exchange;
        let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        tracing::debug!(spawn.id = %caller.spawn, %provider, status, duration_ms, received, ?end, "model exchange over");
        self.observer.exchange(&self.exchange);
    }
}
