//! `bridge flow` and `bridge do`: the protocol towards the client, and what is sent to the control plane.

use std::collections::HashSet;
use std::path::Path;

use roboco_domain::decide::standard_rules;
use roboco_domain::role::Role;
use roboco_domain::verb::Verb;
use serde_json::{Value, json};

use crate::loopback::{Loopback, NOBODY, Reply, json as answer};
use crate::process::{Bridge, until};

pub(crate) const AGENT: &str = "00000000-0000-0000-0001-000000000001";
/// Its claims name the team `backend`.
pub(crate) const TOKEN: &str = "e30.eyJ0ZWFtIjoiYmFja2VuZCJ9.c2ln";

/// A running verb server and the client's side of its pipe.
pub(crate) struct Agent {
    pub(crate) bridge: Bridge,
    next: u64,
}

impl Agent {
    /// An agent with this role; `more` is set over the usual environment.
    pub(crate) fn start(namespace: &str, role: &str, plane: &str, sidecar: &str, more: &[(&str, &str)]) -> Self {
        let mut env = vec![
            ("ROBOCO_AGENT_ID", AGENT),
            ("ROBOCO_AGENT_ROLE", role),
            ("ROBOCO_AGENT_TOKEN", TOKEN),
            ("ROBOCO_ORCHESTRATOR_URL", plane),
            ("ROBOCO_SDK_URL", sidecar),
        ];
        env.extend_from_slice(more);
        Self { bridge: Bridge::start(&[namespace], &env, Path::new("/")), next: 0 }
    }

    /// A request's result or error.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.bridge.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await;
        let answer = self.bridge.next().await.unwrap();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(id)));
        answer
    }

    /// What the agent reads after a tool call: the JSON of the one text block. It is marked as an error exactly when it names one.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments})).await;
        let result = &answer["result"];
        let [block] = &result["content"].as_array().unwrap()[..] else { panic!("not one block: {answer}") };
        assert_eq!(block["type"], "text");
        let envelope: Value = serde_json::from_str(block["text"].as_str().unwrap()).unwrap();
        assert_eq!(result["isError"], json!(envelope.get("error").is_some()), "{answer}");
        envelope
    }
}

#[tokio::test]
async fn a_client_is_greeted_in_its_version_and_offered_the_tools_of_its_role() {
    for (namespace, name) in [("flow", "roboco-flow"), ("do", "roboco-do")] {
        for role in Role::DISPATCHED {
            let mut agent = Agent::start(namespace, role.as_str(), NOBODY, NOBODY, &[]);
            for (asked, expected) in [("2025-06-18", "2025-06-18"), ("2024-11-05", "2024-11-05"), ("2199-01-01", "2025-11-25")] {
                let hello = agent.request("initialize", json!({"protocolVersion": asked, "capabilities": {}})).await;
                let result = &hello["result"];
                assert_eq!((&result["serverInfo"]["name"], &result["protocolVersion"]), (&json!(name), &json!(expected)));
                assert!(result["capabilities"]["tools"].is_object());
            }
            agent.bridge.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string()).await;
            let listed = agent.request("tools/list", json!({})).await;
            let mut expected: Vec<Verb> = standard_rules().granted(*role);
            expected.retain(|verb| if namespace == "flow" { verb.is_flow() } else { verb.is_do() });
            if namespace == "flow" {
                expected.sort_by_key(|verb| verb.as_str());
            }
            let tool = |verb: &Verb| json!({"name": verb.as_str(), "description": verb.help(), "inputSchema": verb.schema()});
            assert_eq!(listed["result"]["tools"], json!(expected.iter().map(tool).collect::<Vec<_>>()), "{namespace} {role}");
        }
    }
}

