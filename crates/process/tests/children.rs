//! Real children: what dies, what is kept, what is said.

use std::future::Future;
use std::path::Path;
use std::time::{Duration, Instant};

use roboco_process::{Input, Lifetime, OutputCap, Process, ProcessError, find_program};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

const CAP: OutputCap = OutputCap::both_ends(4096);

fn sh(script: &str, lifetime: impl Into<Lifetime>) -> Process {
    Process::new("/bin/sh", "/", lifetime).args(["-c", script])
}

fn minute() -> Duration {
    Duration::from_secs(60)
}

async fn until<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let started = Instant::now();
    while !condition().await {
        assert!(started.elapsed() < Duration::from_secs(10), "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A process is gone when it has no entry, or is only waiting to be reaped by whoever adopted it.
fn is_gone(pid: &str) -> bool {
    match std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")) {
        Err(_) => true,
        Ok(stat) => stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z')),
    }
}

#[tokio::test]
async fn the_deadline_kills_grandchildren_and_keeps_what_was_said() {
    let started = Instant::now();
    let error = sh("sleep 300 & echo $!; sleep 300", Duration::from_millis(300)).output(CAP).await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(10));
    let text = error.to_string();
    let ProcessError::TimedOut { stdout, .. } = error else { panic!("{error}") };
    let grandchild = stdout.text().trim().to_owned();
    assert!(!grandchild.is_empty());
    until("grandchild dies", || async { is_gone(&grandchild) }).await;
    assert_eq!(text, "/bin/sh was still running after 0.3 s and was stopped");
}

#[tokio::test]
async fn what_the_leader_leaves_behind_dies_with_it() {
    let started = Instant::now();
    let output = sh("sleep 300 & echo $!", minute()).output(CAP).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(10), "a background process held the pipe");
    let pid = output.stdout.text().trim().to_owned();
    until("background process dies", || async { is_gone(&pid) }).await;
}

#[tokio::test]
async fn a_flood_is_drained_and_cut() {
    let output = sh("head -c 50000000 /dev/zero | tr '\\0' x; echo end; echo trouble >&2", minute()).output(CAP).await.unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout.dropped(), 50_000_004 - 4096);
    assert!(output.stdout.text().ends_with("xend\n"));
    assert_eq!(output.stderr.text(), "trouble\n");
    assert!(!output.stderr.is_truncated());
}

#[tokio::test]
async fn the_environment_holds_only_what_was_given() {
    let env = find_program("env".as_ref(), "/usr/bin:/bin".as_ref()).unwrap();
    let output = Process::new(&env, "/", minute()).env("ONLY", "this").output(CAP).await.unwrap();
    assert_eq!(output.stdout.text(), "ONLY=this\n");
    let output = Process::new(&env, "/", minute()).output(CAP).await.unwrap();
    assert_eq!(output.stdout.text(), "");
}

#[tokio::test]
async fn large_input_and_output_do_not_block_each_other() {
    let bytes = vec![b'a'; 3_000_000];
    let output = sh("cat", minute()).input(Input::Bytes(bytes.clone())).output(OutputCap::head(4_000_000)).await.unwrap();
    assert_eq!(output.stdout.into_bytes(), bytes);
    let output = sh("exit 3", minute()).input(Input::Bytes(bytes)).output(CAP).await.unwrap();
    assert_eq!(output.status.code(), Some(3));
}

#[tokio::test]
async fn cancelling_a_run_kills_its_group() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    let script = format!("sleep 300 & echo $! $$ > {}; sleep 300", file.display());
    let run = tokio::spawn(sh(&script, minute()).output(CAP));
    let pids = || std::fs::read_to_string(&file).unwrap_or_default();
    until("child starts", || async { pids().ends_with('\n') }).await;
    assert!(pids().split_whitespace().all(|pid| !is_gone(pid)));
    run.abort();
    until("group dies", || async { pids().split_whitespace().all(is_gone) }).await;
}

#[tokio::test]
async fn dropping_a_spawned_child_kills_its_group() {
    let mut child = sh("sleep 300 & echo $!; sleep 300", Lifetime::Owner).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
    let leader = child.pid().unwrap().to_string();
    assert!(!is_gone(line.trim()) && !is_gone(&leader));
    drop(child);
    until("both die", || async { is_gone(line.trim()) && is_gone(&leader) }).await;
}

#[tokio::test]
async fn a_spawned_child_is_stopped_at_its_deadline_and_on_request() {
    let mut child = sh("sleep 300", Duration::from_millis(200)).spawn().unwrap();
    assert!(!child.wait().await.unwrap().success());

    let mut child = sh("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done", Lifetime::Owner).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("up"));
    assert!(child.try_wait().unwrap().is_none());
    assert!(child.stop(Duration::from_secs(10)).await.unwrap().success());
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("bye"));

    let mut child = sh("trap '' TERM; echo up; while :; do sleep 0.05; done", Lifetime::Owner).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("up"));
    assert!(!child.stop(Duration::from_millis(100)).await.unwrap().success());
}

#[tokio::test]
async fn a_spawned_child_talks_over_its_pipes() {
    let mut child = sh("read line; echo got $line; echo aside >&2", Lifetime::Owner).input(Input::Piped).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"hello\n").await.unwrap();
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut out).await.unwrap();
    child.stderr.take().unwrap().read_to_string(&mut err).await.unwrap();
    assert_eq!((out.as_str(), err.as_str()), ("got hello\n", "aside\n"));
    assert!(child.wait().await.unwrap().success());
    child.kill_group();
}

#[tokio::test]
async fn errors_say_what_is_missing_and_show_no_values() {
    let missing = Process::new("no-such-program", "/", minute()).env("TOKEN", "hunter2").arg("hunter3");
    let shown = format!("{missing:?}");
    assert!(shown.contains("TOKEN") && !shown.contains("hunter2"), "{shown}");
    let error = missing.output(CAP).await.unwrap_err();
    assert!(matches!(error, ProcessError::NotFound { .. }), "{error}");
    assert!(error.to_string().starts_with("no-such-program was not found"), "{error}");
    assert!(!format!("{error} {error:?}").contains("hunter"));

    let error = Process::new("/bin/sh", "/no/such/directory", minute()).spawn().unwrap_err();
    assert!(matches!(error, ProcessError::NoDirectory { .. }), "{error}");
    let error = Process::new("/etc/passwd", "/", minute()).spawn().unwrap_err();
    assert!(matches!(error, ProcessError::Io { doing: "start", .. }), "{error}");
    assert!(find_program("sh".as_ref(), "/usr/bin:/bin".as_ref()).is_some());
    assert!(find_program("passwd".as_ref(), "/etc".as_ref()).is_none());
}
