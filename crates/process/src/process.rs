//! Describing a child process and running it to its end.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, Command};
use tokio::time::{Instant, timeout, timeout_at};

use crate::capture::{Captured, OutputCap, drain};
use crate::child::Child;
use crate::error::ProcessError;
use crate::group::Group;

/// How long the pipes of a dead child are still read. Only a process that left the group can hold them open this long.
const AFTER_DEATH: Duration = Duration::from_secs(5);

/// Until when a child may live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// At most this long; then its group is killed.
    Deadline(Duration),
    /// As long as the value that owns it.
    Owner,
}

impl From<Duration> for Lifetime {
    fn from(deadline: Duration) -> Self {
        Self::Deadline(deadline)
    }
}

/// What a child reads on standard input.
#[derive(Clone, Default)]
pub enum Input {
    /// Nothing: end of file at once.
    #[default]
    Null,
    /// These bytes, then end of file. A child that does not read them all is no error.
    Bytes(Vec<u8>),
    /// A pipe that the owner of the [`Child`] writes to. [`Process::output`] closes it at once.
    Piped,
}

/// A finished child.
#[derive(Debug)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to standard output, within the cap.
    pub stdout: Captured,
    /// What it wrote to standard error, within the cap.
    pub stderr: Captured,
}

/// A child process that has not been started yet.
#[derive(Clone)]
pub struct Process {
    program: OsString,
    args: Vec<OsString>,
    cwd: PathBuf,
    env: BTreeMap<OsString, OsString>,
    input: Input,
    lifetime: Lifetime,
}

