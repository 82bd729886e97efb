//! The real Claude Code carries the demo's task from claim to merge. Only its model is scripted: commits, pull request and verbs come from
//! the client's own tool calls, inside the sandbox, through the gateway. `CLAUDE_BIN` names the client; without it these tests fail.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a helper of a test may fail the test")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use roboco_e2e::{PATIENCE, Place, Ran, until};
use scripted_model::{ModelServer, Play, Request, Script, Step};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

const REAL_KEY: &str = "real-key-of-the-owner";

fn claude() -> String {
    #[expect(clippy::disallowed_methods, reason = "a test has no settings file; the caller names the binary")]
    let path = std::env::var("CLAUDE_BIN").expect("set CLAUDE_BIN to the claude binary, or run `make test-clients`");
    assert!(Path::new(&path).exists(), "CLAUDE_BIN is {path}, which does not exist");
    path
}

/// A file of the demo, which the scripted model writes by the client's tools.
fn demo_file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../company/demo/files").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The client's working directory, from its answer to `pwd`.
fn tree(request: &Request) -> String {
    let answers = request.all_tool_results();
    let line = answers.iter().flat_map(|answer| answer.text.lines()).map(str::trim).find(|line| line.starts_with('/'));
    line.expect("no answer of pwd in the conversation").to_owned()
}

fn shell(command: &str) -> Step {
    Step::tool("Bash", json!({ "command": command, "description": "look" }))
}

fn read(name: &'static str) -> Step {
    Step::tool_with("Read", move |request| json!({ "file_path": format!("{}/{name}", tree(request)) }))
}

fn write(name: &'static str) -> Step {
    let content = demo_file(name);
    Step::tool_with("Write", move |request| json!({ "file_path": format!("{}/{name}", tree(request)), "content": content }))
}

/// What the model does in each seat.
fn company() -> Script {
    let evidence =
        |key: &str| json!([{ key: "C1", "evidence": "test:joins two names with and" }, { key: "C2", "evidence": "node --test passes" }]);
    let developer = vec![
        Step::verb(
            "i_will_work_on",
            json!({ "task_id": "T-1", "plan": "Accept a list in greet() and join it in a file of its own.", "steps": [
                { "title": "Join names", "description": "Add src/join.js and use it in greet()." },
                { "title": "Test it", "description": "Add test/several.test.js and run everything." },
            ] }),
        ),
        shell("pwd"),
        write("src/join.js"),
        read("src/greet.js"),
        write("src/greet.js"),
        write("test/several.test.js"),
        shell("node --test"),
        Step::verb("commit", json!({ "message": "feat(greet): greet several people at once" })),
        Step::verb("open_pr", json!({ "task_id": "T-1" })),
        Step::verb(
            "i_am_done",
            json!({ "task_id": "T-1", "notes": "greet() accepts a list; a single name takes the same path.", "criteria": evidence("id") }),
        ),
        Step::text("Done."),
    ];
    let qa = vec![
        Step::verb("claim_review", json!({ "task_id": "T-1" })),
        shell("node --test"),
        Step::verb(
            "pass",
            json!({ "task_id": "T-1", "notes": "Ran all tests on the pinned commit; two names are joined as wanted.", "criteria_verified": evidence("criterion") }),
        ),
        Step::text("Passed."),
    ];
    let documenter = vec![
        Step::verb("claim_doc_task", json!({ "task_id": "T-1" })),
        shell("pwd"),
        read("README.md"),
        Step::tool_with("Edit", |request| {
            let line = "greet('Ada', { greeting: 'Good morning' });";
            json!({ "file_path": format!("{}/README.md", tree(request)), "old_string": line, "new_string": format!("greet(['Ada', 'Bob']);  // 'Hello, Ada and Bob'\n{line}") })
        }),
        Step::verb("commit", json!({ "message": "docs(greet): show how to greet several people" })),
        Step::verb("i_documented", json!({ "task_id": "T-1", "notes": "The readme shows a list of names.", "files": ["README.md"] })),
        Step::text("Documented."),
    ];
    let pm = vec![
        Step::verb("complete", json!({ "task_id": "T-1", "notes": "Both criteria were verified by QA and the readme matches the code." })),
        Step::text("Accepted."),
    ];
    let seats = [("be-dev-1", developer), ("be-qa", qa), ("be-doc", documenter), ("be-pm", pm)];
    Script::new(seats.map(|(seat, steps)| Play::mentioning(&format!("You are {seat},"), steps)).into())
}

