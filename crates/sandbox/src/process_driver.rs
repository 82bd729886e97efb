//! Sandboxes as process trees of this host, confined by bubblewrap.
//!
//! Every sandbox dies with this process: bubblewrap asks the kernel for that, and without confinement the bridge sees its input end.
//! What runs is found by two marker variables in the environment of the outermost processes. All that is remembered is how to see that
//! the last sandbox of a name has ended, which saves a look at every process of the host.

mod bubblewrap;
mod control_group;
mod mounts;
mod observe;
mod spawner;

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use roboco_domain::frame::Exit;
use roboco_process::{Child, Input, Lifetime, OutputCap, Process, ProcessError, find_program};
use tokio::sync::OnceCell;

use crate::handle::{MainProcess, Parts};
use crate::{
    Confinement, Driver, Ended, Env, JobEnd, JobResult, JobSpec, Labels, Limits, Network, Observed, Removed, Report, Sandbox, SandboxError,
    SandboxSpec, Trust,
};
use bubblewrap::Place;
use control_group::ControlGroups;
pub use control_group::MemoryScope;
pub use mounts::program_mounts;

/// Name of the marker that holds a sandbox's name.
const MARK_NAME: &str = "ROBOCO_SANDBOX";
/// Name of the marker that holds its labels as JSON.
const MARK_LABELS: &str = "ROBOCO_SANDBOX_LABELS";
/// Where the door is inside.
const DOOR: &str = "/run/roboco/door.sock";
/// Where the private home is inside.
const HOME: &str = "/home/agent";
/// Where programs are looked up when the order does not say.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Longest wait for a trial sandbox.
const TRIAL: Duration = Duration::from_secs(20);

/// What the driver needs to know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The `roboco` binary: it is the main process of every sandbox, and is seen inside at this same path.
    pub roboco: PathBuf,
    /// Directories of the host with tools, read-only inside; known credential files in them are hidden. Their `bin` goes on the `PATH`.
    pub tool_dirs: Vec<PathBuf>,
    /// What to do where nothing can confine.
    pub unconfined: Unconfined,
    /// Labels that every sandbox of this driver gets and by which it knows its own, such as the company. They must tell apart two
    /// servers on one host.
    pub own: Labels,
    /// The bubblewrap program; `None` looks for `bwrap` in the system's directories.
    pub bubblewrap: Option<PathBuf>,
}

/// What to do where nothing can confine. Our own code may run there in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unconfined {
    /// Run everything with the rights of this process.
    Allow,
    /// Refuse, saying how to get confinement.
    Refuse,
}

/// The driver.
#[derive(Debug)]
pub struct ProcessDriver {
    settings: Settings,
    confinement: OnceCell<Confinement>,
    warned: std::sync::Once,
    /// The outermost process of the last confined sandbox of each name. A name stands for a seat, so they are few.
    last: Mutex<HashMap<String, OwnedFd>>,
}

impl ProcessDriver {
    /// A driver; nothing is tried or started yet.
    pub fn new(settings: Settings) -> Self {
        control_group::sweep();
        Self { settings, confinement: OnceCell::new(), warned: std::sync::Once::new(), last: Mutex::default() }
    }

    /// For what a limit on memory holds on this host.
    pub fn memory_scope(&self) -> MemoryScope {
        control_group::memory_scope()
    }

    /// The confinement for a piece of work, or why it may not run with it.
    fn permitted(&self, what: &str, trust: Trust, confinement: Confinement) -> Result<Confinement, SandboxError> {
        if let Confinement::None { problem, remedy } = &confinement {
            match (trust, self.settings.unconfined) {
                (Trust::Own, _) | (Trust::Foreign, Unconfined::Allow) => self.warned.call_once(|| {
                    tracing::warn!(
                        problem,
                        "sandboxes are not confined here, processes run with the rights of this server: {problem}. {remedy}"
                    );
                }),
                (Trust::Foreign, Unconfined::Refuse) => {
                    let (problem, remedy) = (problem.clone(), remedy.clone());
                    return Err(SandboxError::Refused { what: what.to_owned(), problem, remedy });
                }
            }
        }
        Ok(confinement)
    }

