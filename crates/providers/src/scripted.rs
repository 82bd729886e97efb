//! Scripted agents: `roboco bridge script` plays a file of verbs and edits inside the sandbox, over the same verbs as a real client.
//!
//! The player writes one JSON object a line: `ready`, `tool_call`, `tool_result`, `text`, `turn_done`, `error`. It keeps no session: its
//! steps are safe to repeat, so a resumed spawn starts its play again.

use std::collections::BTreeMap;

use roboco_domain::time::Timestamp;
use serde_json::Value;

use crate::event::{describe, one_line};
use crate::launch::{http_url, utf8};
use crate::{
    Channel, ClientEvent, ClientSpec, Ending, EnvValue, Exit, Launch, McpState, Parser, Provider, ProviderError, ProviderRow, Spend,
    ToolName, TurnEnd, table,
};

/// The provider's name.
pub const NAME: &str = "scripted";

/// The player ends with this code when a verb was refused and its play did not expect that.
pub const UNEXPECTED_REJECTION: i32 = 65;

/// Characters of a line that is not an event.
const NOTE_CHARS: usize = 500;

/// The driver of scripted agents.
#[derive(Debug, Clone, Copy)]
pub struct Scripted;

impl Provider for Scripted {
    fn row(&self) -> &'static ProviderRow {
        &table::SCRIPTED
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<ClientSpec, ProviderError> {
        let play = launch.play.ok_or(ProviderError::NoPlay)?;
        let env = BTreeMap::from([
            ("ROBOCO_MCP_URL".to_owned(), EnvValue::from(http_url(launch.mcp_url, "the address of the verbs")?)),
            ("ROBOCO_AGENT_TOKEN".to_owned(), EnvValue::Secret(launch.agent_token.clone())),
            ("ROBOCO_PLAY_FILE".to_owned(), EnvValue::from(utf8(play.file, "the play file")?)),
            ("ROBOCO_PLAY_FILES_DIR".to_owned(), EnvValue::from(utf8(play.files, "the directory of the play's files")?)),
        ]);
        Ok(ClientSpec {
            argv: vec![utf8(launch.program, "the roboco binary")?.to_owned(), "bridge".to_owned(), "script".to_owned()],
            env,
            files: Vec::new(),
            first_input: vec![launch.facts.to_string()],
        })
    }

    fn parser(&self, before: Spend) -> Box<dyn Parser> {
        Box::new(Reader { before, mcp: None, last: None, error: None, remark: String::new(), calls: 0, open: Vec::new() })
    }

    fn user_message(&self, text: &str) -> String {
        serde_json::json!({ "type": "user", "text": text }).to_string()
    }

    fn interrupt(&self) -> Option<String> {
        None
    }
}

struct Reader {
    before: Spend,
    mcp: Option<McpState>,
    /// How the last turn ended; absent while one runs.
    last: Option<TurnEnd>,
    error: Option<String>,
    /// The last line on standard error.
    remark: String,
    calls: u64,
    /// Calls without a result yet: number and tool.
    open: Vec<(u64, String)>,
}

impl Reader {
    fn event(&mut self, line: &Value) -> Option<ClientEvent> {
        let text = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let event = match text("type").as_str() {
            "ready" => {
                let mcp = match text("mcp").as_str() {
                    "connected" => McpState::Connected,
                    other => McpState::Failed(format!("the player reports its verbs as {other:?}")),
                };
                self.mcp = Some(mcp.clone());
                return Some(ClientEvent::Ready { session: None, model: None, mcp });
            }
            "text" => ClientEvent::Text(text("text")),
            "tool_call" => {
                self.calls += 1;
                self.open.push((self.calls, text("name")));
                let input = line.get("input").cloned().unwrap_or(Value::Null);
                // The player speaks to our verbs only, so its names are bare already.
                ClientEvent::ToolCall { id: self.calls.to_string(), tool: ToolName::Verb(text("name")), input }
            }
            "tool_result" => {
                let name = text("name");
                let at = self.open.iter().position(|(_, open)| *open == name)?;
                let (id, _) = self.open.remove(at);
                let ok = line.get("ok").and_then(Value::as_bool).unwrap_or(false);
                ClientEvent::ToolResult { id: id.to_string(), ok, text: text("text") }
            }
            "turn_done" => {
                let end = if line.get("ok").and_then(Value::as_bool) == Some(true) {
                    TurnEnd::Finished
                } else {
                    TurnEnd::Failed(self.error.clone().unwrap_or_else(|| "the play failed".to_owned()))
                };
                self.last = Some(end.clone());
                return Some(ClientEvent::TurnDone(end));
            }
            "error" => {
                let message = one_line(&text("message"), NOTE_CHARS);
                self.error = Some(message.clone());
                ClientEvent::Note(message)
            }
            _ => return None,
        };
        self.last = None;
        Some(event)
    }
}

