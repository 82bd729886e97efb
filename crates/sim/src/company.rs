//! One task of one company in memory: loading, deciding by the real rules, and writing what was decided.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use roboco_domain::apply;
use roboco_domain::command::{Actor, AgentActor, Body, Command, Fresh, SystemCommand};
use roboco_domain::decide::decide_by;
use roboco_domain::effect::{Effect, EffectResult, Intended};
use roboco_domain::event::Event;
use roboco_domain::id::{AgentId, CompanyId, CorrelationId, InboxNumber, SpawnId, TaskNumber};
use roboco_domain::inbox::InboxItem;
use roboco_domain::known::Known;
use roboco_domain::outcome::Outcome;
use roboco_domain::plan::{Plan, PlanInput, Policy, plan};
use roboco_domain::project::Project;
use roboco_domain::rejection::{Kind, Rejection, Remedy};
use roboco_domain::role::Role;
use roboco_domain::roster::Roster;
use roboco_domain::rules::RuleSet;
use roboco_domain::snapshot::{Decision, Facts, NextNumbers, Snapshot, TreeFact};
use roboco_domain::spawn::{Epoch, Seat, Spawn, SpawnState, Usage};
use roboco_domain::task::{GateVerdict, Meter, Task};
use roboco_domain::time::Timestamp;
use roboco_domain::vcs::{Oid, Pin};
use roboco_domain::verb::Verb;
use uuid::Uuid;

use crate::words::{self, Wording};

/// Everything a decision about the task may look at.
#[derive(Debug, Clone)]
pub struct Company {
    /// Owner of every row.
    pub id: CompanyId,
    /// Who exists.
    pub roster: Arc<Roster>,
    /// The table under test.
    pub rules: Arc<RuleSet>,
    /// The task.
    pub task: Arc<Task>,
    /// Its project.
    pub project: Arc<Project>,
    /// Seats that ever ran.
    pub seats: BTreeMap<AgentId, Seat>,
    /// Runs that are not over.
    pub spawns: BTreeMap<SpawnId, Spawn>,
    /// The last run of each agent that is over.
    pub ghosts: BTreeMap<AgentId, Spawn>,
    /// Open items of the CEO.
    pub inbox: Vec<InboxItem>,
    /// Effects without a result.
    pub open: Vec<Intended>,
    /// The tip the CEO approved last.
    pub approved: Option<Oid>,
    clock: Timestamp,
    minted: u64,
}

/// What an effect comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Luck {
    /// It succeeds.
    Good,
    /// It fails in the way its kind fails by policy: nothing to commit, failed checks, a conflict.
    Refused,
    /// It fails for good.
    Broken,
    /// Only for a commit: it changes code, whoever made it.
    Code,
}

impl Company {
    /// A company with one task and nobody at work.
    pub fn new(roster: Arc<Roster>, rules: Arc<RuleSet>, project: Project, task: Task) -> Self {
        Self {
            id: task.company,
            roster,
            rules,
            task: Arc::new(task),
            project: Arc::new(project),
            seats: BTreeMap::new(),
            spawns: BTreeMap::new(),
            ghosts: BTreeMap::new(),
            inbox: Vec::new(),
            open: Vec::new(),
            approved: None,
            clock: Timestamp::from_millis(1_000_000),
            minted: 1 << 32,
        }
    }

    fn mint(&mut self) -> Uuid {
        self.minted += 1;
        Uuid::from_u128(u128::from(self.minted))
    }

    /// An object id nothing else has.
    fn oid(&mut self) -> Option<Oid> {
        self.minted += 1;
        Oid::new(format!("{:040x}", self.minted)).ok()
    }

    /// The run of an agent that is not over.
    pub fn run_of(&self, agent: AgentId) -> Option<&Spawn> {
        self.spawns.values().find(|s| s.agent == agent)
    }

    /// An agent as it speaks through a run.
    pub fn speaker(&self, spawn: &Spawn) -> Option<Actor> {
        let seat = self.roster.agent(spawn.agent)?;
        Some(Actor::Agent(AgentActor { agent: seat.id, role: seat.role, team: seat.team.clone(), spawn: spawn.id, epoch: spawn.epoch }))
    }

    /// The CEO.
    pub fn ceo(&self) -> Option<Actor> {
        self.roster.ceo().map(|a| Actor::Ceo(a.id))
    }

    fn system(&self) -> Option<Actor> {
        self.roster.sole(Role::System).map(|a| Actor::System(a.id))
    }

