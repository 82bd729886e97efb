//! A request to the model, read the way a script needs it.

use serde_json::Value;

/// What one tool answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The tool's full name; empty when the call is not in the conversation.
    pub tool: String,
    /// Its answer as text.
    pub text: String,
    /// Whether it succeeded.
    pub ok: bool,
}

impl ToolResult {
    /// The answer as JSON; null when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }
}

/// A request to the model.
#[derive(Debug, Clone)]
pub struct Request {
    body: Value,
}

impl Request {
    /// Wraps the body of a request.
    pub const fn new(body: Value) -> Self {
        Self { body }
    }

    /// The body itself.
    pub const fn body(&self) -> &Value {
        &self.body
    }

    /// The standing instructions.
    pub fn system(&self) -> String {
        let in_messages = self.messages().filter(|message| role(message) == "system").flat_map(texts);
        let top = self.body.get("system").map(block_texts).unwrap_or_default();
        top.into_iter().chain(in_messages).collect::<Vec<_>>().join("\n")
    }

    /// The first message of the user.
    pub fn first_user_text(&self) -> String {
        self.plain_texts().into_iter().next().unwrap_or_default()
    }

    /// The last message of the user, also one sent while tools ran.
    pub fn last_user_text(&self) -> String {
        let said = self.messages().filter(|message| role(message) == "user").flat_map(said);
        said.last().unwrap_or_default()
    }

    /// Whether the standing instructions or the first message contain `marker`.
    pub fn mentions(&self, marker: &str) -> bool {
        self.first_user_text().contains(marker) || self.system().contains(marker)
    }

    /// How many plain messages the user sent before the current one.
    pub fn turn(&self) -> usize {
        self.plain_texts().len().saturating_sub(1)
    }

    /// The names of the tools the client offers.
    pub fn tools(&self) -> Vec<&str> {
        let tools = self.body.get("tools").and_then(Value::as_array).into_iter().flatten();
        tools.filter_map(|tool| tool.get("name").and_then(Value::as_str)).collect()
    }

    /// What tools answered since the last plain message of the user.
    pub fn tool_results(&self) -> Vec<ToolResult> {
        let messages: Vec<&Value> = self.messages().collect();
        let start = messages.iter().rposition(|message| is_plain(message)).unwrap_or(0);
        messages.iter().skip(start).flat_map(|message| self.results_in(message)).collect()
    }

    /// What tools answered in the whole conversation.
    pub fn all_tool_results(&self) -> Vec<ToolResult> {
        self.messages().flat_map(|message| self.results_in(message)).collect()
    }

    /// The last answer of the tool whose name ends with `tool`.
    pub fn last_result(&self, tool: &str) -> Option<ToolResult> {
        self.all_tool_results().into_iter().rev().find(|result| result.tool.ends_with(tool))
    }

    /// Messages in the conversation.
    pub(crate) fn length(&self) -> usize {
        self.messages().count()
    }

    /// Whether the answer is to be streamed.
    pub(crate) fn wants_stream(&self) -> bool {
        self.body.get("stream").and_then(Value::as_bool) == Some(true)
    }

    pub(crate) fn model(&self) -> &str {
        self.body.get("model").and_then(Value::as_str).unwrap_or("scripted")
    }

    fn messages(&self) -> impl Iterator<Item = &Value> {
        self.body.get("messages").and_then(Value::as_array).into_iter().flatten()
    }

    fn plain_texts(&self) -> Vec<String> {
        self.messages().filter(|message| is_plain(message)).map(|message| said(message).join("\n")).collect()
    }

    fn results_in(&self, message: &Value) -> Vec<ToolResult> {
        let results = blocks(message).filter(|block| kind(block) == "tool_result");
        let read = |block: &Value| ToolResult {
            tool: block.get("tool_use_id").and_then(Value::as_str).and_then(|id| self.tool_called(id)).unwrap_or_default(),
            text: block.get("content").map(block_texts).unwrap_or_default().join("\n"),
            ok: block.get("is_error").and_then(Value::as_bool) != Some(true),
        };
        results.map(read).collect()
    }

