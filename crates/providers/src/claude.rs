//! Claude Code as a long-lived session: JSON lines in, JSON lines out, verbs over HTTP, the model through our gateway.
//!
//! Permissions: inside confinement all questions are off, because the sandbox is the permission; outside it every tool that is not in the
//! list is denied. Which built-in tools exist at all is an allow list, so a tool added by a later version of the client stays out. Settings
//! come from this command line alone: settings files, hooks, skills, sub-agents and `CLAUDE.md` of the tree and of the home are not loaded.

mod failure;
mod reader;

use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use uuid::Uuid;

use crate::launch::{http_url, plain_value, utf8};
use crate::{
    ClientSpec, Confinement, EnvValue, FileAccess, HomeFile, Launch, Login, Parser, Provider, ProviderError, ProviderRow, RunsAs, Session,
    Spend, table,
};

/// The provider's name.
pub const NAME: &str = "claude";

/// The name of the server with our verbs; verbs appear to the model as `mcp__roboco__<verb>`.
pub const MCP_SERVER: &str = "roboco";

/// Built-in tools for everyone.
const READ_TOOLS: [&str; 4] = ["Bash", "Glob", "Grep", "Read"];
/// Built-in tools for those who write files.
const WRITE_TOOLS: [&str; 2] = ["Edit", "Write"];
/// Named as denied too, for clients that ignore the allow list: no sub-agents, nothing that leaves the session or reaches the network.
const DENIED_TOOLS: [&str; 8] = ["Task", "Agent", "Workflow", "WebFetch", "WebSearch", "NotebookEdit", "CronCreate", "RemoteTrigger"];

/// Where the two private files are, relative to the home.
const MCP_FILE: &str = ".roboco/mcp.json";
const PROMPT_FILE: &str = ".roboco/system-prompt.md";

/// The driver of Claude Code.
#[derive(Debug, Clone, Copy)]
pub struct Claude;

impl Provider for Claude {
    fn row(&self) -> &'static ProviderRow {
        &table::CLAUDE
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<ClientSpec, ProviderError> {
        Ok(ClientSpec {
            argv: arguments(launch)?,
            env: environment(launch)?,
            files: vec![
                HomeFile { path: MCP_FILE.to_owned(), content: mcp_config(launch)?, mode: 0o600 },
                HomeFile { path: PROMPT_FILE.to_owned(), content: SecretString::from(launch.system_prompt), mode: 0o600 },
            ],
            first_input: vec![self.user_message(launch.brief)],
        })
    }

    fn parser(&self, before: Spend) -> Box<dyn Parser> {
        Box::new(reader::Reader::new(before))
    }

    fn user_message(&self, text: &str) -> String {
        json!({ "type": "user", "message": { "role": "user", "content": [{ "type": "text", "text": text }] } }).to_string()
    }

    fn interrupt(&self) -> Option<String> {
        Some(json!({ "type": "control_request", "request_id": "interrupt", "request": { "subtype": "interrupt" } }).to_string())
    }
}

fn arguments(launch: &Launch<'_>) -> Result<Vec<String>, ProviderError> {
    let home = utf8(launch.home, "the home directory")?;
    let mut argv = vec![utf8(launch.program, "the path of claude")?.to_owned()];
    let mut add = |words: &[&str]| argv.extend(words.iter().map(|word| (*word).to_owned()));
    add(&["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
    add(&["--strict-mcp-config", "--mcp-config", &format!("{home}/{MCP_FILE}")]);
    // From no place: a settings file in the tree was written by whoever wrote the code, and its hooks are commands that the client would
    // run in the sandbox of the one who checks that code. The word is one, because an empty word of its own is easily lost on the way.
    add(&["--setting-sources="]);
    add(&["--append-system-prompt-file", &format!("{home}/{PROMPT_FILE}")]);

    let (built_in, denied) = tools(launch.files);
    add(&["--tools", &built_in.join(","), "--disallowedTools", &denied.join(",")]);
    match launch.confinement {
        Confinement::Confined(_) => add(&["--dangerously-skip-permissions"]),
        Confinement::Unconfined => {
            let allowed = format!("{},mcp__{MCP_SERVER}", built_in.join(","));
            add(&["--permission-mode", "dontAsk", "--allowedTools", &allowed]);
        }
    }

    if let Some(model) = launch.model {
        add(&["--model", plain_value(model, "the model")?]);
    }
    match launch.session {
        Session::New(id) => add(&["--session-id", session(id)?]),
        Session::Resume(id) => add(&["--resume", session(id)?]),
    }
    if let Some(turns) = launch.caps.turns {
        add(&["--max-turns", &turns.to_string()]);
    }
    if let Some(micros) = launch.caps.usd_micros {
        add(&["--max-budget-usd", &format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)]);
    }
    Ok(argv)
}

fn tools(files: FileAccess) -> (Vec<&'static str>, Vec<&'static str>) {
    match files {
        FileAccess::Write => ([READ_TOOLS.as_slice(), &WRITE_TOOLS].concat(), DENIED_TOOLS.to_vec()),
        FileAccess::ReadOnly => (READ_TOOLS.to_vec(), [DENIED_TOOLS.as_slice(), &WRITE_TOOLS].concat()),
    }
}

/// The client reads the id as a UUID; anything else would end it at once.
fn session(id: &str) -> Result<&str, ProviderError> {
    let why = "it must be a UUID";
    match Uuid::parse_str(id) {
        Ok(_) => plain_value(id, "the session id"),
        Err(_) => Err(ProviderError::Value { what: "the session id", value: id.chars().take(80).collect(), why }),
    }
}

fn environment(launch: &Launch<'_>) -> Result<BTreeMap<String, EnvValue>, ProviderError> {
    // Both carry the agent's own token; the model gateway knows the agent by it and puts the real credential in its place. The kind
    // decides which features the client asks the vendor for, so it must match the kind of the real one.
    let credential = match launch.login {
        Login::ApiKey => "ANTHROPIC_API_KEY",
        Login::Subscription => "CLAUDE_CODE_OAUTH_TOKEN",
    };
    let mut env = BTreeMap::from([
        ("ANTHROPIC_BASE_URL".to_owned(), EnvValue::from(http_url(launch.model_base_url, "the address of the model")?)),
        (credential.to_owned(), EnvValue::Secret(launch.agent_token.clone())),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC".to_owned(), EnvValue::from("1")),
        ("DISABLE_AUTOUPDATER".to_owned(), EnvValue::from("1")),
        // Without it the verbs hide behind a search tool and models forget them.
        ("ENABLE_TOOL_SEARCH".to_owned(), EnvValue::from("false")),
    ]);
    if launch.confinement == Confinement::Confined(RunsAs::Root) {
        // Root may skip permission questions only when it says that it is in a sandbox, which must be true.
        env.insert("IS_SANDBOX".to_owned(), EnvValue::from("1"));
    }
    Ok(env)
}

fn mcp_config(launch: &Launch<'_>) -> Result<SecretString, ProviderError> {
    let url = http_url(launch.mcp_url, "the address of the verbs")?;
    let bearer = format!("Bearer {}", launch.agent_token.expose_secret());
    let server = json!({ "type": "http", "url": url, "headers": { "Authorization": bearer } });
    Ok(SecretString::from(json!({ "mcpServers": { MCP_SERVER: server } }).to_string()))
}
