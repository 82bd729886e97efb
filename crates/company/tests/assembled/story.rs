//! From the CEO's wish to the merge, and from a cancelled wish to nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use roboco_domain::command::{Actor, AgentActor};
use roboco_domain::event::Event;
use roboco_domain::next::Wait;
use roboco_domain::task::{PartState, Shape, Stage};
use roboco_domain::verb::Verb;
use serde_json::json;

use crate::script::MENDING;
use crate::world::World;

#[tokio::test]
async fn a_root_is_split_delivered_assembled_reviewed_and_merged() {
    let world = World::new().await;
    let root = world.root().await;
    world.work().await;

    // Everything has gone as far as it goes without the CEO.
    let whole = world.task("T-1").await;
    assert_eq!((whole.shape, whole.stage), (Shape::Root, Stage::Ceo));
    assert!(whole.parts.iter().all(|p| p.state == PartState::Completed && p.merged.is_some()), "{:?}", whole.parts);
    let landed: Vec<String> = world.git.log().into_iter().filter(|line| line.starts_with("land")).collect();
    assert!(landed.iter().all(|line| line.contains(" on our ")), "the origin was touched before the CEO agreed: {landed:?}");
    assert_eq!(landed.len(), 6, "{landed:?}");

    world.ceo(Verb::Approve, json!({ "task_id": "T-1" })).await;
    assert_eq!(world.task("T-1").await.stage, Stage::Done);
    assert_eq!(world.company.store().open_tasks().await.unwrap(), vec![]);
    assert_eq!(world.company.store().open_inbox(None).await.unwrap(), vec![]);

    let backend = world.task("T-2").await;
    assert_eq!((backend.shape, backend.team.as_str(), backend.parent), (Shape::CellParent, "backend", Some(root)));
    let titles: Vec<_> = backend.parts.iter().map(|p| p.title.as_str()).collect();
    assert_eq!(titles, ["Keep the names", "Tell the names", MENDING], "its reviewer asked for one more part");
    assert_eq!(backend.counters.revisions, 1);
    branches_go_where_they_belong(&world);
    the_log_tells_it_task_by_task(&world).await;
    everybody_was_told_what_they_need(&world);
}

fn branches_go_where_they_belong(world: &World) {
    let log = world.git.log();
    let cut: BTreeSet<&str> = log.iter().filter(|l| l.starts_with("cut")).map(String::as_str).collect();
    for line in [
        "cut feature/main_pm/t1 from the origin's main for Assembly",
        "cut chore/backend/t1--t2 from our feature/main_pm/t1 for Assembly",
        "cut chore/frontend/t1--t3 from our feature/main_pm/t1 for Assembly",
    ] {
        assert!(cut.contains(line), "{line} is missing in {cut:#?}");
    }
    assert_eq!(cut.iter().filter(|l| l.contains("from our chore/backend/t1--t2 for Author")).count(), 3, "{cut:#?}");
    let last: Vec<&str> = log.iter().rev().filter(|l| l.starts_with("land")).map(String::as_str).take(2).collect();
    assert_eq!(last[0], "land T-1 on the origin's main");
    assert!(last[1].ends_with("on our feature/main_pm/t1"), "{last:?}");
}

async fn the_log_tells_it_task_by_task(world: &World) {
    let log = world.log().await;
    assert!((1..).zip(&log).all(|(n, row)| row.seq == n), "the log has gaps");
    for row in &log {
        match &row.event {
            Event::TaskCreated { task } => assert_eq!(row.task, Some(task.id)),
            Event::PartEnded { part, .. } => {
                let part = world.company.store().task(*part).await.unwrap().unwrap();
                assert_eq!(row.task, part.parent, "the end of {} belongs to what it is a part of", part.number);
            }
            _ => {}
        }
    }
    for task in ["T-1", "T-2", "T-3", "T-4"] {
        let task = world.task(task).await;
        let moves: Vec<_> = log.iter().filter(|row| row.task == Some(task.id)).filter_map(|row| row.moved).collect();
        assert!(moves.windows(2).all(|pair| pair[0].1 == pair[1].0), "{}: {moves:?}", task.number);
        assert_eq!(moves.last().map(|m| m.1), Some(Stage::Done), "{}", task.number);
    }
}

