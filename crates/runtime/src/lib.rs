//! The supervisor: carries out the plan, runs one actor per spawn, and executes effects with idempotency keys and deadlines.
//!
//! It decides nothing: whether a run starts, stops or waits is `domain::plan`, what a result means is `domain::decide`. Everything it
//! starts has an owner here and dies with it.

mod agent;
mod boot;
mod effects;
mod executor;
mod gate;
mod home;
mod housekeeping;
mod landings;
mod launch;
mod limits;
mod record;
mod repos;
mod supervisor;
mod transcript;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use roboco_company::Company;
use roboco_company::fault::Fault;
use roboco_domain::command::AgentActor;
use roboco_domain::id::{AgentId, SpawnId};
use roboco_sandbox::Driver;
use secrecy::SecretString;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use repos::GitRepos;

/// What the supervisor is told by the settings.
#[derive(Debug, Clone)]
pub struct RuntimeConfig {
    /// Agents at the same time.
    pub max_spawns: usize,
    /// Runs of project checks at the same time.
    pub max_jobs: usize,
    /// Private homes of agents.
    pub homes: PathBuf,
    /// Where disk space is watched.
    pub data: PathBuf,
    /// The unix socket agents reach the company by.
    pub door: PathBuf,
    /// The provider of agents without a route of their own.
    pub default_provider: String,
    /// Routes by agent.
    pub routes: BTreeMap<AgentId, String>,
    /// How each provider is launched.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// The play of scripted agents: the file, and the folder its files lie in.
    pub play: Option<(PathBuf, PathBuf)>,
    /// Memory of one agent's sandbox, in bytes.
    pub memory_bytes: Option<u64>,
    /// Processes and threads in one agent's sandbox.
    pub pids: u64,
    /// Whether agents may reach the network of this host.
    pub network: NetworkAccess,
}

/// What agents may reach besides the company.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkAccess {
    /// Nothing.
    Door,
    /// Everything this host reaches; an explicit choice.
    Host,
}

/// How one provider is launched.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// The client program.
    pub program: PathBuf,
    /// Model for standard roles.
    pub standard: Option<String>,
    /// Model for strong roles.
    pub strong: Option<String>,
    /// What the model gateway uses for it.
    pub login: LoginKind,
}

/// What the model gateway uses for a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginKind {
    /// A key of the vendor.
    ApiKey,
    /// A login of the user.
    Subscription,
}

/// The agents' door, as far as the supervisor needs it.
pub trait Door: Send + Sync {
    /// A token for a run.
    ///
    /// # Errors
    /// When it cannot be signed.
    fn mint(&self, actor: &AgentActor) -> Result<SecretString, Fault>;
    /// A run is over: drop what was counted for it.
    fn forget(&self, spawn: SpawnId);
}

/// What the supervisor works with.
pub struct Parts {
    /// The company.
    pub company: Arc<Company>,
    /// Where sandboxes are made.
    pub driver: Arc<dyn Driver>,
    /// Repositories.
    pub repos: Arc<roboco_git::Repos>,
    /// The agents' door.
    pub door: Arc<dyn Door>,
}

/// The running supervisor.
pub struct Runtime {
    stop: watch::Sender<bool>,
    parts: JoinSet<&'static str>,
}

impl Runtime {
    /// Cleans up after an earlier process and starts to work.
    ///
    /// # Errors
    /// A fault of the database or of the sandbox driver while cleaning up.
    pub async fn start(config: RuntimeConfig, parts: Parts) -> Result<Self, Fault> {
        let shared = Arc::new(Shared { config, parts });
        let (stop, stopped) = watch::channel(false);
        boot::clean_up(&shared).await?;
        let executor = executor::Executor::new(Arc::clone(&shared)).await?;
        let supervisor = supervisor::Supervisor::new(Arc::clone(&shared)).await?;
        let mut running = JoinSet::new();
        running.spawn(named("executor", executor.run(stopped.clone())));
        running.spawn(named("supervisor", supervisor.run(stopped.clone())));
        running.spawn(named("janitor", housekeeping::keep_house(shared, stopped)));
        Ok(Self { stop, parts: running })
    }

    /// Returns when a part has died. None of them ends by itself, so whoever owns the process should end it: the next start recovers.
    pub async fn failed(&mut self) -> String {
        match self.parts.join_next().await {
            Some(Ok(name)) => format!("the {name} ended"),
            Some(Err(error)) => error.to_string(),
            None => "nothing runs".into(),
        }
    }

    /// Stops: running agents get time to end, effects under way are finished or left to the next start.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        while let Some(ended) = self.parts.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a part of the supervisor died");
            }
        }
    }
}

/// Configuration and parts, shared by everything here.
pub(crate) struct Shared {
    pub(crate) config: RuntimeConfig,
    pub(crate) parts: Parts,
}

impl Shared {
    pub(crate) fn company(&self) -> &Arc<Company> {
        &self.parts.company
    }

    pub(crate) fn now(&self) -> roboco_domain::time::Timestamp {
        self.parts.company.clock().now()
    }
}

/// Waits until the supervisor is told to stop. A sender that is gone means the same.
pub(crate) async fn told_to_stop(stopped: &mut watch::Receiver<bool>) {
    if stopped.wait_for(|stop| *stop).await.is_err() {
        tracing::debug!("the supervisor's owner is gone");
    }
}

/// Runs a part under its name, so that its death can be told.
async fn named(name: &'static str, work: impl Future<Output = ()>) -> &'static str {
    work.await;
    name
}
