//! What a client tells us, in one vocabulary for all clients.

use std::time::Duration;

use roboco_domain::outcome::Outcome;
use roboco_domain::time::Timestamp;

/// Where a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// Standard output: events.
    Out,
    /// Standard error: remarks for people.
    Err,
}

/// How a process ended. Both absent when that is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exit {
    /// Its exit code, when it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// Whether the client reached its verbs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpState {
    /// The verbs are there.
    Connected,
    /// Still connecting when the client reported.
    Pending,
    /// They are not, and the run must not go on; the text says what was seen.
    Failed(String),
}

/// Tokens, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    /// Fresh input.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Input read from the cache.
    pub cache_read: u64,
    /// Input written to the cache.
    pub cache_write: u64,
}

impl Tokens {
    /// Whether nothing was used.
    pub fn is_zero(self) -> bool {
        self == Self::default()
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
        }
    }

    /// What is in `self` beyond `other`, kind by kind, never below zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_sub(other.input),
            output: self.output.saturating_sub(other.output),
            cache_read: self.cache_read.saturating_sub(other.cache_read),
            cache_write: self.cache_write.saturating_sub(other.cache_write),
        }
    }
}

/// What a session has used, as the client reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spend {
    /// Tokens.
    pub tokens: Tokens,
    /// Millionths of a US dollar.
    pub usd_micros: u64,
}

/// A tool the client used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolName {
    /// One of our verbs, bare: `open_pr`.
    Verb(String),
    /// A tool of the client's own, as it names it: `Bash`.
    Client(String),
}

impl ToolName {
    /// Reads a tool name as a client writes it: `mcp__roboco__open_pr` is the verb `open_pr`.
    pub fn read(name: &str) -> Self {
        const PREFIXES: [&str; 3] = ["mcp__roboco__", "mcp__roboco-flow__", "mcp__roboco-do__"];
        PREFIXES
            .iter()
            .find_map(|prefix| name.strip_prefix(prefix))
            .filter(|verb| !verb.is_empty())
            .map_or_else(|| Self::Client(name.to_owned()), |verb| Self::Verb(verb.to_owned()))
    }

    /// The name without any prefix.
    pub fn bare(&self) -> &str {
        match self {
            Self::Verb(name) | Self::Client(name) => name,
        }
    }
}

/// One wait before the client asks the model again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// HTTP status it was answered with; absent when there was no answer.
    pub status: Option<u16>,
    /// Counts from 1.
    pub attempt: u32,
    /// How long it will wait.
    pub delay: Duration,
}

/// How one turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEnd {
    /// The client said it is done.
    Finished,
    /// It was interrupted and takes the next message.
    Interrupted,
    /// It gave up; one line for a person.
    Failed(String),
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientEvent {
    /// The client is up. Told again when one of the three changes.
    Ready {
        /// Its session id, for a later resume.
        session: Option<String>,
        /// The model it uses, if it said so.
        model: Option<String>,
        /// Whether it reached its verbs.
        mcp: McpState,
    },
    /// The model wrote text.
    Text(String),
    /// The model's visible reasoning.
    Thinking(String),
    /// The model uses a tool.
    ToolCall {
        /// Matches the result.
        id: String,
        /// Which tool.
        tool: ToolName,
        /// Its arguments as JSON.
        input: serde_json::Value,
    },
    /// A tool answered.
    ToolResult {
        /// Matches the call.
        id: String,
        /// Whether the tool succeeded.
        ok: bool,
        /// What it answered, as text.
        text: String,
    },
    /// Tokens used since the last such event.
    Usage(Tokens),
    /// Money spent since the last such event, in millionths of a US dollar.
    Cost(u64),
    /// The model did not answer; the client waits and asks again.
    Retrying(Retry),
    /// The provider refuses until a limit resets, at the moment given if it said so.
    Limited(Option<Timestamp>),
    /// The provider is overloaded or cannot be reached.
    Overloaded,
    /// The provider refused the login or key.
    AuthFailed,
    /// The conversation no longer fits the model.
    ContextFull,
    /// The turn is over.
    TurnDone(TurnEnd),
    /// A line that is not an event, cut to a safe length.
    Note(String),
}

/// How a client process ended, as far as the client can know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// Its last turn ended well. Whether the work is done is for the verbs to say.
    Finished,
    /// Its last turn was interrupted.
    Interrupted,
    /// See [`Outcome::RateLimited`].
    RateLimited {
        /// When it said it will accept work again.
        until: Option<Timestamp>,
    },
    /// See [`Outcome::Overloaded`].
    Overloaded {
        /// When it said to come back.
        until: Option<Timestamp>,
    },
    /// See [`Outcome::AuthMissing`].
    AuthMissing {
        /// What to do about it.
        remedy: String,
    },
    /// The client did not reach its verbs.
    GatewayBroken {
        /// What was seen.
        detail: String,
    },
    /// The conversation no longer fits the model: the next spawn needs a new session.
    ContextFull,
    /// The client's own limit of turns was reached.
    TurnLimit,
    /// The client's own limit of money was reached.
    Budget,
    /// The session to resume does not exist: the next spawn needs a new one.
    SessionLost,
    /// It died, or gave up for a reason of its own.
    Crashed {
        /// Exit code, if it ended by itself.
        code: Option<i32>,
        /// One line for a person.
        detail: String,
    },
}

impl Ending {
    /// The outcome this ending is for the spawn. Absent when the client ended as it should: then accepted verbs, or whoever stopped it,
    /// decide.
    pub fn outcome(&self) -> Option<Outcome> {
        let crashed = |detail: &str| Some(Outcome::Crashed { code: None, detail: detail.to_owned() });
        match self {
            Self::Finished | Self::Interrupted => None,
            Self::RateLimited { until } => Some(Outcome::RateLimited { until: *until }),
            Self::Overloaded { until } => Some(Outcome::Overloaded { until: *until }),
            Self::AuthMissing { remedy } => Some(Outcome::AuthMissing { remedy: remedy.clone() }),
            Self::GatewayBroken { detail } => Some(Outcome::GatewayBroken { detail: detail.clone() }),
            Self::Budget => Some(Outcome::BudgetStop),
            Self::ContextFull => crashed("the conversation no longer fits the model; the next spawn starts a new session"),
            Self::TurnLimit => crashed("the client's limit of turns was reached"),
            Self::SessionLost => crashed("the session to resume does not exist; the next spawn starts a new session"),
            Self::Crashed { code, detail } => Some(Outcome::Crashed { code: *code, detail: detail.clone() }),
        }
    }
}

/// `text` in one line of at most `chars` characters.
pub(crate) fn one_line(text: &str, chars: usize) -> String {
    let mut line = String::new();
    let mut used = 0usize;
    for word in text.split_whitespace() {
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        for c in word.chars() {
            if used >= chars {
                line.push('…');
                return line;
            }
            line.push(c);
            used += 1;
        }
    }
    line
}

/// How an exit reads in a sentence.
pub(crate) fn describe(exit: Exit) -> String {
    match (exit.code, exit.signal) {
        (_, Some(signal)) => format!("killed by signal {signal}"),
        (Some(code), None) => format!("exit code {code}"),
        (None, None) => "gone without an exit code".to_owned(),
    }
}
