//! QA: taking a review, passing it with a verdict per criterion, failing it with findings.

use schemars::JsonSchema;
use serde::Deserialize;

use super::done::find_criterion;
use super::work::lease_for;
use super::{Hints, Subject, subject};
use crate::command::Fresh;
use crate::effect::{Effect, Intended};
use crate::event::Event;
use crate::finding::{Finding, FindingOrigin, FindingStatus, Severity};
use crate::guard::{GuardContext, is_last_round, rounds_hold};
use crate::id::{AgentId, FindingNumber, IntentId};
use crate::inbox::{InboxItem, InboxKind};
use crate::input::{clamp, has_control, is_filler};
use crate::limits;
use crate::rejection::{Kind, Rejection, Remedy};
use crate::snapshot::{Answer, Decision, Snapshot};
use crate::task::{PendingKind, Stage, Task};

/// The verdict on one criterion.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct CriterionVerdict {
    /// `C1`, or the criterion's exact text.
    pub criterion: String,
    /// What you saw that proves it.
    pub evidence: String,
}

/// Arguments of `pass`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pass {
    /// The task: `T-142`, its id, or a unique prefix of it.
    pub task_id: String,
    /// Your judgement in words.
    pub notes: String,
    /// One verdict per acceptance criterion.
    #[serde(default)]
    pub criteria_verified: Vec<CriterionVerdict>,
}

/// One objection as it is typed. Unknown keys are dropped.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct FindingInput {
    /// `blocker`, `major`, `minor` or `nit`.
    pub severity: Severity,
    /// What should be.
    pub expected: String,
    /// What is.
    pub actual: String,
    /// Path inside the repository.
    #[serde(default)]
    pub file: Option<String>,
    /// Line in it, from 1.
    #[serde(default)]
    pub line: Option<u32>,
    /// The criterion it concerns: `C1` or its exact text.
    #[serde(default)]
    pub criterion: Option<String>,
    /// How it could be mended.
    #[serde(default)]
    pub fix: Option<String>,
}

/// Arguments of `fail`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fail {
    /// The task: `T-142`, its id, or a unique prefix of it.
    pub task_id: String,
    /// What is wrong: one to ten findings.
    pub findings: Vec<FindingInput>,
    /// Your judgement in words.
    #[serde(default)]
    pub notes: String,
}

subject!(Pass => task_id, Fail => task_id);

impl Pass {
    /// What is wrong with the verdicts, by field.
    pub(crate) fn problems(&self, task: &Task) -> Hints {
        let mut hints = Hints::new();
        let mut judged = Vec::new();
        for (n, verdict) in self.criteria_verified.iter().enumerate() {
            match find_criterion(task, &verdict.criterion) {
                Some(id) => judged.push(id),
                None => {
                    let valid = task.criteria.iter().map(|c| c.id.to_string()).collect::<Vec<_>>().join(", ");
                    hints.insert(format!("criteria_verified[{n}].criterion"), format!("one of {valid}"));
                }
            }
            if is_filler(&verdict.evidence) || verdict.evidence.trim().chars().count() < 4 {
                hints.insert(format!("criteria_verified[{n}].evidence"), "what you saw that proves it".into());
            }
        }
        let bare = task.criteria.iter().filter(|c| !judged.contains(&c.id)).map(|c| c.id.to_string()).collect::<Vec<_>>();
        if !bare.is_empty() {
            hints.insert("criteria_verified".into(), format!("one {{criterion, evidence}} for each of {}", bare.join(", ")));
        }
        hints
    }
}

/// What is wrong with a list of findings, by field.
pub fn finding_problems(task: &Task, findings: &[FindingInput]) -> Hints {
    let mut hints = Hints::new();
    if findings.is_empty() {
        hints.insert("findings".into(), "at least one {severity, expected, actual}".into());
    }
    if findings.len() > limits::FINDINGS {
        hints.insert("findings".into(), format!("at most {}; name the heaviest", limits::FINDINGS));
    }
    for (n, finding) in findings.iter().enumerate() {
        for (field, text) in [("expected", &finding.expected), ("actual", &finding.actual)] {
            if is_filler(text) || text.chars().count() > limits::FINDING_CHARS {
                hints.insert(format!("findings[{n}].{field}"), format!("1 to {} characters that say something", limits::FINDING_CHARS));
            }
        }
        if finding.file.as_deref().is_some_and(|f| !is_repo_path(f)) {
            hints.insert(format!("findings[{n}].file"), "a path inside the repository".into());
        }
        if finding.line == Some(0) {
            hints.insert(format!("findings[{n}].line"), "a line number from 1".into());
        }
        if finding.criterion.as_deref().is_some_and(|c| find_criterion(task, c).is_none()) {
            let valid = task.criteria.iter().map(|c| c.id.to_string()).collect::<Vec<_>>().join(", ");
            hints.insert(format!("findings[{n}].criterion"), format!("one of {valid}"));
        }
    }
    hints
}

