//! Claiming a task as its author, opening its pull request, syncing its branch, giving it back.

use schemars::JsonSchema;
use serde::Deserialize;

use super::review::leave_review;
use super::{Subject, subject};
use crate::command::{Actor, Fresh};
use crate::effect::{Effect, Intended, Signature, TreeFor};
use crate::event::Event;
use crate::guard::GuardContext;
use crate::id::PrNumber;
use crate::input::{TextList, clamp};
use crate::limits;
use crate::rejection::{Kind, Rejection, Remedy};
use crate::snapshot::{Answer, Decision, Snapshot};
use crate::task::{Lease, PendingKind, Plan, Risk, Stage, Step, Task};
use crate::verb::Verb;

/// A step of a plan as it is typed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct StepInput {
    /// Short.
    pub title: String,
    /// What will be done.
    pub description: String,
}

/// Arguments of `i_will_work_on` and `i_will_plan`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IWillWorkOn {
    /// The task: `T-142`, its id, or a unique prefix of it.
    pub task_id: String,
    /// How you mean to do it. May be left out when the task has a plan already.
    #[serde(default)]
    pub plan: Option<String>,
    /// The steps, at least one.
    #[serde(default)]
    pub steps: Option<Vec<StepInput>>,
    /// What to mind.
    #[serde(default)]
    pub technical_considerations: TextList,
    /// What may go wrong, and what then.
    #[serde(default)]
    pub risks: Vec<Risk>,
    /// What is still unknown.
    #[serde(default)]
    pub open_questions: TextList,
}

/// Arguments of `sync_branch`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SyncBranch {
    /// The task: `T-142`, its id, or a unique prefix of it.
    pub task_id: String,
    /// The number of a task it is a part of, to merge that task's target instead: how a conflict further up is resolved.
    #[serde(default)]
    pub from: Option<String>,
}

/// Arguments of `open_pr`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenPr {
    /// The task: `T-142`, its id, or a unique prefix of it.
    pub task_id: String,
    /// Its title; the task's when left out.
    #[serde(default)]
    pub title: Option<String>,
}

subject!(IWillWorkOn => task_id, OpenPr => task_id, SyncBranch => task_id);

impl IWillWorkOn {
    pub(crate) fn plan(&self) -> Option<Plan> {
        let approach = self.plan.as_deref()?;
        let steps = self.steps.as_ref()?;
        Some(Plan {
            approach: clamp(approach, limits::APPROACH_CHARS).into_owned(),
            steps: steps
                .iter()
                .map(|s| Step {
                    title: clamp(&s.title, limits::STEP_TITLE_CHARS).into_owned(),
                    description: clamp(&s.description, limits::STEP_CHARS).into_owned(),
                    done: false,
                })
                .collect(),
            considerations: self.technical_considerations.0.iter().take(20).map(|c| clamp(c, limits::STEP_CHARS).into_owned()).collect(),
            risks: self
                .risks
                .iter()
                .take(20)
                .map(|r| Risk { risk: clamp(&r.risk, 300).into_owned(), mitigation: clamp(&r.mitigation, 600).into_owned() })
                .collect(),
            questions: self.open_questions.0.iter().take(20).map(|q| clamp(q, 300).into_owned()).collect(),
        })
    }
}

/// A fresh lease for the caller; only agents with a live spawn can have one.
pub(crate) fn lease_for(cx: GuardContext<'_>) -> Result<Lease, Rejection> {
    match cx.actor {
        Actor::Agent(agent) => Ok(Lease {
            holder: agent.agent,
            spawn: agent.spawn,
            epoch: agent.epoch,
            acquired_at: cx.world.now,
            expires_at: cx.world.now.after(limits::LEASE),
        }),
        Actor::Ceo(_) | Actor::System(_) => {
            Err(Rejection::new(Kind::NotAuthorized, "only an agent's run can hold a task", Remedy::tell("let the company dispatch it")))
        }
    }
}

/// The name an agent commits under.
pub(crate) fn signature(world: &Snapshot, agent: crate::id::AgentId) -> Signature {
    let seat = world.roster.agent(agent);
    let slug = world.roster.slug(agent);
    Signature { name: seat.map_or_else(|| slug.clone(), |s| s.name.clone()), email: format!("{slug}@agents.invalid") }
}

