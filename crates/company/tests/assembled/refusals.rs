//! References that parts name, and what comes of wrong ones.

use roboco_domain::command::Actor;
use roboco_domain::rejection::Kind;
use roboco_domain::verb::Verb;
use serde_json::json;

use crate::script::part;
use crate::world::World;

#[tokio::test]
async fn a_part_waits_for_the_tasks_it_names() {
    let world = World::new().await;
    let other = json!({
        "project": "greeter", "title": "Say goodbye", "description": "The greeter says goodbye to everybody who leaves.",
        "criteria": ["goodbye is said"], "type": "code", "nature": "technical", "complexity": "low",
    });
    let first = world.ceo(Verb::CreateTask, other).await.task.unwrap();
    let root = world.root().await;
    let run = world.start("main-pm", root, Verb::IWillPlan).await;
    let steps = [json!({ "title": "split", "description": "one part for each cell" })];
    let planned = json!({ "task_id": "T-2", "plan": "each cell does its own", "steps": steps });
    assert_eq!(world.call(Actor::Agent(run.clone()), Verb::IWillPlan, planned).await.rejection, None);
    let delegate = |named: &'static [&'static str]| {
        let mut wanted = part("T-2", "be-pm", "Know the names", "C1", "service/**");
        wanted["depends_on"] = json!(named);
        world.call(Actor::Agent(run.clone()), Verb::Delegate, wanted)
    };

    let before = world.log().await.len();
    for (named, kind) in [(&["T-99"][..], Kind::NotFound), (&["T-1", "nonsense!"][..], Kind::IncompleteInput)] {
        let refused = delegate(named).await.rejection.unwrap();
        assert_eq!(refused.kind, kind, "{refused:?}");
    }
    assert_eq!(world.log().await.len(), before, "a refusal was written");
    assert!(world.task("T-2").await.parts.is_empty());

    assert_eq!(delegate(&["T-1"]).await.rejection, None);
    let part = world.task("T-3").await;
    assert_eq!((part.depends_on.as_slice(), part.parent), (&[first][..], Some(root)));
    assert_eq!(world.task("T-2").await.parts[0].id, part.id);
    assert_eq!(world.company.task_row(&part).await.unwrap().waits.as_deref(), Some("waits for T-1"));
}