fn everybody_was_told_what_they_need(world: &World) {
    let briefs = world.briefs.lock().unwrap();
    let told =
        |who: &str| &briefs.iter().find(|(name, _)| name == who).unwrap_or_else(|| panic!("{who} was never started")).1["task_handoff"];
    assert_eq!(told("main-pm T-1")["you_can_delegate_to"], json!(["be-pm", "fe-pm", "ux-pm"]));
    assert_eq!(told("main-pm T-1")["cells_asked_for"], json!(["backend", "frontend"]));
    let cell = told("be-pm T-2");
    assert_eq!(cell["you_can_delegate_to"], json!(["be-dev-1", "be-dev-2"]));
    assert_eq!(cell["part_of"][0]["description"], "The greeter says hello to everybody by name.");
    assert_eq!(cell["part_of"][0]["covers"], json!([{ "id": "C1", "text": "the service knows names" }]));
    let leaf = briefs.iter().find(|(name, _)| name.starts_with("be-dev-2")).unwrap().1["task_handoff"].clone();
    let above: Vec<_> = leaf["part_of"].as_array().unwrap().iter().map(|above| above["task"].as_str().unwrap()).collect();
    assert_eq!(above, ["T-2", "T-1"], "nearest first");
    let mender = briefs.iter().filter(|(name, _)| name == "be-pm T-2").map(|(_, told)| &told["task_handoff"]);
    let mender = mender.clone().find(|told| told["open_findings"].is_array()).unwrap();
    assert_eq!(mender["open_findings"][0]["actual"], "two parts say hello");
    assert_eq!(mender["parts"].as_array().unwrap().len(), 2);
    assert_eq!(mender["parts"][0]["state"], "completed");
}

#[tokio::test]
async fn two_parts_that_land_at_once_both_count() {
    let world = World::new().await;
    world.root().await;
    // Both leaves of the backend are brought to their PM, then accepted in the same moment.
    loop {
        let plan = world.plan().await;
        let start = plan.start.into_iter().find(|s| s.verb != Verb::Complete);
        let Some(start) = start else { break };
        let slug = world.company.roster().slug(start.agent);
        let run = world.start(&slug, start.task, start.verb).await;
        let last = world.play(&run, start.task, start.verb).await;
        world.end(&run, last).await;
    }
    let (one, other) = (world.task("T-4").await, world.task("T-5").await);
    assert_eq!([one.stage, other.stage], [Stage::PmReview; 2]);
    assert_eq!(one.parent, other.parent);
    let run = world.start("be-pm", one.id, Verb::Complete).await;
    let accept = |number: String| {
        world.call(Actor::Agent(run.clone()), Verb::Complete, json!({ "task_id": number, "notes": "it does what was asked for" }))
    };
    let (first, second) = tokio::join!(accept(one.number.to_string()), accept(other.number.to_string()));
    assert_eq!((first.rejection, second.rejection), (None, None));
    let whole = world.company.store().task(one.parent.unwrap()).await.unwrap().unwrap();
    let merged: BTreeSet<_> = whole.parts.iter().filter_map(|p| p.merged.clone()).collect();
    assert_eq!(merged.len(), 2, "{:?}", whole.parts);
    assert!(merged.contains(whole.delivery.head.as_ref().unwrap()));
}

