//! Events as people and programs see them: names instead of keys, and one line in words.

use std::collections::HashMap;

use roboco_domain::event::Event;
use roboco_domain::id::{SpawnId, TaskId};
use roboco_domain::task::Hold;
use roboco_store::EventRow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Company;
use crate::fault::Fault;

/// Names a reader keeps; more are looked up again.
const NAMES: usize = 4096;

/// One row of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventView {
    /// Gap-free per company; where a reader goes on.
    pub seq: u64,
    /// Milliseconds since the epoch.
    pub at: i64,
    /// What happened, like `task.claimed`.
    pub kind: String,
    /// `T-142`.
    pub task: Option<String>,
    /// Slug of whoever caused it.
    pub actor: String,
    /// `T-142/3`.
    pub spawn: Option<String>,
    /// The stage before, on the row that moved the task.
    pub from: Option<String>,
    /// The stage after, on the row that moved the task.
    pub to: Option<String>,
    /// In one line, for people.
    pub text: String,
    /// The fact itself.
    pub data: Value,
}

/// Numbers a reader of the log has looked up already.
#[derive(Debug, Default)]
pub struct Names {
    tasks: HashMap<TaskId, String>,
    spawns: HashMap<SpawnId, String>,
}

impl Company {
    /// A row of the log with names.
    ///
    /// # Errors
    /// A fault of the database.
    pub async fn event_view(&self, row: &EventRow, names: &mut Names) -> Result<EventView, Fault> {
        let task = match row.task {
            Some(id) => Some(self.task_name(id, row, names).await?),
            None => None,
        };
        let spawn = match row.spawn {
            Some(id) => Some(self.spawn_name(id, row, names).await?),
            None => None,
        };
        let actor = self.roster.slug(row.actor);
        Ok(EventView {
            seq: row.seq,
            at: row.at.millis(),
            kind: row.event.kind().to_owned(),
            text: self.line(&row.event, &actor, task.as_deref().unwrap_or("the company")),
            task,
            actor,
            spawn,
            from: row.moved.map(|(from, _)| from.to_string()),
            to: row.moved.map(|(_, to)| to.to_string()),
            data: serde_json::to_value(&row.event).unwrap_or_default(),
        })
    }

    async fn task_name(&self, id: TaskId, row: &EventRow, names: &mut Names) -> Result<String, Fault> {
        if let Event::TaskCreated { task } = &row.event {
            return Ok(task.number.to_string());
        }
        if let Some(name) = names.tasks.get(&id) {
            return Ok(name.clone());
        }
        let name = self.store.task(id).await?.map_or_else(|| id.to_string(), |task| task.number.to_string());
        if names.tasks.len() >= NAMES {
            names.tasks.clear();
        }
        names.tasks.insert(id, name.clone());
        Ok(name)
    }

    async fn spawn_name(&self, id: SpawnId, row: &EventRow, names: &mut Names) -> Result<String, Fault> {
        if let Event::SpawnIntended { spawn } = &row.event
            && spawn.id == id
        {
            return Ok(spawn.number.to_string());
        }
        if let Some(name) = names.spawns.get(&id) {
            return Ok(name.clone());
        }
        let name = self.store.spawn(id).await?.map_or_else(|| id.to_string(), |spawn| spawn.number.to_string());
        if names.spawns.len() >= NAMES {
            names.spawns.clear();
        }
        names.spawns.insert(id, name.clone());
        Ok(name)
    }

