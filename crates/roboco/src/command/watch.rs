//! Following a task: each hand-off as one line, until the task ends or waits for the CEO.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use roboco_company::views::{EventView, SpawnRow, TaskView};
use roboco_domain::task::Shape;
use serde_json::Value;

use super::staff::items;
use super::{Here, reference};
use crate::cli::OnTask;
use crate::client::{Client, Next, typed};
use crate::failure::{Exit, Failure};
use crate::terminal::{Screen, Style, clean_line, clock};

/// Events asked for at once.
const PAGE: u64 = 200;
/// How long a broken stream is tried to be opened again.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where a task has come to, as far as somebody who follows it is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rest {
    /// It goes on by itself.
    No,
    /// It is done.
    Completed,
    /// It was given up.
    Cancelled,
    /// The CEO must decide about finished work.
    Decision,
    /// It may not move.
    Held,
}

impl Rest {
    /// Of a task as it is now.
    pub(crate) fn of(view: &TaskView) -> Self {
        // Approved work keeps its status until it is merged, and a hold may be for an agent to lift: then nobody here has to do anything.
        let for_ceo = view.row.waits.as_deref().is_some_and(|waits| waits.starts_with("the CEO"));
        match view.row.status.as_str() {
            "completed" => Self::Completed,
            "cancelled" => Self::Cancelled,
            "awaiting_ceo_approval" if for_ceo => Self::Decision,
            _ if for_ceo => Self::Held,
            _ => Self::No,
        }
    }
}

/// What a hand-off is called: the verb behind an event. `None` for events that change nothing for somebody who watches.
fn verb_of(event: &EventView) -> Option<&'static str> {
    Some(match event.kind.as_str() {
        "task.created" => "create_task",
        "task.activated" => "activate",
        "task.claimed" | "task.reentered" => "i_will_work_on",
        "commit.recorded" => "commit",
        "branch.synced" => "sync_branch",
        "pr.opened" => "open_pr",
        "task.submitted" => "i_am_done",
        "gate.passed" | "gate.failed" => "checks",
        "review.claimed" => "claim_review",
        "review.passed" if is_of_the_gate(event) => "pr_pass",
        "review.failed" if is_of_the_gate(event) => "pr_fail",
        "review.passed" => "pass",
        "review.failed" => "fail",
        "review.reopened" => "reopen_review",
        "task.delegated" => "delegate",
        "coverage.declared" => "declare_coverage",
        "task.reassigned" => "reassign",
        "part.ended" => "part",
        "task.handed_to_gate" | "task.handed_to_pm" => "submit",
        "docs.claimed" => "claim_doc_task",
        "docs.recorded" => "i_documented",
        "task.accepted" => "complete",
        "task.changes_requested" => "request_changes",
        "ceo.approved" => "approve",
        "ceo.rejected" => "reject",
        "merge.landed" | "merge.refused" => "merge",
        "task.completed" => "done",
        "task.cancelled" => "cancel",
        "task.held" => "hold",
        "task.unheld" => "unhold",
        "task.released" => "unclaim",
        "spawn.started" => "start",
        // A run that ended as it should was told by its last verb already.
        "spawn.ended" if !ended_well(event) => "end",
        _ => return None,
    })
}

/// Whether it was assembled work that was judged.
fn is_of_the_gate(event: &EventView) -> bool {
    event.from.as_deref() == Some("gate")
}

fn ended_well(event: &EventView) -> bool {
    let outcome = &event.data["outcome"];
    matches!(outcome["kind"].as_str(), Some("completed" | "superseded" | "shutdown"))
}

/// How moments are shown.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Times {
    /// The time of day.
    Clock,
    /// Seconds since this moment, in milliseconds since the epoch.
    Since(i64),
}

