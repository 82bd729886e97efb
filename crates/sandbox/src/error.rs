//! Why a sandbox is not there, or not any more.

use roboco_process::ProcessError;

/// A sandbox could not be made, reached or looked at. Texts never hold values of the environment.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// This host cannot confine, and the settings do not allow to run without.
    #[error(
        "{what} needs a sandbox, and there is none here: {problem}. {remedy}, or set sandbox.unconfined = \"allow\" to run it with your own rights"
    )]
    Refused {
        /// What was to be run.
        what: String,
        /// What is missing.
        problem: String,
        /// What to do about it.
        remedy: String,
    },
    /// Something of that name runs already.
    #[error("a sandbox {name} runs already as process {pid}; remove it first, or end it by hand if it is not ours")]
    Taken {
        /// The name.
        name: String,
        /// Its outermost process.
        pid: u32,
    },
    /// The order contradicts itself or asks for what this driver cannot do.
    #[error("sandbox {name}: {detail}")]
    Spec {
        /// The sandbox.
        name: String,
        /// What is wrong with the order.
        detail: String,
    },
    /// The place could not be made, or its main process did not come up.
    #[error("sandbox {name} did not start: {detail}")]
    Setup {
        /// The sandbox.
        name: String,
        /// What was seen.
        detail: String,
    },
    /// The sandbox has ended; nothing can be sent to it.
    #[error("sandbox {0} has ended")]
    Ended(String),
    /// One line of input is longer than a sandbox takes.
    #[error("sandbox {name}: an input line of {bytes} bytes is over the limit of {limit}; send less at once")]
    TooLong {
        /// The sandbox.
        name: String,
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The host does not let us look at its processes.
    #[error("cannot look at the processes of this host: {0}")]
    Observe(#[source] std::io::Error),
    /// A program of the host could not be run.
    #[error(transparent)]
    Process(#[from] ProcessError),
}
