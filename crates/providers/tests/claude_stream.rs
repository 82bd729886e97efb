//! Streams the recordings do not show: damaged lines, huge lines, sessions that go on in a new process, deaths at awkward moments.

use proptest::prelude::*;
use roboco_domain::time::Timestamp;
use roboco_providers::{Channel, ClientEvent, Ending, Exit, McpState, Parser, Provider, Spend, Tokens, TurnEnd, claude::Claude};
use serde_json::json;

const NOW: Timestamp = Timestamp::from_millis(1_796_073_015_000);
const KILLED: Exit = Exit { code: None, signal: Some(9) };

fn reader() -> Box<dyn Parser> {
    Claude.parser(Spend::default())
}

fn feed(parser: &mut dyn Parser, line: &serde_json::Value) -> Vec<ClientEvent> {
    parser.line(NOW, Channel::Out, &line.to_string())
}

fn init(status: &str) -> serde_json::Value {
    json!({"type": "system", "subtype": "init", "session_id": "s", "model": "m", "mcp_servers": [
        {"name": "other", "status": "failed"}, {"name": "roboco", "status": status}]})
}

fn done() -> serde_json::Value {
    json!({"type": "result", "subtype": "success", "is_error": false, "result": "ok", "total_cost_usd": 0})
}

fn says(text: &str) -> serde_json::Value {
    json!({"type": "assistant", "message": {"id": text, "model": "m", "content": [{"type": "text", "text": text}]}})
}

#[test]
fn damaged_lines_become_bounded_notes_and_nothing_else() {
    let whole = init("connected").to_string();
    let long = format!("{{\"type\": \"assistant\", {}", "x ".repeat(2000));
    for line in [&whole[..whole.len() / 2], "", "   ", "\u{fffd}\u{fffd}", "null", "[]", "7", "\"result\"", "{", &long] {
        let events = reader().line(NOW, Channel::Out, line);
        match events.as_slice() {
            [] => assert!(line.trim().is_empty(), "{line:?}"),
            [ClientEvent::Note(note)] => assert!(note.chars().count() <= 501, "{}", note.len()),
            other => panic!("{line:?} became {other:?}"),
        }
    }
    // Fields of a wrong kind are as good as absent.
    for line in [
        json!({"type": 5}),
        json!({"type": "assistant", "message": "text"}),
        json!({"type": "assistant", "message": {"content": {"a": 1}}}),
        json!({"type": "user", "message": {"content": [null, 3, {"type": "tool_result"}]}}),
        json!({"type": "system", "subtype": "api_retry", "attempt": -1, "error_status": "x"}),
        json!({"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": "soon"}}),
        json!({"type": "result"}),
    ] {
        let mut parser = reader();
        let _events = feed(parser.as_mut(), &line);
        assert!(!matches!(parser.exit(Exit { code: Some(0), signal: None }), Ending::Finished), "{line}");
    }
}

#[test]
fn a_line_of_ten_megabytes_is_read_whole() {
    let text = "ä".repeat(5 * 1024 * 1024);
    let line = json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t", "content": text}]}});
    let events = feed(reader().as_mut(), &line);
    assert!(matches!(events.as_slice(), [ClientEvent::ToolResult { text, ok: true, .. }] if text.len() == 10 * 1024 * 1024));
    let garbage = "y".repeat(10 * 1024 * 1024);
    assert!(matches!(reader().line(NOW, Channel::Out, &garbage).as_slice(), [ClientEvent::Note(note)] if note.chars().count() <= 501));
}

#[test]
fn an_exit_code_alone_is_never_a_success() {
    let zero = Exit { code: Some(0), signal: None };
    let crashed = |code, detail: &str| Ending::Crashed { code, detail: detail.to_owned() };
    let open = "before the turn was over";
    for (lines, exit, expected) in [
        (vec![], zero, crashed(Some(0), &format!("exit code 0 {open}"))),
        (vec![init("connected")], zero, crashed(Some(0), &format!("exit code 0 {open}"))),
        (vec![init("connected"), says("hello")], zero, crashed(Some(0), &format!("exit code 0 {open}"))),
        (vec![init("connected"), says("hello"), done()], zero, Ending::Finished),
        (vec![init("connected"), says("hello"), done()], KILLED, Ending::Finished),
        // The next turn had begun.
        (vec![init("connected"), done(), init("connected")], KILLED, crashed(None, &format!("killed by signal 9 {open}"))),
        (vec![init("connected"), done(), says("more")], KILLED, crashed(None, &format!("killed by signal 9 {open}"))),
        (vec![init("connected"), json!({"type": "result", "is_error": true, "result": "odd"})], zero, crashed(Some(0), "odd")),
    ] {
        let mut parser = reader();
        for line in &lines {
            feed(parser.as_mut(), line);
        }
        assert_eq!(parser.exit(exit), expected, "{lines:?}");
    }
}

