//! Behaviours of the bridge that other makers' clients rely on, numbered as in `rows.txt` beside this folder. Each runs for a verb, and all
//! of them once more for a tool.

use serde_json::{Value, json};

use crate::loopback::{Loopback, NOBODY, Reply, json as answer};
use crate::sidecar::Sidecar;
use crate::stdio::Agent;

/// One of the two servers, with something a developer calls there.
#[derive(Clone, Copy)]
struct Door {
    namespace: &'static str,
    tool: &'static str,
    path: &'static str,
}

const FLOW: Door = Door { namespace: "flow", tool: "i_am_done", path: "/api/v1/flow/developer/i_am_done" };
const DO: Door = Door { namespace: "do", tool: "commit", path: "/api/v1/do/commit" };

impl Door {
    fn agent(self, plane: &Loopback, sidecar: &Loopback) -> Agent {
        Agent::start(self.namespace, "developer", &plane.url, &sidecar.url, &[])
    }

    /// Calls the tool on a task, with these answers of the control plane and the sidecar: what the agent reads and what the sidecar saw.
    async fn call(self, plane: &Loopback, sidecar: &Loopback) -> (Value, Vec<Value>) {
        let before = plane.seen().len();
        let envelope = self.agent(plane, sidecar).call(self.tool, json!({"task_id": "T-7"})).await;
        assert_eq!(plane.seen().len(), before + 1, "the call must run, and once");
        assert!(plane.seen().iter().all(|seen| seen.path == self.path));
        let bodies = sidecar.seen().into_iter().inspect(|seen| assert_eq!(seen.path, "/verb/attempted")).map(|seen| seen.body).collect();
        (envelope, bodies)
    }

    /// The same with a closed breaker.
    async fn answered(self, status: u16, body: &str) -> (Value, Vec<Value>) {
        let text = body.to_owned();
        let plane = Loopback::start(move |_, _| Reply::Answer(status, text.clone())).await;
        self.call(&plane, &closed().await).await
    }

    /// The report that the sidecar gets about a refusal.
    fn report(self, kind: &str) -> Value {
        json!({"verb": self.tool, "task_id": "T-7", "rejection_kind": kind})
    }
}

async fn closed() -> Loopback {
    Loopback::always(200, &json!({"open": false, "circuit_envelope": null})).await
}

async fn open() -> Loopback {
    let envelope =
        json!({"error": "circuit_open", "message": "3 times in last 60s", "remediate": "call i_am_blocked(reason=…)", "task_id": null});
    Loopback::always(200, &json!({"verb": "x", "open": true, "circuit_envelope": envelope})).await
}

/// A refusal as the control plane sends it, and as the agent reads it.
fn refusal(kind: &str) -> (Value, Value) {
    let read = json!({"error": kind, "message": "m", "remediate": "r", "task_id": "T-7", "correlation_id": "c-1", "missing": ["pr_open"]});
    let mut sent = read.clone();
    for (key, value) in [("status", json!(null)), ("next", json!(null)), ("evidence", json!({})), ("field_hints", json!({}))] {
        sent[key] = value;
    }
    (sent, read)
}

fn text<'a>(envelope: &'a Value, key: &str) -> &'a str {
    envelope[key].as_str().unwrap_or_else(|| panic!("no {key} in {envelope}"))
}

async fn row_001(door: Door) {
    let body = json!({"status": "in_progress", "next": "go on", "error": null, "evidence": {"pr": 1}, "task_id": "T-7"});
    let (envelope, counted) = door.answered(200, &body.to_string()).await;
    assert_eq!(envelope, json!({"status": "in_progress", "next": "go on", "evidence": {"pr": 1}, "task_id": "T-7"}));
    assert!(counted.is_empty());
}

async fn row_002(door: Door) {
    let (sent, read) = refusal("tracing_gap");
    let (envelope, counted) = door.answered(200, &sent.to_string()).await;
    assert_eq!((envelope, counted), (read, vec![door.report("tracing_gap")]));
}

async fn row_003(door: Door) {
    for kind in ["tracing_gap", "invalid_state", "not_authorized", "incomplete_input"] {
        let (_, counted) = door.answered(200, &refusal(kind).0.to_string()).await;
        assert_eq!(counted, [door.report(kind)]);
    }
}

async fn row_004(door: Door) {
    for (kind, status) in [
        ("not_found", 200),
        ("sequence_held", 200),
        ("gateway_timeout", 504),
        ("unavailable", 503),
        ("internal_error", 500),
        ("superseded", 200),
        ("stale_evidence", 200),
        ("circuit_open", 200),
        ("ConflictError", 409),
    ] {
        let (sent, read) = refusal(kind);
        let (envelope, counted) = door.answered(status, &sent.to_string()).await;
        assert_eq!((envelope, counted), (read, vec![]), "{kind}");
    }
}

