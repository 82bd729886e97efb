//! One leaf from claim to merge by scripted agents, and how long the company takes to hand work on.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::Length;
use crate::company;
use crate::place::Place;
use crate::server::Server;
use crate::table::{figure, head, median};
use crate::wire::{Client, Live};

/// What has happened up to one moment.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Instant,
    statements: u64,
    git_processes: u64,
    verb_calls: u64,
    verb_micros: u64,
    own_ms: u64,
    children_ms: u64,
}

/// What one leaf took.
#[derive(Debug, Clone, Copy)]
struct Leaf {
    /// From `task.claimed` to `task.completed`.
    claimed: Cost,
    /// From before the task was created to `task.completed`.
    created: Cost,
}

#[derive(Debug, Clone, Copy)]
struct Cost {
    wall_ms: u64,
    statements: u64,
    git_processes: u64,
    verb_calls: u64,
    verb_ms: u64,
    own_ms: u64,
    children_ms: u64,
}

/// Milliseconds from what frees a seat to the next run.
#[derive(Debug, Default)]
struct HandOffs {
    intended: Vec<u64>,
    started: Vec<u64>,
}

const FREEING: &[&str] = &["task.handed_to_qa", "review.passed", "docs.recorded"];

/// Runs leaves one after the other and prints their medians.
pub(crate) async fn measure(place: &Place, length: Length) -> Result<()> {
    let server = Server::start(place, 4)?;
    let mut ceo = company::ceo(place, &server).await?;
    company::add_project(place, &mut ceo).await?;
    let count = match length {
        Length::Full => 5,
        Length::Quick => 2,
    };
    let (mut leaves, mut hand_offs) = (Vec::new(), HandOffs::default());
    for nth in 1..=count {
        let live = company::ceo(place, &server).await?.follow().await?;
        let (task, leaf) = run(&server, &mut ceo, live, nth).await?;
        leaves.push(leaf);
        hand_offs.read(&company::history(&mut ceo, &task).await?);
    }
    print(&leaves);
    hand_offs.print();
    figure("resident memory after the leaves", &format!("{:.1} MiB", server.resident_mib()?), "");
    server.stop()
}

async fn run(server: &Server, ceo: &mut Client, mut live: Live, nth: usize) -> Result<(String, Leaf)> {
    let before = read(server, ceo).await?;
    let task = company::create_task(ceo, &format!("Count to {nth}")).await?;
    let mut claimed = None;
    loop {
        let next = tokio::time::timeout(company::PATIENCE, live.next()).await;
        let event = next.with_context(|| format!("nothing more happened to {task}"))??;
        if event["task"] != *task {
            continue;
        }
        match event["kind"].as_str().unwrap_or_default() {
            "task.claimed" => claimed = Some(read(server, ceo).await?),
            "task.sent_to_ceo" => {
                ceo.post(&format!("/api/tasks/{task}/approve"), &json!({})).await?;
            }
            "task.completed" => {
                let after = read(server, ceo).await?;
                let claimed = claimed.context("a task was completed that nobody claimed")?;
                return Ok((task, Leaf { claimed: claimed.to(&after), created: before.to(&after) }));
            }
            "gate.failed" | "review.failed" | "merge.refused" | "task.cancelled" | "task.held" => {
                bail!("{task} left its way: {}", event["text"].as_str().unwrap_or_default())
            }
            _ => {}
        }
    }
}

async fn read(server: &Server, ceo: &mut Client) -> Result<Reading> {
    let stats = ceo.get("/api/stats").await?;
    let count = |name: &str| stats[name].as_u64().with_context(|| format!("the counters have no {name}: {stats}"));
    let cpu = server.cpu()?;
    Ok(Reading {
        at: Instant::now(),
        statements: count("statements")?,
        git_processes: count("git_processes")?,
        verb_calls: count("verb_calls")?,
        verb_micros: count("verb_micros")?,
        own_ms: u64::try_from(cpu.own.as_millis())?,
        children_ms: u64::try_from(cpu.children.as_millis())?,
    })
}

impl Reading {
    fn to(&self, later: &Self) -> Cost {
        Cost {
            wall_ms: u64::try_from((later.at - self.at).as_millis()).unwrap_or(u64::MAX),
            statements: later.statements.saturating_sub(self.statements),
            git_processes: later.git_processes.saturating_sub(self.git_processes),
            verb_calls: later.verb_calls.saturating_sub(self.verb_calls),
            verb_ms: later.verb_micros.saturating_sub(self.verb_micros) / 1000,
            own_ms: later.own_ms.saturating_sub(self.own_ms),
            children_ms: later.children_ms.saturating_sub(self.children_ms),
        }
    }
}

