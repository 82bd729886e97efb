//! What the result of an effect comes to.

use crate::command::Fresh;
use crate::effect::{Effect, EffectResult, LandRefusal};
use crate::event::Event;
use crate::finding::FindingOrigin;
use crate::id::{AgentId, IntentId, TaskId};
use crate::inbox::InboxKind;
use crate::limits;
use crate::rejection::{Kind, Rejection, Remedy};
use crate::snapshot::{Answer, Decision, Snapshot};
use crate::task::{GateRecord, GateVerdict, Hold, HoldReason, Merged, PartState, Resolver, Stage, Task};
use crate::verb::Verb;

use super::approve::{clean_up, heavy_finding};
use super::assemble::planning_next;
use super::review::{inbox_item, is_judged, judge_next, release_tree_of};
use super::work::working_next;

/// Decides on a result. A result nobody waits for any more changes nothing but its own row.
pub(crate) fn settle(world: &Snapshot, task: &Task, intent: IntentId, effect: &Effect, result: &EffectResult, fresh: &Fresh) -> Decision {
    let mut decision = if task.stage.is_terminal() || (effect.pending().is_some() && !task.pending.iter().any(|p| p.intent == intent)) {
        let moved_on = Decision::new(refused(Kind::InvalidState, format!("{} has moved on", task.number), Remedy::tell("end your turn")));
        unwanted(moved_on, task, effect, fresh)
    } else {
        on_result(world, task, effect, result, fresh)
    };
    decision.settles = Some(intent);
    decision
}

/// Takes away again what was made for a task that has ended meanwhile.
fn unwanted(decision: Decision, task: &Task, effect: &Effect, fresh: &Fresh) -> Decision {
    match effect {
        Effect::CutBranch { .. } if task.stage.is_terminal() => decision.effect(clean_up(task, fresh.intent())),
        Effect::Pin { reviewer, .. } if !reviews(task, *reviewer) => decision.effect(release_tree_of(task, *reviewer, fresh.intent())),
        _ => decision,
    }
}

/// Whether the task is in this reviewer's hands.
fn reviews(task: &Task, reviewer: AgentId) -> bool {
    is_judged(task) && task.ownership.lease.as_ref().is_some_and(|l| l.holder == reviewer)
}

/// The answer of a result alone, as the task stands now.
pub(crate) fn told_of(world: &Snapshot, effect: &Effect, result: &EffectResult) -> Answer {
    let unused = Fresh([uuid::Uuid::nil(); 3]);
    world.task.as_deref().map_or_else(Answer::default, |task| on_result(world, task, effect, result, &unused).answer)
}

fn refused(kind: Kind, message: String, remedy: Remedy) -> Answer {
    Answer { refusal: Some(Rejection::new(kind, message, remedy)), ..Answer::default() }
}

fn hold_for_ceo(world: &Snapshot, task: &Task, reason: HoldReason, text: &str) -> Vec<Event> {
    if task.hold.as_ref().is_some_and(|h| h.strength() >= Hold::STRONGEST_BLOCK) {
        return Vec::new();
    }
    let hold = Hold::Blocked {
        reason,
        text: text.to_owned(),
        needs: Some("mend the cause, then unblock it".into()),
        raised_by: None,
        resolver: Resolver::Human,
        since: world.now,
    };
    let item = inbox_item(world, task, InboxKind::Wait, format!("{} waits for you: {text}", task.number));
    vec![Event::TaskHeld { hold }, Event::InboxOpened { item }]
}

