//! Log lines on standard error, for the commands that are servers.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};

/// Starts logging.
///
/// # Errors
/// The filter is no filter.
pub(crate) fn start(log: &Log, environment: &Environment) -> Result<(), Failure> {
    // A bare level is meant for what this program does, not for the steps of its database library.
    let bare = log.filter.parse::<tracing::Level>().is_ok_and(|level| level <= tracing::Level::INFO);
    let quiet = if bare { ",sea_orm_migration=warn,sqlx=warn" } else { "" };
    let filter = EnvFilter::try_new(format!("{}{quiet}", log.filter)).map_err(|error| {
        Failure::new(
            Exit::Configuration,
            format!("`log.filter` {:?} cannot be used: {error}. Use info, or a list like info,roboco_git=trace", log.filter),
        )
    })?;
    let colours = std::io::stderr().is_terminal() && environment.text("NO_COLOR").is_none();
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    let started = match log.format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    started.map_err(|error| Failure::broken(format!("the log cannot be started: {error}")))
}
