//! What one commit promises.

use std::sync::Arc;

use roboco_domain::effect::EffectResult;
use roboco_domain::event::Event;
use roboco_domain::id::{InboxNumber, TaskNumber};
use roboco_domain::snapshot::NextNumbers;
use roboco_domain::spawn::{Epoch, Seat, SpawnState};
use roboco_domain::task::{PartState, Stage};
use roboco_store::{CommitRequest, Committed, EndedEffect, IntentState, OpenIntent, Replay, SqlStore, Store, TaskEvents};

use crate::place::Place;
use crate::sample::{
    NOW, agent, change, changed, created, cut_branch, heard, inbox_item, intent_id, is_committed, later, lease, next, note, outcome,
    picture, project, request, spawn, spawn_id, task,
};

/// A request that touches every kind of row.
async fn everything(store: &SqlStore) -> CommitRequest {
    let numbers = store.next_numbers().await.unwrap();
    let task = task(store.company(), numbers.task);
    let project = project(store.company(), "shop");
    let spawn = spawn(&task, 1);
    let item = inbox_item(numbers.inbox, task.id);
    let mut request = request(numbers);
    request.task = Some(task.id);
    request.spawn = Some(spawn.id);
    request.moved = Some((Stage::Backlog, Stage::Ready));
    request.events = vec![
        Event::ProjectAdded { project: Box::new(project.clone()) },
        Event::TaskCreated { task: Box::new(task.clone()) },
        Event::TaskActivated {},
        Event::SpawnIntended { spawn: Box::new(spawn.clone()) },
        Event::InboxOpened { item: item.clone() },
    ];
    request.effects = vec![cut_branch(&task), cut_branch(&task)];
    request.replay = Some(Replay { key: "s:1".into(), digest: "d".into(), answer: "{\"a\":1}".into(), waits_for: Some(intent_id()) });
    request.changes.seat = Some(Seat { agent: spawn.agent, version: 1, epoch: Epoch(1), spawn: Some(spawn.id) });
    request.changes.inbox = vec![item];
    request.changes.project = Some(Arc::new(project));
    request.changes.spawn = Some(spawn);
    request.changes.task = Some(Arc::new(task));
    request
}