fn is_repo_path(path: &str) -> bool {
    !path.is_empty()
        && path.len() <= 300
        && !path.starts_with(['/', '\\'])
        && !path.contains(':')
        && !has_control(path)
        && path.split(['/', '\\']).all(|part| part != "..")
}

/// Numbers new findings; one that repeats an open objection on the same commit keeps its number.
pub(crate) fn number(world: &Snapshot, task: &Task, origin: FindingOrigin, by: Option<AgentId>, inputs: &[FindingInput]) -> Vec<Finding> {
    let mut next = task.counters.findings;
    let mut made: Vec<Finding> = Vec::new();
    for input in inputs {
        let mut finding = Finding {
            id: FindingNumber(next + 1),
            origin,
            round: task.counters.revisions + 1,
            severity: input.severity,
            status: FindingStatus::Open,
            criterion: input.criterion.as_deref().and_then(|c| find_criterion(task, c)),
            file: input.file.clone(),
            line: input.line,
            expected: clamp(&input.expected, limits::FINDING_CHARS).into_owned(),
            actual: clamp(&input.actual, limits::FINDING_CHARS).into_owned(),
            fix: input.fix.as_deref().filter(|f| !is_filler(f)).map(|f| clamp(f, 500).into_owned()),
            by,
            head: task.delivery.head.clone(),
            answer: None,
        };
        let same = |f: &&Finding| f.fingerprint() == finding.fingerprint() && f.head == finding.head;
        match task.findings.iter().find(same).or_else(|| made.iter().find(same)).map(|f| f.id) {
            Some(known) => finding.id = known,
            None => next += 1,
        }
        if !made.iter().any(|m| m.id == finding.id) {
            made.push(finding);
        }
    }
    debug_assert!(world.task.is_some(), "findings belong to the task of the snapshot");
    made
}

/// The hold and the inbox item that replace one more lap.
pub(crate) fn last_round_events(world: &Snapshot, task: &Task) -> Vec<Event> {
    if !is_last_round(task) {
        return Vec::new();
    }
    let hold = rounds_hold(task, world.now);
    let text = format!("{} goes round and round: decide how it goes on", task.number);
    vec![Event::TaskHeld { hold }, Event::InboxOpened { item: inbox_item(world, task, InboxKind::Wait, text) }]
}

/// A new item for the CEO.
pub(crate) fn inbox_item(world: &Snapshot, task: &Task, kind: InboxKind, text: String) -> InboxItem {
    InboxItem { number: world.next.inbox, version: 0, kind, task: task.id, text, opened_at: world.now, decision: None, decided_at: None }
}

/// What a judge does next.
pub(crate) fn judge_next(task: &Task) -> String {
    if task.shape.is_assembled() {
        return format!("judge it, then pr_pass(task_id={0}, notes) or pr_fail(task_id={0}, findings)", task.number);
    }
    format!("judge it, then pass(task_id={0}, notes, criteria_verified) or fail(task_id={0}, findings)", task.number)
}

/// Answered objections of these origins, now agreed to be mended.
pub(crate) fn verified(task: &Task, origins: &[FindingOrigin]) -> Vec<Event> {
    let answered = task.findings.iter().filter(|f| f.status == FindingStatus::Addressed && origins.contains(&f.origin));
    answered.map(|f| Event::FindingVerified { finding: f.id }).collect()
}

