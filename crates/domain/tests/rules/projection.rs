//! The fifteen wire statuses: which stage, hold and right is called what.

use std::sync::Arc;

use roboco_domain::command::{Body, SystemCommand};
use roboco_domain::status::{Status, StatusClass};
use roboco_domain::task::{Stage, Task};
use roboco_domain::verb::Verb;

use crate::matrix::PREPARED;
use crate::scene::{self, Place};
use crate::world::World;

/// First match wins, as it is read by people: ended, paused, held, then stage and right.
#[test]
fn every_stage_hold_and_right_has_its_status() {
    let free = |stage: Stage| match stage {
        Stage::Backlog => "backlog",
        Stage::Ready => "pending",
        Stage::Working => "in_progress",
        Stage::SelfCheck => "verifying",
        Stage::Qa => "awaiting_qa",
        Stage::Docs => "awaiting_documentation",
        Stage::Gate => "awaiting_pr_review",
        Stage::PmReview => "awaiting_pm_review",
        Stage::Ceo => "awaiting_ceo_approval",
        Stage::Revision => "needs_revision",
        Stage::Done => "completed",
        Stage::Cancelled => "cancelled",
    };
    for prepared in PREPARED.iter() {
        let wanted = match prepared.hold {
            _ if prepared.stage.is_terminal() => free(prepared.stage),
            "paused agent" | "paused human" => "paused",
            "none" => free(prepared.stage),
            _ => "blocked",
        };
        let task = prepared.world.task(prepared.task);
        assert_eq!(Status::of(task).as_str(), wanted, "{} {}", prepared.stage, prepared.hold);
    }
}

#[test]
fn a_claim_that_has_not_started_is_claimed() {
    for place in [Place::Ready, Place::Revision] {
        let mut world = World::new();
        let task = scene::prepared(&mut world, roboco_domain::task::Shape::StandaloneLeaf, place, &[]);
        let dev = world.agent("be-dev-1", task);
        let args = scene::args(Verb::IWillWorkOn, world.task(task), &[]);
        world.verb(dev, Verb::IWillWorkOn, Some(task), args).unwrap();
        assert_eq!(Status::of(world.task(task)), Status::Claimed);
        world.wait(std::time::Duration::from_secs(601));
        world.send(world.system(), Body::System(SystemCommand::ExpireLease { task })).unwrap();
        assert_eq!(Status::of(world.task(task)), Status::Pending);
    }
}

#[test]
fn every_status_is_in_one_class_and_every_status_occurs() {
    let classes = [
        (
            StatusClass::Waiting,
            9,
            "backlog pending blocked paused awaiting_qa awaiting_documentation awaiting_pr_review awaiting_pm_review awaiting_ceo_approval",
        ),
        (StatusClass::Active, 4, "claimed in_progress verifying needs_revision"),
        (StatusClass::Terminal, 2, "completed cancelled"),
    ];
    for (class, count, words) in classes {
        let members: Vec<&str> = Status::ALL.iter().filter(|s| s.class() == class).map(|s| s.as_str()).collect();
        let mut wanted: Vec<&str> = words.split(' ').collect();
        wanted.sort_unstable();
        let mut seen = members.clone();
        seen.sort_unstable();
        assert_eq!((members.len(), seen), (count, wanted));
    }
    assert_eq!(Status::ALL.len(), 15);
    let mut seen: Vec<Status> = PREPARED.iter().map(|p| Status::of(p.world.task(p.task))).collect();
    seen.push(Status::Claimed);
    assert!(Status::ALL.iter().all(|s| seen.contains(s)));
}

#[test]
fn ended_stages_are_the_terminal_statuses() {
    for prepared in PREPARED.iter() {
        let task: &Arc<Task> = &prepared.world.tasks[&prepared.task];
        assert_eq!(task.stage.is_terminal(), Status::of(task).class() == StatusClass::Terminal);
        assert_eq!(Stage::TERMINAL.contains(&task.stage), task.stage.is_terminal());
    }
}
