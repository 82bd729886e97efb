//! `doctor`: looks at everything an installation needs, and says how to mend what is not right.
//!
//! It changes nothing, with one exception: a database that nobody uses is opened, which brings its schema up to date as every start does.

mod checks;

use serde::Serialize;
use serde_json::json;

use crate::cli::Listing;
use crate::command::Here;
use crate::failure::{Exit, Failure};
use crate::terminal::{Style, clean_line};

/// How well something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Health {
    /// As it should be.
    Ok,
    /// Works, with something to know about.
    Warn,
    /// Must be mended before work can be done.
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// What.
    pub(crate) name: &'static str,
    /// How well it is.
    pub(crate) health: Health,
    /// What was seen.
    pub(crate) seen: String,
    /// How to mend it.
    pub(crate) fix: Option<String>,
}

impl Check {
    fn ok(name: &'static str, seen: impl Into<String>) -> Self {
        Self { name, health: Health::Ok, seen: seen.into(), fix: None }
    }

    fn warn(name: &'static str, seen: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, health: Health::Warn, seen: seen.into(), fix: Some(fix.into()) }
    }

    fn fail(name: &'static str, seen: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, health: Health::Fail, seen: seen.into(), fix: Some(fix.into()) }
    }
}

/// Runs every check and prints it.
///
/// # Errors
/// Exit 3 when something must be mended.
pub(crate) async fn doctor(here: &Here, args: &Listing) -> Result<(), Failure> {
    let checks = checks::all(here).await;
    let failed = checks.iter().filter(|check| check.health == Health::Fail).count();
    if args.json {
        here.screen.json(&json!({ "healthy": failed == 0, "checks": checks }))?;
    } else {
        for check in &checks {
            let (style, word) = match check.health {
                Health::Ok => (Style::Good, "ok  "),
                Health::Warn => (Style::Warn, "warn"),
                Health::Fail => (Style::Bad, "fail"),
            };
            here.screen.line(&format!("{} {:12} {}", here.screen.paint(style, word), check.name, clean_line(&check.seen)))?;
            if let Some(fix) = &check.fix {
                here.screen.line(&format!("{:17} {}", "", here.screen.paint(Style::Dim, &clean_line(fix))))?;
            }
        }
    }
    match failed {
        0 => Ok(()),
        1 => Err(Failure::new(Exit::Ended, "one thing must be mended before work can be done")),
        n => Err(Failure::new(Exit::Ended, format!("{n} things must be mended before work can be done"))),
    }
}
