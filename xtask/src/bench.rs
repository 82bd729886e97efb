//! `bench`: measures the release binary with the load generator of this repository, both built here and now, on SQLite and on a
//! PostgreSQL that lives as long as the run.

use anyhow::{Result, bail};

use crate::postgres::{Durability, Postgres};
use crate::prerequisites::{self, Tool};
use crate::shell;
use crate::suite::BINARY_SETTING;
use crate::workspace::Workspace;

const LOAD_GENERATOR: &str = "roboco-bench";
/// The load generator reads the URL of an empty database here; one set by the caller is used as it is.
const POSTGRES_SETTING: &str = "ROBOCO_BENCH_POSTGRES";

/// Builds both programs and hands all arguments to the load generator, which finds the product in `ROBOCO_BIN`.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    if workspace.package(LOAD_GENERATOR).is_none() {
        bail!("this checkout has no package {LOAD_GENERATOR}: benches are measured from a full checkout");
    }
    prerequisites::ensure(&[Tool::Bubblewrap])?;
    let mut build = shell::cargo();
    build.current_dir(&workspace.root).args(["build", "--release", "--package", "roboco", "--package", LOAD_GENERATOR]);
    shell::run(&mut build)?;
    let (server, url) = match shell::setting(POSTGRES_SETTING) {
        Some(url) => (None, url),
        None => {
            prerequisites::ensure(&[Tool::Postgres])?;
            let server = Postgres::start(Durability::On)?;
            let url = server.url();
            (Some(server), url)
        }
    };
    let mut bench = shell::command(workspace.release_binary(LOAD_GENERATOR));
    bench.current_dir(&workspace.root).env(BINARY_SETTING, workspace.release_binary("roboco")).env(POSTGRES_SETTING, url).args(arguments);
    let result = shell::run(&mut bench);
    drop(server);
    result
}
