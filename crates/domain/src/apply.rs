//! What events make of state. Total and infallible: an event that was committed always applies.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::command::{Actor, Body, Command, SystemCommand};
use crate::event::Event;
use crate::finding::{Finding, FindingStatus};
use crate::id::{AgentId, TaskId};
use crate::inbox::InboxItem;
use crate::input::clamp;
use crate::limits;
use crate::outcome::Outcome;
use crate::project::Project;
use crate::snapshot::{Decision, Snapshot};
use crate::spawn::{Seat, Spawn, SpawnState};
use crate::task::{CommitRecord, Delivery, Hold, JournalNote, Lease, Pending, PullRequest, Review, Stage, Task};
use crate::time::Timestamp;
use crate::verb::{Call, Ends, Verb};
use crate::verbs::hold::limited_until;

/// Rows as they will be, each with its version already raised by one. A row that is `None` does not change.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// The task.
    pub task: Option<Arc<Task>>,
    /// Other tasks: what it is a part of, its parts, and what was created beside it.
    pub others: Vec<Arc<Task>>,
    /// The project.
    pub project: Option<Arc<Project>>,
    /// The spawn.
    pub spawn: Option<Spawn>,
    /// The seat.
    pub seat: Option<Seat>,
    /// Inbox items, new and decided.
    pub inbox: Vec<InboxItem>,
}

/// Which agents did what, as far as events do not carry it themselves.
#[derive(Debug, Clone, Copy)]
pub struct Context {
    /// Who sent the command.
    pub actor: AgentId,
    /// When it was decided.
    pub at: Timestamp,
}

/// The rows a decision changes.
pub fn changes(world: &Snapshot, command: &Command, decision: &Decision) -> Changes {
    let cx = Context { actor: command.actor.agent(), at: world.now };
    let mut task = world.task.as_deref().cloned();
    let mut project = world.project.as_deref().cloned();
    let mut spawn = world.spawn.clone();
    let mut seat = world.seat.clone();
    let mut inbox = world.inbox.clone();
    for event in &decision.events {
        task = apply_to_task(task, event, cx);
        project = apply_to_project(project, event);
        spawn = apply_to_spawn(spawn, event, cx);
        seat = seat.map(|s| apply_to_seat(s, event));
        apply_to_inbox(&mut inbox, event, cx);
    }
    if let Some(task) = &mut task {
        if let Some(settled) = decision.settles {
            task.pending.retain(|p| p.intent != settled);
        }
        let verb = verb_of(command);
        task.pending.extend(decision.effects.iter().filter(|i| i.effect.task() == task.id).filter_map(|intended| {
            let kind = intended.effect.pending()?;
            Some(Pending { intent: intended.intent, kind, verb: verb?, since: world.now })
        }));
    }
    let others = apply_to_others(world, decision, cx);
    let claimed = decision.events.iter().any(claims);
    if let Some(spawn) = spawn.as_mut().filter(|s| claimed && command.actor.spawn() == Some(s.id)) {
        // A run that takes work again is not over.
        (spawn.closed_by, spawn.limited_until) = (None, None);
    }
    close_spawn(&mut spawn, command, decision, world.now);
    // A claim touches the seat's row even when nothing in it changes, so that two claims of one agent cannot both be committed.
    let touched = !decision.is_empty() && (world.task.is_none() || !concerns_only_the_spawn(decision));
    Changes {
        task: task.filter(|_| touched).map(|mut t| {
            t.version += 1;
            Arc::new(t)
        }),
        others,
        project: project.filter(|p| world.project.as_deref() != Some(p)).map(|mut p| {
            p.version += 1;
            Arc::new(p)
        }),
        spawn: spawn.filter(|s| world.spawn.as_ref() != Some(s)).map(|mut s| {
            s.version += 1;
            s
        }),
        seat: seat.filter(|s| claimed || world.seat.as_ref() != Some(s)).map(|s| Seat { version: s.version + 1, ..s }),
        inbox: inbox.into_iter().filter(|i| !world.inbox.contains(i)).map(|i| InboxItem { version: i.version + 1, ..i }).collect(),
    }
}

