//! The endpoints over the state of one session, without network and clock.

use std::time::Duration;

use hyper::{Method, StatusCode};
use roboco_domain::role::Role;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::counters::{Attempted, Counters, Key};
use super::usage::{ToolCalled, ToolRecorded, Usage};

/// Longest word in a request that is kept, in bytes.
const WORD_BYTES: usize = 300;

/// The session of one agent. Gone with the process, and never shared by two runs.
#[derive(Debug, Default)]
pub(super) struct Session {
    agent: Option<String>,
    role: Option<Role>,
    /// The conversation that was begun last, when its client named it.
    conversation: Option<String>,
    counters: Counters,
    usage: Usage,
}

/// The answer to a request.
pub(super) type Reply = (StatusCode, Value);

/// The start of a conversation. One that goes on after its memory was shortened names itself again and keeps its counts.
#[derive(Debug, Default, Deserialize)]
struct Reset {
    #[serde(default)]
    session_id: Option<String>,
}

impl Session {
    pub(super) fn new(agent: Option<String>, role: Option<Role>) -> Self {
        Self { agent, role, ..Self::default() }
    }

    /// Who is served here. The only thing that is told without a token.
    pub(super) fn health(&self) -> Reply {
        (StatusCode::OK, json!({"status": "ok", "agent_id": self.agent}))
    }

    /// Answers a request whose token was right.
    pub(super) fn answer(&mut self, method: &Method, path: &str, query: &str, body: &[u8], now: Duration) -> Reply {
        let result = match (method, path) {
            (&Method::POST, "/verb/attempted") => {
                read::<Attempted>(body).and_then(|one| to_value(&self.counters.attempted(one, self.role, now)))
            }
            (&Method::GET, "/verb/circuit_status") => key(query).and_then(|key| to_value(&self.counters.verdict(key, self.role, now))),
            (&Method::POST, "/budget/tool_called") => read::<ToolCalled>(body).map(|called| {
                self.usage.called(called);
                self.usage.budget()
            }),
            (&Method::GET, "/budget/status") => Ok(self.usage.budget()),
            (&Method::POST, "/budget/reset") => self.reset(body),
            (&Method::POST, "/terminal/tool_recorded") => read::<ToolRecorded>(body).map(|recorded| {
                self.usage.recorded(&recorded);
                self.usage.ending()
            }),
            (&Method::GET, "/terminal/status") => Ok(self.usage.ending()),
            (&Method::POST, "/terminal/stop_attempt") => {
                self.usage.stop_attempted();
                Ok(self.usage.ending())
            }
            _ => return unknown(method, path),
        };
        match result {
            Ok(value) => (StatusCode::OK, value),
            Err(message) => problem(StatusCode::UNPROCESSABLE_ENTITY, "INVALID_INPUT", &message, "send the request again as described"),
        }
    }

    fn reset(&mut self, body: &[u8]) -> Result<Value, String> {
        let reset: Reset = if body.iter().all(u8::is_ascii_whitespace) { Reset::default() } else { read(body)? };
        let goes_on = reset.session_id.is_some() && reset.session_id == self.conversation;
        if !goes_on {
            *self = Self { conversation: reset.session_id, ..Self::new(self.agent.take(), self.role) };
        }
        Ok(json!({"status": "ok", "reset": !goes_on}))
    }
}

/// An error in the shape of the control plane's.
pub(super) fn problem(status: StatusCode, code: &str, message: &str, remediate: &str) -> Reply {
    (status, json!({"error": {"code": code, "message": message, "remediate": remediate, "details": {}}}))
}

const PATHS: &[(&str, &str)] = &[
    ("GET", "/health"),
    ("POST", "/verb/attempted"),
    ("GET", "/verb/circuit_status"),
    ("POST", "/budget/tool_called"),
    ("GET", "/budget/status"),
    ("POST", "/budget/reset"),
    ("POST", "/terminal/tool_recorded"),
    ("GET", "/terminal/status"),
    ("POST", "/terminal/stop_attempt"),
];

fn unknown(method: &Method, path: &str) -> Reply {
    match PATHS.iter().find(|(_, known)| *known == path) {
        Some((right, _)) => {
            let message = format!("{method} is not possible at {path}");
            problem(StatusCode::METHOD_NOT_ALLOWED, "INVALID_INPUT", &message, &format!("send it with {right}"))
        }
        None => {
            let known = PATHS.iter().map(|(_, path)| *path).collect::<Vec<_>>().join(", ");
            problem(StatusCode::NOT_FOUND, "NOT_FOUND", "there is nothing here", &format!("this sidecar has {known}"))
        }
    }
}

/// Reads a body whose words are short enough to be kept.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    let value: Value = serde_json::from_slice(body).map_err(|error| format!("the body is no JSON: {error}"))?;
    if let Some((name, _)) =
        value.as_object().into_iter().flatten().find(|(_, word)| word.as_str().is_some_and(|word| word.len() > WORD_BYTES))
    {
        return Err(format!("{name} is longer than {WORD_BYTES} bytes"));
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn to_value(verdict: &impl serde::Serialize) -> Result<Value, String> {
    serde_json::to_value(verdict).map_err(|error| error.to_string())
}

/// The verb and the task that a query asks about.
fn key(query: &str) -> Result<Key, String> {
    let mut key = Key { verb: String::new(), task: None };
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "verb" => key.verb = decoded(value)?,
            "task_id" => key.task = Some(decoded(value)?).filter(|task| !task.is_empty()),
            _ => {}
        }
    }
    if key.verb.is_empty() { Err("the query names no verb: ?verb=…&task_id=…".to_owned()) } else { Ok(key) }
}

/// A value of a query as it was meant: `+` is a space, `%2D` a hyphen.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let code = digit().zip(digit()).map(|(high, low)| high * 16 + low).and_then(|code| u8::try_from(code).ok());
                code.ok_or_else(|| format!("{text:?} is not well written"))?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| format!("{text:?} is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_read_as_they_were_meant() {
        for (query, expected) in [
            ("verb=i_am_done", Ok(("i_am_done", None))),
            ("task_id=T%2D7&verb=i_am_done&x=y", Ok(("i_am_done", Some("T-7")))),
            ("verb=a+b&task_id=", Ok(("a b", None))),
            ("verb=%C3%A4", Ok(("ä", None))),
            ("", Err(())),
            ("task_id=T-7", Err(())),
            ("verb=%4", Err(())),
            ("verb=%zz", Err(())),
            ("verb=%ff", Err(())),
        ] {
            let read = key(query);
            assert_eq!(read.as_ref().map(|key| (key.verb.as_str(), key.task.as_deref())).map_err(|_| ()), expected, "{query}");
        }
    }

    #[test]
    fn a_conversation_that_goes_on_keeps_its_counts() {
        let mut session = Session::new(Some("a".into()), None);
        let mut post = |path: &str, body: &str| session.answer(&Method::POST, path, "", body.as_bytes(), Duration::ZERO);
        let call = r#"{"tool": "Bash", "args_hash": "a"}"#;
        for (body, reset, left) in [
            (r#"{"session_id": "one"}"#, true, 1),
            (r#"{"session_id": "one", "source": "compact"}"#, false, 2),
            (r#"{"session_id": "two"}"#, true, 1),
            ("", true, 1),
        ] {
            assert_eq!(post("/budget/reset", body).1["reset"], reset, "{body}");
            assert_eq!(post("/budget/tool_called", call).1["total"], left, "{body}");
        }
        assert_eq!(session.health().1["agent_id"], "a");
    }
}
