//! Requests over kept TCP connections, with every body parsed.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// One kept connection of one caller.
pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
    authorization: String,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr, token: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move {
            // How a connection ended is heard by the request that was on it.
            drop(connection.await);
        });
        Ok(Self { sender, authorization: format!("Bearer {token}") })
    }

    /// Sends a request and reads its answer to the end.
    pub(crate) async fn send(&mut self, method: Method, path: &str, body: Bytes) -> Result<(StatusCode, Value)> {
        let response = self.sender.send_request(self.request(method, path, body)?).await?;
        let status = response.status();
        let bytes = response.into_body().collect().await?.to_bytes();
        let value = serde_json::from_slice(&bytes).with_context(|| format!("{path} answered {status} and no JSON"))?;
        Ok((status, value))
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Value> {
        let (status, value) = self.send(Method::GET, path, Bytes::new()).await?;
        ensure!(status.is_success(), "GET {path}: {status} {value}");
        Ok(value)
    }

    pub(crate) async fn post(&mut self, path: &str, body: &Value) -> Result<Value> {
        let (status, value) = self.send(Method::POST, path, body.to_string().into()).await?;
        ensure!(status.is_success(), "POST {path}: {status} {value}");
        Ok(value)
    }

    /// Turns the connection into the live stream of what happens from now on.
    pub(crate) async fn follow(mut self) -> Result<Live> {
        let response = self.sender.send_request(self.request(Method::GET, "/api/stream", Bytes::new())?).await?;
        ensure!(response.status() == StatusCode::OK, "the live stream answered {}", response.status());
        Ok(Live { body: response.into_body(), text: String::new(), _sender: self.sender })
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Result<Request<Full<Bytes>>> {
        let request = Request::builder().method(method).uri(path).header("host", "127.0.0.1").header("authorization", &self.authorization);
        Ok(request.header("content-type", "application/json").body(Full::new(body))?)
    }
}

/// The live stream of events.
pub(crate) struct Live {
    body: Incoming,
    text: String,
    _sender: SendRequest<Full<Bytes>>,
}

impl Live {
    /// The next event.
    pub(crate) async fn next(&mut self) -> Result<Value> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let data = frame.lines().find_map(|line| line.strip_prefix("data:")).map(|data| serde_json::from_str(data.trim_start()));
                self.text = rest.to_owned();
                if let Some(data) = data {
                    return Ok(data?);
                }
                continue;
            }
            let Some(frame) = self.body.frame().await else { bail!("the live stream ended") };
            if let Ok(data) = frame?.into_data() {
                self.text.push_str(std::str::from_utf8(&data)?);
            }
        }
    }
}