fn apply_to_others(world: &Snapshot, decision: &Decision, cx: Context) -> Vec<Arc<Task>> {
    let mut rows: BTreeMap<TaskId, Option<Task>> = BTreeMap::new();
    let known = |id: TaskId| world.ancestors.iter().chain(&world.descendants).find(|t| t.id == id).map(|t| Task::clone(t));
    for (id, event) in &decision.also {
        let row = rows.entry(*id).or_insert_with(|| known(*id));
        *row = apply_to_task(row.take(), event, cx);
    }
    rows.into_values()
        .flatten()
        .map(|mut task| {
            task.version += 1;
            Arc::new(task)
        })
        .collect()
}

/// A spawn's own milestones do not touch its task.
fn concerns_only_the_spawn(decision: &Decision) -> bool {
    decision.effects.is_empty()
        && decision.also.is_empty()
        && decision.settles.is_none()
        && decision.events.iter().all(|e| {
            matches!(e, Event::SpawnStarted {} | Event::SpawnSessionNamed { .. } | Event::SpawnLeft { .. } | Event::SpawnRevoked { .. })
        })
}

const fn claims(event: &Event) -> bool {
    matches!(event, Event::TaskClaimed { .. } | Event::TaskReentered { .. } | Event::ReviewClaimed { .. } | Event::DocsClaimed { .. })
}

fn verb_of(command: &Command) -> Option<Verb> {
    match &command.body {
        Body::Verb { call, .. } => Some(call.verb()),
        Body::AddProject(_) | Body::System(_) => None,
    }
}

/// Marks the caller's spawn as closed when the verb ended its part. A verb that waits for an effect closes it only when the result
/// arrives, unless its caller has nothing to do with the result.
fn close_spawn(spawn: &mut Option<Spawn>, command: &Command, decision: &Decision, now: Timestamp) {
    let Some(spawn) = spawn else { return };
    match (&command.actor, &command.body) {
        (Actor::Agent(actor), Body::Verb { call, .. })
            if spawn.id == actor.spawn
                && call.verb().ends() == Ends::Session
                && (decision.answer.waits_for.is_none() || is_final(call.verb())) =>
        {
            // The first closing verb says what came of the run; going idle afterwards does not.
            spawn.closed_by.get_or_insert(call.verb());
            if let Call::IAmBlocked(args) = &**call {
                spawn.limited_until = limited_until(args, now);
            }
        }
        (_, Body::System(SystemCommand::Settle { .. })) if decision.events.iter().any(|e| matches!(e, Event::HandedToQa { .. })) => {
            spawn.closed_by = Some(Verb::IAmDone);
        }
        _ => {}
    }
}

/// Whether a verb ends its caller's part whatever the effect it waits for comes to: a merge that fails is for somebody else to mend.
const fn is_final(verb: Verb) -> bool {
    matches!(verb, Verb::Complete)
}

/// What an event makes of a task; `None` until one is created.
pub fn apply_to_task(task: Option<Task>, event: &Event, cx: Context) -> Option<Task> {
    if let Event::TaskCreated { task } = event {
        return Some((**task).clone());
    }
    let mut t = task?;
    apply_work(&mut t, event, cx);
    apply_assembly(&mut t, event, cx);
    apply_review(&mut t, event, cx);
    apply_run(&mut t, event, cx);
    Some(t)
}

fn enter(t: &mut Task, stage: Stage, cx: Context) {
    if t.stage != stage {
        t.stage = stage;
        t.stage_since = cx.at;
    }
}

fn to_stage(t: &mut Task, stage: Stage, cx: Context) {
    enter(t, stage, cx);
    // Whoever acted in the old stage has no right in the new one.
    t.ownership.lease = None;
    progress(t, cx);
}

fn progress(t: &mut Task, cx: Context) {
    t.meter.strikes = 0;
    t.meter.crashes.clear();
    t.meter.not_before = None;
    t.meter.progress_at = cx.at;
}

fn lease(t: &mut Task, lease: &Lease) {
    t.ownership.lease = Some(lease.clone());
}

fn add_once(list: &mut Vec<AgentId>, agent: AgentId) {
    if !list.contains(&agent) {
        list.push(agent);
    }
}

