//! The gateway between a real client connection and a real upstream server, both on this machine.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a helper of a test may fail the test")]

use std::convert::Infallible;
use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use futures::StreamExt;
use roboco_domain::id::{AgentId, SpawnId};
use roboco_domain::time::Timestamp;
use roboco_egress::{Caller, Callers, Credential, Deadlines, Egress, End, Exchange, Observer, Upstream, router};
use secrecy::SecretString;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

const TOKEN: &str = "agent-token-1";
const REAL: &str = "sk-real-key";
const REMEDY: &str = "run `claude auth login`";

fn caller() -> Caller {
    Caller { agent: AgentId::new(Uuid::from_u128(1)), spawn: SpawnId::new(Uuid::from_u128(2)) }
}

struct OneAgent;

impl Callers for OneAgent {
    fn verify(&self, token: &str) -> Option<Caller> {
        (token == TOKEN).then(caller)
    }
}

#[derive(Default)]
struct Seen {
    exchanges: Mutex<Vec<Exchange>>,
    missing: Mutex<Vec<(String, String)>>,
}

impl Observer for Seen {
    fn exchange(&self, exchange: &Exchange) {
        self.exchanges.lock().unwrap().push(exchange.clone());
    }

    fn auth_missing(&self, _caller: Caller, provider: &str, remedy: &str) {
        self.missing.lock().unwrap().push((provider.to_owned(), remedy.to_owned()));
    }
}

impl Seen {
    async fn one_exchange(&self) -> Exchange {
        until(|| self.exchanges.lock().unwrap().first().cloned()).await
    }
}

/// Asks until there is an answer; fails after five seconds.
async fn until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask() {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), asking).await.expect("waited for five seconds")
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(5), future).await.expect("waited for five seconds")
}

async fn serve(app: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://{address}")
}

/// What an upstream got to see.
type Requests = Arc<Mutex<Vec<(http::request::Parts, Bytes)>>>;

/// An upstream that remembers requests and answers with what `answer` makes.
async fn upstream(answer: fn() -> Response) -> (String, Requests) {
    let requests = Requests::default();
    let remember = move |State(requests): State<Requests>, request: Request| async move {
        let (parts, body) = request.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        requests.lock().unwrap().push((parts, bytes));
        answer()
    };
    let base = serve(Router::new().fallback(remember).with_state(Arc::clone(&requests))).await;
    (base, requests)
}

fn ok() -> Response {
    Response::new(Body::from("fine"))
}

struct Gateway {
    base: String,
    seen: Arc<Seen>,
}

async fn gateway(upstream: &str, credential: Credential, change: impl FnOnce(Egress) -> Egress) -> Gateway {
    let seen = Arc::new(Seen::default());
    let observer: Arc<dyn Observer> = Arc::clone(&seen) as _;
    let upstream = Upstream::new(upstream, credential, REMEDY).unwrap();
    let upstream = upstream.allowing([("POST", "/v1/messages"), ("GET", "/v1/messages"), ("GET", "/v1/models")]);
    let egress = Egress::new(Arc::new(OneAgent), observer).with_upstream("claude", upstream);
    Gateway { base: serve(router(change(egress))).await, seen }
}

impl Gateway {
    fn get(&self, path: &str) -> reqwest::RequestBuilder {
        client().get(format!("{}{path}", self.base)).header("x-api-key", TOKEN)
    }

    fn post(&self, path: &str) -> reqwest::RequestBuilder {
        client().post(format!("{}{path}", self.base)).header("x-api-key", TOKEN)
    }
}

fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

fn key() -> Credential {
    Credential::ApiKey(SecretString::from(REAL))
}

/// A body fed by hand, and the hand.
fn fed() -> (mpsc::Sender<&'static str>, Body) {
    let (feed, food) = mpsc::channel::<&'static str>(4);
    let stream = futures::stream::unfold(food, |mut food| async move {
        let piece = food.recv().await?;
        Some((Ok::<_, Infallible>(Bytes::from_static(piece.as_bytes())), food))
    });
    (feed, Body::from_stream(stream))
}

/// An upstream whose single answer is fed by hand.
async fn fed_upstream() -> (String, mpsc::Sender<&'static str>) {
    let (feed, body) = fed();
    let body = Arc::new(Mutex::new(Some(body)));
    let answer = move || {
        let body = body.lock().unwrap().take().unwrap();
        async move { Response::new(body) }
    };
    (serve(Router::new().fallback(answer)).await, feed)
}

