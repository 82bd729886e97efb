//! The CEO's gate: approving and sending back finished work.

use schemars::JsonSchema;
use serde::Deserialize;

use super::hold::Because;
use super::review::verified;
use super::{Subject, subject};
use crate::assembly::is_bare;
use crate::command::Fresh;
use crate::effect::{Effect, Intended, Signature};
use crate::event::Event;
use crate::finding::{Finding, FindingOrigin, FindingStatus, Severity};
use crate::guard::GuardContext;
use crate::id::{FindingNumber, IntentId};
use crate::input::clamp;
use crate::limits;
use crate::project::MergeMethod;
use crate::rejection::{Kind, Rejection, Remedy};
use crate::snapshot::{Answer, Decision};
use crate::task::{GateVerdict, PendingKind, Task};
use crate::verb::Verb;

/// Arguments of `approve`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Approve {
    /// The task: `T-142`, its id, or a unique prefix of it.
    pub task_id: String,
    /// A word with it.
    #[serde(default)]
    pub note: Option<String>,
    /// The commit you looked at; refused when it has moved.
    #[serde(default)]
    pub head: Option<String>,
}

subject!(Approve => task_id);

/// The effect that merges a task's branch to its target.
pub(crate) fn land(cx: GuardContext<'_>, fresh: &Fresh) -> Result<Intended, Rejection> {
    let task = cx.task;
    let Some(head) = &task.delivery.head else {
        return Err(Rejection::new(
            Kind::InvalidState,
            format!("{} has no branch to merge", task.number),
            Remedy::tell("cancel it, or send it back"),
        ));
    };
    let roster = &cx.world.roster;
    let (author, trailer) = if cx.call.verb() == Verb::Approve {
        (Signature { name: "CEO".into(), email: "ceo@agents.invalid".into() }, "Approved-by")
    } else {
        (super::work::signature(cx.world, cx.actor.agent()), "Accepted-by")
    };
    let project = cx.world.project.as_ref();
    Ok(Intended {
        intent: fresh.intent(),
        effect: Effect::Land {
            task: task.id,
            number: task.number,
            project: task.project,
            target: task.delivery.base(),
            head: head.clone(),
            subject: format!("[{}] {}", task.number, clamp(&task.title, 120)),
            trailers: vec![("Task".into(), task.number.to_string()), (trailer.into(), roster.slug(cx.actor.agent()))],
            author,
            at: cx.world.now,
            method: project.map_or(MergeMethod::Merge, |p| p.merge),
            commands: project.map(|p| p.commands.clone()).unwrap_or_default(),
            tested: task.gate.as_ref().filter(|g| g.verdict == GateVerdict::Passed).map(|g| g.tree.clone()),
        },
    })
}

pub(crate) fn approve(cx: GuardContext<'_>, args: &Approve, fresh: &Fresh) -> Result<Decision, Rejection> {
    let task = cx.task;
    if let Some(pending) = task.pending(PendingKind::Land) {
        return Ok(Decision::new(Answer { waits_for: Some(pending.intent), ..Answer::next("it is being merged") }));
    }
    let effect = land(cx, fresh)?;
    let Effect::Land { head, .. } = &effect.effect else { return Ok(Decision::default()) };
    let note = args.note.as_deref().map(|n| clamp(n, limits::NOTES_CHARS).into_owned());
    let approved = Event::CeoApproved { head: head.clone(), note };
    if is_empty(task) {
        let decided = cx.world.inbox.iter().filter(|i| i.decision.is_none());
        let decided = decided.map(|i| Event::InboxDecided { number: i.number, decision: "approved".into() }).collect::<Vec<_>>();
        return Ok(Decision::new(Answer::next("it is complete; there was nothing to merge"))
            .event(approved)
            .event(Event::TaskCompleted {})
            .events(decided)
            .effect(clean_up(task, fresh.intent())));
    }
    Ok(Decision::new(Answer { waits_for: Some(fresh.intent()), ..Answer::next("it is merged") })
        .events(verified(task, &[FindingOrigin::Ceo]))
        .event(approved)
        .effect(effect))
}

/// Whether there is nothing to merge: assembled work into which nothing was merged.
pub(crate) fn is_empty(task: &Task) -> bool {
    task.shape.is_assembled() && is_bare(task)
}

/// The effect that removes the branch of an ended task.
pub(crate) fn clean_up(task: &Task, intent: IntentId) -> Intended {
    Intended { intent, effect: Effect::CleanUp { task: task.id, project: task.project, branch: task.delivery.branch.clone() } }
}

/// An objection of the CEO or of the company itself.
pub(crate) fn heavy_finding(task: &Task, origin: FindingOrigin, expected: &str, actual: &str) -> Finding {
    Finding {
        id: FindingNumber(task.counters.findings + 1),
        origin,
        round: task.counters.revisions + 1,
        severity: Severity::Blocker,
        status: FindingStatus::Open,
        criterion: None,
        file: None,
        line: None,
        expected: expected.to_owned(),
        actual: clamp(actual, limits::FINDING_CHARS).into_owned(),
        fix: None,
        by: None,
        head: task.delivery.head.clone(),
        answer: None,
    }
}

pub(crate) fn reject(cx: GuardContext<'_>, args: &Because) -> Decision {
    let mut finding = heavy_finding(cx.task, FindingOrigin::Ceo, "what the CEO asked for", &args.reason);
    finding.by = Some(cx.actor.agent());
    let decided = cx
        .world
        .inbox
        .iter()
        .filter(|i| i.decision.is_none())
        .map(|i| Event::InboxDecided { number: i.number, decision: format!("rejected: {}", clamp(&args.reason, 200)) });
    Decision::new(Answer::next("it goes back to its author with your reason as a finding"))
        .event(Event::CeoRejected { finding })
        .events(decided.collect::<Vec<_>>())
}