#[test]
fn the_last_remark_on_standard_error_explains_a_crash() {
    let mut parser = reader();
    assert_eq!(parser.line(NOW, Channel::Err, "first"), [ClientEvent::Note("first".into())]);
    parser.line(NOW, Channel::Err, "error: unknown   option '--tools'");
    let ending = parser.exit(Exit { code: Some(1), signal: None });
    let detail = "exit code 1 before the turn was over: error: unknown option '--tools'".to_owned();
    assert_eq!(ending, Ending::Crashed { code: Some(1), detail });
}

#[test]
fn verbs_that_are_not_connected_fail_the_run_whatever_the_model_says() {
    for (line, broken) in [
        (init("connected"), false),
        (init("pending"), false),
        (init("failed"), true),
        (init("needs-auth"), true),
        (init(""), true),
        (json!({"type": "system", "subtype": "init", "mcp_servers": []}), true),
        (json!({"type": "system", "subtype": "init"}), true),
    ] {
        let mut parser = reader();
        let events = feed(parser.as_mut(), &line);
        let failed = matches!(events.as_slice(), [ClientEvent::Ready { mcp: McpState::Failed(_), .. }]);
        assert_eq!(failed, broken, "{line}");
        feed(parser.as_mut(), &done());
        assert_eq!(matches!(parser.exit(KILLED), Ending::GatewayBroken { .. }), broken, "{line}");
    }
}

#[test]
fn readiness_is_told_once_and_again_when_it_changes() {
    let mut parser = reader();
    assert_eq!(feed(parser.as_mut(), &init("pending")).len(), 1);
    assert_eq!(feed(parser.as_mut(), &init("pending")).len(), 0);
    let again = feed(parser.as_mut(), &init("connected"));
    assert!(matches!(again.as_slice(), [ClientEvent::Ready { mcp: McpState::Connected, .. }]), "{again:?}");
}

#[test]
fn a_client_that_dies_after_an_api_error_ends_as_that_error() {
    let refused = json!({"type": "assistant", "api_error_status": 429, "is_api_error_message": true,
        "message": {"model": "<synthetic>", "content": [{"type": "text", "text": "limit · resets 11:10pm (UTC)"}]}});
    let mut parser = reader();
    feed(parser.as_mut(), &init("connected"));
    feed(parser.as_mut(), &refused);
    assert_eq!(parser.exit(KILLED), Ending::RateLimited { until: Some(Timestamp::from_millis(1_796_080_200_000)) });

    // It went on afterwards, so the refusal explains nothing.
    let mut parser = reader();
    for line in [&init("connected"), &refused, &says("back again")] {
        feed(parser.as_mut(), line);
    }
    assert!(matches!(parser.exit(KILLED), Ending::Crashed { .. }));
}

#[test]
fn only_a_rejected_limit_counts_and_only_when_the_turn_fails() {
    let event = |status: &str| json!({"type": "rate_limit_event", "rate_limit_info": {"status": status, "resetsAt": 1_796_080_215}});
    let until = Some(Timestamp::from_millis(1_796_080_215_000));
    let mut parser = reader();
    assert_eq!(feed(parser.as_mut(), &event("allowed")), []);
    assert_eq!(feed(parser.as_mut(), &event("allowed_warning")), []);
    assert_eq!(feed(parser.as_mut(), &event("rejected")), [ClientEvent::Limited(until)]);
    feed(parser.as_mut(), &done());
    assert_eq!(parser.exit(KILLED), Ending::Finished);

    let mut parser = reader();
    feed(parser.as_mut(), &event("rejected"));
    let told = feed(parser.as_mut(), &json!({"type": "result", "is_error": true, "api_error_status": 429, "result": "no time here"}));
    assert_eq!(told, [ClientEvent::TurnDone(TurnEnd::Failed("no time here".into()))]);
    assert_eq!(parser.exit(KILLED), Ending::RateLimited { until });
}

