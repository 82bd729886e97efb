//! `bridge sidecar`: counts over HTTP.

use std::path::Path;

use serde_json::{Value, json};

use crate::loopback::ask;
use crate::process::Bridge;
use crate::stdio::{AGENT, TOKEN};

/// A running sidecar, spoken to with its token.
pub(crate) struct Sidecar {
    pub(crate) url: String,
    _bridge: Bridge,
}

impl Sidecar {
    /// `more` is set over an environment with only the token and the agent.
    pub(crate) async fn start(more: &[(&str, &str)]) -> Self {
        let mut env = vec![("ROBOCO_AGENT_TOKEN", TOKEN), ("ROBOCO_AGENT_ID", AGENT)];
        env.extend_from_slice(more);
        let mut bridge = Bridge::start(&["sidecar", "--listen", "127.0.0.1:0"], &env, Path::new("/"));
        let url = bridge.next().await.unwrap()["listening"].as_str().unwrap().to_owned();
        Self { url, _bridge: bridge }
    }

    async fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        ask(method, &format!("{}{path}", self.url), Some(&format!("Bearer {TOKEN}")), body).await
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.ask("POST", path, &body.to_string()).await;
        assert_eq!(status, 200, "{path} {body}: {answer}");
        answer
    }

    async fn get(&self, path: &str) -> Value {
        let (status, answer) = self.ask("GET", path, "").await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// Reports refusals of a counted kind and gives the last verdict.
    async fn refuse(&self, times: usize, verb: &str, task: Option<&str>) -> Value {
        let mut verdict = json!(null);
        for _ in 0..times {
            verdict = self.post("/verb/attempted", json!({"verb": verb, "task_id": task, "rejection_kind": "tracing_gap"})).await;
        }
        verdict
    }
}

#[tokio::test]
async fn gateway_row_026_a_success_is_not_counted() {
    let sidecar = Sidecar::start(&[]).await;
    for kind in ["ok", "not_found", "circuit_open", "transport_error", ""] {
        let verdict = sidecar.post("/verb/attempted", json!({"verb": "i_am_done", "rejection_kind": kind})).await;
        assert_eq!(
            verdict,
            json!({"verb": "i_am_done", "task_id": null, "attempts": 0, "limit": 3, "window_seconds": 60, "open": false, "circuit_envelope": null}),
            "{kind}"
        );
    }
}

#[tokio::test]
async fn gateway_row_029_looking_for_work_has_no_limit() {
    let sidecar = Sidecar::start(&[]).await;
    for verb in ["give_me_work", "i_will_work_on", "i_will_plan", "triage", "evidence", "claim_review"] {
        let verdict = sidecar.refuse(50, verb, None).await;
        assert_eq!((&verdict["attempts"], &verdict["limit"], &verdict["open"]), (&json!(50), &json!(null), &json!(false)), "{verb}");
    }
}

#[tokio::test]
async fn gateway_row_030_an_unknown_verb_has_the_usual_limit() {
    let sidecar = Sidecar::start(&[]).await;
    assert_eq!(sidecar.refuse(2, "no_such_verb", None).await["open"], false);
    let verdict = sidecar.refuse(1, "no_such_verb", None).await;
    assert_eq!((&verdict["attempts"], &verdict["limit"], &verdict["open"]), (&json!(3), &json!(3), &json!(true)));
    let envelope = &verdict["circuit_envelope"];
    for (key, value) in [
        ("error", json!("circuit_open")),
        ("status", json!(null)),
        ("task_id", json!(null)),
        ("next", json!(null)),
        ("evidence", json!({})),
        ("context_briefing", json!({})),
        ("correlation_id", json!(null)),
        ("current_state", json!(null)),
        ("valid_next_verbs", json!(null)),
    ] {
        assert_eq!(envelope.get(key), Some(&value), "{key}");
    }
    let message = envelope["message"].as_str().unwrap();
    assert!(message.contains("no_such_verb") && message.contains("3 times in last 60s"), "{message}");
    let remediate = envelope["remediate"].as_str().unwrap();
    assert!(["i_am_blocked(reason=…)", "unclaim()", "i_am_idle()"].iter().all(|exit| remediate.contains(exit)), "{remediate}");
}

#[tokio::test]
async fn gateway_row_031_tasks_are_counted_apart() {
    let sidecar = Sidecar::start(&[]).await;
    assert_eq!(sidecar.refuse(3, "i_am_done", Some("T-1")).await["open"], true);
    assert_eq!(sidecar.refuse(1, "i_am_done", Some("T-2")).await["open"], false);
    assert_eq!(sidecar.refuse(1, "i_am_done", None).await["attempts"], 1);
    assert_eq!(sidecar.refuse(1, "complete", Some("T-1")).await["attempts"], 1);
}

#[tokio::test]
async fn gateway_row_032_open_pr_may_be_refused_four_times() {
    let sidecar = Sidecar::start(&[]).await;
    assert_eq!(sidecar.refuse(4, "open_pr", Some("T-1")).await["open"], false);
    assert_eq!(sidecar.refuse(1, "open_pr", Some("T-1")).await["open"], true);
}

#[tokio::test]
async fn gateway_row_033_looking_at_the_breaker_counts_nothing() {
    let sidecar = Sidecar::start(&[]).await;
    let told = sidecar.refuse(2, "i_am_done", Some("T 1")).await;
    for _ in 0..5 {
        assert_eq!(sidecar.get("/verb/circuit_status?verb=i_am_done&task_id=T%201").await, told);
        assert_eq!(sidecar.get("/verb/circuit_status?verb=i_am_done").await["attempts"], 0);
    }
    assert_eq!(sidecar.refuse(1, "i_am_done", Some("T 1")).await["attempts"], 3);
}

