//! Submitting work: evidence per criterion, answered findings, then the project's own checks.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Subject, subject};
use crate::command::Fresh;
use crate::effect::{Effect, Intended};
use crate::event::Event;
use crate::guard::GuardContext;
use crate::id::{CriterionNumber, FindingNumber};
use crate::input::clamp;
use crate::limits;
use crate::rejection::{Kind, Rejection, Remedy};
use crate::snapshot::{Answer, Decision};
use crate::task::{GateVerdict, PendingKind, Task};

/// What proves one criterion.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct CriterionEvidence {
    /// `C1`.
    pub id: String,
    /// `test:name`, `file:path`, `commit:sha` or a sentence.
    pub evidence: String,
}

/// How one finding was answered.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct ResolvedFinding {
    /// `F1`.
    pub finding_id: String,
    /// The commit that mends it.
    #[serde(default)]
    pub commit: Option<String>,
    /// In words.
    #[serde(default)]
    pub note: Option<String>,
}

/// Arguments of `i_am_done`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IAmDone {
    /// The task: `T-142`, its id, or a unique prefix of it.
    pub task_id: String,
    /// What was done, for the next role.
    #[serde(default)]
    pub notes: String,
    /// One entry per acceptance criterion.
    #[serde(default)]
    pub criteria: Vec<CriterionEvidence>,
    /// One entry per open finding.
    #[serde(default)]
    pub resolved_findings: Vec<ResolvedFinding>,
}

subject!(IAmDone => task_id);

impl IAmDone {
    /// The criterion an entry names.
    pub(crate) fn find(&self, task: &Task, id: &str) -> Option<CriterionNumber> {
        find_criterion(task, id)
    }
}

/// A criterion by number or by its exact text.
pub(crate) fn find_criterion(task: &Task, given: &str) -> Option<CriterionNumber> {
    let by_number = given.parse::<CriterionNumber>().ok();
    task.criteria.iter().find(|c| Some(c.id) == by_number || c.text == given.trim()).map(|c| c.id)
}

/// The open findings that were answered.
pub(crate) fn addressed(task: &Task, resolved: &[ResolvedFinding]) -> Vec<Event> {
    let answered = resolved.iter().filter_map(|r| {
        let finding = r.finding_id.parse().ok().filter(|id| task.open_findings().any(|f| f.id == *id))?;
        let commit = r.commit.as_deref().map(|c| format!("commit {}", clamp(c, 64)));
        let note = r.note.as_deref().map(|n| clamp(n, 300).into_owned());
        let answer = [commit, note].into_iter().flatten().collect::<Vec<_>>().join(": ");
        Some(Event::FindingAddressed { finding, answer: (!answer.is_empty()).then_some(answer) })
    });
    answered.collect()
}

/// The findings of a task that were named as answered.
pub(crate) fn resolved_ids(task: &Task, resolved: &[ResolvedFinding]) -> Vec<FindingNumber> {
    resolved
        .iter()
        .filter_map(|r| r.finding_id.parse::<FindingNumber>().ok())
        .filter(|id| task.findings.iter().any(|f| f.id == *id))
        .collect()
}

pub(crate) fn submit(cx: GuardContext<'_>, args: &IAmDone, fresh: &Fresh) -> Result<Decision, Rejection> {
    let task = cx.task;
    if let Some(pending) = task.pending(PendingKind::Gate) {
        return Ok(Decision::new(Answer { waits_for: Some(pending.intent), ..Answer::next("wait for the checks") }));
    }
    let (Some(head), Some(tree)) = (&task.delivery.head, &task.delivery.tree) else {
        return Err(Rejection::new(
            Kind::InvalidState,
            format!("{} has no branch yet", task.number),
            Remedy::call(crate::verb::Verb::Unclaim, "call unclaim; it will be prepared again"),
        ));
    };
    let evidenced = args.criteria.iter().filter_map(|c| {
        let criterion = find_criterion(task, &c.id)?;
        Some(Event::CriterionEvidenced { criterion, evidence: clamp(&c.evidence, limits::EVIDENCE_CHARS).into_owned() })
    });
    let resolved = addressed(task, &args.resolved_findings);
    let submitted = Event::TaskSubmitted { notes: clamp(&args.notes, limits::NOTES_CHARS).into_owned() };
    let decision =
        Decision::new(Answer::next("end your turn; QA has it")).event(submitted).events(resolved).events(evidenced.collect::<Vec<_>>());
    // A tree is tested once: the same content needs no second run.
    let tested = task.gate.as_ref().filter(|g| &g.tree == tree && g.verdict != GateVerdict::Failed);
    if let Some(record) = tested {
        return Ok(decision.event(Event::GatePassed { record: record.clone() }).event(Event::HandedToQa { author: cx.actor.agent() }));
    }
    let commands = cx.world.project.as_ref().map(|p| p.commands.clone()).unwrap_or_default();
    let mut decision = decision.effect(Intended {
        intent: fresh.intent(),
        effect: Effect::RunGate { task: task.id, project: task.project, commit: head.clone(), tree: tree.clone(), commands },
    });
    decision.answer.waits_for = Some(fresh.intent());
    Ok(decision)
}
