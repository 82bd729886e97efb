//! Calls of every verb: as a willing agent writes them, and as a careless one does.

use roboco_domain::finding::Severity;
use roboco_domain::input::TextList;
use roboco_domain::task::{Complexity, Nature, Task, TaskType};
use roboco_domain::verb::{Call, Verb};
use roboco_domain::verbs::{
    Approve, Because, Commit, Complete, CriterionEvidence, CriterionVerdict, DeclareCoverage, Delegate, Fail, FindingInput, IAmBlocked,
    IAmDone, IDocumented, IWillWorkOn, NoArgs, Note, OnTask, OpenPr, Pass, Pause, Progress, Reassign, RequestChanges, ResolvedFinding,
    StepInput, SubmitWhole, SyncBranch,
};

/// How well a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wording {
    /// Everything that is asked for is there.
    Full,
    /// Every text says nothing.
    Wordless,
    /// Every list is empty.
    Bare,
    /// Full, while the worktree holds changes nobody committed.
    OverUncommittedWork,
}

/// A text that says something when the wording is full.
fn text(wording: Wording) -> String {
    match wording {
        Wording::Full | Wording::Bare | Wording::OverUncommittedWork => "the names are joined as asked".to_owned(),
        Wording::Wordless => "x".to_owned(),
    }
}

/// A list, unless it is left out.
fn told<T>(wording: Wording, things: impl FnOnce() -> Vec<T>) -> Vec<T> {
    if wording == Wording::Bare { Vec::new() } else { things() }
}

fn finding(wording: Wording) -> FindingInput {
    FindingInput {
        severity: if wording == Wording::Wordless { Severity::Nit } else { Severity::Major },
        expected: "names are joined".into(),
        actual: "the second name is lost".into(),
        file: None,
        line: None,
        criterion: None,
        fix: None,
    }
}

/// A call of a verb for a task; none for verbs that the model does not call.
pub fn call(verb: Verb, task: &Task, wording: Wording) -> Option<Call> {
    let task_id = task.number.to_string();
    let on_task = || OnTask { task_id: task.number.to_string() };
    let because = || Because { task_id: task.number.to_string(), reason: text(wording) };
    Some(match verb {
        Verb::GiveMeWork => Call::GiveMeWork(NoArgs {}),
        Verb::IAmIdle => Call::IAmIdle(NoArgs {}),
        Verb::CreateTask => return None,
        Verb::IWillWorkOn => Call::IWillWorkOn(planned(task_id, wording)),
        // Nothing is assembled in the model; these are called to see that they are refused, and how.
        Verb::IWillPlan
        | Verb::Delegate
        | Verb::DeclareCoverage
        | Verb::SubmitUp
        | Verb::SubmitRoot
        | Verb::ClaimGateReview
        | Verb::PrPass
        | Verb::PrFail => return call_on_a_whole(verb, task, wording),
        Verb::Reassign => Call::Reassign(Reassign { task_id, to: successor(task).into(), reason: text(wording) }),
        Verb::IAmDone => Call::IAmDone(IAmDone {
            task_id,
            notes: String::new(),
            criteria: told(wording, || {
                task.criteria.iter().map(|c| CriterionEvidence { id: c.id.to_string(), evidence: "test:joins".into() }).collect()
            }),
            resolved_findings: told(wording, || {
                task.open_findings().map(|f| ResolvedFinding { finding_id: f.id.to_string(), commit: None, note: None }).collect()
            }),
        }),
        Verb::Pass => Call::Pass(Pass {
            task_id,
            notes: text(wording),
            criteria_verified: told(wording, || {
                task.criteria.iter().map(|c| CriterionVerdict { criterion: c.id.to_string(), evidence: "ran the tests".into() }).collect()
            }),
        }),
        Verb::Fail => Call::Fail(Fail { task_id, findings: told(wording, || vec![finding(wording)]), notes: String::new() }),
        Verb::RequestChanges => Call::RequestChanges(RequestChanges { task_id, findings: told(wording, || vec![finding(wording)]) }),
        Verb::IDocumented => Call::IDocumented(IDocumented {
            task_id,
            notes: String::new(),
            files: TextList(told(wording, || vec!["docs/greet.md".to_owned()])),
            skip_reason: None,
        }),
        Verb::Complete => Call::Complete(Complete { task_id, notes: text(wording) }),
        Verb::IAmBlocked => {
            Call::IAmBlocked(IAmBlocked { task_id, reason: text(wording), blocker_type: None, what_needed: None, retry_after_s: None })
        }
        Verb::Unblock => Call::Unblock(because()),
        Verb::EscalateUp => Call::EscalateUp(because()),
        Verb::EscalateToCeo => Call::EscalateToCeo(because()),
        Verb::Cancel => Call::Cancel(because()),
        Verb::Reject => Call::Reject(because()),
        Verb::Commit => {
            let message = if wording == Wording::Wordless { "wip" } else { "feat(greet): join several names" };
            Call::Commit(Commit { message: message.into(), files: TextList::default() })
        }
        Verb::Note => Call::Note(Note { text: text(wording), scope: None, task_id: Some(task_id) }),
        Verb::Progress => Call::Progress(Progress { task_id, message: text(wording), plan_step: None }),
        Verb::OpenPr => Call::OpenPr(OpenPr { task_id, title: None }),
        Verb::Approve => Call::Approve(Approve { task_id, note: None, head: None }),
        Verb::SyncBranch => Call::SyncBranch(SyncBranch { task_id, from: None }),
        Verb::Unclaim => Call::Unclaim(on_task()),
        Verb::Resume => Call::Resume(on_task()),
        Verb::ClaimReview => Call::ClaimReview(on_task()),
        Verb::ClaimDocTask => Call::ClaimDocTask(on_task()),
        Verb::Activate => Call::Activate(on_task()),
        Verb::Evidence => Call::Evidence(on_task()),
        Verb::Pause => Call::Pause(Pause { task_id: task.number.to_string(), now: false }),
    })
}