pub(crate) fn claim(cx: GuardContext<'_>, fresh: &Fresh) -> Result<Decision, Rejection> {
    let task = cx.task;
    let lease = lease_for(cx)?;
    let next = judge_next(task);
    if let Some(pending) = task.pending(PendingKind::Pin) {
        return Ok(Decision::new(Answer { waits_for: Some(pending.intent), ..Answer::next(next) }));
    }
    let Some(head) = &task.delivery.head else {
        return Err(Rejection::new(
            Kind::InvalidState,
            format!("{} has no branch to review", task.number),
            Remedy::call(crate::verb::Verb::GiveMeWork, "call give_me_work"),
        ));
    };
    // Another reviewer may have been kept from a verdict by a hold.
    let earlier = leave_review(task, fresh).filter(|_| open_reviewer(task) != Some(cx.actor.agent()));
    let pin = Intended {
        intent: fresh.intent(),
        effect: Effect::Pin {
            task: task.id,
            project: task.project,
            target: task.delivery.base(),
            head: head.clone(),
            reviewer: cx.actor.agent(),
        },
    };
    Ok(Decision::new(Answer { waits_for: Some(fresh.intent()), ..Answer::next(next) })
        .event(Event::ReviewClaimed { lease })
        .effects(earlier)
        .effect(pin))
}

fn release_tree(cx: GuardContext<'_>, fresh: &Fresh) -> Intended {
    release_tree_of(cx.task, cx.actor.agent(), fresh.intent())
}

/// The removal of a reviewer's tree. Whoever takes the review again gets a new one.
pub(crate) fn release_tree_of(task: &Task, reviewer: AgentId, intent: IntentId) -> Intended {
    Intended { intent, effect: Effect::ReleaseReviewTree { task: task.id, project: task.project, reviewer } }
}

/// Whose tree stands for a review that came to no verdict.
pub(crate) fn open_reviewer(task: &Task) -> Option<AgentId> {
    let holder = task.ownership.lease.as_ref().filter(|_| is_judged(task)).map(|l| l.holder);
    holder.or_else(|| task.review.as_ref().filter(|r| r.passed.is_none()).map(|r| r.by))
}

/// The removal of the tree of a review that ends without a verdict, if one is under way.
pub(crate) fn leave_review(task: &Task, fresh: &Fresh) -> Option<Intended> {
    leave_review_as(task, fresh.second_intent())
}

/// The same, under a key of its own.
pub(crate) fn leave_review_as(task: &Task, intent: IntentId) -> Option<Intended> {
    open_reviewer(task).filter(|_| is_judged(task)).map(|reviewer| release_tree_of(task, reviewer, intent))
}

/// Whether a reviewer's tree may stand.
pub(crate) const fn is_judged(task: &Task) -> bool {
    matches!(task.stage, Stage::Qa | Stage::Gate)
}

pub(crate) fn pass(cx: GuardContext<'_>, args: &Pass, fresh: &Fresh) -> Decision {
    let task = cx.task;
    let verdicts = args
        .criteria_verified
        .iter()
        .filter_map(|v| Some((find_criterion(task, &v.criterion)?, clamp(&v.evidence, 500).into_owned())))
        .collect();
    let verified = verified(task, &[FindingOrigin::Qa, FindingOrigin::System]);
    Decision::new(Answer::next("end your turn; the documenter has it"))
        .events(verified)
        .event(Event::ReviewPassed { verdicts, notes: clamp(&args.notes, limits::NOTES_CHARS).into_owned() })
        .effect(release_tree(cx, fresh))
}

pub(crate) fn pass_gate(cx: GuardContext<'_>, notes: &str, fresh: &Fresh) -> Decision {
    Decision::new(Answer::next("end your turn; its PM has it"))
        .events(verified(cx.task, &[FindingOrigin::PrGate, FindingOrigin::System]))
        .event(Event::ReviewPassed { verdicts: Vec::new(), notes: clamp(notes, limits::NOTES_CHARS).into_owned() })
        .effect(release_tree(cx, fresh))
}

pub(crate) fn fail(cx: GuardContext<'_>, args: &Fail, fresh: &Fresh) -> Decision {
    let task = cx.task;
    let origin = if cx.call.verb() == crate::verb::Verb::PrFail { FindingOrigin::PrGate } else { FindingOrigin::Qa };
    let findings = number(cx.world, task, origin, Some(cx.actor.agent()), &args.findings);
    let warning = (args.findings.len() > limits::FINDINGS_WARN).then(|| "many findings at once; name the heaviest first".to_owned());
    Decision::new(Answer { warning, ..Answer::next("end your turn; it goes back to whoever made it") })
        .event(Event::ReviewFailed { findings, notes: clamp(&args.notes, limits::NOTES_CHARS).into_owned() })
        .events(last_round_events(cx.world, task))
        .effect(release_tree(cx, fresh))
}
