//! Reads the JSON lines of one client process. Unknown lines and fields are skipped: the client adds some with every version.

use std::collections::BTreeSet;
use std::time::Duration;

use roboco_domain::time::Timestamp;
use serde_json::Value;

use super::MCP_SERVER;
use super::failure::Failure;
use crate::event::{describe, one_line};
use crate::reset;
use crate::{Channel, ClientEvent, Ending, Exit, McpState, Parser, Retry, Spend, Tokens, ToolName, TurnEnd};

/// Characters of a line that is not an event.
const NOTE_CHARS: usize = 500;
/// Where the client shows its own words in the model's place.
const NOT_A_MODEL: &str = "<synthetic>";

/// See the module.
pub(super) struct Reader {
    spent: Spend,
    /// Tokens of the running turn that were reported already, and the answers they came from.
    counted: Tokens,
    answers: BTreeSet<String>,
    ready: Option<(Option<String>, Option<String>, McpState)>,
    /// How the last turn ended; absent before the first and while one runs.
    last: Option<Ending>,
    /// What the last answer would mean if nothing followed it.
    pending: Option<Ending>,
    /// The last limit the client announced in this turn, with its reset.
    limit: Option<Option<Timestamp>>,
    remark: String,
}

impl Reader {
    pub(super) fn new(before: Spend) -> Self {
        Self {
            spent: before,
            counted: Tokens::default(),
            answers: BTreeSet::new(),
            ready: None,
            last: None,
            pending: None,
            limit: None,
            remark: String::new(),
        }
    }

    fn event(&mut self, line: &Value, now: Timestamp) -> Vec<ClientEvent> {
        let kind = text(line, "type");
        match (kind, text(line, "subtype")) {
            ("system", "init") => self.init(line),
            ("system", "api_retry") => vec![ClientEvent::Retrying(retry(line))],
            ("system", "model_fallback") => vec![ClientEvent::Note(one_line(&line.to_string(), NOTE_CHARS))],
            ("rate_limit_event", _) => self.announced_limit(line, now),
            ("assistant", _) => self.assistant(line, now),
            ("user", _) => self.tool_results(line),
            ("result", _) => self.result(line, now),
            ("system" | "stream_event" | "control_response", _) => Vec::new(),
            _ => vec![ClientEvent::Note(one_line(&line.to_string(), NOTE_CHARS))],
        }
    }

    /// A turn starts. The client repeats this for every turn; it is news only when something changed.
    fn init(&mut self, line: &Value) -> Vec<ClientEvent> {
        self.begin();
        let owned = |key| Some(text(line, key)).filter(|value| !value.is_empty()).map(str::to_owned);
        let (session, model, mcp) = (owned("session_id"), owned("model"), mcp_state(line));
        let state = (session.clone(), model.clone(), mcp.clone());
        if self.ready.as_ref() == Some(&state) {
            return Vec::new();
        }
        self.ready = Some(state);
        vec![ClientEvent::Ready { session, model, mcp }]
    }

    fn begin(&mut self) {
        self.last = None;
    }

    fn announced_limit(&mut self, line: &Value, now: Timestamp) -> Vec<ClientEvent> {
        let info = line.get("rate_limit_info").unwrap_or(line);
        // The same event also reports allowed requests and warnings, and whether paid overage takes over.
        if text(info, "status") != "rejected" || info.get("isUsingOverage").and_then(Value::as_bool) == Some(true) {
            return Vec::new();
        }
        let until = info.get("resetsAt").and_then(Value::as_i64).and_then(|at| reset::epoch(at, now));
        self.limit = Some(until);
        vec![ClientEvent::Limited(until)]
    }

    fn assistant(&mut self, line: &Value, now: Timestamp) -> Vec<ClientEvent> {
        self.begin();
        let message = line.get("message").unwrap_or(&Value::Null);
        if text(message, "model") == NOT_A_MODEL || line.get("is_api_error_message").and_then(Value::as_bool) == Some(true) {
            let failure = Failure::read(line);
            self.pending = Some(failure.ending(self.limit, now));
            return vec![ClientEvent::Note(failure.detail())];
        }
        self.pending = None;
        let mut events: Vec<ClientEvent> = blocks(message).filter_map(said).collect();
        // One answer comes as several lines that repeat its id and its usage.
        if self.answers.insert(text(message, "id").to_owned()) {
            let used = message.get("usage").map(snake_tokens).unwrap_or_default();
            events.extend(self.used(used));
        }
        events
    }

