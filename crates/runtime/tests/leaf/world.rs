//! A company in a temporary directory, with a repository to work on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use roboco_company::Company;
use roboco_company::brief::Prompts;
use roboco_company::call::Request;
use roboco_company::commit::{Executed, correlation};
use roboco_company::fault::Fault;
use roboco_company::ports::SystemClock;
use roboco_company::projects::ProjectInput;
use roboco_domain::command::{Actor, AgentActor};
use roboco_domain::id::{SpawnId, TaskId, TaskNumber, TaskRef};
use roboco_domain::project::GateCommands;
use roboco_domain::roster::Roster;
use roboco_domain::task::{Stage, Task};
use roboco_domain::verb::Verb;
use roboco_gateway::{Gateway, Keys};
use roboco_git::{Git, Repos};
use roboco_process::{Input, OutputCap, Process};
use roboco_runtime::{Door, GitRepos, LoginKind, NetworkAccess, Parts, ProviderConfig, Runtime, RuntimeConfig};
use roboco_sandbox::{Labels, ProcessDriver, Settings, Unconfined};
use roboco_store::{OpenOptions, Resolved, SqlStore, Store};
use secrecy::SecretString;
use serde_json::json;

const PLAY: &str = r##"
[[play]]
role = "developer"
when = { task = "Greet*", verb = "i_will_work_on" }
steps = [
  { call = "i_will_work_on", args = { task_id = "{{ task }}", plan = "Join the names in one place", steps = [{ title = "Join", description = "Join names with commas" }] } },
  { write = "greet.txt", text = "Hello, Ada and Bob\n" },
  { call = "commit", args = { message = "feat(greet): join several names" }, accept = ["nothing_to_commit"] },
  { call = "open_pr", args = { task_id = "{{ task }}" } },
  { call = "i_am_done", args = { task_id = "{{ task }}", criteria = [{ id = "{{ criteria[0].id }}", evidence = "file:greet.txt" }, { id = "{{ criteria[1].id }}", evidence = "test:the gate" }] } },
]
[[play]]
role = "developer"
when = { task = "Crash*", verb = "i_will_work_on" }
steps = [{ crash = true }]
[[play]]
role = "qa"
when = { task = "*", verb = "claim_review" }
steps = [
  { call = "claim_review", args = { task_id = "{{ task }}" } },
  { run = "grep -q 'Ada and Bob' greet.txt", expect = 0 },
  { call = "pass", args = { task_id = "{{ task }}", notes = "Read the file and ran the check", criteria_verified = [{ criterion = "C1", evidence = "read greet.txt" }, { criterion = "C2", evidence = "ran the gate" }] } },
]
[[play]]
role = "documenter"
when = { task = "*", verb = "claim_doc_task" }
steps = [
  { call = "claim_doc_task", args = { task_id = "{{ task }}" } },
  { write = "README.md", text = "# Greeter\n\nGreets several people.\n" },
  { call = "commit", args = { message = "docs(readme): several people" }, accept = ["nothing_to_commit"] },
  { call = "i_documented", args = { task_id = "{{ task }}", notes = "The readme says it", files = ["README.md"] } },
]
[[play]]
role = "cell_pm"
when = { task = "*", verb = "complete" }
steps = [{ call = "complete", args = { task_id = "{{ task }}", notes = "Both criteria hold and the readme says so" } }]
"##;