    /// Somebody who happens to run, although nothing was planned.
    #[must_use]
    pub fn with_run(&self, agent: AgentId, verb: Verb) -> (Self, Spawn) {
        let mut next = self.clone();
        let id = SpawnId::new(next.mint());
        let epoch = Epoch(next.seats.get(&agent).map_or(0, |s| s.epoch.0) + 1);
        let spawn = Spawn {
            id,
            number: roboco_domain::id::SpawnNumber { task: next.task.number, nth: 99 },
            version: 1,
            agent,
            task: next.task.id,
            epoch,
            verb,
            provider: "model".into(),
            model: None,
            state: SpawnState::Started,
            session: None,
            resume: None,
            closed_by: None,
            limited_until: None,
            outcome: None,
            usage: Usage::default(),
            intended_at: next.clock,
            started_at: Some(next.clock),
            ended_at: None,
        };
        next.seats.insert(agent, Seat { epoch, spawn: Some(id), ..Seat::empty(agent) });
        next.spawns.insert(id, spawn.clone());
        (next, spawn)
    }

    /// What the dispatch plan says now.
    pub fn plan(&self) -> Plan {
        let policy = Policy { max_spawns: 8, default_provider: "model".into(), ..Policy::default() };
        let tasks = if self.task.stage.is_terminal() { Vec::new() } else { vec![Arc::clone(&self.task)] };
        let spawns: Vec<Spawn> = self.spawns.values().cloned().collect();
        plan(&PlanInput { now: self.clock, roster: &self.roster, tasks: &tasks, spawns: &spawns, policy: &policy })
    }

    fn snapshot(&self, command: &Command, wording: Wording) -> Snapshot {
        let spawn_of = |id: SpawnId| self.spawns.get(&id).or_else(|| self.ghosts.values().find(|s| s.id == id)).cloned();
        let (spawn, agent) = match &command.body {
            Body::System(SystemCommand::PlanSpawn { agent, .. }) => (None, Some(*agent)),
            Body::System(
                SystemCommand::SpawnStarted { spawn }
                | SystemCommand::SpawnSession { spawn, .. }
                | SystemCommand::SpawnLeft { spawn, .. }
                | SystemCommand::SpawnEnded { spawn, .. }
                | SystemCommand::RevokeSpawn { spawn, .. },
            ) => (spawn_of(*spawn), spawn_of(*spawn).map(|s| s.agent)),
            Body::System(SystemCommand::Settle { .. }) => (self.task.ownership.lease.as_ref().and_then(|l| spawn_of(l.spawn)), None),
            Body::System(SystemCommand::Submit { .. } | SystemCommand::ExpireLease { .. }) | Body::AddProject(_) => (None, None),
            Body::Verb { .. } => (command.actor.spawn().and_then(spawn_of), command.actor.spawn().map(|_| command.actor.agent())),
        };
        let dirty = if wording == Wording::OverUncommittedWork { vec!["src/left.rs".to_owned()] } else { Vec::new() };
        let tree = self.task.delivery.head.clone().map_or(Known::No, |head| Known::Yes(TreeFact { head, dirty }));
        Snapshot {
            now: self.clock,
            company: self.id,
            roster: Arc::clone(&self.roster),
            task: Some(Arc::clone(&self.task)),
            project: Some(Arc::clone(&self.project)),
            dependencies: Vec::new(),
            ancestors: Vec::new(),
            descendants: Vec::new(),
            named: Vec::new(),
            actor_tasks: Vec::new(),
            seat: agent.map(|a| self.seats.get(&a).cloned().unwrap_or_else(|| Seat::empty(a))),
            spawn,
            inbox: self.inbox.clone(),
            next: NextNumbers { task: TaskNumber(2), inbox: InboxNumber(self.minted) },
            facts: Facts { tree },
        }
    }

    /// Sends a command; the company as it is afterwards, or the refusal.
    ///
    /// # Errors
    /// The refusal of the rules.
    pub fn send(&self, actor: Actor, body: Body, wording: Wording) -> Result<(Self, Decision), Rejection> {
        let mut next = self.clone();
        next.clock = next.clock.after(Duration::from_millis(1));
        let fresh = Fresh([next.mint(), next.mint(), next.mint()]);
        let command = Command { correlation: CorrelationId::new(fresh.row()), actor, body, fresh };
        let snapshot = next.snapshot(&command, wording);
        let decision = decide_by(&self.rules, &snapshot, &command)?;
        let changes = apply::changes(&snapshot, &command, &decision);
        if let Some(task) = changes.task {
            // The meter of fruitless runs counts up to holds of its own; it is tested elsewhere and would only multiply states here.
            let meter = Meter { progress_at: task.meter.progress_at, ..Meter::default() };
            next.task = Arc::new(Task { meter, ..Arc::unwrap_or_clone(task) });
        }
        if let Some(project) = changes.project {
            next.project = project;
        }
        if let Some(spawn) = changes.spawn {
            if spawn.state == SpawnState::Ended {
                next.spawns.remove(&spawn.id);
                next.ghosts.insert(spawn.agent, spawn);
            } else {
                next.spawns.insert(spawn.id, spawn);
            }
        }
        if let Some(seat) = changes.seat {
            next.seats.insert(seat.agent, seat);
        }
        for item in changes.inbox {
            next.inbox.retain(|i| i.number != item.number);
            if item.decision.is_none() {
                next.inbox.push(item);
            }
        }
        if let Some(settled) = decision.settles {
            next.open.retain(|i| i.intent != settled);
        }
        next.open.extend(decision.effects.iter().cloned());
        for event in &decision.events {
            if let Event::CeoApproved { head, .. } = event {
                next.approved = Some(head.clone());
            }
        }
        Ok((next, decision))
    }

