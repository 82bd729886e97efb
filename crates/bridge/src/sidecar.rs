//! `roboco bridge sidecar`: the small HTTP server that bridges and hooks of other makers expect beside an agent. It counts, in memory and
//! for this one session: refused verbs, tool calls, and attempts to stop.
//!
//! `--listen ADDRESS` says where (default 127.0.0.1:9000; port 0 takes any free one); only loopback is possible. The first line of output
//! names the address: `{"listening": "http://127.0.0.1:9000"}`. Environment: `ROBOCO_AGENT_TOKEN`, which every request but `GET /health`
//! must bring as its bearer token; `ROBOCO_AGENT_ID` and `ROBOCO_AGENT_ROLE`, which may be missing.

mod counters;
mod session;
mod usage;

use std::cell::RefCell;
use std::convert::Infallible;
use std::ffi::OsString;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use roboco_domain::role::Role;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::LocalSet;
use tokio::time::timeout;

use crate::environment::{AGENT, Environment, ROLE, TOKEN};
use crate::{EXIT_BROKEN, EXIT_CONFIG, EXIT_USAGE, USAGE, fail};
use session::{Reply, Session, problem};

const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9000);
/// Largest request body, in bytes.
const BODY_BYTES: usize = 64 * 1024;
/// Connections open at once.
const CONNECTIONS: usize = 64;
/// Longest wait for the rest of a request that has begun.
const PATIENCE: Duration = Duration::from_secs(10);
/// Wait after a failed accept: the usual reason is a lack of file descriptors, which passes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why there is no sidecar.
#[derive(Debug, thiserror::Error)]
enum SidecarError {
    #[error("the environment has no {TOKEN}; requests are told from those of others by it")]
    NoToken,
    #[error("{ROLE} is wrong: {0}")]
    Role(#[from] roboco_domain::role::UnknownWord),
    #[error("cannot listen on {0}: {1}; name another place with --listen")]
    Listen(SocketAddr, std::io::Error),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

struct Sidecar {
    token: String,
    session: RefCell<Session>,
    began: Instant,
}

/// Serves until it is ended by a signal.
pub(crate) fn main(args: Vec<OsString>) -> ExitCode {
    let Some(listen) = parse(args) else { return fail(EXIT_USAGE, USAGE) };
    let started = Sidecar::new(&Environment::read()).and_then(|sidecar| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        LocalSet::new().block_on(&runtime, serve(Rc::new(sidecar), listen))
    });
    match started {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ (SidecarError::NoToken | SidecarError::Role(_))) => fail(EXIT_CONFIG, &error.to_string()),
        Err(error) => fail(EXIT_BROKEN, &error.to_string()),
    }
}

fn parse(args: Vec<OsString>) -> Option<SocketAddr> {
    let mut args = args.into_iter();
    let listen = match (args.next(), args.next()) {
        (None, _) => LISTEN,
        (Some(name), Some(value)) if name == "--listen" => value.to_str()?.parse().ok()?,
        _ => return None,
    };
    (listen.ip().is_loopback() && args.next().is_none()).then_some(listen)
}

async fn serve(sidecar: Rc<Sidecar>, listen: SocketAddr) -> Result<(), SidecarError> {
    let listener = TcpListener::bind(listen).await.map_err(|error| SidecarError::Listen(listen, error))?;
    let address = listener.local_addr()?;
    // Whoever started it may have gone away without reading.
    let mut out = std::io::stdout();
    let line = serde_json::json!({"listening": format!("http://{address}")});
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap_or_default();
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
        match listener.accept().await {
            Ok((stream, _)) => {
                let sidecar = Rc::clone(&sidecar);
                let service = service_fn(move |request| answer(Rc::clone(&sidecar), request));
                tokio::task::spawn_local(async move {
                    let mut server = http1::Builder::new();
                    server.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
                    // A caller that breaks off has no use for an answer.
                    server.serve_connection(TokioIo::new(stream), service).await.unwrap_or_default();
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn answer(sidecar: Rc<Sidecar>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, value) = sidecar.reply(request).await;
    let mut response = Response::new(Full::new(Bytes::from(value.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

impl Sidecar {
    fn new(environment: &Environment) -> Result<Self, SidecarError> {
        let token = environment.token().ok_or(SidecarError::NoToken)?.to_owned();
        let role = environment.text(ROLE).map(str::parse::<Role>).transpose()?;
        let agent = environment.text(AGENT).map(str::to_owned);
        Ok(Self { token, session: RefCell::new(Session::new(agent, role)), began: Instant::now() })
    }

    async fn reply(&self, request: Request<Incoming>) -> Reply {
        let (parts, body) = request.into_parts();
        if parts.method == hyper::Method::GET && parts.uri.path() == "/health" {
            return self.session.borrow().health();
        }
        if !self.knows(&parts.headers) {
            let message = "this is not the token of the agent that is served here";
            let way = "send the agent's token as `Authorization: Bearer …`";
            return problem(StatusCode::UNAUTHORIZED, "NOT_AUTHORIZED", message, way);
        }
        let body = match timeout(PATIENCE, Limited::new(body, BODY_BYTES).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            _ => {
                let message = format!("the body is incomplete or larger than {BODY_BYTES} bytes");
                return problem(StatusCode::BAD_REQUEST, "INVALID_INPUT", &message, "send a whole, small body");
            }
        };
        let query = parts.uri.query().unwrap_or_default();
        self.session.borrow_mut().answer(&parts.method, parts.uri.path(), query, &body, self.began.elapsed())
    }

    /// Whether the request brings the token, as a bearer or in the header of older bridges.
    fn knows(&self, headers: &HeaderMap) -> bool {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        let bearer =
            text(AUTHORIZATION.as_str()).and_then(|text| text.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let given = bearer.map(|(_, token)| token.trim()).or_else(|| text("x-agent-token")).unwrap_or_default();
        // Looks at every byte whatever the first ones are, so that the time taken tells nothing about them.
        let differences = given.bytes().zip(self.token.bytes()).fold(0, |seen, (one, other)| seen | (one ^ other));
        given.len() == self.token.len() && differences == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_can_be_listened_on() {
        let parsed = |text: &str| parse(text.split_whitespace().map(OsString::from).collect());
        assert_eq!(parsed(""), Some(LISTEN));
        assert_eq!(parsed("--listen 127.0.0.1:0"), Some("127.0.0.1:0".parse().unwrap()));
        assert_eq!(parsed("--listen [::1]:9000"), Some("[::1]:9000".parse().unwrap()));
        for wrong in ["--listen", "--listen 0.0.0.0:9000", "--listen 10.0.0.1:9000", "--listen x", "--port 1", "--listen 127.0.0.1:0 more"]
        {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn without_a_token_there_is_no_sidecar() {
        for environment in [Environment::from([]), Environment::from([(TOKEN, "UNSIGNED")]), Environment::from([(TOKEN, "  ")])] {
            assert!(matches!(Sidecar::new(&environment), Err(SidecarError::NoToken)));
        }
        let wrong = Environment::from([(TOKEN, "hush"), (ROLE, "boss")]);
        assert!(matches!(Sidecar::new(&wrong), Err(error) if !error.to_string().contains("hush")));
    }
}
