//! How this program ends when it does not end well: an exit code a script can test and a sentence a person can act on.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// Exit codes; part of the command line's contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// The reader of our output went away, which is how `head` says that it has enough.
    Quiet = 0,
    /// Something is broken here.
    Broken = 1,
    /// The command line or what it names is wrong.
    Usage = 2,
    /// The work itself ended in a hold or a failure, or a check found something to mend.
    Ended = 3,
    /// The configuration is wrong.
    Configuration = 64,
    /// No server runs.
    NoServer = 69,
    /// Not now; the same command may succeed later.
    NotNow = 75,
    /// Interrupted by a person.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    /// What to print; empty prints nothing.
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// Ends with a code; everything worth saying was said.
    pub(crate) const fn silent(exit: Exit) -> Self {
        Self { exit, message: String::new() }
    }

    /// Something is broken.
    pub(crate) fn broken(message: impl Into<String>) -> Self {
        Self::new(Exit::Broken, message)
    }

    /// A file operation failed.
    pub(crate) fn file(doing: &str, path: &std::path::Path, error: &io::Error) -> Self {
        Self::new(Exit::Configuration, format!("{doing} {}: {error}", path.display()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::silent(Exit::Quiet);
        }
        Self::broken(error.to_string())
    }
}
