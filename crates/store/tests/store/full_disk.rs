//! A disk without room, for real: the test runs itself again where a small file system is mounted over its folder.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use roboco_domain::task::Task;
use roboco_store::{Block, Committed, OpenError, OpenOptions, Replay, SqlStore, Store, StoreFault};
use tokio::sync::broadcast::error::TryRecvError;

use crate::sample::{NOW, change, created, cut_branch, heard, is_committed, next, note, picture, request, spawn, spawn_id};

/// Where the second run finds its small disk.
const SMALL_DISK: &str = "ROBOCO_TEST_SMALL_DISK";
/// Room for an empty database and some work.
const BYTES: usize = 2 * 1024 * 1024;

/// The small disk, when this is the run that has one. The other run starts that one, and fails when it does.
#[expect(
    clippy::disallowed_methods,
    reason = "a test starts itself again without the product's own means, and its second run must know that it is one"
)]
fn small_disk(test: &str) -> Option<PathBuf> {
    if let Ok(place) = std::env::var(SMALL_DISK) {
        return Some(place.into());
    }
    let place = tempfile::tempdir().unwrap();
    let again = std::process::Command::new("bwrap")
        .args(["--die-with-parent", "--unshare-user", "--dev-bind", "/", "/", "--size"])
        .arg(BYTES.to_string())
        .arg("--tmpfs")
        .arg(place.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(SMALL_DISK, place.path())
        .output()
        .expect("bubblewrap makes the small disk of this test: install it, `cargo xtask check-env` says how");
    let said = [again.stdout, again.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).join("\n");
    assert!(again.status.success() && said.contains("1 passed"), "on the small disk: {said}");
    None
}

/// Takes all the room that is left.
fn fill(disk: &Path) -> PathBuf {
    let path = disk.join("ballast");
    let mut file = File::create(&path).unwrap();
    for size in [4096, 1] {
        let error = loop {
            if let Err(error) = file.write_all(&vec![7; size]) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
    }
    path
}

/// Goes on until something does not fit.
async fn write_until_refused(store: &SqlStore, task: Arc<Task>) -> (Arc<Task>, StoreFault) {
    let mut last = task;
    for _ in 0..10_000 {
        let wanted = next(&last, |t| t.description = "x".repeat(8000));
        match store.commit(change(store, Arc::clone(&wanted)).await).await {
            Ok(Committed::Yes(_)) => last = wanted,
            Ok(Committed::Stale) => panic!("nobody else writes"),
            Err(fault) => return (last, fault),
        }
    }
    panic!("a full disk took everything");
}

fn says_what_to_do(fault: &StoreFault) {
    let text = fault.to_string();
    assert!(text.starts_with("database: its disk is full (") && text.contains("free some room"), "{text}");
    assert!(fault.remedy.is_some_and(|remedy| remedy.contains("free some room")), "people are told what to do: {fault:?}");
    assert!(fault.retryable, "it passes as soon as there is room");
}

#[tokio::test]
async fn a_full_disk_refuses_a_commit_whole_and_takes_it_when_there_is_room() {
    let Some(disk) = small_disk("full_disk::a_full_disk_refuses_a_commit_whole_and_takes_it_when_there_is_room") else { return };
    let options = OpenOptions::new(format!("sqlite:{}", disk.join("roboco.db").display()));
    let store = SqlStore::open(options.clone()).await.unwrap();
    let mut listener = store.subscribe();
    let task = created(&store).await;
    heard(&mut listener).await;
    let ballast = fill(&disk);

    let (last, fault) = write_until_refused(&store, task).await;
    says_what_to_do(&fault);
    while listener.try_recv().is_ok() {}
    let before = picture(&store).await;
    // Rows of several tables, an effect and an answer for replay; one alone, and several that wait together.
    let numbers = store.next_numbers().await.unwrap();
    let big = |nth: u64| {
        let mut request = request(numbers);
        request.task = Some(last.id);
        request.events = vec![note("x".repeat(8000)), note("y".repeat(8000))];
        request.changes.task = Some(next(&last, |t| t.title = "half a change".into()));
        request.changes.spawn = Some(spawn(&last, nth));
        request.effects = vec![cut_branch(&last)];
        request.replay = Some(Replay { key: format!("k{nth}"), digest: "d".into(), answer: "x".repeat(8000), waits_for: None });
        request
    };
    says_what_to_do(&store.commit(big(1)).await.unwrap_err());
    let together = tokio::join!(store.commit(big(2)), store.commit(big(3)), store.commit(big(4)));
    for refused in [together.0, together.1, together.2] {
        says_what_to_do(&refused.unwrap_err());
    }
    let block = Block { n: 1, at: NOW, kind: "text".into(), text: "x".repeat(8000) };
    let run = spawn_id();
    says_what_to_do(&store.append_transcript(run, vec![block.clone()]).await.unwrap_err());
    assert_eq!(picture(&store).await, before, "what was refused was refused whole");
    assert!(matches!(listener.try_recv(), Err(TryRecvError::Empty)), "nobody heard of it");

    fs::remove_file(ballast).unwrap();
    assert!(is_committed(store.commit(big(5)).await.unwrap()), "it goes on without a new start");
    store.append_transcript(run, vec![block.clone()]).await.unwrap();
    assert_eq!(store.transcript(run, 0, 10).await.unwrap(), [block]);
    let after = picture(&store).await;
    assert!(after.contains("half a change"));
    store.close().await;
    let store = SqlStore::open(options).await.unwrap();
    assert_eq!(picture(&store).await, after, "and what was said to be written was");
}

#[tokio::test]
async fn a_start_without_room_says_so_and_the_next_one_finds_everything() {
    let Some(disk) = small_disk("full_disk::a_start_without_room_says_so_and_the_next_one_finds_everything") else { return };
    let options = OpenOptions::new(format!("sqlite:{}", disk.join("roboco.db").display()));
    let store = SqlStore::open(options.clone()).await.unwrap();
    created(&store).await;
    let before = picture(&store).await;
    store.close().await;
    let ballast = fill(&disk);
    for _ in 0..2 {
        let error = SqlStore::open(options.clone()).await.expect_err("it was opened");
        assert!(matches!(error, OpenError::Full { .. }), "{error}");
        assert!(error.to_string().contains("free some, then start again"), "{error}");
    }
    fs::remove_file(ballast).unwrap();
    assert_eq!(picture(&SqlStore::open(options).await.unwrap()).await, before);
}