#[tokio::test]
async fn messages_that_are_no_calls_are_answered_as_the_protocol_says() {
    let mut agent = Agent::start("flow", "developer", NOBODY, NOBODY, &[]);
    assert_eq!(agent.request("ping", json!({})).await["result"], json!({}));
    for (method, params, code) in [
        ("server/discover", json!({}), -32601),
        ("resources/list", json!({}), -32601),
        ("tools/call", json!({"arguments": {}}), -32602),
        ("tools/call", json!({"name": "give_me_work", "arguments": [1]}), -32602),
    ] {
        assert_eq!(agent.request(method, params).await["error"]["code"], code, "{method}");
    }
    for (line, code) in [("{", -32700), ("[]", -32600), ("{\"id\": 1}", -32600), (r#"{"id": null, "method": "ping"}"#, -32600)] {
        agent.bridge.send(line).await;
        let answer = agent.bridge.next().await.unwrap();
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &Value::Null), "{line}");
    }
    // None of these is answered: the next answer belongs to the ping.
    for line in ["", r#"{"method": "notifications/unheard_of"}"#, r#"{"id": 9, "result": {}}"#] {
        agent.bridge.send(line).await;
    }
    assert_eq!(agent.request("ping", json!({})).await["result"], json!({}));
    let unknown = agent.call("complete", json!({})).await;
    assert_eq!(unknown["error"], "not_found");
    assert!(unknown["remediate"].as_str().unwrap().contains("i_am_done"), "{unknown}");
}

#[tokio::test]
async fn every_verb_is_posted_to_its_route_by_whom_the_environment_names() {
    let plane = Loopback::always(200, &json!({"status": "ok", "task_id": null, "evidence": {}, "error": null})).await;
    for (namespace, role, tool, path) in [
        ("flow", "developer", "open_pr", "/api/v1/flow/developer/open_pr"),
        ("flow", "QA", "pass", "/api/v1/flow/qa/pass"),
        ("flow", "product_owner", "i_am_idle", "/api/v1/flow/board/i_am_idle"),
        ("do", "documenter", "commit", "/api/v1/do/commit"),
    ] {
        let mut agent = Agent::start(namespace, role, &plane.url, NOBODY, &[]);
        let arguments = json!({"task_id": "T-7", "odd": [1, {"x": null}]});
        assert_eq!(agent.call(tool, arguments.clone()).await, json!({"status": "ok"}));
        let seen = plane.seen().pop().unwrap();
        assert_eq!((seen.path.as_str(), &seen.body), (path, &arguments));
        assert_eq!(seen.header("authorization"), format!("Bearer {TOKEN}"));
        assert_eq!((seen.header("x-agent-id"), seen.header("x-agent-team")), (AGENT, "backend"));
        assert_eq!(seen.header("x-agent-role"), role.to_lowercase());
        assert_eq!(seen.header("content-type"), "application/json");
    }
}

#[tokio::test]
async fn no_token_is_sent_when_there_is_none() {
    let plane = Loopback::always(401, &json!({"error": {"code": "not_authenticated", "message": "who?", "remediate": "send it"}})).await;
    for token in ["", "UNSIGNED"] {
        let mut agent = Agent::start("flow", "developer", &plane.url, NOBODY, &[("ROBOCO_AGENT_TOKEN", token)]);
        let envelope = agent.call("give_me_work", json!({})).await;
        assert_eq!((&envelope["error"], &envelope["remediate"]), (&json!("not_authorized"), &json!("send it")));
        let seen = plane.seen().pop().unwrap();
        for name in ["authorization", "x-agent-token", "x-agent-team"] {
            assert!(!seen.headers.contains_key(name), "{name} with {token:?}");
        }
    }
}

#[tokio::test]
async fn every_call_has_its_own_correlation_and_a_repeated_one_keeps_it() {
    let plane = Loopback::always(200, &json!({"status": "ok"})).await;
    let mut sent = Vec::new();
    for _ in 0..2 {
        let mut agent = Agent::start("do", "developer", &plane.url, NOBODY, &[]);
        for (id, text) in [(json!(1), "a"), (json!(1), "a"), (json!(1), "b"), (json!(2), "a"), (json!("1"), "a")] {
            let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "note", "arguments": {"text": text}}});
            agent.bridge.send(&call.to_string()).await;
            agent.bridge.next().await.unwrap();
            let correlation: uuid::Uuid = plane.seen().pop().unwrap().header("x-correlation-id").parse().unwrap();
            assert_eq!(correlation.get_version_num(), 4);
            sent.push(correlation);
        }
    }
    assert!(sent[0] == sent[1] && sent[5] == sent[6], "a repetition cannot be told: {sent:?}");
    assert_eq!(sent.iter().collect::<HashSet<_>>().len(), 8, "{sent:?}");
}