/// A place whose agents run on the real client and the scripted model.
fn place(model: &ModelServer) -> Place {
    let mut place = Place::new();
    for (name, value) in [
        ("ROBOCO_PROVIDERS__CLAUDE__COMMAND", claude()),
        ("ROBOCO_PROVIDERS__CLAUDE__LOGIN", "key".into()),
        ("ROBOCO_PROVIDERS__CLAUDE__KEY", REAL_KEY.into()),
        ("ROBOCO_PROVIDERS__CLAUDE__UPSTREAM", model.base_url()),
    ] {
        place.variables.push((name.into(), value));
    }
    place
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_client_carries_the_task_from_claim_to_merge() {
    let model = ModelServer::start(company()).await.unwrap();
    let mut place = place(&model);
    let (place, ran) = blocking(move || {
        let ran = place.roboco(&["demo", "--provider", "claude", "--yes"]);
        if ran.code != 0 {
            let _server = place.up();
            panic!("{ran:?}\n{}", place.roboco(&["logs", "T-1"]).out);
        }
        (place, ran)
    })
    .await;
    check_delivery(place, ran, &model).await;
}

async fn check_delivery(mut place: Place, ran: Ran, model: &ModelServer) {
    let (transcript, view) = blocking(move || {
        let repository = place.data().join("demo/greeter");
        let merges = place.git(&repository, &["log", "--merges", "--format=%(trailers:key=Task,valueonly)", "main"]);
        assert_eq!(merges.trim(), "T-1");
        let subjects = place.git(&repository, &["log", "--reverse", "--format=%an: %s", "main^1..main^2"]);
        let expected = [
            "Backend Developer 1: [T-1] feat(greet): greet several people at once",
            "Backend Documenter: [T-1] docs(greet): show how to greet several people",
        ];
        assert_eq!(subjects.lines().collect::<Vec<_>>(), expected);
        assert!(std::fs::read_to_string(repository.join("README.md")).unwrap().contains("greet(['Ada', 'Bob'])"));
        assert!(!ran.out.contains(REAL_KEY) && !ran.err.contains(REAL_KEY));
        let server = place.up();
        let transcript = place.roboco(&["logs", "T-1", "--json"]).out;
        let view = place.json(&["task", "show", "T-1", "--json"]);
        assert_eq!(server.terminate().code, 0);
        (transcript, view)
    })
    .await;
    for spawn in view["spawns"].as_array().unwrap() {
        assert_eq!((spawn["provider"].as_str(), spawn["outcome"].as_str()), (Some("claude"), Some("completed")), "{spawn}");
        assert!(spawn["usage"]["output_tokens"].as_u64().or(spawn["usage"]["output"].as_u64()).is_some_and(|tokens| tokens > 0), "{spawn}");
    }
    assert_eq!(view["spawns"].as_array().unwrap().len(), 4);
    assert_eq!(view["pr"], 1);
    for tool in ["Write", "Edit", "Bash", "open_pr", "i_am_done", "pass", "i_documented", "complete"] {
        assert!(transcript.contains(tool), "no call of {tool} in the transcripts");
    }
    assert!(!transcript.contains(REAL_KEY));
    for request in model.requests().iter().filter(|request| request.path == "/v1/messages") {
        assert_eq!(request.headers["x-api-key"], REAL_KEY, "the gateway adds the real key");
    }
}

/// Stands in front of the agents' door and answers for the verbs that they are broken. Everything else passes, one request a connection.
async fn break_verbs(door: &Path) {
    let real = door.with_extension("real");
    std::fs::rename(door, &real).unwrap();
    let listener = UnixListener::bind(door).unwrap();
    let real = Arc::new(real);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let real = Arc::clone(&real);
            tokio::spawn(async move {
                if let Err(error) = relay(client, &real).await {
                    eprintln!("relay: {error}");
                }
            });
        }
    });
}

async fn relay(mut client: UnixStream, real: &Path) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        if client.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    if text.lines().next().unwrap_or_default().contains(" /mcp/") {
        return client.write_all(b"HTTP/1.1 502 Bad Gateway\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").await;
    }
    let mut server = UnixStream::connect(real).await?;
    let end = head.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap_or_default();
    let fields = text.lines().take_while(|line| !line.is_empty()).filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
    let fields: String = fields.map(|line| format!("{line}\r\n")).collect();
    server.write_all(format!("{fields}connection: close\r\n\r\n").as_bytes()).await?;
    server.write_all(head.get(end + 4..).unwrap_or_default()).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await.map(drop)
}

fn door(place: &Place) -> PathBuf {
    let folder = std::fs::read_dir(place.path("run/roboco")).unwrap().next().unwrap().unwrap().path();
    folder.join("door.sock")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_its_verbs_has_failed_whatever_its_model_says() {
    let model = ModelServer::start(Script::new(vec![Play::always(vec![Step::text("All is done and well.")])])).await.unwrap();
    let mut place = place(&model);
    let (place, server) = blocking(move || {
        let server = place.up();
        place.repository("greeter", &[("a.txt", "a\n")]);
        assert_eq!(place.roboco(&["project", "add", "greeter", "--cell", "backend"]).code, 0);
        (place, server)
    })
    .await;
    break_verbs(&door(&place)).await;
    let view: Value = blocking(move || {
        let task = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../company/demo/task.toml");
        let given = place.roboco(&["task", "new", "--file", task.to_str().unwrap()]);
        assert_eq!(given.code, 0, "{given:?}");
        let mut view = Value::Null;
        until(PATIENCE, "the first run ends", || {
            view = place.json(&["task", "show", "T-1", "--json"]);
            view["spawns"][0]["outcome"].is_string()
        });
        drop(server);
        view
    })
    .await;
    assert_eq!(view["spawns"][0]["outcome"], "gateway_broken", "{:#}", view["spawns"]);
    assert_eq!(view["commits"].as_array().unwrap().len(), 0);
    assert_ne!(view["status"], "completed");
}
