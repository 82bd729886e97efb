//! One performance of a play. Steps are safe to repeat: a killed agent starts its play again from the first step.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::io::AsyncRead;

use super::mcp::{Mcp, ToolAnswer, Verdict};
use super::play::{Content, Play, Step};
use super::template::Scope;
use super::{Said, ScriptError, edit, say};
use crate::child;
use crate::lines::Lines;

/// Longest run of one shell command.
const COMMAND_LIMIT: Duration = Duration::from_secs(600);
/// Lines kept of a shell command's output: its end, where test runners put their summary.
const COMMAND_LINES: usize = 200;
/// Longest kept line of it, in bytes.
const COMMAND_LINE_BYTES: usize = 1024;
/// How often a verb is tried while the server says that it cannot answer now.
const FAULT_TRIES: u32 = 6;
/// First and longest wait between such tries, when the server names none.
const FAULT_WAIT: Duration = Duration::from_millis(250);
const FAULT_WAIT_MAX: Duration = Duration::from_secs(5);
/// Text of one line of a flood.
const FLOOD_LINE_BYTES: usize = 1000;

/// A play, a brief, and how far it is.
pub(super) struct Performance<'a> {
    play: &'a Play,
    scope: Scope,
    next: usize,
}

/// Where a performance stands when it gives back control.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Every step is done.
    Done,
    /// A verb is still at work; the control plane will send a line when it is time to ask again.
    Waiting,
}

/// What came of one verb.
enum Called {
    Settled,
    Pending,
}

impl<'a> Performance<'a> {
    pub(super) fn new(play: &'a Play, brief: Map<String, Value>) -> Self {
        Self { play, scope: Scope::new(brief), next: 0 }
    }

    /// Plays from where it stopped.
    pub(super) async fn go_on(&mut self, mcp: &mut Mcp, root: &Path, files: &Path) -> Result<Progress, ScriptError> {
        while let Some(step) = self.play.steps.get(self.next) {
            let number = self.next + 1;
            let template = |cause| ScriptError::Template { step: number, cause };
            if let Some(when) = &step.when
                && !self.scope.holds(when).map_err(template)?
            {
                self.next += 1;
                continue;
            }
            match &step.step {
                Step::Call { verb, args, accept, expect } => {
                    let verb = self.scope.text(verb).map_err(template)?;
                    let args = Value::Object(self.scope.fields(args).map_err(template)?);
                    match self.call(number, mcp, &verb, args, &Wanted { accept, expect: expect.as_deref() }).await? {
                        Called::Settled => {}
                        Called::Pending => return Ok(Progress::Waiting),
                    }
                }
                Step::Write { path, content } => {
                    let path = self.scope.text(path).map_err(template)?;
                    let bytes = match content {
                        Content::Text(text) => self.scope.text(text).map_err(template)?.into_bytes(),
                        Content::File(file) => {
                            let file = self.scope.text(file).map_err(template)?;
                            edit::read(files, &file).map_err(|cause| ScriptError::Edit { step: number, cause })?
                        }
                    };
                    say(&Said::ToolCall { name: "write", input: &json!({"path": path, "bytes": bytes.len()}) })?;
                    edit::write(root, &path, &bytes).map_err(|cause| ScriptError::Edit { step: number, cause })?;
                    say(&Said::ToolResult { name: "write", ok: true, text: &path })?;
                }
                Step::Run { command, expect } => {
                    let command = self.scope.text(command).map_err(template)?;
                    run(number, &command, *expect, root).await?;
                }
                Step::Pause(millis) => tokio::time::sleep(Duration::from_millis(*millis)).await,
                Step::Crash => std::process::abort(),
                Step::Flood(mebibytes) => flood(*mebibytes)?,
                Step::Hang => std::future::pending().await,
            }
            self.next += 1;
        }
        Ok(Progress::Done)
    }

    /// Calls a verb until it is answered, and judges the answer.
    async fn call(&mut self, step: usize, mcp: &mut Mcp, verb: &str, args: Value, wanted: &Wanted<'_>) -> Result<Called, ScriptError> {
        let mut wait = FAULT_WAIT;
        for attempt in 1..=FAULT_TRIES {
            say(&Said::ToolCall { name: verb, input: &args })?;
            let answer = mcp.call(verb, args.clone()).await?;
            let envelope: Value = serde_json::from_str(&answer.text).unwrap_or(Value::Null);
            let refused = is_refusal(&answer, &envelope);
            say(&Said::ToolResult { name: verb, ok: !refused, text: &answer.text })?;
            let words = words(&envelope);
            let fits = wanted.fits(&words);
            let passing = ["unavailable", "internal_error", "gateway_timeout"].iter().any(|fault| words.iter().any(|word| word == fault));
            if refused && passing && !fits && attempt < FAULT_TRIES {
                let named = envelope["retry_after_ms"].as_u64().map(Duration::from_millis);
                tokio::time::sleep(named.unwrap_or(wait).min(FAULT_WAIT_MAX)).await;
                wait *= 2;
                continue;
            }
            let pending = &envelope["evidence"]["pending"];
            if !refused && !pending.is_null() && *pending != false {
                return Ok(Called::Pending);
            }
            self.scope.set_last(envelope);
            let fine = match wanted.expect {
                Some(_) => fits,
                None => !refused || fits,
            };
            if fine {
                return Ok(Called::Settled);
            }
            let cause = match wanted.expect {
                Some(word) => format!("{verb} should have answered {word:?}, but answered: {}", answer.text),
                None => format!("{verb} was refused: {}", answer.text),
            };
            return Err(ScriptError::Unexpected { step, cause });
        }
        Ok(Called::Settled)
    }
}