fn apply_work(t: &mut Task, event: &Event, cx: Context) {
    match event {
        Event::TaskActivated {} => to_stage(t, Stage::Ready, cx),
        Event::TaskClaimed { lease: l } | Event::TaskReentered { lease: l } => {
            lease(t, l);
            t.ownership.assignee = Some(l.holder);
        }
        Event::PlanSet { plan } => t.plan = Some(plan.clone()),
        Event::BranchCut { base, head, tree, .. } => {
            t.delivery.base = Some(base.clone());
            t.delivery.head = Some(head.clone());
            t.delivery.tree.clone_from(tree);
        }
        Event::TaskStarted {} => {
            enter(t, Stage::Working, cx);
            if t.shape.is_assembled() {
                // Its PM is the only one who can act on it, and acts between other things: nobody holds it while the parts are delivered.
                t.ownership.lease = None;
            }
            t.started_at.get_or_insert(cx.at);
        }
        Event::CommitRecorded { oid, tree, subject, files, by, author } => {
            t.delivery.head = Some(oid.clone());
            t.delivery.tree = Some(tree.clone());
            t.delivery.commits.push(CommitRecord {
                oid: oid.clone(),
                tree: tree.clone(),
                subject: subject.clone(),
                files: files.iter().take(CommitRecord::FILES_KEPT).cloned().collect(),
                by: *by,
                at: cx.at,
            });
            let surplus = t.delivery.commits.len().saturating_sub(Delivery::COMMITS_KEPT);
            t.delivery.commits.drain(..surplus);
            add_once(&mut t.ownership.committers, *by);
            if *author {
                add_once(&mut t.ownership.authors, *by);
            }
            progress(t, cx);
        }
        Event::BranchSynced { head, tree, .. } => {
            t.delivery.head = Some(head.clone());
            t.delivery.tree = Some(tree.clone());
        }
        Event::PrOpened { number, title, .. } => {
            t.delivery.pr = Some(PullRequest { number: *number, title: title.clone(), opened_at: cx.at });
        }
        Event::TaskSubmitted { .. } => enter(t, Stage::SelfCheck, cx),
        Event::CriterionEvidenced { criterion, evidence } => {
            if let Some(c) = t.criteria.iter_mut().find(|c| c.id == *criterion) {
                c.evidence = Some(evidence.clone());
            }
        }
        Event::FindingAddressed { finding, answer } => {
            if let Some(f) = t.findings.iter_mut().find(|f| f.id == *finding) {
                f.status = FindingStatus::Addressed;
                f.answer = answer.clone();
            }
        }
        Event::GatePassed { record } | Event::GateFailed { record } => t.gate = Some(record.clone()),
        Event::HandedToQa { author } => {
            t.ownership.author = Some(*author);
            add_once(&mut t.ownership.authors, *author);
            t.ownership.assignee = None;
            to_stage(t, Stage::Qa, cx);
        }
        Event::TaskReleased { keeps_owner, .. } => {
            t.ownership.lease = None;
            if matches!(t.stage, Stage::Ready | Stage::Working | Stage::SelfCheck | Stage::Revision) && !t.shape.is_assembled() {
                enter(t, Stage::Ready, cx);
                if !keeps_owner {
                    t.ownership.assignee = None;
                }
            }
        }
        Event::NoteRecorded { scope, text } => {
            t.journal.push(JournalNote { by: cx.actor, scope: scope.clone(), text: clamp(text, 800).into_owned(), at: cx.at });
            let surplus = t.journal.len().saturating_sub(limits::BRIEFING_ITEMS);
            t.journal.drain(..surplus);
        }
        Event::ProgressReported { step, .. } => {
            let ticked = step.and_then(|n| t.plan.as_mut().and_then(|p| p.steps.get_mut(n)));
            if let Some(step) = ticked {
                step.done = true;
            }
        }
        _ => {}
    }
}

fn apply_assembly(t: &mut Task, event: &Event, cx: Context) {
    match event {
        Event::Delegated { part } => {
            t.parts.push(part.clone());
            progress(t, cx);
        }
        Event::PartEnded { part, state, merged } => {
            if let Some(p) = t.parts.iter_mut().find(|p| p.id == *part) {
                p.state = *state;
                p.merged = merged.as_ref().map(|m| m.commit.clone());
            }
            if let Some(merged) = merged {
                t.delivery.head = Some(merged.commit.clone());
                t.delivery.tree = Some(merged.tree.clone());
            }
            progress(t, cx);
        }
        Event::CoverageDeclared { part: Some(part), criteria, .. } => {
            if let Some(p) = t.parts.iter_mut().find(|p| p.id == *part) {
                p.covers.extend(criteria.iter().filter(|c| !p.covers.contains(c)).copied().collect::<Vec<_>>());
            }
            progress(t, cx);
        }
        Event::CoverageDeclared { part: None, criteria, reason } => {
            for c in t.criteria.iter_mut().filter(|c| criteria.contains(&c.id)) {
                c.kept = Some(reason.clone());
            }
            progress(t, cx);
        }
        Event::Reassigned { to, .. } => {
            t.ownership.lease = None;
            t.ownership.assignee = Some(*to);
        }
        Event::HandedToGate { pm, resubmitted } => {
            t.ownership.author = Some(*pm);
            add_once(&mut t.ownership.authors, *pm);
            if let Some(review) = &mut t.review {
                review.resubmitted |= *resubmitted;
            }
            to_stage(t, Stage::Gate, cx);
        }
        Event::HandedToPm { pm } => {
            t.ownership.author = Some(*pm);
            t.ownership.assignee = Some(*pm);
            to_stage(t, Stage::PmReview, cx);
        }
        _ => {}
    }
}

