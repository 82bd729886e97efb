//! Runs the scripted model as a program: `scripted-model --port 8199 script.json`.

use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use scripted_model::{ModelServer, Script};

/// A model for tests that answers from a script.
#[derive(Parser)]
#[command(name = "scripted-model")]
struct Arguments {
    /// Port on 127.0.0.1; a free one when absent.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// The script, as JSON.
    script: PathBuf,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Arguments { port, script } = Arguments::parse();
    let text = std::fs::read_to_string(&script).with_context(|| format!("reading {}", script.display()))?;
    let script = Script::from_json(&text).with_context(|| format!("{} is not a script", script.display()))?;
    let server = ModelServer::start_on(script, port).await.context("listening on 127.0.0.1")?;
    println!("{}", server.base_url());
    server.join().await.context("serving")
}
