//! Each route: what it answers when all is well, and each way it says no.

use http::StatusCode;
use roboco_domain::id::CorrelationId;
use roboco_domain::time::Timestamp;
use roboco_domain::verb::Verb;
use roboco_server::Stats;
use roboco_store::Block;
use serde_json::{Value, json};

use crate::world::{Answer, World, task_arguments};

/// Every error has the one shape.
fn refused(answer: &Answer, status: StatusCode, code: &str) {
    assert_eq!((answer.status, &answer.body["error"]["code"]), (status, &json!(code)), "{:?}", answer.body);
    let error = answer.body["error"].as_object().unwrap();
    for key in ["code", "message", "remediate", "missing", "field_hints", "details", "correlation_id"] {
        assert!(error.contains_key(key), "{key} is missing in {error:?}");
    }
    assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()));
    assert!(error["remediate"].as_str().is_some_and(|text| !text.is_empty()));
    let id: CorrelationId = error["correlation_id"].as_str().unwrap().parse().unwrap();
    assert_eq!(answer.headers["x-correlation-id"], id.to_string());
}

#[tokio::test]
async fn health_and_readiness_need_no_token() {
    let world = World::new().await;
    for path in ["/health", "/ready"] {
        let answer = world.send("GET", path, &[], "").await;
        assert_eq!((answer.status, &answer.body["status"]), (StatusCode::OK, &json!("ok")), "{path}");
    }
}

#[tokio::test]
async fn projects_are_added_and_listed() {
    let world = World::new().await;
    let input = json!({ "origin": "/srv/other.git", "cell": "frontend", "commands": { "test": "make test" } });
    let added = world.ceo("POST", "/api/projects", input.clone()).await;
    assert_eq!((added.status, &added.body["slug"]), (StatusCode::CREATED, &json!("other")), "{:?}", added.body);
    assert_eq!((&added.body["access"], &added.body["commands"]["test"]), (&json!("read_write"), &json!("make test")));
    let listed = world.ceo("GET", "/api/projects", Value::Null).await;
    let slugs: Vec<&str> = listed.body["items"].as_array().unwrap().iter().filter_map(|row| row["slug"].as_str()).collect();
    assert_eq!(slugs, ["greeter", "other"]);
    refused(&world.ceo("POST", "/api/projects", input).await, StatusCode::CONFLICT, "invalid_state");
    let wrong = json!({ "origin": "/srv/third", "cell": "nobody's" });
    refused(&world.ceo("POST", "/api/projects", wrong).await, StatusCode::UNPROCESSABLE_ENTITY, "incomplete_input");
    let unknown = json!({ "origin": "/srv/third", "cell": "backend", "colour": "red" });
    let answer = world.ceo("POST", "/api/projects", unknown).await;
    refused(&answer, StatusCode::UNPROCESSABLE_ENTITY, "incomplete_input");
    assert!(answer.body["error"]["message"].as_str().unwrap().contains("colour"));
}