    fn labels(&self, labels: &Labels) -> Labels {
        let mut all = labels.clone();
        all.extend(self.settings.own.clone());
        all
    }

    /// The whole environment of the outermost process, and so of everything inside.
    fn environment(&self, env: &Env, home: &Path, name: &str, labels: &Labels) -> Result<Vec<(OsString, OsString)>, SandboxError> {
        let spec = |detail: String| SandboxError::Spec { name: name.to_owned(), detail };
        if let Some(reserved) = [MARK_NAME, MARK_LABELS, "HOME", "PWD"].iter().find(|variable| env.contains(variable)) {
            return Err(spec(format!("the variable {reserved} is set by the driver")));
        }
        let labels = serde_json::to_string(labels).map_err(|error| spec(error.to_string()))?;
        let mut all: Vec<(OsString, OsString)> = env.iter().map(|(name, value)| (name.into(), value.into())).collect();
        if !env.contains("PATH") {
            all.push(("PATH".into(), mounts::search_path(&self.settings.tool_dirs, PATH)));
        }
        all.extend([("HOME".into(), home.into()), (MARK_NAME.into(), name.into()), (MARK_LABELS.into(), labels.into())]);
        Ok(all)
    }

    /// Waits a moment for a name to be free.
    ///
    /// What this driver started last under the name and saw end frees it at once: nobody else uses names of its owner while it lives.
    async fn free(&self, name: &str) -> Result<(), SandboxError> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        match last {
            Some(process) if observe::has_ended(&process) => Ok(()),
            Some(_) | None => observe::free(name).await,
        }
    }

    /// Remembers the outermost process of a sandbox that dies with it. Called while its owner cannot have waited for it yet.
    fn remember(&self, name: &str, child: &Child) {
        if let Some(process) = child.pid().and_then(observe::handle) {
            self.last.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), process);
        }
    }

    /// The start of a command line of the bridge.
    fn bridge(&self, word: &str) -> Vec<OsString> {
        vec![self.settings.roboco.clone().into(), "bridge".into(), word.into()]
    }

    /// The command line that runs `inner` in a place made by bubblewrap.
    fn confined(
        &self,
        program: &Path,
        place: &Place<'_>,
        inner: Vec<OsString>,
        groups: &ControlGroups,
    ) -> Result<Vec<OsString>, SandboxError> {
        let call = bubblewrap::call(place)?;
        let mut words = self.bridge("limit");
        words.extend(groups.options());
        words.extend(call.files.into_iter().flat_map(|file| ["--open".into(), file.into_os_string()]));
        words.extend(["--".into(), program.into()]);
        words.extend(call.arguments);
        words.push("--".into());
        words.extend(inner);
        Ok(words)
    }
}

/// The options that make the bridge limit itself and what it starts.
fn limit_options(limits: Limits, pids: PidLimit) -> Vec<OsString> {
    let mut words = Vec::new();
    if let Some(bytes) = limits.memory_bytes {
        words.extend(["--memory".into(), bytes.to_string().into()]);
    }
    if let (Some(count), PidLimit::Set) = (limits.pids, pids) {
        words.extend(["--pids".into(), count.to_string().into()]);
    }
    words
}

/// Whether the count of processes is limited by the kernel's per-user count.
#[derive(Clone, Copy)]
enum PidLimit {
    Set,
    /// Outside a user namespace the kernel would count all the user's processes.
    Skip,
}

#[async_trait]
impl Driver for ProcessDriver {
    async fn check(&self) -> Report {
        let visible = mounts::visible(&self.settings.tool_dirs);
        Report {
            confinement: try_out(&self.settings).await,
            limits: control_group::describe(),
            hidden: mounts::credentials(&self.settings.tool_dirs),
            visible,
        }
    }

