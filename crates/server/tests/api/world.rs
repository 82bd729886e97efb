//! A company on a real database with a fake repository, and its server.

use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt;
use roboco_company::Company;
use roboco_company::brief::Prompts;
use roboco_company::commit::Executed;
use roboco_company::ports::{Clock, DiffText, Probed, Repos};
use roboco_company::projects::ProjectInput;
use roboco_domain::command::{Actor, AgentActor, SystemCommand};
use roboco_domain::effect::{Effect, EffectResult};
use roboco_domain::id::{ProjectId, TaskId};
use roboco_domain::known::Known;
use roboco_domain::project::Access;
use roboco_domain::roster::Roster;
use roboco_domain::snapshot::TreeFact;
use roboco_domain::time::Timestamp;
use roboco_domain::vcs::{BranchName, Oid};
use roboco_domain::verb::Verb;
use roboco_gateway::{Gateway, Keys};
use roboco_server::{Counters, ServerState, token_digest};
use roboco_store::{OpenOptions, SqlStore};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt;

const ROSTER: &str = include_str!("../../../../company/roster.toml");

/// The token of the CEO.
pub(crate) const CEO: &str = "the-token-of-the-ceo";

#[derive(Debug)]
struct TestClock;

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000)
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
    pub(crate) state: ServerState,
    router: Router,
    #[expect(dead_code, reason = "the database is removed when the test ends")]
    folder: TempDir,
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
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("roboco.db").display());
        let store = Arc::new(SqlStore::open(OpenOptions::new(url)).await.unwrap());
        let roster = Roster::parse(roboco_store::Store::company(&*store), ROSTER).unwrap();
        let prompts = Prompts::load([("base.md".to_owned(), "be good".to_owned())].into()).unwrap();
        let company = Arc::new(Company::new(store, Arc::new(roster), Arc::new(TestClock), Arc::new(FakeRepos), prompts));
        let mut intents = company.signals().take_intents().unwrap();
        let worker = Arc::clone(&company);
        tokio::spawn(async move {
            while let Some(intended) = intents.recv().await {
                let result = result_of(&intended.effect);
                let settle = SystemCommand::Settle { intent: intended.intent, effect: Box::new(intended.effect), result };
                worker.execute_system(settle).await.unwrap();
            }
        });
        let ceo = company.ceo();
        company.store().put_token("ceo", ceo, &token_digest(CEO), company.clock().now()).await.unwrap();
        let gateway = Gateway::new(Arc::clone(&company), Keys::generate().unwrap());
        let state = ServerState::new(Arc::clone(&company), Counters::new(gateway.clone(), || 7));
        let router = roboco_server::router(state.clone(), gateway.router());
        let world = Self { company, gateway, state, router, folder };
        let input = ProjectInput { origin: "/srv/greeter".into(), cell: "backend".into(), ..ProjectInput::default() };
        let added = world.company.add_project(Actor::Ceo(world.company.ceo()), input).await.unwrap();
        assert!(matches!(added, Executed::Accepted { .. }), "{added:?}");
        world
    }

    /// Gives the company a task for the backend.
    pub(crate) async fn task(&self) -> String {
        let answer = self.ceo("POST", "/api/tasks", task_arguments()).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{:?}", answer.body);
        answer.body["task"]["number"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn id_of(&self, task: &str) -> TaskId {
        self.company.resolve(task).await.unwrap().unwrap()
    }

    /// Starts a run of an agent for a task.
    pub(crate) async fn run(&self, slug: &str, task: &str, verb: Verb) -> AgentActor {
        let task = self.id_of(task).await;
        let agent = self.company.roster().by_slug(slug).unwrap().clone();
        let plan = SystemCommand::PlanSpawn { task, agent: agent.id, verb, provider: "scripted".into(), model: None, resume: None };
        let planned = self.company.execute_system(plan).await.unwrap();
        assert!(matches!(planned, Executed::Accepted { .. }), "{planned:?}");
        let seat = self.company.store().seat(agent.id).await.unwrap();
        let spawn = seat.spawn.unwrap();
        self.company.execute_system(SystemCommand::SpawnStarted { spawn }).await.unwrap();
        AgentActor { agent: agent.id, role: agent.role, team: agent.team, spawn, epoch: seat.epoch }
    }

    pub(crate) fn token(&self, actor: &AgentActor) -> String {
        self.gateway.keys().mint(actor, self.company.clock().now()).unwrap().expose_secret().to_owned()
    }

    /// Sends a request as the CEO.
    pub(crate) async fn ceo(&self, method: &str, path: &str, body: Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send(method, path, &[("authorization", &format!("Bearer {CEO}"))], body).await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
        let response = self.open(method, path, headers, body).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Answer { status: parts.status, headers: parts.headers, body }
    }

    /// Sends a request and leaves its answer unread.
    pub(crate) async fn open(&self, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "127.0.0.1:7777");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.router.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap()
    }
}

/// A task that can be created.
pub(crate) fn task_arguments() -> Value {
    json!({
        "project": "greeter", "title": "Greet people by name", "description": "The greeter says hello to everybody by name.",
        "criteria": ["greet(\"Ada\") returns \"Hello, Ada\""], "type": "code", "nature": "technical", "complexity": "low",
    })
}

/// What git would have said.
fn result_of(effect: &Effect) -> EffectResult {
    match effect {
        Effect::CutBranch { .. } => EffectResult::BranchCut { base: oid('a'), head: oid('a'), tree: None },
        Effect::Commit { .. } => EffectResult::Committed { oid: oid('c'), tree: oid('d'), files: vec!["greet.py".into()] },
        Effect::Sync { .. } => EffectResult::Synced { head: oid('c'), tree: oid('d') },
        Effect::RunGate { .. } | Effect::Pin { .. } | Effect::Land { .. } | Effect::CleanUp { .. } | Effect::ReleaseReviewTree { .. } => {
            EffectResult::Finished
        }
    }
}
