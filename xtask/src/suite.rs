//! `test`: every test of the workspace, on SQLite and on a PostgreSQL that lives as long as the run.

use anyhow::Result;

use crate::postgres::{Durability, Postgres};
use crate::prerequisites::{self, Tool};
use crate::shell;
use crate::workspace::Workspace;

/// Tests read the PostgreSQL server's URL here; a server set by the caller is used as it is.
const POSTGRES_SETTING: &str = "ROBOCO_TEST_POSTGRES";
/// End-to-end tests read the path of the built product here.
pub(crate) const BINARY_SETTING: &str = "ROBOCO_BIN";

/// Runs all tests, or those that the arguments for `cargo nextest run` or `cargo test` select.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    prerequisites::ensure(&[Tool::Bubblewrap])?;
    let (server, url) = match shell::setting(POSTGRES_SETTING) {
        Some(url) => (None, url),
        None => {
            prerequisites::ensure(&[Tool::Postgres])?;
            let server = Postgres::start(Durability::Off)?;
            let url = server.url();
            (Some(server), url)
        }
    };
    eprintln!("PostgreSQL for this run: {url}");
    let result = tests(workspace, arguments, &url);
    drop(server);
    if result.is_ok() {
        eprintln!("Tests that drive the real agent clients are not part of this: run `make test-clients`.");
    }
    result
}

fn tests(workspace: &Workspace, arguments: &[String], url: &str) -> Result<()> {
    let whole = arguments.is_empty();
    let selection: Vec<String> = if whole { vec!["--workspace".into()] } else { arguments.to_vec() };
    let prepared = || {
        let mut cargo = shell::cargo();
        cargo.current_dir(&workspace.root).env(POSTGRES_SETTING, url);
        cargo.env(BINARY_SETTING, workspace.debug_binary("roboco"));
        cargo
    };
    if whole {
        shell::run(prepared().args(["build", "--package", "roboco", "--bin", "roboco"]))?;
    }
    if shell::find("cargo-nextest").is_none() {
        return shell::run(prepared().arg("test").args(&selection));
    }
    shell::run(prepared().args(["nextest", "run"]).args(&selection))?;
    if whole {
        // The examples in documentation are not run by nextest.
        shell::run(prepared().args(["test", "--workspace", "--doc", "--quiet"]))?;
    }
    Ok(())
}
