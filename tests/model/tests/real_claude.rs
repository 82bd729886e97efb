//! The real Claude Code, started by our driver, its model traffic through our gateway to the scripted model, its verbs from a small MCP
//! server. `CLAUDE_BIN` names the client's binary; without it these tests fail.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a helper of a test may fail the test")]

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Method, StatusCode};
use roboco_domain::id::{AgentId, SpawnId};
use roboco_domain::time::Timestamp;
use roboco_egress::{Caller, Callers, Credential, Egress, Exchange, Observer, Upstream};
use roboco_providers::claude::Claude;
use roboco_providers::table::CLAUDE;
use roboco_providers::{
    Channel, ClientEvent, Confinement, Ending, Exit, FileAccess, Launch, Login, McpState, Parser, Provider, RunCaps, RunsAs, Session,
    Spend, ToolName, TurnEnd,
};
use scripted_model::{ModelServer, Play, Script, Step};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use uuid::Uuid;

const TOKEN: &str = "agent-token-real-client";
const REAL_KEY: &str = "real-key-of-the-owner";
const PATIENCE: Duration = Duration::from_secs(60);

fn claude_bin() -> PathBuf {
    #[expect(clippy::disallowed_methods, reason = "a test has no settings file; the caller names the binary")]
    let path = std::env::var("CLAUDE_BIN").expect("set CLAUDE_BIN to the claude binary, or run `make test-clients`");
    let path = PathBuf::from(path);
    assert!(path.is_absolute() && path.exists(), "CLAUDE_BIN is {}, which is no absolute path of a file", path.display());
    path
}

/// A small MCP server with one verb; remembers what was called and with which credential.
#[derive(Clone, Default)]
struct Verbs {
    calls: Arc<Mutex<Vec<(String, Value)>>>,
    credentials: Arc<Mutex<Vec<String>>>,
}

impl Verbs {
    async fn start(&self) -> String {
        serve(Router::new().fallback(mcp).with_state(self.clone())).await
    }
}

async fn mcp(State(verbs): State<Verbs>, method: Method, headers: HeaderMap, body: String) -> Response {
    if method != Method::POST {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let credential = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    verbs.credentials.lock().unwrap().push(credential);
    let message: Value = serde_json::from_str(&body).unwrap();
    let Some(id) = message.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "verbs", "version": "1"}, "instructions": "Use note to report."}),
        "tools/list" => json!({"tools": [{"name": "note", "description": "Takes a note.",
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}]}),
        "tools/call" => {
            let (name, input) = (message["params"]["name"].as_str().unwrap().to_owned(), message["params"]["arguments"].clone());
            verbs.calls.lock().unwrap().push((name, input));
            json!({"content": [{"type": "text", "text": "{\"status\":\"ok\",\"id\":\"N-1\"}"}], "isError": false})
        }
        "ping" => json!({}),
        other => {
            let error = json!({"code": -32601, "message": format!("no method {other}")});
            return axum::Json(json!({"jsonrpc": "2.0", "id": id, "error": error})).into_response();
        }
    };
    axum::Json(json!({"jsonrpc": "2.0", "id": id, "result": result})).into_response()
}

async fn serve(app: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://{address}")
}

#[derive(Default)]
struct Gate {
    exchanges: Mutex<Vec<Exchange>>,
    missing: Mutex<Vec<String>>,
}

impl Callers for Gate {
    fn verify(&self, token: &str) -> Option<Caller> {
        (token == TOKEN).then(|| Caller { agent: AgentId::new(Uuid::from_u128(1)), spawn: SpawnId::new(Uuid::from_u128(2)) })
    }
}

impl Observer for Gate {
    fn exchange(&self, exchange: &Exchange) {
        self.exchanges.lock().unwrap().push(exchange.clone());
    }

    fn auth_missing(&self, _caller: Caller, _provider: &str, remedy: &str) {
        self.missing.lock().unwrap().push(remedy.to_owned());
    }
}

/// Everything around one client.
struct World {
    model: ModelServer,
    verbs: Verbs,
    gate: Arc<Gate>,
    directory: tempfile::TempDir,
    mcp_url: String,
    model_url: String,
    login: Login,
    confinement: Confinement,
}

