//! A client for one JSON request at a time over HTTP/1.1 without TLS: the control plane and the sidecar are on this machine or behind the
//! door, and a bridge must start in milliseconds. Every request has its own connection, so none can be stale.

use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Largest answer that is read, in bytes.
const ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    /// The request has not left.
    #[error("nobody answers at {0}: {1}")]
    Unreachable(String, std::io::Error),
    /// It is not known whether the request arrived.
    #[error("the connection broke before the answer was complete: {0}")]
    Broken(String),
    #[error("there was no answer within {0:?}")]
    Late(Duration),
    #[error("the answer is larger than {ANSWER_BYTES} bytes")]
    TooLarge,
}

/// An answer, whatever its status.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

/// Where a server is: `http://host[:port][/prefix]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// `host:port`, an IPv6 host in brackets.
    authority: String,
    /// Put before every path; without a slash at its end.
    prefix: String,
}

impl Address {
    /// Reads an address; `None` for anything else, names and passwords in it included.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let authority = uri.authority()?;
        let plain = uri.scheme_str() == Some("http") && uri.query().is_none() && !authority.as_str().contains('@');
        if !plain || authority.host().is_empty() {
            return None;
        }
        let authority = format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80));
        Some(Self { authority, prefix: uri.path().trim_end_matches('/').to_owned() })
    }

    /// Sends a JSON body to `path`, which starts with a slash, and reads the answer to its end.
    ///
    /// # Errors
    /// [`HttpError::Unreachable`] while nothing was sent; after that the other kinds.
    pub(crate) async fn post(&self, path: &str, headers: HeaderMap, body: Vec<u8>, deadline: Duration) -> Result<Answer, HttpError> {
        timeout(deadline, self.exchange(path, headers, body)).await.map_err(|_| HttpError::Late(deadline))?
    }

    async fn exchange(&self, path: &str, mut headers: HeaderMap, body: Vec<u8>) -> Result<Answer, HttpError> {
        let broken = |error: hyper::Error| HttpError::Broken(error.to_string());
        let malformed = |error: &dyn std::fmt::Display| HttpError::Broken(format!("the request cannot be written: {error}"));
        headers.insert(HOST, HeaderValue::try_from(&self.authority).map_err(|error| malformed(&error))?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        let mut request =
            Request::post(format!("{}{path}", self.prefix)).body(Full::new(Bytes::from(body))).map_err(|error| malformed(&error))?;
        *request.headers_mut() = headers;

        let unreachable = |error| HttpError::Unreachable(self.authority.clone(), error);
        let stream = TcpStream::connect(&self.authority).await.map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(broken)?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES)
                .collect()
                .await
                .map_err(|error| if error.is::<LengthLimitError>() { HttpError::TooLarge } else { HttpError::Broken(error.to_string()) })?;
            Ok(Answer { status, body: body.to_bytes() })
        };
        tokio::pin!(exchange, connection);
        // The connection moves the bytes; how it ends is heard by the request on it.
        tokio::select! {
            answer = &mut exchange => answer,
            _ = &mut connection => exchange.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_plain_http_without_secrets() {
        for (text, expected) in [
            ("http://127.0.0.1:7777", Some(("127.0.0.1:7777", ""))),
            ("http://localhost:9000/", Some(("localhost:9000", ""))),
            ("http://[::1]:9000", Some(("[::1]:9000", ""))),
            ("http://roboco-orchestrator", Some(("roboco-orchestrator:80", ""))),
            ("http://proxy:8080/company/", Some(("proxy:8080", "/company"))),
            ("https://example.org", None),
            ("http://me:secret@example.org", None),
            ("http://example.org/?a=b", None),
            ("127.0.0.1:7777", None),
            ("/run/door", None),
            ("", None),
        ] {
            let parsed = Address::parse(text);
            assert_eq!(parsed.as_ref().map(|address| (address.authority.as_str(), address.prefix.as_str())), expected, "{text}");
        }
    }

    /// What a server that does `manner` with every connection makes of a request.
    async fn asked(manner: fn(std::net::TcpStream)) -> HttpError {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let server = std::thread::spawn(move || manner(listener.accept().unwrap().0));
        let error = address.post("/x", HeaderMap::new(), b"{}".to_vec(), Duration::from_millis(300)).await.unwrap_err();
        server.join().unwrap();
        error
    }

    #[tokio::test]
    async fn a_missing_answer_is_told_apart_by_how_far_the_request_came() {
        let nobody = Address::parse("http://127.0.0.1:1").unwrap();
        let error = nobody.post("/x", HeaderMap::new(), Vec::new(), Duration::from_secs(5)).await.unwrap_err();
        assert!(matches!(error, HttpError::Unreachable(..)), "{error}");
        let hung_up = asked(|mut stream| {
            std::io::Read::read(&mut stream, &mut [0; 1000]).unwrap();
        });
        assert!(matches!(hung_up.await, HttpError::Broken(_)));
        let silent = asked(|mut stream| {
            // Until the client gives up.
            std::io::Read::read_to_end(&mut stream, &mut Vec::new()).unwrap();
        });
        assert!(matches!(silent.await, HttpError::Late(_)));
        let cut = asked(|mut stream| {
            std::io::Read::read(&mut stream, &mut [0; 1000]).unwrap();
            std::io::Write::write_all(&mut stream, b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{").unwrap();
        });
        assert!(matches!(cut.await, HttpError::Broken(_)));
    }
}