/// Prints hand-offs.
#[derive(Debug)]
pub(crate) struct Narrator<'c> {
    client: &'c Client,
    screen: Screen,
    times: Times,
    told: Told,
    /// By task.
    tasks: BTreeMap<String, Seen>,
}

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// One task: its number need not be repeated.
    Task,
    /// Many tasks: each line says which.
    Company,
}

/// What was seen of a task.
#[derive(Debug, Default)]
struct Seen {
    shape: String,
    stage: String,
    /// Who holds the task. Results of its effects are recorded by the system, but a commit is its author's.
    holder: String,
}

impl Seen {
    /// The verb that was called: a PM and a reviewer of assembled work have verbs of their own for what others do to a leaf.
    fn called(&self, verb: &'static str) -> &'static str {
        let whole = matches!(self.shape.parse(), Ok(Shape::Root | Shape::CellParent));
        match verb {
            "i_will_work_on" if whole => "i_will_plan",
            "claim_review" if whole => "claim_gate_review",
            other => other,
        }
    }
}

impl<'c> Narrator<'c> {
    pub(crate) fn new(client: &'c Client, screen: Screen, times: Times, told: Told) -> Self {
        Self { client, screen, times, told, tasks: BTreeMap::new() }
    }

    /// Prints an event when it is a hand-off.
    ///
    /// # Errors
    /// The output is closed, or the server gone.
    pub(crate) async fn tell(&mut self, event: &EventView) -> Result<(), Failure> {
        let number = event.task.clone().unwrap_or_default();
        let seen = self.tasks.entry(number.clone()).or_default();
        if let Some(stage) = &event.to {
            seen.stage = clean_line(stage);
        } else if event.kind == "task.created" {
            seen.stage = clean_line(event.data["task"]["stage"].as_str().unwrap_or("ready"));
            event.data["task"]["shape"].as_str().unwrap_or_default().clone_into(&mut seen.shape);
        }
        if matches!(event.kind.as_str(), "task.claimed" | "task.reentered" | "review.claimed" | "docs.claimed") {
            seen.holder.clone_from(&event.actor);
        }
        let Some(verb) = verb_of(event).map(|verb| seen.called(verb)) else { return Ok(()) };
        let (who, text) = match (event.kind.as_str(), &event.spawn) {
            ("commit.recorded" | "branch.synced", _) if !seen.holder.is_empty() => {
                let text = event.data["subject"].as_str().map_or_else(|| event.text.clone(), str::to_owned);
                (seen.holder.clone(), text)
            }
            ("spawn.started" | "spawn.ended", Some(number)) => {
                let row: SpawnRow = self.client.read(&format!("/api/spawns/{number}"), &[]).await?;
                let outcome = row.outcome.filter(|_| verb == "end").map(|outcome| format!(": {outcome}")).unwrap_or_default();
                let detail = row.detail.filter(|_| verb == "end").map(|detail| format!(", {detail}")).unwrap_or_default();
                (row.agent, format!("run {number} on {}{outcome}{detail}", row.provider))
            }
            _ => (event.actor.clone(), event.text.clone()),
        };
        let when = match self.times {
            Times::Clock => clock(event.at),
            #[expect(clippy::cast_precision_loss, reason = "a difference of times that a person reads")]
            Times::Since(start) => format!("{:6.1} s", (event.at - start) as f64 / 1000.0),
        };
        let style = match event.kind.as_str() {
            "review.failed" | "gate.failed" | "merge.refused" | "task.held" | "task.cancelled" | "spawn.ended" => Style::Bad,
            "task.changes_requested" | "ceo.rejected" | "task.released" | "review.reopened" => Style::Warn,
            "gate.passed" | "review.passed" | "merge.landed" | "task.completed" => Style::Good,
            "spawn.started" | "commit.recorded" => Style::Plain,
            _ => Style::Bold,
        };
        let who = clean_line(&who);
        let verb = self.screen.paint(style, &format!("{verb:15}"));
        let (when, stage) = (self.screen.paint(Style::Dim, &when), &seen.stage);
        let text = self.screen.paint(Style::Dim, &clean_line(&text));
        let line = match self.told {
            Told::Task => format!("{when}  {who:9} {verb} {stage:11} {text}"),
            Told::Company => format!("{when}  {number:5} {who:14} {verb} {stage:11} {text}"),
        };
        self.screen.line(line.trim_end())
    }
}

/// Events of one task, or of all, in order and without gaps, over however many connections.
#[derive(Debug)]
pub(crate) struct Follow<'c> {
    client: &'c Client,
    task: Option<String>,
    stream: Option<crate::client::Stream>,
    last: u64,
}