#[tokio::test]
async fn pieces_of_an_answer_arrive_before_its_end() {
    let (base, feed) = fed_upstream().await;
    let gateway = gateway(&base, Credential::None, |egress| egress).await;
    feed.send("event: one\n\n").await.unwrap();
    let answer = soon(gateway.get("/model/claude/v1/messages").send()).await.unwrap();
    let mut pieces = answer.bytes_stream();
    assert_eq!(soon(pieces.next()).await.unwrap().unwrap(), "event: one\n\n");
    feed.send("event: two\n\n").await.unwrap();
    assert_eq!(soon(pieces.next()).await.unwrap().unwrap(), "event: two\n\n");
    drop(feed);
    assert!(soon(pieces.next()).await.is_none());
    let exchange = gateway.seen.one_exchange().await;
    assert_eq!((exchange.end, exchange.received, exchange.status), (End::Complete, 24, Some(200)));
    assert_eq!((exchange.caller, exchange.provider.as_str()), (caller(), "claude"));
}

#[tokio::test]
async fn pieces_of_a_request_arrive_before_its_end() {
    let (told, mut heard) = mpsc::channel(4);
    let listen = move |request: Request| async move {
        let mut pieces = request.into_body().into_data_stream();
        while let Some(Ok(piece)) = pieces.next().await {
            told.send(piece).await.unwrap();
        }
        ok()
    };
    let base = serve(Router::new().fallback(listen)).await;
    let gateway = gateway(&base, Credential::None, |egress| egress).await;
    let (feed, body) = fed();
    let body = reqwest::Body::wrap_stream(body.into_data_stream());
    let sending = tokio::spawn(gateway.post("/model/claude/v1/messages").body(body).send());
    feed.send("first").await.unwrap();
    assert_eq!(soon(heard.recv()).await.unwrap(), "first");
    feed.send("second").await.unwrap();
    assert_eq!(soon(heard.recv()).await.unwrap(), "second");
    drop(feed);
    assert_eq!(soon(sending).await.unwrap().unwrap().text().await.unwrap(), "fine");
    assert_eq!(gateway.seen.one_exchange().await.sent, 11);
}

#[tokio::test]
async fn the_agents_token_is_replaced_by_the_real_credential() {
    let header = |name: &'static str, value: String| Some((name, value));
    for (credential, expected) in [
        (key(), header("x-api-key", REAL.to_owned())),
        (Credential::Token(SecretString::from(REAL)), header("authorization", format!("Bearer {REAL}"))),
        (Credential::None, None),
    ] {
        for (name, value) in [("x-api-key", TOKEN.to_owned()), ("authorization", format!("Bearer {TOKEN}"))] {
            let (base, requests) = upstream(ok).await;
            let gateway = gateway(&base, credential.clone(), |egress| egress).await;
            let url = format!("{}/model/claude/v1/messages?beta=true", gateway.base);
            let request = client().post(url).header(name, value).header("cookie", "c=1").header("anthropic-version", "1").body("{\"a\":1}");
            let answer = soon(request.send()).await.unwrap();
            assert_eq!((answer.status().as_u16(), answer.text().await.unwrap().as_str()), (200, "fine"));

            let (parts, body) = requests.lock().unwrap().pop().unwrap();
            assert_eq!((parts.method.as_str(), parts.uri.to_string().as_str()), ("POST", "/v1/messages?beta=true"));
            assert_eq!(body, "{\"a\":1}");
            assert!(!format!("{:?}", parts.headers).contains(TOKEN), "{:?}", parts.headers);
            assert_eq!(parts.headers["host"], base.trim_start_matches("http://"));
            assert_eq!(parts.headers["content-length"], "7");
            assert_eq!(parts.headers["anthropic-version"], "1");
            assert!(!parts.headers.contains_key("cookie"));
            let sent = ["x-api-key", "authorization"]
                .into_iter()
                .find_map(|name| parts.headers.get(name).map(|value| (name, value.to_str().unwrap().to_owned())));
            assert_eq!(sent, expected);
        }
    }
}

