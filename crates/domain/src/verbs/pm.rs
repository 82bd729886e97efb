//! The PM of a leaf: releasing it, accepting it, sending it back.

use schemars::JsonSchema;
use serde::Deserialize;

use super::approve::{clean_up, is_empty, land};
use super::review::{FindingInput, inbox_item, last_round_events, number, verified};
use super::settle::part_ended;
use super::{Subject, subject};
use crate::command::Fresh;
use crate::event::Event;
use crate::finding::FindingOrigin;
use crate::guard::GuardContext;
use crate::inbox::InboxKind;
use crate::input::clamp;
use crate::limits;
use crate::rejection::Rejection;
use crate::snapshot::{Answer, Decision};
use crate::task::{PartState, PendingKind};

/// Arguments of `complete`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Complete {
    /// The task: `T-142`, its id, or a unique prefix of it.
    pub task_id: String,
    /// Why it is good; this is the record of your decision.
    pub notes: String,
}

/// Arguments of `request_changes`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestChanges {
    /// The task: `T-142`, its id, or a unique prefix of it.
    pub task_id: String,
    /// What is wrong: one to ten findings.
    pub findings: Vec<FindingInput>,
}

subject!(Complete => task_id, RequestChanges => task_id);

pub(crate) fn activate(_: GuardContext<'_>) -> Decision {
    Decision::new(Answer::next("it can be claimed now")).event(Event::TaskActivated {})
}

pub(crate) fn complete(cx: GuardContext<'_>, args: &Complete, fresh: &Fresh) -> Result<Decision, Rejection> {
    let task = cx.task;
    if let Some(pending) = task.pending(PendingKind::Land) {
        return Ok(Decision::new(Answer { waits_for: Some(pending.intent), ..Answer::next("wait for the merge") }));
    }
    let accepted = Event::TaskAccepted { notes: clamp(&args.notes, limits::NOTES_CHARS).into_owned() };
    let agreed = verified(task, &[FindingOrigin::Pm]);
    if task.delivery.ceo_target {
        let text = format!("Approve {}: {}", task.number, task.title);
        return Ok(Decision::new(Answer::next("end your turn; the CEO decides"))
            .events(agreed)
            .event(accepted)
            .event(Event::SentToCeo {})
            .event(Event::InboxOpened { item: inbox_item(cx.world, task, InboxKind::Approval, text) }));
    }
    if is_empty(task) {
        let mut decision = Decision::new(Answer::next("end your turn; there was nothing to merge"))
            .events(agreed)
            .event(accepted)
            .event(Event::TaskCompleted {})
            .effect(clean_up(task, fresh.intent()));
        decision.also.extend(part_ended(task, PartState::Completed, None));
        return Ok(decision);
    }
    Ok(Decision::new(Answer { waits_for: Some(fresh.intent()), ..Answer::next("end your turn; it is merged") })
        .events(agreed)
        .event(accepted)
        .effect(land(cx, fresh)?))
}

pub(crate) fn request_changes(cx: GuardContext<'_>, args: &RequestChanges) -> Decision {
    let findings = number(cx.world, cx.task, FindingOrigin::Pm, Some(cx.actor.agent()), &args.findings);
    Decision::new(Answer::next("end your turn; it goes back to its author"))
        .event(Event::ChangesRequested { findings })
        .events(last_round_events(cx.world, cx.task))
}