    async fn confinement(&self) -> Confinement {
        let works = async || match try_out(&self.settings).await {
            works @ Confinement::Bubblewrap { .. } => Ok(works),
            fails @ Confinement::None { .. } => Err(fails),
        };
        match self.confinement.get_or_try_init(works).await {
            Ok(works) => works.clone(),
            Err(fails) => fails,
        }
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<Sandbox, SandboxError> {
        let SandboxSpec { name, labels, argv, env, cwd, mounts, home, door_files, network, limits, masks, trust, confinement } = spec;
        check_name(name)?;
        let labels = self.labels(labels);
        let (door, listen) = match network {
            Network::Door(door) => (Some(door.as_path()), None),
            Network::None => (None, None),
            // The port is shared with the host there, so it must be a free one.
            Network::Host { door } => (door.as_deref(), Some("127.0.0.1:0")),
        };
        let found = match confinement {
            Some(written_for) => written_for.clone(),
            None => self.confinement().await,
        };
        let confinement = &self.permitted("this client", *trust, found)?;
        self.free(name).await?;
        let groups = ControlGroups::create(name, *limits);
        let run = |held: Vec<OsString>, door: Option<&Path>, listen: Option<&str>, home: &Path| {
            let mut words = self.bridge("run");
            words.extend(held);
            words.extend(door.iter().flat_map(|door| [OsString::from("--door"), door.as_os_str().to_owned()]));
            words.extend(listen.iter().flat_map(|address| [OsString::from("--listen"), OsString::from(address)]));
            words.extend(door_files.iter().flat_map(|file| [OsString::from("--fill"), home.join(file).into()]));
            words.push("--".into());
            words.extend(argv.iter().map(OsString::from));
            words
        };
        let (words, directory, home_inside) = match confinement {
            Confinement::Bubblewrap { program, version } => {
                let mut mounts = mounts.clone();
                if let Some(client) = argv.first().map(Path::new).filter(|client| client.is_absolute() && !mounts::covers(&mounts, client))
                {
                    mounts.extend(program_mounts(client));
                }
                let place = Place {
                    name,
                    roboco: &self.settings.roboco,
                    tool_dirs: &self.settings.tool_dirs,
                    mounts: &mounts,
                    masks,
                    home: Some(home),
                    door,
                    network,
                    cwd,
                    tmp_size: bubblewrap::tmp_size(version),
                };
                let inner = run(limit_options(*limits, PidLimit::Set), door.map(|_| Path::new(DOOR)), listen, Path::new(HOME));
                (self.confined(program, &place, inner, &groups)?, Path::new("/"), Path::new(HOME))
            }
            Confinement::None { .. } => {
                check_unconfined(name, mounts, masks)?;
                let held = groups.options().chain(limit_options(*limits, PidLimit::Skip)).collect();
                (run(held, door, Some("127.0.0.1:0"), home), cwd.as_path(), home.as_path())
            }
        };
        let environment = self.environment(env, home_inside, name, &labels)?;
        let process = process(words, directory, Lifetime::Owner).envs(environment).input(Input::Piped);
        let mut child = spawner::spawn(process).await?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take()) else {
            return Err(SandboxError::Setup { name: name.clone(), detail: "its pipes are missing".into() });
        };
        let tree = if confinement.is_confined() {
            self.remember(name, &child);
            Tree::Confined
        } else {
            Tree::Open(name.clone(), labels)
        };
        Sandbox::attach(Parts {
            name: name.clone(),
            pid: child.pid(),
            stdin: Box::new(stdin),
            stdout: Box::new(stdout),
            stderr: Box::new(stderr),
            main: Box::new(Main { child, groups, tree }),
        })
        .await
    }

