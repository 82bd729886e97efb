//! What the model does: plays for conversations, steps inside a play.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::Request;

type When = Arc<dyn Fn(&Request) -> bool + Send + Sync>;

/// The arguments of a tool, fixed or made from the request.
#[derive(Clone)]
pub enum Input {
    /// Always these.
    Fixed(Value),
    /// Made from the conversation, for example from the answer of an earlier tool.
    Made(Arc<dyn Fn(&Request) -> Value + Send + Sync>),
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(value) => value.fmt(f),
            Self::Made(_) => f.write_str("made from the request"),
        }
    }
}

/// One thing the model does.
#[derive(Debug, Clone)]
pub struct Step {
    pub(crate) action: Action,
    /// How often it still happens; absent means always.
    left: Option<Arc<AtomicU32>>,
}

#[derive(Debug, Clone)]
pub(crate) enum Action {
    Text(String),
    Tool { name: String, input: Input },
    Refuse(Refusal),
    Cut,
    Hang,
}

/// An error answer.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) kind: String,
    pub(crate) message: String,
    pub(crate) headers: BTreeMap<String, String>,
}

impl Step {
    const fn always(action: Action) -> Self {
        Self { action, left: None }
    }

    /// Ends the turn with a text.
    pub fn text(text: &str) -> Self {
        Self::always(Action::Text(text.to_owned()))
    }

    /// Uses the tool with this full name.
    pub fn tool(name: &str, input: Value) -> Self {
        Self::always(Action::Tool { name: name.to_owned(), input: Input::Fixed(input) })
    }

    /// Uses a tool with arguments made from the conversation.
    pub fn tool_with(name: &str, input: impl Fn(&Request) -> Value + Send + Sync + 'static) -> Self {
        Self::always(Action::Tool { name: name.to_owned(), input: Input::Made(Arc::new(input)) })
    }

    /// Uses a verb of the server `roboco`.
    pub fn verb(verb: &str, input: Value) -> Self {
        Self::tool(&format!("mcp__roboco__{verb}"), input)
    }

    /// Uses a verb of the server `roboco` with arguments made from the conversation.
    pub fn verb_with(verb: &str, input: impl Fn(&Request) -> Value + Send + Sync + 'static) -> Self {
        Self::tool_with(&format!("mcp__roboco__{verb}"), input)
    }

    /// Answers with an error. It stands in front of the next step: while it happens that step waits.
    pub fn refuse(status: u16, kind: &str, message: &str) -> Self {
        let refusal = Refusal { status, kind: kind.to_owned(), message: message.to_owned(), headers: BTreeMap::new() };
        Self::always(Action::Refuse(refusal))
    }

    /// Breaks the connection in the middle of an answer. Stands in front of the next step.
    pub const fn cut() -> Self {
        Self::always(Action::Cut)
    }

    /// Never answers. Stands in front of the next step.
    pub const fn hang() -> Self {
        Self::always(Action::Hang)
    }

    /// Adds a header to an error answer.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Action::Refuse(refusal) = &mut self.action {
            refusal.headers.insert(name.to_owned(), value.to_owned());
        }
        self
    }

    /// Lets a failing step happen only so often, counted over all conversations; then it is skipped.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.left = Some(Arc::new(AtomicU32::new(times)));
        self
    }

    const fn fails(&self) -> bool {
        matches!(self.action, Action::Refuse(_) | Action::Cut | Action::Hang)
    }

    /// Whether a failing step happens now; uses up one of its times.
    fn happens(&self) -> bool {
        self.left.as_ref().is_none_or(|left| left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok())
    }
}

/// What the model does in the conversations it is meant for.
#[derive(Clone)]
pub struct Play {
    when: When,
    steps: Vec<Step>,
}

impl fmt::Debug for Play {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Play").field("steps", &self.steps).finish_non_exhaustive()
    }
}

impl Play {
    /// For conversations that `when` says yes to.
    pub fn new(when: impl Fn(&Request) -> bool + Send + Sync + 'static, steps: Vec<Step>) -> Self {
        Self { when: Arc::new(when), steps }
    }

    /// For conversations whose instructions or first message contain `marker`.
    pub fn mentioning(marker: &str, steps: Vec<Step>) -> Self {
        let marker = marker.to_owned();
        Self::new(move |request| request.mentions(&marker), steps)
    }

    /// For every conversation.
    pub fn always(steps: Vec<Step>) -> Self {
        Self::new(|_| true, steps)
    }

    /// The step for this request. `None` means the play is over, and the model has nothing left to say.
    fn step(&self, request: &Request) -> Option<&Step> {
        let done = request.tool_results().len();
        let mut answered = 0;
        for step in &self.steps {
            if step.fails() {
                if answered == done && step.happens() {
                    return Some(step);
                }
            } else if answered == done {
                return Some(step);
            } else {
                answered += 1;
            }
        }
        None
    }
}

/// Everything the model can play; the first play that fits a conversation is played.
#[derive(Debug, Clone, Default)]
pub struct Script {
    plays: Vec<Play>,
}

/// What the model does next.
pub(crate) enum Next<'s> {
    Step(&'s Step),
    Over,
    NoPlay,
}

impl Script {
    /// A script of these plays.
    pub const fn new(plays: Vec<Play>) -> Self {
        Self { plays }
    }

    /// Reads a script:
    /// `{"plays": [{"mentioning": "be-dev-1", "steps": [{"status": 529, "times": 2}, {"tool": "Bash", "input": {}}, {"text": "done"}]}]}`.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let file: ScriptFile = serde_json::from_str(text)?;
        Ok(Self::new(file.plays.into_iter().map(PlayFile::into_play).collect()))
    }

    pub(crate) fn next(&self, request: &Request) -> Next<'_> {
        let play = self.plays.iter().find(|play| (play.when)(request));
        play.map_or(Next::NoPlay, |play| play.step(request).map_or(Next::Over, Next::Step))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptFile {
    plays: Vec<PlayFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlayFile {
    #[serde(default)]
    mentioning: String,
    steps: Vec<StepFile>,
}

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum StepFile {
    Text {
        text: String,
    },
    Tool {
        tool: String,
        #[serde(default)]
        input: Value,
    },
    Status {
        status: u16,
        #[serde(default)]
        kind: String,
        #[serde(default)]
        message: String,
        #[serde(default)]
        headers: BTreeMap<String, String>,
        times: Option<u32>,
    },
}

impl PlayFile {
    fn into_play(self) -> Play {
        // Every text contains the empty one, so a play without a marker fits always.
        Play::mentioning(&self.mentioning, self.steps.into_iter().map(StepFile::into_step).collect())
    }
}

impl StepFile {
    fn into_step(self) -> Step {
        match self {
            Self::Text { text } => Step::text(&text),
            Self::Tool { tool, input } => Step::tool(&tool, if input.is_null() { json!({}) } else { input }),
            Self::Status { status, kind, message, headers, times } => {
                let step = headers.iter().fold(Step::refuse(status, &kind, &message), |step, (name, value)| step.header(name, value));
                times.map_or(step.clone(), |times| step.times(times))
            }
        }
    }
}
