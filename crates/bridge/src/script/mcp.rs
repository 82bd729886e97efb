//! A client of one MCP server over Streamable HTTP: requests are POSTed, answers come as JSON or as a stream of events.

use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

/// The version of MCP spoken here.
const VERSION: &str = "2025-06-18";
/// Longest wait for an answer: the server ends every verb well before.
const DEADLINE: Duration = Duration::from_secs(180);
/// Largest answer, in bytes.
const ANSWER_BYTES: usize = 16 * 1024 * 1024;
/// Part of an unexpected answer that is shown, in bytes.
const SHOWN_BYTES: usize = 500;
/// Tries of one request while nobody answers the door, and the first wait between them; the wait doubles.
const TRIES: u32 = 6;
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum McpError {
    #[error("ROBOCO_MCP_URL is not an http address: {0}")]
    Url(String),
    #[error("the MCP server is not reachable: {0}")]
    Unreachable(String),
    #[error("the MCP server answered {status}: {body}")]
    Status { status: StatusCode, body: String },
    #[error("the MCP server did not answer within {} s", DEADLINE.as_secs())]
    Late,
    #[error("the MCP server sent what cannot be read: {0}")]
    Unreadable(String),
    #[error("the MCP server refused {method}: {message}")]
    Refused { method: String, message: String },
}

/// A connected client.
pub(super) struct Mcp {
    http: Client<HttpConnector, Full<Bytes>>,
    url: Uri,
    token: String,
    session: Option<String>,
    next_id: u64,
}

/// The answer of a tool.
#[derive(Debug)]
pub(super) struct ToolAnswer {
    /// Its text blocks, joined.
    pub(super) text: String,
    /// Whether the server marked it as an error.
    pub(super) verdict: Verdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Success,
    Error,
}

impl Mcp {
    /// Opens a session.
    pub(super) async fn connect(url: &str, token: String) -> Result<Self, McpError> {
        let uri: Uri = url.parse().map_err(|_| McpError::Url(url.to_owned()))?;
        if uri.scheme_str() != Some("http") || uri.host().is_none() {
            return Err(McpError::Url(url.to_owned()));
        }
        let http = Client::builder(TokioExecutor::new()).build_http();
        let mut mcp = Self { http, url: uri, token, session: None, next_id: 1 };
        let client = json!({"name": "roboco-script", "version": env!("CARGO_PKG_VERSION")});
        mcp.request("initialize", json!({"protocolVersion": VERSION, "capabilities": {}, "clientInfo": client})).await?;
        mcp.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}), None).await?;
        Ok(mcp)
    }

    /// Calls a tool.
    pub(super) async fn call(&mut self, name: &str, arguments: Value) -> Result<ToolAnswer, McpError> {
        let result = self.request("tools/call", json!({"name": name, "arguments": arguments})).await?;
        let verdict = if result["isError"] == true { Verdict::Error } else { Verdict::Success };
        let texts: Vec<&str> = result["content"].as_array().into_iter().flatten().filter_map(|block| block["text"].as_str()).collect();
        let text = match (texts.is_empty(), result.get("structuredContent")) {
            (true, Some(structured)) => structured.to_string(),
            _ => texts.join("\n"),
        };
        Ok(ToolAnswer { text, verdict })
    }

    /// One request and its result. Sent again with the same id when the connection fails, so that the server can tell a repetition.
    async fn request(&mut self, method: &str, params: Value) -> Result<Value, McpError> {
        let id = self.next_id;
        self.next_id += 1;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let mut answer = self.post(&message, Some(id)).await?;
        if let Some(error) = answer.get("error") {
            let message = error["message"].as_str().map_or_else(|| error.to_string(), str::to_owned);
            return Err(McpError::Refused { method: method.to_owned(), message });
        }
        Ok(answer["result"].take())
    }

    async fn post(&mut self, message: &Value, id: Option<u64>) -> Result<Value, McpError> {
        let mut pause = TRY_AGAIN;
        for _ in 1..TRIES {
            match tokio::time::timeout(DEADLINE, self.post_once(message, id)).await.map_err(|_| McpError::Late)? {
                Err(McpError::Unreachable(_)) => tokio::time::sleep(pause).await,
                result => return result,
            }
            pause *= 2;
        }
        tokio::time::timeout(DEADLINE, self.post_once(message, id)).await.map_err(|_| McpError::Late)?
    }

    async fn post_once(&mut self, message: &Value, id: Option<u64>) -> Result<Value, McpError> {
        let mut request = Request::post(self.url.clone())
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", VERSION);
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        let request = request.body(Full::new(Bytes::from(message.to_string()))).map_err(|error| McpError::Unreadable(error.to_string()))?;
        let response = self.http.request(request).await.map_err(|error| McpError::Unreachable(chain(&error)))?;
        if let Some(session) = response.headers().get("mcp-session-id").and_then(|value| value.to_str().ok()) {
            self.session = Some(session.to_owned());
        }
        let status = response.status();
        let streamed = header(&response, "content-type").starts_with("text/event-stream");
        if !status.is_success() {
            let body = Limited::new(response.into_body(), SHOWN_BYTES).collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            return Err(McpError::Status { status, body: String::from_utf8_lossy(&body).into_owned() });
        }
        match id {
            None => Ok(Value::Null),
            Some(id) if streamed => read_events(response.into_body(), id).await,
            Some(_) => {
                let body = Limited::new(response.into_body(), ANSWER_BYTES).collect().await;
                let bytes = body.map_err(|error| McpError::Unreadable(error.to_string()))?.to_bytes();
                serde_json::from_slice(&bytes).map_err(|error| McpError::Unreadable(error.to_string()))
            }
        }
    }
}

/// Reads a stream of events until the answer with this id. Other messages of the server are not for us.
async fn read_events(mut body: Incoming, id: u64) -> Result<Value, McpError> {
    let mut pending = Vec::new();
    let mut data = String::new();
    let mut size = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| McpError::Unreadable(error.to_string()))?;
        let Ok(bytes) = frame.into_data() else { continue };
        size += bytes.len();
        if size > ANSWER_BYTES {
            return Err(McpError::Unreadable(format!("more than {ANSWER_BYTES} bytes")));
        }
        pending.extend_from_slice(&bytes);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if let Some(part) = line.strip_prefix("data:") {
                data.push_str(part.strip_prefix(' ').unwrap_or(part));
                data.push('\n');
            } else if line.is_empty() && !data.is_empty() {
                let message: Option<Value> = serde_json::from_str(&data).ok();
                data.clear();
                if let Some(message) = message.filter(|message| message["id"] == id && message.get("method").is_none()) {
                    return Ok(message);
                }
            }
        }
    }
    Err(McpError::Unreadable("the stream ended before the answer".into()))
}

fn header<'a>(response: &'a Response<Incoming>, name: &str) -> &'a str {
    response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The error and its causes: the outermost alone says only that sending failed.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
