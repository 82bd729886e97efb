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

/// The package whose tests run the product.
const END_TO_END: &str = "roboco-e2e";

/// Whether a selection of tests may hold some that run the product: one by packages must name theirs, every other one may.
fn may_run_product(arguments: &[String]) -> bool {
    let mut packages = Vec::new();
    let mut words = arguments.iter().map(String::as_str).take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        match word {
            "-p" | "--package" => packages.extend(words.next()),
            _ => packages.extend(word.strip_prefix("--package=").or_else(|| word.strip_prefix("-p"))),
        }
    }
    packages.is_empty() || packages.iter().any(|package| *package == END_TO_END || package.contains(['*', '?', '[']))
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
    if may_run_product(arguments) {
        // Not built by the tests themselves: they would judge whatever was built last.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_is_built_for_every_selection_that_may_run_it() {
        for (arguments, built) in [
            ("", true),
            ("demo", true),
            ("--workspace", true),
            ("-p roboco-e2e", true),
            ("-p roboco-store -p roboco-e2e story", true),
            ("--package=roboco-e2e", true),
            ("-proboco-e2e", true),
            ("-p roboco-*", true),
            ("-p roboco-store", false),
            ("-proboco-store --package roboco-git", false),
            ("-p roboco-store -- -p roboco-e2e", false),
        ] {
            let words: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
            assert_eq!(may_run_product(&words), built, "{arguments:?}");
        }
    }
}
