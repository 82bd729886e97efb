//! A company on a real database with a fake repository, and its door.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use roboco_company::Company;
use roboco_company::brief::Prompts;
use roboco_company::commit::Executed;
use roboco_company::ports::{Clock, DiffText, Probed, Repos};
use roboco_company::projects::ProjectInput;
use roboco_domain::command::{Actor, AgentActor, SystemCommand};
use roboco_domain::effect::{Effect, EffectResult};
use roboco_domain::id::{CorrelationId, ProjectId, SpawnId, TaskId};
use roboco_domain::known::Known;
use roboco_domain::limits;
use roboco_domain::project::Access;
use roboco_domain::roster::Roster;
use roboco_domain::snapshot::TreeFact;
use roboco_domain::task::GateVerdict;
use roboco_domain::time::Timestamp;
use roboco_domain::vcs::{BranchName, Oid};
use roboco_domain::verb::Verb;
use roboco_gateway::{Gateway, Keys};
use roboco_store::{OpenOptions, SqlStore};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use tower::ServiceExt;
use uuid::Uuid;

const ROSTER: &str = include_str!("../../../../company/roster.toml");

#[derive(Debug)]
pub(crate) struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}

pub(crate) fn oid(digit: char) -> Oid {
    Oid::new(digit.to_string().repeat(40)).unwrap()
}

#[derive(Debug)]
struct FakeRepos;

#[async_trait]
impl Repos for FakeRepos {
    async fn add(&self, _: ProjectId, origin: &str) -> Result<Probed, String> {
        let default_branch = BranchName::new("main").unwrap();
        Ok(Probed { origin: origin.to_owned(), default_branch, access: Access::ReadWrite, warnings: Vec::new() })
    }
    async fn forget(&self, _: ProjectId) {}
    async fn tree(&self, _: ProjectId, _: &BranchName) -> Known<TreeFact> {
        Known::Yes(TreeFact { head: oid('c'), dirty: Vec::new() })
    }
    async fn diff(&self, _: ProjectId, _: &Oid, _: &Oid, _: usize) -> Result<DiffText, String> {
        Ok(DiffText::default())
    }
}

pub(crate) struct World {
    pub(crate) company: Arc<Company>,
    pub(crate) gateway: Gateway,
    pub(crate) router: Router,
    pub(crate) clock: Arc<TestClock>,
    /// The kind of effect that takes its time, if one does.
    pub(crate) held: watch::Sender<Option<&'static str>>,
    pub(crate) _folder: TempDir,
}

/// A live run with its token.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) actor: AgentActor,
    pub(crate) token: String,
}