#[tokio::test]
async fn the_real_credential_does_only_what_agents_may_ask_for() {
    let (base, requests) = upstream(ok).await;
    let mut refusals = None;
    let gateway = gateway(&base, key(), |egress| {
        refusals = Some(egress.refusals());
        egress
    })
    .await;
    let asked = [
        ("GET", "v1/files"),
        ("DELETE", "v1/files/file_1"),
        ("POST", "v1/messages/batches"),
        ("GET", "v1/organizations/users"),
        ("POST", "api/oauth/claude_cli/create_api_key"),
        ("DELETE", "v1/messages"),
        ("POST", "v1/models"),
        ("POST", ""),
        ("POST", "v1/messages/"),
        ("POST", "v1/mess%61ges"),
        ("POST", "v1/agent-token-1"),
    ];
    for (method, path) in asked {
        let request = client().request(method.parse().unwrap(), format!("{}/model/claude/{path}", gateway.base));
        let answer = soon(request.header("x-api-key", TOKEN).body("{}").send()).await.unwrap();
        assert_eq!((answer.status().as_u16(), &answer.headers()["x-should-retry"]), (403, &"false".parse().unwrap()), "{method} {path}");
        let text = answer.text().await.unwrap();
        assert!(text.contains("permission_error") && text.contains(&format!("may not ask the provider claude for {method} /")), "{text}");
        assert!(text.contains("POST /v1/messages") && !text.contains(TOKEN), "{text}");
    }
    assert!(requests.lock().unwrap().is_empty());
    assert_eq!(refusals.unwrap().load(Ordering::Relaxed), u64::try_from(asked.len()).unwrap());
}

#[tokio::test]
async fn a_look_whether_anybody_is_there_is_answered_here() {
    let (base, requests) = upstream(ok).await;
    let gateway = gateway(&base, key(), |egress| egress).await;
    for path in ["/model/claude", "/model/claude/"] {
        for method in ["GET", "HEAD"] {
            let request = client().request(method.parse().unwrap(), format!("{}{path}", gateway.base));
            assert_eq!(soon(request.header("x-api-key", TOKEN).send()).await.unwrap().status().as_u16(), 200, "{method} {path}");
            let request = client().request(method.parse().unwrap(), format!("{}{path}", gateway.base));
            assert_eq!(soon(request.send()).await.unwrap().status().as_u16(), 401, "{method} {path}");
        }
    }
    assert!(requests.lock().unwrap().is_empty());
}

#[tokio::test]
async fn nothing_that_tells_who_the_agent_is_reaches_the_provider() {
    let (base, requests) = upstream(ok).await;
    let gateway = gateway(&base, key(), |egress| egress).await;
    let bearer = format!("Bearer {TOKEN}");
    let kept = [
        ("authorization", bearer.as_str()),
        ("X-Agent-Token", TOKEN),
        ("x-agent-id", "a1"),
        ("x-agent-role", "developer"),
        ("x-agent-team", "backend"),
        ("x-custom", "prefix agent-token-1 suffix"),
        ("cookie", "c=1"),
        ("cookie2", "c=1"),
        ("proxy-authorization", "Basic abc"),
        ("proxy-connection", "keep-alive"),
        ("via", "1.1 inside"),
        ("forwarded", "for=10.0.0.1"),
        ("x-forwarded-for", "10.0.0.1"),
        ("x-real-ip", "10.0.0.1"),
        ("x-http-method-override", "DELETE"),
        ("x-original-url", "/v1/files"),
    ];
    let passed = [("anthropic-beta", "b1"), ("user-agent", "claude-cli/2"), ("x-stainless-lang", "js")];
    let request = kept.iter().chain(&passed).fold(gateway.post("/model/claude/v1/messages"), |r, (name, value)| r.header(*name, *value));
    assert_eq!(soon(request.body("{}").send()).await.unwrap().status().as_u16(), 200);
    let (parts, _) = requests.lock().unwrap().pop().unwrap();
    for (name, _) in kept {
        assert!(!parts.headers.contains_key(name), "{name}: {:?}", parts.headers);
    }
    for (name, value) in passed {
        assert_eq!(parts.headers[name], value);
    }
    assert_eq!(parts.headers["x-api-key"], REAL);
    assert!(!format!("{:?}", parts.headers).contains(TOKEN), "{:?}", parts.headers);
}

