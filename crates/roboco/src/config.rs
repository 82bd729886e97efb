//! Settings: what installations have a reason to differ in. The comments of these types are the text of `docs/settings.md`.
//!
//! Everything else is a constant beside the code it governs. Parts are handed to whoever needs them; no other crate knows this type.

mod docs;
mod memory;
mod names;
mod sources;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

pub(crate) use docs::reference;
pub(crate) use memory::MemoryLimit;
pub(crate) use sources::{ConfigError, Loaded, data_dir, load};

/// Every setting.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Where people reach the company.
    pub(crate) server: Server,
    /// Where its records are kept.
    pub(crate) database: Database,
    /// Who works here.
    pub(crate) company: Company,
    /// How much happens at once.
    pub(crate) runtime: Pace,
    /// Where agents are confined.
    pub(crate) sandbox: Sandbox,
    /// The clients agents run on.
    pub(crate) providers: Providers,
    /// Which agent runs on which client.
    pub(crate) routing: Routing,
    /// What the server says on standard error.
    pub(crate) log: Log,
}

/// Where people reach the company.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Server {
    /// The address `roboco up` listens on. Another one than 127.0.0.1 lets other machines in: put a proxy with TLS in front.
    pub(crate) host: String,
    /// The port `roboco up` listens on; 0 takes a free one. The demo always takes a free one.
    pub(crate) port: u16,
    /// The address under which a proxy makes the server known, like `https://roboco.example.org`; empty when there is none.
    pub(crate) public_base_url: String,
}

impl Default for Server {
    fn default() -> Self {
        Self { host: "127.0.0.1".into(), port: 8000, public_base_url: String::new() }
    }
}

/// Where its records are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Database {
    /// `sqlite` keeps them in `roboco.db` in the data directory; `postgres://user:password@host/name` keeps them there.
    #[serde(serialize_with = "without_password")]
    pub(crate) url: String,
}

impl Default for Database {
    fn default() -> Self {
        Self { url: "sqlite".into() }
    }
}

/// Who works here.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Company {
    /// A folder with your own `roster.toml` and `prompts/`; empty uses the company that comes with the program.
    pub(crate) dir: PathBuf,
}

/// How much happens at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Pace {
    /// Agents that run at the same time. Each is a client process with its own memory and its own use of the model.
    pub(crate) max_spawns: usize,
    /// Project checks that run at the same time. Each may compile or test with as many threads as it likes.
    pub(crate) max_jobs: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self { max_spawns: 4, max_jobs: 2 }
    }
}

/// Where agents are confined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Sandbox {
    /// What makes sandboxes.
    pub(crate) driver: DriverKind,
    /// What happens where nothing can confine an agent. `allow` runs agents and checks with your own rights.
    pub(crate) unconfined: Unconfined,
    /// Folders with tools (compilers, package caches) that agents and checks may read. Known credential files in them are hidden.
    pub(crate) tool_dirs: Vec<PathBuf>,
    /// What an agent can reach. `door` is the company and nothing else; `host` is everything this machine reaches.
    pub(crate) network: Network,
    /// Memory of one agent with everything it starts, like `6 GiB`; what goes over it is killed. `auto` is 4 GiB where control groups work
    /// and no limit elsewhere, `none` is no limit. Where control groups do not work, a limit holds for each process alone; `roboco doctor`
    /// tells which it is.
    pub(crate) memory: MemoryLimit,
    /// Processes and threads of one agent at the same time.
    pub(crate) pids: u64,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self {
            driver: DriverKind::default(),
            unconfined: Unconfined::default(),
            tool_dirs: Vec::new(),
            network: Network::default(),
            memory: MemoryLimit::default(),
            pids: 1024,
        }
    }
}

/// What makes sandboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DriverKind {
    /// Processes of this machine, confined by bubblewrap.
    #[default]
    Process,
}

/// What happens where nothing can confine an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unconfined {
    /// Only our own scripted agents run.
    #[default]
    Refuse,
    /// Everything runs with the rights of the server.
    Allow,
}

/// What an agent can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Network {
    /// The company and, through it, the model.
    #[default]
    Door,
    /// Everything this machine reaches.
    Host,
}

/// The clients agents run on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Providers {
    /// Claude Code.
    pub(crate) claude: Claude,
}

/// Claude Code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Claude {
    /// The program: a name to look up in `PATH`, or a path.
    pub(crate) command: String,
    /// How the model is paid. `host` uses the login of your own client on this machine, read anew for every request; `key` sends `key` as
    /// an API key; `token` sends it as a long-lived token; `none` sends nothing, for an upstream that wants nothing.
    pub(crate) login: Login,
    /// The API key or token; never shown, never given to an agent. Better set by `ROBOCO_PROVIDERS__CLAUDE__KEY` than in a file.
    pub(crate) key: Secret,
    /// Where the model is.
    pub(crate) upstream: String,
    /// Which model a class of work gets.
    pub(crate) models: Models,
}

impl Default for Claude {
    fn default() -> Self {
        let row = &roboco_providers::table::CLAUDE;
        Self {
            command: row.program.into(),
            login: Login::Host,
            key: Secret::default(),
            upstream: row.upstream.unwrap_or_default().into(),
            models: Models::default(),
        }
    }
}

/// How a model is paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Login {
    /// The login of the user's own client.
    Host,
    /// An API key.
    Key,
    /// A long-lived token.
    Token,
    /// Nothing.
    None,
}

/// Which model a class of work gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Models {
    /// For everyday work.
    pub(crate) standard: String,
    /// For judgement.
    pub(crate) strong: String,
}

impl Default for Models {
    fn default() -> Self {
        let row = &roboco_providers::table::CLAUDE;
        Self { standard: row.standard.unwrap_or_default().into(), strong: row.strong.unwrap_or_default().into() }
    }
}

/// Which agent runs on which client. An agent's own line goes before its role's, and that before the default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Routing {
    /// The client of everybody who is not named below: `claude`, or `scripted` for agents that play a script.
    pub(crate) default: String,
    /// By role, like `role = { qa = "claude" }`.
    pub(crate) role: BTreeMap<String, String>,
    /// By agent, like `agent = { be-dev-1 = "claude" }`.
    pub(crate) agent: BTreeMap<String, String>,
}

impl Default for Routing {
    fn default() -> Self {
        Self { default: "claude".into(), role: BTreeMap::new(), agent: BTreeMap::new() }
    }
}

/// What the server says on standard error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Log {
    /// How much: `error`, `warn`, `info`, `debug`, `trace`, or a list like `info,roboco_git=trace`.
    pub(crate) filter: String,
    /// `text` for people, `json` for programs.
    pub(crate) format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Self { filter: "info".into(), format: LogFormat::Text }
    }
}

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// A value that is never shown.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(from = "String")]
#[schemars(with = "String")]
pub(crate) struct Secret(SecretString);

impl Secret {
    /// The value, for the one place that uses it; `None` when it is not set.
    pub(crate) fn get(&self) -> Option<SecretString> {
        (!self.0.expose_secret().is_empty()).then(|| self.0.clone())
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.expose_secret() == other.0.expose_secret()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.get().is_some() { "[hidden]" } else { "[not set]" })
    }
}

impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(if self.get().is_some() { "[hidden]" } else { "" })
    }
}

fn without_password<S: serde::Serializer>(url: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&shown_url(url))
}

/// A database address without its password.
pub(crate) fn shown_url(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, place))) => format!("{scheme}://…@{place}"),
        _ => url.to_owned(),
    }
}
