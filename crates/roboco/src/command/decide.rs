//! Decisions about one task: approve, reject, cancel, pause, resume, unblock.

use roboco_server::CommandAnswer;
use serde_json::{Value, json};

use super::{Here, reference};
use crate::cli::{Approve, Because, OnTask, Pause};
use crate::client::{Client, typed};
use crate::failure::Failure;
use crate::terminal::clean_line;

/// Approves; the commit that was the tip when the command was given is the one that is approved.
///
/// # Errors
/// The server refuses.
pub(crate) async fn approve(here: &Here, args: &Approve) -> Result<(), Failure> {
    let client = here.client()?;
    let head = match &args.head {
        Some(head) => Some(head.clone()),
        None => client.get(&format!("/api/tasks/{}", reference(&args.task)?), &[]).await?["head"].as_str().map(str::to_owned),
    };
    let answer = send_approval(&client, &args.task, head.as_deref(), args.note.as_deref()).await?;
    if args.json { here.screen.json(&answer) } else { report(here, answer) }
}

/// Sends an approval of exactly this tip.
///
/// # Errors
/// The server refuses.
pub(crate) async fn send_approval(client: &Client, task: &str, head: Option<&str>, note: Option<&str>) -> Result<Value, Failure> {
    let mut body = serde_json::Map::new();
    body.extend(head.map(|head| ("head".to_owned(), head.into())));
    body.extend(note.map(|note| ("note".to_owned(), note.into())));
    client.post(&format!("/api/tasks/{}/approve", reference(task)?), &Value::Object(body)).await
}

/// Sends a command that needs a reason.
///
/// # Errors
/// The server refuses.
pub(crate) async fn because(here: &Here, word: &str, args: &Because) -> Result<(), Failure> {
    let answer = send_reason(&here.client()?, &args.task, word, &args.reason.join(" ")).await?;
    if args.json { here.screen.json(&answer) } else { report(here, answer) }
}

/// Sends a command with its reason.
///
/// # Errors
/// The server refuses.
pub(crate) async fn send_reason(client: &Client, task: &str, word: &str, reason: &str) -> Result<Value, Failure> {
    client.post(&format!("/api/tasks/{}/{word}", reference(task)?), &json!({ "reason": reason })).await
}

/// Sets a task aside.
///
/// # Errors
/// The server refuses.
pub(crate) async fn pause(here: &Here, args: &Pause) -> Result<(), Failure> {
    let answer = here.client()?.post(&format!("/api/tasks/{}/pause", reference(&args.task)?), &json!({ "now": args.now })).await?;
    if args.json { here.screen.json(&answer) } else { report(here, answer) }
}

/// Sends a command that needs nothing else.
///
/// # Errors
/// The server refuses.
pub(crate) async fn plain(here: &Here, word: &str, args: &OnTask) -> Result<(), Failure> {
    let answer = here.client()?.post(&format!("/api/tasks/{}/{word}", reference(&args.task)?), &json!({})).await?;
    if args.json { here.screen.json(&answer) } else { report(here, answer) }
}

/// Says where the task is now and what happens next.
fn report(here: &Here, answer: Value) -> Result<(), Failure> {
    let answer: CommandAnswer = typed(answer)?;
    if let Some(task) = &answer.task {
        here.screen.line(&format!("{} is {}: {}", task.number, task.status, clean_line(&task.title)))?;
    }
    for text in [answer.warning, answer.next].into_iter().flatten() {
        here.screen.line(&format!("  {}", clean_line(&text)))?;
    }
    Ok(())
}