/// Waits for a condition with a deadline.
pub(crate) async fn until<T: std::fmt::Debug, F: Future<Output = T>>(what: &str, mut look: impl FnMut() -> F, holds: impl Fn(T) -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let seen = look().await;
        let shown = format!("{seen:?}");
        if holds(seen) {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "waited in vain: {what}; last seen: {}", &shown[..shown.len().min(3000)]);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

struct TheDoor(Gateway);

impl Door for TheDoor {
    fn mint(&self, actor: &AgentActor) -> Result<SecretString, Fault> {
        self.0.keys().mint(actor, roboco_company::ports::Clock::now(&SystemClock)).map_err(|e| Fault::lasting(e.to_string()))
    }
    fn forget(&self, spawn: SpawnId) {
        self.0.forget(spawn);
    }
}

struct Running {
    company: Arc<Company>,
    repos: Arc<Repos>,
    store: Arc<SqlStore>,
    runtime: Option<Runtime>,
    listener: tokio::task::JoinHandle<()>,
}

/// A company that can die and start again.
pub(crate) struct World {
    dir: tempfile::TempDir,
    running: Option<Running>,
}

impl World {
    pub(crate) async fn new() -> Self {
        let world = Self { dir: tempfile::tempdir().unwrap(), running: None };
        let origin = world.path("origin");
        std::fs::create_dir_all(&origin).unwrap();
        std::fs::write(origin.join("README.md"), "# Greeter\n").unwrap();
        for args in [
            &["init", "-q", "-b", "main"][..],
            &["add", "."],
            &["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", "Begin"],
        ] {
            git(&origin, args).await;
        }
        std::fs::write(world.path("play.toml"), PLAY).unwrap();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) async fn start(&mut self) {
        let data = self.path("data");
        std::fs::create_dir_all(&data).unwrap();
        let store = Arc::new(SqlStore::open(OpenOptions::new(format!("sqlite:{}", data.join("roboco.db").display()))).await.unwrap());
        let roster = include_str!("../../../../company/roster.toml");
        let roster = Arc::new(Roster::parse(store.company(), roster).unwrap());
        let git = Git::discover("/usr/local/bin:/usr/bin:/bin".as_ref(), &data.join("git-home")).await.unwrap();
        let repos = Arc::new(Repos::open(git, &data).unwrap());
        let adapter = Arc::new(GitRepos::new(Arc::clone(&repos), self.dir.path().to_owned(), None));
        let prompts = Prompts::load(BTreeMap::from([("base.md".to_owned(), "You are {{ agent }}.\n{{ verbs }}".to_owned())])).unwrap();
        let company = Arc::new(Company::new(Arc::clone(&store) as Arc<dyn Store>, roster, Arc::new(SystemClock), adapter, prompts));
        let gateway = Gateway::new(Arc::clone(&company), Keys::from_secret(SecretString::from("k".repeat(64))).unwrap());
        let door = self.path("door.sock");
        std::fs::remove_file(&door).unwrap_or_default();
        let socket = tokio::net::UnixListener::bind(&door).unwrap();
        let router = gateway.router();
        let listener = tokio::spawn(async move { axum::serve(socket, router).await.unwrap() });
        let roboco = stand_in();
        let driver = ProcessDriver::new(Settings {
            roboco: roboco.clone(),
            tool_dirs: Vec::new(),
            unconfined: Unconfined::Refuse,
            own: Labels::from([("company".into(), store.company().to_string())]),
            bubblewrap: None,
        });
        let config = RuntimeConfig {
            max_spawns: 4,
            max_jobs: 2,
            homes: data.join("homes"),
            data: data.clone(),
            door,
            default_provider: "scripted".into(),
            routes: BTreeMap::new(),
            providers: BTreeMap::from([(
                "scripted".into(),
                ProviderConfig { program: roboco, standard: None, strong: None, login: LoginKind::ApiKey },
            )]),
            play: Some((self.path("play.toml"), self.dir.path().to_owned())),
            memory_bytes: None,
            network: NetworkAccess::Door,
        };
        let parts =
            Parts { company: Arc::clone(&company), driver: Arc::new(driver), repos: Arc::clone(&repos), door: Arc::new(TheDoor(gateway)) };
        let runtime = Runtime::start(config, parts).await.unwrap();
        self.running = Some(Running { company, repos, store, runtime: Some(runtime), listener });
    }

    fn running(&self) -> &Running {
        self.running.as_ref().unwrap()
    }

    /// An orderly end.
    pub(crate) async fn stop(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.runtime.take().unwrap().stop().await;
            running.listener.abort();
            running.store.close().await;
        }
    }

    /// An end without a goodbye: everything that ran is dropped where it is.
    pub(crate) async fn die(&mut self) {
        if let Some(running) = self.running.take() {
            drop(running.runtime);
            running.listener.abort();
            running.store.close().await;
        }
    }

    pub(crate) async fn create_task(&self, title: &str) -> TaskId {
        let company = &self.running().company;
        let ceo = Actor::Ceo(company.ceo());
        let input = ProjectInput {
            slug: "greeter".into(),
            origin: self.path("origin").display().to_string(),
            cell: "backend".into(),
            commands: GateCommands { test: "test -f greet.txt".into(), ..GateCommands::default() },
            ..ProjectInput::default()
        };
        let added = company.add_project(ceo.clone(), input).await.unwrap();
        assert!(matches!(added, Executed::Accepted { .. }), "{added:?}");
        let arguments = json!({
            "project": "greeter", "type": "code", "nature": "technical", "complexity": "low", "title": title,
            "description": "greet() takes one name. Accept a list of names.", "criteria": ["the greeting names both", "the checks pass"],
        });
        let request = Request { actor: ceo, verb: Verb::CreateTask, arguments, correlation: correlation(), replay_key: None };
        let called = company.call(request).await.unwrap();
        assert!(!called.envelope.is_error(), "{:?}", called.envelope);
        match company.store().resolve(&TaskRef::Number(TaskNumber(1))).await.unwrap() {
            Resolved::One(id) => id,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn approve(&self, task: TaskId) {
        let company = &self.running().company;
        let arguments = json!({ "task_id": task.to_string() });
        let actor = Actor::Ceo(company.ceo());
        let called =
            company.call(Request { actor, verb: Verb::Approve, arguments, correlation: correlation(), replay_key: None }).await.unwrap();
        assert!(!called.envelope.is_error(), "{:?}", called.envelope);
    }

    pub(crate) async fn task(&self, id: TaskId) -> Arc<Task> {
        self.running().company.store().task(id).await.unwrap().unwrap()
    }

    pub(crate) async fn stage(&self, id: TaskId) -> Stage {
        self.task(id).await.stage
    }

    pub(crate) async fn kinds(&self, task: TaskId) -> Vec<String> {
        let rows = self.running().company.store().events(0, Some(task), 1000).await.unwrap();
        rows.iter().map(|row| row.event.kind().to_owned()).collect()
    }

    /// How every run of a task ended, for a reader of a failed test.
    pub(crate) async fn outcomes(&self, task: TaskId) -> String {
        let spawns = self.running().company.store().spawns_of(task).await.unwrap();
        spawns.iter().map(|s| format!("{} {} {:?}", s.number, s.verb, s.outcome)).collect::<Vec<_>>().join("\n")
    }

    pub(crate) async fn live(&self) -> usize {
        self.running().company.store().live_spawns().await.unwrap().len()
    }

    pub(crate) fn statements(&self) -> u64 {
        self.running().store.statements()
    }

    pub(crate) fn git_processes(&self) -> u64 {
        self.running().repos.git().processes()
    }

    /// Merge commits with the task's trailer on the origin's branch.
    pub(crate) async fn merges(&self) -> usize {
        let log = git(&self.path("origin"), &["log", "main", "--merges", "--grep", "Task: T-1", "--format=%H"]).await;
        log.lines().count()
    }
}

async fn git(at: &Path, args: &[&str]) -> String {
    let done = Process::new("git", at, Duration::from_secs(30))
        .args(args)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", at)
        .input(Input::Null)
        .output(OutputCap::head(1024 * 1024))
        .await
        .unwrap();
    assert!(done.status.success(), "{args:?}: {}", done.stderr.text());
    done.stdout.text().to_string()
}

fn stand_in() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(Path::parent).unwrap().join("examples/runtime_stand_in")
}
