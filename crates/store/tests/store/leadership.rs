//! Which process may write.

use std::time::Duration;

use roboco_store::{Committed, Leadership, Store};
use tokio::time::{Instant, sleep};

use crate::place::Place;
use crate::sample::{NOW, change, changed, created, heard, is_committed, later, next, picture};

const TTL: Duration = Duration::from_secs(30);

pub(crate) async fn a_second_process_waits_until_the_right_ends(place: &Place) {
    let (a, b) = (place.open().await, place.open().await);
    assert_eq!(a.company(), b.company());
    assert_eq!(a.lead("a", NOW, TTL).await.unwrap(), Leadership::Leads(1));
    assert_eq!(b.lead("b", later(29_999), TTL).await.unwrap(), Leadership::HeldBy("a".into(), later(30_000)));
    assert_eq!(a.lead("a", later(20_000), TTL).await.unwrap(), Leadership::Leads(1), "renewing keeps the epoch");
    assert_eq!(b.lead("b", later(40_000), TTL).await.unwrap(), Leadership::HeldBy("a".into(), later(50_000)));
    assert_eq!(b.lead("b", later(50_000), TTL).await.unwrap(), Leadership::Leads(2));
    assert_eq!(a.lead("a", later(50_001), TTL).await.unwrap(), Leadership::HeldBy("b".into(), later(80_000)));
    a.resign("a").await.unwrap();
    assert_eq!(a.lead("a", later(50_002), TTL).await.unwrap(), Leadership::HeldBy("b".into(), later(80_000)), "only the holder resigns");
    b.resign("b").await.unwrap();
    assert_eq!(a.lead("a", later(50_003), TTL).await.unwrap(), Leadership::Leads(3));
}

pub(crate) async fn a_process_that_lost_the_right_writes_nothing_more(place: &Place) {
    let (a, b) = (place.open().await, place.open().await);
    assert_eq!(a.lead("a", NOW, TTL).await.unwrap(), Leadership::Leads(1));
    let task = created(&a).await;
    assert_eq!(b.lead("b", later(31_000), TTL).await.unwrap(), Leadership::Leads(2));
    assert_eq!(b.open_tasks().await.unwrap(), vec![task.clone()], "a new leader has seen everything");

    // What makes no event is refused like everything else.
    let mut quiet = change(&a, next(&task, |t| t.title = "too late".into())).await;
    quiet.events.clear();
    assert!(a.commit(quiet).await.is_err_and(|fault| fault.message.contains("b leads")));
    let refused = a.commit(change(&a, next(&task, |t| t.title = "too late".into())).await).await.unwrap_err();
    assert!(!refused.retryable && refused.message.contains("b leads"), "{refused}");
    let mine = changed(&b, &task, |t| t.title = "mine".into()).await;
    assert_eq!(b.task(task.id).await.unwrap(), Some(mine.clone()));
    assert_eq!(place.open().await.task(task.id).await.unwrap(), Some(mine));
}

pub(crate) async fn another_writer_is_noticed_and_its_work_is_seen(place: &Place) {
    let (a, b) = (place.open().await, place.open().await);
    let mut listener = b.subscribe();
    let task = created(&a).await;
    let current = changed(&a, &task, |t| t.title = "by a".into()).await;
    let fresh = crate::sample::task(b.company(), b.next_numbers().await.unwrap().task);
    let late = change(&b, std::sync::Arc::new(fresh)).await;
    assert_eq!(b.commit(late).await.unwrap(), Committed::Stale);

    assert_eq!(b.task(task.id).await.unwrap(), Some(current.clone()));
    assert_eq!([heard(&mut listener).await.seq, heard(&mut listener).await.seq], [1, 2]);
    assert!(is_committed(b.commit(change(&b, next(&current, |_| {})).await).await.unwrap()));
    assert_eq!(heard(&mut listener).await.seq, 3);
    assert_eq!(a.commit(change(&a, next(&current, |_| {})).await).await.unwrap(), Committed::Stale);
    assert_eq!(picture(&a).await, picture(&b).await);
}

#[tokio::test]
async fn a_server_that_cuts_connections_is_found_again() {
    let place = Place::postgres().await;
    let store = place.open().await;
    let mut task = created(&store).await;
    for round in 0..3 {
        // Every connection is cut, the writer's and the readers'.
        place
            .execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
            )
            .await;
        let wanted = next(&task, |t| t.title = format!("round {round}"));
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            match store.commit(change(&store, wanted.clone()).await).await {
                Ok(Committed::Yes(_)) => break,
                Ok(Committed::Stale) => panic!("nobody else writes"),
                Err(fault) => assert!(fault.retryable, "{fault}"),
            }
            assert!(Instant::now() < deadline, "the store did not recover");
            sleep(Duration::from_millis(5)).await;
        }
        task = wanted;
        assert_eq!(store.task(task.id).await.unwrap(), Some(task.clone()));
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while let Err(fault) = store.ping().await {
        assert!(fault.retryable && Instant::now() < deadline, "{fault}");
    }
    assert_eq!(picture(&store).await, picture(&place.open().await).await);
    place.remove().await;
}