impl Parser for Reader {
    fn line(&mut self, _now: Timestamp, channel: Channel, line: &str) -> Vec<ClientEvent> {
        if line.trim().is_empty() {
            return Vec::new();
        }
        let event = match channel {
            Channel::Out => serde_json::from_str::<Value>(line).ok().and_then(|value| self.event(&value)),
            Channel::Err => {
                self.remark = one_line(line, NOTE_CHARS);
                None
            }
        };
        vec![event.unwrap_or_else(|| ClientEvent::Note(one_line(line, NOTE_CHARS)))]
    }

    fn exit(&mut self, exit: Exit) -> Ending {
        if let Some(McpState::Failed(detail)) = &self.mcp {
            return Ending::GatewayBroken { detail: detail.clone() };
        }
        let said = self.error.clone().or_else(|| Some(self.remark.clone()).filter(|remark| !remark.is_empty()));
        let detail = |what: String| said.as_ref().map_or_else(|| what.clone(), |said| format!("{what}: {said}"));
        match (&self.last, exit.code) {
            (_, Some(UNEXPECTED_REJECTION)) => {
                Ending::Crashed { code: exit.code, detail: detail("a verb was refused and the play did not expect it".to_owned()) }
            }
            (Some(TurnEnd::Finished), _) => Ending::Finished,
            (Some(TurnEnd::Interrupted), _) => Ending::Interrupted,
            (Some(TurnEnd::Failed(why)), code) => Ending::Crashed { code, detail: format!("the play failed: {why}") },
            (None, code) => Ending::Crashed { code, detail: detail(format!("{} before the play was over", describe(exit))) },
        }
    }

    fn spent(&self) -> Spend {
        self.before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> (Box<dyn Parser>, Vec<ClientEvent>) {
        let mut parser = Scripted.parser(Spend::default());
        let events = lines.iter().flat_map(|line| parser.line(Timestamp::default(), Channel::Out, line)).collect();
        (parser, events)
    }

    const READY: &str = r#"{"type":"ready","mcp":"connected"}"#;

    #[test]
    fn a_play_reads_as_events_with_results_joined_to_their_calls() {
        let (mut parser, events) = read(&[
            READY,
            r#"{"type":"tool_call","name":"i_will_work_on","input":{"task_id":"T-1"}}"#,
            r#"{"type":"tool_call","name":"note","input":{}}"#,
            r#"{"type":"tool_result","name":"note","ok":false,"text":"no"}"#,
            r#"{"type":"tool_result","name":"i_will_work_on","ok":true,"text":"yes"}"#,
            r#"{"type":"text","text":"429 rate limit exceeded"}"#,
            "not json",
            r#"{"type":"turn_done","ok":true}"#,
        ]);
        let verb = |name: &str| ToolName::Verb(name.to_owned());
        assert_eq!(
            events,
            [
                ClientEvent::Ready { session: None, model: None, mcp: McpState::Connected },
                ClientEvent::ToolCall { id: "1".into(), tool: verb("i_will_work_on"), input: serde_json::json!({"task_id": "T-1"}) },
                ClientEvent::ToolCall { id: "2".into(), tool: verb("note"), input: serde_json::json!({}) },
                ClientEvent::ToolResult { id: "2".into(), ok: false, text: "no".into() },
                ClientEvent::ToolResult { id: "1".into(), ok: true, text: "yes".into() },
                ClientEvent::Text("429 rate limit exceeded".into()),
                ClientEvent::Note("not json".into()),
                ClientEvent::TurnDone(TurnEnd::Finished),
            ]
        );
        assert_eq!(parser.exit(Exit { code: Some(0), signal: None }), Ending::Finished);
    }

    #[test]
    fn endings_come_from_what_the_player_said() {
        let code = |code| Exit { code: Some(code), signal: None };
        let killed = Exit { code: None, signal: Some(9) };
        let done = r#"{"type":"turn_done","ok":true}"#;
        let failed = r#"{"type":"turn_done","ok":false}"#;
        let refused = r#"{"type":"error","message":"open_pr was refused: not_authorized"}"#;
        let text = r#"{"type":"text","text":"on"}"#;
        let crashed = |code, detail: &str| Ending::Crashed { code, detail: detail.to_owned() };
        for (lines, exit, expected) in [
            (vec![READY, done], killed, Ending::Finished),
            (vec![READY, text], code(0), crashed(Some(0), "exit code 0 before the play was over")),
            (vec![READY, done, text], killed, crashed(None, "killed by signal 9 before the play was over")),
            (vec![READY, failed], code(1), crashed(Some(1), "the play failed: the play failed")),
            (
                vec![READY, refused],
                code(65),
                crashed(Some(65), "a verb was refused and the play did not expect it: open_pr was refused: not_authorized"),
            ),
            (
                vec![r#"{"type":"ready","mcp":"failed"}"#, done],
                code(0),
                Ending::GatewayBroken { detail: "the player reports its verbs as \"failed\"".to_owned() },
            ),
            (vec![], code(2), crashed(Some(2), "exit code 2 before the play was over")),
        ] {
            let (mut parser, _) = read(&lines);
            assert_eq!(parser.exit(exit), expected, "{lines:?}");
        }
    }
}