impl World {
    async fn new(steps: Vec<Step>) -> Self {
        Self::with(|_| steps, Credential::ApiKey(SecretString::from(REAL_KEY))).await
    }

    /// `steps` are made for the tree the client works in.
    async fn with(steps: impl FnOnce(&Path) -> Vec<Step>, credential: Credential) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for part in ["home", "tree"] {
            std::fs::create_dir(directory.path().join(part)).unwrap();
        }
        let steps = steps(&directory.path().join("tree"));
        let model = ModelServer::start(Script::new(vec![Play::mentioning("You are be-dev-1", steps)])).await.unwrap();
        let login = if matches!(credential, Credential::ApiKey(_)) { Login::ApiKey } else { Login::Subscription };
        let gate = Arc::new(Gate::default());
        let upstream = Upstream::new(&model.base_url(), credential, "sign in").unwrap().allowing(CLAUDE.requests.iter().copied());
        let egress = Egress::new(Arc::clone(&gate) as _, Arc::clone(&gate) as _).with_upstream("claude", upstream);
        let model_url = format!("{}/model/claude", serve(roboco_egress::router(egress)).await);
        let verbs = Verbs::default();
        let mcp_url = format!("{}/mcp/1", verbs.start().await);
        // The steps of these plays touch nothing outside their own directory, which is all the confinement they need.
        let runs_as = if std::fs::metadata(directory.path()).unwrap().uid() == 0 { RunsAs::Root } else { RunsAs::User };
        Self { model, verbs, gate, directory, mcp_url, model_url, login, confinement: Confinement::Confined(runs_as) }
    }

    fn tree(&self) -> PathBuf {
        self.directory.path().join("tree")
    }

    fn start(&self, session: Session<'_>, before: Spend) -> Client {
        let (token, facts, home) = (SecretString::from(TOKEN), json!({}), self.directory.path().join("home"));
        let program = claude_bin();
        let launch = Launch {
            program: &program,
            model: Some("sonnet"),
            system_prompt: "You are be-dev-1.",
            brief: "Work on T-1.",
            facts: &facts,
            mcp_url: &self.mcp_url,
            agent_token: &token,
            model_base_url: &self.model_url,
            login: self.login,
            session,
            home: &home,
            confinement: self.confinement,
            files: FileAccess::Write,
            caps: RunCaps::default(),
            play: None,
        };
        Client::start(&launch, &home, &self.tree(), before)
    }
}

struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    parser: Box<dyn Parser>,
    first_input: Vec<String>,
    seen: Vec<ClientEvent>,
}

impl Client {
    fn start(launch: &Launch<'_>, home: &Path, tree: &Path, before: Spend) -> Self {
        let spec = Claude.launch(launch).unwrap();
        for file in &spec.files {
            let path = home.join(&file.path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, file.content.expose_secret()).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(file.mode)).unwrap();
        }
        #[expect(clippy::disallowed_methods, reason = "the test is its own supervisor and kills what it starts")]
        let mut command = Command::new(&spec.argv[0]);
        command.args(&spec.argv[1..]).env_clear().envs(spec.env.iter().map(|(name, value)| (name, value.expose())));
        command.env("HOME", home).env("PATH", "/usr/local/bin:/usr/bin:/bin").current_dir(tree);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let parser = Claude.parser(before);
        Self { child, input, output: BufReader::new(output).lines(), parser, first_input: spec.first_input, seen: Vec::new() }
    }

    async fn send(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        input.flush().await.unwrap();
    }

    async fn brief(&mut self) {
        for line in std::mem::take(&mut self.first_input) {
            self.send(&line).await;
        }
    }

    /// Reads events until one fits; fails after a minute.
    async fn until(&mut self, fits: impl Fn(&ClientEvent) -> bool) -> ClientEvent {
        let reading = async {
            while let Some(line) = self.output.next_line().await.unwrap() {
                let events = self.parser.line(now(), Channel::Out, &line);
                let found = events.iter().find(|event| fits(event)).cloned();
                self.seen.extend(events);
                if let Some(event) = found {
                    return event;
                }
            }
            panic!("the client ended; seen: {:#?}", self.seen);
        };
        let reading = tokio::time::timeout(PATIENCE, reading).await;
        reading.expect("waited a minute for the client")
    }

    async fn turn(&mut self) -> TurnEnd {
        match self.until(|event| matches!(event, ClientEvent::TurnDone(_))).await {
            ClientEvent::TurnDone(end) => end,
            other => panic!("{other:?}"),
        }
    }

    /// Closes its input, reads the rest and waits for its end.
    async fn end(mut self) -> (Ending, Vec<ClientEvent>, Spend) {
        drop(self.input.take());
        let ending = async {
            while let Some(line) = self.output.next_line().await.unwrap() {
                self.seen.extend(self.parser.line(now(), Channel::Out, &line));
            }
            self.child.wait().await.unwrap()
        };
        let status = tokio::time::timeout(PATIENCE, ending).await.expect("waited a minute for the client's end");
        let ending = self.parser.exit(Exit { code: status.code(), signal: status.signal() });
        (ending, self.seen, self.parser.spent())
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap())
}