fn add_findings(t: &mut Task, findings: &[Finding]) {
    for finding in findings {
        t.counters.findings = t.counters.findings.max(finding.id.0);
        match t.findings.iter_mut().find(|f| f.id == finding.id) {
            Some(known) => *known = finding.clone(),
            None => t.findings.push(finding.clone()),
        }
    }
}

fn to_revision(t: &mut Task, cx: Context) {
    t.counters.revisions += 1;
    t.ownership.assignee = t.ownership.author;
    to_stage(t, Stage::Revision, cx);
}

fn apply_review(t: &mut Task, event: &Event, cx: Context) {
    match event {
        Event::ReviewClaimed { lease: l } | Event::DocsClaimed { lease: l } => lease(t, l),
        Event::ReviewPinned { pin } => {
            if let Some(by) = t.ownership.lease.as_ref().map(|l| l.holder) {
                // A second look at the same commits remembers that it is one.
                let resubmitted = t.review.as_ref().is_some_and(|r| r.resubmitted && r.pin.head == pin.head);
                t.review = Some(Review { by, pin: pin.clone(), passed: None, notes: String::new(), resubmitted });
            }
        }
        Event::ReviewPassed { verdicts, notes } => {
            for (id, verdict) in verdicts {
                if let Some(c) = t.criteria.iter_mut().find(|c| c.id == *id) {
                    c.verdict = Some(verdict.clone());
                }
            }
            if let Some(review) = &mut t.review {
                review.passed = Some(true);
                review.notes.clone_from(notes);
            }
            if t.stage == Stage::Gate {
                // Assembled work stays its PM's.
                to_stage(t, Stage::PmReview, cx);
            } else {
                t.ownership.assignee = None;
                to_stage(t, Stage::Docs, cx);
            }
        }
        Event::ReviewFailed { findings, notes } => {
            add_findings(t, findings);
            if let Some(review) = &mut t.review {
                review.passed = Some(false);
                review.notes.clone_from(notes);
            }
            to_revision(t, cx);
        }
        Event::FindingVerified { finding } => {
            if let Some(f) = t.findings.iter_mut().find(|f| f.id == *finding) {
                f.status = FindingStatus::Verified;
            }
        }
        Event::ReviewCarried { head } => {
            if let Some(review) = &mut t.review {
                review.pin.head = head.clone();
            }
        }
        Event::ReviewReopened { .. } => {
            t.ownership.assignee = None;
            to_stage(t, Stage::Qa, cx);
        }
        Event::DocsRecorded { docs, pm } => {
            t.docs = Some(docs.clone());
            t.ownership.assignee = Some(*pm);
            to_stage(t, Stage::PmReview, cx);
        }
        Event::SentToCeo {} => {
            t.ownership.assignee = Some(cx.actor);
            to_stage(t, Stage::Ceo, cx);
        }
        Event::ChangesRequested { findings } => {
            add_findings(t, findings);
            to_revision(t, cx);
        }
        Event::CeoRejected { finding } => {
            add_findings(t, std::slice::from_ref(finding));
            to_revision(t, cx);
        }
        Event::MergeLanded { merged } => t.delivery.merged = Some(merged.clone()),
        Event::MergeRefused { finding: Some(finding), .. } => {
            add_findings(t, std::slice::from_ref(finding));
            t.counters.conflicts += 1;
            to_revision(t, cx);
        }
        Event::TaskCompleted {} => end(t, Stage::Done, cx),
        Event::TaskCancelled { .. } => end(t, Stage::Cancelled, cx),
        _ => {}
    }
}