#[tokio::test]
async fn tasks_are_created_listed_in_pages_and_shown() {
    let world = World::new().await;
    for _ in 0..3 {
        world.task().await;
    }
    let first = world.ceo("GET", "/api/tasks?limit=2&open=true&project=greeter", Value::Null).await;
    let numbers = |answer: &Answer| -> Vec<String> {
        answer.body["items"].as_array().unwrap().iter().filter_map(|row| row["number"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!((numbers(&first), &first.body["next"]), (vec!["T-3".into(), "T-2".into()], &json!(2)));
    let second = world.ceo("GET", "/api/tasks?limit=2&before=2", Value::Null).await;
    assert_eq!((numbers(&second), &second.body["next"]), (vec!["T-1".into()], &Value::Null));
    assert_eq!(numbers(&world.ceo("GET", "/api/tasks?open=false", Value::Null).await), Vec::<String>::new());

    let view = world.ceo("GET", "/api/tasks/t-1", Value::Null).await;
    assert_eq!(
        (&view.body["status"], &view.body["project"], &view.body["criteria"][0]["id"]),
        (&json!("pending"), &json!("greeter"), &json!("C1"))
    );
    assert_eq!(view.body["actions"], json!(["cancel", "pause"]));
    let by_id = world.ceo("GET", &format!("/api/tasks/{}", view.body["id"].as_str().unwrap()), Value::Null).await;
    assert_eq!(by_id.body["number"], "T-1");

    refused(&world.ceo("GET", "/api/tasks?project=none", Value::Null).await, StatusCode::NOT_FOUND, "not_found");
    refused(&world.ceo("GET", "/api/tasks?colour=red", Value::Null).await, StatusCode::UNPROCESSABLE_ENTITY, "incomplete_input");
    refused(&world.ceo("GET", "/api/tasks?limit=many", Value::Null).await, StatusCode::UNPROCESSABLE_ENTITY, "incomplete_input");
    refused(&world.ceo("GET", "/api/tasks/T-99", Value::Null).await, StatusCode::NOT_FOUND, "not_found");
    refused(&world.ceo("GET", "/api/tasks/nonsense", Value::Null).await, StatusCode::UNPROCESSABLE_ENTITY, "incomplete_input");
}

#[tokio::test]
async fn an_incomplete_task_is_refused_with_a_hint_per_field() {
    let world = World::new().await;
    let answer = world.ceo("POST", "/api/tasks", json!({ "project": "greeter" })).await;
    refused(&answer, StatusCode::UNPROCESSABLE_ENTITY, "incomplete_input");
    let missing = answer.body["error"]["missing"].as_array().unwrap();
    for field in ["title", "description", "criteria"] {
        assert!(missing.contains(&json!(field)), "{missing:?}");
        assert!(answer.body["error"]["field_hints"][field].is_string());
    }
    let bearer = format!("Bearer {}", crate::world::CEO);
    for (body, status) in [("{", StatusCode::UNPROCESSABLE_ENTITY), ("[]", StatusCode::UNPROCESSABLE_ENTITY)] {
        refused(&world.send("POST", "/api/tasks", &[("authorization", &bearer)], body).await, status, "incomplete_input");
    }
    let large = " ".repeat(1024 * 1024 + 1);
    refused(
        &world.send("POST", "/api/tasks", &[("authorization", &bearer)], large).await,
        StatusCode::PAYLOAD_TOO_LARGE,
        "incomplete_input",
    );
}

#[tokio::test]
async fn commands_move_a_task_and_refusals_keep_their_kind() {
    let world = World::new().await;
    world.task().await;
    let paused = world.ceo("POST", "/api/tasks/T-1/pause", Value::Null).await;
    assert_eq!((paused.status, &paused.body["task"]["status"]), (StatusCode::OK, &json!("paused")), "{:?}", paused.body);
    assert!(paused.body["next"].is_string());
    refused(&world.ceo("POST", "/api/tasks/T-1/pause", Value::Null).await, StatusCode::CONFLICT, "invalid_state");
    let resumed = world.ceo("POST", "/api/tasks/T-1/resume", Value::Null).await;
    assert_eq!(resumed.body["task"]["status"], "pending");
    refused(&world.ceo("POST", "/api/tasks/T-1/approve", Value::Null).await, StatusCode::CONFLICT, "invalid_state");
    refused(
        &world.ceo("POST", "/api/tasks/T-1/reject", json!({ "reason": "It does not greet." })).await,
        StatusCode::CONFLICT,
        "invalid_state",
    );
    refused(
        &world.ceo("POST", "/api/tasks/T-1/unblock", json!({ "reason": "It is free now." })).await,
        StatusCode::CONFLICT,
        "invalid_state",
    );
    refused(&world.ceo("POST", "/api/tasks/T-1/cancel", Value::Null).await, StatusCode::UNPROCESSABLE_ENTITY, "incomplete_input");
    refused(&world.ceo("POST", "/api/tasks/T-9/pause", Value::Null).await, StatusCode::NOT_FOUND, "not_found");
    let twice = world.ceo("POST", "/api/tasks/T-1/pause", json!({ "task_id": "T-1" })).await;
    refused(&twice, StatusCode::UNPROCESSABLE_ENTITY, "incomplete_input");
    let cancelled = world.ceo("POST", "/api/tasks/T-1/cancel", json!({ "reason": "Nobody needs it any more." })).await;
    assert_eq!(cancelled.body["task"]["status"], "cancelled", "{:?}", cancelled.body);
}

#[tokio::test]
async fn the_same_request_makes_one_task() {
    let world = World::new().await;
    let bearer = format!("Bearer {}", crate::world::CEO);
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", "one")];
    let first = world.send("POST", "/api/tasks", &headers, task_arguments().to_string()).await;
    assert_eq!((first.status, &first.body["task"]["number"]), (StatusCode::CREATED, &json!("T-1")));
    let again = world.send("POST", "/api/tasks", &headers, task_arguments().to_string()).await;
    assert_eq!(again.status, StatusCode::OK, "{:?}", again.body);
    assert!(again.body["warning"].as_str().unwrap().contains("answered before"));
    let other = json!({ "project": "greeter" }).to_string();
    refused(&world.send("POST", "/api/tasks", &headers, other).await, StatusCode::CONFLICT, "invalid_state");
    assert_eq!(world.ceo("GET", "/api/tasks", Value::Null).await.body["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn agents_runs_and_their_transcripts_are_shown() {
    let world = World::new().await;
    world.task().await;
    let run = world.run("be-dev-1", "T-1", Verb::IWillWorkOn).await;
    let agents = world.ceo("GET", "/api/agents", Value::Null).await;
    let developer = agents.body["items"].as_array().unwrap().iter().find(|row| row["slug"] == "be-dev-1").unwrap().clone();
    assert_eq!((&developer["status"], &developer["spawn"]), (&json!("working"), &json!("T-1/1")));
    assert_eq!(world.ceo("GET", "/api/inbox", Value::Null).await.body, json!({ "items": [] }));

    let spawn = world.ceo("GET", "/api/spawns/T-1/1", Value::Null).await;
    assert_eq!((&spawn.body["agent"], &spawn.body["state"]), (&json!("be-dev-1"), &json!("started")), "{:?}", spawn.body);
    let block = |n: u64| Block { n, at: Timestamp::from_millis(7), kind: "text".into(), text: format!("line {n}") };
    world.company.store().append_transcript(run.spawn, (1..=3).map(block).collect()).await.unwrap();
    let page = world.ceo("GET", "/api/spawns/T-1/1/transcript?limit=2", Value::Null).await;
    assert_eq!((&page.body["items"][1]["text"], &page.body["next"]), (&json!("line 2"), &json!(2)), "{:?}", page.body);
    let rest = world.ceo("GET", "/api/spawns/T-1/1/transcript?after=2", Value::Null).await;
    assert_eq!((rest.body["items"].as_array().unwrap().len(), &rest.body["next"]), (1, &Value::Null));
    refused(&world.ceo("GET", "/api/spawns/T-1/2", Value::Null).await, StatusCode::NOT_FOUND, "not_found");
    refused(&world.ceo("GET", "/api/spawns/T-1/x", Value::Null).await, StatusCode::UNPROCESSABLE_ENTITY, "incomplete_input");
}

#[tokio::test]
async fn the_history_of_a_task_is_told_in_words() {
    let world = World::new().await;
    world.task().await;
    world.run("be-dev-1", "T-1", Verb::IWillWorkOn).await;
    world.ceo("POST", "/api/tasks/T-1/cancel", json!({ "reason": "Nobody needs it any more." })).await;
    let events = world.ceo("GET", "/api/tasks/T-1/events", Value::Null).await;
    let lines: Vec<&str> = events.body["items"].as_array().unwrap().iter().filter_map(|event| event["text"].as_str()).collect();
    assert_eq!(
        lines[..3],
        ["ceo created T-1: Greet people by name", "be-dev-1 will be started for i_will_work_on(T-1)", "an agent runs for T-1"]
    );
    let last = events.body["items"].as_array().unwrap().iter().find(|event| event["kind"] == "task.cancelled").unwrap();
    assert_eq!((&last["text"], &last["actor"]), (&json!("ceo cancelled T-1: Nobody needs it any more."), &json!("ceo")));
    assert_eq!((&last["from"], &last["to"]), (&json!("ready"), &json!("cancelled")));
    let page = world.ceo("GET", "/api/tasks/T-1/events?limit=1&after=2", Value::Null).await;
    assert_eq!((&page.body["items"][0]["spawn"], &page.body["next"]), (&json!("T-1/1"), &json!(3)), "{:?}", page.body);
}

#[tokio::test]
async fn unknown_routes_and_methods_are_told_in_json() {
    let world = World::new().await;
    let answer = world.ceo("GET", "/api/nothing", Value::Null).await;
    assert_eq!((answer.status, &answer.body["error"]["code"]), (StatusCode::NOT_FOUND, &json!("not_found")));
    let answer = world.ceo("DELETE", "/api/tasks/T-1", Value::Null).await;
    assert_eq!((answer.status, &answer.body["error"]["code"]), (StatusCode::METHOD_NOT_ALLOWED, &json!("method_not_allowed")));
    let answer = world.send("DELETE", "/mcp/none", &[], "").await;
    assert_eq!((answer.status, &answer.body["error"]["code"]), (StatusCode::METHOD_NOT_ALLOWED, &json!("method_not_allowed")));
}

#[tokio::test]
async fn what_is_counted_grows_with_what_is_done() {
    let world = World::new().await;
    let read = async || serde_json::from_value::<Stats>(world.ceo("GET", "/api/stats", Value::Null).await.body).unwrap();
    let before = read().await;
    assert_eq!((before.git_processes, before.verb_calls, before.verb_micros), (7, 0, 0));
    assert!(before.statements > 0);
    let task = world.task().await;
    let token = world.token(&world.run("be-dev-1", &task, Verb::IWillWorkOn).await);
    let bearer = format!("Bearer {token}");
    let worked = world.send("POST", "/api/v1/do/note", &[("authorization", &bearer)], r#"{"text":"seen"}"#).await;
    let refused = world.send("POST", "/api/v1/flow/developer/unclaim", &[("authorization", &bearer)], "{}").await;
    assert_eq!((worked.status, refused.status), (StatusCode::OK, StatusCode::OK));
    let after = read().await;
    assert_eq!(after.verb_calls, 2);
    assert!(after.statements > before.statements && after.verb_micros > 0 && after.uptime_ms >= before.uptime_ms, "{before:?} {after:?}");
}
