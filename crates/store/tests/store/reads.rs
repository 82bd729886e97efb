//! What can be asked.

use std::sync::Arc;

use roboco_domain::id::{ProjectId, TaskNumber, TaskRef};
use roboco_domain::task::Stage;
use roboco_store::{Resolved, Store, TaskFilter};
use uuid::Uuid;

use crate::place::Place;
use crate::sample::{changed, created, is_committed, request, task};

pub(crate) async fn references_find_open_and_ended_tasks(place: &Place) {
    let store = place.open().await;
    let mut made = Vec::new();
    // Two that share their first twelve digits, one apart; the last one has ended.
    for id in ["0193f5a0-1111-7222-8333-444455556666", "0193f5a0-1111-7222-9333-444455556666", "0193f5a1-1111-7222-8333-444455556666"] {
        let numbers = store.next_numbers().await.unwrap();
        let mut task = task(store.company(), numbers.task);
        task.id = id.parse().unwrap();
        let mut request = request(numbers);
        request.changes.task = Some(Arc::new(task.clone()));
        assert!(is_committed(store.commit(request).await.unwrap()));
        made.push(task);
    }
    changed(&store, &made[2], |t| t.stage = Stage::Done).await;

    let cases = [
        ("T-1", Resolved::One(made[0].id)),
        ("t-3", Resolved::One(made[2].id)),
        ("T-4", Resolved::None),
        ("0193f5a0-1111-7222-9333-444455556666", Resolved::One(made[1].id)),
        ("0193F5A1-1111-7222-8333-444455556666", Resolved::One(made[2].id)),
        ("0193f5a2-1111-7222-8333-444455556666", Resolved::None),
        ("0193f5a0", Resolved::Many),
        ("0193f5a011117222", Resolved::Many),
        ("0193f5a0111172228", Resolved::One(made[0].id)),
        ("0193f5a0-1111-7222-9", Resolved::One(made[1].id)),
        ("0193f5a1", Resolved::One(made[2].id)),
        ("0193f5a11111722283334444555566", Resolved::One(made[2].id)),
        ("ffffffff", Resolved::None),
    ];
    for (text, expected) in cases {
        let reference: TaskRef = text.parse().unwrap();
        assert_eq!(store.resolve(&reference).await.unwrap(), expected, "{text}");
    }
}

pub(crate) async fn lists_are_filtered_and_paged(place: &Place) {
    let store = place.open().await;
    let other = ProjectId::new(Uuid::from_u128(8));
    for n in 1..=6 {
        let task = created(&store).await;
        changed(&store, &task, |t| {
            t.project = if n == 4 { other } else { t.project };
            t.stage = if n % 2 == 0 { Stage::Done } else { Stage::Ready };
        })
        .await;
    }
    let filter = |open, project, before, limit| TaskFilter { open, project, before, limit };
    let cases: [(TaskFilter, &[u64]); 7] = [
        (TaskFilter::default(), &[6, 5, 4, 3, 2, 1]),
        (filter(Some(true), None, None, 100), &[5, 3, 1]),
        (filter(Some(false), None, None, 100), &[6, 4, 2]),
        (filter(None, Some(other), None, 100), &[4]),
        (filter(None, None, Some(5), 2), &[4, 3]),
        (filter(Some(true), Some(other), None, 9), &[]),
        (filter(Some(false), None, Some(4), 1), &[2]),
    ];
    for (filter, expected) in cases {
        let found: Vec<u64> = store.tasks(&filter).await.unwrap().iter().map(|task| task.number.0).collect();
        assert_eq!(found, expected, "{filter:?}");
    }
    let open: Vec<_> = store.open_tasks().await.unwrap().iter().map(|task| task.number).collect();
    assert_eq!(open, [TaskNumber(1), TaskNumber(3), TaskNumber(5)]);
}

pub(crate) async fn events_are_read_by_number_and_by_task(place: &Place) {
    let store = place.open().await;
    let (a, b) = (created(&store).await, created(&store).await);
    changed(&store, &a, |_| {}).await;
    changed(&store, &b, |_| {}).await;
    for (after, task, limit, expected) in [
        (0, None, 100, &[1, 2, 3, 4][..]),
        (2, None, 100, &[3, 4]),
        (1, None, 2, &[2, 3]),
        (0, Some(a.id), 100, &[1, 3]),
        (4, None, 5, &[]),
    ] {
        let found: Vec<u64> = store.events(after, task, limit).await.unwrap().iter().map(|row| row.seq).collect();
        assert_eq!(found, expected, "after {after}");
    }
}

pub(crate) async fn memory_answers_without_a_statement(place: &Place) {
    let store = place.open().await;
    let task = created(&store).await;
    let before = store.statements();
    store.task(task.id).await.unwrap();
    store.resolve(&TaskRef::Number(task.number)).await.unwrap();
    store.resolve(&TaskRef::Id(task.id)).await.unwrap();
    store.open_tasks().await.unwrap();
    store.project(task.project).await.unwrap();
    store.project_by_slug("shop").await.unwrap();
    store.projects().await.unwrap();
    store.seat(task.created_by).await.unwrap();
    store.live_spawns().await.unwrap();
    store.open_inbox(Some(task.id)).await.unwrap();
    store.next_numbers().await.unwrap();
    assert_eq!(store.statements() - before, 0);
    store.events(0, None, 1).await.unwrap();
    assert_eq!(store.statements() - before, 1);
}
