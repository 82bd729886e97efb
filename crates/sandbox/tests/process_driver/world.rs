//! A data directory with two agents' places in it, and a driver.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use roboco_sandbox::{
    Access, ClientIo, Driver, Env, Exit, JobEnd, JobSpec, Labels, Limits, Mount, Network, ProcessDriver, Sandbox, SandboxSpec, Settings,
    Trust, Unconfined,
};
use tempfile::TempDir;

/// Longest wait for anything in these tests; reached only by a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct World {
    base: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        // Not in /tmp, which every sandbox has for itself, and short enough for a socket's path.
        let base = tempfile::tempdir_in("/var/tmp").unwrap();
        for directory in ["data/trees/mine", "data/trees/other", "data/homes/mine", "data/homes/other", "data/repos/greeter.git"] {
            fs::create_dir_all(base.path().join(directory)).unwrap();
        }
        for file in
            ["data/secrets.toml", "data/trees/other/work", "data/homes/other/login", "data/repos/greeter.git/HEAD", "data/trees/mine/work"]
        {
            fs::write(base.path().join(file), "content").unwrap();
        }
        Self { base }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            roboco: stand_in(),
            tool_dirs: Vec::new(),
            unconfined: Unconfined::Refuse,
            own: Labels::from([("company".into(), self.base.path().display().to_string())]),
            bubblewrap: None,
        }
    }

    /// A driver that confines.
    pub(crate) async fn driver(&self) -> ProcessDriver {
        confining(self.settings()).await
    }

    /// A driver that finds no bubblewrap.
    pub(crate) fn driver_without_bubblewrap(&self, unconfined: Unconfined) -> ProcessDriver {
        ProcessDriver::new(Settings { bubblewrap: Some("/no/such/bwrap".into()), unconfined, ..self.settings() })
    }

    pub(crate) fn spec(&self, argv: &[&str]) -> SandboxSpec {
        SandboxSpec {
            name: format!("roboco-{}", self.base.path().file_name().unwrap().display()),
            labels: Labels::from([("agent".into(), "be-dev-1".into())]),
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            env: Env::new(),
            cwd: self.path("data/trees/mine"),
            mounts: vec![
                Mount::same(self.path("data/trees/mine"), Access::ReadWrite),
                Mount::same(self.path("data/repos/greeter.git"), Access::ReadOnly),
            ],
            home: self.path("data/homes/mine"),
            door_files: Vec::new(),
            network: Network::None,
            limits: Limits::default(),
            masks: Vec::new(),
            trust: Trust::Foreign,
            confinement: None,
        }
    }

    pub(crate) fn shell(&self, script: &str) -> SandboxSpec {
        self.spec(&["sh", "-c", script])
    }

    pub(crate) fn job(&self, script: &str) -> JobSpec {
        JobSpec {
            name: format!("job-{}", self.base.path().file_name().unwrap().display()),
            labels: Labels::new(),
            script: script.into(),
            env: Env::new(),
            cwd: self.path("data/trees/mine"),
            mounts: vec![Mount::same(self.path("data/trees/mine"), Access::ReadWrite)],
            masks: Vec::new(),
            limits: Limits::JOB,
        }
    }

    /// Runs a job and gives its code and output.
    pub(crate) async fn run_job(&self, driver: &ProcessDriver, script: &str) -> (i32, String) {
        let result = driver.run_job(&self.job(script), PATIENCE, 64 * 1024).await.unwrap();
        match result.end {
            JobEnd::Code(code) => (code, result.output),
            JobEnd::TimedOut => panic!("the job ran out of time: {}", result.output),
        }
    }

    /// Every process of this world on the host, in sandboxes or not.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let mark = format!("\"company\":\"{}\"", self.base.path().display());
        let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| fs::read(format!("/proc/{pid}/environ")).is_ok_and(|env| String::from_utf8_lossy(&env).contains(&mark))).collect()
    }

    pub(crate) async fn until_nothing_runs(&self) {
        until("every process is gone", || self.processes().is_empty()).await;
    }
}

pub(crate) async fn confining(settings: Settings) -> ProcessDriver {
    let driver = ProcessDriver::new(settings);
    let confinement = driver.confinement().await;
    assert!(confinement.is_confined(), "these tests need the package bubblewrap, working: {confinement:?}");
    driver
}

/// Everything the client says until its end.
pub(crate) async fn listen(sandbox: &mut Sandbox) -> (Vec<String>, ClientIo) {
    let mut said = Vec::new();
    loop {
        match next(sandbox).await {
            ClientIo::Out(line) => said.push(line),
            ClientIo::Err(line) => said.push(format!("! {line}")),
            end @ (ClientIo::Exit(_) | ClientIo::Lost(_)) => return (said, end),
        }
    }
}

pub(crate) async fn next(sandbox: &mut Sandbox) -> ClientIo {
    tokio::time::timeout(PATIENCE, sandbox.next()).await.expect("the client said nothing in time").expect("the client is over")
}

/// Starts a client, lets it run to its end and gives what it said.
pub(crate) async fn run(driver: &ProcessDriver, spec: &SandboxSpec) -> Vec<String> {
    let mut sandbox = driver.start(spec).await.unwrap();
    let (said, end) = listen(&mut sandbox).await;
    assert_eq!(end, ClientIo::Exit(Exit::Code(0)), "{said:?}");
    sandbox.wait().await;
    said
}

pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) fn stand_in() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let binary = test.parent().and_then(Path::parent).unwrap().join("examples/sandbox_stand_in");
    assert!(binary.is_file(), "{} is missing: build it with `cargo build -p roboco-sandbox --examples`", binary.display());
    binary
}
