//! `roboco bridge flow` and `roboco bridge do`: MCP servers on standard input and output, for clients that speak MCP no other way.
//!
//! They hold nothing and decide nothing. Names, schemas and help come from the registry this binary was built with, every call goes to the
//! control plane, and every answer is one text block: the envelope without keys that say nothing. Calls run side by side, so a client that
//! asks whether the server still lives hears it while a verb takes its time. When the input ends, calls under way are still answered.
//!
//! Environment: `ROBOCO_AGENT_ID`, `ROBOCO_AGENT_ROLE`, `ROBOCO_AGENT_TOKEN`, `ROBOCO_ORCHESTRATOR_URL`, `ROBOCO_SDK_URL`,
//! `ROBOCO_TOOL_MANIFEST_PATH`, `ROBOCO_ALLOW_FULL_TOOLSET`, `ROBOCO_FLOW_VERB_TIMEOUT_SECONDS`.

mod answer;
mod forward;
mod manifest;
mod settings;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::rc::Rc;

use roboco_domain::limits;
use roboco_domain::rejection::Kind;
use roboco_domain::verb::Verb;
use serde_json::{Map, Value, json};
use tokio::task::{AbortHandle, JoinSet, LocalSet};
use uuid::Uuid;

use crate::environment::Environment;
use crate::lines::Lines;
use crate::{EXIT_BROKEN, EXIT_CONFIG, EXIT_USAGE, USAGE, fail};
use answer::{Called, Payload};
use forward::Forward;
pub(crate) use manifest::Namespace;
use settings::Settings;

/// The versions of MCP in which these few messages are the same, the newest last.
const VERSIONS: &[&str] = &["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// Longest message that is read, in bytes. More than the control plane accepts, so that what is too long can be answered.
const LINE_BYTES: usize = 8 * limits::BODY_BYTES;
const INSTRUCTIONS: &str = "Tools of your role in the company. Every answer is one JSON object: `next` says what to call next. When `error` \
                            is set, do what `remediate` says; the same call again gets the same answer.";

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const NO_SUCH_METHOD: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;

/// Serves one namespace until the input ends.
pub(crate) fn main(namespace: Namespace, args: Vec<OsString>) -> ExitCode {
    if !args.is_empty() {
        return fail(EXIT_USAGE, USAGE);
    }
    let server = match Server::new(namespace, &Environment::read()) {
        Ok(server) => Rc::new(server),
        Err(problem) => return fail(EXIT_CONFIG, &problem),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(EXIT_BROKEN, &format!("cannot start an async runtime: {error}")),
    };
    let result = LocalSet::new().block_on(&runtime, serve(&server));
    // A thread may still wait for standard input; nobody waits for it.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(EXIT_BROKEN, &format!("cannot read from the client: {error}")),
    }
}

async fn serve(server: &Rc<Server>) -> std::io::Result<()> {
    let mut input = Lines::new(tokio::io::stdin(), LINE_BYTES);
    let mut calls = JoinSet::new();
    while let Some(line) = input.next().await? {
        while calls.try_join_next().is_some() {}
        if line.bytes.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match server.hear(&line.bytes) {
            Heard::Answer(answer) => say(&answer),
            Heard::Call(call) => {
                let key = call.id.to_string();
                let running = Rc::clone(server);
                let handle = calls.spawn_local(async move {
                    let id = call.id.clone();
                    let answer = running.call(call).await;
                    running.under_way.borrow_mut().remove(&id.to_string());
                    say(&answer);
                });
                server.under_way.borrow_mut().insert(key, handle);
            }
            Heard::Nothing => {}
        }
    }
    while calls.join_next().await.is_some() {}
    Ok(())
}

/// One message on standard output. A client that does not read any more also closes our input, which ends the server.
fn say(message: &Value) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{message}").and_then(|()| out.flush()).unwrap_or_default();
}

/// A tool call that was understood.
struct ToolCall {
    id: Value,
    name: String,
    arguments: Map<String, Value>,
}

/// What a message asks for.
enum Heard {
    Answer(Value),
    Call(ToolCall),
    Nothing,
}

struct Server {
    verbs: Vec<Verb>,
    forward: Forward,
    /// Tells the calls of this process from those of any other.
    session: Uuid,
    under_way: RefCell<HashMap<String, AbortHandle>>,
}

impl Server {
    /// A server for the agent that the environment names, or why there can be none.
    fn new(namespace: Namespace, environment: &Environment) -> Result<Self, String> {
        let mut settings = Settings::from(environment).map_err(|error| error.to_string())?;
        let tools = manifest::tools(namespace, settings.role, &settings.manifest).map_err(|error| error.to_string())?;
        settings.prefer_team(tools.team);
        for warning in settings.warnings.iter().chain(&tools.warnings) {
            eprintln!("roboco bridge {}: {warning}", namespace.word());
        }
        let forward = Forward { namespace, settings };
        Ok(Self { verbs: tools.verbs, forward, session: Uuid::new_v4(), under_way: RefCell::default() })
    }