    /// Counts tokens inside a turn, so that a killed client has not worked for nothing. The end of the turn brings the exact number.
    fn used(&mut self, tokens: Tokens) -> Option<ClientEvent> {
        self.counted = self.counted.plus(tokens);
        self.spent.tokens = self.spent.tokens.plus(tokens);
        (!tokens.is_zero()).then_some(ClientEvent::Usage(tokens))
    }

    fn tool_results(&mut self, line: &Value) -> Vec<ClientEvent> {
        let message = line.get("message").unwrap_or(&Value::Null);
        let results = blocks(message).filter(|block| text(block, "type") == "tool_result");
        let events: Vec<ClientEvent> = results
            .map(|block| ClientEvent::ToolResult {
                id: text(block, "tool_use_id").to_owned(),
                ok: block.get("is_error").and_then(Value::as_bool) != Some(true),
                text: content_text(block.get("content").unwrap_or(&Value::Null)),
            })
            .collect();
        if !events.is_empty() {
            self.begin();
        }
        events
    }

    fn result(&mut self, line: &Value, now: Timestamp) -> Vec<ClientEvent> {
        let mut events = self.settle(line);
        let ending = match line.get("is_error").and_then(Value::as_bool) {
            Some(false) => Ending::Finished,
            Some(true) | None => Failure::read(line).ending(self.limit, now),
        };
        events.extend(match &ending {
            Ending::RateLimited { until } if self.limit != Some(*until) => Some(ClientEvent::Limited(*until)),
            Ending::Overloaded { .. } => Some(ClientEvent::Overloaded),
            Ending::AuthMissing { .. } => Some(ClientEvent::AuthFailed),
            Ending::ContextFull => Some(ClientEvent::ContextFull),
            _ => None,
        });
        events.push(ClientEvent::TurnDone(match &ending {
            Ending::Finished => TurnEnd::Finished,
            Ending::Interrupted => TurnEnd::Interrupted,
            _ => TurnEnd::Failed(Failure::read(line).detail()),
        }));
        self.last = Some(ending);
        self.pending = None;
        self.limit = None;
        events
    }

    /// Brings the counts of the turn to what the client reports at its end.
    fn settle(&mut self, line: &Value) -> Vec<ClientEvent> {
        let before = self.spent.tokens.minus(self.counted);
        let since = line.get("model_usage_since_last_result").filter(|models| models.is_object()).map(by_model);
        let whole = line.get("modelUsage").filter(|models| models.is_object()).map(by_model);
        let turn = match (since, whole) {
            (Some(turn), _) => turn,
            (None, Some(whole)) => Spend {
                tokens: whole.tokens.minus(before),
                usd_micros: whole.usd_micros.max(usd_micros(line.get("total_cost_usd"))).saturating_sub(self.spent.usd_micros),
            },
            (None, None) => Spend {
                tokens: line.get("usage").map(snake_tokens).unwrap_or_default(),
                usd_micros: usd_micros(line.get("total_cost_usd")).saturating_sub(self.spent.usd_micros),
            },
        };
        let rest = turn.tokens.minus(self.counted);
        self.spent.tokens = self.spent.tokens.plus(rest);
        self.spent.usd_micros = self.spent.usd_micros.saturating_add(turn.usd_micros);
        self.counted = Tokens::default();
        self.answers.clear();
        let usage = (!rest.is_zero()).then_some(ClientEvent::Usage(rest));
        let cost = (turn.usd_micros > 0).then_some(ClientEvent::Cost(turn.usd_micros));
        usage.into_iter().chain(cost).collect()
    }
}

impl Parser for Reader {
    fn line(&mut self, now: Timestamp, channel: Channel, line: &str) -> Vec<ClientEvent> {
        if line.trim().is_empty() {
            return Vec::new();
        }
        let note = || vec![ClientEvent::Note(one_line(line, NOTE_CHARS))];
        match channel {
            Channel::Out => match serde_json::from_str::<Value>(line) {
                Ok(value) if value.is_object() => self.event(&value, now),
                Ok(_) | Err(_) => note(),
            },
            Channel::Err => {
                self.remark = one_line(line, NOTE_CHARS);
                note()
            }
        }
    }

