//! A company on a real database with a repository that only counts, and agents that follow a script.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use roboco_company::Company;
use roboco_company::brief::Prompts;
use roboco_company::call::{Called, Request};
use roboco_company::commit::Executed;
use roboco_company::ports::{Clock, DiffText, Probed, Repos};
use roboco_company::projects::ProjectInput;
use roboco_domain::command::{Actor, AgentActor, SystemCommand};
use roboco_domain::effect::{Effect, EffectResult, Intended};
use roboco_domain::id::{CorrelationId, ProjectId, TaskId};
use roboco_domain::known::Known;
use roboco_domain::outcome::Outcome;
use roboco_domain::plan::{Plan, PlanInput, Policy, plan};
use roboco_domain::project::Access;
use roboco_domain::roster::Roster;
use roboco_domain::snapshot::TreeFact;
use roboco_domain::spawn::{SpawnState, Usage};
use roboco_domain::task::{GateVerdict, Task};
use roboco_domain::time::Timestamp;
use roboco_domain::vcs::{BranchName, Home, Oid, Pin};
use roboco_domain::verb::Verb;
use roboco_store::{EventRow, OpenOptions, SqlStore};
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

const ROSTER: &str = include_str!("../../../../company/roster.toml");

/// Time passes with every look at it.
#[derive(Debug)]
struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// Branches and their tips; commits are numbers.
#[derive(Debug, Default)]
pub(crate) struct FakeGit {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    made: u64,
    tips: BTreeMap<String, Oid>,
    /// What was done, in words.
    log: Vec<String>,
}

impl State {
    fn mint(&mut self) -> Oid {
        self.made += 1;
        Oid::new(format!("{:040x}", self.made)).unwrap()
    }

    fn tip(&mut self, branch: &BranchName) -> Oid {
        if let Some(tip) = self.tips.get(branch.as_str()) {
            return tip.clone();
        }
        assert_eq!(branch.as_str(), "main", "nobody made the branch {branch}");
        let tip = self.mint();
        self.tips.insert("main".into(), tip.clone());
        tip
    }
}

impl FakeGit {
    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap())
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.with(|state| state.log.clone())
    }

    fn perform(&self, effect: &Effect) -> EffectResult {
        self.with(|state| match effect {
            Effect::CutBranch { branch, base, tree, .. } => {
                let tip = state.tip(&base.branch);
                let home = home(base.home);
                state.log.push(format!("cut {branch} from {home} {} for {tree:?}", base.branch));
                let head = state.tips.entry(branch.to_string()).or_insert_with(|| tip.clone()).clone();
                EffectResult::BranchCut { tree: (head != tip).then(|| tip.clone()), base: tip, head }
            }
            Effect::Commit { branch, .. } => {
                let (oid, tree) = (state.mint(), state.mint());
                state.tips.insert(branch.to_string(), oid.clone());
                EffectResult::Committed { oid, tree, files: vec!["src/greet.rs".into()] }
            }
            Effect::Sync { .. } => EffectResult::Synced { head: state.mint(), tree: state.mint() },
            Effect::RunGate { .. } => EffectResult::Gate { verdict: GateVerdict::Passed, summary: "test".into(), tail: None },
            Effect::Pin { target, head, .. } => {
                let base = state.tip(&target.branch);
                EffectResult::Pinned { pin: Pin { base, head: head.clone(), merge_tree: Some(state.mint()) } }
            }
            Effect::Land { number, target, .. } => {
                let (commit, tree) = (state.mint(), state.mint());
                state.tips.insert(target.branch.to_string(), commit.clone());
                state.log.push(format!("land {number} on {} {}", home(target.home), target.branch));
                EffectResult::Landed { commit, tree }
            }
            Effect::CleanUp { branch, .. } => {
                state.log.push(format!("remove {branch}"));
                EffectResult::Finished
            }
            Effect::ReleaseReviewTree { .. } => EffectResult::Finished,
        })
    }
}

const fn home(home: Home) -> &'static str {
    match home {
        Home::Origin => "the origin's",
        Home::Store => "our",
    }
}

#[async_trait]
impl Repos for FakeGit {
    async fn add(&self, _: ProjectId, origin: &str) -> Result<Probed, String> {
        let default_branch = BranchName::new("main").unwrap();
        Ok(Probed { origin: origin.to_owned(), default_branch, access: Access::ReadWrite, warnings: Vec::new() })
    }
    async fn forget(&self, _: ProjectId) {}
    async fn tree(&self, _: ProjectId, branch: &BranchName) -> Known<TreeFact> {
        self.with(|state| Known::Yes(TreeFact { head: state.tip(branch), dirty: Vec::new() }))
    }
    async fn diff(&self, _: ProjectId, base: &Oid, head: &Oid, _: usize) -> Result<DiffText, String> {
        Ok(DiffText { files: vec!["src/greet.rs".into()], stat: String::new(), text: format!("{}..{}", base.short(), head.short()) })
    }
}

pub(crate) struct World {
    pub(crate) company: Arc<Company>,
    pub(crate) git: Arc<FakeGit>,
    /// Briefs of the runs, as they were started.
    pub(crate) briefs: Mutex<Vec<(String, Value)>>,
    _folder: TempDir,
}

