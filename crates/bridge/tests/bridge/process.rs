//! The stand-in binary as a child, spoken to line by line.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// Longest wait for anything in these tests; reached only by a failure.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Bridge {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Bridge {
    /// `args` follow the word `bridge`.
    #[expect(clippy::disallowed_methods, reason = "the test is the parent that the bridge expects")]
    pub(crate) fn start(args: &[&str], env: &[(&str, &str)], cwd: &Path) -> Self {
        let mut child = Command::new(stand_in())
            .arg("bridge")
            .args(args)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .envs(env.iter().copied())
            .current_dir(cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, stdin, lines }
    }

    /// The next line of output, which must be JSON; `None` at its end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("no output in time").unwrap()?;
        Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")))
    }

    /// Sends a line. A bridge that has ended already is found out by what the test looks at next.
    pub(crate) async fn send(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        match stdin.write_all(format!("{line}\n").as_bytes()).await {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            result => result.unwrap(),
        }
    }

    /// What the bridge sees when its parent dies.
    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub(crate) async fn wait(&mut self) -> ExitStatus {
        timeout(PATIENCE, self.child.wait()).await.expect("the bridge did not end in time").unwrap()
    }
}

pub(crate) fn stand_in() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let binary = test.parent().unwrap().parent().unwrap().join("examples/bridge_stand_in");
    assert!(binary.is_file(), "{} is missing: build it with `cargo build -p roboco-bridge --examples`", binary.display());
    binary
}

/// Waits until `condition` holds.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Whether a process runs (a zombie does not).
pub(crate) fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
}
