//! What a person does with a running company: a project, tasks, approvals, and looking.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::place::Place;
use crate::server::Server;
use crate::wire::Client;

/// The name of the project in commands.
const PROJECT: &str = "counter";
/// Longest wait for agents that do nothing but what is measured.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The CEO's token.
pub(crate) fn token(place: &Place) -> Result<String> {
    let path = place.data().join("ceo.token");
    Ok(std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?.trim().to_owned())
}

/// A connection of the CEO.
pub(crate) async fn ceo(place: &Place, server: &Server) -> Result<Client> {
    Client::connect(server.address, &token(place)?).await
}

/// Adds the repository of the bench, unless an earlier part did. Its one check is `true`, so the gate is run and costs next to nothing.
pub(crate) async fn add_project(place: &Place, ceo: &mut Client) -> Result<()> {
    let listed = ceo.get("/api/projects").await?;
    if listed["items"].as_array().is_some_and(|items| items.iter().any(|item| item["slug"] == PROJECT)) {
        return Ok(());
    }
    let project = json!({ "slug": PROJECT, "origin": place.repository(), "cell": "backend", "commands": { "test": "true" } });
    ceo.post("/api/projects", &project).await.map(drop)
}

/// Gives the company a task; answers with its number.
pub(crate) async fn create_task(ceo: &mut Client, title: &str) -> Result<String> {
    let task = json!({
        "project": PROJECT, "team": "backend", "title": title, "type": "code", "nature": "technical", "complexity": "low",
        "description": "The file count.txt names the number of this task, on a line of its own.",
        "criteria": ["count.txt holds the number of the task"],
    });
    let created = ceo.post("/api/tasks", &task).await?;
    created["task"]["number"].as_str().map(str::to_owned).with_context(|| format!("a new task has no number: {created}"))
}

/// The whole history of a task.
pub(crate) async fn history(ceo: &mut Client, task: &str) -> Result<Vec<Value>> {
    let mut events = Vec::new();
    let mut after = 0;
    loop {
        let page = ceo.get(&format!("/api/tasks/{task}/events?after={after}&limit=200")).await?;
        events.extend(page["items"].as_array().cloned().unwrap_or_default());
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => return Ok(events),
        }
    }
}

/// Waits for an event of a task by looking at its history.
pub(crate) async fn until(ceo: &mut Client, task: &str, kind: &str) -> Result<Vec<Value>> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let events = history(ceo, task).await?;
        if events.iter().any(|event| event["kind"] == kind) {
            return Ok(events);
        }
        if Instant::now() > give_up {
            let lines: Vec<&str> = events.iter().filter_map(|event| event["text"].as_str()).collect();
            bail!("{task} did not come to {kind} within {} s:\n{}", PATIENCE.as_secs(), lines.join("\n"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
