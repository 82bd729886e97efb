//! Rows beside decisions: transcripts, refused calls, tokens, and how long they stay.

use std::time::Duration;

use roboco_domain::limits;
use roboco_domain::time::Timestamp;
use roboco_store::{Attempt, Block, IntentState, Replay, SqlStore, Store};
use tokio::time::{Instant, sleep};

use crate::place::Place;
use crate::sample::{NOW, agent, change, created, cut_branch, is_committed, later, next, outcome, request, spawn_id};

fn block(n: u64, text: &str) -> Block {
    Block { n, at: NOW, kind: "text".into(), text: text.into() }
}

fn attempt(at: Timestamp, message: impl Into<String>) -> Attempt {
    Attempt {
        at,
        spawn: Some(spawn_id()),
        agent: agent(1),
        verb: "commit".into(),
        task: None,
        kind: "invalid_state".into(),
        message: message.into(),
    }
}

pub(crate) async fn transcripts_are_cut_and_capped(place: &Place) {
    let store = place.open().await;
    let (spawn, other) = (spawn_id(), spawn_id());
    let long = "\u{e9}".repeat(limits::TRANSCRIPT_BLOCK_BYTES);
    store.append_transcript(spawn, vec![block(1, "a\0b"), block(2, &long)]).await.unwrap();
    store.append_transcript(other, vec![block(1, "other")]).await.unwrap();
    let kept = store.transcript(spawn, 0, 10).await.unwrap();
    assert_eq!(kept.iter().map(|b| b.n).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(kept[0].text, "a\u{fffd}b");
    assert_eq!(kept[1].text, "\u{e9}".repeat(limits::TRANSCRIPT_BLOCK_BYTES / 2));
    assert_eq!(store.transcript(spawn, 1, 10).await.unwrap().len(), 1);
    assert_eq!(store.transcript(spawn, 0, 1).await.unwrap(), kept[..1]);

    // A spawn that has talked for long: what is stored counts, whoever stored it.
    let fill = format!(
        "UPDATE transcript SET bytes = {} WHERE spawn_id = '{spawn}' AND n = 2",
        limits::TRANSCRIPT_BYTES - kept[0].text.len() as u64 - 4
    );
    place.execute(&fill).await;
    store.close().await;
    let store = place.open().await;
    store.append_transcript(spawn, vec![block(3, "1234"), block(4, "5")]).await.unwrap();
    store.append_transcript(spawn, vec![block(5, "6")]).await.unwrap();
    assert_eq!(store.transcript(spawn, 2, 10).await.unwrap(), vec![block(3, "1234")]);
    store.append_transcript(other, vec![block(2, "still")]).await.unwrap();
    assert_eq!(store.transcript(other, 1, 10).await.unwrap(), vec![block(2, "still")]);

    let many = spawn_id();
    let blocks = (1..=limits::TRANSCRIPT_BLOCKS + 10).map(|n| block(n, "")).collect();
    store.append_transcript(many, blocks).await.unwrap();
    let last = store.transcript(many, limits::TRANSCRIPT_BLOCKS - 1, 100).await.unwrap();
    assert_eq!(last, vec![block(limits::TRANSCRIPT_BLOCKS, "")]);
}

pub(crate) async fn a_transcript_that_is_sent_twice_is_kept_once(place: &Place) {
    let store = place.open().await;
    let spawn = spawn_id();
    store.append_transcript(spawn, vec![]).await.unwrap();
    store.append_transcript(spawn, vec![block(1, "a"), block(2, "b")]).await.unwrap();
    store.append_transcript(spawn, vec![block(2, "other"), block(3, "c")]).await.unwrap();
    assert_eq!(store.transcript(spawn, 0, 10).await.unwrap(), vec![block(1, "a"), block(2, "b"), block(3, "c")]);
}

async fn until_kept(store: &SqlStore, count: usize) -> Vec<Attempt> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let kept = store.attempts_since(NOW).await.unwrap();
        if kept.len() >= count {
            return kept;
        }
        assert!(Instant::now() < deadline, "{} of {count} were kept", kept.len());
        sleep(Duration::from_millis(2)).await;
    }
}