fn end(t: &mut Task, stage: Stage, cx: Context) {
    to_stage(t, stage, cx);
    t.hold = None;
    t.ended_at = Some(cx.at);
}

fn apply_run(t: &mut Task, event: &Event, cx: Context) {
    match event {
        Event::TaskHeld { hold } => {
            // A held task has no live right; lifting the hold restores stage and owner by removing it.
            t.ownership.lease = None;
            t.hold = Some(hold.clone());
        }
        Event::TaskUnheld { .. } => {
            // Agents that hold and lift in turn make no progress; a decision of the CEO is a new start.
            if t.hold.as_ref().is_some_and(Hold::is_for_ceo) {
                progress(t, cx);
            }
            t.hold = None;
        }
        Event::SpawnIntended { spawn } => {
            t.counters.spawns = spawn.number.nth;
            if let Some(lease) = t.ownership.lease.as_mut().filter(|l| l.holder == spawn.agent) {
                lease.spawn = spawn.id;
                lease.epoch = spawn.epoch;
                lease.expires_at = cx.at.after(limits::LEASE);
            }
        }
        Event::SpawnEnded { outcome, not_before, .. } => {
            if is_fruitless(outcome) {
                t.meter.strikes += 1;
            }
            if matches!(outcome, Outcome::Crashed { .. } | Outcome::OutOfMemory) {
                t.meter.crashes.retain(|at| cx.at.since(*at) < Duration::from_secs(3600));
                t.meter.crashes.push(cx.at);
            }
            t.meter.not_before = not_before.or(t.meter.not_before);
        }
        _ => {}
    }
}

/// Whether a run brought its task nothing: it failed on its own, gave the work back, or handed it to somebody else undone.
pub fn is_fruitless(outcome: &Outcome) -> bool {
    const UNDONE: &[Verb] = &[Verb::IAmIdle, Verb::Unclaim, Verb::IAmBlocked, Verb::EscalateUp];
    outcome.is_strike() || matches!(outcome, Outcome::Completed { verb } if UNDONE.iter().any(|v| v.as_str() == verb))
}

fn apply_to_project(project: Option<Project>, event: &Event) -> Option<Project> {
    match event {
        Event::ProjectAdded { project } => Some((**project).clone()),
        Event::PrOpened { number, .. } => project.map(|mut p| {
            p.next_pr = number.0 + 1;
            p
        }),
        _ => project,
    }
}

/// What an event makes of a spawn; `None` until one is intended.
pub fn apply_to_spawn(spawn: Option<Spawn>, event: &Event, cx: Context) -> Option<Spawn> {
    if let Event::SpawnIntended { spawn } = event {
        return Some((**spawn).clone());
    }
    let mut s = spawn?;
    match event {
        Event::SpawnStarted {} => {
            s.state = SpawnState::Started;
            s.started_at = Some(cx.at);
        }
        Event::SpawnSessionNamed { session } => s.session = Some(session.clone()),
        Event::SpawnLeft { verb } => s.closed_by = Some(*verb),
        Event::SpawnEnded { outcome, usage, .. } => {
            s.state = SpawnState::Ended;
            s.outcome = Some(outcome.clone());
            s.usage = *usage;
            s.ended_at = Some(cx.at);
        }
        _ => {}
    }
    Some(s)
}

fn apply_to_seat(mut seat: Seat, event: &Event) -> Seat {
    match event {
        Event::SpawnIntended { spawn } if spawn.agent == seat.agent => {
            seat.epoch = spawn.epoch;
            seat.spawn = Some(spawn.id);
        }
        Event::SpawnRevoked { agent, epoch, .. } if *agent == seat.agent => seat.epoch = *epoch,
        Event::SpawnEnded { spawn, .. } if seat.spawn == Some(*spawn) => seat.spawn = None,
        _ => {}
    }
    seat
}

fn apply_to_inbox(inbox: &mut Vec<InboxItem>, event: &Event, cx: Context) {
    match event {
        Event::InboxOpened { item } => inbox.push(item.clone()),
        Event::InboxDecided { number, decision } => {
            for item in inbox.iter_mut().filter(|i| i.number == *number) {
                item.decision = Some(decision.clone());
                item.decided_at = Some(cx.at);
            }
        }
        _ => {}
    }
}
