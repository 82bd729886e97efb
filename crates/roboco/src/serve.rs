//! One running company: database, repositories, agents' door, operator's API and supervisor, put together from the settings.
//!
//! The order is the order of dependence. Nothing listens before everything it needs is there, and nothing is torn down while something
//! that needs it still runs.

mod agents;
mod company;
mod leader;
mod listeners;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use roboco_company::Company;
use roboco_company::brief::Prompts;
use roboco_company::ports::{Clock as _, SystemClock};
use roboco_domain::roster::Roster;
use roboco_gateway::{Gateway, Keys};
use roboco_git::{Git, Repos};
use roboco_runtime::{GitRepos, Parts, Runtime};
use roboco_sandbox::{Labels, ProcessDriver, Settings, Unconfined};
use roboco_server::Counters;
use roboco_store::{OpenOptions, SqlStore, Store as _};
use secrecy::SecretString;

use crate::command::Here;
use crate::config;
use crate::data_dir::Lock;
use crate::failure::{Exit, Failure};

use agents::AgentsDoor;
pub(crate) use company::{CompanyData, company_data, write_below};
use leader::Leader;
use listeners::Listeners;

/// A running company. [`Running::stop`] ends it in order; dropping it does not.
pub(crate) struct Running {
    /// Where people reach it.
    pub(crate) address: SocketAddr,
    /// The CEO's token.
    pub(crate) token: SecretString,
    company: Arc<Company>,
    store: Arc<SqlStore>,
    runtime: Runtime,
    listeners: Listeners,
    leader: Leader,
    lock: Lock,
}

impl Running {
    /// Starts a company.
    ///
    /// # Errors
    /// Everything that can be wrong with an installation, each with its exit code. The process must end then: what was begun ends with it,
    /// and the next start picks it up.
    pub(crate) async fn start(here: &Here) -> Result<Self, Failure> {
        let config = &here.loaded.config;
        // What can be wrong on paper comes before anything is touched.
        let data = company_data(&config.company.dir)?;
        let lock = here.data.lock()?;
        let secrets = here.data.secrets()?;
        let signing = here.environment.text("ROBOCO_AGENT_AUTH_SECRET").map_or_else(|| secrets.agent_tokens.clone(), SecretString::from);
        let keys = Keys::from_secret(signing).map_err(|error| Failure::new(Exit::Configuration, error.to_string()))?;
        if here.environment.text("ROBOCO_ENCRYPTION_KEY").is_some() {
            tracing::warn!("ROBOCO_ENCRYPTION_KEY has no effect: this version stores nothing encrypted");
        }

        let store = Arc::new(SqlStore::open(database(here)).await.map_err(|error| cannot_open(&error))?);
        let id = store.company();
        let leader = Leader::take(Arc::clone(&store), config, &here.data.short_name()).await?;
        let roster = Roster::parse(id, &data.roster).map_err(|error| Failure::new(Exit::Configuration, error.to_string()))?;
        let prompts = Prompts::load(data.prompts.clone()).map_err(|error| Failure::new(Exit::Configuration, error))?;

        let git = Git::discover(&here.environment.search_path(), &here.data.join("cache/git-home")).await;
        let git = git.map_err(|error| Failure::new(Exit::Configuration, error.to_string()))?;
        let repos = Arc::new(Repos::open(git, here.data.root()).map_err(|error| Failure::broken(error.to_string()))?);
        let view = GitRepos::new(Arc::clone(&repos), here.data.root().to_owned(), here.environment.path("SSH_AUTH_SOCK"));
        view.restore(&store.projects().await.map_err(|error| Failure::new(Exit::NotNow, error.to_string()))?);
        let company = Arc::new(Company::new(store.clone(), Arc::new(roster), Arc::new(SystemClock), Arc::new(view), prompts));
        let put = store.put_token("ceo", company.ceo(), &secrets.ceo_digest(), SystemClock.now()).await;
        put.map_err(|error| Failure::new(Exit::NotNow, error.to_string()))?;

        let gateway = Gateway::new(Arc::clone(&company), keys);
        gateway.restore().await.map_err(|error| Failure::new(Exit::NotNow, error.to_string()))?;
        let door = Arc::new(AgentsDoor::new(gateway.clone()));
        let egress = agents::egress(here, &door)?;
        let sockets = here.data.sockets(&here.environment)?.join("door.sock");
        let driver = driver(here, &id.to_string())?;
        let runtime_config = agents::runtime_config(here, company.roster(), &sockets, &data, driver.memory_scope())?;

        let listeners = Listeners::open(config, &sockets).await?;
        let address = listeners.address();
        let counted = Arc::clone(&repos);
        let counters = Counters::new(gateway.clone(), move || counted.git().processes());
        let listeners = listeners.serve(Arc::clone(&company), &gateway, counters, roboco_egress::router(egress), config);
        let parts = Parts { company: Arc::clone(&company), driver: Arc::new(driver), repos, door };
        let runtime = match Runtime::start(runtime_config, parts).await {
            Ok(runtime) => runtime,
            Err(fault) => {
                listeners.stop().await;
                return Err(Failure::new(Exit::NotNow, format!("the company cannot start to work: {fault}")));
            }
        };
        here.data.announce(address)?;
        Ok(Self { address, token: secrets.ceo, company, store, runtime, listeners, leader, lock })
    }

    /// The company, for reading what no route shows.
    pub(crate) fn company(&self) -> &Arc<Company> {
        &self.company
    }

    /// Waits until something that must not end has ended; says what.
    pub(crate) async fn broken(&mut self) -> String {
        tokio::select! {
            what = self.listeners.broken() => what,
            what = self.leader.lost() => what,
            what = self.runtime.failed() => what,
        }
    }

    /// Ends it: agents get time to end, then the listeners close, then the database.
    pub(crate) async fn stop(self, here: &Here) {
        here.data.withdraw();
        self.runtime.stop().await;
        self.listeners.stop().await;
        self.leader.resign().await;
        self.store.close().await;
        drop(self.lock);
    }
}

/// The configured database.
pub(crate) fn database(here: &Here) -> OpenOptions {
    let url = &here.loaded.config.database.url;
    if url == "sqlite" { OpenOptions::new(here.data.join("roboco.db").display().to_string()) } else { OpenOptions::new(url.clone()) }
}

fn cannot_open(error: &roboco_store::OpenError) -> Failure {
    use roboco_store::OpenError as E;
    let exit = match error {
        E::Address { .. } | E::File { .. } | E::Corrupt { .. } | E::Foreign { .. } | E::Newer { .. } => Exit::Configuration,
        E::Unreachable { .. } | E::Full { .. } | E::Failed(_) => Exit::NotNow,
    };
    Failure::new(exit, error.to_string())
}

/// What makes sandboxes; `company` is the label by which it knows its own.
///
/// # Errors
/// This program's own path is not known.
pub(crate) fn driver(here: &Here, company: &str) -> Result<ProcessDriver, Failure> {
    let settings = &here.loaded.config.sandbox;
    Ok(ProcessDriver::new(Settings {
        roboco: own_program()?,
        tool_dirs: settings.tool_dirs.clone(),
        unconfined: match settings.unconfined {
            config::Unconfined::Refuse => Unconfined::Refuse,
            config::Unconfined::Allow => Unconfined::Allow,
        },
        own: Labels::from([("company".to_owned(), company.to_owned())]),
        bubblewrap: None,
    }))
}

fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::broken(format!("the path of this program is not known: {error}")))
}
