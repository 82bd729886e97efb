//! Servers on loopback that answer as a test says and remember what they were asked, and one request to a server under test.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::handshake;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};

/// An address at which nobody answers.
pub(crate) const NOBODY: &str = "http://127.0.0.1:1";

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Seen {
    /// A header's text; empty when it was not sent.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// What is sent back.
pub(crate) enum Reply {
    Answer(u16, String),
    /// Nothing, for as long as the client waits.
    Silence,
}

/// A JSON answer.
pub(crate) fn json(status: u16, body: &Value) -> Reply {
    Reply::Answer(status, body.to_string())
}

type Answer = dyn Fn(usize, &Seen) -> Reply + Send + Sync;

pub(crate) struct Loopback {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Loopback {
    /// `answer` gives the reply to the n-th request, from 0.
    pub(crate) async fn start(answer: impl Fn(usize, &Seen) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let answer: Arc<Answer> = Arc::new(answer);
        let server = Self { url, seen: Arc::clone(&seen) };
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                let service = service_fn(move |request| {
                    let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                    async move { Ok::<_, Infallible>(handle(request, &seen, &*answer).await) }
                });
                tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        server
    }

    /// One that gives every request the same answer.
    pub(crate) async fn always(status: u16, body: &Value) -> Self {
        let text = body.to_string();
        Self::start(move |_, _| Reply::Answer(status, text.clone())).await
    }

    /// Every request so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn handle(request: Request<Incoming>, seen: &Mutex<Vec<Seen>>, answer: &Answer) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    assert_eq!(parts.method, "POST");
    let bytes = body.collect().await.unwrap().to_bytes();
    let one = Seen { path: parts.uri.to_string(), headers: parts.headers, body: serde_json::from_slice(&bytes).unwrap() };
    let number = {
        let mut all = seen.lock().unwrap();
        all.push(one.clone());
        all.len() - 1
    };
    match answer(number, &one) {
        Reply::Answer(status, text) => Response::builder().status(status).body(Full::from(text)).unwrap(),
        Reply::Silence => std::future::pending().await,
    }
}

/// One request, and its status and JSON.
pub(crate) async fn ask(method: &str, url: &str, authorization: Option<&str>, body: &str) -> (u16, Value) {
    let uri: hyper::Uri = url.parse().unwrap();
    let stream = TcpStream::connect(uri.authority().unwrap().as_str()).await.unwrap();
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(uri.path_and_query().unwrap().as_str()).header("host", "127.0.0.1");
    if let Some(authorization) = authorization {
        request = request.header("authorization", authorization);
    }
    let response = sender.send_request(request.body(Full::new(Bytes::from(body.to_owned()))).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    (status, serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap())
}
