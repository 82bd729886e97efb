//! Refusals by policy. A refusal without a way out cannot be built.

use std::collections::BTreeMap;

use crate::id::TaskId;
use crate::role::words;
use crate::verb::Verb;

words! {
    /// Why a call was refused or failed; the closed list on the wire.
    Kind {
        /// No such thing.
        NotFound = "not_found",
        /// Not this caller.
        NotAuthorized = "not_authorized",
        /// Not now.
        InvalidState = "invalid_state",
        /// Something must be recorded or done first.
        TracingGap = "tracing_gap",
        /// The arguments are missing or wrong.
        IncompleteInput = "incomplete_input",
        /// An earlier task goes first.
        SequenceHeld = "sequence_held",
        /// Too many refusals of the same call.
        CircuitOpen = "circuit_open",
        /// A newer spawn of the same seat took over.
        Superseded = "superseded",
        /// The decision was made on something that has changed since.
        StaleEvidence = "stale_evidence",
        /// Something outside does not answer right now.
        Unavailable = "unavailable",
        /// The verb took longer than its wall.
        GatewayTimeout = "gateway_timeout",
        /// A bug or a broken database.
        InternalError = "internal_error",
        /// No answer came back.
        TransportError = "transport_error",
    }
}

impl Kind {
    /// Whether a refusal of this kind counts towards the breaker.
    pub const fn counts(self) -> bool {
        matches!(self, Self::TracingGap | Self::IncompleteInput | Self::InvalidState | Self::NotAuthorized)
    }
}

/// What to do about a refusal: one concrete call that this caller can make now, or something only a person can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remedy {
    /// The verb to call next, when there is one.
    pub verb: Option<Verb>,
    /// The sentence.
    pub text: String,
}

impl Remedy {
    /// Call this verb.
    pub fn call(verb: Verb, text: impl Into<String>) -> Self {
        Self { verb: Some(verb), text: text.into() }
    }
    /// Do this; no verb helps.
    pub fn tell(text: impl Into<String>) -> Self {
        Self { verb: None, text: text.into() }
    }
}

/// A refusal by policy: nothing was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Why.
    pub kind: Kind,
    /// What was wrong, in a sentence.
    pub message: String,
    /// The way out.
    pub remedy: Remedy,
    /// Tokens of everything that is missing, all at once.
    pub missing: Vec<String>,
    /// A hint per wrong argument.
    pub field_hints: BTreeMap<String, String>,
    /// The task it is about.
    pub task: Option<TaskId>,
}

impl Rejection {
    /// A refusal with its way out.
    pub fn new(kind: Kind, message: impl Into<String>, remedy: Remedy) -> Self {
        Self { kind, message: message.into(), remedy, missing: Vec::new(), field_hints: BTreeMap::new(), task: None }
    }

    /// One wrong or missing argument.
    pub fn incomplete(verb: Verb, field: &str, hint: &str) -> Self {
        Self::incomplete_all(verb, [(field.to_owned(), hint.to_owned())].into())
    }

    /// Several wrong or missing arguments.
    pub fn incomplete_all(verb: Verb, hints: BTreeMap<String, String>) -> Self {
        let fields = hints.keys().cloned().collect::<Vec<_>>();
        let listed = hints.iter().map(|(field, hint)| format!("{field}: {hint}")).collect::<Vec<_>>().join("; ");
        Self {
            missing: fields,
            field_hints: hints,
            ..Self::new(
                Kind::IncompleteInput,
                format!("{verb}: the arguments are incomplete or wrong ({listed})"),
                Remedy::call(verb, format!("call {verb} again with these arguments corrected: {listed}")),
            )
        }
    }

    /// Something must be done first; `missing` names all of it.
    pub fn gap(missing: Vec<String>, remedy: Remedy) -> Self {
        let listed = if missing.is_empty() { "(unspecified)".to_owned() } else { missing.join(", ") };
        let message = format!("not yet: {listed}. {}", remedy.text);
        Self { missing, ..Self::new(Kind::TracingGap, message, remedy) }
    }

    /// The same refusal, saying which task it is about.
    #[must_use]
    pub fn about(mut self, task: TaskId) -> Self {
        self.task = Some(task);
        self
    }
}
