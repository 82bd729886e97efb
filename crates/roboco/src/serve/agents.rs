//! What agents are given: tokens, the way to the model, clients and their routes.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use roboco_company::fault::Fault;
use roboco_company::ports::{Clock as _, SystemClock};
use roboco_domain::command::AgentActor;
use roboco_domain::id::{AgentId, SpawnId};
use roboco_domain::roster::Roster;
use roboco_egress::{Caller, Callers, Credential, Egress, End, Exchange, Observer, Upstream};
use roboco_gateway::Gateway;
use roboco_process::find_program;
use roboco_providers::{claude, scripted, table};
use roboco_runtime::{Door, LoginKind, NetworkAccess, ProviderConfig, RuntimeConfig};
use roboco_sandbox::MemoryScope;
use secrecy::SecretString;

use super::company::{CompanyData, write_below};
use crate::command::Here;
use crate::config::{Login, Network};
use crate::failure::{Exit, Failure};

/// Mints the tokens of agents and knows which of them still run.
#[derive(Debug)]
pub(super) struct AgentsDoor {
    gateway: Gateway,
    live: RwLock<HashSet<SpawnId>>,
}

impl AgentsDoor {
    pub(super) fn new(gateway: Gateway) -> Self {
        Self { gateway, live: RwLock::default() }
    }
}

impl Door for AgentsDoor {
    fn mint(&self, actor: &AgentActor) -> Result<SecretString, Fault> {
        let token = self.gateway.keys().mint(actor, SystemClock.now()).map_err(|error| Fault::lasting(error.to_string()))?;
        self.live.write().unwrap_or_else(PoisonError::into_inner).insert(actor.spawn);
        Ok(token)
    }

    fn forget(&self, spawn: SpawnId) {
        self.live.write().unwrap_or_else(PoisonError::into_inner).remove(&spawn);
        self.gateway.forget(spawn);
    }
}

impl Callers for AgentsDoor {
    fn verify(&self, token: &str) -> Option<Caller> {
        let actor = self.gateway.verify(token)?;
        // A token outlives its run; the way to the model does not.
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner).contains(&actor.spawn);
        live.then_some(Caller { agent: actor.agent, spawn: actor.spawn })
    }
}

impl Observer for AgentsDoor {
    fn exchange(&self, exchange: &Exchange) {
        let Exchange { caller, provider, status, duration, end, .. } = exchange;
        let took_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        match end {
            End::Complete | End::ClientGone => tracing::debug!(spawn = %caller.spawn, provider, status, took_ms, "model request"),
            End::UpstreamFailed(why) => tracing::warn!(spawn = %caller.spawn, provider, took_ms, "the model cannot be reached: {why}"),
            End::TimedOut => tracing::warn!(spawn = %caller.spawn, provider, took_ms, "the model did not answer in time"),
        }
    }

    fn auth_missing(&self, caller: Caller, provider: &str, remedy: &str) {
        tracing::warn!(spawn = %caller.spawn, provider, "{provider} has no valid login: {remedy}");
    }
}

/// The way to the models.
///
/// # Errors
/// The configured upstream cannot be used.
pub(super) fn egress(here: &Here, door: &Arc<AgentsDoor>) -> Result<Egress, Failure> {
    let settings = &here.loaded.config.providers.claude;
    let row = &table::CLAUDE;
    let wrong = |text: String| Failure::new(Exit::Configuration, text);
    let key = || settings.key.get().ok_or_else(|| wrong("`providers.claude.key` is empty".into()));
    let credential = match settings.login {
        Login::Key => Credential::ApiKey(key()?),
        Login::Token => Credential::Token(key()?),
        Login::Host => Credential::OauthFile(here.environment.home().unwrap_or_default().join(row.credential_file.unwrap_or_default())),
        Login::None => Credential::None,
    };
    let upstream = Upstream::new(&settings.upstream, credential, row.remedy);
    let upstream = upstream.map_err(|error| wrong(format!("`providers.claude.upstream`: {error}")))?.allowing(row.requests.iter().copied());
    Ok(Egress::new(Arc::clone(door) as _, Arc::clone(door) as _).with_upstream(claude::NAME, upstream))
}

/// What the supervisor is told by the settings.
///
/// # Errors
/// A route names nobody, or the play cannot be written.
pub(super) fn runtime_config(
    here: &Here,
    roster: &Roster,
    door: &Path,
    company: &CompanyData,
    memory: MemoryScope,
) -> Result<RuntimeConfig, Failure> {
    let config = &here.loaded.config;
    let play = here.data.join("cache/play");
    write_below(&play, company.play())?;
    Ok(RuntimeConfig {
        max_spawns: config.runtime.max_spawns,
        max_jobs: config.runtime.max_jobs,
        homes: here.data.join("homes"),
        data: here.data.root().to_owned(),
        door: door.to_owned(),
        default_provider: config.routing.default.clone(),
        routes: routes(here, roster)?,
        providers: providers(here)?,
        play: company.play().next().is_some().then(|| (play.join("play.toml"), play)),
        memory_bytes: config.sandbox.memory.bytes(memory),
        pids: config.sandbox.pids,
        network: match config.sandbox.network {
            Network::Door => NetworkAccess::Door,
            Network::Host => NetworkAccess::Host,
        },
    })
}

fn providers(here: &Here) -> Result<BTreeMap<String, ProviderConfig>, Failure> {
    let settings = &here.loaded.config.providers.claude;
    let found = find_program(OsStr::new(&settings.command), &here.environment.search_path());
    let subscription = matches!(settings.login, Login::Host | Login::Token);
    let claude_config = ProviderConfig {
        // A program that is not there is told when an agent needs it: the company may well run on another client.
        program: found.unwrap_or_else(|| PathBuf::from(&settings.command)),
        standard: Some(settings.models.standard.clone()),
        strong: Some(settings.models.strong.clone()),
        login: if subscription { LoginKind::Subscription } else { LoginKind::ApiKey },
    };
    let scripted_config = ProviderConfig { program: super::own_program()?, standard: None, strong: None, login: LoginKind::ApiKey };
    Ok(BTreeMap::from([(claude::NAME.to_owned(), claude_config), (scripted::NAME.to_owned(), scripted_config)]))
}

/// Which client each agent with a route of its own, or of its role, runs on.
fn routes(here: &Here, roster: &Roster) -> Result<BTreeMap<AgentId, String>, Failure> {
    let routing = &here.loaded.config.routing;
    if let Some(nobody) = routing.agent.keys().find(|slug| roster.by_slug(slug).is_none()) {
        let text = format!("`routing.agent`: there is no agent {nobody:?}; the roster lists them");
        return Err(Failure::new(Exit::Configuration, text));
    }
    let of = |agent: &roboco_domain::roster::Agent| routing.agent.get(&agent.slug).or_else(|| routing.role.get(agent.role.as_str()));
    Ok(roster.agents().iter().filter_map(|agent| Some((agent.id, of(agent)?.clone()))).collect())
}
