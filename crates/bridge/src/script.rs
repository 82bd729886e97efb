//! `roboco bridge script`: an agent without a model. It plays a script of verbs and file edits over the same door as every other agent.
//!
//! Environment: `ROBOCO_MCP_URL`, `ROBOCO_AGENT_TOKEN`, `ROBOCO_PLAY_FILE`, and `ROBOCO_PLAY_FILES_DIR`, the directory that the `file` of
//! a step starts from; without it that is the directory of the play file.
//! The first line of standard input is the brief as a JSON object with at least `role`. When a turn is over the player waits: the end
//! of its input ends it, a line that is a brief starts a play, and any other line goes on where the play stopped, or just ends a turn.
//! The whole of this agent's output is one JSON object a line:
//!
//! `{"type":"ready","mcp":"connected"}` or `"failed"` ·
//! `{"type":"tool_call","name":…,"input":…}` · `{"type":"tool_result","name":…,"ok":…,"text":…}` · `{"type":"text","text":…}` ·
//! `{"type":"turn_done","ok":true}` · `{"type":"error","message":…}`
//!
//! Exit codes: 0, 65 for an answer the play did not expect, 69 when the verbs cannot be reached, 78 for a wrong play, brief or template.

mod edit;
mod mcp;
mod play;
mod player;
mod template;

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use roboco_domain::frame::COMMAND_BYTES;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::io::Stdin;

use crate::lines::Lines;
use crate::{EXIT_CONFIG, EXIT_UNAVAILABLE, EXIT_UNEXPECTED};
use mcp::{Mcp, McpError};
use play::{Cue, Plays};
use player::{Performance, Progress};