fn note(text: &str) -> Step {
    Step::verb("note", json!({ "text": text }))
}

fn write(file: &Path) -> Step {
    Step::tool("Write", json!({ "file_path": file, "content": "written by the model\n" }))
}

fn calls(events: &[ClientEvent]) -> Vec<ToolName> {
    let tool = |event: &ClientEvent| match event {
        ClientEvent::ToolCall { tool, .. } => Some(tool.clone()),
        _ => None,
    };
    events.iter().filter_map(tool).collect()
}

fn all_tools_succeeded(events: &[ClientEvent]) -> bool {
    events.iter().all(|event| !matches!(event, ClientEvent::ToolResult { ok: false, .. }))
}

#[tokio::test]
async fn a_turn_uses_verbs_files_and_shell_and_the_next_message_starts_another() {
    let steps = |tree: &Path| {
        let shell = Step::tool("Bash", json!({"command": "cat hello.txt > copy.txt", "description": "copy"}));
        let after = Step::verb_with("note", |request| json!({"text": request.last_result("note").unwrap().json()["id"]}));
        vec![note("hello"), write(&tree.join("hello.txt")), shell, after, Step::text("Done: 429 rate limit, you've hit your limit")]
    };
    for confinement in [None, Some(Confinement::Unconfined)] {
        let mut world = World::with(steps, Credential::ApiKey(SecretString::from(REAL_KEY))).await;
        world.confinement = confinement.unwrap_or(world.confinement);
        check_turn(&world).await;
    }
}

#[tokio::test]
async fn hooks_and_settings_in_the_tree_do_not_run() {
    let world = World::new(vec![Step::text("Done.")]).await;
    let mark = world.directory.path().join("hooked");
    let run = json!([{ "hooks": [{ "type": "command", "command": format!("touch {}", mark.display()) }] }]);
    let settings = json!({ "hooks": { "SessionStart": run, "UserPromptSubmit": run, "Stop": run } }).to_string();
    std::fs::create_dir(world.tree().join(".claude")).unwrap();
    for file in ["settings.json", "settings.local.json"] {
        std::fs::write(world.tree().join(".claude").join(file), &settings).unwrap();
    }
    let mut client = world.start(Session::New(&Uuid::from_u128(8).to_string()), Spend::default());
    client.brief().await;
    assert_eq!(client.turn().await, TurnEnd::Finished);
    client.end().await;
    assert!(!mark.exists(), "a hook of the tree ran");
}

