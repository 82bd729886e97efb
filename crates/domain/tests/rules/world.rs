//! A company in memory: it loads what a decision needs, decides, checks versions and writes, as a store would, and asks a fake git.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use roboco_domain::apply::{self, Context};
use roboco_domain::command::{Actor, AgentActor, Body, Command, Fresh, SystemCommand};
use roboco_domain::decide::{decide_by, standard_rules};
use roboco_domain::effect::{Effect, EffectResult, Intended};
use roboco_domain::event::Event;
use roboco_domain::id::{AgentId, CompanyId, CorrelationId, InboxNumber, IntentId, ProjectId, SpawnId, TaskId, TaskNumber};
use roboco_domain::inbox::InboxItem;
use roboco_domain::known::Known;
use roboco_domain::outcome::Outcome;
use roboco_domain::project::{Access, GateCommands, MergeMethod, Project};
use roboco_domain::rejection::Rejection;
use roboco_domain::role::Role;
use roboco_domain::roster::Roster;
use roboco_domain::rules::RuleSet;
use roboco_domain::snapshot::{Decision, Facts, NextNumbers, Snapshot, TreeFact};
use roboco_domain::spawn::{Epoch, Seat, Spawn, SpawnState, Usage};
use roboco_domain::task::{GateVerdict, Task, TaskBrief};
use roboco_domain::time::Timestamp;
use roboco_domain::vcs::{BranchName, Oid, Pin};
use roboco_domain::verb::{Call, Verb};
use serde_json::Value;
use uuid::Uuid;

use crate::invariants;

const COMPANY: CompanyId = CompanyId::new(Uuid::from_u128(0xC0));
const PROJECT: ProjectId = ProjectId::new(Uuid::from_u128(0xB0));
/// Ids that are counted up start here, above those of the roster.
const FIRST_ID: u128 = 1 << 64;

static ROSTER: LazyLock<Arc<Roster>> =
    LazyLock::new(|| Arc::new(Roster::parse(COMPANY, include_str!("../../../../company/roster.toml")).unwrap()));
static RULES: LazyLock<Arc<RuleSet>> = LazyLock::new(|| Arc::new(standard_rules().clone()));

/// An event with the task and the context it was applied in.
#[derive(Debug, Clone)]
pub(crate) struct Logged {
    pub(crate) task: Option<TaskId>,
    pub(crate) event: Event,
    pub(crate) cx: Context,
}

/// What an accepted command came to.
#[derive(Debug, Clone)]
pub(crate) struct Accepted {
    pub(crate) decision: Decision,
    pub(crate) task: Option<TaskId>,
}

/// How its rows came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// By commands alone, so everything about them must be sound.
    Commands,
    /// Some were put there, in combinations that commands may never lead to.
    Put,
}