fn planned(task_id: String, wording: Wording) -> IWillWorkOn {
    IWillWorkOn {
        task_id,
        plan: (wording != Wording::Wordless).then(|| text(wording)),
        steps: (wording != Wording::Bare).then(|| vec![StepInput { title: "join".into(), description: text(wording) }]),
        technical_considerations: TextList::default(),
        risks: Vec::new(),
        open_questions: TextList::default(),
    }
}

/// The other developer of the default backend cell.
fn successor(task: &Task) -> &'static str {
    const FIRST: uuid::Uuid = uuid::Uuid::from_u128(0x0000_0000_0000_0000_0001_0000_0000_0001);
    if task.ownership.assignee.is_some_and(|a| a.uuid() == FIRST) { "be-dev-2" } else { "be-dev-1" }
}

/// A call of a verb for assembled work.
fn call_on_a_whole(verb: Verb, task: &Task, wording: Wording) -> Option<Call> {
    let task_id = task.number.to_string();
    let all = || TextList(told(wording, || task.criteria.iter().map(|c| c.id.to_string()).collect()));
    let submitted = || SubmitWhole { task_id: task.number.to_string(), notes: text(wording), resolved_findings: Vec::new() };
    Some(match verb {
        Verb::IWillPlan => Call::IWillPlan(planned(task_id, wording)),
        Verb::Delegate => Call::Delegate(Delegate {
            parent_task_id: task_id,
            title: text(wording),
            description: text(wording),
            assigned_to: "be-dev-1".into(),
            criteria: all(),
            task_type: Some(TaskType::Code),
            nature: Some(Nature::Technical),
            complexity: Some(Complexity::Low),
            covers: all(),
            touches: TextList(vec!["src/**".into()]),
            depends_on: TextList::default(),
            priority: None,
        }),
        Verb::DeclareCoverage => Call::DeclareCoverage(DeclareCoverage { task_id, criteria: all(), part: None, reason: text(wording) }),
        Verb::SubmitUp => Call::SubmitUp(submitted()),
        Verb::SubmitRoot => Call::SubmitRoot(submitted()),
        Verb::ClaimGateReview => Call::ClaimGateReview(OnTask { task_id }),
        Verb::PrPass => Call::PrPass(Complete { task_id, notes: text(wording) }),
        Verb::PrFail => Call::PrFail(Fail { task_id, findings: told(wording, || vec![finding(wording)]), notes: String::new() }),
        _ => return None,
    })
}

/// Whether a verb asks for what a call of this wording does not bring.
pub const fn asks_for_more(verb: Verb, wording: Wording) -> bool {
    let needs_words = matches!(
        verb,
        Verb::IWillWorkOn
            | Verb::Pass
            | Verb::Fail
            | Verb::Complete
            | Verb::RequestChanges
            | Verb::Reassign
            | Verb::IAmBlocked
            | Verb::Unblock
            | Verb::EscalateUp
            | Verb::EscalateToCeo
            | Verb::Cancel
            | Verb::Reject
            | Verb::Commit
            | Verb::Progress
            | Verb::Note
    );
    let needs_lists =
        matches!(verb, Verb::IWillWorkOn | Verb::IAmDone | Verb::Pass | Verb::Fail | Verb::RequestChanges | Verb::IDocumented);
    let looks_at_tree = matches!(verb, Verb::SyncBranch | Verb::IAmDone | Verb::IDocumented);
    match wording {
        Wording::Full => false,
        Wording::Wordless => needs_words,
        Wording::Bare => needs_lists,
        Wording::OverUncommittedWork => looks_at_tree,
    }
}
