//! `run`: from a fresh checkout to a working company in one command.

use std::os::unix::process::CommandExt;

use anyhow::{Context, Result};

use crate::prerequisites::{self, Tool};
use crate::shell;
use crate::workspace::Workspace;

/// Builds the release binary and becomes `roboco demo`, so that interrupts and the exit code are the demo's own.
pub(crate) fn demo(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    if let Err(error) = prerequisites::ensure(&[Tool::Bubblewrap]) {
        // The demo's own agents may run without confinement; what may not is refused by the product, with the same advice.
        eprintln!("going on without bubblewrap, agents will not be isolated; {error:#}");
    }
    build(workspace)?;
    let error = shell::command(workspace.release_binary("roboco")).arg("demo").args(arguments).exec();
    Err(error).context("the demo could not be started")
}

/// Builds the product as it is shipped.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    shell::run(shell::cargo().current_dir(&workspace.root).args(["build", "--release", "--package", "roboco", "--bin", "roboco"]))
}