    fn exit(&mut self, exit: Exit) -> Ending {
        let said = self.last.clone().or_else(|| self.pending.clone());
        let provider_failed = matches!(said, Some(Ending::RateLimited { .. } | Ending::Overloaded { .. } | Ending::AuthMissing { .. }));
        if let Some((_, _, McpState::Failed(detail))) = &self.ready
            && !provider_failed
        {
            return Ending::GatewayBroken { detail: detail.clone() };
        }
        match said {
            Some(Ending::Crashed { code: None, detail }) => Ending::Crashed { code: exit.code, detail },
            Some(ending) => ending,
            None => {
                let what = format!("{} before the turn was over", describe(exit));
                let detail = if self.remark.is_empty() { what } else { format!("{what}: {}", self.remark) };
                Ending::Crashed { code: exit.code, detail }
            }
        }
    }

    fn spent(&self) -> Spend {
        self.spent
    }
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn blocks(message: &Value) -> impl Iterator<Item = &Value> {
    message.get("content").and_then(Value::as_array).into_iter().flatten()
}

fn said(block: &Value) -> Option<ClientEvent> {
    let filled = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    match text(block, "type") {
        "text" => filled(text(block, "text")).map(ClientEvent::Text),
        "thinking" => filled(text(block, "thinking")).map(ClientEvent::Thinking),
        "tool_use" => Some(ClientEvent::ToolCall {
            id: text(block, "id").to_owned(),
            tool: ToolName::read(text(block, "name")),
            input: block.get("input").cloned().unwrap_or(Value::Null),
        }),
        _ => None,
    }
}

/// The text of a tool's answer, which is a string or a list of blocks; other blocks are named.
fn content_text(content: &Value) -> String {
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    let parts = content.as_array().into_iter().flatten().map(|block| match text(block, "type") {
        "text" => text(block, "text").to_owned(),
        other => format!("[{other}]"),
    });
    parts.collect::<Vec<_>>().join("\n")
}

fn mcp_state(line: &Value) -> McpState {
    let servers = line.get("mcp_servers").and_then(Value::as_array);
    let ours = servers.into_iter().flatten().find(|server| text(server, "name") == MCP_SERVER);
    match ours.map(|server| text(server, "status")) {
        Some("connected") => McpState::Connected,
        Some("pending") => McpState::Pending,
        Some(other) => McpState::Failed(format!("the client reports its verbs (server `{MCP_SERVER}`) as {other:?}")),
        None => McpState::Failed(format!("the client did not load the server `{MCP_SERVER}` with its verbs")),
    }
}

fn retry(line: &Value) -> Retry {
    let number = |key: &str| line.get(key).and_then(Value::as_u64);
    Retry {
        status: number("error_status").and_then(|status| u16::try_from(status).ok()),
        attempt: number("attempt").and_then(|attempt| u32::try_from(attempt).ok()).unwrap_or(1),
        delay: Duration::from_millis(number("retry_delay_ms").unwrap_or(0)),
    }
}

fn snake_tokens(usage: &Value) -> Tokens {
    let number = |key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or(0);
    Tokens {
        input: number("input_tokens"),
        output: number("output_tokens"),
        cache_read: number("cache_read_input_tokens"),
        cache_write: number("cache_creation_input_tokens"),
    }
}

/// Sums a table of usage by model.
fn by_model(models: &Value) -> Spend {
    let mut sum = Spend::default();
    for usage in models.as_object().into_iter().flat_map(serde_json::Map::values) {
        let number = |key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or(0);
        sum.tokens = sum.tokens.plus(Tokens {
            input: number("inputTokens"),
            output: number("outputTokens"),
            cache_read: number("cacheReadInputTokens"),
            cache_write: number("cacheCreationInputTokens"),
        });
        sum.usd_micros = sum.usd_micros.saturating_add(usd_micros(usage.get("costUSD")));
    }
    sum
}

/// Dollars as millionths; what is no sensible amount counts as nothing.
fn usd_micros(value: Option<&Value>) -> u64 {
    let dollars = value.and_then(Value::as_f64).filter(|dollars| dollars.is_finite() && (0.0..1_000_000.0).contains(dollars));
    // In range by the filter above, so the text is a whole number that fits.
    dollars.and_then(|dollars| format!("{:.0}", dollars * 1_000_000.0).parse().ok()).unwrap_or(0)
}
