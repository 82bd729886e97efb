//! A company in a temporary directory, with a repository to work on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use roboco_company::Company;
use roboco_company::brief::Prompts;
use roboco_company::call::Request;
use roboco_company::commit::{Executed, correlation};
use roboco_company::fault::Fault;
use roboco_company::ports::{Clock, SystemClock};
use roboco_company::projects::ProjectInput;
use roboco_domain::command::{Actor, AgentActor};
use roboco_domain::id::{SpawnId, TaskId, TaskNumber, TaskRef};
use roboco_domain::project::GateCommands;
use roboco_domain::roster::Roster;
use roboco_domain::spawn::Spawn;
use roboco_domain::task::{Stage, Task};
use roboco_domain::time::Timestamp;
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
role = "developer"
when = { task = "Limited*", verb = "i_will_work_on" }
steps = [
  { call = "i_will_work_on", args = { task_id = "{{ task }}", plan = "Ask the model", steps = [{ title = "Ask", description = "Ask the model for a greeting" }] } },
  { call = "i_am_blocked", args = { task_id = "{{ task }}", reason = "The provider refuses until its limit resets", blocker_type = "provider_limit", retry_after_s = 3600 } },
]
[[play]]
role = "developer"
when = { task = "Linger*", verb = "i_will_work_on" }
steps = [
  { call = "i_will_work_on", args = { task_id = "{{ task }}", plan = "Wait to be told", steps = [{ title = "Wait", description = "Wait until a file appears" }] } },
  { run = "touch here; until [ -e go ]; do sleep 0.02; done", expect = 0 },
  { write = "after.txt", text = "The turn went on\n" },
  { call = "i_will_work_on", args = { task_id = "{{ task }}", plan = "Go on where it stopped", steps = [{ title = "Wait", description = "Wait until a file appears" }] }, accept = ["invalid_state"] },
  { call = "commit", args = { message = "feat(linger): say that the turn went on" }, accept = ["invalid_state"] },
]
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

/// The machine's clock, which a test may put forward.
#[derive(Debug, Default)]
struct ForwardClock(AtomicU64);

impl Clock for ForwardClock {
    fn now(&self) -> Timestamp {
        SystemClock.now().after(Duration::from_millis(self.0.load(Ordering::Relaxed)))
    }
}

struct TheDoor(Gateway);

impl Door for TheDoor {
    fn mint(&self, actor: &AgentActor) -> Result<SecretString, Fault> {
        self.0.keys().mint(actor, SystemClock.now()).map_err(|e| Fault::lasting(e.to_string()))
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
    clock: Arc<ForwardClock>,
    running: Option<Running>,
    /// Agents whose client is another one than that of the others, and dies at once.
    elsewhere: Vec<&'static str>,
}

impl World {
    pub(crate) async fn new() -> Self {
        let world = Self { dir: tempfile::tempdir().unwrap(), clock: Arc::default(), running: None, elsewhere: Vec::new() };
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

    /// A company in which this agent has a provider of its own.
    pub(crate) async fn with_elsewhere(agent: &'static str) -> Self {
        Self { elsewhere: vec![agent], ..Self::new().await }
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
        let elsewhere = self.elsewhere.iter().map(|slug| (roster.by_slug(slug).unwrap().id, "claude".to_owned())).collect();
        let git = Git::discover("/usr/local/bin:/usr/bin:/bin".as_ref(), &data.join("git-home")).await.unwrap();
        let repos = Arc::new(Repos::open(git, &data).unwrap());
        let adapter = Arc::new(GitRepos::new(Arc::clone(&repos), self.dir.path().to_owned(), None));
        let prompts = Prompts::load(BTreeMap::from([("base.md".to_owned(), "You are {{ agent }}.\n{{ verbs }}".to_owned())])).unwrap();
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let company = Arc::new(Company::new(Arc::clone(&store) as Arc<dyn Store>, roster, clock, adapter, prompts));
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
            routes: elsewhere,
            providers: ["scripted", "claude"]
                .map(|name| {
                    (name.into(), ProviderConfig { program: roboco.clone(), standard: None, strong: None, login: LoginKind::ApiKey })
                })
                .into(),
            play: Some((self.path("play.toml"), self.dir.path().to_owned())),
            memory_bytes: None,
            pids: 1024,
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
        let input = ProjectInput {
            slug: "greeter".into(),
            origin: self.path("origin").display().to_string(),
            cell: "backend".into(),
            commands: GateCommands { test: "test -f greet.txt".into(), ..GateCommands::default() },
            ..ProjectInput::default()
        };
        let added = company.add_project(Actor::Ceo(company.ceo()), input).await.unwrap();
        assert!(matches!(added, Executed::Accepted { .. }), "{added:?}");
        self.order(title, TaskNumber(1)).await
    }

    /// A further task of the same project, which gets this number.
    pub(crate) async fn order(&self, title: &str, number: TaskNumber) -> TaskId {
        let arguments = json!({
            "project": "greeter", "type": "code", "nature": "technical", "complexity": "low", "title": title,
            "description": "greet() takes one name. Accept a list of names.", "criteria": ["the greeting names both", "the checks pass"],
        });
        self.say(Verb::CreateTask, arguments).await;
        match self.running().company.store().resolve(&TaskRef::Number(number)).await.unwrap() {
            Resolved::One(id) => id,
            other => panic!("{other:?}"),
        }
    }

    /// The CEO says something that is accepted.
    pub(crate) async fn say(&self, verb: Verb, arguments: serde_json::Value) {
        let company = &self.running().company;
        let actor = Actor::Ceo(company.ceo());
        let called = company.call(Request { actor, verb, arguments, correlation: correlation(), replay_key: None }).await.unwrap();
        assert!(!called.envelope.is_error(), "{:?}", called.envelope);
    }

    pub(crate) async fn decide(&self, verb: Verb, task: TaskId) {
        self.say(verb, json!({ "task_id": task.to_string() })).await;
    }

    pub(crate) async fn approve(&self, task: TaskId) {
        self.decide(Verb::Approve, task).await;
    }

    /// Puts the clock forward and lets the supervisor look at it.
    pub(crate) fn put_forward(&self, by: Duration) {
        self.clock.0.fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::Relaxed);
        self.running().company.signals().plan.notify_one();
    }

    /// Returns when the supervisor has carried out a plan that knows everything that was decided before this call: it has started and
    /// buried the run of a further task, which gets this number.
    pub(crate) async fn planned_anew(&self, number: TaskNumber) {
        let task = self.order("Crash at once", number).await;
        until("the next plan is carried out", || self.kinds(task), |kinds| kinds.iter().any(|k| k == "spawn.ended")).await;
    }

    /// The runs of a task, oldest first.
    pub(crate) async fn runs(&self, task: TaskId) -> Vec<Spawn> {
        self.running().company.store().spawns_of(task).await.unwrap()
    }

    /// Where the author of a task works.
    pub(crate) async fn tree(&self, task: TaskId) -> PathBuf {
        let task = self.task(task).await;
        self.running().repos.tree_path(task.project, &roboco_git::TreeName::Branch(task.delivery.branch.clone()))
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
        self.runs(task).await.iter().map(|s| format!("{} {} {:?}", s.number, s.verb, s.outcome)).collect::<Vec<_>>().join("\n")
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
