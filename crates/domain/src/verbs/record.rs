//! Notes and progress: what the next role will want to know.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Subject, subject};
use crate::event::Event;
use crate::guard::GuardContext;
use crate::input::clamp;
use crate::limits;
use crate::rejection::Rejection;
use crate::role::words;
use crate::snapshot::{Answer, Decision};

words! {
    /// What a note is for.
    Scope {
        /// Anything.
        Note = "note",
        /// A choice and its reason.
        Decision = "decision",
        /// A look back.
        Reflect = "reflect",
        /// Something reusable.
        Learning = "learning",
        /// What stops you.
        Struggle = "struggle",
        /// For the next role.
        Handoff = "handoff",
    }
}

/// Arguments of `note`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// What it says.
    pub text: String,
    /// What it is for; `note` when left out.
    #[serde(default)]
    pub scope: Option<Scope>,
    /// The task it belongs to; the task you were started for when left out.
    #[serde(default)]
    pub task_id: Option<String>,
}

impl Subject for Note {
    fn task_ref(&self) -> Option<&str> {
        self.task_id.as_deref()
    }
}

/// Arguments of `progress`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// The task: `T-142`, its id, or a unique prefix of it.
    pub task_id: String,
    /// What moved.
    pub message: String,
    /// The plan step that is done, counted from 1.
    #[serde(default)]
    pub plan_step: Option<u32>,
}

subject!(Progress => task_id);

pub(crate) fn note(_: GuardContext<'_>, args: &Note) -> Decision {
    Decision::new(Answer { word: Some("noted"), ..Answer::next("go on") }).event(Event::NoteRecorded {
        scope: args.scope.unwrap_or(Scope::Note).as_str().into(),
        text: clamp(&args.text, limits::NOTES_CHARS).into_owned(),
    })
}

pub(crate) fn progress(cx: GuardContext<'_>, args: &Progress) -> Result<Decision, Rejection> {
    let steps = cx.task.plan.as_ref().map_or(0, |p| p.steps.len());
    let step = match args.plan_step {
        None => None,
        Some(n) if n >= 1 && (n as usize) <= steps => Some(n as usize - 1),
        Some(_) => return Err(Rejection::incomplete(cx.call.verb(), "plan_step", &format!("a step from 1 to {steps}"))),
    };
    Ok(Decision::new(Answer { word: Some("noted"), ..Answer::next("go on") })
        .event(Event::ProgressReported { message: clamp(&args.message, limits::NOTES_CHARS).into_owned(), step }))
}
