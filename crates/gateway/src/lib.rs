//! The agents' door: every verb and tool, over MCP (`/mcp/{spawn}`) and over plain HTTP (`/api/v1/flow|do`), from one registry and
//! through one dispatch.
//!
//! Who calls is read from a signed token and from nothing else. The order of the checks is fixed: token, seat, role of the route, replay,
//! breaker, body, and then the rules of the task. A verb that was reached is answered with its envelope and 200 whatever came of it, an
//! unreadable body included; other statuses speak of the door itself. This crate knows no SQL, no process and no git.

mod caller;
mod dispatch;
mod guard;
mod keys;
mod manifest;
mod mcp;
mod problem;
mod reply;
mod routes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use roboco_company::Company;
use roboco_company::fault::Fault;
use roboco_domain::command::AgentActor;
use roboco_domain::id::{AgentId, SpawnId};
use roboco_domain::limits;
use roboco_domain::rejection::Kind;
use roboco_domain::role::Role;
use roboco_domain::roster::Retired;
use roboco_domain::verb::Verb;

use crate::guard::Guard;

pub use keys::{KeyError, Keys};
pub use manifest::manifest;
pub use problem::Problem;

/// The agents' door of one company. Clones share everything.
#[derive(Debug, Clone)]
pub struct Gateway {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    company: Arc<Company>,
    keys: Keys,
    guard: Guard,
    tools: BTreeMap<Role, Vec<rmcp::model::Tool>>,
    calls: AtomicU64,
    call_micros: AtomicU64,
    wall: Duration,
}

impl Gateway {
    /// A door whose tokens are signed with these keys.
    pub fn new(company: Arc<Company>, keys: Keys) -> Self {
        Self::with_wall(company, keys, limits::VERB_WALL)
    }

    /// The same, with another limit on how long a verb may take.
    pub fn with_wall(company: Arc<Company>, keys: Keys, wall: Duration) -> Self {
        let tools = Role::ALL.iter().map(|role| (*role, mcp::tools(*role))).collect();
        Self {
            inner: Arc::new(Inner {
                company,
                keys,
                guard: Guard::default(),
                tools,
                calls: AtomicU64::new(0),
                call_micros: AtomicU64::new(0),
                wall,
            }),
        }
    }

    /// Everything agents may reach: `/api/v1/flow/{role}/{verb}`, `/api/v1/do/{tool}` and `/mcp/{spawn}`.
    pub fn router(&self) -> Router {
        routes::router(self.clone())
    }

    /// Whose token this is: signed by these keys, not expired, and of a seat that the roster still describes like this. Whether the run
    /// still speaks for its seat is asked with every call, not here.
    pub fn verify(&self, token: &str) -> Option<AgentActor> {
        let actor = self.inner.keys.verify(token, self.inner.company.clock().now())?;
        let seat = self.inner.company.roster().agent(actor.agent)?;
        (seat.role == actor.role && seat.team == actor.team && seat.retired == Retired::No).then_some(actor)
    }

    /// The keys that sign the tokens.
    pub fn keys(&self) -> &Keys {
        &self.inner.keys
    }

    /// Fills the breaker from the refusals that were kept, so that a restart does not close it.
    ///
    /// # Errors
    /// A fault of the database.
    pub async fn restore(&self) -> Result<(), Fault> {
        let store = self.inner.company.store();
        let live: BTreeMap<SpawnId, _> = store.live_spawns().await?.into_iter().map(|spawn| (spawn.id, spawn.task)).collect();
        let now = self.inner.company.clock().now();
        let since = roboco_domain::time::Timestamp::from_millis(
            now.millis().saturating_sub(i64::try_from(limits::SPAWN_WALL.as_millis()).unwrap_or(i64::MAX)),
        );
        for attempt in store.attempts_since(since).await? {
            let Some((spawn, own)) = attempt.spawn.and_then(|id| live.get(&id).map(|task| (id, *task))) else { continue };
            let (Ok(verb), Ok(kind)) = (attempt.verb.parse::<Verb>(), attempt.kind.parse::<Kind>()) else { continue };
            let key = roboco_domain::breaker::Key { spawn, verb, task: Some(attempt.task.unwrap_or(own)) };
            self.inner.guard.recall(key, kind, attempt.at);
        }
        Ok(())
    }

    /// Drops what was counted for a run; to be called when it ends.
    pub fn forget(&self, spawn: SpawnId) {
        self.inner.guard.forget(spawn);
    }

    /// Verbs and tools called so far, refused ones included.
    pub fn calls(&self) -> u64 {
        self.inner.calls.load(Ordering::Relaxed)
    }

    /// How long the answered ones took together, by the clock on the wall: from the read request to the finished envelope, database and
    /// queues included, and also what a verb waits for, such as git or a project's checks. Calls that ran side by side add up.
    pub fn time_in_calls(&self) -> Duration {
        Duration::from_micros(self.inner.call_micros.load(Ordering::Relaxed))
    }

    fn slug(&self, agent: AgentId) -> String {
        self.inner.company.roster().slug(agent)
    }
}
