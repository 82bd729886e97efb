//! What each command does. Every one but `up`, `demo`, `doctor`, `config` and `completions` is a request to the running server.

pub(crate) mod decide;
pub(crate) mod logs;
pub(crate) mod project;
pub(crate) mod show;
pub(crate) mod staff;
pub(crate) mod task;
pub(crate) mod watch;

use crate::client::Client;
use crate::config::Loaded;
use crate::data_dir::DataDir;
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::terminal::Screen;

/// Everything a command knows before it starts.
#[derive(Debug)]
pub(crate) struct Here {
    /// The environment.
    pub(crate) environment: Environment,
    /// Where the company lives.
    pub(crate) data: DataDir,
    /// The settings.
    pub(crate) loaded: Loaded,
    /// Where to print.
    pub(crate) screen: Screen,
}

impl Here {
    /// A connection to the running server.
    ///
    /// # Errors
    /// None runs.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        Client::connect(&self.data, &self.loaded.config, &self.environment)
    }

    /// The start of a command line that means this company: `roboco`, with `--data-dir` when it is not the usual one.
    pub(crate) fn roboco(&self) -> String {
        crate::client::start_command(&self.data, &self.environment).trim_end_matches(" up").to_owned()
    }
}

/// A reference typed by a person, fit to be part of a path.
///
/// # Errors
/// It has other characters than a task's number or id.
pub(crate) fn reference(typed: &str) -> Result<&str, Failure> {
    let fine = !typed.is_empty() && typed.len() <= 64 && typed.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if fine { Ok(typed) } else { Err(Failure::new(Exit::Usage, format!("{typed:?} is no task: give a number like T-142"))) }
}
