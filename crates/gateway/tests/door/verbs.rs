//! Verbs over plain HTTP: envelopes, keys, limits.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use roboco_company::commit::Executed;
use roboco_company::projects::{ProjectInput, Protect};
use roboco_domain::command::{Actor, SystemCommand};
use roboco_domain::limits;
use roboco_domain::outcome::Outcome;
use roboco_domain::spawn::Usage;
use roboco_domain::verb::Verb;
use roboco_gateway::Gateway;
use serde_json::{Value, json};

use crate::world::{Answer, World};

fn golden(answer: &Answer) -> Value {
    let mut body = answer.body.clone();
    if let Some(id) = body.get_mut("correlation_id").filter(|id| id.is_string()) {
        *id = "{correlation}".into();
    }
    body
}

fn claim() -> Value {
    json!({ "task_id": "T-1", "plan": "Write the function first, then a test that calls it.",
        "steps": [{ "title": "greet", "description": "Write greet() and a test that calls it." }] })
}

#[tokio::test]
async fn envelopes_of_a_run_that_claims_commits_and_asks_too_early() {
    let world = World::new().await;
    let task = world.task().await;
    let run = world.run("be-dev-1", task, Verb::IWillWorkOn).await;
    for (name, verb, arguments) in [
        ("give_me_work", "give_me_work", json!({})),
        ("claim_without_plan", "i_will_work_on", json!({ "task_id": "T-1" })),
        ("claim", "i_will_work_on", claim()),
        ("done_too_early", "i_am_done", json!({ "task_id": "T-1", "notes": "The greeter greets by name now." })),
        ("commit", "commit", json!({ "message": "Greet people by name" })),
        ("note_with_unknown_field", "note", json!({ "task_id": "T-1", "text": "The test runs in a second.", "colour": "red" })),
        ("no_such_task", "evidence", json!({ "task_id": "T-99" })),
    ] {
        let answer = world.call(&run, verb, arguments).await;
        assert_eq!(answer.status, StatusCode::OK, "{name}");
        let fine = matches!(name, "give_me_work" | "claim" | "commit");
        assert_eq!(answer.body["error"].is_null(), fine, "{name}: {:?}", answer.body);
        insta::assert_json_snapshot!(name, golden(&answer));
    }
}