async fn check_turn(world: &World) {
    let session = Uuid::from_u128(7).to_string();
    let mut client = world.start(Session::New(&session), Spend::default());
    client.brief().await;
    assert_eq!(client.turn().await, TurnEnd::Finished);
    let ready = client.seen.first().cloned();
    assert!(matches!(&ready, Some(ClientEvent::Ready { session: Some(id), mcp: McpState::Connected, .. }) if *id == session), "{ready:?}");
    let names: Vec<String> = calls(&client.seen).iter().map(|tool| tool.bare().to_owned()).collect();
    assert_eq!(names, ["note", "Write", "Bash", "note"]);
    assert_eq!(calls(&client.seen)[0], ToolName::Verb("note".into()));
    assert!(all_tools_succeeded(&client.seen), "{:#?}", client.seen);
    for file in ["hello.txt", "copy.txt"] {
        assert_eq!(std::fs::read_to_string(world.tree().join(file)).unwrap(), "written by the model\n");
    }

    let nudge = Claude.user_message("Go on.");
    client.send(&nudge).await;
    assert_eq!(client.turn().await, TurnEnd::Finished);
    let (ending, _, spent) = client.end().await;
    assert_eq!(ending, Ending::Finished);

    let called = world.verbs.calls.lock().unwrap().clone();
    let texts: Vec<&str> = called.iter().map(|(_, input)| input["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["hello", "N-1", "hello", "N-1"]);
    let bearer = format!("Bearer {TOKEN}");
    assert!(world.verbs.credentials.lock().unwrap().iter().all(|credential| *credential == bearer));

    let asked = world.model.conversations();
    assert_eq!(spent.tokens.output, 50 * u64::try_from(asked.len()).unwrap());
    assert!(spent.usd_micros > 0);
    let tools = asked[0].tools();
    assert!(tools.contains(&"mcp__roboco__note") && tools.contains(&"Bash") && tools.contains(&"Write"), "{tools:?}");
    assert!(!tools.iter().any(|tool| matches!(*tool, "Task" | "Agent" | "WebFetch" | "WebSearch")), "{tools:?}");
    for request in world.model.requests().iter().filter(|request| request.path == "/v1/messages") {
        assert_eq!(request.headers["x-api-key"], REAL_KEY);
        assert!(!format!("{:?}", request.headers).contains(TOKEN));
    }
    assert!(world.gate.exchanges.lock().unwrap().iter().any(|exchange| exchange.status == Some(200) && exchange.received > 0));
}

#[tokio::test]
async fn verbs_that_cannot_be_reached_fail_the_run() {
    let mut world = World::new(vec![Step::text("All is well.")]).await;
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    world.mcp_url = format!("http://{free}/mcp/1");
    let mut client = world.start(Session::New(&Uuid::from_u128(8).to_string()), Spend::default());
    client.brief().await;
    let ready = client.until(|event| matches!(event, ClientEvent::Ready { .. })).await;
    assert!(matches!(ready, ClientEvent::Ready { mcp: McpState::Failed(_), .. }), "{ready:?}");
    client.turn().await;
    let (ending, ..) = client.end().await;
    assert!(matches!(ending, Ending::GatewayBroken { .. }), "{ending:?}");
}

#[tokio::test]
async fn a_session_goes_on_in_a_new_process_and_is_paid_once() {
    let world = World::new(vec![note("again"), Step::text("Done.")]).await;
    let session = Uuid::from_u128(9).to_string();
    let mut first = world.start(Session::New(&session), Spend::default());
    first.brief().await;
    assert_eq!(first.turn().await, TurnEnd::Finished);
    let (_, _, before) = first.end().await;
    let mut second = world.start(Session::Resume(&session), before);
    second.brief().await;
    assert_eq!(second.turn().await, TurnEnd::Finished);
    let (ending, events, after) = second.end().await;
    assert_eq!(ending, Ending::Finished);
    assert_eq!(after.tokens.output, 2 * before.tokens.output);
    assert_eq!(after.usd_micros, 2 * before.usd_micros);
    assert!(events.contains(&ClientEvent::Cost(before.usd_micros)));
    assert!(world.model.conversations().last().unwrap().turn() > 0, "the model did not see the first turn");

    let mut lost = world.start(Session::Resume(&Uuid::from_u128(10).to_string()), Spend::default());
    lost.brief().await;
    let (ending, ..) = lost.end().await;
    assert_eq!(ending, Ending::SessionLost);
}

#[tokio::test]
async fn overload_that_passes_is_seen_as_waiting_and_does_not_fail_the_turn() {
    let world = World::new(vec![Step::refuse(529, "overloaded_error", "Overloaded").times(2), Step::text("Done.")]).await;
    let mut client = world.start(Session::New(&Uuid::from_u128(11).to_string()), Spend::default());
    client.brief().await;
    assert_eq!(client.turn().await, TurnEnd::Finished);
    let (ending, events, _) = client.end().await;
    assert_eq!(ending, Ending::Finished);
    let waits = events.iter().filter(|event| matches!(event, ClientEvent::Retrying(retry) if retry.status == Some(529)));
    assert_eq!(waits.count(), 2, "{events:#?}");
}

#[tokio::test]
async fn a_subscriptions_limit_ends_the_run_with_its_reset() {
    let until = now().after(Duration::from_secs(2 * 60 * 60)).millis() / 1000;
    let limit = Step::refuse(429, "rate_limit_error", "This request would exceed your account's limit.")
        .header("retry-after", "7200")
        .header("anthropic-ratelimit-unified-status", "rejected")
        .header("anthropic-ratelimit-unified-reset", &until.to_string())
        .header("anthropic-ratelimit-unified-representative-claim", "five_hour");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("login.json");
    let login = json!({"claudeAiOauth": {"accessToken": "oauth-access", "expiresAt": now().millis() + 3_600_000}});
    std::fs::write(&file, login.to_string()).unwrap();
    let world = World::with(|_| vec![limit], Credential::OauthFile(file)).await;
    let mut client = world.start(Session::New(&Uuid::from_u128(12).to_string()), Spend::default());
    client.brief().await;
    assert!(matches!(client.turn().await, TurnEnd::Failed(_)));
    let (ending, ..) = client.end().await;
    assert_eq!(ending, Ending::RateLimited { until: Some(Timestamp::from_millis(until * 1000)) });
    let requests = world.model.requests();
    let asked = requests.iter().find(|request| request.path == "/v1/messages").unwrap();
    assert_eq!(asked.headers["authorization"], "Bearer oauth-access");
    assert!(asked.headers["anthropic-beta"].to_str().unwrap().contains("oauth"));
    let seen = world.gate.exchanges.lock().unwrap();
    assert!(seen.iter().any(|exchange| exchange.status == Some(429) && exchange.limit_resets.is_some()));
}

#[tokio::test]
async fn a_missing_login_ends_the_run_at_once() {
    let world = World::with(|_| vec![Step::text("Never.")], Credential::OauthFile(PathBuf::from("/nowhere/login.json"))).await;
    let mut client = world.start(Session::New(&Uuid::from_u128(13).to_string()), Spend::default());
    let started = Instant::now();
    client.brief().await;
    assert!(matches!(client.turn().await, TurnEnd::Failed(_)));
    let (ending, events, _) = client.end().await;
    assert!(matches!(ending, Ending::AuthMissing { .. }), "{ending:?}");
    // Left alone the client asks for three minutes; the gateway tells it that asking again is of no use.
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}, {events:#?}", started.elapsed());
    assert!(world.gate.missing.lock().unwrap().iter().all(|remedy| remedy == "sign in"));
    assert!(world.model.requests().is_empty());
}

#[tokio::test]
async fn a_turn_can_be_interrupted_and_a_killed_client_has_crashed() {
    let world = World::new(vec![note("one"), Step::hang()]).await;
    let mut client = world.start(Session::New(&Uuid::from_u128(14).to_string()), Spend::default());
    client.brief().await;
    client.until(|event| matches!(event, ClientEvent::ToolResult { .. })).await;
    client.send(&Claude.interrupt().unwrap()).await;
    assert_eq!(client.turn().await, TurnEnd::Interrupted);

    client.send(&Claude.user_message("Go on.")).await;
    let deadline = Instant::now() + PATIENCE;
    while !world.model.conversations().iter().any(|request| request.last_user_text().contains("Go on.")) {
        assert!(Instant::now() < deadline, "the next message did not reach the model");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    client.child.start_kill().unwrap();
    let (ending, ..) = client.end().await;
    assert!(matches!(ending, Ending::Crashed { code: None, .. }), "{ending:?}");
}
