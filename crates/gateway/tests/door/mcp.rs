//! The MCP endpoint, spoken to in raw JSON-RPC.

use http::StatusCode;
use roboco_domain::verb::Verb;
use roboco_gateway::Gateway;
use serde_json::{Value, json};

use crate::world::World;

fn text_of(answer: &Value) -> Value {
    let content = answer["result"]["content"].as_array().unwrap_or_else(|| panic!("no content in {answer}"));
    assert_eq!(content.len(), 1, "more than one block");
    assert_eq!(content[0]["type"], "text");
    serde_json::from_str(content[0]["text"].as_str().unwrap()).unwrap()
}

fn call(id: u64, name: &str, arguments: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name, "arguments": arguments } })
}

#[tokio::test]
async fn a_client_of_a_newer_revision_falls_back_opens_lists_and_calls() {
    let world = World::new().await;
    let task = world.task().await;
    let run = world.run("be-dev-1", task, Verb::IWillWorkOn).await;
    let version = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28" });
    let probe =
        world.rpc(&run, None, json!({ "jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": { "_meta": version } })).await;
    assert_eq!((probe.status, &probe.body["id"], &probe.body["error"]["code"]), (StatusCode::OK, &json!(0), &json!(-32601)));

    let open = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "client", "version": "1" } } });
    let opened = world.rpc(&run, None, open).await;
    let result = &opened.body["result"];
    assert_eq!((&result["protocolVersion"], &result["serverInfo"]["name"]), (&json!("2025-11-25"), &json!("roboco")), "{:?}", opened.body);
    assert!(result["capabilities"]["tools"].is_object());
    assert!(result["instructions"].as_str().unwrap().contains("remediate"));
    let session = opened.headers["mcp-session-id"].to_str().unwrap().to_owned();

    let ready = world.rpc(&run, Some(&session), json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    assert_eq!(ready.status, StatusCode::ACCEPTED);
    let listed = world.rpc(&run, Some(&session), json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" })).await;
    let names: Vec<&str> = listed.body["result"]["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names[..3], ["give_me_work", "i_will_work_on", "open_pr"]);

    let work = world.rpc(&run, Some(&session), call(3, "give_me_work", json!({}))).await;
    assert_eq!(work.body["result"]["isError"], json!(false), "{:?}", work.body);
    let envelope = text_of(&work.body);
    assert_eq!((&envelope["task_id"], envelope.get("error")), (&json!("T-1"), None), "empty keys are sent");
    let refused =
        world.rpc(&run, Some(&session), call(4, "i_am_done", json!({ "task_id": "T-1", "notes": "It greets by name now." }))).await;
    assert_eq!(refused.body["result"]["isError"], json!(true));
    assert!(text_of(&refused.body)["remediate"].is_string());
    let unknown = world.rpc(&run, Some(&session), call(5, "pass", json!({}))).await;
    assert_eq!(unknown.body["result"]["isError"], json!(true));
    assert!(text_of(&unknown.body)["remediate"].as_str().unwrap().contains("i_will_work_on"));
}

#[tokio::test]
async fn a_repeated_message_of_a_session_is_done_once() {
    let world = World::new().await;
    let task = world.task().await;
    let run = world.run("be-dev-1", task, Verb::IWillWorkOn).await;
    let note = |id| call(id, "note", json!({ "task_id": "T-1", "text": "The test runs in a second." }));
    for (session, id, written) in [("a", 3, 1), ("a", 3, 1), ("a", 4, 2), ("b", 3, 3), ("b", 3, 3)] {
        let answer = world.rpc(&run, Some(session), note(id)).await;
        assert_eq!(answer.body["result"]["isError"], json!(false), "{:?}", answer.body);
        assert_eq!(world.events("note.recorded").await, written, "message {id} of session {session}");
    }
}

#[tokio::test]
async fn everything_else_is_answered_in_json() {
    let world = World::new().await;
    let task = world.task().await;
    let run = world.run("be-dev-1", task, Verb::IWillWorkOn).await;
    let unknown = world.rpc(&run, None, json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/frobnicate" })).await;
    assert_eq!((&unknown.body["id"], &unknown.body["error"]["code"]), (&json!(7), &json!(-32601)), "{:?}", unknown.body);
    let resources = world.rpc(&run, None, json!({ "jsonrpc": "2.0", "id": 8, "method": "resources/list" })).await;
    assert_eq!(resources.body["error"]["code"], -32601, "{:?}", resources.body);
    let ping = world.rpc(&run, None, json!({ "jsonrpc": "2.0", "id": 9, "method": "ping" })).await;
    assert_eq!(ping.body["result"], json!({}), "{:?}", ping.body);

    let bearer = format!("Bearer {}", run.token);
    let path = Gateway::mcp_path(run.actor.spawn);
    let garbage = world.send("POST", &path, &[("authorization", &bearer)], "{").await;
    assert_eq!((garbage.status, &garbage.body["error"]["code"]), (StatusCode::BAD_REQUEST, &json!(-32700)));
    for method in ["GET", "DELETE"] {
        let answer = world.send(method, &path, &[("authorization", &bearer)], "").await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{method}");
    }
    let large = world.send("POST", &path, &[("authorization", &bearer)], " ".repeat(2 * 1024 * 1024)).await;
    assert_eq!(large.status, StatusCode::PAYLOAD_TOO_LARGE);
}
