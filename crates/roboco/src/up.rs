//! `up`: the company runs until it is told to stop.

use tokio::signal::unix::{SignalKind, signal};

use crate::command::Here;
use crate::failure::{Exit, Failure};
use crate::serve::Running;

/// Runs the company until SIGINT or SIGTERM. A second signal ends it at once; what was under way is then picked up by the next start.
///
/// # Errors
/// It cannot start, or a part of it fails.
pub(crate) async fn up(here: &Here) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let mut running = Running::start(here).await?;
    here.screen.line(&format!("RoboCo runs at http://{}, data in {}", running.address, here.data.root().display()))?;
    here.screen.line(&format!("stop it with Ctrl-C; look at it with `{} task list`", here.roboco()))?;
    let broken = tokio::select! {
        name = signals.next() => {
            tracing::info!(signal = name, "stopping: agents get time to end; once more ends at once");
            None
        }
        what = running.broken() => Some(what),
    };
    tokio::select! {
        () = running.stop(here) => {}
        _ = signals.next() => return Err(Failure::new(Exit::Interrupted, "ended at once; the next start picks up what was under way")),
    }
    broken.map_or(Ok(()), |what| Err(Failure::broken(format!("stopped because {what}"))))
}

/// The two signals that mean stop.
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Starts to listen; from now on neither signal ends the process by itself.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn listen() -> Result<Self, Failure> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for one; its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
