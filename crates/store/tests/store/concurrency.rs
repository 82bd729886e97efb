//! Many callers at once.

use std::sync::Arc;

use roboco_store::{Attempt, Block, Committed, Store};
use tokio::task::JoinSet;

use crate::place::Place;
use crate::sample::{NOW, agent, change, changed, created, cut_branch, heard, is_committed, next, note, picture, request, spawn_id, task};

pub(crate) async fn creators_never_share_a_number(place: &Place) {
    let store = Arc::new(place.open().await);
    let mut creators = JoinSet::new();
    for _ in 0..8 {
        let store = Arc::clone(&store);
        creators.spawn(async move {
            let mut made = 0;
            while made < 5 {
                let numbers = store.next_numbers().await.unwrap();
                let mut request = request(numbers);
                request.changes.task = Some(Arc::new(task(store.company(), numbers.task)));
                request.events = vec![note("made")];
                made += u32::from(is_committed(store.commit(request).await.unwrap()));
            }
        });
    }
    creators.join_all().await;
    let numbers: Vec<u64> = store.open_tasks().await.unwrap().iter().map(|task| task.number.0).collect();
    assert_eq!(numbers, (1..=40).collect::<Vec<_>>());
    assert_eq!(place.open().await.next_numbers().await.unwrap().task.0, 41);
}

pub(crate) async fn many_writers_leave_no_gap_and_listeners_see_the_order(place: &Place) {
    const WRITERS: usize = 8;
    const COMMITS: usize = 50;
    let store = Arc::new(place.open().await);
    let mut tasks = Vec::new();
    for _ in 0..WRITERS {
        tasks.push(created(&*store).await);
    }
    let mut listener = store.subscribe();
    let before = store.statements();
    let mut writers = JoinSet::new();
    for (writer, mut task) in tasks.into_iter().enumerate() {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            let mut last = 0;
            for n in 0..COMMITS {
                let mut request = change(&*store, next(&task, |_| {})).await;
                request.events = (0..=n % 3).map(|i| note(format!("{writer}/{n}/{i}"))).collect();
                task = request.changes.task.clone().unwrap();
                let Committed::Yes(seq) = store.commit(request).await.unwrap() else { panic!("nobody else writes this task") };
                assert!(seq > last, "a later commit got an earlier number");
                last = seq;
            }
        });
    }
    writers.join_all().await;
    let log = store.events(WRITERS as u64, None, 10_000).await.unwrap();
    let expected = WRITERS * (0..COMMITS).map(|n| n % 3 + 1).sum::<usize>();
    assert_eq!(log.len(), expected);
    assert!(log.iter().zip(WRITERS as u64 + 1..).all(|(row, seq)| row.seq == seq), "the log has a gap");
    for row in &log {
        assert_eq!(*heard(&mut listener).await, *row);
    }
    assert!(listener.try_recv().is_err());
    let statements = store.statements() - before;
    assert!(statements <= (3 * WRITERS * COMMITS) as u64 + 1, "{statements} statements");
    assert_eq!(picture(&*store).await, picture(&place.open().await).await);
}

pub(crate) async fn only_the_guilty_request_of_a_group_fails(place: &Place) {
    let store = place.open().await;
    let (a, b, c) = (created(&store).await, created(&store).await, created(&store).await);
    let effect = cut_branch(&a);
    let mut first = change(&store, next(&a, |_| {})).await;
    first.effects = vec![effect.clone()];
    // The key of an effect that is taken is a mistake of the caller.
    let mut guilty = change(&store, next(&b, |_| {})).await;
    guilty.effects = vec![effect];
    let third = change(&store, next(&c, |_| {})).await;
    let (first, guilty, third) = tokio::join!(store.commit(first), store.commit(guilty), store.commit(third));
    assert!(is_committed(first.unwrap()) && is_committed(third.unwrap()));
    assert!(!guilty.unwrap_err().retryable);
    assert_eq!(store.task(b.id).await.unwrap(), Some(b));
    assert_eq!(store.events(0, None, 100).await.unwrap().len(), 5);
    assert_eq!(picture(&store).await, picture(&place.open().await).await);
}

pub(crate) async fn a_dropped_caller_leaves_nothing_half_done(place: &Place) {
    let store = place.open().await;
    let mut listener = store.subscribe();
    let mut task = created(&store).await;
    for turns in 0..40 {
        let request = change(&store, next(&task, |_| {})).await;
        let abandoned = store.commit(request);
        // The caller goes away after a number of turns of the scheduler, each time at another point of the commit.
        tokio::select! {
            biased;
            committed = abandoned => assert!(is_committed(committed.unwrap())),
            () = turn(turns) => {}
        }
        // Whether it was written or not, the next one is not hindered.
        let other = created(&store).await;
        task = store.task(task.id).await.unwrap().unwrap();
        assert_eq!(store.task(other.id).await.unwrap(), Some(other));
    }
    let log = store.events(0, None, 1000).await.unwrap();
    assert!(log.iter().zip(1..).all(|(row, seq)| row.seq == seq), "the log has a gap");
    for row in &log {
        assert_eq!(*heard(&mut listener).await, *row);
    }
    assert_eq!(picture(&store).await, picture(&place.open().await).await);
}

async fn turn(times: u32) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}

pub(crate) async fn reopening_gives_the_same_state(place: &Place) {
    let store = place.open().await;
    let company = store.company();
    for n in 0..5 {
        let task = created(&store).await;
        changed(&store, &task, |t| t.stage = if n % 2 == 0 { roboco_domain::task::Stage::Cancelled } else { t.stage }).await;
    }
    let spawn = spawn_id();
    store.append_transcript(spawn, vec![Block { n: 1, at: NOW, kind: "text".into(), text: "hello".into() }]).await.unwrap();
    store.record_attempt(Attempt {
        at: NOW,
        spawn: Some(spawn),
        agent: agent(1),
        verb: "commit".into(),
        task: None,
        kind: "invalid_state".into(),
        message: "no".into(),
    });
    let before = picture(&store).await;
    store.close().await;
    let again = place.open().await;
    assert_eq!(again.company(), company);
    assert_eq!(picture(&again).await, before);
    assert_eq!(again.transcript(spawn, 0, 10).await.unwrap().len(), 1);
    assert_eq!(again.attempts_since(NOW).await.unwrap().len(), 1, "closing writes what waits");
}
