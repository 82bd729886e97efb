//! `check`: everything a change must pass before it is offered.

use anyhow::Result;

use crate::workspace::Workspace;
use crate::{shell, suite, tidy};

/// Cheapest first, so that a slip shows in seconds.
pub(crate) fn everything(workspace: &Workspace) -> Result<()> {
    shell::run(shell::cargo().current_dir(&workspace.root).args(["fmt", "--all", "--check"]))?;
    tidy::check(workspace)?;
    lint(workspace)?;
    suite::run(workspace, &[])
}

fn lint(workspace: &Workspace) -> Result<()> {
    let mut clippy = shell::cargo();
    clippy.current_dir(&workspace.root).args(["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"]);
    shell::run(&mut clippy)
}
