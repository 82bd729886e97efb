//! The only way out of a sandbox: the model gateway. Clients send their agent's own token in place of a key; here it is checked and
//! replaced by the real credential, and bytes pass through in both directions without being gathered.
//!
//! Invariants: only the configured upstream of a known provider can be reached, and only with the requests that were allowed there: the
//! real credential can do more than an agent may; a real credential is read at the moment of use, never
//! stored in a log, an error or an answer; the agent's token never leaves. Nothing here knows the database: who may call, and who wants
//! to know about it, are traits.

mod credential;
mod exchange;
mod forward;
mod refusal;
mod upload;
mod upstream;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::routing::any;
use roboco_domain::id::{AgentId, SpawnId};
use roboco_domain::time::Timestamp;

pub use credential::Credential;
pub use exchange::{End, Exchange, Observer};
pub use upstream::{Upstream, UpstreamError};

/// Who speaks through the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// The agent.
    pub agent: AgentId,
    /// Its spawn.
    pub spawn: SpawnId,
}

/// Knows the tokens of the agents.
pub trait Callers: Send + Sync {
    /// Whose token this is; absent when it is nobody's, expired or of a spawn that is over. Compares in constant time.
    fn verify(&self, token: &str) -> Option<Caller>;
}

/// How long to wait for an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// From the end of a request that asks for an answer in pieces to the first byte of it.
    pub first_byte: Duration,
    /// From the end of any other request with a body to the first byte of the answer, which then is there as a whole.
    pub whole: Duration,
    /// Between two pieces of a request or of an answer.
    pub idle: Duration,
}

impl Default for Deadlines {
    /// Long thoughts without output happen; five minutes of silence inside an answer do not. An answer that comes at once takes as long as
    /// writing all of it.
    fn default() -> Self {
        Self { first_byte: Duration::from_secs(120), whole: Duration::from_secs(600), idle: Duration::from_secs(300) }
    }
}

/// Reads the clock.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The gateway before it is a router.
#[derive(Clone)]
pub struct Egress {
    callers: Arc<dyn Callers>,
    observer: Arc<dyn Observer>,
    upstreams: BTreeMap<String, Arc<Upstream>>,
    deadlines: Deadlines,
    clock: Clock,
    refusals: Arc<AtomicU64>,
}

impl Egress {
    /// A gateway that reaches nothing yet.
    pub fn new(callers: Arc<dyn Callers>, observer: Arc<dyn Observer>) -> Self {
        let clock: Clock = Arc::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
        });
        Self { callers, observer, upstreams: BTreeMap::new(), deadlines: Deadlines::default(), clock, refusals: Arc::default() }
    }

    /// Adds the upstream behind `/model/{provider}`.
    #[must_use]
    pub fn with_upstream(mut self, provider: &str, upstream: Upstream) -> Self {
        self.upstreams.insert(provider.to_owned(), Arc::new(upstream));
        self
    }

    /// How many requests of agents were not forwarded because nothing like them is allowed at their provider. Counts on as long as the
    /// gateway runs.
    pub fn refusals(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.refusals)
    }

    /// Other deadlines than the default.
    #[must_use]
    pub fn with_deadlines(mut self, deadlines: Deadlines) -> Self {
        self.deadlines = deadlines;
        self
    }

    /// Another clock than the system's.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }
}

/// The routes `/model/{provider}` and everything below. To be merged at the root: the path is read as it arrives.
pub fn router(egress: Egress) -> Router {
    Router::new()
        .route("/model/{provider}", any(forward::forward))
        .route("/model/{provider}/", any(forward::forward))
        .route("/model/{provider}/{*path}", any(forward::forward))
        .with_state(Arc::new(egress))
}