/// What a step wants to hear.
struct Wanted<'a> {
    accept: &'a [String],
    expect: Option<&'a str>,
}

impl Wanted<'_> {
    fn fits(&self, words: &[String]) -> bool {
        match self.expect {
            Some(expected) => words.iter().any(|word| word == expected),
            None => words.iter().any(|word| self.accept.contains(word)),
        }
    }
}

fn is_refusal(answer: &ToolAnswer, envelope: &Value) -> bool {
    answer.verdict == Verdict::Error || envelope.get("error").is_some_and(|error| !error.is_null())
}

/// The words an envelope is known by: its error, status, reason and what it says is missing.
fn words(envelope: &Value) -> Vec<String> {
    let single = ["error", "status", "reason"].iter().filter_map(|key| envelope[key].as_str());
    let deep = envelope["evidence"]["reason"].as_str();
    let missing = envelope["missing"].as_array().into_iter().flatten().filter_map(Value::as_str);
    single.chain(deep).chain(missing).map(str::to_owned).collect()
}

/// Runs a shell command in `root` and compares its exit code.
async fn run(step: usize, command: &str, expect: i64, root: &Path) -> Result<(), ScriptError> {
    say(&Said::ToolCall { name: "run", input: &json!({"command": command}) })?;
    let mut shell = child::own_group(OsStr::new("sh"));
    shell.args(["-euc", &format!("exec 2>&1\n{command}")]).current_dir(root).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut running = shell.spawn()?;
    let leader = running.id();
    let output = running.stdout.take();
    let finished = tokio::time::timeout(COMMAND_LIMIT, async {
        let text = match output {
            Some(output) => tail(output).await?,
            None => String::new(),
        };
        Ok::<_, std::io::Error>((text, running.wait().await?))
    })
    .await;
    let Ok(result) = finished else {
        if let Some(leader) = leader {
            child::signal_group(leader, rustix::process::Signal::KILL);
        }
        let cause = format!("`{command}` ran for more than {} s and was stopped", COMMAND_LIMIT.as_secs());
        return Err(ScriptError::Unexpected { step, cause });
    };
    let (text, status) = result?;
    let code = child::exit_of(status).shell_code();
    let as_expected = i64::from(code) == expect;
    say(&Said::ToolResult { name: "run", ok: as_expected, text: &text })?;
    if as_expected {
        return Ok(());
    }
    Err(ScriptError::Unexpected { step, cause: format!("`{command}` ended with {code} instead of {expect}: {text}") })
}

/// The last lines of a stream.
async fn tail(stream: impl AsyncRead + Unpin) -> std::io::Result<String> {
    let mut lines = Lines::new(stream, COMMAND_LINE_BYTES);
    let mut kept = std::collections::VecDeque::new();
    while let Some(line) = lines.next().await? {
        if kept.len() == COMMAND_LINES {
            kept.pop_front();
        }
        kept.push_back(String::from_utf8_lossy(&line.bytes).into_owned());
    }
    Ok(Vec::from(kept).join("\n"))
}

fn flood(mebibytes: u64) -> std::io::Result<()> {
    let text = "flood ".repeat(FLOOD_LINE_BYTES / 6);
    let lines = mebibytes.saturating_mul(1024 * 1024) / FLOOD_LINE_BYTES as u64;
    for _ in 0..lines {
        say(&Said::Text { text: &text })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_judged_by_its_words() {
        let envelope = json!({"error": "invalid_state", "status": null, "reason": "nothing_to_commit", "missing": ["note:struggle"]});
        let accept = |words_: &[&str]| {
            let accept: Vec<String> = words_.iter().map(|word| (*word).to_owned()).collect();
            Wanted { accept: &accept, expect: None }.fits(&words(&envelope))
        };
        assert!(accept(&["nothing_to_commit"]) && accept(&["invalid_state"]) && accept(&["other", "note:struggle"]));
        assert!(!accept(&[]) && !accept(&["nothing"]));
        assert!(Wanted { accept: &[], expect: Some("invalid_state") }.fits(&words(&envelope)));
        assert!(!Wanted { accept: &["invalid_state".into()], expect: Some("claimed") }.fits(&words(&envelope)));
        assert!(words(&json!({"evidence": {"reason": "same_head"}})) == ["same_head"]);
    }
}
