//! A small MCP server over HTTP that answers tools the way a test says and remembers what was asked.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The only token that is let in.
pub(crate) const TOKEN: &str = "agent-token";

/// How answers are sent.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    Json,
    Events,
}

type Answer = dyn Fn(usize, &str, &Value) -> Value + Send + Sync;

pub(crate) struct Server {
    pub(crate) url: String,
    calls: Arc<Mutex<Vec<(String, Value)>>>,
    methods: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// `answer` gives the envelope for the n-th call (from 0), its verb and its arguments.
    pub(crate) async fn start(form: Form, answer: impl Fn(usize, &str, &Value) -> Value + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp/spawn-1", listener.local_addr().unwrap());
        let calls = Arc::new(Mutex::new(Vec::new()));
        let methods = Arc::new(Mutex::new(Vec::new()));
        let answer: Arc<Answer> = Arc::new(answer);
        let server = Self { url, calls: Arc::clone(&calls), methods: Arc::clone(&methods) };
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (calls, methods, answer) = (Arc::clone(&calls), Arc::clone(&methods), Arc::clone(&answer));
                let service = service_fn(move |request| {
                    let (calls, methods, answer) = (Arc::clone(&calls), Arc::clone(&methods), Arc::clone(&answer));
                    async move { Ok::<_, Infallible>(handle(request, form, &calls, &methods, &*answer).await) }
                });
                tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        server
    }

    /// Every call of a tool so far.
    pub(crate) fn calls(&self) -> Vec<(String, Value)> {
        self.calls.lock().unwrap().clone()
    }

    /// Every method so far.
    pub(crate) fn methods(&self) -> Vec<String> {
        self.methods.lock().unwrap().clone()
    }
}

async fn handle(
    request: Request<Incoming>,
    form: Form,
    calls: &Mutex<Vec<(String, Value)>>,
    methods: &Mutex<Vec<String>>,
    answer: &Answer,
) -> Response<Full<Bytes>> {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("").to_owned();
    let (token, accept, session) = (header("authorization"), header("accept"), header("mcp-session-id"));
    if token != format!("Bearer {TOKEN}") {
        return Response::builder().status(StatusCode::UNAUTHORIZED).body(Full::from("who are you?")).unwrap();
    }
    assert!(accept.contains("application/json") && accept.contains("text/event-stream"));
    let message: Value = serde_json::from_slice(&request.into_body().collect().await.unwrap().to_bytes()).unwrap();
    let method = message["method"].as_str().unwrap().to_owned();
    methods.lock().unwrap().push(method.clone());
    assert!(method == "initialize" || session == "session-7", "{method} came without the session");
    let result = match method.as_str() {
        "initialize" => {
            json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "roboco", "version": "1"}})
        }
        "notifications/initialized" => return Response::builder().status(StatusCode::ACCEPTED).body(Full::default()).unwrap(),
        "tools/call" => {
            let (name, arguments) = (message["params"]["name"].as_str().unwrap().to_owned(), message["params"]["arguments"].clone());
            let number = calls.lock().unwrap().len();
            calls.lock().unwrap().push((name.clone(), arguments.clone()));
            let envelope = answer(number, &name, &arguments);
            json!({"content": [{"type": "text", "text": envelope.to_string()}], "isError": envelope.get("error").is_some()})
        }
        other => panic!("unexpected method {other}"),
    };
    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    let (kind, body) = match form {
        Form::Json => ("application/json", answer),
        Form::Events => {
            let noise = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}});
            ("text/event-stream", format!(": hello\n\nevent: message\ndata: {noise}\n\nid: 4\r\ndata: {answer}\r\n\r\n"))
        }
    };
    Response::builder().header("content-type", kind).header("mcp-session-id", "session-7").body(Full::from(body)).unwrap()
}