#[tokio::test]
async fn a_slow_verb_keeps_no_other_message_waiting_and_can_be_given_up() {
    let plane = Loopback::start(|_, seen| match seen.path.ends_with("i_am_done") {
        true => Reply::Silence,
        false => answer(200, &json!({"status": "ok"})),
    })
    .await;
    let mut agent = Agent::start("flow", "developer", &plane.url, NOBODY, &[]);
    let call = |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "i_am_done", "arguments": {}}});
    agent.bridge.send(&call(100).to_string()).await;
    until("the verb is under way", || plane.seen().len() == 1).await;
    assert_eq!(agent.request("ping", json!({})).await["result"], json!({}));
    assert_eq!(agent.call("give_me_work", json!({})).await["status"], "ok");
    // Given up, it is not answered, and the end of the input finds nothing to wait for.
    agent.bridge.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 100}}).to_string()).await;
    agent.bridge.close_stdin();
    assert!(agent.bridge.wait().await.success());
    assert_eq!(agent.bridge.next().await, None);
}

#[tokio::test]
async fn calls_under_way_are_answered_after_the_end_of_the_input() {
    let plane = Loopback::always(200, &json!({"status": "ok"})).await;
    let mut agent = Agent::start("flow", "developer", &plane.url, NOBODY, &[]);
    for id in 1..=3 {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "give_me_work", "arguments": {}}});
        agent.bridge.send(&call.to_string()).await;
    }
    agent.bridge.close_stdin();
    let mut answered = Vec::new();
    while let Some(answer) = agent.bridge.next().await {
        answered.push(answer["id"].as_u64().unwrap());
    }
    answered.sort_unstable();
    assert_eq!(answered, [1, 2, 3]);
    assert!(agent.bridge.wait().await.success());
}

#[tokio::test]
async fn nobody_at_the_control_plane_is_a_transport_error_that_is_not_counted() {
    let sidecar = Loopback::always(200, &json!({})).await;
    let mut agent = Agent::start("flow", "developer", NOBODY, &sidecar.url, &[]);
    let envelope = agent.call("i_am_done", json!({"task_id": "T-7"})).await;
    assert_eq!(envelope["error"], "transport_error");
    assert!(envelope["message"].as_str().unwrap().contains("/api/v1/flow/developer/i_am_done"), "{envelope}");
    let remediate = envelope["remediate"].as_str().unwrap();
    assert!(remediate.contains("operator") && remediate.contains("nothing was done"), "{remediate}");
    assert!(sidecar.seen().is_empty());
}

#[tokio::test]
async fn a_control_plane_that_starts_again_is_waited_for() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let mut agent = Agent::start("flow", "developer", &format!("http://{address}"), NOBODY, &[]);
    // The bridge is at work before anyone listens.
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "give_me_work", "arguments": {}}});
    agent.bridge.send(&call.to_string()).await;
    agent.bridge.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}).to_string()).await;
    assert_eq!(agent.bridge.next().await.unwrap()["id"], 2);
    let listener = std::net::TcpListener::bind(address).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        std::io::Read::read(&mut stream, &mut [0; 4096]).unwrap();
        std::io::Write::write_all(&mut stream, b"HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n{\"status\":\"ok\"}").unwrap();
    });
    let answer = agent.bridge.next().await.unwrap();
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(1), &json!(false)), "{answer}");
}

#[tokio::test]
async fn a_wrong_environment_or_manifest_ends_with_78_and_a_wrong_command_line_with_64() {
    for more in [("ROBOCO_AGENT_ID", "be-dev-1"), ("ROBOCO_AGENT_ROLE", "boss"), ("ROBOCO_TOOL_MANIFEST_PATH", "/nowhere/manifest.json")] {
        let mut agent = Agent::start("do", "developer", NOBODY, NOBODY, &[more]);
        assert_eq!(agent.bridge.wait().await.code(), Some(78), "{more:?}");
        assert_eq!(agent.bridge.next().await, None);
    }
    let allowed = [("ROBOCO_TOOL_MANIFEST_PATH", "/nowhere/manifest.json"), ("ROBOCO_ALLOW_FULL_TOOLSET", "1")];
    let mut agent = Agent::start("do", "qa", NOBODY, NOBODY, &allowed);
    let listed = agent.request("tools/list", json!({})).await;
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), Verb::ALL.iter().filter(|verb| verb.is_do()).count());
    for args in [&["flow", "--verbose"][..], &["sidecar", "--listen", "0.0.0.0:9000"]] {
        assert_eq!(Bridge::start(args, &[], Path::new("/")).wait().await.code(), Some(64), "{args:?}");
    }
}