impl<'c> Follow<'c> {
    /// Follows a task from after an event; 0 is its beginning.
    pub(crate) fn new(client: &'c Client, task: &str, after: u64) -> Self {
        Self { client, task: Some(task.to_owned()), stream: None, last: after }
    }

    /// Follows every task of the company from its beginning.
    pub(crate) fn all(client: &'c Client) -> Self {
        Self { client, task: None, stream: None, last: 0 }
    }

    /// Everything that has happened to the task since the last event, without waiting. Nothing when all are followed: their stream has it.
    ///
    /// # Errors
    /// No server runs.
    pub(crate) async fn so_far(&mut self) -> Result<Vec<EventView>, Failure> {
        let mut events = Vec::new();
        let Some(task) = self.task.clone() else { return Ok(events) };
        loop {
            let query = [("after", self.last.to_string()), ("limit", PAGE.to_string())];
            let value: Value = self.client.get(&format!("/api/tasks/{task}/events"), &query).await?;
            let page: Vec<EventView> = typed(items(value))?;
            let more = page.len() as u64 >= PAGE;
            self.last = page.last().map_or(self.last, |event| event.seq);
            events.extend(page);
            if !more {
                // A stream opened before may still hold what was read just now.
                self.stream = None;
                return Ok(events);
            }
        }
    }