async fn row_005(door: Door) {
    let plane = Loopback::always(200, &refusal("tracing_gap").0).await;
    let (envelope, counted) = door.call(&plane, &open().await).await;
    assert_eq!(envelope["error"], "circuit_open");
    assert!(text(&envelope, "remediate").contains("i_am_blocked"));
    assert_eq!(counted.len(), 1);
}

async fn row_006(door: Door) {
    let (sent, read) = refusal("invalid_state");
    let plane = Loopback::always(200, &sent).await;
    let sidecar = open().await;
    // The second answer carries nothing of the first.
    for _ in 0..2 {
        let (envelope, _) = door.call(&plane, &sidecar).await;
        assert_eq!((&envelope["inner"], &envelope["message"]), (&read, &json!("3 times in last 60s")));
    }
}

async fn row_007(door: Door) {
    for (task, expected) in [(json!("T-9"), "T-9"), (json!(null), "T-7")] {
        let mut sent = refusal("invalid_state").0;
        sent["task_id"] = task;
        let (envelope, _) = door.call(&Loopback::always(200, &sent).await, &open().await).await;
        assert_eq!((text(&envelope, "task_id"), text(&envelope, "correlation_id")), (expected, "c-1"));
    }
}

async fn row_008(door: Door) {
    let plane = Loopback::always(200, &refusal("tracing_gap").0).await;
    let sidecar = Sidecar::start(&[("ROBOCO_AGENT_ROLE", "developer")]).await;
    let mut agent = Agent::start(door.namespace, "developer", &plane.url, &sidecar.url, &[]);
    let mut kinds = Vec::new();
    for _ in 0..5 {
        kinds.push(text(&agent.call(door.tool, json!({"task_id": "T-7"})).await, "error").to_owned());
    }
    assert_eq!(kinds, ["tracing_gap", "tracing_gap", "circuit_open", "circuit_open", "circuit_open"]);
    assert_eq!(text(&agent.call(door.tool, json!({"task_id": "T-8"})).await, "error"), "tracing_gap");
}

async fn row_009(door: Door) {
    let (sent, read) = refusal("tracing_gap");
    let plane = Loopback::always(200, &sent).await;
    let silent = Loopback::start(|_, _| Reply::Silence).await;
    for sidecar in [NOBODY, silent.url.as_str()] {
        let mut agent = Agent::start(door.namespace, "developer", &plane.url, sidecar, &[]);
        assert_eq!(agent.call(door.tool, json!({"task_id": "T-7"})).await, read, "{sidecar}");
    }
}