#[tokio::test]
async fn a_cancelled_root_takes_everything_below_with_it() {
    let world = World::new().await;
    let root = world.root().await;
    for (slug, task) in [("main-pm", "T-1"), ("be-pm", "T-2")] {
        let task = world.task(task).await.id;
        let run = world.start(slug, task, Verb::IWillPlan).await;
        let last = world.play(&run, task, Verb::IWillPlan).await;
        world.end(&run, last).await;
    }
    // A leaf waits for the CEO.
    let leaf = world.task("T-4").await.id;
    let run = world.start("be-dev-1", leaf, Verb::IWillWorkOn).await;
    let steps = [json!({ "title": "go", "description": "one step after the other" })];
    let claim = json!({ "task_id": "T-4", "plan": "the smallest change that does it", "steps": steps });
    assert_eq!(world.call(Actor::Agent(run.clone()), Verb::IWillWorkOn, claim).await.rejection, None);
    let blocked = json!({ "task_id": "T-4", "reason": "the names are behind a password", "blocker_type": "external" });
    assert_eq!(world.call(Actor::Agent(run.clone()), Verb::IAmBlocked, blocked).await.rejection, None);
    world.end(&run, Verb::IAmBlocked).await;
    assert_eq!(world.company.store().open_inbox(None).await.unwrap().len(), 1);

    world.ceo(Verb::Cancel, json!({ "task_id": "T-1", "reason": "nobody needs it any more" })).await;
    assert_eq!(world.company.store().open_tasks().await.unwrap(), vec![]);
    assert_eq!(world.company.store().open_inbox(None).await.unwrap(), vec![], "what was asked about a leaf is moot");
    for n in 1..=5 {
        let task = world.task(&format!("T-{n}")).await;
        assert_eq!(task.stage, Stage::Cancelled, "T-{n}");
        assert!(task.parts.iter().all(|p| p.state == PartState::Cancelled), "T-{n}: {:?}", task.parts);
        let log = world.company.store().events(0, Some(task.id), 1000).await.unwrap();
        let end = log.iter().find(|row| matches!(row.event, Event::TaskCancelled { .. })).unwrap();
        assert_eq!(end.moved.map(|m| m.1), Some(Stage::Cancelled), "T-{n}");
    }
    let plan = world.plan().await;
    assert_eq!((plan.start.len(), plan.waiting.len()), (0, 0));
    // Three branches were cut, and three are removed.
    let removed = || world.git.log().iter().filter(|l| l.starts_with("remove")).count();
    let all = async {
        while removed() < 3 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(20), all).await.is_ok(), "{:#?}", world.git.log());
    assert_eq!(removed(), 3, "{:#?}", world.git.log());
    assert!(world.company.store().task(root).await.unwrap().unwrap().ended_at.is_some());
}

#[tokio::test]
async fn nothing_below_a_paused_root_is_offered() {
    let world = World::new().await;
    let root = world.root().await;
    let run = world.start("main-pm", root, Verb::IWillPlan).await;
    let last = world.play(&run, root, Verb::IWillPlan).await;
    world.end(&run, last).await;
    world.ceo(Verb::Pause, json!({ "task_id": "T-1" })).await;
    let plan = world.plan().await;
    assert!(plan.start.is_empty() && plan.waiting.iter().any(|(_, wait)| matches!(wait, Wait::Above(n) if n.0 == 1)), "{plan:?}");
    let cell = world.task("T-2").await;
    let row = world.company.task_row(&cell).await.unwrap();
    assert_eq!(row.waits.as_deref(), Some("T-1, which it belongs to, is set aside"));
    world.ceo(Verb::Resume, json!({ "task_id": "T-1" })).await;
    assert_eq!(world.plan().await.start.len(), 2, "both cells plan");
    assert_eq!(world.company.task_row(&cell).await.unwrap().waits.as_deref(), Some("be-pm: i_will_plan"));
}

#[tokio::test]
async fn an_agent_that_asks_is_given_assembled_work() {
    let world = World::new().await;
    let root = world.root().await;
    let main_pm = world.start("main-pm", root, Verb::IWillPlan).await;
    let offered = |run: AgentActor| async { world.call(Actor::Agent(run), Verb::GiveMeWork, json!({})).await };
    let first = offered(main_pm.clone()).await;
    assert_eq!((first.task, &first.envelope.evidence["verb"]), (Some(root), &json!("i_will_plan")));
    world.play(&main_pm, root, Verb::IWillPlan).await;
    let nothing = offered(main_pm.clone()).await;
    assert_eq!(nothing.task, None, "its parts are being delivered: {:?}", nothing.envelope);

    let cell = world.task("T-3").await;
    let cell_pm = world.start("fe-pm", cell.id, Verb::IWillPlan).await;
    let mine = offered(cell_pm).await;
    assert_eq!((mine.task, &mine.envelope.evidence["verb"]), (Some(cell.id), &json!("i_will_plan")));
}