    async fn run_job(&self, job: &JobSpec, deadline: Duration, output_bytes: usize) -> Result<JobResult, SandboxError> {
        let JobSpec { name, labels, script, env, cwd, mounts, masks, limits } = job;
        check_name(name)?;
        let labels = self.labels(labels);
        let confinement = &self.permitted("this command", Trust::Foreign, self.confinement().await)?;
        self.free(name).await?;
        let groups = ControlGroups::create(name, *limits);
        // One stream keeps the order of output and errors, and leaves the other one to bubblewrap.
        let script = format!("exec 2>&1\n{script}");
        let shell = ["/bin/sh", "-euc", &script].map(OsString::from);
        let (words, directory, home) = match confinement {
            Confinement::Bubblewrap { program, version } => {
                let place = Place {
                    name,
                    roboco: &self.settings.roboco,
                    tool_dirs: &self.settings.tool_dirs,
                    mounts,
                    masks,
                    home: None,
                    door: None,
                    network: &Network::None,
                    cwd,
                    tmp_size: bubblewrap::tmp_size(version),
                };
                let mut inner = self.bridge("limit");
                inner.extend(limit_options(*limits, PidLimit::Set));
                inner.push("--".into());
                inner.extend(shell);
                (self.confined(program, &place, inner, &groups)?, Path::new("/"), Path::new(HOME))
            }
            Confinement::None { .. } => {
                check_unconfined(name, mounts, masks)?;
                let mut words = self.bridge("limit");
                words.extend(groups.options());
                words.extend(limit_options(*limits, PidLimit::Skip));
                words.push("--".into());
                words.extend(shell);
                // There is no private home here; the scratch copy is the only place a job may count on.
                (words, cwd.as_path(), cwd.as_path())
            }
        };
        let process = process(words, directory, Lifetime::Deadline(deadline)).envs(self.environment(env, home, name, &labels)?);
        let started = Instant::now();
        let result = spawner::output(process, OutputCap::tail(output_bytes)).await;
        let took = started.elapsed();
        let memory = groups.memory();
        let (end, stdout, stderr) = match result {
            Ok(output) => (JobEnd::Code(exit_of(output.status).shell_code()), output.stdout, output.stderr),
            Err(ProcessError::TimedOut { stdout, stderr, .. }) => (JobEnd::TimedOut, *stdout, *stderr),
            Err(error) => return Err(error.into()),
        };
        let complaint = stderr.text();
        if !complaint.trim().is_empty() && end != JobEnd::TimedOut {
            return Err(SandboxError::Setup { name: name.clone(), detail: complaint.trim().to_owned() });
        }
        let dropped = stdout.dropped();
        let output = String::from_utf8_lossy(&stdout.into_bytes()).into_owned();
        Ok(JobResult { end, memory, output, dropped, took })
    }

    async fn list(&self) -> Result<Vec<Observed>, SandboxError> {
        observe::list(&self.settings.own).await.map_err(SandboxError::Observe)
    }

    async fn remove(&self, name: &str, labels: &Labels) -> Result<Removed, SandboxError> {
        observe::remove(name, &self.labels(labels)).await.map_err(SandboxError::Observe)
    }
}

/// The outermost process of a sandbox and what is cleaned up after it.
struct Main {
    // The process comes first: its groups can be removed only when it is gone.
    child: Child,
    groups: ControlGroups,
    tree: Tree,
}

/// How everything inside is ended.
enum Tree {
    /// It dies with the outermost process.
    Confined,
    /// It must be found, by name and labels.
    Open(String, Labels),
}

#[async_trait]
impl MainProcess for Main {
    async fn wait(&mut self) -> Ended {
        let exit = match self.child.wait().await {
            Ok(status) => exit_of(status),
            Err(error) => {
                tracing::warn!(%error, "how a sandbox ended is not known");
                Exit::Code(-1)
            }
        };
        Ended { exit, memory: self.groups.memory() }
    }