#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) now: Timestamp,
    pub(crate) rules: Arc<RuleSet>,
    pub(crate) roster: Arc<Roster>,
    pub(crate) project: Arc<Project>,
    pub(crate) tasks: BTreeMap<TaskId, Arc<Task>>,
    pub(crate) seats: BTreeMap<AgentId, Seat>,
    pub(crate) spawns: BTreeMap<SpawnId, Spawn>,
    pub(crate) inbox: Vec<InboxItem>,
    /// Effects that were recorded and have no result yet, oldest first.
    pub(crate) open: Vec<Intended>,
    /// Effects that were settled, for duplicates.
    pub(crate) settled: Vec<Intended>,
    pub(crate) log: Vec<Logged>,
    /// What the worktree looks like from outside.
    pub(crate) tree: Known<Vec<String>>,
    /// Results the next effects of a kind come to, instead of success.
    pub(crate) git: BTreeMap<&'static str, Vec<EffectResult>>,
    pub(crate) origin: Origin,
    next_id: u128,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_rules(Arc::clone(&RULES))
    }

    pub(crate) fn with_rules(rules: Arc<RuleSet>) -> Self {
        let project = Project {
            id: PROJECT,
            company: COMPANY,
            slug: "greeter".into(),
            version: 1,
            origin: "/srv/greeter".into(),
            default_branch: branch("main"),
            cell: "backend".parse().unwrap(),
            commands: GateCommands { test: "true".into(), ..GateCommands::default() },
            protected_paths: vec!["secrets/**".into()],
            protected_branches: Vec::new(),
            merge: MergeMethod::Merge,
            access: Access::ReadWrite,
            warnings: Vec::new(),
            next_pr: 1,
            created_at: Timestamp::from_millis(0),
        };
        Self {
            now: Timestamp::from_millis(1_000_000_000),
            rules,
            roster: Arc::clone(&ROSTER),
            project: Arc::new(project),
            tasks: BTreeMap::new(),
            seats: BTreeMap::new(),
            spawns: BTreeMap::new(),
            inbox: Vec::new(),
            open: Vec::new(),
            settled: Vec::new(),
            log: Vec::new(),
            tree: Known::Yes(Vec::new()),
            git: BTreeMap::new(),
            origin: Origin::Commands,
            next_id: FIRST_ID,
        }
    }

    pub(crate) fn id_of(&self, slug: &str) -> AgentId {
        self.roster.by_slug(slug).unwrap_or_else(|| panic!("no agent {slug}")).id
    }

    pub(crate) fn task(&self, id: TaskId) -> &Task {
        &self.tasks[&id]
    }

    pub(crate) fn wait(&mut self, by: Duration) {
        self.now = self.now.after(by);
    }

    pub(crate) fn ceo(&self) -> Actor {
        Actor::Ceo(self.roster.ceo().unwrap().id)
    }

    pub(crate) fn system(&self) -> Actor {
        Actor::System(self.roster.sole(Role::System).unwrap().id)
    }

    fn fresh_id(&mut self) -> Uuid {
        self.next_id += 1;
        Uuid::from_u128(self.next_id)
    }

    pub(crate) fn fresh_oid(&mut self) -> Oid {
        self.next_id += 1;
        Oid::new(format!("{:040x}", self.next_id)).unwrap()
    }

    /// The run of an agent that is not over, if it has one.
    pub(crate) fn live_run(&self, agent: AgentId) -> Option<&Spawn> {
        let spawn = self.seats.get(&agent)?.spawn?;
        self.spawns.get(&spawn).filter(|s| s.state != SpawnState::Ended)
    }

    /// An agent as it speaks through a run.
    pub(crate) fn speaker(&self, spawn: &Spawn) -> Actor {
        let seat = self.roster.agent(spawn.agent).unwrap();
        Actor::Agent(AgentActor { agent: seat.id, role: seat.role, team: seat.team.clone(), spawn: spawn.id, epoch: spawn.epoch })
    }

    /// The agent through its live run; a run is put there when it has none, whatever the plan would say.
    pub(crate) fn agent(&mut self, slug: &str, task: TaskId) -> Actor {
        let agent = self.id_of(slug);
        if let Some(run) = self.live_run(agent) {
            return self.speaker(run);
        }
        let verb = match self.roster.agent(agent).unwrap().role {
            Role::Developer => Verb::IWillWorkOn,
            Role::Qa => Verb::ClaimReview,
            Role::Documenter => Verb::ClaimDocTask,
            Role::PrReviewer => Verb::ClaimGateReview,
            Role::CellPm | Role::MainPm if self.task(task).shape.is_assembled() => Verb::IWillPlan,
            _ => Verb::Complete,
        };
        let id = match self.start(slug, task, verb) {
            Ok(id) => id,
            Err(_) => self.put_run(agent, task, verb),
        };
        self.speaker(&self.spawns[&id])
    }

    /// Plans a run and reports that it has started.
    pub(crate) fn start(&mut self, slug: &str, task: TaskId, verb: Verb) -> Result<SpawnId, Rejection> {
        let agent = self.id_of(slug);
        let plan = SystemCommand::PlanSpawn { task, agent, verb, provider: "scripted".into(), model: None, resume: None };
        self.send(self.system(), Body::System(plan))?;
        let spawn = self.seats[&agent].spawn.unwrap();
        self.send(self.system(), Body::System(SystemCommand::SpawnStarted { spawn }))?;
        Ok(spawn)
    }

    fn put_run(&mut self, agent: AgentId, task: TaskId, verb: Verb) -> SpawnId {
        let seat = self.seats.entry(agent).or_insert_with(|| Seat::empty(agent)).clone();
        let id = SpawnId::new(self.fresh_id());
        let epoch = Epoch(seat.epoch.0 + 1);
        let number = roboco_domain::id::SpawnNumber { task: self.task(task).number, nth: 900 };
        let spawn = Spawn {
            id,
            number,
            version: 1,
            agent,
            task,
            epoch,
            verb,
            provider: "scripted".into(),
            model: None,
            state: SpawnState::Started,
            session: None,
            resume: None,
            closed_by: None,
            limited_until: None,
            outcome: None,
            usage: Usage::default(),
            intended_at: self.now,
            started_at: Some(self.now),
            ended_at: None,
        };
        self.spawns.insert(id, spawn);
        self.seats.insert(agent, Seat { epoch, spawn: Some(id), ..seat });
        id
    }

    pub(crate) fn end_run(&mut self, spawn: SpawnId, outcome: Outcome) -> Accepted {
        let ended = SystemCommand::SpawnEnded { spawn, outcome, usage: Usage::default() };
        self.send(self.system(), Body::System(ended)).expect("the company is never refused the end of a run")
    }

    /// Everything a decision about this command may look at.
    pub(crate) fn snapshot(&self, command: &Command) -> Snapshot {
        let (task, spawn, agent) = self.subjects(command);
        let task = task.and_then(|id| self.tasks.get(&id)).cloned();
        let me = command.actor.agent();
        let actor_tasks = match &command.actor {
            Actor::Agent(_) => self
                .tasks
                .values()
                .filter(|t| Some(t.id) != task.as_ref().map(|t| t.id) && !t.stage.is_terminal())
                .filter(|t| t.ownership.assignee == Some(me) || t.ownership.lease.as_ref().is_some_and(|l| l.holder == me))
                .map(|t| TaskBrief::from(&**t))
                .collect(),
            Actor::Ceo(_) | Actor::System(_) => Vec::new(),
        };
        let depends_on = task.as_ref().map(|t| t.depends_on.clone()).unwrap_or_default();
        let head = task.as_ref().and_then(|t| t.delivery.head.clone());
        let tree = match &self.tree {
            Known::Yes(dirty) => head.map_or(Known::No, |head| Known::Yes(TreeFact { head, dirty: dirty.clone() })),
            Known::No => Known::No,
            Known::Unknown(why) => Known::Unknown(why.clone()),
        };
        Snapshot {
            now: self.now,
            company: COMPANY,
            roster: Arc::clone(&self.roster),
            inbox: self.inbox.iter().filter(|i| i.decision.is_none() && self.concerns(i, task.as_deref(), command)).cloned().collect(),
            ancestors: self.ancestors(task.as_deref()),
            descendants: match &command.body {
                Body::Verb { call, .. } if call.verb() == Verb::Cancel => self.descendants(task.as_deref()),
                _ => Vec::new(),
            },
            named: Vec::new(),
            dependencies: depends_on.iter().filter_map(|id| self.tasks.get(id)).map(|t| TaskBrief::from(&**t)).collect(),
            project: Some(Arc::clone(&self.project)),
            actor_tasks,
            seat: agent.map(|a| self.seats.get(&a).cloned().unwrap_or_else(|| Seat::empty(a))),
            spawn: spawn.and_then(|id| self.spawns.get(&id)).cloned(),
            next: NextNumbers { task: TaskNumber(self.tasks.len() as u64 + 1), inbox: InboxNumber(self.inbox.len() as u64 + 1) },
            facts: Facts { tree },
            task,
        }
    }

    fn ancestors(&self, task: Option<&Task>) -> Vec<Arc<Task>> {
        std::iter::successors(task.and_then(|t| self.tasks.get(&t.parent?)), |t| self.tasks.get(&t.parent?)).cloned().collect()
    }

    fn descendants(&self, task: Option<&Task>) -> Vec<Arc<Task>> {
        let open = self.tasks.values().filter(|t| !t.stage.is_terminal());
        open.filter(|t| self.ancestors(Some(t)).iter().any(|a| Some(a.id) == task.map(|t| t.id))).cloned().collect()
    }

    /// Whether an inbox item is about the task, or about what ends with it.
    fn concerns(&self, item: &InboxItem, task: Option<&Task>, command: &Command) -> bool {
        let cancels = matches!(&command.body, Body::Verb { call, .. } if call.verb() == Verb::Cancel);
        let below = cancels && self.descendants(task).iter().any(|t| t.id == item.task);
        below || Some(item.task) == task.map(|t| t.id)
    }

    /// The task, the run and the seat a command is about.
    fn subjects(&self, command: &Command) -> (Option<TaskId>, Option<SpawnId>, Option<AgentId>) {
        let of_run = |spawn: &SpawnId| {
            let run = self.spawns.get(spawn);
            (run.map(|s| s.task), Some(*spawn), run.map(|s| s.agent))
        };
        match &command.body {
            Body::Verb { call, task } => (
                task.filter(|_| call.verb() != Verb::CreateTask),
                command.actor.spawn(),
                command.actor.spawn().map(|_| command.actor.agent()),
            ),
            Body::AddProject(_) => (None, None, None),
            Body::System(system) => match system {
                SystemCommand::PlanSpawn { task, agent, .. } => (Some(*task), None, Some(*agent)),
                SystemCommand::SpawnStarted { spawn }
                | SystemCommand::SpawnSession { spawn, .. }
                | SystemCommand::SpawnLeft { spawn, .. }
                | SystemCommand::SpawnEnded { spawn, .. }
                | SystemCommand::RevokeSpawn { spawn, .. } => of_run(spawn),
                SystemCommand::Settle { effect, .. } => {
                    let task = self.tasks.get(&effect.task());
                    (Some(effect.task()), task.and_then(|t| t.ownership.lease.as_ref()).map(|l| l.spawn), None)
                }
                SystemCommand::ExpireLease { task } | SystemCommand::Submit { task } => (Some(*task), None, None),
            },
        }
    }

    /// Sends a command: decides, compares versions, writes. Everything that must hold after any command is checked here.
    pub(crate) fn send(&mut self, actor: Actor, body: Body) -> Result<Accepted, Rejection> {
        self.wait(Duration::from_millis(1));
        let fresh = Fresh([self.fresh_id(), self.fresh_id(), self.fresh_id()]);
        let command = Command { correlation: CorrelationId::new(fresh.row()), actor, body, fresh };
        let snapshot = self.snapshot(&command);
        let decision = match decide_by(&self.rules, &snapshot, &command) {
            Ok(decision) => decision,
            Err(rejection) => {
                invariants::refusal_has_a_way_out(&self.rules, &snapshot, &command, &rejection);
                return Err(rejection);
            }
        };
        if let Some(refusal) = &decision.answer.refusal {
            invariants::remedy_is_said(refusal);
        }
        let changes = apply::changes(&snapshot, &command, &decision);
        let created = decision.events.iter().find_map(|e| match e {
            Event::TaskCreated { task } => Some(task.id),
            _ => None,
        });
        let task = created.or_else(|| snapshot.task.as_ref().map(|t| t.id));
        let cx = Context { actor: command.actor.agent(), at: self.now };
        self.log.extend(decision.events.iter().map(|event| Logged { task, event: event.clone(), cx }));
        self.log.extend(decision.also.iter().map(|(id, event)| Logged { task: Some(*id), event: event.clone(), cx }));
        if let Some(settles) = decision.settles
            && let Some(n) = self.open.iter().position(|i| i.intent == settles)
        {
            let done = self.open.remove(n);
            self.settled.push(done);
        }
        self.open.extend(decision.effects.iter().cloned());
        self.write(&snapshot, changes);
        if let Some(id) = task {
            let before = snapshot.task.as_deref();
            invariants::step_is_legal(&self.rules, before, self.task(id), &command, &decision);
            if self.origin == Origin::Commands {
                invariants::task_is_sound(self, self.task(id));
            }
        }
        for (id, _) in decision.also.iter().filter(|_| self.origin == Origin::Commands) {
            invariants::task_is_sound(self, self.task(*id));
        }
        Ok(Accepted { decision, task })
    }

    fn write(&mut self, before: &Snapshot, changes: apply::Changes) {
        for task in changes.task.into_iter().chain(changes.others) {
            let stored = self.tasks.get(&task.id).map_or(0, |t| t.version);
            assert_eq!(task.version, stored + 1, "a commit raises the version of {} by one", task.number);
            self.tasks.insert(task.id, task);
        }
        if let Some(project) = changes.project {
            assert_eq!(project.version, self.project.version + 1);
            self.project = project;
        }
        if let Some(spawn) = changes.spawn {
            assert_eq!(spawn.version, before.spawn.as_ref().map_or(0, |s| s.version) + 1);
            self.spawns.insert(spawn.id, spawn);
        }
        if let Some(seat) = changes.seat {
            assert_eq!(seat.version, self.seats.get(&seat.agent).map_or(0, |s| s.version) + 1);
            self.seats.insert(seat.agent, seat);
        }
        for item in changes.inbox {
            match self.inbox.iter_mut().find(|i| i.number == item.number) {
                Some(known) => *known = item,
                None => self.inbox.push(item),
            }
        }
    }

    /// Sends a verb and does nothing about its effects.
    pub(crate) fn verb(&mut self, actor: Actor, verb: Verb, task: Option<TaskId>, args: Value) -> Result<Accepted, Rejection> {
        let call = Box::new(Call::parse(verb, args)?);
        self.send(actor, Body::Verb { call, task })
    }

    /// Sends a verb and waits for the effect it waits for, as a caller does.
    pub(crate) fn call(&mut self, actor: Actor, verb: Verb, task: Option<TaskId>, args: Value) -> Result<Accepted, Rejection> {
        let accepted = self.verb(actor, verb, task, args)?;
        let mut answer = Ok(accepted.clone());
        while let Some(next) = self.open.first().cloned() {
            let settled = self.settle(&next);
            if accepted.decision.answer.waits_for == Some(next.intent) {
                answer = match settled.decision.answer.refusal.clone() {
                    Some(refusal) => Err(refusal),
                    None => Ok(settled),
                };
            }
        }
        answer
    }

    /// Settles an effect with what the fake git says to it.
    pub(crate) fn settle(&mut self, intended: &Intended) -> Accepted {
        let result = self.result(&intended.effect);
        self.settle_as(intended.intent, &intended.effect, result)
    }

    pub(crate) fn settle_as(&mut self, intent: IntentId, effect: &Effect, result: EffectResult) -> Accepted {
        let settle = SystemCommand::Settle { intent, effect: Box::new(effect.clone()), result };
        self.send(self.system(), Body::System(settle)).expect("the result of an effect is never refused")
    }

    /// What the fake git does: succeed, unless it was told otherwise.
    fn result(&mut self, effect: &Effect) -> EffectResult {
        if let Some(queue) = self.git.get_mut(effect.kind())
            && !queue.is_empty()
        {
            return queue.remove(0);
        }
        self.success(effect)
    }

    pub(crate) fn success(&mut self, effect: &Effect) -> EffectResult {
        match effect {
            Effect::CutBranch { task, .. } => {
                let known = self.task(*task).delivery.clone();
                let base = known.base.unwrap_or_else(|| oid(1));
                let head = known.head.unwrap_or_else(|| base.clone());
                EffectResult::BranchCut { base, head, tree: known.tree }
            }
            Effect::Commit { as_author, paths, .. } => {
                let usual = if *as_author { "src/greet.rs" } else { "docs/greet.md" };
                let files = if paths.is_empty() { vec![usual.to_owned()] } else { paths.clone() };
                EffectResult::Committed { oid: self.fresh_oid(), tree: self.fresh_oid(), files }
            }
            Effect::Sync { .. } => EffectResult::Synced { head: self.fresh_oid(), tree: self.fresh_oid() },
            Effect::RunGate { .. } => EffectResult::Gate { verdict: GateVerdict::Passed, summary: "test: passed".into(), tail: None },
            Effect::Pin { head, .. } => EffectResult::Pinned { pin: Pin { base: oid(1), head: head.clone(), merge_tree: Some(oid(3)) } },
            Effect::Land { .. } => EffectResult::Landed { commit: self.fresh_oid(), tree: self.fresh_oid() },
            Effect::CleanUp { .. } | Effect::ReleaseReviewTree { .. } => EffectResult::Finished,
        }
    }

    /// Events of a task since a position in the log, as their wire words.
    pub(crate) fn kinds_since(&self, from: usize) -> Vec<&'static str> {
        self.log.iter().skip(from).map(|l| l.event.kind()).collect()
    }
}

pub(crate) fn oid(n: u128) -> Oid {
    Oid::new(format!("{n:040x}")).unwrap()
}

pub(crate) fn branch(name: &str) -> BranchName {
    BranchName::new(name).unwrap()
}