async fn row_010(door: Door) {
    let (sent, read) = refusal("tracing_gap");
    let plane = Loopback::always(200, &sent).await;
    for (status, body) in [(200, "<html>"), (200, ""), (200, "[]"), (401, r#"{"open": true, "circuit_envelope": {}}"#), (500, "oh")] {
        let sidecar = Loopback::start(move |_, _| Reply::Answer(status, body.to_owned())).await;
        assert_eq!(door.call(&plane, &sidecar).await.0, read, "{status} {body}");
    }
}

async fn row_011(door: Door) {
    let (sent, read) = refusal("tracing_gap");
    let plane = Loopback::always(200, &sent).await;
    for body in [json!({"open": true, "circuit_envelope": null}), json!({"open": true, "circuit_envelope": "x"}), json!({"open": true})] {
        assert_eq!(door.call(&plane, &Loopback::always(200, &body).await).await.0, read, "{body}");
    }
}

async fn row_012(door: Door) {
    let flow = [("developer", "i_am_done"), ("qa", "pass"), ("product_owner", "escalate_to_ceo")];
    let tools = [("developer", "commit"), ("qa", "note"), ("documenter", "progress")];
    for (role, verb) in if door.namespace == "flow" { flow } else { tools } {
        let (plane, sidecar) = (Loopback::always(200, &refusal("tracing_gap").0).await, closed().await);
        // Whatever the role is granted: this is about names.
        let everything = [("ROBOCO_TOOL_MANIFEST_PATH", "/nowhere"), ("ROBOCO_ALLOW_FULL_TOOLSET", "1")];
        Agent::start(door.namespace, role, &plane.url, &sidecar.url, &everything).call(verb, json!({})).await;
        assert!(plane.seen()[0].path.ends_with(&format!("/{verb}")));
        assert_eq!(sidecar.seen()[0].body["verb"], verb, "{role}");
    }
}

async fn row_013(door: Door) {
    let (plane, sidecar) = (Loopback::always(200, &refusal("invalid_state").0).await, closed().await);
    let tool = if door.namespace == "flow" { "give_me_work" } else { door.tool };
    for arguments in [json!({}), json!(null), json!({"task_id": 7})] {
        door.agent(&plane, &sidecar).call(tool, arguments.clone()).await;
        let report = sidecar.seen().pop().unwrap().body;
        assert_eq!(report, json!({"verb": tool, "task_id": null, "rejection_kind": "invalid_state"}), "{arguments}");
    }
}

async fn row_014(door: Door) {
    let detail = json!([{"loc": ["body", "task_id"], "msg": "field required", "type": "missing"}]);
    let (envelope, counted) = door.answered(422, &json!({"detail": detail, "body": {}}).to_string()).await;
    assert_eq!((text(&envelope, "error"), &envelope["detail"]), ("incomplete_input", &detail));
    assert!(text(&envelope, "remediate").contains("detail") && text(&envelope, "message").contains(door.tool));
    assert_eq!(counted, [door.report("incomplete_input")]);
    // A hint of the server's own goes before ours.
    let hinted = json!({"detail": detail, "remediate": "send all 36 characters"}).to_string();
    assert_eq!(text(&door.answered(422, &hinted).await.0, "remediate"), "send all 36 characters");
}

/// An error object as older servers send it.
fn object(code: &str) -> String {
    json!({"error": {"code": code, "message": "it said so", "details": {"x": 1}}}).to_string()
}

async fn row_015(door: Door) {
    let (envelope, counted) = door.answered(500, &object("INTERNAL_ERROR")).await;
    assert_eq!((text(&envelope, "error"), text(&envelope, "message")), ("invalid_state", "it said so"));
    assert_eq!(envelope["details"]["code"], "INTERNAL_ERROR");
    assert_eq!(envelope["details"]["details"], json!({"x": 1}));
    assert_eq!(counted, [door.report("invalid_state")]);
}

async fn row_016(door: Door) {
    for status in [404, 400] {
        let (envelope, counted) = door.answered(status, &object("TASK_NOT_FOUND")).await;
        assert_eq!((text(&envelope, "error"), text(&envelope["details"], "code")), ("not_found", "TASK_NOT_FOUND"));
        assert!(text(&envelope, "remediate").contains("id") && counted.is_empty());
    }
}

async fn row_017(door: Door) {
    for (status, code) in [(401, "NOT_AUTHORIZED"), (403, "ACCESS_DENIED"), (403, "BRANCH_FORBIDDEN_HERE")] {
        let (envelope, counted) = door.answered(status, &object(code)).await;
        assert_eq!(text(&envelope, "error"), "not_authorized", "{code}");
        assert!(text(&envelope, "remediate").contains("do not repeat"));
        assert_eq!(counted, [door.report("not_authorized")]);
    }
}

async fn row_018(door: Door) {
    for code in ["INVALID_INPUT", "SCHEMA_VALIDATION_FAILED", "incomplete_input"] {
        let (envelope, counted) = door.answered(422, &object(code)).await;
        assert_eq!((text(&envelope, "error"), &counted[..]), ("incomplete_input", &[door.report("incomplete_input")][..]), "{code}");
    }
}

async fn row_019(door: Door) {
    for body in [object("SOMETHING_ELSE"), object(""), json!({"error": {}}).to_string()] {
        let (envelope, counted) = door.answered(400, &body).await;
        assert_eq!((text(&envelope, "error"), &counted[..]), ("invalid_state", &[door.report("invalid_state")][..]), "{body}");
        assert!(!text(&envelope, "message").is_empty() && !text(&envelope, "remediate").is_empty());
    }
}

async fn no_route(door: Door, body: &str) {
    let (envelope, counted) = door.answered(404, body).await;
    assert_eq!(text(&envelope, "error"), "invalid_state", "{body}");
    let message = text(&envelope, "message");
    assert!(message.contains("no route") && message.contains(door.tool) && message.contains(door.path), "{message}");
    assert!(text(&envelope, "remediate").contains("i_am_idle") && envelope.get("detail").is_none());
    assert_eq!(counted, [door.report("invalid_state")]);
}

async fn row_020(door: Door) {
    no_route(door, r#"{"detail":"Not Found"}"#).await;
}

async fn row_021(door: Door) {
    let (envelope, counted) = door.answered(404, r#"{"detail":"Task 7 is gone"}"#).await;
    assert_eq!((text(&envelope, "error"), text(&envelope, "message")), ("not_found", "Task 7 is gone"));
    assert!(text(&envelope, "remediate").contains("do not repeat") && counted.is_empty());
}

async fn row_022(door: Door) {
    for body in ["", "<html>404</html>", "null", "[]", r#"{"detail": ["Not Found"]}"#] {
        no_route(door, body).await;
    }
}

async fn row_023(door: Door) {
    for (kind, counts) in [("not_authorized", true), ("not_found", false)] {
        let (sent, read) = refusal(kind);
        let (envelope, counted) = door.answered(404, &sent.to_string()).await;
        assert_eq!((envelope, counted.len()), (read, usize::from(counts)), "{kind}");
    }
}

async fn row_024(door: Door) {
    for (status, body) in [(502, "<html>Bad Gateway</html>"), (200, ""), (200, "[1]"), (500, "{}"), (503, r#"{"error": null}"#)] {
        let (envelope, counted) = door.answered(status, body).await;
        assert_eq!(text(&envelope, "error"), "transport_error", "{status} {body}");
        let message = text(&envelope, "message");
        assert!(message.contains(&status.to_string()) && message.contains(door.path), "{message}");
        assert!(text(&envelope, "remediate").contains("operator") && counted.is_empty());
    }
}

macro_rules! rows {
    ($($name:ident => $row:ident;)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                $row(FLOW).await;
            }
        )*

        #[tokio::test]
        async fn gateway_row_025_tools_behave_as_verbs_do() {
            $($row(DO).await;)*
        }
    };
}

rows! {
    gateway_row_001_a_success_passes_and_is_not_reported => row_001;
    gateway_row_002_a_refusal_is_reported_once_and_passes => row_002;
    gateway_row_003_four_kinds_are_reported => row_003;
    gateway_row_004_other_kinds_are_not_reported => row_004;
    gateway_row_005_an_open_breaker_answers => row_005;
    gateway_row_006_the_refusal_stays_inside_the_answer => row_006;
    gateway_row_007_task_and_correlation_are_lifted => row_007;
    gateway_row_008_the_third_refusal_opens_a_real_counter => row_008;
    gateway_row_009_an_absent_sidecar_lets_the_refusal_pass => row_009;
    gateway_row_010_an_unreadable_sidecar_lets_the_refusal_pass => row_010;
    gateway_row_011_an_open_breaker_without_an_envelope_lets_the_refusal_pass => row_011;
    gateway_row_012_the_verb_is_the_last_part_of_the_path => row_012;
    gateway_row_013_a_call_without_a_task_is_reported_without_one => row_013;
    gateway_row_014_a_body_that_was_not_accepted_is_incomplete_input => row_014;
    gateway_row_015_an_internal_error_is_an_invalid_state => row_015;
    gateway_row_016_an_object_that_was_not_found_is_not_counted => row_016;
    gateway_row_017_a_denial_is_not_authorized => row_017;
    gateway_row_018_a_failed_validation_is_incomplete_input => row_018;
    gateway_row_019_an_unknown_code_is_an_invalid_state => row_019;
    gateway_row_020_a_missing_route_is_an_invalid_state => row_020;
    gateway_row_021_a_404_with_a_reason_is_not_found => row_021;
    gateway_row_022_a_404_that_says_nothing_is_a_missing_route => row_022;
    gateway_row_023_an_envelope_under_404_passes => row_023;
    gateway_row_024_no_json_is_a_transport_error => row_024;
}

/// Row 24 in small: what a bridge makes of several answers does not depend on the ones before.
#[tokio::test]
async fn answers_of_one_session_do_not_touch_each_other() {
    let (sent, read) = refusal("not_found");
    let plane = Loopback::start(move |nth, _| match nth {
        0 => Reply::Answer(502, "<html>".into()),
        1 => answer(200, &sent),
        _ => answer(200, &json!({"status": "ok", "error": null})),
    })
    .await;
    let mut agent = FLOW.agent(&plane, &closed().await);
    assert_eq!(text(&agent.call("i_am_done", json!({})).await, "error"), "transport_error");
    assert_eq!(agent.call("i_am_done", json!({})).await, read);
    assert_eq!(agent.call("i_am_done", json!({})).await, json!({"status": "ok"}));
}

/// Every row has a test that exists, or a reason.
#[test]
fn no_row_is_left_out() {
    let sources = [include_str!("rows.rs"), include_str!("sidecar.rs"), include_str!("../../src/sidecar/counters.rs")].concat();
    let rows: Vec<(&str, &str)> = include_str!("../rows.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split_once(" | ").unwrap_or_else(|| panic!("not a row: {line}")))
        .collect();
    let numbers: Vec<u32> = rows.iter().map(|(number, _)| number.trim().parse().unwrap()).collect();
    assert_eq!(numbers, (1..=34).collect::<Vec<_>>());
    for (number, entry) in rows {
        let entry = entry.split(" | ").next().unwrap().trim();
        match entry.strip_prefix("replaced: ") {
            Some(reason) => assert!(reason.len() > 20, "row {number} says too little: {reason}"),
            None => {
                assert!(entry.starts_with(&format!("gateway_row_{:03}_", number.trim().parse::<u32>().unwrap())), "row {number}: {entry}");
                let known = sources.contains(&format!("{entry} =>")) || sources.contains(&format!("fn {entry}("));
                assert!(known, "row {number}: there is no test {entry}");
            }
        }
    }
}
