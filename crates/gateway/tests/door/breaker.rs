//! The same refusal over and over, and too many calls.

use roboco_domain::limits;
use roboco_domain::verb::Verb;
use roboco_gateway::{Gateway, Keys};
use serde_json::{Value, json};

use crate::world::World;

fn too_early() -> Value {
    json!({ "task_id": "T-1" })
}

#[tokio::test]
async fn the_third_refusal_opens_the_breaker_and_the_next_call_is_not_run() {
    let world = World::new().await;
    let task = world.task().await;
    let run = world.run("be-dev-1", task, Verb::IWillWorkOn).await;
    let mut heard = Vec::new();
    for _ in 0..4 {
        heard.push(world.call(&run, "unclaim", json!({ "task_id": "T-1" })).await.body);
    }
    let kinds: Vec<&str> = heard.iter().map(|body| body["error"].as_str().unwrap()).collect();
    assert_eq!(kinds[2..], ["circuit_open", "circuit_open"], "{kinds:?}");
    assert_ne!(kinds[0], "circuit_open");
    assert_eq!(heard[2]["inner"]["error"], heard[0]["error"], "the third refusal is kept inside");
    assert_eq!(heard[3].get("inner"), None, "the fourth was run");
    let exits = heard[3]["valid_next_verbs"].as_array().unwrap();
    assert!(!exits.is_empty() && !exits.contains(&json!("unclaim")), "{exits:?}");
    assert!(heard[3]["remediate"].as_str().unwrap().contains("i_will_work_on"));
    // Refusals that were run are kept under their own kind, the one that was not under `circuit_open`.
    let attempts = until(&world, 5).await;
    assert_eq!(attempts.iter().filter(|kind| *kind == "circuit_open").count(), 2, "{attempts:?}");

    let others = world.call(&run, "give_me_work", json!({})).await;
    assert_eq!(others.body["error"], Value::Null, "another verb is shut too");
    world.pass(limits::BREAKER_WINDOW.as_secs().try_into().unwrap());
    let later = world.call(&run, "unclaim", json!({ "task_id": "T-1" })).await;
    assert_ne!(later.body["error"], "circuit_open", "the window never ends");
}

#[tokio::test]
async fn a_run_that_is_refused_too_often_hears_that_its_verb_stays_shut() {
    let world = World::new().await;
    let task = world.task().await;
    let run = world.run("be-dev-1", task, Verb::IWillWorkOn).await;
    let call = async || world.call(&run, "unclaim", json!({ "task_id": "T-1" })).await.body;
    let cap = limits::BREAKER_REFUSALS * limits::BREAKER_SESSION_FACTOR;
    for n in 1..=cap {
        let told = call().await;
        assert_eq!(told["error"] == "circuit_open", n.is_multiple_of(limits::BREAKER_REFUSALS), "{told}");
        if n.is_multiple_of(limits::BREAKER_REFUSALS) {
            assert!(told["message"].as_str().unwrap().contains("3 times within 60 seconds"), "{told}");
            world.pass(limits::BREAKER_WINDOW.as_secs().try_into().unwrap());
        }
    }
    let told = call().await;
    assert_eq!(told["error"], "circuit_open");
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("9 times in this run") && message.contains("stays shut for this run"), "{message}");
}

/// The kinds of the refusals that were kept, as soon as there are so many.
async fn until(world: &World, count: usize) -> Vec<String> {
    let since = roboco_domain::time::Timestamp::from_millis(0);
    for _ in 0..500 {
        let kept = world.company.store().attempts_since(since).await.unwrap();
        if kept.len() >= count {
            return kept.into_iter().map(|attempt| attempt.kind).collect();
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("fewer than {count} refusals were kept");
}

#[tokio::test]
async fn open_pr_has_five_tries_and_looking_has_no_limit() {
    let world = World::new().await;
    let task = world.task().await;
    let run = world.run("be-dev-1", task, Verb::IWillWorkOn).await;
    for n in 1..=5 {
        let answer = world.call(&run, "open_pr", too_early()).await;
        assert_eq!(answer.body["error"] == "circuit_open", n == 5, "try {n}: {:?}", answer.body);
    }
    for _ in 0..20 {
        let answer = world.call(&run, "evidence", json!({ "task_id": "T-77" })).await;
        assert_eq!(answer.body["error"], "not_found");
    }
}

#[tokio::test]
async fn unreadable_bodies_count_and_tasks_are_counted_apart() {
    let world = World::new().await;
    let (first, _) = (world.task().await, world.task().await);
    let run = world.run("be-dev-1", first, Verb::IWillWorkOn).await;
    let bearer = format!("Bearer {}", run.token);
    for _ in 0..2 {
        let garbage = world.send("POST", "/api/v1/flow/developer/unclaim", &[("authorization", &bearer)], "{").await;
        assert_eq!(garbage.body["error"], "incomplete_input");
    }
    assert_eq!(world.call(&run, "unclaim", json!({ "task_id": "T-1" })).await.body["error"], "circuit_open");
    let other = world.call(&run, "unclaim", json!({ "task_id": "T-2" })).await;
    assert_ne!(other.body["error"], "circuit_open", "the other task pays for it");
}

#[tokio::test]
async fn a_restart_does_not_close_the_breaker_and_a_new_run_starts_without_it() {
    let world = World::new().await;
    let task = world.task().await;
    let run = world.run("be-dev-1", task, Verb::IWillWorkOn).await;
    for _ in 0..3 {
        world.call(&run, "unclaim", json!({ "task_id": "T-1" })).await;
    }
    until(&world, 4).await;
    let keys = Keys::from_secret(world.gateway.keys().secret().clone()).unwrap();
    let restarted = Gateway::new(world.company.clone(), keys);
    restarted.restore().await.unwrap();
    let world = World { router: restarted.router(), gateway: restarted, ..world };
    assert_eq!(world.call(&run, "unclaim", json!({ "task_id": "T-1" })).await.body["error"], "circuit_open");
    world.gateway.forget(run.actor.spawn);
    assert_ne!(world.call(&run, "unclaim", json!({ "task_id": "T-1" })).await.body["error"], "circuit_open");
}

#[tokio::test]
async fn a_run_with_many_calls_is_warned_and_still_answered() {
    let world = World::new().await;
    let task = world.task().await;
    let run = world.run("be-dev-1", task, Verb::IWillWorkOn).await;
    for n in 1..=limits::TOOL_CALLS_STOP + 1 {
        let answer = world.call(&run, "note", json!({ "text": format!("thought number {n}") })).await;
        assert_eq!(answer.body["error"], Value::Null, "call {n}");
        assert_eq!(answer.body["warning"].is_string(), n >= 100 && n.is_multiple_of(50), "call {n}: {:?}", answer.body["warning"]);
    }
    assert_eq!(world.gateway.calls(), u64::from(limits::TOOL_CALLS_STOP) + 1);
}
