//! `bridge run`: frames, back-pressure, the relay, and what dies with what.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;

use crate::process::{Bridge, is_alive, stand_in, until};

fn shell(script: &str) -> Bridge {
    Bridge::start(&["run", "--", "sh", "-c", script], &[], Path::new("/"))
}

async fn hello(bridge: &mut Bridge) {
    assert_eq!(bridge.next().await.unwrap()["hello"]["protocol"], 1);
}

#[tokio::test]
async fn a_client_is_fed_read_and_its_end_reported() {
    let mut bridge = shell("read -r line; echo \"got $line\"; echo oops >&2; cat; echo end; exit 3");
    hello(&mut bridge).await;
    bridge.send(r#"{"in":"one \"two\""}"#).await;
    assert_eq!(bridge.next().await.unwrap(), json!({"n": 1, "out": "got one \"two\""}));
    assert_eq!(bridge.next().await.unwrap(), json!({"n": 2, "err": "oops"}));
    bridge.send(r#"{"in":"three"}"#).await;
    bridge.send(r#"{"eof":true}"#).await;
    assert_eq!(bridge.next().await.unwrap(), json!({"n": 3, "out": "three"}));
    assert_eq!(bridge.next().await.unwrap(), json!({"n": 4, "out": "end"}));
    assert_eq!(bridge.next().await.unwrap(), json!({"n": 5, "exit": {"code": 3}}));
    // It stays until the end was taken, and ends with the client's code.
    bridge.send(r#"{"ack":5}"#).await;
    assert_eq!(bridge.wait().await.code(), Some(3));
}

#[tokio::test]
async fn frames_that_were_not_acknowledged_come_again_after_a_reconnect() {
    let mut bridge = shell("echo a; echo b; echo c; cat");
    hello(&mut bridge).await;
    for n in 1..=3 {
        assert_eq!(bridge.next().await.unwrap()["n"], n);
    }
    bridge.send(r#"{"ack":1}"#).await;
    bridge.send(r#"{"hello":{"protocol":1,"last":2}}"#).await;
    assert_eq!(bridge.next().await.unwrap(), json!({"hello": {"protocol": 1, "last": 3}}));
    assert_eq!(bridge.next().await.unwrap(), json!({"n": 3, "out": "c"}));
}

#[tokio::test]
async fn another_protocol_is_refused() {
    let mut bridge = shell("cat");
    hello(&mut bridge).await;
    bridge.send(r#"{"hello":{"protocol":2,"last":0}}"#).await;
    assert_eq!(bridge.wait().await.code(), Some(70));
}

#[tokio::test]
async fn a_stop_is_polite_first_and_then_not() {
    let mut polite = shell("exec 2>/dev/null; trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done");
    hello(&mut polite).await;
    assert_eq!(polite.next().await.unwrap()["out"], "ready");
    polite.send(r#"{"stop":{"grace_ms":20000}}"#).await;
    assert_eq!(polite.next().await.unwrap()["out"], "bye");
    assert_eq!(polite.next().await.unwrap()["exit"], json!({"code": 0}));

    let mut deaf = shell("exec 2>/dev/null; trap '' TERM; echo ready; while :; do sleep 0.05; done");
    hello(&mut deaf).await;
    assert_eq!(deaf.next().await.unwrap()["out"], "ready");
    deaf.send(r#"{"stop":{"grace_ms":100}}"#).await;
    assert_eq!(deaf.next().await.unwrap()["exit"], json!({"signal": 9}));
}

#[tokio::test]
async fn when_the_control_plane_dies_nothing_of_the_client_survives() {
    // One process in the client's group, one that left the group and one that also lost its parent.
    let mut bridge = shell("sleep 1000 & echo $!; setsid sleep 1001 & echo $!; (setsid sleep 1002 & echo $!); wait");
    hello(&mut bridge).await;
    let mut pids = Vec::new();
    for _ in 0..3 {
        let frame = bridge.next().await.unwrap();
        pids.push(frame["out"].as_str().unwrap().parse::<u32>().unwrap());
    }
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    bridge.close_stdin();
    assert_eq!(bridge.wait().await.code(), Some(70));
    until("all processes of the client are gone", || !pids.iter().any(|pid| is_alive(*pid))).await;
}

#[tokio::test]
async fn what_a_client_leaves_behind_ends_with_it() {
    let mut bridge = shell("setsid sleep 1000 & echo $!");
    hello(&mut bridge).await;
    let pid = bridge.next().await.unwrap()["out"].as_str().unwrap().parse::<u32>().unwrap();
    assert_eq!(bridge.next().await.unwrap()["exit"], json!({"code": 0}));
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn a_flood_without_acknowledgement_stops_the_client_and_goes_on_afterwards() {
    let directory = tempfile::tempdir().unwrap();
    // Far more than spool and pipes hold; the file counts what the client could get rid of.
    let script =
        "i=0; line=$(printf 'x%.0s' $(seq 1 9000)); while [ $i -lt 6000 ]; do echo $line; i=$((i+1)); echo . >> count; done; echo done";
    let mut bridge = Bridge::start(&["run", "--", "sh", "-c", script], &[], directory.path());
    hello(&mut bridge).await;
    // Read all that comes without acknowledging, until nothing comes any more.
    let mut last = 0;
    while let Ok(frame) = tokio::time::timeout(std::time::Duration::from_millis(1500), bridge.next()).await {
        last = frame.unwrap()["n"].as_u64().unwrap();
    }
    let spooled = last * 9000;
    assert!((15_000_000..18_000_000).contains(&spooled), "{spooled} bytes were spooled");
    let written = fs::read_to_string(directory.path().join("count")).unwrap().lines().count();
    assert!(written < 3000, "the client wrote {written} lines without being read");

    let mut frame = Value::Null;
    while frame["exit"].is_null() {
        bridge.send(&json!({"ack": last}).to_string()).await;
        frame = bridge.next().await.unwrap();
        assert_eq!(frame["n"], last + 1, "a frame is missing");
        last += 1;
    }
    assert_eq!(last, 6002);
}

#[tokio::test]
async fn a_line_that_is_too_long_is_cut_and_counted() {
    let mut bridge = shell("head -c 100000 /dev/zero | tr '\\0' x; echo; echo next");
    hello(&mut bridge).await;
    let frame = bridge.next().await.unwrap();
    assert_eq!(frame["cut"], 100_000 - 65_536);
    assert!(frame["out"].as_str().unwrap().ends_with("x…[34464 bytes cut]"));
    assert_eq!(bridge.next().await.unwrap()["out"], "next");
}

#[tokio::test]
async fn connections_to_the_loopback_reach_the_door_and_close_one_direction_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("door.sock");
    let door = UnixListener::bind(&socket).unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = door.accept().await.unwrap();
            tokio::spawn(async move {
                // The answer comes only after the whole question: it needs a half-closed connection.
                let mut question = Vec::new();
                stream.read_to_end(&mut question).await.unwrap();
                question.reverse();
                stream.write_all(&question).await.unwrap();
            });
        }
    });
    let config = directory.path().join("mcp.json");
    fs::write(&config, r#"{"url":"http://{{door}}/mcp"}"#).unwrap();
    let (door_path, file) = (socket.to_str().unwrap(), config.to_str().unwrap());
    let script = "echo $URL $0; cat";
    let args = ["run", "--door", door_path, "--listen", "127.0.0.1:0", "--fill", file, "--", "sh", "-c", script, "{{door}}"];
    let mut bridge = Bridge::start(&args, &[("URL", "http://{{door}}/mcp")], Path::new("/"));
    hello(&mut bridge).await;
    let told = bridge.next().await.unwrap()["out"].as_str().unwrap().to_owned();
    let (url, address) = told.split_once(' ').unwrap();
    assert_eq!(url, format!("http://{address}/mcp"));
    assert!(!address.ends_with(":0"));
    assert_eq!(fs::read_to_string(&config).unwrap(), format!(r#"{{"url":"{url}"}}"#));

    let mut connections = tokio::task::JoinSet::new();
    for i in 0..20_u32 {
        let address = address.to_owned();
        connections.spawn(async move {
            let question: Vec<u8> = (0..200_000_u32).map(|n| u8::try_from((n * 7 + i) % 251).unwrap()).collect();
            let (mut from, mut to) = tokio::net::TcpStream::connect(address).await.unwrap().into_split();
            to.write_all(&question).await.unwrap();
            to.shutdown().await.unwrap();
            let mut answer = Vec::new();
            from.read_to_end(&mut answer).await.unwrap();
            answer.reverse();
            assert!(answer == question, "connection {i} was garbled");
        });
    }
    while let Some(result) = connections.join_next().await {
        result.unwrap();
    }
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    for (args, code) in [
        (vec!["run", "--", "/no/such/program"], 70),
        (vec!["run", "--", "echo", "{{door}}"], 64),
        (vec!["run"], 64),
        (vec!["flow"], 78),
        (vec!["sidecar"], 78),
        (vec![], 64),
    ] {
        let mut bridge = Bridge::start(&args, &[], Path::new("/"));
        assert_eq!(bridge.wait().await.code(), Some(code), "{args:?}");
    }
}

#[tokio::test]
async fn limits_are_in_force_in_the_program_that_follows() {
    let limits = ["--memory", "100000000", "--pids", "77", "--"];
    let show = ["sh", "-c", "grep -E 'data size|processes' /proc/self/limits | tr -s ' '; ulimit -c"];
    let binary = stand_in();
    let limit = ["run", "--", binary.to_str().unwrap(), "bridge", "limit"];
    for before in [&limit[..], &["run"]] {
        let told = told(&[before, &limits, &show].concat()).await;
        assert_eq!(told, ["Max data size 100000000 100000000 bytes", "Max processes 77 77 processes", "0"], "{before:?}");
    }
}

#[tokio::test]
async fn opened_files_are_inherited_by_the_program_that_follows() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    std::fs::write(&file, "content\n").unwrap();
    let binary = stand_in();
    let files = ["--open", "/dev/null", "--open", file.to_str().unwrap(), "--"];
    let show = ["sh", "-c", "cat /proc/self/fd/$0 /proc/self/fd/$1", "{{file 0}}", "{{file 1}}"];
    let told = told(&[&["run", "--", binary.to_str().unwrap(), "bridge", "limit"], &files[..], &show].concat()).await;
    assert_eq!(told, ["content"]);
}

/// What the client of a bridge writes to its output.
async fn told(args: &[&str]) -> Vec<String> {
    let mut bridge = Bridge::start(args, &[], Path::new("/"));
    hello(&mut bridge).await;
    let mut told = Vec::new();
    while let Some(frame) = bridge.next().await {
        match frame["out"].as_str() {
            Some(line) => told.push(line.trim().to_owned()),
            None => break,
        }
    }
    told
}