impl Process {
    /// A process that runs `program` in `cwd` for at most `lifetime`, with no arguments, an empty environment and no input.
    ///
    /// A program without a slash is looked up in the `PATH` given by [`Process::env`], or in the system's default directories;
    /// [`find_program`] makes that choice explicit.
    pub fn new(program: impl Into<OsString>, cwd: impl Into<PathBuf>, lifetime: impl Into<Lifetime>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            cwd: cwd.into(),
            env: BTreeMap::new(),
            input: Input::Null,
            lifetime: lifetime.into(),
        }
    }

    /// Adds one argument. Arguments are visible to every user of the machine: secrets belong into the environment or the input.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets one environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets environment variables.
    #[must_use]
    pub fn envs<N: Into<OsString>, V: Into<OsString>>(mut self, pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        self.env.extend(pairs.into_iter().map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// Sets what the child reads on standard input.
    #[must_use]
    pub fn input(mut self, input: Input) -> Self {
        self.input = input;
        self
    }

    /// Runs the process to its end and keeps its output within `cap` per stream.
    ///
    /// When the leader ends, whatever it left running in its group is killed. An exit status that is not zero is no error here.
    ///
    /// # Errors
    /// `NotFound` and `NoDirectory` when it could not be started, `TimedOut` when the deadline passed, `Io` otherwise.
    pub async fn output(mut self, cap: OutputCap) -> Result<Output, ProcessError> {
        let input = std::mem::take(&mut self.input);
        let (mut child, group) = self.start(match input {
            Input::Null => Stdio::null(),
            Input::Bytes(_) | Input::Piped => Stdio::piped(),
        })?;
        let stdin = child.stdin.take();
        let (out_pipe, err_pipe) = (child.stdout.take(), child.stderr.take());
        let (mut stdout, mut stderr) = (Captured::default(), Captured::default());
        let ended = {
            let streams = async {
                let bytes = if let Input::Bytes(bytes) = input { bytes } else { Vec::new() };
                let (_, out, err) = tokio::join!(
                    feed(stdin, bytes),
                    async { if let Some(pipe) = out_pipe { drain(pipe, cap, &mut stdout).await } else { Ok(()) } },
                    async { if let Some(pipe) = err_pipe { drain(pipe, cap, &mut stderr).await } else { Ok(()) } },
                );
                out.and(err)
            };
            tokio::pin!(streams);
            let run = async {
                let mut drained = None;
                let status = loop {
                    tokio::select! {
                        result = &mut streams, if drained.is_none() => drained = Some(result),
                        status = child.wait() => break status,
                    }
                };
                group.end();
                if drained.is_none() {
                    drained = timeout(AFTER_DEATH, &mut streams).await.ok();
                }
                status.and_then(|status| drained.unwrap_or(Ok(())).map(|()| status))
            };
            match self.lifetime {
                Lifetime::Owner => Ok(run.await),
                Lifetime::Deadline(deadline) => timeout_at(Instant::now() + deadline, run).await.map_err(|_| deadline),
            }
        };
        match ended {
            Ok(Ok(status)) => Ok(Output { status, stdout, stderr }),
            Ok(Err(source)) => Err(ProcessError::Io { program: self.name(), doing: "wait for", source }),
            Err(after) => {
                group.end();
                // The leader cannot survive this, so the wait is short; it leaves no zombie behind.
                if timeout(AFTER_DEATH, child.wait()).await.is_err() {
                    tracing::warn!(program = %self.name(), "a killed process did not end");
                }
                Err(ProcessError::TimedOut { program: self.name(), after, stdout: Box::new(stdout), stderr: Box::new(stderr) })
            }
        }
    }

    /// Starts the process and hands over its pipes. Needs a running tokio runtime.
    ///
    /// # Errors
    /// `NotFound`, `NoDirectory` or `Io` when it could not be started.
    pub fn spawn(mut self) -> Result<Child, ProcessError> {
        let input = std::mem::take(&mut self.input);
        let (mut child, group) = self.start(match input {
            Input::Null => Stdio::null(),
            Input::Bytes(_) | Input::Piped => Stdio::piped(),
        })?;
        if let Input::Bytes(bytes) = input {
            // The task ends with the child: a dead reader breaks the pipe.
            tokio::spawn(feed(child.stdin.take(), bytes));
        }
        Ok(Child::new(self.name(), child, group, self.lifetime))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one constructor the rule points to")]
    fn start(&self, stdin: Stdio) -> Result<(tokio::process::Child, Group), ProcessError> {
        let child = Command::new(&self.program)
            .args(&self.args)
            .current_dir(&self.cwd)
            .env_clear()
            .envs(&self.env)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| self.explain(source))?;
        let group = Group::led_by(child.id());
        Ok((child, group))
    }

    fn explain(&self, source: std::io::Error) -> ProcessError {
        let program = self.name();
        if !self.cwd.is_dir() {
            return ProcessError::NoDirectory { program, cwd: self.cwd.clone() };
        }
        match source.kind() {
            ErrorKind::NotFound => ProcessError::NotFound { program },
            _ => ProcessError::Io { program, doing: "start", source },
        }
    }

    fn name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, args, cwd, env, input, lifetime } = self;
        let input = match input {
            Input::Null => "null".to_owned(),
            Input::Bytes(bytes) => format!("{} bytes", bytes.len()),
            Input::Piped => "piped".to_owned(),
        };
        f.debug_struct("Process")
            .field("program", program)
            .field("args", args)
            .field("cwd", cwd)
            .field("env", &env.keys().collect::<Vec<_>>())
            .field("input", &input)
            .field("lifetime", lifetime)
            .finish()
    }
}

/// Writes everything and closes the pipe. A child that stopped reading has decided it needs no more.
async fn feed(stdin: Option<ChildStdin>, bytes: Vec<u8>) {
    if let Some(mut stdin) = stdin
        && let Err(error) = async {
            stdin.write_all(&bytes).await?;
            stdin.shutdown().await
        }
        .await
    {
        tracing::trace!(%error, "a child stopped reading its input");
    }
}

/// Finds an executable file called `name` in the directories of `path` (the value of a `PATH` variable). A name with a slash is
/// taken as it is. `None` means there is no such program.
pub fn find_program(name: &OsStr, path: &OsStr) -> Option<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        let program = PathBuf::from(name);
        return is_executable(&program).then_some(program);
    }
    std::env::split_paths(path).filter(|dir| dir.is_absolute()).map(|dir| dir.join(name)).find(|program| is_executable(program))
}

fn is_executable(program: &Path) -> bool {
    program.is_file() && rustix::fs::access(program, rustix::fs::Access::EXEC_OK).is_ok()
}
