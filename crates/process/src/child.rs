//! A running child that its owner talks to.

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::error::ProcessError;
use crate::group::{Group, Signal};
use crate::process::Lifetime;

/// A running process group. Dropping it kills the group.
///
/// Both output pipes must be read (or dropped) by the owner: a child that fills an unread pipe stops.
#[derive(Debug)]
pub struct Child {
    /// The child's standard input; `None` unless the process was given [`crate::Input::Piped`].
    pub stdin: Option<ChildStdin>,
    /// The child's standard output, to be taken by its reader.
    pub stdout: Option<ChildStdout>,
    /// The child's standard error, to be taken by its reader.
    pub stderr: Option<ChildStderr>,
    program: String,
    pid: Option<u32>,
    // The group comes first: its members must be killed while the leader's number is still reserved.
    group: Arc<Group>,
    inner: tokio::process::Child,
    timer: Option<AbortHandle>,
}

impl Child {
    pub(crate) fn new(program: String, mut inner: tokio::process::Child, group: Group, lifetime: Lifetime) -> Self {
        let group = Arc::new(group);
        let timer = match lifetime {
            Lifetime::Owner => None,
            Lifetime::Deadline(deadline) => {
                let group = Arc::clone(&group);
                let timer = tokio::spawn(async move {
                    tokio::time::sleep(deadline).await;
                    group.signal(Signal::Kill);
                });
                Some(timer.abort_handle())
            }
        };
        Self {
            stdin: inner.stdin.take(),
            stdout: inner.stdout.take(),
            stderr: inner.stderr.take(),
            program,
            pid: inner.id(),
            group,
            inner,
            timer,
        }
    }

    /// The process id of the group's leader, as it was at the start; also the id of the group.
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Sends a signal to every process of the group. Nothing happens when it is already over.
    pub fn signal_group(&self, signal: Signal) {
        self.group.signal(signal);
    }

    /// Kills every process of the group; [`Child::wait`] then returns soon.
    pub fn kill_group(&self) {
        self.group.signal(Signal::Kill);
    }

    /// Waits for the leader to end, then kills what it left running. May be cancelled and called again.
    ///
    /// # Errors
    /// `Io` when the operating system lost track of the child.
    pub async fn wait(&mut self) -> Result<ExitStatus, ProcessError> {
        let status = self.inner.wait().await;
        self.over();
        status.map_err(|source| self.lost(source))
    }

    /// How the leader ended, or `None` while it runs.
    ///
    /// # Errors
    /// `Io` when the operating system lost track of the child.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>, ProcessError> {
        let status = self.inner.try_wait().map_err(|source| self.lost(source))?;
        if status.is_some() {
            self.over();
        }
        Ok(status)
    }

    /// Asks the group to end, kills it after `grace`, and waits.
    ///
    /// # Errors
    /// `Io` when the operating system lost track of the child.
    pub async fn stop(&mut self, grace: Duration) -> Result<ExitStatus, ProcessError> {
        self.group.signal(Signal::Terminate);
        if let Ok(ended) = timeout(grace, self.wait()).await {
            return ended;
        }
        self.kill_group();
        self.wait().await
    }

    fn over(&self) {
        self.group.end();
        if let Some(timer) = &self.timer {
            timer.abort();
        }
    }

    fn lost(&self, source: std::io::Error) -> ProcessError {
        ProcessError::Io { program: self.program.clone(), doing: "wait for", source }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.over();
    }
}