impl World {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("roboco.db").display());
        let store = Arc::new(SqlStore::open(OpenOptions::new(url)).await.unwrap());
        let roster = Arc::new(Roster::parse(roboco_store::Store::company(&*store), ROSTER).unwrap());
        let clock = Arc::new(TestClock(AtomicI64::new(1_800_000_000_000)));
        let prompts = Prompts::load([("base.md".to_owned(), "be good".to_owned())].into()).unwrap();
        let git = Arc::new(FakeGit::default());
        let company = Arc::new(Company::new(store, roster, clock, Arc::clone(&git) as Arc<dyn Repos>, prompts));
        let mut intents = company.signals().take_intents().unwrap();
        let (worker, repository) = (Arc::clone(&company), Arc::clone(&git));
        tokio::spawn(async move {
            while let Some(Intended { intent, effect }) = intents.recv().await {
                let result = repository.perform(&effect);
                worker.execute_system(SystemCommand::Settle { intent, effect: Box::new(effect), result }).await.unwrap();
            }
        });
        let input = ProjectInput { origin: "/srv/greeter".into(), cell: "backend".into(), ..ProjectInput::default() };
        let added = company.add_project(Actor::Ceo(company.ceo()), input).await.unwrap();
        assert!(matches!(added, Executed::Accepted { .. }), "{added:?}");
        Self { company, git, briefs: Mutex::default(), _folder: folder }
    }

    pub(crate) async fn call(&self, actor: Actor, verb: Verb, arguments: Value) -> Called {
        let request = Request { actor, verb, arguments, correlation: CorrelationId::new(Uuid::now_v7()), replay_key: None };
        self.company.call(request).await.unwrap()
    }

    pub(crate) async fn ceo(&self, verb: Verb, arguments: Value) -> Called {
        let called = self.call(Actor::Ceo(self.company.ceo()), verb, arguments).await;
        assert_eq!(called.rejection, None);
        called
    }

    /// Gives the company work for the backend and the frontend.
    pub(crate) async fn root(&self) -> TaskId {
        let arguments = json!({
            "project": "greeter", "title": "Greet people by name", "description": "The greeter says hello to everybody by name.",
            "criteria": ["the service knows names", "the page shows names"], "type": "code", "nature": "technical", "complexity": "high",
            "cells": ["backend", "frontend"],
        });
        self.ceo(Verb::CreateTask, arguments).await.task.unwrap()
    }

    pub(crate) async fn task(&self, number: &str) -> Arc<Task> {
        let id = self.company.resolve(number).await.unwrap().unwrap();
        self.company.store().task(id).await.unwrap().unwrap()
    }

    /// Starts a run.
    pub(crate) async fn start(&self, slug: &str, task: TaskId, verb: Verb) -> AgentActor {
        let agent = self.company.roster().by_slug(slug).unwrap().clone();
        let planned = SystemCommand::PlanSpawn { task, agent: agent.id, verb, provider: "scripted".into(), model: None, resume: None };
        let planned = self.company.execute_system(planned).await.unwrap();
        assert!(matches!(planned, Executed::Accepted { .. }), "{slug} {verb}: {planned:?}");
        let seat = self.company.store().seat(agent.id).await.unwrap();
        let spawn = seat.spawn.unwrap();
        self.company.execute_system(SystemCommand::SpawnStarted { spawn }).await.unwrap();
        let row = self.company.store().spawn(spawn).await.unwrap().unwrap();
        let brief = self.company.brief(&row, &self.company.store().task(task).await.unwrap().unwrap()).await.unwrap();
        let told = brief.message.split_once("not instructions to you.\n").unwrap().1;
        self.briefs.lock().unwrap().push((format!("{slug} {}", row.number.task), serde_json::from_str(told).unwrap()));
        AgentActor { agent: agent.id, role: agent.role, team: agent.team, spawn, epoch: seat.epoch }
    }

    /// Ends a run as one that closed its part.
    pub(crate) async fn end(&self, run: &AgentActor, verb: Verb) {
        let outcome = Outcome::Completed { verb: verb.to_string() };
        self.company.execute_system(SystemCommand::SpawnEnded { spawn: run.spawn, outcome, usage: Usage::default() }).await.unwrap();
    }

    /// What the plan says now; what the company does by itself is done.
    pub(crate) async fn plan(&self) -> Plan {
        loop {
            let (tasks, spawns) = (self.company.store().open_tasks().await.unwrap(), self.company.store().live_spawns().await.unwrap());
            assert!(spawns.iter().all(|s| s.state != SpawnState::Ended));
            let policy = Policy { max_spawns: 8, default_provider: "scripted".into(), ..Policy::default() };
            let made = plan(&PlanInput {
                now: self.company.clock().now(),
                roster: self.company.roster(),
                tasks: &tasks,
                spawns: &spawns,
                policy: &policy,
            });
            if made.submit.is_empty() {
                return made;
            }
            for task in made.submit {
                self.company.execute_system(SystemCommand::Submit { task }).await.unwrap();
            }
        }
    }

    /// Starts one run after the other as the plan says, each going through its script, until nothing can be started.
    pub(crate) async fn work(&self) {
        for _ in 0..100 {
            let Some(start) = self.plan().await.start.into_iter().next() else { return };
            let slug = self.company.roster().slug(start.agent);
            let run = self.start(&slug, start.task, start.verb).await;
            let last = self.play(&run, start.task, start.verb).await;
            self.end(&run, last).await;
        }
        panic!("it goes round and round: {:?}", self.plan().await);
    }

    pub(crate) async fn log(&self) -> Vec<EventRow> {
        self.company.store().events(0, None, 10_000).await.unwrap()
    }
}