#[tokio::test]
async fn strangers_and_unknown_providers_reach_nothing() {
    let (base, requests) = upstream(ok).await;
    let gateway = gateway(&base, key(), |egress| egress).await;
    let url = |path: &str| format!("{}{path}", gateway.base);
    for (request, status, kind) in [
        (client().get(url("/model/claude/v1/models")), 401, "authentication_error"),
        (client().get(url("/model/claude/v1/models")).header("x-api-key", "wrong"), 401, "authentication_error"),
        (client().get(url("/model/claude/v1/models")).header("authorization", "Basic agent-token-1"), 401, "authentication_error"),
        (client().get(url("/model/claude/v1/models")).header("x-api-key", REAL), 401, "authentication_error"),
        (gateway.get("/model/other/v1/models"), 404, "not_found_error"),
        (gateway.get("/model/claude/a%2fb"), 400, "invalid_request_error"),
    ] {
        let answer = soon(request.send()).await.unwrap();
        assert_eq!(answer.status().as_u16(), status);
        assert_eq!(answer.headers()["x-should-retry"], "false");
        let body: serde_json::Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        assert_eq!((body["type"].as_str(), body["error"]["type"].as_str()), (Some("error"), Some(kind)));
        assert!(!body.to_string().contains(REAL));
    }
    assert!(requests.lock().unwrap().is_empty());
}

/// Sends bytes as they are and returns the status line.
async fn raw(base: &str, request: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(base.trim_start_matches("http://")).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon(stream.read_to_string(&mut answer)).await.unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn no_request_line_reaches_another_place() {
    let (base, requests) = upstream(ok).await;
    let gateway = gateway(&format!("{base}/team"), key(), |egress| egress).await;
    let head = format!("Host: evil.example\r\nx-api-key: {TOKEN}\r\nConnection: close\r\n\r\n");
    for (line, status, path) in [
        ("GET /model/claude/../../x HTTP/1.1", "400", None),
        ("GET /model/claude/v1/../../../x HTTP/1.1", "400", None),
        ("GET /model/claude/v1/%2e%2e/x HTTP/1.1", "400", None),
        ("GET http://evil.example/model/claude/v1/models HTTP/1.1", "200", Some("/team/v1/models")),
        ("GET /model/claude/http://evil.example/v1/models HTTP/1.1", "403", None),
        ("GET /model/claude//evil.example/v1/models HTTP/1.1", "403", None),
        ("GET /model/claude//v1/models HTTP/1.1", "403", None),
        ("GET /model/claude/v1/models?path=/v1/files HTTP/1.1", "200", Some("/team/v1/models?path=/v1/files")),
        ("GET /model/claude/v1/models/%3f HTTP/1.1", "403", None),
    ] {
        let answer = raw(&gateway.base, &format!("{line}\r\n{head}")).await;
        assert!(answer.contains(status), "{line}: {answer}");
        let reached = requests.lock().unwrap().pop().map(|(parts, _)| {
            assert_eq!(parts.headers["host"], base.trim_start_matches("http://"));
            parts.uri.to_string()
        });
        assert_eq!(reached.as_deref(), path, "{line}");
    }
}

fn limited() -> Response {
    let builder = Response::builder().status(429).header("retry-after", "7").header("request-id", "r1").header("set-cookie", "c=1");
    let builder = builder.header("connection", "x-hop").header("x-hop", "1").header("anthropic-ratelimit-unified-reset", "1796080215");
    builder.body(Body::from("{\"no\":1}")).unwrap()
}

#[tokio::test]
async fn status_and_headers_pass_except_those_of_one_connection() {
    let (base, requests) = upstream(limited).await;
    let gateway = gateway(&base, key(), |egress| egress).await;
    let request = gateway.get("/model/claude/v1/models").header("connection", "x-mine").header("x-mine", "1").header("te", "trailers");
    let answer = soon(request.send()).await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["retry-after"], &answer.headers()["request-id"]),
        (429, &"7".parse().unwrap(), &"r1".parse().unwrap())
    );
    assert!(!answer.headers().contains_key("set-cookie") && !answer.headers().contains_key("x-hop"));
    assert_eq!(answer.text().await.unwrap(), "{\"no\":1}");
    let (parts, _) = requests.lock().unwrap().pop().unwrap();
    assert!(!parts.headers.contains_key("x-mine") && !parts.headers.contains_key("te"), "{:?}", parts.headers);
    let exchange = gateway.seen.one_exchange().await;
    assert_eq!((exchange.status, exchange.retry_after, exchange.end), (Some(429), Some(Duration::from_secs(7)), End::Complete));
    assert_eq!(exchange.limit_resets, Some(Timestamp::from_millis(1_796_080_215_000)));
}

#[tokio::test]
async fn an_upstream_that_is_down_is_a_clear_502() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let gateway = gateway(&format!("http://{free}"), key(), |egress| egress).await;
    let answer = soon(gateway.post("/model/claude/v1/messages").body("{}").send()).await.unwrap();
    assert_eq!(answer.status().as_u16(), 502);
    let text = answer.text().await.unwrap();
    assert!(text.contains("the provider claude cannot be reached") && text.contains("refused"), "{text}");
    assert!(!text.contains(REAL) && !text.contains(&free.to_string()), "{text}");
    assert!(matches!(gateway.seen.one_exchange().await.end, End::UpstreamFailed(reason) if reason.contains("refused")));
}