    /// The next event.
    ///
    /// # Errors
    /// The server is gone and does not come back for a while.
    pub(crate) async fn next(&mut self) -> Result<EventView, Failure> {
        let mut broken_since: Option<Instant> = None;
        loop {
            let stream = match &mut self.stream {
                Some(stream) => stream,
                None => match self.client.stream(self.task.as_deref(), self.last).await {
                    Ok(stream) => self.stream.insert(stream),
                    Err(failure) if failure.exit == Exit::NoServer || failure.exit == Exit::NotNow => {
                        if broken_since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                            return Err(failure);
                        }
                        tokio::time::sleep(Duration::from_millis(500)).await;
                        continue;
                    }
                    Err(failure) => return Err(failure),
                },
            };
            match stream.next().await? {
                Next::Event(event) => {
                    self.last = event.seq;
                    return Ok(*event);
                }
                Next::Over => {
                    self.stream = None;
                    broken_since.get_or_insert_with(Instant::now);
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

/// Whether a task may have come to rest with this event.
pub(crate) fn may_rest(event: &EventView) -> bool {
    matches!(event.kind.as_str(), "task.completed" | "task.cancelled" | "task.held" | "task.sent_to_ceo" | "merge.refused" | "inbox.opened")
}

/// `task watch`
///
/// # Errors
/// Exit 3 when the task ends otherwise than completed, or waits for the CEO.
pub(crate) async fn watch(here: &Here, args: &OnTask) -> Result<(), Failure> {
    let client = here.client()?;
    let task = reference(&args.task)?;
    let mut teller =
        Teller { screen: here.screen, narrator: (!args.json).then(|| Narrator::new(&client, here.screen, Times::Clock, Told::Task)) };
    let mut follow = Follow::new(&client, task, 0);
    loop {
        for event in follow.so_far().await? {
            teller.tell(&event).await?;
        }
        let view: TaskView = client.read(&format!("/api/tasks/{task}"), &[]).await?;
        let rest = Rest::of(&view);
        if rest != Rest::No {
            for event in follow.so_far().await? {
                teller.tell(&event).await?;
            }
            return at_rest(here, &view, &rest);
        }
        loop {
            let event = follow.next().await?;
            teller.tell(&event).await?;
            if may_rest(&event) {
                break;
            }
        }
    }
}

/// Prints events for people, or as they are for programs.
struct Teller<'c> {
    screen: Screen,
    narrator: Option<Narrator<'c>>,
}

impl Teller<'_> {
    async fn tell(&mut self, event: &EventView) -> Result<(), Failure> {
        match &mut self.narrator {
            Some(narrator) => narrator.tell(event).await,
            None => self.screen.line(&serde_json::to_string(event).unwrap_or_default()),
        }
    }
}

/// The last words about a task that does not move by itself: what the CEO can do, as commands to type.
pub(crate) fn at_rest(here: &Here, view: &TaskView, rest: &Rest) -> Result<(), Failure> {
    let (number, roboco) = (&view.row.number, here.roboco());
    let waits = view.row.waits.as_deref().map(clean_line).unwrap_or_default();
    let waits = waits.trim_start_matches("the CEO: ");
    let advice = match rest {
        Rest::No | Rest::Completed => return Ok(()),
        Rest::Cancelled => format!("{number} was cancelled"),
        Rest::Decision => format!(
            "{number} waits for your decision. Look at it and decide:\n  {roboco} task show {number}\n  {roboco} approve {number}\n  {roboco} reject {number} <reason>"
        ),
        Rest::Held => {
            let lift = if view.row.status == "paused" {
                format!("{roboco} resume {number}")
            } else {
                format!("{roboco} unblock {number} <what changed>")
            };
            format!("{number} is {} and waits for you: {waits}. When that is settled:\n  {lift}", view.row.status)
        }
    };
    Err(Failure::new(Exit::Ended, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, data: Value) -> EventView {
        EventView {
            seq: 1,
            at: 0,
            kind: kind.into(),
            task: None,
            actor: "x".into(),
            spawn: None,
            from: None,
            to: None,
            text: String::new(),
            data,
        }
    }

    #[test]
    fn claims_of_assembled_work_are_told_by_their_own_verbs() {
        for (shape, verb, called) in [
            ("leaf", "i_will_work_on", "i_will_work_on"),
            ("root", "i_will_work_on", "i_will_plan"),
            ("cell_parent", "claim_review", "claim_gate_review"),
            ("cell_parent", "complete", "complete"),
            ("", "claim_review", "claim_review"),
        ] {
            assert_eq!(Seen { shape: shape.into(), ..Seen::default() }.called(verb), called, "{shape} {verb}");
        }
    }

    #[test]
    fn every_verb_that_hands_work_on_is_told() {
        for (kind, verb) in [
            ("task.claimed", Some("i_will_work_on")),
            ("review.passed", Some("pass")),
            ("docs.recorded", Some("i_documented")),
            ("task.delegated", Some("delegate")),
            ("task.handed_to_gate", Some("submit")),
            ("task.handed_to_pm", Some("submit")),
            ("part.ended", Some("part")),
            ("ceo.approved", Some("approve")),
            ("merge.landed", Some("merge")),
            ("spawn.intended", None),
            ("criterion.evidenced", None),
            ("inbox.opened", None),
        ] {
            assert_eq!(verb_of(&event(kind, Value::Null)), verb, "{kind}");
        }
        let judged = EventView { from: Some("gate".into()), ..event("review.failed", Value::Null) };
        assert_eq!(verb_of(&judged), Some("pr_fail"));
        let ended = |outcome: Value| verb_of(&event("spawn.ended", serde_json::json!({ "outcome": outcome })));
        assert_eq!(ended(serde_json::json!({ "kind": "completed", "verb": "pass" })), None);
        assert_eq!(ended(serde_json::json!({ "kind": "crashed" })), Some("end"));
    }
}
