//! `cargo xtask <command>`: everything a maintainer or a build server does to this repository, as code instead of shell.
//!
//! The `Makefile` only gives these commands shorter names. No crate of the product is linked in, so `xtask` builds in seconds
//! and still works when the product does not compile.

mod bench;
mod check;
mod clients;
mod kill_demo;
mod postgres;
mod prerequisites;
mod run;
mod shell;
mod suite;
mod tidy;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::workspace::Workspace;

const USAGE: &str = "\
usage: cargo xtask <command> [arguments]

  run [demo arguments]        build the release binary and run the demo company
  test [cargo test arguments] run all tests on SQLite and on a PostgreSQL started for this run
  test-clients                run the end-to-end tests that drive the real agent clients, installed from npm
  check                       what a change must pass: format, clippy, tidy, test
  tidy                        the repository's own rules: sizes, headers, names, crate arrows, words
  bench [bench arguments]     measure the release binary
  kill-demo [--kills N] [--seed S]
                              kill the running demo at random moments and check that nothing is lost or done twice";

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let command = if arguments.is_empty() { String::new() } else { arguments.remove(0) };
    // Cargo hands the separator on; the tools behind us do not expect it in front.
    if arguments.first().is_some_and(|first| first == "--") {
        arguments.remove(0);
    }
    match dispatch(&command, &arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {command}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: &str, arguments: &[String]) -> Result<()> {
    match command {
        "" | "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(())
        }
        "run" => run::demo(&Workspace::load()?, arguments),
        "test" => suite::run(&Workspace::load()?, arguments),
        "test-clients" => clients::test(&Workspace::load()?),
        "check" => check::everything(&Workspace::load()?),
        "tidy" => tidy::check(&Workspace::load()?),
        "bench" => bench::run(&Workspace::load()?, arguments),
        "kill-demo" => kill_demo::run(&Workspace::load()?, arguments),
        unknown => bail!("there is no command {unknown:?}\n\n{USAGE}"),
    }
}