    /// What happened, in one line.
    fn line(&self, event: &Event, who: &str, task: &str) -> String {
        match event {
            Event::ProjectAdded { project } => format!("{who} added the project {}", project.slug),
            Event::TaskCreated { task: created } => format!("{who} created {task}: {}", created.title),
            Event::TaskActivated {} => format!("{who} released {task} from the backlog"),
            Event::TaskClaimed { .. } => format!("{who} claimed {task}"),
            Event::TaskReentered { .. } => format!("{who} went on with {task}"),
            Event::PlanSet { plan } => format!("{who} planned {task} in {}", count(plan.steps.len(), "step")),
            Event::BranchCut { branch, .. } => format!("the branch {branch} of {task} is ready"),
            Event::TaskStarted {} => format!("work on {task} began"),
            Event::CommitRecorded { oid, subject, .. } => format!("{who} committed {} on {task}: {subject}", oid.short()),
            Event::BranchSynced { conflicts, .. } if conflicts.is_empty() => format!("{task} has what is new on its target"),
            Event::BranchSynced { conflicts, .. } => format!("{task} conflicts with its target in {}", conflicts.join(", ")),
            Event::PrOpened { number, title, .. } => format!("{who} opened the pull request {number} of {task}: {title}"),
            Event::TaskSubmitted { .. } => format!("{who} submitted {task}"),
            Event::CriterionEvidenced { criterion, evidence } => format!("{who} proved {criterion} of {task}: {evidence}"),
            Event::FindingAddressed { finding, .. } => format!("{who} answered {finding} of {task}"),
            Event::FindingVerified { finding } => format!("{who} agreed that {finding} of {task} is mended"),
            Event::GatePassed { record } => format!("the checks of {task} passed: {}", record.summary),
            Event::GateFailed { record } => format!("the checks of {task} failed: {}", record.summary),
            Event::HandedToQa { .. } => format!("{task} went to QA"),
            Event::HandedToGate { resubmitted: true, .. } => format!("{task} went to its reviewer once more, unchanged"),
            Event::HandedToGate { .. } => format!("{task} went to its reviewer"),
            Event::HandedToPm { pm } => format!("{task} went to {}: nothing was merged into it", self.roster.slug(*pm)),
            Event::DocsRecorded { docs, .. } if docs.files.is_empty() => format!("{who} found nothing to document for {task}"),
            Event::DocsRecorded { docs, .. } => format!("{who} documented {task} in {}", docs.files.join(", ")),
            Event::InboxOpened { item } => format!("{} waits for the CEO: {}", item.number, item.text),
            Event::InboxDecided { number, decision } => format!("{number} was decided: {decision}"),
            Event::TaskHeld { hold } => held(hold, who, task),
            Event::TaskUnheld { reason } => format!("{task} may move again: {reason}"),
            Event::TaskReleased { reason, .. } => format!("{task} was given back: {reason}"),
            Event::TaskCompleted {} => format!("{task} is complete"),
            Event::TaskCancelled { reason } => format!("{who} cancelled {task}: {reason}"),
            Event::NoteRecorded { text, .. } => format!("{who} noted on {task}: {}", first_line(text)),
            Event::ProgressReported { message, .. } => format!("{who} reported on {task}: {}", first_line(message)),
            _ => self.review_line(event, who, task).unwrap_or_else(|| format!("{who}: {} {task}", event.kind())),
        }
    }

    /// Reviews, decisions, merges and runs.
    fn review_line(&self, event: &Event, who: &str, task: &str) -> Option<String> {
        Some(match event {
            Event::Delegated { part } => {
                let (number, to) = (part.number, self.roster.slug(part.assignee));
                format!("{who} gave {number}, a part of {task}, to {to}: {}", part.title)
            }
            Event::PartEnded { state, .. } => format!("a part of {task} is {state}"),
            Event::CoverageDeclared { criteria, reason, .. } => {
                let criteria = criteria.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                format!("{who} said how {criteria} of {task} is covered: {}", first_line(reason))
            }
            Event::Reassigned { to, reason } => format!("{who} gave {task} to {}: {}", self.roster.slug(*to), first_line(reason)),
            Event::ReviewClaimed { .. } => format!("{who} took the review of {task}"),
            Event::ReviewPinned { pin } => format!("the review of {task} is about {}", pin.head.short()),
            Event::ReviewPassed { .. } => format!("{who} passed {task}"),
            Event::ReviewFailed { findings, .. } => format!("{who} sent {task} back with {}", count(findings.len(), "finding")),
            Event::ReviewCarried { head } => format!("the review of {task} still holds at {}", head.short()),
            Event::ReviewReopened { files } => format!("{task} goes back to QA: {} changed after the review", files.join(", ")),
            Event::DocsClaimed { .. } => format!("{who} took the documentation of {task}"),
            Event::TaskAccepted { .. } => format!("{who} accepted {task}"),
            Event::SentToCeo {} => format!("{task} waits for the CEO"),
            Event::ChangesRequested { findings } => format!("{who} asked for changes to {task} with {}", count(findings.len(), "finding")),
            Event::CeoApproved { head, .. } => format!("{who} approved {task} at {}", head.short()),
            Event::CeoRejected { finding } => format!("{who} sent {task} back: {}", first_line(&finding.actual)),
            Event::MergeLanded { merged } => format!("{task} landed as {}", merged.commit.short()),
            Event::MergeRefused { reason, .. } => format!("{task} did not land: {reason}"),
            Event::SpawnIntended { spawn } => format!("{} will be started for {}({task})", self.roster.slug(spawn.agent), spawn.verb),
            Event::SpawnStarted {} => format!("an agent runs for {task}"),
            Event::SpawnSessionNamed { session } => format!("the client of {task} calls its conversation {session}"),
            Event::SpawnLeft { verb } => format!("the run for {task} need not wait for what {verb} began"),
            Event::SpawnRevoked { agent, reason, .. } => {
                format!("the run of {} for {task} was revoked: {reason}", self.roster.slug(*agent))
            }
            Event::SpawnEnded { outcome, .. } => format!("a run for {task} ended: {}", outcome.word()),
            _ => return None,
        })
    }
}

fn held(hold: &Hold, who: &str, task: &str) -> String {
    match hold {
        Hold::Paused { .. } => format!("{who} paused {task}"),
        Hold::Blocked { text, resolver, .. } => format!("{task} is blocked and waits for {resolver}: {}", first_line(text)),
        Hold::Budget { scope, .. } => format!("{task} has used up its budget ({scope})"),
    }
}

fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}