fn on_result(world: &Snapshot, task: &Task, effect: &Effect, result: &EffectResult, fresh: &Fresh) -> Decision {
    match (effect, result) {
        (Effect::CutBranch { branch, .. }, EffectResult::BranchCut { base, head, tree }) => {
            let started = task.ownership.lease.is_some() && matches!(task.stage, Stage::Ready | Stage::Revision);
            let cut = Event::BranchCut { branch: branch.clone(), base: base.clone(), head: head.clone(), tree: tree.clone() };
            let next = if task.shape.is_assembled() { planning_next(task) } else { working_next(task) };
            let answer = Answer { evidence: vec![("branch", branch.to_string().into())], ..Answer::next(next) };
            Decision::new(answer).event(cut).events(started.then_some(Event::TaskStarted {}))
        }
        (Effect::Commit { .. }, _) => on_commit(task, effect, result),
        (Effect::Sync { .. }, EffectResult::Synced { head, tree }) => Decision::new(Answer::next(working_next(task)))
            .event(Event::BranchSynced { head: head.clone(), tree: tree.clone(), conflicts: Vec::new() }),
        (Effect::Sync { .. }, EffectResult::SyncConflict { paths }) => Decision::new(Answer {
            evidence: vec![("conflicts", paths.clone().into())],
            ..Answer::next("resolve the conflict markers in these files, then commit(message)")
        }),
        (Effect::RunGate { tree, .. }, EffectResult::Gate { verdict, summary, tail }) => {
            let record = GateRecord { tree: tree.clone(), verdict: *verdict, summary: summary.clone(), tail: tail.clone(), at: world.now };
            on_gate(task, record)
        }
        (Effect::RunGate { .. }, EffectResult::Failed { reason }) => {
            let text = format!("its checks cannot run: {reason}");
            Decision::new(refused(Kind::Unavailable, text.clone(), Remedy::tell("end your turn; the CEO was told"))).events(hold_for_ceo(
                world,
                task,
                HoldReason::GateUnavailable,
                &text,
            ))
        }
        (Effect::CutBranch { .. }, EffectResult::Failed { reason }) => {
            let text = format!("its branch could not be prepared: {reason}");
            Decision::new(refused(Kind::Unavailable, text.clone(), Remedy::tell("end your turn; the CEO was told"))).events(hold_for_ceo(
                world,
                task,
                HoldReason::Branch,
                &text,
            ))
        }
        (Effect::Pin { reviewer, .. }, EffectResult::Pinned { pin }) => {
            let next = judge_next(task);
            let held = reviews(task, *reviewer);
            let unheld = (!held).then(|| release_tree_of(task, *reviewer, fresh.intent()));
            let warning = pin.merge_tree.is_none().then(|| format!("it does not merge with {} as it stands", task.delivery.target));
            Decision::new(Answer { warning, ..Answer::next(next) })
                .events(held.then(|| Event::ReviewPinned { pin: pin.clone() }))
                .effects(unheld)
        }
        (Effect::Land { .. }, EffectResult::Landed { commit, tree }) => {
            let merged = Merged { commit: commit.clone(), tree: tree.clone(), at: world.now };
            on_landed(world, task, merged, fresh)
        }
        (Effect::Land { .. }, EffectResult::LandRefused { refusal }) => on_refusal(world, task, refusal),
        (Effect::Land { .. }, EffectResult::Failed { reason }) => {
            on_refusal(world, task, &LandRefusal::Unavailable { text: reason.clone() })
        }
        (_, EffectResult::Failed { reason }) => Decision::new(refused(
            Kind::Unavailable,
            format!("{} failed: {reason}", effect.kind()),
            Remedy::tell("wait some seconds and call this again"),
        )),
        _ => Decision::default(),
    }
}

fn on_commit(task: &Task, effect: &Effect, result: &EffectResult) -> Decision {
    let Effect::Commit { subject, by, as_author, .. } = effect else { return Decision::default() };
    match result {
        EffectResult::Committed { oid, tree, files } => Decision::new(Answer {
            evidence: vec![("commit", oid.to_string().into()), ("files", files.clone().into())],
            ..Answer::next("keep going; every commit is kept")
        })
        .event(Event::CommitRecorded {
            oid: oid.clone(),
            tree: tree.clone(),
            subject: subject.clone(),
            files: files.clone(),
            by: *by,
            author: *as_author,
        }),
        EffectResult::NothingToCommit => {
            let mut answer = refused(
                Kind::InvalidState,
                "there is nothing to commit".into(),
                Remedy::tell("edit first; when the work is complete, call the verb that hands it over"),
            );
            if let Some(refusal) = &mut answer.refusal {
                refusal.missing.push("nothing_to_commit".into());
            }
            Decision::new(answer)
        }
        EffectResult::CommitRefused { problems } => Decision::new(refused(
            Kind::InvalidState,
            format!("the commit was refused: {}", problems.join("; ")),
            Remedy::call(Verb::Commit, "remove what is named here, then call commit(message) again"),
        )),
        EffectResult::Failed { reason } => Decision::new(refused(
            Kind::Unavailable,
            format!("the commit of {} failed: {reason}", task.number),
            Remedy::call(Verb::Commit, "wait some seconds and call commit(message) again"),
        )),
        _ => Decision::default(),
    }
}