    fn tool_called(&self, id: &str) -> Option<String> {
        let mut calls = self.messages().flat_map(blocks).filter(|block| kind(block) == "tool_use");
        let call = calls.find(|block| block.get("id").and_then(Value::as_str) == Some(id))?;
        call.get("name").and_then(Value::as_str).map(str::to_owned)
    }
}

fn role(message: &Value) -> &str {
    message.get("role").and_then(Value::as_str).unwrap_or_default()
}

fn kind(block: &Value) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn blocks(message: &Value) -> impl Iterator<Item = &Value> {
    message.get("content").and_then(Value::as_array).into_iter().flatten()
}

/// The texts of a content that is a string or a list of blocks.
fn block_texts(content: &Value) -> Vec<String> {
    if let Some(text) = content.as_str() {
        return vec![text.to_owned()];
    }
    let blocks = content.as_array().into_iter().flatten();
    blocks.filter_map(|block| block.get("text").and_then(Value::as_str)).map(str::to_owned).collect()
}

fn texts(message: &Value) -> Vec<String> {
    message.get("content").map(block_texts).unwrap_or_default()
}

/// What a person wrote in a message; clients put reminders of their own beside it.
fn said(message: &Value) -> Vec<String> {
    texts(message).into_iter().filter(|text| !text.trim_start().starts_with("<system-reminder>")).collect()
}

/// A message of the user that carries text and no tool results. Text beside results is a message sent into a running turn and does not
/// start a new one.
fn is_plain(message: &Value) -> bool {
    role(message) == "user" && !blocks(message).any(|block| kind(block) == "tool_result") && !said(message).is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn conversation() -> Request {
        let result = |id: &str, content: Value| json!({"type": "tool_result", "tool_use_id": id, "content": content});
        let call =
            |id: &str, name: &str| json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": {}}]});
        Request::new(json!({
            "system": [{"type": "text", "text": "You are be-dev-1"}],
            "tools": [{"name": "Bash"}, {"name": "mcp__roboco__note"}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "<system-reminder>x</system-reminder>"}, {"type": "text", "text": "first"}]},
                {"role": "system", "content": "# Environment"},
                call("a", "Bash"),
                {"role": "user", "content": [result("a", json!("out"))]},
                {"role": "assistant", "content": "done"},
                {"role": "user", "content": "second"},
                call("b", "mcp__roboco__note"),
                {"role": "user", "content": [result("b", json!([{"type": "text", "text": "{\"status\":\"ok\"}"}])), {"type": "text", "text": "meanwhile"}]},
            ]
        }))
    }

    #[test]
    fn steps_are_counted_from_the_last_plain_message() {
        let request = conversation();
        assert_eq!(request.tool_results().len(), 1);
        assert_eq!(request.tool_results()[0].json()["status"], "ok");
        assert_eq!(request.all_tool_results()[0], ToolResult { tool: "Bash".into(), text: "out".into(), ok: true });
        assert_eq!(request.last_result("note").unwrap().tool, "mcp__roboco__note");
        assert_eq!((request.first_user_text().as_str(), request.last_user_text().as_str(), request.turn()), ("first", "meanwhile", 1));
        assert!(request.mentions("be-dev-1") && request.mentions("first") && request.mentions("Environment"));
        assert!(!request.mentions("second"));
        assert_eq!(request.tools(), ["Bash", "mcp__roboco__note"]);
    }

    #[test]
    fn a_body_of_the_wrong_shape_is_an_empty_conversation() {
        for body in [json!(null), json!([]), json!({"messages": 3}), json!({"messages": [null, {"role": "user"}]})] {
            let request = Request::new(body);
            assert_eq!((request.tool_results().len(), request.first_user_text().as_str(), request.turn()), (0, "", 0));
        }
    }
}
