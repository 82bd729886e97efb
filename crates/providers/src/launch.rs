//! What goes into starting a client, and what comes out of it. Secrets live in environment values and private files only.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use secrecy::{ExposeSecret, SecretString};

/// Which account in the container or process the client runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunsAs {
    /// Uid 0.
    Root,
    /// Any other uid.
    User,
}

/// Whether walls stand around the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confinement {
    /// It runs inside a sandbox; questions about permissions are off, because the sandbox is the permission.
    Confined(RunsAs),
    /// It runs as an ordinary process; it keeps its own permission rules.
    Unconfined,
}

/// Whether the client gets tools that write files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileAccess {
    /// Developers and documenters.
    Write,
    /// Everyone else.
    ReadOnly,
}

/// How the model provider is paid; the client only learns which kind of dummy credential to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// With a key.
    ApiKey,
    /// With a personal or team subscription.
    Subscription,
}

/// Which conversation to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Session<'a> {
    /// A new one under this id, a UUID.
    New(&'a str),
    /// The one with this id, as reported by an earlier [`crate::ClientEvent::Ready`].
    Resume(&'a str),
}

/// Caps the client keeps by itself. None by default: the runtime has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunCaps {
    /// Most turns of the model.
    pub turns: Option<u32>,
    /// Most money, in millionths of a US dollar.
    pub usd_micros: Option<u64>,
}

/// Where a scripted agent finds its play.
#[derive(Debug, Clone, Copy)]
pub struct Play<'a> {
    /// The play file, as seen inside the sandbox.
    pub file: &'a Path,
    /// The directory of the files it writes, as seen inside the sandbox.
    pub files: &'a Path,
}

/// What a client is started with. All paths are as seen inside the sandbox.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    /// The program to run; for the scripted provider the `roboco` binary.
    pub program: &'a Path,
    /// The model, by the provider's own name; absent means the client's default.
    pub model: Option<&'a str>,
    /// Standing instructions, added to the client's own.
    pub system_prompt: &'a str,
    /// The first user message.
    pub brief: &'a str,
    /// The same as data, for clients that do not read prose.
    pub facts: &'a serde_json::Value,
    /// Where the verbs are.
    pub mcp_url: &'a str,
    /// Proves to the verbs, and to the model gateway, which spawn speaks.
    pub agent_token: &'a SecretString,
    /// Where the model is.
    pub model_base_url: &'a str,
    /// Which kind of dummy credential to send.
    pub login: Login,
    /// Which conversation.
    pub session: Session<'a>,
    /// The private home directory.
    pub home: &'a Path,
    /// Whether walls stand around it.
    pub confinement: Confinement,
    /// Whether it may write files.
    pub files: FileAccess,
    /// Caps the client keeps by itself.
    pub caps: RunCaps,
    /// The play of a scripted agent.
    pub play: Option<Play<'a>>,
}

/// One value of the environment.
#[derive(Clone)]
pub enum EnvValue {
    /// May be shown.
    Plain(String),
    /// Never shown.
    Secret(SecretString),
}

impl EnvValue {
    /// The value itself, for the one place that starts the process.
    pub fn expose(&self) -> &str {
        match self {
            Self::Plain(value) => value,
            Self::Secret(value) => value.expose_secret(),
        }
    }
}

impl fmt::Debug for EnvValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(value) => value.fmt(f),
            Self::Secret(_) => f.write_str("[redacted]"),
        }
    }
}

impl From<&str> for EnvValue {
    fn from(value: &str) -> Self {
        Self::Plain(value.to_owned())
    }
}

/// A file the client needs in its home.
#[derive(Debug, Clone)]
pub struct HomeFile {
    /// Relative to the home.
    pub path: String,
    /// What is in it; may carry a secret.
    pub content: SecretString,
    /// Unix permission bits.
    pub mode: u32,
}

/// Everything needed to start a client.
#[derive(Debug, Clone)]
pub struct ClientSpec {
    /// Program and arguments; carries no secret.
    pub argv: Vec<String>,
    /// The environment, without `HOME`, `PATH` and locale.
    pub env: BTreeMap<String, EnvValue>,
    /// Files to write below the home before the start.
    pub files: Vec<HomeFile>,
    /// Lines to send to standard input right after the start; standard input stays open.
    pub first_input: Vec<String>,
}

/// A client cannot be started like this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// A path is not UTF-8.
    #[error("{what} is not valid UTF-8: choose a path without special bytes")]
    Path {
        /// Which path.
        what: &'static str,
    },
    /// A value would be read as an option or is not usable.
    #[error("{what} {value:?} cannot be used: {why}")]
    Value {
        /// Which value.
        what: &'static str,
        /// The value, cut; never a secret.
        value: String,
        /// What would be accepted.
        why: &'static str,
    },
    /// A scripted agent without a play.
    #[error("a scripted agent needs a play: set `play` to a play file")]
    NoPlay,
}

/// `path` as text.
pub(crate) fn utf8<'p>(path: &'p Path, what: &'static str) -> Result<&'p str, ProviderError> {
    path.to_str().ok_or(ProviderError::Path { what })
}

/// Refuses values that a command line would misread.
pub(crate) fn plain_value<'v>(value: &'v str, what: &'static str) -> Result<&'v str, ProviderError> {
    let bad = value.is_empty() || value.starts_with('-') || value.chars().any(|c| c.is_control() || c.is_whitespace());
    if bad {
        let why = "it must be one word that does not start with a dash";
        return Err(ProviderError::Value { what, value: value.chars().take(80).collect(), why });
    }
    Ok(value)
}

/// Refuses anything but an HTTP address.
pub(crate) fn http_url<'v>(value: &'v str, what: &'static str) -> Result<&'v str, ProviderError> {
    if value.starts_with("http://") || value.starts_with("https://") {
        return plain_value(value, what);
    }
    let why = "it must start with http:// or https://";
    Err(ProviderError::Value { what, value: value.chars().take(80).collect(), why })
}
