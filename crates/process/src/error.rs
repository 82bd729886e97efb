//! What can go wrong with a child process.

use std::path::PathBuf;
use std::time::Duration;

use crate::capture::Captured;

/// A child process could not be started or did not end by itself. Texts name the program only: never arguments, never the environment.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// There is no such program.
    #[error("{program} was not found: install it, or correct the PATH or the configured command")]
    NotFound {
        /// The program as it was named.
        program: String,
    },
    /// The directory to run in does not exist.
    #[error("cannot run {program} in {}: there is no such directory", cwd.display())]
    NoDirectory {
        /// The program as it was named.
        program: String,
        /// The missing directory.
        cwd: PathBuf,
    },
    /// The deadline passed; the whole process group was killed.
    #[error("{program} was still running after {} and was stopped", seconds(*after))]
    TimedOut {
        /// The program as it was named.
        program: String,
        /// The deadline it had.
        after: Duration,
        /// What it had written to standard output.
        stdout: Box<Captured>,
        /// What it had written to standard error.
        stderr: Box<Captured>,
    },
    /// The operating system refused something.
    #[error("cannot {doing} {program}: {source}")]
    Io {
        /// The program as it was named.
        program: String,
        /// What was tried: "start", "wait for" and the like.
        doing: &'static str,
        /// The cause.
        source: std::io::Error,
    },
}

fn seconds(duration: Duration) -> String {
    if duration.subsec_millis() == 0 { format!("{} s", duration.as_secs()) } else { format!("{:.1} s", duration.as_secs_f64()) }
}
