//! Isolated places for agents and gate commands, behind one [`Driver`].
//!
//! A sandbox sees what its [`SandboxSpec`] mounts and nothing else; its main process is `roboco bridge run`, which owns the client and
//! speaks the frames of [`roboco_domain::frame`]. A driver starts, lists and removes; it decides nothing and keeps no records: the
//! rows are elsewhere, and what runs is found by name and labels.
//! This crate knows no agents, no tasks, no git and no providers.

mod error;
mod handle;
mod process_driver;
mod spec;

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;

pub use error::SandboxError;
pub use handle::{ClientInput, ClientIo, Ended, Sandbox};
pub use process_driver::{MemoryScope, ProcessDriver, Settings, Unconfined, program_mounts};
pub use roboco_domain::frame::Exit;
pub use spec::{Access, Env, JobSpec, Labels, Limits, Mount, Network, SandboxSpec, Trust};

/// Something that can run sandboxes.
#[async_trait]
pub trait Driver: Send + Sync {
    /// Tries out whether sandboxes can be made here, for `doctor`. Costs one short-lived sandbox.
    async fn check(&self) -> Report;

    /// What holds clients here. Whoever writes an order needs it: some switches and paths are fit for a confined client only.
    ///
    /// That something does is found out once; that nothing does may be mended while this process runs, so it is looked at each time.
    async fn confinement(&self) -> Confinement;

    /// Starts a sandbox and returns once its bridge has answered.
    ///
    /// # Errors
    /// `Taken` when something of that name runs; `Refused` when the host cannot confine and the settings do not allow to go without; `Spec` when the order cannot be carried
    /// out as written; `Setup` when the place could not be made; the text says what to do.
    async fn start(&self, spec: &SandboxSpec) -> Result<Sandbox, SandboxError>;

    /// Runs a shell script to its end without network, door or secrets, keeping the last `output_bytes` of what it wrote.
    ///
    /// # Errors
    /// As [`Driver::start`]. A script that fails or runs out of time is no error.
    async fn run_job(&self, job: &JobSpec, deadline: Duration, output_bytes: usize) -> Result<JobResult, SandboxError>;

    /// The sandboxes of this driver's owner that run now.
    ///
    /// # Errors
    /// `Observe` when the host does not let us look.
    async fn list(&self) -> Result<Vec<Observed>, SandboxError>;

    /// Ends a sandbox with everything in it, if it is ours: its name *and* every given label must fit.
    ///
    /// # Errors
    /// `Observe` when the host does not let us look.
    async fn remove(&self, name: &str, labels: &Labels) -> Result<Removed, SandboxError>;
}

/// What holds a client in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confinement {
    /// Namespaces made by bubblewrap.
    Bubblewrap {
        /// Where the program is.
        program: PathBuf,
        /// What it says its version is.
        version: String,
    },
    /// Nothing.
    None {
        /// Why not.
        problem: String,
        /// What the operator can do about it.
        remedy: String,
    },
}

impl Confinement {
    /// Whether anything holds the client.
    pub const fn is_confined(&self) -> bool {
        match self {
            Self::Bubblewrap { .. } => true,
            Self::None { .. } => false,
        }
    }
}

/// What a driver can do on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What holds clients here.
    pub confinement: Confinement,
    /// How limits on memory and processes are enforced, as a sentence.
    pub limits: String,
    /// What of the host every sandbox can read.
    pub visible: Vec<PathBuf>,
    /// Files and directories within these that are hidden because they hold credentials.
    pub hidden: Vec<PathBuf>,
}

/// Whether something in a sandbox was killed for want of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Nothing was.
    Enough,
    /// Something was.
    Exhausted,
    /// Nobody counted: there is no limit for the sandbox as a whole.
    Unknown,
}

/// A finished job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobResult {
    /// How it ended.
    pub end: JobEnd,
    /// Whether something in it was killed for want of memory.
    pub memory: Memory,
    /// The end of its output and errors, in the order they were written.
    pub output: String,
    /// Bytes of output before that which were dropped.
    pub dropped: u64,
    /// How long it took.
    pub took: Duration,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnd {
    /// With this code; 128 plus the signal when a signal ended it.
    Code(i32),
    /// Not by itself: the deadline passed and everything in it was killed.
    TimedOut,
}

impl JobEnd {
    /// Whether the job succeeded.
    pub const fn is_success(self) -> bool {
        matches!(self, Self::Code(0))
    }
}

/// A sandbox that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
    /// Its outermost process on this host.
    pub pid: u32,
}

/// What became of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// Nothing of that name runs any more, or ever did.
    Gone,
    /// Something else has that name; it was not touched.
    NotOurs,
    /// It was killed but is still there; worth an alarm.
    StillAlive,
}