/// An answer, read.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::waiting_for(limits::VERB_WAIT).await
    }

    /// A company whose verbs wait only so long for their effects.
    pub(crate) async fn waiting_for(wait: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("roboco.db").display());
        let store = Arc::new(SqlStore::open(OpenOptions::new(url)).await.unwrap());
        let roster = Roster::parse(roboco_store::Store::company(&*store), ROSTER).unwrap();
        let clock = Arc::new(TestClock(AtomicI64::new(1_800_000_000_000)));
        let prompts = Prompts::load([("base.md".to_owned(), "be good".to_owned())].into()).unwrap();
        let clocked = Arc::clone(&clock) as Arc<dyn Clock>;
        let company = Arc::new(Company::new(store, Arc::new(roster), clocked, Arc::new(FakeRepos), prompts).waiting_for(wait));
        let mut intents = company.signals().take_intents().unwrap();
        let worker = Arc::clone(&company);
        let (held, mut holds) = watch::channel(None);
        tokio::spawn(async move {
            while let Some(intended) = intents.recv().await {
                if holds.wait_for(|kind| *kind != Some(intended.effect.kind())).await.is_err() {
                    return;
                }
                let result = result_of(&intended.effect);
                let settle = SystemCommand::Settle { intent: intended.intent, effect: Box::new(intended.effect), result };
                worker.execute_system(settle).await.unwrap();
            }
        });
        let gateway = Gateway::new(Arc::clone(&company), Keys::generate().unwrap());
        let router = gateway.router();
        let world = Self { company, gateway, router, clock, held, _folder: folder };
        let input = ProjectInput { origin: "/srv/greeter".into(), cell: "backend".into(), ..ProjectInput::default() };
        let added = world.company.add_project(Actor::Ceo(world.company.ceo()), input).await.unwrap();
        assert!(matches!(added, Executed::Accepted { .. }), "{added:?}");
        world
    }

    pub(crate) fn pass(&self, seconds: i64) {
        self.clock.0.fetch_add(seconds * 1000, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Gives the company a task for the backend.
    pub(crate) async fn task(&self) -> TaskId {
        let request = roboco_company::call::Request {
            actor: Actor::Ceo(self.company.ceo()),
            verb: Verb::CreateTask,
            arguments: json!({
                "project": "greeter", "title": "Greet people by name", "description": "The greeter says hello to everybody by name.",
                "criteria": ["greet(\"Ada\") returns \"Hello, Ada\""], "type": "code", "nature": "technical", "complexity": "low",
            }),
            correlation: CorrelationId::new(Uuid::now_v7()),
            replay_key: None,
        };
        let called = self.company.call(request).await.unwrap();
        assert_eq!(called.rejection, None);
        called.task.unwrap()
    }

    /// Starts a run of an agent for a task.
    pub(crate) async fn run(&self, slug: &str, task: TaskId, verb: Verb) -> Run {
        let agent = self.company.roster().by_slug(slug).unwrap().clone();
        let plan = SystemCommand::PlanSpawn { task, agent: agent.id, verb, provider: "scripted".into(), model: None, resume: None };
        let planned = self.company.execute_system(plan).await.unwrap();
        assert!(matches!(planned, Executed::Accepted { .. }), "{planned:?}");
        let seat = self.company.store().seat(agent.id).await.unwrap();
        let spawn = seat.spawn.unwrap();
        self.company.execute_system(SystemCommand::SpawnStarted { spawn }).await.unwrap();
        self.token(AgentActor { agent: agent.id, role: agent.role, team: agent.team, spawn, epoch: seat.epoch })
    }

    /// A token that no run stands behind.
    pub(crate) fn stranger(&self, slug: &str) -> Run {
        let agent = self.company.roster().by_slug(slug).unwrap().clone();
        let (spawn, epoch) = (SpawnId::new(Uuid::now_v7()), roboco_domain::spawn::Epoch(1));
        self.token(AgentActor { agent: agent.id, role: agent.role, team: agent.team, spawn, epoch })
    }

    pub(crate) fn token(&self, actor: AgentActor) -> Run {
        let token = self.gateway.keys().mint(&actor, self.now()).unwrap().expose_secret().to_owned();
        Run { actor, token }
    }

    /// Sends a request with the headers as they are.
    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("host", "127.0.0.1:7777");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.router.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Answer { status: parts.status, headers: parts.headers, body }
    }

    /// Calls a verb of a run.
    pub(crate) async fn call(&self, run: &Run, verb: &str, arguments: Value) -> Answer {
        self.call_with(run, verb, arguments, &[]).await
    }

    pub(crate) async fn call_with(&self, run: &Run, verb: &str, arguments: Value, headers: &[(&str, &str)]) -> Answer {
        let path = path_of(run, verb);
        let bearer = format!("Bearer {}", run.token);
        let mut all = vec![("authorization", bearer.as_str())];
        all.extend_from_slice(headers);
        self.send("POST", &path, &all, arguments.to_string()).await
    }

    /// Sends a JSON-RPC message to a run's endpoint.
    pub(crate) async fn rpc(&self, run: &Run, session: Option<&str>, message: Value) -> Answer {
        let bearer = format!("Bearer {}", run.token);
        let mut headers = vec![
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2025-11-25"),
        ];
        headers.extend(session.map(|session| ("mcp-session-id", session)));
        self.send("POST", &Gateway::mcp_path(run.actor.spawn), &headers, message.to_string()).await
    }

    /// Refusals and answers are counted by what the log says.
    pub(crate) async fn events(&self, kind: &str) -> usize {
        self.company.store().events(0, None, 500).await.unwrap().iter().filter(|row| row.event.kind() == kind).count()
    }
}

pub(crate) fn path_of(run: &Run, verb: &str) -> String {
    match verb.parse::<Verb>() {
        Ok(verb) if verb.is_do() => format!("/api/v1/do/{verb}"),
        _ => format!("/api/v1/flow/{}/{verb}", run.actor.role.route()),
    }
}

/// What git would have said.
fn result_of(effect: &Effect) -> EffectResult {
    match effect {
        Effect::CutBranch { .. } => EffectResult::BranchCut { base: oid('a'), head: oid('a'), tree: None },
        Effect::Commit { .. } => EffectResult::Committed { oid: oid('c'), tree: oid('d'), files: vec!["greet.py".into()] },
        Effect::Sync { .. } => EffectResult::SyncConflict { paths: vec!["src/greet.py".into()] },
        Effect::RunGate { .. } => {
            EffectResult::Gate { verdict: GateVerdict::Failed, summary: "test: failed".into(), tail: Some("1 failed".into()) }
        }
        Effect::Pin { .. } | Effect::Land { .. } | Effect::CleanUp { .. } | Effect::ReleaseReviewTree { .. } => EffectResult::Finished,
    }
}