#[tokio::test]
async fn a_client_that_hangs_up_ends_the_upstreams_work() {
    let (base, feed) = fed_upstream().await;
    let gateway = gateway(&base, Credential::None, |egress| egress).await;
    feed.send("one").await.unwrap();
    let mut answer = soon(gateway.get("/model/claude/v1/messages").send()).await.unwrap();
    assert_eq!(soon(answer.chunk()).await.unwrap().unwrap(), "one");
    assert!(gateway.seen.exchanges.lock().unwrap().is_empty());
    drop(answer);
    soon(feed.closed()).await;
    let exchange = gateway.seen.one_exchange().await;
    assert_eq!((exchange.end, exchange.received), (End::ClientGone, 3));
}

#[tokio::test]
async fn a_client_that_hangs_up_before_the_answer_ends_the_upstreams_work() {
    let (began, mut begun) = mpsc::channel::<oneshot::Receiver<()>>(1);
    let hang = move || {
        let began = began.clone();
        async move {
            let (_alive, over) = oneshot::channel();
            began.send(over).await.unwrap();
            std::future::pending::<Response>().await
        }
    };
    let base = serve(Router::new().fallback(hang)).await;
    let gateway = gateway(&base, Credential::None, |egress| egress).await;
    let request = tokio::spawn(gateway.get("/model/claude/v1/messages").send());
    let over = soon(begun.recv()).await.unwrap();
    request.abort();
    assert!(soon(over).await.is_err(), "the upstream's handler was dropped, not finished");
    assert_eq!(gateway.seen.one_exchange().await.end, End::ClientGone);
}

#[tokio::test]
async fn silence_has_deadlines_before_and_inside_an_answer() {
    let short = Deadlines { first_byte: Duration::from_millis(100), whole: LONG, idle: Duration::from_millis(100) };
    let never = serve(Router::new().fallback(std::future::pending::<Response>)).await;
    let before = gateway(&never, Credential::None, |egress| egress.with_deadlines(short)).await;
    let answer = soon(before.get("/model/claude/v1/messages").send()).await.unwrap();
    assert_eq!(answer.status().as_u16(), 504);
    assert!(answer.text().await.unwrap().contains("timeout_error"));
    assert_eq!(before.seen.one_exchange().await.end, End::TimedOut);

    let (base, feed) = fed_upstream().await;
    let inside = gateway(&base, Credential::None, |egress| egress.with_deadlines(short)).await;
    feed.send("one").await.unwrap();
    let answer = soon(inside.get("/model/claude/v1/messages").send()).await.unwrap();
    assert!(soon(answer.bytes()).await.is_err(), "a cut answer looked whole");
    assert_eq!(inside.seen.one_exchange().await.end, End::TimedOut);
    soon(feed.closed()).await;
}

/// Longer than any test waits.
const LONG: Duration = Duration::from_secs(600);

/// An upstream that reads the whole request, says so, and does not answer before it is told to.
async fn slow_upstream() -> (String, mpsc::Receiver<oneshot::Sender<()>>) {
    let (told, heard) = mpsc::channel(4);
    let listen = move |request: Request| async move {
        axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
        let (go, gone) = oneshot::channel();
        told.send(go).await.unwrap();
        gone.await.unwrap();
        ok()
    };
    (serve(Router::new().fallback(listen)).await, heard)
}

#[tokio::test]
async fn the_time_of_a_long_upload_is_not_the_providers() {
    let deadlines = Deadlines { first_byte: Duration::from_millis(300), whole: Duration::from_millis(300), idle: LONG };
    let (base, mut heard) = slow_upstream().await;
    let gateway = gateway(&base, Credential::None, |egress| egress.with_deadlines(deadlines)).await;
    let (feed, body) = fed();
    let body = reqwest::Body::wrap_stream(body.into_data_stream());
    let sending = tokio::spawn(gateway.post("/model/claude/v1/messages").body(body).send());
    // Twice the deadline passes before the last piece.
    for piece in ["{\"stream\":", "tr", "ue}"] {
        tokio::time::sleep(Duration::from_millis(200)).await;
        feed.send(piece).await.unwrap();
    }
    drop(feed);
    soon(heard.recv()).await.unwrap().send(()).unwrap();
    assert_eq!(soon(sending).await.unwrap().unwrap().status().as_u16(), 200);
}

