//! Carries out the plan: wakes on every commit that may matter, asks `domain::plan`, starts and stops.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use roboco_company::commit::Executed;
use roboco_company::fault::Fault;
use roboco_domain::command::SystemCommand;
use roboco_domain::id::SpawnId;
use roboco_domain::limits;
use roboco_domain::outcome::Outcome;
use roboco_domain::parking::Parking;
use roboco_domain::plan::{Manner, PlanInput, Policy, Start, Stop, plan};
use roboco_domain::resume;
use roboco_domain::spawn::Usage;
use roboco_domain::time::Timestamp;
use roboco_providers::Capability;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::Shared;
use crate::agent::{self, Instruction};
use crate::launch::model_of;
use crate::limits::disk_stop;

/// The net under the wake-ups: a look at least this often.
const LOOK: Duration = Duration::from_secs(60);

/// Owner of every actor.
pub(crate) struct Supervisor {
    shared: Arc<Shared>,
    actors: JoinSet<SpawnId>,
    orders: HashMap<SpawnId, mpsc::Sender<Instruction>>,
    by_task: HashMap<tokio::task::Id, SpawnId>,
    /// Runs that were told to end after their turn.
    leaving: HashSet<SpawnId>,
    parking: Parking,
}

impl Supervisor {
    /// A supervisor that knows which providers refuse, from how the runs of the open tasks ended.
    pub(crate) async fn new(shared: Arc<Shared>) -> Result<Self, Fault> {
        let mut ended = Vec::new();
        for task in shared.company().store().open_tasks().await?.iter().filter(|task| task.counters.spawns > 0) {
            ended.extend(shared.company().store().spawns_of(task.id).await?);
        }
        let parking = Parking::rebuilt(&ended);
        for (provider, until) in parking.parked(shared.now()) {
            tracing::info!(provider, until = until.millis(), "the provider is still parked");
        }
        Ok(Self { shared, actors: JoinSet::new(), orders: HashMap::new(), by_task: HashMap::new(), leaving: HashSet::new(), parking })
    }