pub(crate) async fn every_kind_of_row_comes_back_as_it_was_written(place: &Place) {
    let store = place.open().await;
    let mut listener = store.subscribe();
    let wanted = everything(&store).await;
    assert_eq!(store.commit(wanted.clone()).await.unwrap(), Committed::Yes(5));

    for store in [store, place.open().await] {
        let task = wanted.changes.task.clone().unwrap();
        let project = wanted.changes.project.clone().unwrap();
        let spawn = wanted.changes.spawn.clone().unwrap();
        assert_eq!(store.task(task.id).await.unwrap(), Some(Arc::clone(&task)));
        assert_eq!(store.open_tasks().await.unwrap(), vec![Arc::clone(&task)]);
        assert_eq!(store.project(project.id).await.unwrap(), Some(Arc::clone(&project)));
        assert_eq!(store.project_by_slug("shop").await.unwrap(), Some(Arc::clone(&project)));
        assert_eq!(store.project_by_slug("other").await.unwrap(), None);
        assert_eq!(store.projects().await.unwrap(), vec![project]);
        assert_eq!(store.spawn(spawn.id).await.unwrap(), Some(spawn.clone()));
        assert_eq!(store.spawn_by_number(spawn.number).await.unwrap(), Some(spawn.clone()));
        assert_eq!(store.live_spawns().await.unwrap(), vec![spawn.clone()]);
        assert_eq!(store.spawns_of(task.id).await.unwrap(), vec![spawn.clone()]);
        assert_eq!(store.seat(spawn.agent).await.unwrap(), wanted.changes.seat.clone().unwrap());
        assert_eq!(store.seat(agent(9)).await.unwrap(), Seat::empty(agent(9)));
        assert_eq!(store.open_inbox(Some(task.id)).await.unwrap(), wanted.changes.inbox);
        assert_eq!(store.replay("s:1").await.unwrap(), wanted.replay);
        assert_eq!(store.replay("s:2").await.unwrap(), None);
        let intents: Vec<OpenIntent> = wanted
            .effects
            .iter()
            .map(|it| OpenIntent { intent: it.intent, effect: it.effect.clone(), attempts: 0, not_before: NOW })
            .collect();
        assert_eq!(store.open_intents().await.unwrap(), intents);
        assert_eq!(store.intent(intents[0].intent).await.unwrap(), IntentState::Open);
        assert_eq!(store.intent(intent_id()).await.unwrap(), IntentState::Unknown);
        let numbers = store.next_numbers().await.unwrap();
        assert_eq!((numbers.task, numbers.inbox), (TaskNumber(2), InboxNumber(2)));
        let log = store.events(0, None, 100).await.unwrap();
        assert_eq!(log.iter().map(|row| row.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!(log.iter().map(|row| row.event.clone()).collect::<Vec<_>>(), wanted.events);
        assert!(log.iter().all(|row| (row.at, row.actor, row.correlation) == (NOW, wanted.actor, wanted.correlation)));
        assert!(log.iter().all(|row| (row.task, row.spawn) == (wanted.task, wanted.spawn)));
        store.ping().await.unwrap();
    }
    for n in 1..=5 {
        assert_eq!(heard(&mut listener).await.seq, n);
    }
}

pub(crate) async fn a_row_with_another_version_is_stale_and_nothing_is_written(place: &Place) {
    let store = place.open().await;
    let first = everything(&store).await;
    assert!(is_committed(store.commit(first.clone()).await.unwrap()));
    let mut listener = store.subscribe();
    let before = picture(&store).await;
    let sent = store.statements();
    let rows = &first.changes;

    // Each case touches one row with a version that was seen before, or skips one, beside a row that is current.
    for version in [1, 3] {
        let mut task = (**rows.task.as_ref().unwrap()).clone();
        let mut project = (**rows.project.as_ref().unwrap()).clone();
        let (mut spawn, mut seat, mut item) = (rows.spawn.clone().unwrap(), rows.seat.clone().unwrap(), rows.inbox[0].clone());
        (task.version, project.version, spawn.version, seat.version, item.version) = (version, version, version, version, version);
        let mut cases = Vec::new();
        for _ in 0..5 {
            cases.push(change(&store, next(rows.task.as_ref().unwrap(), |t| t.title = "changed".into())).await);
        }
        cases[0].changes.task = Some(Arc::new(task));
        cases[1].changes.project = Some(Arc::new(project));
        cases[2].changes.spawn = Some(spawn);
        cases[3].changes.seat = Some(seat);
        cases[4].changes.inbox = vec![item];
        for (index, case) in cases.into_iter().enumerate() {
            assert_eq!(store.commit(case).await.unwrap(), Committed::Stale, "case {index} with version {version}");
        }
    }
    assert_eq!(store.statements(), sent, "memory knows that these races are lost");
    assert_eq!(picture(&store).await, before);
    assert!(listener.try_recv().is_err(), "a refused commit was published");

    // The same rows with the right versions are taken.
    let mut good = change(&store, next(rows.task.as_ref().unwrap(), |t| t.title = "changed".into())).await;
    good.changes.seat = rows.seat.clone().map(|seat| Seat { version: 2, ..seat });
    good.changes.inbox = vec![rows.inbox[0].clone()];
    good.changes.inbox[0].version = 2;
    good.changes.inbox[0].decided_at = Some(NOW);
    assert_eq!(store.commit(good).await.unwrap(), Committed::Yes(6));
    assert_eq!(store.open_inbox(None).await.unwrap(), vec![]);
}

pub(crate) async fn numbers_are_checked_only_when_something_is_created(place: &Place) {
    let store = place.open().await;
    let old = store.next_numbers().await.unwrap();
    let first = created(&store).await;

    let mut late = request(old);
    late.changes.task = Some(Arc::new(task(store.company(), old.task)));
    assert_eq!(store.commit(late).await.unwrap(), Committed::Stale);
    let mut item = request(store.next_numbers().await.unwrap());
    item.changes.inbox = vec![inbox_item(InboxNumber(1), first.id)];
    assert!(is_committed(store.commit(item).await.unwrap()));
    let mut late = request(old);
    late.changes.inbox = vec![inbox_item(InboxNumber(1), first.id)];
    let sent = store.statements();
    assert_eq!(store.commit(late).await.unwrap(), Committed::Stale);
    let mut late = request(old);
    late.changes.task = Some(Arc::new(task(store.company(), old.task)));
    assert_eq!(store.commit(late).await.unwrap(), Committed::Stale);
    assert_eq!(store.statements(), sent, "memory knows the numbers");

    // A change of a row that is there needs no number.
    let mut change = change(&store, next(&first, |_| {})).await;
    change.numbers = old;
    assert!(is_committed(store.commit(change).await.unwrap()));
}

pub(crate) async fn an_ended_row_is_checked_by_the_database(place: &Place) {
    let store = place.open().await;
    let first = created(&store).await;
    let done = changed(&store, &first, |t| t.stage = Stage::Done).await;
    assert_eq!(store.open_tasks().await.unwrap(), vec![]);
    assert_eq!(store.task(done.id).await.unwrap(), Some(Arc::clone(&done)));

    let noted = changed(&store, &done, |t| t.title = "noted".into()).await;
    let again = change(&store, next(&done, |t| t.title = "lost".into())).await;
    assert_eq!(store.commit(again).await.unwrap(), Committed::Stale);
    assert_eq!(store.task(done.id).await.unwrap(), Some(noted));
    assert_eq!(store.events(0, None, 100).await.unwrap().len(), 3);

    let live = created(&store).await;
    let mut request = request(store.next_numbers().await.unwrap());
    let intended = spawn(&live, 1);
    request.changes.spawn = Some(intended.clone());
    assert!(is_committed(store.commit(request.clone()).await.unwrap()));
    let mut ended = intended.clone();
    (ended.state, ended.version) = (SpawnState::Ended, 2);
    request.changes.spawn = Some(ended.clone());
    assert!(is_committed(store.commit(request.clone()).await.unwrap()));
    assert_eq!(store.live_spawns().await.unwrap(), vec![]);
    assert_eq!(store.spawn_by_number(ended.number).await.unwrap(), Some(ended.clone()));
    assert_eq!(store.commit(request).await.unwrap(), Committed::Stale);
}

pub(crate) async fn the_move_is_noted_on_the_event_that_moved(place: &Place) {
    let store = place.open().await;
    let task = created(&store).await;
    let mut request = change(&store, next(&task, |t| t.stage = Stage::Working)).await;
    request.events = vec![note("before"), Event::TaskStarted {}, note("after")];
    request.moved = Some((Stage::Ready, Stage::Working));
    assert_eq!(store.commit(request).await.unwrap(), Committed::Yes(4));
    let moves: Vec<_> = store.events(1, None, 10).await.unwrap().iter().map(|row| row.moved).collect();
    assert_eq!(moves, [None, Some((Stage::Ready, Stage::Working)), None]);
}

pub(crate) async fn several_tasks_are_written_together(place: &Place) {
    let store = place.open().await;
    let (whole, part) = (created(&store).await, created(&store).await);
    let mut listener = store.subscribe();
    let numbers = store.next_numbers().await.unwrap();
    let mut third = task(store.company(), numbers.task);
    third.parent = Some(whole.id);
    let third = Arc::new(third);

    let mut request = change(&store, next(&part, |t| t.stage = Stage::Done)).await;
    request.moved = Some((Stage::PmReview, Stage::Done));
    request.events = vec![note("merged"), Event::TaskCompleted {}];
    let ended = Event::PartEnded { part: part.id, state: PartState::Completed, merged: None };
    request.also = vec![
        TaskEvents {
            task: whole.id,
            moved: Some((Stage::Working, Stage::Gate)),
            events: vec![ended, Event::HandedToGate { pm: agent(2), resubmitted: false }],
        },
        TaskEvents { task: third.id, moved: None, events: vec![Event::TaskCreated { task: Box::new((*third).clone()) }] },
    ];
    let handed = next(&whole, |t| t.stage = Stage::Gate);
    request.changes.others = vec![Arc::clone(&third), Arc::clone(&handed)];
    assert_eq!(store.commit(request.clone()).await.unwrap(), Committed::Yes(7));

    let wanted = [
        (3, part.id, None, "note.recorded"),
        (4, part.id, Some((Stage::PmReview, Stage::Done)), "task.completed"),
        (5, whole.id, None, "part.ended"),
        (6, whole.id, Some((Stage::Working, Stage::Gate)), "task.handed_to_gate"),
        (7, third.id, None, "task.created"),
    ];
    for store in [&store, &place.open().await] {
        let log = store.events(2, None, 100).await.unwrap();
        let seen: Vec<_> = log.iter().map(|row| (row.seq, row.task.unwrap(), row.moved, row.event.kind())).collect();
        assert_eq!(seen, wanted);
        assert_eq!(store.events(0, Some(whole.id), 100).await.unwrap().iter().map(|row| row.seq).collect::<Vec<_>>(), [1, 5, 6]);
        assert_eq!(store.open_tasks().await.unwrap(), vec![Arc::clone(&handed), Arc::clone(&third)]);
        assert_eq!(store.task(part.id).await.unwrap(), request.changes.task);
        assert_eq!(store.next_numbers().await.unwrap().task, TaskNumber(4));
    }
    for (seq, task, ..) in wanted {
        let heard = heard(&mut listener).await;
        assert_eq!((heard.seq, heard.task), (seq, Some(task)));
    }
}

pub(crate) async fn one_stale_task_of_several_keeps_the_others_unwritten(place: &Place) {
    let store = place.open().await;
    let (one, other) = (created(&store).await, created(&store).await);
    changed(&store, &other, |t| t.title = "somebody was faster".into()).await;
    let before = picture(&store).await;
    let mut listener = store.subscribe();
    let sent = store.statements();
    let both = |request: CommitRequest| CommitRequest {
        also: vec![TaskEvents { task: other.id, moved: None, events: vec![note("part of it")] }],
        ..request
    };
    let mut request = both(change(&store, next(&one, |_| {})).await);
    request.changes.others = vec![next(&other, |t| t.title = "lost".into())];
    assert_eq!(store.commit(request).await.unwrap(), Committed::Stale);
    assert_eq!(store.statements(), sent, "memory knows that this race is lost");
    assert_eq!(picture(&store).await, before);

    // Of an ended task memory knows nothing: the database finds it out after it has written the other row.
    let other = store.task(other.id).await.unwrap().unwrap();
    let ended = changed(&store, &other, |t| t.stage = Stage::Cancelled).await;
    changed(&store, &ended, |t| t.title = "noted".into()).await;
    while listener.try_recv().is_ok() {}
    let before = picture(&store).await;
    let mut request = both(change(&store, next(&one, |_| {})).await);
    request.changes.others = vec![next(&ended, |t| t.title = "lost".into())];
    assert_eq!(store.commit(request).await.unwrap(), Committed::Stale);
    assert_eq!(picture(&store).await, before);
    assert!(listener.try_recv().is_err(), "a refused commit was published");
    changed(&store, &one, |t| t.title = "still the next version".into()).await;
}

pub(crate) async fn a_part_gets_the_number_it_was_decided_with(place: &Place) {
    let store = place.open().await;
    let whole = created(&store).await;
    let old = store.next_numbers().await.unwrap();
    created(&store).await;

    let delegated = |numbers: NextNumbers, request: CommitRequest| {
        let mut request = CommitRequest { numbers, ..request };
        request.changes.others = vec![Arc::new(task(store.company(), numbers.task))];
        request
    };
    let late = delegated(old, change(&store, next(&whole, |_| {})).await);
    assert_eq!(store.commit(late).await.unwrap(), Committed::Stale);
    let now = store.next_numbers().await.unwrap();
    let good = delegated(now, change(&store, next(&whole, |_| {})).await);
    assert!(is_committed(store.commit(good).await.unwrap()));
    for store in [&store, &place.open().await] {
        assert_eq!(store.next_numbers().await.unwrap().task, TaskNumber(now.task.0 + 1));
        assert_eq!(store.open_tasks().await.unwrap().iter().map(|t| t.number.0).collect::<Vec<_>>(), [1, 2, 3]);
    }
}

pub(crate) async fn a_settled_effect_keeps_its_first_result(place: &Place) {
    let store = place.open().await;
    let task = created(&store).await;
    let wanted = cut_branch(&task);
    let mut request = change(&store, next(&task, |_| {})).await;
    request.effects = vec![wanted.clone()];
    assert!(is_committed(store.commit(request).await.unwrap()));

    store.retry_intent(wanted.intent, 3, later(60_000), "git said \0no").await.unwrap();
    let open = store.open_intents().await.unwrap();
    assert_eq!((open.len(), open[0].attempts, open[0].not_before), (1, 3, later(60_000)));

    for result in [outcome(), EffectResult::Finished] {
        let current = store.task(task.id).await.unwrap().unwrap();
        let mut request = change(&store, next(&current, |_| {})).await;
        request.settles = Some((wanted.intent, result));
        assert!(is_committed(store.commit(request).await.unwrap()));
        assert_eq!(store.intent(wanted.intent).await.unwrap(), IntentState::Settled(Box::new(wanted.effect.clone()), outcome()));
    }
    let ended = EndedEffect { effect: wanted.effect.clone(), result: outcome(), at: NOW };
    assert_eq!(store.ended_effects(task.id, NOW, 9).await.unwrap(), vec![ended]);
    assert_eq!(store.ended_effects(task.id, later(1), 9).await.unwrap(), vec![], "it ended before");
    assert_eq!(store.ended_effects(created(&store).await.id, NOW, 9).await.unwrap(), vec![], "it is of another task");
    assert_eq!(store.open_intents().await.unwrap(), vec![]);
    store.retry_intent(wanted.intent, 4, later(90_000), "late").await.unwrap();
    assert_eq!(store.intent(wanted.intent).await.unwrap(), IntentState::Settled(Box::new(wanted.effect.clone()), outcome()));
}

pub(crate) async fn a_key_answers_once(place: &Place) {
    let store = place.open().await;
    let task = created(&store).await;
    let answer = |text: &str| Some(Replay { key: "token:k".into(), digest: "d".into(), answer: text.into(), waits_for: None });
    let mut first = change(&store, next(&task, |_| {})).await;
    first.replay = answer("1");
    assert!(is_committed(store.commit(first).await.unwrap()));

    let current = store.task(task.id).await.unwrap().unwrap();
    let mut second = change(&store, next(&current, |_| {})).await;
    second.replay = answer("2");
    assert_eq!(store.commit(second).await.unwrap(), Committed::Stale);
    assert_eq!(store.replay("token:k").await.unwrap(), answer("1"));
    assert_eq!(store.task(task.id).await.unwrap(), Some(current));
    assert_eq!(store.events(0, None, 100).await.unwrap().len(), 2);
}

pub(crate) async fn a_heartbeat_is_kept_by_the_holder_alone(place: &Place) {
    let store = place.open().await;
    let task = created(&store).await;
    let holder = spawn_id();
    let held = changed(&store, &task, |t| t.ownership.lease = Some(lease(holder, later(1000)))).await;

    let cases = [(spawn_id(), later(9000), later(1000)), (holder, later(500), later(1000)), (holder, later(2000), later(2000))];
    for (spawn, until, expected) in cases {
        store.renew_lease(task.id, spawn, until).await.unwrap();
        for store in [&store, &place.open().await] {
            let seen = store.task(task.id).await.unwrap().unwrap();
            assert_eq!(seen.ownership.lease.as_ref().unwrap().expires_at, expected);
            assert_eq!(seen.version, held.version);
        }
    }
    assert_eq!(store.events(0, None, 100).await.unwrap().len(), 2, "a heartbeat is no event");

    let free = changed(&store, &store.task(task.id).await.unwrap().unwrap(), |t| t.ownership.lease = None).await;
    store.renew_lease(task.id, holder, later(9000)).await.unwrap();
    assert_eq!(store.task(task.id).await.unwrap(), Some(Arc::clone(&free)));
    assert_eq!(place.open().await.task(task.id).await.unwrap(), Some(free));
}

pub(crate) async fn a_decision_does_not_undo_a_heartbeat(place: &Place) {
    let store = place.open().await;
    let task = created(&store).await;
    let holder = spawn_id();
    let held = changed(&store, &task, |t| t.ownership.lease = Some(lease(holder, later(1000)))).await;
    let decided = next(&held, |t| t.title = "decided before the heartbeat".into());
    store.renew_lease(task.id, holder, later(5000)).await.unwrap();
    assert!(is_committed(store.commit(change(&store, decided).await).await.unwrap()));
    for store in [&store, &place.open().await] {
        let seen = store.task(task.id).await.unwrap().unwrap();
        assert_eq!(seen.title, "decided before the heartbeat");
        assert_eq!(seen.ownership.lease.as_ref().unwrap().expires_at, later(5000));
    }
    // Another right is another matter.
    let other = spawn_id();
    let seen = store.task(task.id).await.unwrap().unwrap();
    changed(&store, &seen, |t| t.ownership.lease = Some(lease(other, later(2000)))).await;
    let seen = place.open().await.task(task.id).await.unwrap().unwrap();
    assert_eq!(seen.ownership.lease.as_ref().unwrap().expires_at, later(2000));
}

pub(crate) async fn a_typical_commit_is_a_handful_of_statements(place: &Place) {
    let store = place.open().await;
    let task = created(&store).await;
    let mut claim = change(&store, next(&task, |_| {})).await;
    claim.changes.seat = Some(Seat { agent: agent(1), version: 1, epoch: Epoch(1), spawn: None });
    claim.events = vec![note("1"), note("2"), note("3")];
    claim.effects = vec![cut_branch(&task)];
    let before = store.statements();
    assert!(is_committed(store.commit(claim).await.unwrap()));
    assert_eq!(store.statements() - before, 5, "task, seat, events, effects, counter");

    let before = store.statements();
    let stale = change(&store, next(&task, |_| {})).await;
    assert_eq!(store.commit(stale).await.unwrap(), Committed::Stale);
    assert_eq!(store.statements() - before, 0, "memory knows that the race is lost");
}
