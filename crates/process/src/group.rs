//! One process group and the promise that it dies.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, kill_process_group};

/// A signal for a whole process group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: stop what you are doing.
    Interrupt,
    /// SIGTERM: end yourself.
    Terminate,
    /// SIGKILL: cannot be ignored.
    Kill,
}

impl Signal {
    fn raw(self) -> rustix::process::Signal {
        match self {
            Self::Interrupt => rustix::process::Signal::INT,
            Self::Terminate => rustix::process::Signal::TERM,
            Self::Kill => rustix::process::Signal::KILL,
        }
    }
}

/// The group led by one child of ours. Signals stop once it is over, so a recycled number is never hit.
#[derive(Debug)]
pub(crate) struct Group {
    leader: Option<Pid>,
    over: AtomicBool,
}

impl Group {
    pub(crate) fn led_by(pid: Option<u32>) -> Self {
        let leader = pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        Self { leader, over: AtomicBool::new(false) }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if self.over.load(Ordering::Acquire) {
            return;
        }
        // An error means the group is already gone, which is what was wanted.
        if let Some(leader) = self.leader
            && let Err(error) = kill_process_group(leader, signal.raw())
        {
            tracing::trace!(%error, "process group {leader:?} was already gone");
        }
    }

    /// Kills what is left and remembers that nobody of this group is ours any more.
    pub(crate) fn end(&self) {
        self.signal(Signal::Kill);
        self.over.store(true, Ordering::Release);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}
