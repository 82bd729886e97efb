//! The HTTP server on a loopback port.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Method, Uri};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::answer;
use crate::script::Next;
use crate::{Request, Script};

/// One request as it arrived.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Its method.
    pub method: Method,
    /// Its path, without the query.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, if that was JSON.
    pub body: Option<Request>,
}

/// A running model. It ends when this is dropped.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Recorded>>>,
    task: JoinHandle<io::Result<()>>,
}

struct Stage {
    script: Script,
    requests: Arc<Mutex<Vec<Recorded>>>,
}

impl ModelServer {
    /// Starts the model on a free port of this machine.
    pub async fn start(script: Script) -> io::Result<Self> {
        Self::start_on(script, 0).await
    }

    /// Starts the model on this port of this machine.
    pub async fn start_on(script: Script, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let requests = Arc::default();
        let stage = Arc::new(Stage { script, requests: Arc::clone(&requests) });
        let app = Router::new().fallback(serve).layer(DefaultBodyLimit::disable()).with_state(stage);
        let task = tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(Self { address, requests, task })
    }

    /// Where it is, for a client's base address.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request so far, oldest first.
    pub fn requests(&self) -> Vec<Recorded> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The requests of conversations: those that offer tools.
    pub fn conversations(&self) -> Vec<Request> {
        let bodies = self.requests().into_iter().filter(|request| request.path == "/v1/messages").filter_map(|request| request.body);
        bodies.filter(|request| !request.tools().is_empty()).collect()
    }

    /// Serves until the process ends.
    pub async fn join(mut self) -> io::Result<()> {
        match (&mut self.task).await {
            Ok(result) => result,
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(State(stage): State<Arc<Stage>>, method: Method, uri: Uri, headers: HeaderMap, body: axum::body::Bytes) -> Response {
    let request = serde_json::from_slice::<Value>(&body).ok().map(Request::new);
    let recorded = Recorded { method: method.clone(), path: uri.path().to_owned(), headers, body: request.clone() };
    stage.requests.lock().unwrap_or_else(PoisonError::into_inner).push(recorded);
    match (method, uri.path(), request) {
        (Method::HEAD, _, _) => ().into_response(),
        (Method::GET, "/v1/models", _) => axum::Json(models()).into_response(),
        (Method::POST, "/v1/messages/count_tokens", _) => axum::Json(json!({ "input_tokens": 1000 })).into_response(),
        (Method::POST, "/v1/messages", Some(request)) => speak(&stage.script, &request).await,
        (Method::POST, "/v1/messages", None) => answer::error(400, "invalid_request_error", "the body is not JSON"),
        (_, path, _) => answer::error(404, "not_found_error", &format!("the scripted model has no {path}")),
    }
}

async fn speak(script: &Script, request: &Request) -> Response {
    // Clients ask on the side for titles and summaries; those are no steps.
    if request.tools().is_empty() {
        return answer::say(request, "A title");
    }
    match script.next(request) {
        Next::Step(step) => answer::play(&step.action, request).await,
        Next::Over => answer::say(request, "That is all."),
        Next::NoPlay => answer::error(400, "invalid_request_error", "no play of the script fits this conversation"),
    }
}

fn models() -> Value {
    let model = |id: &str| json!({ "type": "model", "id": id, "display_name": id, "created_at": "2026-01-01T00:00:00Z" });
    json!({ "data": [model("scripted")], "has_more": false, "first_id": "scripted", "last_id": "scripted" })
}
