//! A whole scripted agent: inside a sandbox, through the door, over MCP.

use std::convert::Infallible;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use roboco_sandbox::{Access, ClientInput, ClientIo, Driver, Env, Exit, Mount, Network, Trust, Unconfined};
use serde_json::{Value, json};
use tokio::net::UnixListener;

use crate::world::{World, listen, stand_in};

type Calls = Arc<Mutex<Vec<(String, Value)>>>;

const PLAY: &str = r#"
[[play]]
role = "developer"
steps = [
  { call = "i_will_work_on", args = { task_id = "{{ task }}" } },
  { write = "src/greet.js", file = "greet.js" },
  { run = "test \"$(cat src/greet.js)\" = hello && ! test -e /var/tmp/outside" },
  { call = "commit", args = { message = "feat: greet" } },
]
"#;

#[tokio::test]
async fn a_scripted_agent_works_from_inside_through_the_door() {
    for confined in [Unconfined::Refuse, Unconfined::Allow] {
        let world = World::new();
        let (door, calls) = open_door(&world);
        fs::create_dir_all(world.path("plays/files")).unwrap();
        fs::write(world.path("plays/play.toml"), PLAY).unwrap();
        fs::write(world.path("plays/files/greet.js"), "hello\n").unwrap();
        let driver = match confined {
            Unconfined::Refuse => world.driver().await,
            Unconfined::Allow => world.driver_without_bubblewrap(Unconfined::Refuse),
        };
        let binary = stand_in();
        let mut spec = world.spec(&[binary.to_str().unwrap(), "bridge", "script"]);
        spec.trust = Trust::Own;
        spec.network = Network::Door(door);
        spec.mounts.push(Mount::same(world.path("plays"), Access::ReadOnly));
        spec.env = Env::new()
            .with("ROBOCO_MCP_URL", "http://{{door}}/mcp/spawn-1")
            .with("ROBOCO_AGENT_TOKEN", "agent-token")
            .with("ROBOCO_PLAY_FILE", world.path("plays/play.toml").display().to_string())
            .with("ROBOCO_PLAY_FILES_DIR", world.path("plays/files").display().to_string());
        let mut sandbox = driver.start(&spec).await.unwrap();
        sandbox.send(ClientInput::Line(json!({"role": "developer", "task": "T-1"}).to_string())).await.unwrap();
        sandbox.send(ClientInput::Eof).await.unwrap();
        let (said, end) = listen(&mut sandbox).await;
        assert_eq!(end, ClientIo::Exit(Exit::Code(0)), "{said:#?}");
        assert_eq!(said[0], r#"{"type":"ready","mcp":"connected"}"#);
        assert_eq!(said.last().unwrap(), r#"{"type":"turn_done","ok":true}"#);
        assert_eq!(
            *calls.lock().unwrap(),
            [("i_will_work_on".to_owned(), json!({"task_id": "T-1"})), ("commit".to_owned(), json!({"message": "feat: greet"}))]
        );
        assert_eq!(fs::read_to_string(world.path("data/trees/mine/src/greet.js")).unwrap(), "hello\n");
    }
}

/// The control plane's side of the door: an MCP server on a unix socket.
fn open_door(world: &World) -> (PathBuf, Calls) {
    let path = world.path("door.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let calls = Calls::default();
    let heard = Arc::clone(&calls);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let heard = Arc::clone(&heard);
            let service = service_fn(move |request| answer(request, Arc::clone(&heard)));
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    (path, calls)
}

async fn answer(request: Request<Incoming>, calls: Calls) -> Result<Response<Full<Bytes>>, Infallible> {
    assert_eq!(request.uri().path(), "/mcp/spawn-1");
    assert_eq!(request.headers()["authorization"], "Bearer agent-token");
    let message: Value = serde_json::from_slice(&request.into_body().collect().await.unwrap().to_bytes()).unwrap();
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "roboco", "version": "1"}}),
        "tools/call" => {
            let params = &message["params"];
            calls.lock().unwrap().push((params["name"].as_str().unwrap().to_owned(), params["arguments"].clone()));
            json!({"content": [{"type": "text", "text": json!({"status": "fine"}).to_string()}]})
        }
        _ => return Ok(Response::builder().status(StatusCode::ACCEPTED).body(Full::default()).unwrap()),
    };
    let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    Ok(Response::builder().header("content-type", "application/json").body(Full::from(body)).unwrap())
}