    fn hear(&self, line: &[u8]) -> Heard {
        let Ok(mut message) = serde_json::from_slice::<Value>(line) else {
            return Heard::Answer(error(&Value::Null, PARSE_ERROR, "this line is no JSON, or too long"));
        };
        let Some(fields) = message.as_object_mut() else {
            return Heard::Answer(error(&Value::Null, INVALID_REQUEST, "send one JSON-RPC message a line"));
        };
        let params = fields.get_mut("params").map(Value::take).unwrap_or_default();
        let id = fields.get_mut("id").map(Value::take);
        match (fields.get("method").and_then(Value::as_str), id) {
            (Some(method), Some(id @ (Value::Number(_) | Value::String(_)))) => self.request(method, id, params),
            (Some("notifications/cancelled"), None) => {
                // Whoever cancels does not wait for an answer. What the control plane has begun it ends by itself.
                if let Some(call) = self.under_way.borrow_mut().remove(&params["requestId"].to_string()) {
                    call.abort();
                }
                Heard::Nothing
            }
            (Some(_), None) => Heard::Nothing,
            // An answer to something that was never asked.
            (None, Some(_)) if fields.contains_key("result") || fields.contains_key("error") => Heard::Nothing,
            _ => Heard::Answer(error(&Value::Null, INVALID_REQUEST, "this is no JSON-RPC request")),
        }
    }

    fn request(&self, method: &str, id: Value, mut params: Value) -> Heard {
        let result = match method {
            "initialize" => self.introduction(params["protocolVersion"].as_str()),
            "ping" => json!({}),
            "tools/list" => self.listing(),
            "tools/call" => {
                let arguments = match params.get_mut("arguments").map(Value::take) {
                    None | Some(Value::Null) => Map::new(),
                    Some(Value::Object(map)) => map,
                    Some(_) => return Heard::Answer(error(&id, INVALID_PARAMS, "the arguments of a tool are an object")),
                };
                return match params["name"].as_str() {
                    Some(name) => Heard::Call(ToolCall { id, name: name.to_owned(), arguments }),
                    None => Heard::Answer(error(&id, INVALID_PARAMS, "a call names its tool")),
                };
            }
            other => {
                let other: String = other.chars().take(60).collect();
                return Heard::Answer(error(&id, NO_SUCH_METHOD, &format!("there is no method {other:?}")));
            }
        };
        Heard::Answer(json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    fn introduction(&self, asked: Option<&str>) -> Value {
        let version = VERSIONS.iter().find(|known| Some(**known) == asked).or(VERSIONS.last());
        json!({
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": self.forward.namespace.server(), "version": env!("CARGO_PKG_VERSION")},
            "instructions": INSTRUCTIONS,
        })
    }

    fn listing(&self) -> Value {
        let tool = |verb: &Verb| json!({"name": verb.as_str(), "description": verb.help(), "inputSchema": verb.schema()});
        json!({"tools": self.verbs.iter().map(tool).collect::<Vec<_>>()})
    }

    /// Runs a tool call to its end.
    async fn call(&self, call: ToolCall) -> Value {
        let ToolCall { id, name, arguments } = call;
        let correlation = self.correlation(&id, &name, &arguments);
        let payload = match self.verbs.iter().find(|verb| verb.as_str() == name) {
            Some(verb) => self.forward.call(*verb, arguments, correlation).await,
            None => self.unknown(&name, correlation),
        };
        let says_no = payload.get("error").is_some_and(|error| !error.is_null());
        let text = Value::Object(answer::compact(payload)).to_string();
        json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}], "isError": says_no}})
    }

    fn unknown(&self, name: &str, correlation: Uuid) -> Payload {
        let name: String = name.chars().take(60).collect();
        let known = self.verbs.iter().map(|verb| verb.as_str()).collect::<Vec<_>>().join(", ");
        let role = self.forward.settings.role;
        let called = Called { verb: &name, path: "", role, correlation };
        let message = format!("{name:?} is not among the tools of the role {role} here");
        answer::refusal(called, Kind::NotFound, &message, &format!("the tools of this server are {known}"))
    }

    /// One id for each call: a request that is sent again with its number keeps the id, so that the control plane can tell the repetition.
    fn correlation(&self, id: &Value, name: &str, arguments: &Map<String, Value>) -> Uuid {
        let call = json!([id, name, arguments]).to_string();
        let hashed = Uuid::new_v5(&self.session, call.as_bytes());
        // Nobody outside can compute it, so it is as good as random, and it is marked as such.
        uuid::Builder::from_random_bytes(*hashed.as_bytes()).into_uuid()
    }
}

fn error(id: &Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}