pub(crate) async fn refused_calls_arrive_in_batches(place: &Place) {
    let store = place.open().await;
    let before = store.statements();
    let sent: Vec<_> = (0..600).map(|n| attempt(later(n), format!("no {n} \0"))).collect();
    sent.iter().cloned().for_each(|attempt| store.record_attempt(attempt));
    let reads = store.statements();
    let kept = until_kept(&store, 600).await;
    assert_eq!(reads, before, "recording never waits for the database");
    assert_eq!(kept.len(), 600);
    assert_eq!(kept[7], Attempt { message: "no 7 \u{fffd}".into(), ..sent[7].clone() });
    assert_eq!(store.attempts_since(later(590)).await.unwrap().len(), 10);
    // One alone comes too, after a moment.
    store.record_attempt(attempt(later(9999), "last"));
    assert_eq!(until_kept(&store, 601).await.last().unwrap().message, "last");
}

pub(crate) async fn refused_calls_beyond_the_queue_are_dropped(place: &Place) {
    let store = place.open().await;
    // Nothing else runs until this test waits, so the queue cannot be emptied meanwhile.
    (0..6000).for_each(|n| store.record_attempt(attempt(later(n), "no")));
    store.close().await;
    let kept = place.open().await.attempts_since(NOW).await.unwrap();
    assert_eq!(kept.len(), 4096);
    assert_eq!(kept.last().unwrap().at, later(4095));
}

pub(crate) async fn old_records_are_removed_and_young_ones_stay(place: &Place) {
    let store = place.open().await;
    let mut task = created(&store).await;
    let open = cut_branch(&task);
    let (old, young) = (cut_branch(&task), cut_branch(&task));
    let mut wanted = change(&store, next(&task, |_| {})).await;
    wanted.effects = vec![open.clone(), old.clone(), young.clone()];
    task = wanted.changes.task.clone().unwrap();
    assert!(is_committed(store.commit(wanted).await.unwrap()));
    let spawn = spawn_id();
    let now = NOW.after(limits::TRANSCRIPT_KEEP * 2);
    let ages = |keep: Duration| [now.millis() - i64::try_from(keep.as_millis()).unwrap() - 1, now.millis() - 1].map(Timestamp::from_millis);

    for ((intent, at), key) in [old.intent, young.intent].into_iter().zip(ages(limits::INTENT_KEEP)).zip(["old", "young"]) {
        let mut settle = change(&store, next(&task, |_| {})).await;
        task = settle.changes.task.clone().unwrap();
        settle.at = at;
        settle.settles = Some((intent, outcome()));
        assert!(is_committed(store.commit(settle).await.unwrap()));
        let mut answer = request(store.next_numbers().await.unwrap());
        answer.at = ages(limits::IDEMPOTENCY_KEEP)[usize::from(key == "young")];
        answer.replay = Some(Replay { key: key.into(), digest: "d".into(), answer: "{}".into(), waits_for: None });
        assert!(is_committed(store.commit(answer).await.unwrap()));
    }
    for (n, at) in (1..).zip(ages(limits::TRANSCRIPT_KEEP)) {
        store.append_transcript(spawn, vec![Block { at, ..block(n, "t") }]).await.unwrap();
    }
    for at in ages(limits::ATTEMPT_KEEP) {
        store.record_attempt(attempt(at, "no"));
    }
    until_kept(&store, 2).await;

    store.prune(now).await.unwrap();
    assert_eq!(store.intent(open.intent).await.unwrap(), IntentState::Open);
    assert_eq!(store.intent(old.intent).await.unwrap(), IntentState::Unknown);
    assert_eq!(store.intent(young.intent).await.unwrap(), IntentState::Settled(Box::new(young.effect.clone()), outcome()));
    assert_eq!(store.replay("old").await.unwrap(), None);
    assert!(store.replay("young").await.unwrap().is_some());
    assert_eq!(store.transcript(spawn, 0, 10).await.unwrap().iter().map(|b| b.n).collect::<Vec<_>>(), [2]);
    assert_eq!(store.attempts_since(NOW).await.unwrap().len(), 1);
    assert_eq!(store.events(0, None, 100).await.unwrap().len(), 4, "the log is kept for ever");
}

pub(crate) async fn a_token_is_found_by_its_digest_and_replaced_by_its_name(place: &Place) {
    let store = place.open().await;
    store.put_token("ceo", agent(0), "digest-1", NOW).await.unwrap();
    store.put_token("laptop", agent(0), "digest-2", NOW).await.unwrap();
    store.put_token("ceo", agent(1), "digest-3", later(1)).await.unwrap();
    for (digest, expected) in [("digest-1", None), ("digest-2", Some(agent(0))), ("digest-3", Some(agent(1))), ("", None)] {
        assert_eq!(place.open().await.token(digest).await.unwrap(), expected, "{digest}");
    }
}