fn on_gate(task: &Task, record: GateRecord) -> Decision {
    let current = task.stage == Stage::SelfCheck && task.delivery.tree.as_ref() == Some(&record.tree);
    if record.verdict == GateVerdict::Failed {
        let tail = record.tail.clone().unwrap_or_default();
        let shown: String = tail.chars().skip(tail.chars().count().saturating_sub(limits::GATE_TAIL_CHARS)).collect();
        let mut rejection = Rejection::gap(
            vec!["gate".into()],
            Remedy::call(Verb::IAmDone, format!("mend this, commit, and call i_am_done again. {}", record.summary)),
        );
        rejection.message = format!("the project's checks failed: {}\n{shown}", record.summary);
        return Decision::new(Answer { refusal: Some(rejection), ..Answer::default() }).event(Event::GateFailed { record });
    }
    let warning =
        (record.verdict == GateVerdict::NotConfigured).then(|| "the project has no checks configured; nothing was run".to_owned());
    let author = task.ownership.assignee;
    let handed = author.filter(|_| current).map(|author| Event::HandedToQa { author });
    Decision::new(Answer { warning, ..Answer::next("end your turn; QA has it") }).event(Event::GatePassed { record }).events(handed)
}

fn on_landed(world: &Snapshot, task: &Task, merged: Merged, fresh: &Fresh) -> Decision {
    let decided = world.inbox.iter().filter(|i| i.decision.is_none());
    let decided = decided.map(|i| Event::InboxDecided { number: i.number, decision: "approved".into() }).collect::<Vec<_>>();
    let evidence = vec![("merge_commit", merged.commit.to_string().into()), ("target", task.delivery.target.to_string().into())];
    let part = part_ended(task, PartState::Completed, Some(&merged));
    let mut decision = Decision::new(Answer { evidence, ..Answer::next("it is merged") });
    decision.also.extend(part);
    decision.event(Event::MergeLanded { merged }).event(Event::TaskCompleted {}).events(decided).effect(clean_up(task, fresh.intent()))
}

/// What the end of a task means for the work it is a part of.
pub(crate) fn part_ended(task: &Task, state: PartState, merged: Option<&Merged>) -> Option<(TaskId, Event)> {
    task.parent.map(|whole| (whole, Event::PartEnded { part: task.id, state, merged: merged.cloned() }))
}

fn on_refusal(world: &Snapshot, task: &Task, refusal: &LandRefusal) -> Decision {
    let target = &task.delivery.target;
    let (kind, reason, remedy) = match refusal {
        LandRefusal::Conflict { paths } => (
            Kind::InvalidState,
            format!("{} conflicts with {target} in {}", task.number, paths.iter().take(10).cloned().collect::<Vec<_>>().join(", ")),
            Remedy::call(Verb::Reject, format!("send it back: `roboco reject {} \"conflicts with {target}\"`", task.number)),
        ),
        LandRefusal::DirtyCheckout { paths } => (
            Kind::Unavailable,
            format!("your checkout of {target} has uncommitted changes ({})", paths.iter().take(5).cloned().collect::<Vec<_>>().join(", ")),
            Remedy::tell("commit or stash them, then approve again"),
        ),
        LandRefusal::Protected { text } => (
            Kind::Unavailable,
            format!("the origin refused the push to {target}: {text}"),
            Remedy::tell("allow the push at the origin, then approve again"),
        ),
        LandRefusal::GateFailed { tail } => (
            Kind::InvalidState,
            format!("the checks fail on the merge of {} with {target}:\n{tail}", task.number),
            Remedy::call(Verb::Reject, format!("send it back: `roboco reject {} \"fails together with {target}\"`", task.number)),
        ),
        LandRefusal::Unavailable { text } => {
            (Kind::Unavailable, format!("{} could not be merged: {text}", task.number), Remedy::tell("approve again in a minute"))
        }
    };
    // A PM can neither reject nor approve again: what its merge came to is decided below.
    let remedy = if task.delivery.ceo_target { remedy } else { Remedy::tell("end your turn; whoever can mend it has it now") };
    let mends_itself = matches!(refusal, LandRefusal::Conflict { .. } | LandRefusal::GateFailed { .. });
    // Below the CEO's branches a conflict goes straight back to its author; twice in a row a human decides.
    let finding = (!task.delivery.ceo_target && mends_itself)
        .then(|| heavy_finding(task, FindingOrigin::System, &format!("it merges with {target} and its checks pass there"), &reason));
    let again = finding.is_some() && task.counters.conflicts >= 1;
    let held = if again {
        hold_for_ceo(world, task, HoldReason::Rounds, &reason)
    } else if finding.is_none() && !task.delivery.ceo_target {
        // Only a person can mend it, and asking the PM again and again would not.
        hold_for_ceo(world, task, HoldReason::Blocked, &reason)
    } else {
        Vec::new()
    };
    Decision::new(refused(kind, reason.clone(), remedy)).event(Event::MergeRefused { reason, finding }).events(held)
}