fn print(leaves: &[Leaf]) {
    head(
        &format!("One leaf by scripted agents, median of {}", leaves.len()),
        "Counted from the moment the live stream shows task.claimed to the moment it shows task.completed, by differences of two\n\
         readings, each a request later than what it follows. Inside: the rest of the developer's run, the three agents after it in\n\
         their sandboxes, all their verbs, the project's check (`true`), the approval of the CEO, the merge into the repository, the\n\
         live stream, and one statement of the second reading itself. Outside: what follows task.completed, such as removing\n\
         worktrees, and the programs that git itself starts to fetch and to push. Processor time moves in steps of 10 ms; children\n\
         are sandboxes, agents and git, counted when they end.",
    );
    let of = |pick: fn(&Leaf) -> u64| median(&leaves.iter().map(pick).collect::<Vec<_>>()).unwrap_or_default();
    figure("SQL statements", &of(|leaf| leaf.claimed.statements).to_string(), "<= 150");
    figure("git processes", &of(|leaf| leaf.claimed.git_processes).to_string(), "<= 30");
    figure("server processor time", &format!("{} ms", of(|leaf| leaf.claimed.own_ms)), "<= 250 ms");
    figure("processor time of ended children", &format!("{} ms", of(|leaf| leaf.claimed.children_ms)), "");
    figure("verb calls after the claim", &of(|leaf| leaf.claimed.verb_calls).to_string(), "");
    figure("wall time inside verbs, waits included", &format!("{} ms", of(|leaf| leaf.claimed.verb_ms)), "");
    figure("wall time, agents included", &format!("{} ms", of(|leaf| leaf.claimed.wall_ms)), "");
    let whole = format!("{} SQL, {} git", of(|leaf| leaf.created.statements), of(|leaf| leaf.created.git_processes));
    figure("the same from its creation on", &whole, "");
    let whole = format!("{} verbs, {} ms, wall {} ms", of(|l| l.created.verb_calls), of(|l| l.created.own_ms), of(|l| l.created.wall_ms));
    figure("", &whole, "");
}

impl HandOffs {
    /// Every event that frees the next role, with the first run that was intended and started after it.
    fn read(&mut self, events: &[Value]) {
        let at = |event: &Value| event["at"].as_u64().unwrap_or_default();
        for (index, freeing) in events.iter().enumerate().filter(|(_, event)| FREEING.iter().any(|kind| event["kind"] == *kind)) {
            let after = |kind: &str| events.iter().skip(index).find(|event| event["kind"] == kind).map(at);
            self.intended.extend(after("spawn.intended").map(|then| then.saturating_sub(at(freeing))));
            self.started.extend(after("spawn.started").map(|then| then.saturating_sub(at(freeing))));
        }
    }

    fn print(&self) {
        head(
            "Hand-off",
            "From task.handed_to_qa, review.passed or docs.recorded to the next run of an agent, by the times in the event log, which are\n\
             whole milliseconds. Intended: it is decided and recorded. Started: its sandbox runs.",
        );
        for (name, times, aim) in [("next run intended", &self.intended, ""), ("next run started", &self.started, "p50 <= 20 ms")] {
            let time = |millis: Option<u64>| {
                millis.map_or_else(|| "-".into(), |millis| crate::table::millis(std::time::Duration::from_millis(millis)))
            };
            let text = format!("p50 {}, max {}", time(median(times)), time(times.iter().copied().max()));
            figure(&format!("{name} ({} hand-offs)", times.len()), &text, aim);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_off_ends_with_the_next_run_after_it() {
        let event = |kind: &str, at: u64| json!({ "kind": kind, "at": at });
        let mut hand_offs = HandOffs::default();
        hand_offs.read(&[
            event("spawn.started", 5),
            event("task.handed_to_qa", 10),
            event("spawn.ended", 11),
            event("spawn.intended", 13),
            event("spawn.started", 30),
            event("docs.recorded", 50),
            event("spawn.intended", 51),
        ]);
        assert_eq!((hand_offs.intended, hand_offs.started), (vec![3, 1], vec![20]));
    }
}