/// The effect that prepares branch and worktree.
pub(crate) fn cut(task: &Task, tree: TreeFor, fresh: &Fresh) -> Intended {
    Intended {
        intent: fresh.intent(),
        effect: Effect::CutBranch {
            task: task.id,
            project: task.project,
            branch: task.delivery.branch.clone(),
            base: task.delivery.base(),
            tree,
        },
    }
}

pub(crate) fn claim(cx: GuardContext<'_>, args: &IWillWorkOn, fresh: &Fresh) -> Result<Decision, Rejection> {
    let lease = lease_for(cx)?;
    let task = cx.task;
    if let Some(pending) = task.pending(PendingKind::CutBranch) {
        // The claim is already under way: the same call joins it.
        return Ok(Decision::new(Answer { waits_for: Some(pending.intent), ..Answer::next("wait for the branch") }));
    }
    if matches!(task.stage, Stage::Working | Stage::SelfCheck) {
        return Ok(Decision::new(Answer::next(working_next(task))).event(Event::TaskReentered { lease }));
    }
    let plan = args.plan().map(|plan| Event::PlanSet { plan });
    Ok(Decision::new(Answer { waits_for: Some(fresh.intent()), ..Answer::next(working_next(task)) })
        .event(Event::TaskClaimed { lease })
        .events(plan)
        .effect(cut(task, TreeFor::Author, fresh)))
}

/// What an author does next.
pub(crate) fn working_next(task: &Task) -> String {
    let number = task.number;
    if task.delivery.pr.is_some() {
        format!("edit, commit(message), then i_am_done(task_id={number}, criteria=[{{id, evidence}}])")
    } else {
        format!("edit, commit(message), then open_pr(task_id={number}), then i_am_done(task_id={number}, criteria=[{{id, evidence}}])")
    }
}

pub(crate) fn open_pr(cx: GuardContext<'_>, args: &OpenPr) -> Decision {
    let task = cx.task;
    let next = format!("call i_am_done(task_id={}, criteria=[{{id, evidence}}]) when every criterion is met", task.number);
    if let Some(pr) = &task.delivery.pr {
        return Decision::new(Answer { evidence: vec![("pr_number", pr.number.0.into())], ..Answer::next(next) });
    }
    let number = PrNumber(cx.world.project.as_ref().map_or(1, |p| p.next_pr));
    let title = args.title.as_deref().filter(|t| !crate::input::is_filler(t)).unwrap_or(&task.title);
    Decision::new(Answer { evidence: vec![("pr_number", number.0.into())], ..Answer::next(next) }).event(Event::PrOpened {
        number,
        title: format!("[{}] {}", task.number, clamp(title, limits::TITLE_CHARS)),
        target: task.delivery.target.clone(),
    })
}

pub(crate) fn sync(cx: GuardContext<'_>, args: &SyncBranch, fresh: &Fresh) -> Result<Decision, Rejection> {
    let task = cx.task;
    if let Some(pending) = task.pending(PendingKind::Sync) {
        return Ok(Decision::new(Answer { waits_for: Some(pending.intent), ..Answer::next("wait for the sync") }));
    }
    let base = match args.from.as_deref().map(str::trim).filter(|from| !from.is_empty()) {
        None => task.delivery.base(),
        Some(from) => match cx.world.ancestors.iter().find(|t| t.number.to_string().eq_ignore_ascii_case(from)) {
            Some(above) => above.delivery.base(),
            None => {
                let above = cx.world.ancestors.iter().map(|t| t.number.to_string()).collect::<Vec<_>>().join(", ");
                let hint =
                    if above.is_empty() { "leave it out: the task is no part of other work".into() } else { format!("one of {above}") };
                return Err(Rejection::incomplete(Verb::SyncBranch, "from", &hint));
            }
        },
    };
    Ok(Decision::new(Answer { waits_for: Some(fresh.intent()), ..Answer::next(working_next(task)) }).effect(Intended {
        intent: fresh.intent(),
        effect: Effect::Sync {
            task: task.id,
            project: task.project,
            branch: task.delivery.branch.clone(),
            base,
            author: signature(cx.world, cx.actor.agent()),
            at: cx.world.now,
        },
    }))
}

pub(crate) fn unclaim(cx: GuardContext<'_>, fresh: &Fresh) -> Decision {
    Decision::new(Answer::next("call give_me_work, or i_am_idle when nothing is left"))
        .event(Event::TaskReleased { reason: "given back".into(), keeps_owner: false })
        .effects(leave_review(cx.task, fresh))
}