#[tokio::test]
async fn nine_keys_always_appear() {
    let world = World::new().await;
    let task = world.task().await;
    let run = world.run("be-dev-1", task, Verb::IWillWorkOn).await;
    let nine =
        ["status", "task_id", "next", "evidence", "context_briefing", "error", "correlation_id", "current_state", "valid_next_verbs"];
    for arguments in [json!({}), json!({ "task_id": "T-1" }), json!([1]), json!("text")] {
        let answer = world.call(&run, "open_pr", arguments).await;
        assert_eq!(answer.status, StatusCode::OK);
        for key in nine {
            assert!(answer.body.as_object().unwrap().contains_key(key), "{key} is missing in {:?}", answer.body);
        }
        assert!(answer.body["remediate"].is_string() && answer.body["message"].is_string());
    }
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_refused_in_an_envelope() {
    let world = World::new().await;
    let task = world.task().await;
    let run = world.run("be-dev-1", task, Verb::IWillWorkOn).await;
    let bearer = format!("Bearer {}", run.token);
    let path = "/api/v1/flow/developer/open_pr";
    let answer = world.send("POST", path, &[("authorization", &bearer)], "{\"task_id\": T-1}").await;
    assert_eq!((answer.status, &answer.body["error"]), (StatusCode::OK, &json!("incomplete_input")), "{:?}", answer.body);
    assert_eq!(answer.body["missing"], json!(["body"]));
    let answer = world.send("POST", path, &[("authorization", &bearer)], "x".repeat(limits::BODY_BYTES + 1)).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(answer.body["error"]["code"], "incomplete_input");
    let answer = world.send("GET", path, &[("authorization", &bearer)], "").await;
    assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!((&answer.headers["allow"], &answer.body["error"]["code"]), (&"POST".parse().unwrap(), &json!("method_not_allowed")));
}

#[tokio::test]
async fn correlation_ids_are_echoed_or_made() {
    let world = World::new().await;
    let task = world.task().await;
    let run = world.run("be-dev-1", task, Verb::IWillWorkOn).await;
    let id = "0193f5a0-1111-7222-8333-444455556666";
    let answer = world.call_with(&run, "give_me_work", json!({}), &[("x-correlation-id", id)]).await;
    assert_eq!((&answer.body["correlation_id"], &answer.headers["x-correlation-id"]), (&json!(id), &id.parse().unwrap()));
    let answer = world.call(&run, "give_me_work", json!({})).await;
    assert_eq!(answer.body["correlation_id"], answer.headers["x-correlation-id"].to_str().unwrap());
    let answer = world.send("POST", "/api/v1/flow/developer/give_me_work", &[("x-correlation-id", id)], "").await;
    assert_eq!((answer.status, &answer.body["error"]["correlation_id"]), (StatusCode::UNAUTHORIZED, &json!(id)));
}

#[tokio::test]
async fn the_same_key_is_done_once_and_refused_for_another_body() {
    let world = World::new().await;
    let task = world.task().await;
    let run = world.run("be-dev-1", task, Verb::IWillWorkOn).await;
    let note = |text: &str| json!({ "task_id": "T-1", "text": text });
    let key = [("idempotency-key", "one")];
    let first = world.call_with(&run, "note", note("The test runs in a second."), &key).await;
    assert_eq!(first.body["error"], Value::Null, "{:?}", first.body);
    let again = world.call_with(&run, "note", note("The test runs in a second."), &key).await;
    assert!(again.body["warning"].as_str().unwrap().contains("answered before"), "{:?}", again.body);
    assert_eq!(world.events("note.recorded").await, 1, "the note was written twice");
    let other = world.call_with(&run, "note", note("Quite another text for it."), &key).await;
    assert_eq!(other.body["error"], "invalid_state");
    // Another run has keys of its own.
    let second = world.task().await;
    let colleague = world.run("be-dev-2", second, Verb::IWillWorkOn).await;
    let theirs = world.call_with(&colleague, "note", json!({ "task_id": "T-2", "text": "Another run, another key." }), &key).await;
    assert_eq!(theirs.body["error"], Value::Null, "{:?}", theirs.body);
    assert_eq!(world.events("note.recorded").await, 2);
    // Looking is never kept.
    for _ in 0..2 {
        let look = world.call_with(&run, "give_me_work", json!({}), &[("idempotency-key", "two")]).await;
        assert_eq!(look.body["warning"], Value::Null);
    }
}

/// The answer got lost on its way; the work had been done.
#[tokio::test]
async fn a_repeated_call_whose_effect_has_ended_is_told_its_result_and_not_done_again() {
    let world = World::new().await;
    let task = world.task().await;
    let run = world.run("be-dev-1", task, Verb::IWillWorkOn).await;
    world.call(&run, "i_will_work_on", claim()).await;
    let twice = async |key: &str, verb: &str, arguments: Value| {
        let key = [("idempotency-key", key)];
        let first = world.call_with(&run, verb, arguments.clone(), &key).await.body;
        (first, world.call_with(&run, verb, arguments, &key).await.body)
    };
    let (first, again) = twice("one", "commit", json!({ "message": "feat(greet): greet people by name" })).await;
    assert_eq!((&first["error"], &again["error"]), (&Value::Null, &Value::Null), "{again}");
    assert_eq!((&again["evidence"]["commit"], &again["next"]), (&first["evidence"]["commit"], &first["next"]));
    assert!(again["warning"].as_str().unwrap().contains("nothing was done twice"), "{again}");
    assert_eq!(world.events("commit.recorded").await, 1, "it was committed twice");
    world.call(&run, "open_pr", json!({ "task_id": "T-1" })).await;
    let done =
        json!({ "task_id": "T-1", "notes": "The greeter greets by name now.", "criteria": [{ "id": "C1", "evidence": "test:greets" }] });
    let (first, again) = twice("two", "i_am_done", done).await;
    assert_eq!(first["error"], "tracing_gap", "{first}");
    for key in ["error", "message", "remediate", "missing"] {
        assert_eq!(again[key], first[key], "{again}");
    }
    assert_eq!(world.events("gate.failed").await, 1, "the checks ran twice");
}

/// What takes longer than a verb waits reaches the agent with the brief of its next run.
#[tokio::test]
async fn checks_that_take_longer_than_a_verb_end_the_run_in_peace_and_are_told_to_the_next() {
    let world = World::waiting_for(Duration::from_secs(2)).await;
    let task = world.task().await;
    let run = world.run("be-dev-1", task, Verb::IWillWorkOn).await;
    world.call(&run, "i_will_work_on", claim()).await;
    world.call(&run, "commit", json!({ "message": "feat(greet): greet people by name" })).await;
    world.call(&run, "open_pr", json!({ "task_id": "T-1" })).await;
    world.held.send_replace(Some("run_gate"));
    let done =
        json!({ "task_id": "T-1", "notes": "The greeter greets by name now.", "criteria": [{ "id": "C1", "evidence": "test:greets" }] });
    let told = world.call(&run, "i_am_done", done).await.body;
    assert_eq!((&told["error"], &told["evidence"]["pending"]), (&Value::Null, &json!(true)), "{told}");
    assert!(told["next"].as_str().unwrap().starts_with("end your turn"), "{told}");
    let store = world.company.store();
    let spawn = store.spawn(run.actor.spawn).await.unwrap().unwrap();
    assert_eq!(spawn.closed_by, Some(Verb::IAmDone), "its watchman would remind it");
    let outcome = Outcome::Completed { verb: "i_am_done".into() };
    let ended = SystemCommand::SpawnEnded { spawn: spawn.id, outcome, usage: Usage::default() };
    world.company.execute_system(ended).await.unwrap();
    assert_eq!(store.task(task).await.unwrap().unwrap().meter.strikes, 0);

    world.held.send_replace(None);
    until(async || world.events("gate.failed").await == 1).await;
    let next = world.run("be-dev-1", task, Verb::IWillWorkOn).await;
    let spawn = store.spawn(next.actor.spawn).await.unwrap().unwrap();
    let brief = world.company.brief(&spawn, &store.task(task).await.unwrap().unwrap()).await.unwrap();
    for word in ["test: failed", "1 failed", "the branch as it is"] {
        assert!(brief.message.contains(word), "{word} is missing in {}", brief.message);
    }
    assert!(!brief.message.contains("last_results"), "nothing else failed: {}", brief.message);
}

#[tokio::test]
async fn a_sync_that_ended_in_conflicts_after_its_caller_left_stands_in_the_next_brief() {
    let world = World::waiting_for(Duration::from_secs(2)).await;
    let task = world.task().await;
    let run = world.run("be-dev-1", task, Verb::IWillWorkOn).await;
    world.call(&run, "i_will_work_on", claim()).await;
    world.held.send_replace(Some("sync"));
    let told = world.call(&run, "sync_branch", json!({ "task_id": "T-1" })).await.body;
    assert_eq!(told["evidence"]["pending"], json!(true), "{told}");
    world.held.send_replace(None);
    let store = world.company.store();
    until(async || store.task(task).await.unwrap().unwrap().pending.is_empty()).await;
    let spawn = store.spawn(run.actor.spawn).await.unwrap().unwrap();
    let brief = async || world.company.brief(&spawn, &store.task(task).await.unwrap().unwrap()).await.unwrap().message;
    let first = brief().await;
    assert!(first.contains("conflict markers") && first.contains("src/greet.py"), "{first}");
    let evidence = world.company.evidence(&store.task(task).await.unwrap().unwrap()).await;
    assert_eq!(evidence["last_results"][0]["about"], json!(["src/greet.py"]));
    world.pass(1);
    world.call(&run, "commit", json!({ "message": "fix(greet): join what the target has" })).await;
    assert!(!brief().await.contains("conflict markers"), "it was resolved");
}

/// A pattern that cannot be read when something is committed would protect nothing.
#[tokio::test]
async fn a_project_whose_protection_cannot_be_read_is_not_added() {
    let world = World::new().await;
    let add = async |slug: &str, pattern: &str| {
        let protect = Protect { paths: vec!["CODEOWNERS".into(), pattern.into()], branches: Vec::new() };
        let input =
            ProjectInput { slug: slug.into(), origin: "/srv/shop".into(), cell: "backend".into(), protect, ..ProjectInput::default() };
        world.company.add_project(Actor::Ceo(world.company.ceo()), input).await.unwrap()
    };
    for (n, (pattern, said)) in
        [("/deploy/**", "slash"), ("", "empty"), ("../x", "out of"), ("a\nb", "control"), (" deploy", "blank")].into_iter().enumerate()
    {
        match add(&format!("shop-{n}"), pattern).await {
            Executed::Refused { rejection, .. } => assert!(rejection.message.contains(said), "{}", rejection.message),
            accepted @ Executed::Accepted { .. } => panic!("{pattern:?} protects something? {accepted:?}"),
        }
    }
    assert!(matches!(add("shop", "deploy/**").await, Executed::Accepted { .. }));
    assert_eq!(world.company.store().projects().await.unwrap().len(), 2);
}

/// Waits until something is so.
async fn until(is_so: impl AsyncFn() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while !is_so().await {
        assert!(tokio::time::Instant::now() < deadline, "it never came");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_verb_past_its_wall_is_answered_with_a_timeout() {
    let world = World::new().await;
    let task = world.task().await;
    let run = world.run("be-dev-1", task, Verb::IWillWorkOn).await;
    let impatient = Gateway::with_wall(
        world.company.clone(),
        roboco_gateway::Keys::from_secret(world.gateway.keys().secret().clone()).unwrap(),
        std::time::Duration::ZERO,
    );
    let world = World { router: impatient.router(), gateway: impatient, ..world };
    // Its branch is never cut, so the claim can only be answered by the wall.
    let plan =
        json!({ "task_id": "T-1", "plan": "join the names", "steps": [{ "title": "join", "description": "join the names with and" }] });
    let answer = world.call(&run, "i_will_work_on", plan).await;
    assert_eq!((answer.status, &answer.body["error"]), (StatusCode::GATEWAY_TIMEOUT, &json!("gateway_timeout")), "{:?}", answer.body);
    assert!(answer.body["remediate"].is_string());
}

#[tokio::test]
async fn a_run_that_was_replaced_hears_superseded_before_anything_else() {
    let world = World::new().await;
    let task = world.task().await;
    let run = world.run("be-dev-1", task, Verb::IWillWorkOn).await;
    let revoke = roboco_domain::command::SystemCommand::RevokeSpawn { spawn: run.actor.spawn, reason: "the CEO stopped it".into() };
    world.company.execute_system(revoke).await.unwrap();
    let bearer = format!("Bearer {}", run.token);
    for (path, body) in [
        ("/api/v1/flow/developer/give_me_work", "{}"),
        ("/api/v1/flow/developer/open_pr", "not json"),
        ("/api/v1/flow/qa/pass", "{}"),
        ("/api/v1/do/commit", "{}"),
    ] {
        let answer = world.send("POST", path, &[("authorization", &bearer)], body).await;
        assert_eq!((answer.status, &answer.body["error"]), (StatusCode::OK, &json!("superseded")), "{path}: {:?}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_request_sent_eight_times_at_once_is_done_once() {
    let world = Arc::new(World::new().await);
    let task = world.task().await;
    let run = Arc::new(world.run("be-dev-1", task, Verb::IWillWorkOn).await);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (world, run) = (Arc::clone(&world), Arc::clone(&run));
        calls.spawn(async move { world.call_with(&run, "note", json!({ "text": "said once" }), &[("idempotency-key", "twins")]).await });
    }
    while let Some(answer) = calls.join_next().await {
        let answer = answer.unwrap();
        assert_eq!(answer.body["error"], Value::Null, "{}", answer.body);
    }
    assert_eq!(world.events("note.recorded").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_writers_of_one_task_take_turns_and_none_is_sent_away() {
    let world = Arc::new(World::new().await);
    let task = world.task().await;
    let run = Arc::new(world.run("be-dev-1", task, Verb::IWillWorkOn).await);
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..32 {
        let (world, run) = (Arc::clone(&world), Arc::clone(&run));
        writers.spawn(async move {
            for n in 0..8 {
                let answer = world.call(&run, "note", json!({ "text": format!("thought {n} of writer {writer}") })).await;
                assert_eq!(answer.body["error"], Value::Null, "{}", answer.body);
            }
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }
    assert_eq!(world.events("note.recorded").await, 256);
}