    fn kill(&mut self) {
        if let Tree::Open(name, labels) = &self.tree {
            observe::kill_now(name, labels);
        }
        self.child.kill_group();
    }
}

impl Drop for Main {
    fn drop(&mut self) {
        if self.child.try_wait().ok().flatten().is_none() {
            self.kill();
        }
    }
}

fn exit_of(status: std::process::ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Code(-1),
    }
}

fn process(words: Vec<OsString>, cwd: &Path, lifetime: Lifetime) -> Process {
    let mut words = words.into_iter();
    Process::new(words.next().unwrap_or_default(), cwd, lifetime).args(words)
}

fn check_name(name: &str) -> Result<(), SandboxError> {
    let fits = (1..=128).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if fits {
        return Ok(());
    }
    let detail = "a name has 1 to 128 letters, digits, `-`, `_` or `.`".into();
    Err(SandboxError::Spec { name: name.to_owned(), detail })
}

/// Without confinement a path means the same to everybody, and nothing can be hidden.
fn check_unconfined(name: &str, mounts: &[crate::Mount], masks: &[PathBuf]) -> Result<(), SandboxError> {
    let spec = |detail| Err(SandboxError::Spec { name: name.to_owned(), detail });
    if let Some(mount) = mounts.iter().find(|mount| mount.host != mount.inside) {
        return spec(format!("{} cannot appear as {} without confinement", mount.host.display(), mount.inside.display()));
    }
    match masks.first() {
        Some(mask) => spec(format!("{} cannot be hidden without confinement", mask.display())),
        None => Ok(()),
    }
}

/// Makes a small sandbox to see whether that works.
async fn try_out(settings: &Settings) -> Confinement {
    let remedy = "Install it with `apt install bubblewrap` (or `dnf`, `pacman -S`, `apk add`)";
    let Some(program) = settings.bubblewrap.clone().or_else(|| find_program("bwrap".as_ref(), PATH.as_ref())) else {
        return Confinement::None { problem: "bubblewrap is not installed".into(), remedy: remedy.into() };
    };
    let run = async |args: Vec<OsString>| {
        let output = Process::new(&program, "/", TRIAL).args(args).output(OutputCap::tail(4096)).await;
        match output {
            Ok(output) if output.status.success() => Ok(output.stdout.text().trim().to_owned()),
            Ok(output) => Err(output.stderr.text().trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    };
    let version = match run(vec!["--version".into()]).await {
        Ok(version) => version,
        Err(problem) => {
            return Confinement::None { problem: format!("{} does not run: {problem}", program.display()), remedy: remedy.into() };
        }
    };
    match run(bubblewrap::trial()).await {
        Ok(_) => Confinement::Bubblewrap { program, version },
        Err(problem) => Confinement::None {
            problem: format!("bubblewrap cannot make a sandbox here ({problem})"),
            remedy: "Allow user namespaces to this user (sysctl kernel.unprivileged_userns_clone=1, on Ubuntu also \
                     kernel.apparmor_restrict_unprivileged_userns=0, in a container --security-opt seccomp=unconfined)"
                .into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Mount};

    #[test]
    fn names_are_safe_words() {
        for name in ["roboco-acme-be-dev-1", "a", "a.b_c"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "a b", "a/b", "../a", "a\n", &"x".repeat(129)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn what_only_confinement_can_do_is_refused_without_it() {
        let same = Mount::same("/tree", Access::ReadWrite);
        let moved = Mount { host: "/a".into(), inside: "/b".into(), access: Access::ReadOnly };
        assert!(check_unconfined("x", std::slice::from_ref(&same), &[]).is_ok());
        assert!(check_unconfined("x", &[same.clone(), moved], &[]).unwrap_err().to_string().contains("/a cannot appear as /b"));
        assert!(check_unconfined("x", &[same], &["/tree/.npmrc".into()]).unwrap_err().to_string().contains("cannot be hidden"));
    }
}
