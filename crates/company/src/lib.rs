//! Application services: one way in for every command. Loads a snapshot, lets `domain` decide, commits, and waits for effects.
//!
//! This crate knows no HTTP, no child process and no git; what it needs from outside are the [`ports`].

pub mod brief;
pub mod briefing;
pub mod call;
pub mod commit;
mod family;
pub mod fault;
mod lanes;
pub mod ports;
pub mod projects;
pub mod signals;
pub mod views;
pub mod work;

use std::sync::Arc;
use std::time::Duration;

use roboco_domain::id::{AgentId, CompanyId};
use roboco_domain::limits;
use roboco_domain::role::Role;
use roboco_domain::roster::Roster;
use roboco_store::Store;

use crate::ports::{Clock, Repos};
use crate::signals::Signals;

/// One company: its roster, its database and its ports.
#[derive(Debug)]
pub struct Company {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) roster: Arc<Roster>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) repos: Arc<dyn Repos>,
    pub(crate) signals: Signals,
    pub(crate) lanes: lanes::Lanes,
    pub(crate) prompts: brief::Prompts,
    pub(crate) verb_wait: Duration,
}

impl Company {
    /// Puts a company together.
    pub fn new(store: Arc<dyn Store>, roster: Arc<Roster>, clock: Arc<dyn Clock>, repos: Arc<dyn Repos>, prompts: brief::Prompts) -> Self {
        let verb_wait = limits::VERB_WAIT;
        Self { store, roster, clock, repos, signals: Signals::new(), lanes: lanes::Lanes::default(), prompts, verb_wait }
    }

    /// The same company with another limit on how long a verb waits for its effect before it is answered "pending".
    #[must_use]
    pub fn waiting_for(self, verb_wait: Duration) -> Self {
        Self { verb_wait, ..self }
    }

    /// Its key.
    pub fn id(&self) -> CompanyId {
        self.store.company()
    }

    /// Its database, for reading.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Who exists.
    pub fn roster(&self) -> &Arc<Roster> {
        &self.roster
    }

    /// The time.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// What wakes the supervisor.
    pub fn signals(&self) -> &Signals {
        &self.signals
    }

    /// The sentinel that automatic records are made by. A checked roster always has one.
    pub fn system(&self) -> AgentId {
        self.roster.sole(Role::System).map_or_else(|| AgentId::new(uuid::Uuid::nil()), |a| a.id)
    }

    /// The human. A checked roster always has one.
    pub fn ceo(&self) -> AgentId {
        self.roster.ceo().map_or_else(|| AgentId::new(uuid::Uuid::nil()), |a| a.id)
    }
}