    /// Calls a verb.
    ///
    /// # Errors
    /// The refusal of the rules.
    pub fn call(&self, actor: Actor, verb: Verb, wording: Wording) -> Result<(Self, Decision), Rejection> {
        let Some(call) = words::call(verb, &self.task, wording).map(Box::new) else {
            return Err(Rejection::new(Kind::NotFound, "the model does not call that", Remedy::tell("call something else")));
        };
        self.send(actor, Body::Verb { call, task: Some(self.task.id) }, wording)
    }

    /// Does something by itself; the company never refuses itself except to start a run.
    pub fn by_itself(&self, command: SystemCommand) -> Option<(Self, Decision)> {
        self.send(self.system()?, Body::System(command), Wording::Full).ok()
    }

    /// Starts a run as the plan says.
    pub fn start(&self, agent: AgentId, verb: Verb) -> Option<Self> {
        let plan = SystemCommand::PlanSpawn { task: self.task.id, agent, verb, provider: "model".into(), model: None, resume: None };
        let (next, _) = self.by_itself(plan)?;
        let spawn = next.run_of(agent)?.id;
        next.by_itself(SystemCommand::SpawnStarted { spawn }).map(|(next, _)| next)
    }

    /// Ends a run.
    pub fn end(&self, spawn: SpawnId, outcome: Outcome) -> Option<Self> {
        self.by_itself(SystemCommand::SpawnEnded { spawn, outcome, usage: Usage::default() }).map(|(next, _)| next)
    }

    /// Lets the lease run out.
    pub fn expire(&self) -> Option<Self> {
        let mut later = self.clone();
        later.clock = later.task.ownership.lease.as_ref()?.expires_at;
        later.by_itself(SystemCommand::ExpireLease { task: self.task.id }).map(|(next, _)| next)
    }

    /// Settles an effect.
    pub fn settle(&self, intended: &Intended, luck: Luck) -> Option<(Self, Decision)> {
        let mut next = self.clone();
        let result = next.result(&intended.effect, luck)?;
        next.by_itself(SystemCommand::Settle { intent: intended.intent, effect: Box::new(intended.effect.clone()), result })
    }

    /// What an effect comes to; none when its kind cannot have that luck.
    fn result(&mut self, effect: &Effect, luck: Luck) -> Option<EffectResult> {
        use roboco_domain::effect::LandRefusal;
        let gate = |verdict| EffectResult::Gate { verdict, summary: "test".into(), tail: None };
        Some(match (effect, luck) {
            (Effect::CleanUp { .. } | Effect::ReleaseReviewTree { .. }, Luck::Good) => EffectResult::Finished,
            (Effect::CleanUp { .. } | Effect::ReleaseReviewTree { .. }, _) => return None,
            (_, Luck::Broken) => EffectResult::Failed { reason: "the disk is full".into() },
            (Effect::CutBranch { .. }, Luck::Good) => {
                let known = &self.task.delivery;
                let (base, head, tree) = (known.base.clone(), known.head.clone(), known.tree.clone());
                let base = base.or_else(|| self.oid())?;
                EffectResult::BranchCut { head: head.unwrap_or_else(|| base.clone()), base, tree }
            }
            (Effect::Commit { as_author, .. }, Luck::Good | Luck::Code) => {
                let code = *as_author || luck == Luck::Code;
                let files = vec![if code { "src/greet.rs" } else { "docs/greet.md" }.to_owned()];
                EffectResult::Committed { oid: self.oid()?, tree: self.oid()?, files }
            }
            (Effect::Commit { .. }, Luck::Refused) => EffectResult::NothingToCommit,
            (Effect::Sync { .. }, Luck::Good) => EffectResult::Synced { head: self.oid()?, tree: self.oid()? },
            (Effect::Sync { .. }, Luck::Refused) => EffectResult::SyncConflict { paths: vec!["src/greet.rs".into()] },
            (Effect::RunGate { .. }, Luck::Good) => gate(GateVerdict::Passed),
            (Effect::RunGate { .. }, Luck::Refused) => gate(GateVerdict::Failed),
            (Effect::Pin { head, .. }, Luck::Good) => {
                EffectResult::Pinned { pin: Pin { base: self.oid()?, head: head.clone(), merge_tree: self.oid() } }
            }
            (Effect::Land { .. }, Luck::Good) => EffectResult::Landed { commit: self.oid()?, tree: self.oid()? },
            (Effect::Land { .. }, Luck::Refused) => {
                EffectResult::LandRefused { refusal: LandRefusal::Conflict { paths: vec!["src/greet.rs".into()] } }
            }
            (Effect::CutBranch { .. } | Effect::Pin { .. }, Luck::Refused) => return None,
            (_, Luck::Code) => return None,
        })
    }
}
