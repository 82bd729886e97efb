//! A leaf from its creation to its merge: the real store, real git, real sandboxes, scripted agents over the real MCP endpoint.

#![expect(clippy::unwrap_used, reason = "the lint does not know that the helpers of tests are tests too")]

mod pause;
mod world;

use std::time::Duration;

use roboco_domain::id::TaskNumber;
use roboco_domain::outcome::Outcome;
use roboco_domain::task::{Hold, Stage};
use world::{World, until};

/// What must have happened when a leaf without a bounce is over.
const CANONICAL: &[&str] = &[
    "task.created",
    "spawn.intended",
    "spawn.started",
    "task.claimed",
    "task.plan_set",
    "branch.cut",
    "task.started",
    "commit.recorded",
    "pr.opened",
    "task.submitted",
    "criterion.evidenced",
    "criterion.evidenced",
    "gate.passed",
    "task.handed_to_qa",
    "review.claimed",
    "review.pinned",
    "review.passed",
    "docs.claimed",
    "commit.recorded",
    "docs.recorded",
    "review.carried",
    "task.accepted",
    "task.sent_to_ceo",
    "inbox.opened",
    "ceo.approved",
    "merge.landed",
    "task.completed",
    "inbox.decided",
];

/// Spawns of several seats overlap, so their own milestones are compared as a count.
fn without_spawns(kinds: &[String]) -> Vec<&str> {
    let first = kinds.iter().position(|k| k == "task.claimed").unwrap_or(0);
    kinds.iter().enumerate().filter(|(n, k)| *n < first || !k.starts_with("spawn.")).map(|(_, k)| k.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leaf_is_delivered_and_lands_only_when_approved() {
    let mut world = World::new().await;
    world.start().await;
    let task = world.create_task("Greet several people").await;
    until("it waits for the CEO", || world.stage(task), |stage| stage == Stage::Ceo).await;
    assert_eq!(world.merges().await, 0, "nothing lands before the approval");

    world.approve(task).await;

    until("it is done", || world.stage(task), |stage| stage == Stage::Done).await;
    assert_eq!(world.merges().await, 1);
    let kinds = world.kinds(task).await;
    assert_eq!(without_spawns(&kinds), CANONICAL);
    until("every run has ended", || world.live(), |live| live == 0).await;
    let kinds = world.kinds(task).await;
    for kind in ["spawn.intended", "spawn.started", "spawn.ended"] {
        assert_eq!(kinds.iter().filter(|k| *k == kind).count(), 4, "{kind}: developer, QA, documenter, PM");
    }
    eprintln!("one leaf: {} statements, {} git processes", world.statements(), world.git_processes());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leaf_survives_deaths_of_the_control_plane() {
    let mut world = World::new().await;
    world.start().await;
    let task = world.create_task("Greet several people").await;
    for kind in ["task.claimed", "commit.recorded", "task.submitted", "review.claimed", "docs.claimed"] {
        until(kind, || world.kinds(task), |kinds| kinds.iter().any(|k| k == kind)).await;
        world.die().await;
        world.start().await;
    }
    until("it waits for the CEO", || world.stage(task), |stage| stage == Stage::Ceo).await;
    world.approve(task).await;
    until("it is done", || world.stage(task), |stage| stage == Stage::Done).await;
    assert_eq!(world.merges().await, 1);
    let kinds = world.kinds(task).await;
    eprintln!("{}", world.outcomes(task).await);
    for once in ["task.created", "task.started", "pr.opened", "task.handed_to_qa", "review.passed", "docs.recorded", "merge.landed"] {
        assert_eq!(kinds.iter().filter(|k| *k == once).count(), 1, "{once} in {kinds:?}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_refuses_is_left_alone_across_a_restart() {
    let mut world = World::with_elsewhere("be-dev-2").await;
    world.start().await;
    let task = world.create_task("Limited by its provider").await;
    until("its run has ended", || world.runs(task), |runs| runs[..].first().is_some_and(|run| run.outcome.is_some())).await;
    let Some(Outcome::RateLimited { until: Some(reset) }) = world.runs(task).await[0].outcome else {
        panic!("{}", world.outcomes(task).await)
    };
    world.die().await;
    world.start().await;
    // Work of another provider goes on, which shows that there was a plan.
    world.planned_anew(TaskNumber(2)).await;
    assert_eq!(world.runs(task).await.len(), 1, "{}", world.outcomes(task).await);
    world.put_forward(Duration::from_secs(3700));
    until("it is tried again", || world.runs(task), |runs| runs.len() > 1).await;
    let second = world.runs(task).await[1].intended_at;
    assert!(second >= reset, "the limit was run into again {:?} before its reset", reset.since(second));
    assert_eq!(world.task(task).await.meter.strikes, 0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_keeps_crashing_backs_off() {
    let mut world = World::new().await;
    world.start().await;
    let task = world.create_task("Crash at once").await;
    until("it cools down", || world.task(task), |task| task.meter.not_before.is_some()).await;
    let crashed = world.task(task).await;
    assert_eq!(crashed.meter.crashes.len(), 1);
    assert!(!matches!(crashed.hold, Some(Hold::Blocked { .. })), "one crash is no reason to ask anybody");
    world.stop().await;
}