#[tokio::test]
async fn gateway_row_034_a_reset_forgets_everything_that_was_counted_here() {
    let sidecar = Sidecar::start(&[]).await;
    let fresh = (sidecar.get("/budget/status").await, sidecar.get("/terminal/status").await);
    sidecar.refuse(9, "i_am_done", None).await;
    sidecar.post("/budget/tool_called", json!({"tool": "Bash", "args_hash": "a"})).await;
    sidecar.post("/terminal/tool_recorded", json!({"tool": "mcp__roboco-flow__i_am_done"})).await;
    sidecar.post("/terminal/stop_attempt", json!({})).await;
    assert_ne!((sidecar.get("/budget/status").await, sidecar.get("/terminal/status").await), fresh);
    assert_eq!(sidecar.ask("POST", "/budget/reset", "").await, (200, json!({"status": "ok", "reset": true})));
    assert_eq!((sidecar.get("/budget/status").await, sidecar.get("/terminal/status").await), fresh);
    let verdict = sidecar.refuse(1, "i_am_done", None).await;
    assert_eq!((&verdict["attempts"], &verdict["open"]), (&json!(1), &json!(false)));
}

#[tokio::test]
async fn exits_are_those_of_the_role() {
    let sidecar = Sidecar::start(&[("ROBOCO_AGENT_ROLE", "cell_pm")]).await;
    let verdict = sidecar.refuse(3, "complete", Some("T-1")).await;
    let remediate = verdict["circuit_envelope"]["remediate"].as_str().unwrap();
    assert!(remediate.contains("escalate_up") && !remediate.contains("i_am_blocked"), "{remediate}");
}

#[tokio::test]
async fn a_used_budget_and_the_way_to_the_end_are_told() {
    let sidecar = Sidecar::start(&[]).await;
    for nth in 1..=3 {
        let called = json!({"tool": "mcp__roboco-do__commit", "args_hash": "0123456789abcdef"});
        let budget = sidecar.post("/budget/tool_called", called).await;
        assert_eq!(
            budget,
            json!({"total": nth, "by_tool": {"commit": nth}, "warn": false, "halt": false, "loop": nth == 3, "warn_threshold": 100,
                "halt_threshold": 300, "loop_threshold": 3, "loop_window": 10, "loop_action": "halt"})
        );
    }
    sidecar.post("/terminal/tool_recorded", json!({"tool": "Bash"})).await;
    for (nth, tool, closed) in [(1, "mcp__roboco-flow__open_pr", false), (2, "mcp__roboco-flow__i_am_done", true)] {
        sidecar.post("/terminal/tool_recorded", json!({"tool": tool})).await;
        let stop = sidecar.post("/terminal/stop_attempt", json!({})).await;
        assert_eq!(
            (&stop["stop_attempts"], &stop["stop_allowance"], &stop["had_terminal_recently"]),
            (&json!(nth), &json!(1), &json!(closed))
        );
    }
    assert_eq!(sidecar.get("/terminal/status").await["recent_tools"], json!(["Bash", "open_pr", "i_am_done"]));
}

#[tokio::test]
async fn only_the_token_of_the_agent_opens_it_and_nonsense_is_refused() {
    let sidecar = Sidecar::start(&[]).await;
    assert_eq!(ask("GET", &format!("{}/health", sidecar.url), None, "").await, (200, json!({"status": "ok", "agent_id": AGENT})));
    let status = format!("{}/budget/status", sidecar.url);
    let wrong = [None, Some("Bearer"), Some("Bearer "), Some("Bearer wrong"), Some(TOKEN), Some("Basic eDp5")];
    for authorization in wrong {
        let (code, body) = ask("GET", &status, authorization, "").await;
        assert_eq!((code, &body["error"]["code"]), (401, &json!("NOT_AUTHORIZED")), "{authorization:?}");
        assert!(!body.to_string().contains(TOKEN));
    }
    assert_eq!(ask("GET", &status, Some(&format!("bearer {TOKEN}")), "").await.0, 200);
    let long = json!({"verb": "v".repeat(301), "rejection_kind": "tracing_gap"}).to_string();
    let huge = "x".repeat(65 * 1024);
    for (method, path, body, expected) in [
        ("POST", "/verb/attempted", "", 422),
        ("POST", "/verb/attempted", "[]", 422),
        ("POST", "/verb/attempted", r#"{"verb": "i_am_done"}"#, 422),
        ("POST", "/verb/attempted", long.as_str(), 422),
        ("POST", "/verb/attempted", huge.as_str(), 400),
        ("POST", "/budget/reset", "{", 422),
        ("GET", "/verb/circuit_status", "", 422),
        ("GET", "/verb/attempted", "", 405),
        ("POST", "/health", "", 405),
        ("GET", "/inbox/poll", "", 404),
    ] {
        let (code, answer) = sidecar.ask(method, path, body).await;
        assert_eq!(code, expected, "{method} {path}");
        assert!(answer["error"]["remediate"].is_string(), "{answer}");
    }
    assert_eq!(sidecar.get("/verb/circuit_status?verb=i_am_done").await["attempts"], 0);
}

#[tokio::test]
async fn without_a_token_it_does_not_start() {
    for token in ["", "UNSIGNED"] {
        let mut bridge = Bridge::start(&["sidecar", "--listen", "127.0.0.1:0"], &[("ROBOCO_AGENT_TOKEN", token)], Path::new("/"));
        assert_eq!(bridge.wait().await.code(), Some(78));
    }
}
