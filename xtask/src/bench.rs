//! `bench`: measures the release binary with the load generator of this repository, both built here and now.

use anyhow::{Result, bail};

use crate::shell;
use crate::suite::BINARY_SETTING;
use crate::workspace::Workspace;

const LOAD_GENERATOR: &str = "roboco-bench";

/// Builds both programs and hands all arguments to the load generator, which finds the product in `ROBOCO_BIN`.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    if workspace.package(LOAD_GENERATOR).is_none() {
        bail!("this checkout has no package {LOAD_GENERATOR}: benches are measured from a full checkout");
    }
    let mut build = shell::cargo();
    build.current_dir(&workspace.root).args(["build", "--release", "--package", "roboco", "--package", LOAD_GENERATOR]);
    shell::run(&mut build)?;
    let mut bench = shell::command(workspace.release_binary(LOAD_GENERATOR));
    bench.current_dir(&workspace.root).env(BINARY_SETTING, workspace.release_binary("roboco")).args(arguments);
    shell::run(&mut bench)
}
