//! Pausing: the turn of a run may end, for a minute.

use std::path::PathBuf;

use roboco_domain::id::{TaskId, TaskNumber};
use roboco_domain::outcome::Outcome;
use roboco_domain::plan::PAUSE_GRACE;
use roboco_domain::verb::Verb;

use crate::world::{World, until};

/// A company in which an author is in the middle of a turn, and the place it works at.
async fn in_the_middle_of_a_turn() -> (World, TaskId, PathBuf) {
    let mut world = World::new().await;
    world.start().await;
    let task = world.create_task("Linger until told").await;
    until("its work has begun", || world.kinds(task), |kinds| kinds.iter().any(|k| k == "task.started")).await;
    let tree = world.tree(task).await;
    until("it waits in its turn", || async { tree.join("here").exists() }, |here| here).await;
    (world, task, tree)
}

fn paused() -> Option<Outcome> {
    Some(Outcome::Stopped { reason: "its task was paused".into() })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_run_ends_its_turn_and_the_next_goes_on() {
    let (mut world, task, tree) = in_the_middle_of_a_turn().await;
    world.decide(Verb::Pause, task).await;
    world.planned_anew(TaskNumber(2)).await;
    let run = &world.runs(task).await[0];
    assert_eq!((run.outcome.as_ref(), run.closed_by), (None, None), "it is still at it");

    std::fs::write(tree.join("go"), "").unwrap();
    until("it has ended", || world.runs(task), |runs| runs[0].outcome.is_some()).await;
    assert_eq!(world.runs(task).await[0].outcome, paused());
    assert!(tree.join("after.txt").exists(), "the turn went on");
    let kinds = world.kinds(task).await;
    for never in ["spawn.revoked", "commit.recorded"] {
        assert!(!kinds.iter().any(|k| k == never), "{never} in {kinds:?}");
    }
    assert_eq!(world.task(task).await.meter.strikes, 0, "a pause is nobody's fault");

    world.decide(Verb::Resume, task).await;
    until("what was left is committed", || world.kinds(task), |kinds| kinds.iter().any(|k| k == "commit.recorded")).await;
    assert!(world.runs(task).await.len() > 1, "by another run");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_does_not_end_is_stopped_after_a_minute() {
    let (mut world, task, tree) = in_the_middle_of_a_turn().await;
    world.decide(Verb::Pause, task).await;
    world.planned_anew(TaskNumber(2)).await;
    world.put_forward(PAUSE_GRACE / 2);
    world.planned_anew(TaskNumber(3)).await;
    assert_eq!(world.runs(task).await[0].outcome, None, "half a minute is not a minute");

    world.put_forward(PAUSE_GRACE / 2);
    until("it has ended", || world.runs(task), |runs| runs[0].outcome.is_some()).await;
    assert_eq!(world.runs(task).await[0].outcome, paused());
    assert!(!tree.join("after.txt").exists(), "the turn was cut off");
    assert!(world.kinds(task).await.iter().any(|k| k == "spawn.revoked"));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_that_must_be_now_stops_the_run_in_its_turn() {
    let (mut world, task, tree) = in_the_middle_of_a_turn().await;
    world.say(Verb::Pause, serde_json::json!({ "task_id": task.to_string(), "now": true })).await;
    until("it has ended", || world.runs(task), |runs| runs[0].outcome.is_some()).await;
    assert_eq!(world.runs(task).await[0].outcome, paused());
    assert!(!tree.join("after.txt").exists() && tree.join("here").exists(), "the turn was cut off and its work is kept");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_that_is_lifted_in_time_ends_no_run() {
    let (mut world, task, tree) = in_the_middle_of_a_turn().await;
    world.decide(Verb::Pause, task).await;
    world.planned_anew(TaskNumber(2)).await;
    world.decide(Verb::Resume, task).await;
    world.planned_anew(TaskNumber(3)).await;

    world.put_forward(PAUSE_GRACE);
    std::fs::write(tree.join("go"), "").unwrap();
    // It takes the task up again. Its play is over then and closes nothing: it ends like any run that does not do its part.
    until("it has ended", || world.runs(task), |runs| runs[0].outcome.is_some()).await;
    assert_eq!(world.runs(task).await[0].outcome, Some(Outcome::Unproductive));
    let kinds = world.kinds(task).await;
    assert!(kinds.iter().any(|k| k == "commit.recorded"), "it was heard again: {kinds:?}");
    assert!(!kinds.iter().any(|k| k == "spawn.revoked"), "{kinds:?}");
    world.stop().await;
}