#[tokio::test]
async fn an_upload_that_stops_ends() {
    let deadlines = Deadlines { first_byte: LONG, whole: LONG, idle: Duration::from_millis(100) };
    let (base, _heard) = slow_upstream().await;
    let gateway = gateway(&base, Credential::None, |egress| egress.with_deadlines(deadlines)).await;
    let (feed, body) = fed();
    feed.send("{").await.unwrap();
    let body = reqwest::Body::wrap_stream(body.into_data_stream());
    let answer = soon(gateway.post("/model/claude/v1/messages").body(body).send()).await.unwrap();
    assert_eq!(answer.status().as_u16(), 504);
    assert!(answer.text().await.unwrap().contains("stopped on its way"));
    assert_eq!(gateway.seen.one_exchange().await.end, End::TimedOut);
}

#[tokio::test]
async fn an_answer_that_comes_at_once_may_take_longer_than_the_first_piece_of_one() {
    let short = Duration::from_millis(50);
    for (body, whole, status) in [
        (r#"{"stream":true}"#, LONG, 504),
        (r#"{"stream":false}"#, LONG, 200),
        (r#"{"tools":[{"stream":true}]}"#, LONG, 200),
        (r#"{"stream":false}"#, short, 504),
    ] {
        let (base, mut heard) = slow_upstream().await;
        let deadlines = Deadlines { first_byte: short, whole, idle: LONG };
        let gateway = gateway(&base, Credential::None, |egress| egress.with_deadlines(deadlines)).await;
        let sending = tokio::spawn(gateway.post("/model/claude/v1/messages").body(body).send());
        let go = soon(heard.recv()).await.unwrap();
        if status == 200 {
            tokio::time::sleep(4 * short).await;
            go.send(()).unwrap();
        }
        let answer = soon(sending).await.unwrap().unwrap();
        assert_eq!(answer.status().as_u16(), status, "{body}");
        if status == 504 {
            assert_eq!(answer.headers()["x-should-retry"], "true");
        }
    }
}

#[tokio::test]
async fn the_login_file_is_read_for_every_request() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("credentials.json");
    let (base, requests) = upstream(ok).await;
    let clock: roboco_egress::Clock = Arc::new(|| Timestamp::from_millis(1000));
    let gateway = gateway(&base, Credential::OauthFile(file.clone()), |egress| egress.with_clock(clock)).await;
    let login = |token: &str, until: i64| {
        let login = serde_json::json!({"claudeAiOauth": {"accessToken": token, "refreshToken": "refresh", "expiresAt": until}});
        std::fs::write(&file, login.to_string()).unwrap();
    };
    let ask = || async { soon(gateway.post("/model/claude/v1/messages").body("{}").send()).await.unwrap() };
    let notices = || std::mem::take(&mut *gateway.seen.missing.lock().unwrap());
    let notice = vec![("claude".to_owned(), REMEDY.to_owned())];

    let refused = ask().await;
    assert_eq!(refused.status().as_u16(), 401);
    assert_eq!(notices(), notice);
    for token in ["first", "second"] {
        login(token, 1001);
        assert_eq!(ask().await.status().as_u16(), 200);
        let (parts, _) = requests.lock().unwrap().pop().unwrap();
        assert_eq!(parts.headers["authorization"], format!("Bearer {token}"));
    }
    assert_eq!(notices(), []);
    login("third", 1000);
    let refused = ask().await;
    assert_eq!((refused.status().as_u16(), &refused.headers()["x-should-retry"]), (401, &"false".parse().unwrap()));
    let text = refused.text().await.unwrap();
    assert!(text.contains("has expired") && text.contains("claude auth login") && !text.contains("third"), "{text}");
    assert_eq!(notices(), notice);
    assert!(requests.lock().unwrap().is_empty());
}

fn unauthorized() -> Response {
    Response::builder().status(401).body(Body::from("{}")).unwrap()
}

#[tokio::test]
async fn a_credential_the_provider_refuses_is_noticed() {
    let (base, _) = upstream(unauthorized).await;
    let gateway = gateway(&base, key(), |egress| egress).await;
    let answer = soon(gateway.get("/model/claude/v1/models").send()).await.unwrap();
    assert_eq!(answer.status().as_u16(), 401);
    assert_eq!(*gateway.seen.missing.lock().unwrap(), [("claude".to_owned(), REMEDY.to_owned())]);
}
