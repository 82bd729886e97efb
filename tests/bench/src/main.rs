//! Measures the built product from outside, as a process of its own: `roboco-bench --binary target/release/roboco`.
//!
//! The product runs as a process with its database on disk and every write durable; this process is the load. Figures are printed with
//! their aims beside them and never judged: what a machine can do is no property of the code.

mod bridge;
mod company;
mod leaf;
mod load;
mod place;
mod server;
mod startup;
mod table;
mod wire;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};

use place::Place;
use server::Database;

/// Measures the product: the bridges of agents, start-up, one leaf of work, hand-offs and verbs under load.
#[derive(Debug, Parser)]
struct Arguments {
    /// The built product.
    #[arg(long, env = "ROBOCO_BIN")]
    binary: PathBuf,
    /// URL of an empty database of a durable PostgreSQL server; without it only SQLite is measured.
    #[arg(long, env = "ROBOCO_BENCH_POSTGRES", hide_env_values = true)]
    postgres: Option<String>,
    /// Measures less of everything: half a minute, and figures to match.
    #[arg(long)]
    quick: bool,
    /// Measures one part only.
    #[arg(long)]
    only: Option<Part>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The servers of verbs inside sandboxes.
    Bridge,
    /// Start-up and idle memory.
    Start,
    /// One leaf, and its hand-offs.
    Leaf,
    /// Verbs under load.
    Verbs,
}

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    Full,
    Quick,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("roboco-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let binary = arguments.binary.canonicalize().with_context(|| format!("{} is not there", arguments.binary.display()))?;
    // One thread is enough to make the load, and leaves the rest of the machine to what is measured.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let length = if arguments.quick { Length::Quick } else { Length::Full };
    let wanted = |part| arguments.only.is_none_or(|only| only == part);
    let began = Instant::now();
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    println!("{} on {processors} processors", binary.display());
    if wanted(Part::Bridge) {
        bridge::measure(&Place::new(&binary, Database::Sqlite)?, length)?;
    }
    if arguments.only == Some(Part::Bridge) {
        return Ok(());
    }
    for database in std::iter::once(Database::Sqlite).chain(arguments.postgres.clone().map(Database::Postgres)) {
        let place = Place::new(&binary, database)?;
        println!("\n== {} ==  data directory on {}, load average {}", place.database, place.file_system(), load_average());
        if wanted(Part::Start) {
            startup::measure(&place, length)?;
        }
        if wanted(Part::Leaf) {
            runtime.block_on(leaf::measure(&place, length))?;
        }
        if wanted(Part::Verbs) {
            runtime.block_on(load::measure(&place, length))?;
        }
    }
    if arguments.postgres.is_none() {
        println!("\nPostgreSQL was not measured: name an empty database with --postgres, or run `cargo xtask bench`.");
    }
    println!("\nmeasured in {} s", began.elapsed().as_secs());
    Ok(())
}

/// What else the machine is busy with: the figures of a busy one are those of a smaller one.
fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_owned()
}
