//! The verbs, one file each where there is something to say: arguments and the decision they lead to.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

pub use approve::Approve;
pub use assemble::{DeclareCoverage, Delegate, Reassign, SubmitWhole};
pub use commit::Commit;
pub use create_task::CreateTask;
pub use document::IDocumented;
pub use done::{CriterionEvidence, IAmDone, ResolvedFinding};
pub use hold::{Because, IAmBlocked, Pause};
pub use pm::{Complete, RequestChanges};
pub use record::{Note, Progress};
pub use review::{CriterionVerdict, Fail, FindingInput, Pass, finding_problems};
pub use work::{IWillWorkOn, OpenPr, StepInput, SyncBranch};

use crate::guard::GuardContext;
use crate::rejection::Rejection;
use crate::snapshot::Decision;
use crate::verb::Call;

pub mod approve;
pub mod assemble;
pub mod commit;
pub mod create_task;
pub mod document;
pub mod done;
pub mod hold;
pub mod pm;
pub mod record;
pub mod review;
pub mod settle;
pub mod spawn;
pub mod work;

/// Arguments that may name a task.
pub(crate) trait Subject {
    /// The task as it was typed.
    fn task_ref(&self) -> Option<&str>;
}

macro_rules! subject {
    ($($name:ty => $field:ident),* $(,)?) => {$(
        impl Subject for $name {
            fn task_ref(&self) -> Option<&str> {
                Some(&self.$field)
            }
        }
    )*};
}
pub(crate) use subject;

/// No arguments.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoArgs {}

impl Subject for NoArgs {
    fn task_ref(&self) -> Option<&str> {
        None
    }
}

/// Only the task.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnTask {
    /// The task: `T-142`, its id, or a unique prefix of it.
    pub task_id: String,
}

subject!(OnTask => task_id);

/// The free text of a call that must say something.
pub(crate) fn prose_of(call: &Call) -> Option<&str> {
    match call {
        Call::Pass(args) => Some(&args.notes),
        Call::Complete(args) => Some(&args.notes),
        Call::PrPass(args) => Some(&args.notes),
        Call::SubmitUp(args) | Call::SubmitRoot(args) => Some(&args.notes),
        Call::IAmBlocked(args) => Some(&args.reason),
        Call::DeclareCoverage(args) => Some(&args.reason),
        Call::Reassign(args) => Some(&args.reason),
        Call::Unblock(args) | Call::EscalateUp(args) | Call::EscalateToCeo(args) | Call::Cancel(args) | Call::Reject(args) => {
            Some(&args.reason)
        }
        Call::Note(args) => Some(&args.text),
        Call::Progress(args) => Some(&args.message),
        _ => None,
    }
}

/// The argument that free text comes in.
pub(crate) fn prose_field(call: &Call) -> Option<&'static str> {
    match call {
        Call::Pass(_) | Call::Complete(_) | Call::PrPass(_) | Call::SubmitUp(_) | Call::SubmitRoot(_) => Some("notes"),
        Call::DeclareCoverage(_)
        | Call::Reassign(_)
        | Call::IAmBlocked(_)
        | Call::Unblock(_)
        | Call::EscalateUp(_)
        | Call::EscalateToCeo(_)
        | Call::Cancel(_)
        | Call::Reject(_) => Some("reason"),
        Call::Note(_) => Some("text"),
        Call::Progress(_) => Some("message"),
        _ => None,
    }
}

/// What an accepted call comes to. Rules and guards have been asked already.
///
/// # Errors
/// A refusal that only the verb itself can know.
pub(crate) fn decide(cx: GuardContext<'_>, fresh: &crate::command::Fresh) -> Result<Decision, Rejection> {
    match cx.call {
        Call::IWillWorkOn(args) => work::claim(cx, args, fresh),
        Call::OpenPr(args) => Ok(work::open_pr(cx, args)),
        Call::SyncBranch(args) => work::sync(cx, args, fresh),
        Call::IWillPlan(args) => assemble::plan(cx, args, fresh),
        Call::Delegate(args) => assemble::delegate(cx, args, fresh),
        Call::DeclareCoverage(args) => Ok(assemble::declare_coverage(cx, args)),
        Call::Reassign(args) => assemble::reassign(cx, args),
        Call::SubmitUp(args) | Call::SubmitRoot(args) => Ok(assemble::submit(cx, args)),
        Call::Unclaim(_) => Ok(work::unclaim(cx, fresh)),
        Call::IAmDone(args) => done::submit(cx, args, fresh),
        Call::IAmBlocked(args) => Ok(hold::blocked(cx, args)),
        Call::Resume(_) => Ok(hold::resume(cx)),
        Call::Pause(args) => Ok(hold::pause(cx, args)),
        Call::Unblock(args) => Ok(hold::unblock(cx, args)),
        Call::EscalateUp(args) => Ok(hold::escalate_up(cx, args)),
        Call::EscalateToCeo(args) => Ok(hold::escalate_to_ceo(cx, args)),
        Call::Cancel(args) => Ok(hold::cancel(cx, args, fresh)),
        Call::ClaimReview(_) | Call::ClaimGateReview(_) => review::claim(cx, fresh),
        Call::Pass(args) => Ok(review::pass(cx, args, fresh)),
        Call::PrPass(args) => Ok(review::pass_gate(cx, &args.notes, fresh)),
        Call::Fail(args) | Call::PrFail(args) => Ok(review::fail(cx, args, fresh)),
        Call::ClaimDocTask(_) => document::claim(cx),
        Call::IDocumented(args) => document::record(cx, args),
        Call::Activate(_) => Ok(pm::activate(cx)),
        Call::Complete(args) => pm::complete(cx, args, fresh),
        Call::RequestChanges(args) => Ok(pm::request_changes(cx, args)),
        Call::Commit(args) => commit::commit(cx, args, fresh),
        Call::Note(args) => Ok(record::note(cx, args)),
        Call::Progress(args) => record::progress(cx, args),
        Call::Approve(args) => approve::approve(cx, args, fresh),
        Call::Reject(args) => Ok(approve::reject(cx, args)),
        Call::Evidence(_) => Ok(Decision::new(crate::snapshot::Answer::next("judge from this; nothing was changed"))),
        // These name no task and are decided before a task is looked for.
        Call::GiveMeWork(_) | Call::IAmIdle(_) | Call::CreateTask(_) => Ok(Decision::default()),
    }
}

/// Hints gathered while arguments are read, by field.
pub(crate) type Hints = BTreeMap<String, String>;