    /// Runs until told to stop; then every agent gets time to end.
    pub(crate) async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        let shared = Arc::clone(&self.shared);
        let mut next_look = tokio::time::Instant::now();
        loop {
            tokio::select! {
                () = shared.company().signals().plan.notified() => {}
                () = tokio::time::sleep_until(next_look) => {}
                Some(ended) = self.actors.join_next_with_id() => self.gone(ended).await,
                () = crate::told_to_stop(&mut stopped) => break,
            }
            let wait = match self.tick().await {
                Ok(at) => at.map_or(LOOK, |at| at.since(shared.now()).min(LOOK)),
                Err(fault) => {
                    tracing::error!(fault = fault.message, "the plan could not be made; trying again");
                    Duration::from_secs(1)
                }
            };
            next_look = tokio::time::Instant::now() + wait.max(Duration::from_millis(5));
        }
        self.shut_down().await;
    }

    async fn tick(&mut self) -> Result<Option<Timestamp>, Fault> {
        let company = Arc::clone(self.shared.company());
        let (tasks, spawns) = (company.store().open_tasks().await?, company.store().live_spawns().await?);
        // The end of a run wakes this before its actor is gone; a plan that does not know of it would run into the same limit.
        let ended: Vec<SpawnId> = self.orders.keys().filter(|id| spawns.iter().all(|spawn| spawn.id != **id)).copied().collect();
        for spawn in ended {
            self.note_end(spawn).await?;
        }
        let now = self.shared.now();
        let policy = self.policy(now);
        let made = plan(&PlanInput { now, roster: company.roster(), tasks: &tasks, spawns: &spawns, policy: &policy });
        self.let_stay(&made.stop);
        for (spawn, Stop { reason, manner }) in made.stop {
            match manner {
                Manner::AtOnce => self.stop(spawn, reason).await?,
                Manner::AfterTurn => self.let_leave(spawn, reason).await?,
            }
        }
        for task in made.submit {
            company.execute_system(SystemCommand::Submit { task }).await?;
        }
        for task in made.expire {
            company.execute_system(SystemCommand::ExpireLease { task }).await?;
        }
        for start in made.start {
            self.start(&start, &policy).await?;
        }
        Ok(made.next_look)
    }

    fn policy(&self, now: Timestamp) -> Policy {
        let config = &self.shared.config;
        Policy {
            max_spawns: config.max_spawns,
            stopped: disk_stop(&config.data),
            parked: self.parking.parked(now),
            routes: config.routes.clone(),
            default_provider: config.default_provider.clone(),
        }
    }

    /// Records the run, then starts it. A refusal means that the world has moved on; the next look knows better.
    async fn start(&mut self, start: &Start, policy: &Policy) -> Result<(), Fault> {
        let company = Arc::clone(self.shared.company());
        let Some(agent) = company.roster().agent(start.agent) else { return Ok(()) };
        let provider = policy.provider(start.agent).to_owned();
        let model = model_of(&self.shared, &provider, agent);
        let resume = self.resumable(start, &provider).await?;
        let planned = SystemCommand::PlanSpawn { task: start.task, agent: start.agent, verb: start.verb, provider, model, resume };
        match company.execute_system(planned).await? {
            Executed::Accepted { .. } => {}
            Executed::Refused { rejection, .. } => {
                tracing::debug!(agent = agent.slug, refusal = rejection.message, "not started");
                return Ok(());
            }
        }
        let Some(id) = company.store().seat(start.agent).await?.spawn else { return Ok(()) };
        let Some(spawn) = company.store().spawn(id).await? else { return Ok(()) };
        tracing::info!(spawn = %spawn.number, agent = agent.slug, verb = %spawn.verb, "starting");
        let (sender, receiver) = mpsc::channel(4);
        let actor = agent::run(Arc::clone(&self.shared), spawn, receiver);
        let handle = self.actors.spawn(async move {
            actor.await;
            id
        });
        self.orders.insert(id, sender);
        self.by_task.insert(handle.id(), id);
        Ok(())
    }

    /// The conversation to go on with, when the client can do that at all.
    async fn resumable(&self, start: &Start, provider: &str) -> Result<Option<String>, Fault> {
        let can = roboco_providers::table::row(provider).is_some_and(|row| row.capabilities.has(Capability::Resume));
        if !can {
            return Ok(None);
        }
        let earlier = self.shared.company().store().spawns_of(start.task).await?;
        Ok(resume::conversation(&earlier, start.agent, provider).map(str::to_owned))
    }

    async fn stop(&mut self, spawn: SpawnId, reason: String) -> Result<(), Fault> {
        self.shared.company().execute_system(SystemCommand::RevokeSpawn { spawn, reason: reason.clone() }).await?;
        self.tell(spawn, Instruction::Stop(reason)).await
    }

    /// Lets a run end its turn first. Its seat is heard until then; what it may not do meanwhile, its task's hold refuses.
    async fn let_leave(&mut self, spawn: SpawnId, reason: String) -> Result<(), Fault> {
        if self.leaving.insert(spawn) {
            return self.tell(spawn, Instruction::Leave(reason)).await;
        }
        Ok(())
    }

    /// Tells the runs that were to leave and no longer stand in the plan that they go on.
    fn let_stay(&mut self, stops: &[(SpawnId, Stop)]) {
        let stays: Vec<SpawnId> = self.leaving.extract_if(|spawn| !stops.iter().any(|(id, _)| id == spawn)).collect();
        for spawn in stays {
            if let Some(orders) = self.orders.get(&spawn)
                && orders.try_send(Instruction::Stay).is_err()
            {
                tracing::debug!(%spawn, "is ending already");
            }
        }
    }

    async fn tell(&mut self, spawn: SpawnId, instruction: Instruction) -> Result<(), Fault> {
        match self.orders.get(&spawn) {
            Some(orders) => {
                // A full channel means that it is being stopped already.
                if orders.try_send(instruction).is_err() {
                    tracing::debug!(%spawn, "is being stopped already");
                }
                Ok(())
            }
            // No actor runs it: its sandbox is gone, and only its row is left.
            None => self.end_row(spawn, Outcome::Lost).await,
        }
    }

    async fn end_row(&mut self, spawn: SpawnId, outcome: Outcome) -> Result<(), Fault> {
        let ended = SystemCommand::SpawnEnded { spawn, outcome, usage: Usage::default() };
        self.shared.company().execute_system(ended).await.map(drop)
    }

    async fn gone(&mut self, ended: Result<(tokio::task::Id, SpawnId), tokio::task::JoinError>) {
        let spawn = match ended {
            Ok((task, spawn)) => {
                self.by_task.remove(&task);
                spawn
            }
            Err(error) => {
                let Some(spawn) = self.by_task.remove(&error.id()) else { return };
                tracing::error!(%error, %spawn, "the actor of a spawn died");
                let crashed = Outcome::Crashed { code: None, detail: "its supervisor failed; this is a bug".into() };
                if let Err(fault) = self.end_row(spawn, crashed).await {
                    tracing::error!(fault = fault.message, "its end could not be recorded");
                }
                spawn
            }
        };
        self.orders.remove(&spawn);
        self.leaving.remove(&spawn);
        if let Err(fault) = self.note_end(spawn).await {
            tracing::error!(fault = fault.message, %spawn, "how it ended could not be read");
        }
    }

    /// Learns from the end of a run whether its provider refuses. Doing it again changes nothing.
    async fn note_end(&mut self, spawn: SpawnId) -> Result<(), Fault> {
        let Some(spawn) = self.shared.company().store().spawn(spawn).await? else { return Ok(()) };
        let before = self.parking.parked(self.shared.now()).remove(&spawn.provider);
        self.parking.note(&spawn);
        let after = self.parking.parked(self.shared.now()).remove(&spawn.provider);
        if let Some(until) = after.filter(|_| after != before) {
            let outcome = spawn.outcome.as_ref().map_or("unknown", Outcome::word);
            tracing::warn!(provider = spawn.provider, outcome, until = until.millis(), "the provider is parked");
        }
        Ok(())
    }

    async fn shut_down(&mut self) {
        for orders in self.orders.values() {
            if orders.try_send(Instruction::Shutdown).is_err() {
                tracing::debug!("an actor is ending already");
            }
        }
        let drain = async {
            while let Some(ended) = self.actors.join_next_with_id().await {
                if let Err(error) = ended {
                    tracing::error!(%error, "an actor died while shutting down");
                }
            }
        };
        if tokio::time::timeout(limits::STOP_DRAIN * 2, drain).await.is_err() {
            tracing::warn!("some agents did not end in time; they are killed with this process");
        }
    }
}
