//! Recordings of the real client, read into events and an ending. The snapshots are reviewed line by line.
//!
//! In the recordings paths and the name of the server with the verbs were replaced, and lists nobody reads were dropped. Two are edited
//! copies of a real one: `killed-in-a-tool` is cut off inside a tool call, `quotes-errors` has error texts in the model's and the tools'
//! mouths.
#![expect(clippy::unwrap_used, reason = "a helper of a test may fail the test")]

use std::fmt::Write as _;
use std::path::Path;

use roboco_domain::time::Timestamp;
use roboco_providers::{Channel, Exit, Parser, Provider, Spend, claude::Claude};

/// 2026-11-30 21:10:15 UTC, when the recordings were made.
const NOW: Timestamp = Timestamp::from_millis(1_796_073_015_000);

/// Every recording with the exit code of its process.
const RECORDINGS: [(&str, i32); 22] = [
    ("401", 1),
    ("429", 1),
    ("529", 1),
    ("bad-mcp", 0),
    ("budget", 1),
    ("context", 1),
    ("fallback-model", 0),
    ("malformed", 1),
    ("max-turns", 1),
    ("oauth-ok", 0),
    ("ok-partial", 0),
    ("ok-toolsearch", 0),
    ("quota", 1),
    ("resume-unknown", 1),
    ("resumed", 0),
    ("streaminput-interrupt", 0),
    ("streaminput-midturn", 0),
    ("streaminput-permission", 0),
    ("subscription-limit-rate_limit_event", 1),
    ("truncated", 1),
    ("killed-in-a-tool", -15),
    ("quotes-errors", 0),
];

fn exit(code: i32) -> Exit {
    if code < 0 { Exit { code: None, signal: Some(-code) } } else { Exit { code: Some(code), signal: None } }
}

/// The lines the client wrote. Long-lived sessions are recorded as both directions with times; only its own side is read.
fn lines(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/claude/{name}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let own = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        match value.get("dir").and_then(serde_json::Value::as_str) {
            Some("<") => Some(value["m"].to_string()),
            Some(_) => None,
            None => Some(line.to_owned()),
        }
    };
    text.lines().filter_map(own).collect()
}

fn told(parser: &mut dyn Parser, lines: &[String], exit: Exit) -> String {
    let mut told = String::new();
    for line in lines {
        for event in parser.line(NOW, Channel::Out, line) {
            writeln!(told, "{event:?}").unwrap();
        }
    }
    writeln!(told, "spent: {:?}", parser.spent()).unwrap();
    writeln!(told, "ending: {:?}", parser.exit(exit)).unwrap();
    told
}

#[test]
fn recordings_read_as_reviewed() {
    for (name, code) in RECORDINGS {
        let told = told(Claude.parser(Spend::default()).as_mut(), &lines(name), exit(code));
        insta::assert_snapshot!(name, told);
    }
}

#[test]
fn every_recording_is_reviewed() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/claude");
    for entry in std::fs::read_dir(directory).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        if let Some(name) = file.strip_suffix(".jsonl") {
            assert!(RECORDINGS.iter().any(|(known, _)| *known == name), "{name} is not in the list");
        }
    }
}
