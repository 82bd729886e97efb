//! Drives the built product from outside, as a person would: its command line, its HTTP API, its files, and git.
//!
//! `ROBOCO_BIN` names the binary under test; without it the one in the target directory is taken. Nothing of the machine's own settings
//! reaches it: every place has a home and an environment of its own.
#![expect(clippy::unwrap_used, reason = "only tests use this, and whatever goes wrong here fails the test")]

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longest wait for anything that a healthy product does within seconds.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// A machine of its own: a home, a data directory, an environment.
pub struct Place {
    folder: tempfile::TempDir,
    /// Environment variables beside the few every program needs.
    pub variables: Vec<(String, String)>,
}

/// A command that ended.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; 128 plus the signal when one ended it.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// A command that runs. Dropped, it is killed.
pub struct Running {
    process: Child,
    out: PathBuf,
    err: PathBuf,
}

/// The binary under test.
pub fn binary() -> PathBuf {
    #[expect(clippy::disallowed_methods, reason = "a test has no settings file; whoever runs it may name the binary")]
    if let Ok(path) = std::env::var("ROBOCO_BIN") {
        return PathBuf::from(path);
    }
    // Tests lie in target/<profile>/deps, the product one folder above.
    let own = std::env::current_exe().unwrap();
    let path = own.ancestors().nth(2).unwrap().join("roboco");
    assert!(path.is_file(), "{} is missing: build it with `cargo build -p roboco`, or set ROBOCO_BIN", path.display());
    path
}

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

impl Place {
    /// An empty one.
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("e2e").tempdir().unwrap();
        for name in ["home", "run", "tmp"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        // The product puts its sockets there, and refuses a folder that others can enter.
        std::fs::set_permissions(folder.path().join("run"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        Self { folder, variables: Vec::new() }
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        #[expect(
            clippy::disallowed_methods,
            reason = "the harness is its own supervisor: it waits with a deadline and kills what it started"
        )]
        let mut command = Command::new(program);
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.env_clear().env("PATH", path).env("HOME", self.path("home"));
        command.env("XDG_RUNTIME_DIR", self.path("run")).env("TMPDIR", self.path("tmp"));
        command.envs(self.variables.iter().map(|(name, value)| (name, value))).current_dir(self.folder.path());
        command
    }

    /// Starts the product with the data directory of this place.
    pub fn start(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(binary());
        command.arg("--data-dir").arg(self.data()).args(arguments);
        Running::start(command, self.folder.path())
    }

    /// Runs the product with the data directory of this place, to its end.
    pub fn roboco(&self, arguments: &[&str]) -> Ran {
        self.start(arguments).wait()
    }

    /// Runs the product without naming a data directory.
    pub fn roboco_plain(&self, arguments: &[&str]) -> Ran {
        let mut command = self.command(binary());
        command.args(arguments);
        Running::start(command, self.folder.path()).wait()
    }

    /// Runs the product and reads what it prints as JSON; it must succeed.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.roboco(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
        serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", ran.out))
    }

    /// Starts the server on a free port and waits until it answers.
    pub fn up(&mut self) -> Running {
        if !self.variables.iter().any(|(name, _)| name == "ROBOCO_PORT") {
            self.variables.push(("ROBOCO_PORT".into(), "0".into()));
        }
        let mut server = self.start(&["up"]);
        until(PATIENCE, "the server answers", || {
            assert!(server.ended().is_none(), "the server ended: {}", server.err());
            self.roboco(&["agents", "--json"]).code == 0
        });
        server
    }

    /// Where the running server listens.
    pub fn address(&self) -> String {
        let text = std::fs::read_to_string(self.data().join("server.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["address"].as_str().unwrap().to_owned()
    }

    /// The CEO's token.
    pub fn token(&self) -> String {
        std::fs::read_to_string(self.data().join("ceo.token")).unwrap().trim().to_owned()
    }

    /// Sends a request to the running server. The body of the answer is null when it is no JSON.
    pub fn http(&self, method: &str, path: &str, token: Option<&str>, body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let authorization = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n{authorization}content-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        // A server may answer and hang up before it has read a body that is too large.
        let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        assert!(!answer.is_empty(), "no answer: sent {sent:?}, read {read:?}");
        let answer = String::from_utf8_lossy(&answer);
        let status = answer.split_whitespace().nth(1).unwrap().parse().unwrap();
        let text = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let json = text.find('{').zip(text.rfind('}')).and_then(|(start, end)| serde_json::from_str(&text[start..=end]).ok());
        (status, json.unwrap_or_default())
    }

    /// Runs git in a folder; it must succeed.
    pub fn git(&self, folder: &Path, arguments: &[&str]) -> String {
        let mut command = self.command("git");
        command.current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").args(arguments);
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "Ada").env(format!("GIT_{role}_EMAIL"), "ada@example.org");
        }
        let ran = Running::start(command, self.folder.path()).wait();
        assert_eq!(ran.code, 0, "git {arguments:?} in {}: {ran:?}", folder.display());
        ran.out.trim_end().to_owned()
    }

    /// A repository with one commit of these files.
    pub fn repository(&self, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let folder = self.path(name);
        std::fs::create_dir_all(&folder).unwrap();
        self.git(&folder, &["init", "--quiet", "--initial-branch=main"]);
        for (name, text) in files {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        if !files.is_empty() {
            self.git(&folder, &["add", "--all"]);
            self.git(&folder, &["commit", "--quiet", "--message=First"]);
        }
        folder
    }

    /// Every event of a task, as `task watch` prints them for programs.
    pub fn events(&self, task: &str) -> Vec<Value> {
        let ran = self.roboco(&["task", "watch", task, "--json"]);
        assert!(matches!(ran.code, 0 | 3), "{ran:?}");
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Running {
    fn start(mut command: Command, folder: &Path) -> Self {
        let logs = tempfile::Builder::new().prefix("out").tempdir_in(folder).unwrap().keep();
        let (out, err) = (logs.join("out"), logs.join("err"));
        command.stdin(Stdio::null()).stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
        let process = command.spawn().unwrap_or_else(|error| panic!("{:?}: {error}", command.get_program()));
        Self { process, out, err }
    }

    /// What it has printed so far.
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.out).unwrap()).into_owned()
    }

    /// What it has said on standard error so far.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.err).unwrap()).into_owned()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().unwrap()
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Ran {
        let give_up = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.ended() {
                let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
                return Ran { code, out: self.out(), err: self.err() };
            }
            assert!(Instant::now() < give_up, "still running: {}\n{}", self.out(), self.err());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until it has printed something.
    pub fn says(&mut self, part: &str) {
        until(PATIENCE, part, || {
            let said = self.out();
            assert!(said.contains(part) || self.ended().is_none(), "it ended without {part:?}:\n{said}\n{}", self.err());
            said.contains(part)
        });
    }

    /// Asks it to stop, as a supervisor does.
    pub fn terminate(self) -> Ran {
        #[expect(clippy::disallowed_methods, reason = "sends one signal and ends")]
        let sent = Command::new("kill").arg(self.pid().to_string()).status().unwrap();
        assert!(sent.success());
        self.wait()
    }

    /// Kills it without warning.
    pub fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            self.process.kill().unwrap();
            self.process.wait().unwrap();
        }
    }
}

/// Polls until something is so.
pub fn until(patience: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + patience;
    while !is_so() {
        assert!(Instant::now() < give_up, "not within {} s: {what}", patience.as_secs());
        std::thread::sleep(Duration::from_millis(50));
    }
}
