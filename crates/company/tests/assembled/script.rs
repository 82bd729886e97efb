//! What agents do with the verb they are started for.

use std::sync::Arc;

use roboco_domain::command::{Actor, AgentActor};
use roboco_domain::id::TaskId;
use roboco_domain::task::{Shape, Task};
use roboco_domain::verb::Verb;
use serde_json::{Value, json};

use crate::world::World;

/// The title of a part whose absence the reviewer of the backend's whole notices.
pub(crate) const MENDING: &str = "Say hello only once";

/// A part to give out: a PM plans, a developer writes code.
pub(crate) fn part(whole: &str, to: &str, title: &str, covers: &str, touches: &str) -> Value {
    let kind = if to.ends_with("-pm") { "planning" } else { "code" };
    json!({
        "parent_task_id": whole, "title": title, "description": format!("{title}, as the whole needs it and nothing else."),
        "assigned_to": to, "criteria": [format!("{title} works")], "type": kind, "nature": "technical", "complexity": "low",
        "covers": [covers], "touches": [touches],
    })
}

fn planned(task: &Task) -> Value {
    let steps = [json!({ "title": "go", "description": "one step after the other" })];
    json!({ "task_id": task.number.to_string(), "plan": "the smallest change that does it", "steps": steps })
}

impl World {
    async fn does(&self, run: &AgentActor, verb: Verb, arguments: Value) -> Value {
        let called = self.call(Actor::Agent(run.clone()), verb, arguments).await;
        assert_eq!(called.rejection, None, "{verb} of {}", self.company.roster().slug(run.agent));
        serde_json::to_value(&called.envelope).unwrap()
    }

    /// Plays a run to its end; the verb that closed it.
    pub(crate) async fn play(&self, run: &AgentActor, task: TaskId, verb: Verb) -> Verb {
        let task = self.company.store().task(task).await.unwrap().unwrap();
        let on_task = json!({ "task_id": task.number.to_string() });
        let noted = json!({ "task_id": task.number.to_string(), "notes": "it does what was asked for" });
        match verb {
            Verb::IWillPlan => self.plays_planner(run, &task).await,
            Verb::IWillWorkOn => {
                self.does(run, verb, planned(&task)).await;
                self.does(run, Verb::Commit, json!({ "message": format!("feat(greet): {}", task.title.to_lowercase()) })).await;
                self.does(run, Verb::OpenPr, on_task).await;
                let evidence = [json!({ "id": "C1", "evidence": "test:greets" })];
                self.does(run, Verb::IAmDone, json!({ "task_id": task.number.to_string(), "criteria": evidence })).await;
                Verb::IAmDone
            }
            Verb::ClaimReview => {
                self.does(run, verb, on_task).await;
                let verdicts = [json!({ "criterion": "C1", "evidence": "ran the tests and they pass" })];
                let passed = json!({ "task_id": task.number.to_string(), "notes": "it works", "criteria_verified": verdicts });
                self.does(run, Verb::Pass, passed).await;
                Verb::Pass
            }
            Verb::ClaimDocTask => {
                self.does(run, verb, on_task).await;
                let documented = json!({ "task_id": task.number.to_string(), "skip_reason": "nothing that users see has changed" });
                self.does(run, Verb::IDocumented, documented).await;
                Verb::IDocumented
            }
            Verb::ClaimGateReview => self.plays_reviewer(run, &task).await,
            Verb::Complete => {
                self.does(run, verb, noted).await;
                Verb::Complete
            }
            other => panic!("nobody plays {other}"),
        }
    }

    async fn plays_planner(&self, run: &AgentActor, task: &Arc<Task>) -> Verb {
        self.does(run, Verb::IWillPlan, planned(task)).await;
        let number = task.number.to_string();
        if task.open_findings().next().is_some() && task.parts.iter().any(|p| p.title == MENDING) {
            let resolved: Vec<Value> = task.open_findings().map(|f| json!({ "finding_id": f.id.to_string(), "note": MENDING })).collect();
            let submitted = json!({ "task_id": number, "notes": "one hello is left", "resolved_findings": resolved });
            self.does(run, Verb::SubmitUp, submitted).await;
            return Verb::SubmitUp;
        }
        let parts = match (task.shape, task.team.as_str()) {
            (Shape::Root, _) => vec![
                part(&number, "be-pm", "Know the names", "C1", "service/**"),
                part(&number, "fe-pm", "Show the names", "C2", "page/**"),
            ],
            (_, "backend") if task.parts.is_empty() => vec![
                part(&number, "be-dev-1", "Keep the names", "C1", "service/store/**"),
                part(&number, "be-dev-2", "Tell the names", "C1", "service/api/**"),
            ],
            (_, "backend") => vec![part(&number, "be-dev-1", MENDING, "C1", "service/**")],
            _ => vec![part(&number, "fe-dev-1", "List the names", "C1", "page/**")],
        };
        for part in parts {
            self.does(run, Verb::Delegate, part).await;
        }
        self.does(run, Verb::IAmIdle, json!({})).await;
        Verb::IAmIdle
    }

    async fn plays_reviewer(&self, run: &AgentActor, task: &Task) -> Verb {
        let number = task.number.to_string();
        let seen = self.does(run, Verb::ClaimGateReview, json!({ "task_id": number })).await;
        let pin = self.task(&number).await.review.clone().unwrap().pin;
        assert_eq!(seen["evidence"]["pr_diff"], format!("{}..{}", pin.base.short(), pin.head.short()), "the pinned commits are shown");
        let parts: Vec<&str> = seen["evidence"]["parts"].as_array().unwrap().iter().map(|p| p["title"].as_str().unwrap()).collect();
        assert_eq!(parts, task.parts.iter().map(|p| p.title.as_str()).collect::<Vec<_>>());
        assert!(seen["evidence"]["acceptance_criteria"][0]["text"].is_string(), "{seen}");
        if task.team.as_str() == "backend" && !parts.contains(&MENDING) {
            let finding =
                json!({ "severity": "major", "expected": "one hello", "actual": "two parts say hello", "file": "service/api/greet.rs" });
            self.does(run, Verb::PrFail, json!({ "task_id": number, "findings": [finding], "notes": "the parts do not fit" })).await;
            return Verb::PrFail;
        }
        self.does(run, Verb::PrPass, json!({ "task_id": number, "notes": "the parts fit together" })).await;
        Verb::PrPass
    }
}