fn tokens(input: u64, output: u64) -> Tokens {
    Tokens { input, output, ..Tokens::default() }
}

#[test]
fn cumulative_totals_are_counted_once_across_a_resume() {
    // An older client reports only totals of the whole session.
    let total = |input: u64, output: u64, usd: f64| {
        let usage = json!({"inputTokens": input, "outputTokens": output, "costUSD": usd});
        json!({"type": "result", "is_error": false, "total_cost_usd": usd, "modelUsage": {"m": usage}})
    };
    let mut first = reader();
    assert_eq!(
        feed(first.as_mut(), &total(100, 10, 0.25)),
        [ClientEvent::Usage(tokens(100, 10)), ClientEvent::Cost(250_000), ClientEvent::TurnDone(TurnEnd::Finished)]
    );
    assert_eq!(
        feed(first.as_mut(), &total(150, 15, 0.30)),
        [ClientEvent::Usage(tokens(50, 5)), ClientEvent::Cost(50_000), ClientEvent::TurnDone(TurnEnd::Finished)]
    );
    let mut second = Claude.parser(first.spent());
    let answer = json!({"type": "assistant", "message": {"id": "a", "model": "m", "content": [], "usage": {"input_tokens": 40, "output_tokens": 1}}});
    assert_eq!(feed(second.as_mut(), &answer), [ClientEvent::Usage(tokens(40, 1))]);
    assert_eq!(feed(second.as_mut(), &answer), [], "the same answer was counted twice");
    assert_eq!(
        feed(second.as_mut(), &total(190, 22, 0.50)),
        [ClientEvent::Usage(tokens(0, 6)), ClientEvent::Cost(200_000), ClientEvent::TurnDone(TurnEnd::Finished)]
    );
    assert_eq!(second.spent(), Spend { tokens: tokens(190, 22), usd_micros: 500_000 });
}

/// Words and shapes that reach deep into the readers.
fn fragment() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "resets",
        "try again in",
        "11:10pm",
        "pm",
        "3",
        "(UTC)",
        "utc+99",
        "dec",
        "31",
        "monday",
        "America/New_York",
        "retry-after:",
        "99999999999999999999",
        "1796080215",
        "2026-02-30",
        "2026-11-30T25:00:00Z",
        "noon",
        "tomorrow",
        "·",
        "é",
        "5h",
        ":",
        "12:99",
    ]);
    prop_oneof![words.prop_map(str::to_owned), any::<String>()]
}

fn json_value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<f64>().prop_map(serde_json::Value::from),
        fragment().prop_map(serde_json::Value::from),
    ];
    let keys = prop::sample::select(vec![
        "message",
        "content",
        "usage",
        "model",
        "id",
        "is_error",
        "result",
        "modelUsage",
        "model_usage_since_last_result",
        "inputTokens",
        "costUSD",
        "total_cost_usd",
        "input_tokens",
        "rate_limit_info",
        "resetsAt",
        "status",
        "api_error_status",
        "mcp_servers",
        "name",
        "retry_delay_ms",
        "errors",
        "subtype",
    ]);
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::hash_map(keys.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_line_breaks_the_reader_and_spend_never_shrinks(
        lines in prop::collection::vec((prop::sample::select(vec!["system", "assistant", "user", "result", "rate_limit_event", "x"]), json_value()), 0..12)
    ) {
        let mut parser = reader();
        let mut before = parser.spent();
        for (kind, mut line) in lines {
            if let Some(object) = line.as_object_mut() {
                object.insert("type".to_owned(), kind.into());
            }
            feed(parser.as_mut(), &line);
            let after = parser.spent();
            prop_assert!(after.usd_micros >= before.usd_micros && before.tokens.minus(after.tokens).is_zero());
            before = after;
        }
        parser.exit(KILLED);
    }

    #[test]
    fn no_text_breaks_the_reset_reader(parts in prop::collection::vec(fragment(), 0..8), now in any::<i64>()) {
        let text = parts.join(" ");
        for now in [NOW, Timestamp::from_millis(now)] {
            if let Some(at) = roboco_providers::reset::reset_time(&text, now) {
                prop_assert!(at <= now.after(std::time::Duration::from_secs(400 * 24 * 60 * 60)));
            }
        }
    }
}