/// One line of output.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Said<'a> {
    Ready { mcp: &'a str },
    ToolCall { name: &'a str, input: &'a Value },
    ToolResult { name: &'a str, ok: bool, text: &'a str },
    Text { text: &'a str },
    TurnDone { ok: bool },
    Error { message: &'a str },
}

/// Why the player ends before its input does.
#[derive(Debug, thiserror::Error)]
enum ScriptError {
    #[error("the environment has no {0}; `roboco bridge script` is started by the scripted provider")]
    NoVariable(&'static str),
    #[error("cannot read the play file {0}: {1}")]
    PlayFile(String, std::io::Error),
    #[error("the play file {0} is wrong: {1}")]
    Plays(String, toml::de::Error),
    #[error("the first line of input must be the brief, a JSON object with a `role`: {0}")]
    Brief(String),
    #[error("no play fits role {role:?}, task {task} in this play file")]
    NoPlay { role: String, task: String },
    #[error("step {step}: {cause}")]
    Template { step: usize, cause: minijinja::Error },
    #[error("step {step}: {cause}")]
    Edit { step: usize, cause: edit::EditError },
    #[error("step {step}: {cause}")]
    Unexpected { step: usize, cause: String },
    #[error("{0}")]
    Mcp(#[from] McpError),
    #[error("cannot go on: {0}")]
    Io(#[from] std::io::Error),
}

impl ScriptError {
    const fn code(&self) -> u8 {
        match self {
            Self::Unexpected { .. } => EXIT_UNEXPECTED,
            Self::Mcp(_) | Self::Io(_) => EXIT_UNAVAILABLE,
            Self::NoVariable(_)
            | Self::PlayFile(..)
            | Self::Plays(..)
            | Self::Brief(_)
            | Self::NoPlay { .. }
            | Self::Template { .. }
            | Self::Edit { .. } => EXIT_CONFIG,
        }
    }
}

/// Plays until the input ends.
pub(crate) fn main() -> ExitCode {
    let result = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ScriptError::from).and_then(|runtime| {
        let result = runtime.block_on(act());
        // A thread may still wait for standard input; nobody waits for it.
        runtime.shutdown_background();
        result
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let message = error.to_string();
            // When nobody reads any more the exit code has to do.
            say(&Said::Error { message: &message }).unwrap_or_default();
            eprintln!("roboco bridge script: {message}");
            ExitCode::from(error.code())
        }
    }
}

async fn act() -> Result<(), ScriptError> {
    let settings = Settings::from_environment()?;
    let file = settings.play_file.display().to_string();
    let text = std::fs::read_to_string(&settings.play_file).map_err(|error| ScriptError::PlayFile(file.clone(), error))?;
    let plays = Plays::parse(&text).map_err(|error| ScriptError::Plays(file, error))?;
    let root = std::env::current_dir()?;
    let mut mcp = match Mcp::connect(&settings.url, settings.token).await {
        Ok(mcp) => mcp,
        Err(error) => {
            say(&Said::Ready { mcp: "failed" })?;
            return Err(error.into());
        }
    };
    say(&Said::Ready { mcp: "connected" })?;

    let mut input = Lines::new(tokio::io::stdin(), COMMAND_BYTES);
    let mut running: Option<Performance<'_>> = None;
    let mut turns = 0_u64;
    while let Some(line) = next_line(&mut input).await? {
        turns += 1;
        match (brief(&line), running.take()) {
            // A verb that was still at work is asked again; a new brief does not make it undone.
            (_, Some(performance)) => running = Some(performance),
            (Ok(brief), None) => running = Some(begin(brief, &plays)?),
            (Err(reason), None) if turns == 1 => return Err(ScriptError::Brief(reason)),
            (Err(_), None) => say(&Said::Text { text: "The play is over; there is nothing more to do." })?,
        }
        if let Some(mut performance) = running.take() {
            match performance.go_on(&mut mcp, &root, &settings.files).await? {
                Progress::Waiting => running = Some(performance),
                Progress::Done => {}
            }
        }
        say(&Said::TurnDone { ok: true })?;
    }
    Ok(())
}

fn begin(brief: Map<String, Value>, plays: &Plays) -> Result<Performance<'_>, ScriptError> {
    let cue: Cue = serde_json::from_value(Value::Object(brief.clone())).map_err(|error| ScriptError::Brief(error.to_string()))?;
    let task = brief.get("task").map(ToString::to_string).unwrap_or_default();
    let play = plays.find(&cue).ok_or(ScriptError::NoPlay { role: cue.role, task })?;
    Ok(Performance::new(play, brief))
}

/// The brief in a line of input, or why it is none.
fn brief(line: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(line) {
        Ok(Value::Object(fields)) if fields.contains_key("role") => Ok(fields),
        Ok(_) => Err("it has no role".into()),
        Err(error) => Err(error.to_string()),
    }
}

async fn next_line(input: &mut Lines<Stdin>) -> Result<Option<String>, ScriptError> {
    loop {
        match input.next().await? {
            None => return Ok(None),
            Some(line) if line.bytes.iter().all(u8::is_ascii_whitespace) => {}
            Some(line) => return Ok(Some(String::from_utf8_lossy(&line.bytes).into_owned())),
        }
    }
}

/// Writes one line of output at once.
fn say(said: &Said<'_>) -> std::io::Result<()> {
    let mut line = serde_json::to_string(said)?;
    line.push('\n');
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.flush()
}

struct Settings {
    url: String,
    token: String,
    play_file: PathBuf,
    files: PathBuf,
}

impl Settings {
    /// The one place where this crate reads its settings: they come with the sandbox, not from a configuration.
    fn from_environment() -> Result<Self, ScriptError> {
        let mut variables: HashMap<OsString, OsString> = std::env::vars_os().collect();
        let mut take = |name: &'static str| variables.remove(OsString::from(name).as_os_str()).ok_or(ScriptError::NoVariable(name));
        let play_file = PathBuf::from(take("ROBOCO_PLAY_FILE")?);
        let beside = || play_file.parent().map(PathBuf::from).unwrap_or_default();
        let files = take("ROBOCO_PLAY_FILES_DIR").map_or_else(|_| beside(), PathBuf::from);
        Ok(Self {
            url: take("ROBOCO_MCP_URL")?.to_string_lossy().into_owned(),
            token: take("ROBOCO_AGENT_TOKEN")?.to_string_lossy().into_owned(),
            play_file,
            files,
        })
    }
}
