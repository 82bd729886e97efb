//! What must never happen, said without looking at the rules. A broken sentence is returned as text.

use roboco_domain::command::Actor;
use roboco_domain::event::Event;
use roboco_domain::id::AgentId;
use roboco_domain::next::{NextActor, next_actor};
use roboco_domain::rejection::{Kind, Rejection};
use roboco_domain::role::Role;
use roboco_domain::rules::verbs_for;
use roboco_domain::snapshot::Decision;
use roboco_domain::task::{Hold, PausedBy, Resolver, Stage, Task};
use roboco_domain::verb::Verb;

use crate::company::Company;
use crate::words::{Wording, asks_for_more};

/// Verbs of somebody at work on the task, which need the right to it.
const AT_WORK: &[Verb] = &[
    Verb::OpenPr,
    Verb::SyncBranch,
    Verb::IAmDone,
    Verb::IAmBlocked,
    Verb::Pass,
    Verb::Fail,
    Verb::IDocumented,
    Verb::Commit,
    Verb::Progress,
];
/// Verbs that take that right.
const CLAIMS: &[Verb] = &[Verb::IWillWorkOn, Verb::ClaimReview, Verb::ClaimDocTask];

/// What is wrong with an accepted call.
pub fn accepted(before: &Company, after: &Company, actor: &Actor, verb: Verb, wording: Wording, decision: &Decision) -> Option<String> {
    let task = &before.task;
    let joined = decision.is_empty() && decision.answer.waits_for.is_some();
    let me = actor.agent();
    let holds = task.ownership.lease.as_ref().is_some_and(|l| l.holder == me && Some(l.spawn) == actor.spawn());
    if AT_WORK.contains(&verb) && !holds {
        return Some(format!("{verb} without the right to {}", task.stage));
    }
    if CLAIMS.contains(&verb) && task.ownership.lease.as_ref().is_some_and(|l| l.holder != me) {
        return Some(format!("{verb} took a right that somebody else has"));
    }
    let reviewer = matches!(verb, Verb::ClaimReview | Verb::Pass | Verb::Fail);
    if (reviewer || verb == Verb::ClaimDocTask) && task.ownership.authors.contains(&me) {
        return Some("an author judges or documents itself".into());
    }
    if let Actor::Agent(agent) = actor
        && agent.role.is_cell_scoped()
        && agent.team != task.team
        && !decision.is_empty()
    {
        return Some(format!("{verb} by another cell"));
    }
    let owner = task.ownership.assignee.filter(|a| company_role(before, *a) == Some(actor.role()));
    if matches!(verb, Verb::IWillWorkOn | Verb::Unclaim | Verb::Resume | Verb::Complete | Verb::RequestChanges)
        && !decision.is_empty()
        && owner.is_some_and(|owner| owner != me)
    {
        return Some(format!("{verb} on what is somebody else's"));
    }
    // A plan is asked for once, and evidence that was given stays.
    let claims_again = verb == Verb::IWillWorkOn && (matches!(task.stage, Stage::Working | Stage::SelfCheck));
    let said_before = verb == Verb::IAmDone && task.criteria.iter().all(|c| c.evidence.is_some()) && task.open_findings().next().is_none();
    let excused = joined || claims_again || said_before && wording == Wording::Bare;
    if asks_for_more(verb, wording) && !excused {
        return Some(format!("{verb} was accepted although it was called {wording:?}"));
    }
    if !task.pending.is_empty() && !joined {
        return disturbs(task, &after.task, verb);
    }
    lifts_too_much(before, after, actor).or_else(|| moved_too_early(before, after))
}

fn company_role(company: &Company, agent: AgentId) -> Option<Role> {
    company.roster.agent(agent).map(|a| a.role)
}

/// While an effect is under way, nothing else may move the task under it.
fn disturbs(before: &Task, after: &Task, verb: Verb) -> Option<String> {
    let moved = before.stage != after.stage || before.ownership.assignee != after.ownership.assignee;
    let raised = before.hold != after.hold;
    if before.is_merging() && (moved || raised) {
        return Some(format!("{verb} changed a task that is being merged"));
    }
    // The CEO may stop anything else at any time.
    let stopped = after.stage == Stage::Cancelled || raised && verb == Verb::Pause || before.hold.is_some() && after.hold.is_none();
    if (moved || raised) && !stopped {
        return Some(format!("{verb} changed a task under an effect"));
    }
    let checking = before.pending.iter().any(|p| p.verb == Verb::IAmDone);
    if checking && verb == Verb::Commit {
        return Some("a commit while the work was being checked".into());
    }
    (after.pending.len() > before.pending.len()).then(|| format!("{verb} began a second effect"))
}

fn lifts_too_much(before: &Company, after: &Company, actor: &Actor) -> Option<String> {
    let (old, new) = (before.task.hold.as_ref(), after.task.hold.as_ref());
    let role = actor.role();
    let ended = after.task.stage.is_terminal();
    match (old, new) {
        (Some(hold), None) if !ended => {
            let may = match hold {
                Hold::Paused { by: PausedBy::Human, .. } | Hold::Blocked { resolver: Resolver::Human, .. } => role == Role::Ceo,
                Hold::Blocked { resolver: Resolver::MainPm, .. } => matches!(role, Role::MainPm | Role::Ceo),
                Hold::Blocked { resolver: Resolver::CellPm, .. } => matches!(role, Role::CellPm | Role::MainPm | Role::Ceo),
                Hold::Paused { by: PausedBy::Agent, .. } => true,
                Hold::Budget { .. } => false,
            };
            (!may).then(|| format!("{role} lifted {hold:?}"))
        }
        (Some(old), Some(new)) if old != new && new.strength() <= old.strength() => Some("a hold was replaced by a weaker one".into()),
        _ => None,
    }
}

fn moved_too_early(before: &Company, after: &Company) -> Option<String> {
    let (from, to) = (before.task.stage, after.task.stage);
    let task = &after.task;
    if from == to {
        return None;
    }
    if before.task.hold.is_some() && !to.is_terminal() {
        return Some(format!("a held task moved to {to}"));
    }
    if to == Stage::Docs
        && !task.review.as_ref().is_some_and(|r| r.passed == Some(true) && Some(&r.pin.head) == task.delivery.head.as_ref())
    {
        return Some("passed without a look at what is there".into());
    }
    if to == Stage::Docs && task.criteria.iter().any(|c| c.verdict.is_none()) {
        return Some("passed without a verdict per criterion".into());
    }
    if to == Stage::Revision && !task.findings.iter().any(|f| f.is_open() && f.round == task.counters.revisions) {
        return Some("sent back without an objection".into());
    }
    if task.ownership.lease.is_some() && !matches!(to, Stage::Working | Stage::SelfCheck) {
        return Some(format!("a right survived into {to}"));
    }
    handed_over(task, from)
}

/// What QA may count on.
pub fn handed_over(task: &Task, from: Stage) -> Option<String> {
    if task.stage != Stage::Qa || !matches!(from, Stage::Working | Stage::SelfCheck) {
        return None;
    }
    let fine = task.open_findings().next().is_none()
        && task.criteria.iter().all(|c| c.evidence.is_some())
        && !task.delivery.commits.is_empty()
        && task.delivery.pr.is_some()
        && task.gate.as_ref().is_some_and(|g| Some(&g.tree) == task.delivery.tree.as_ref());
    (!fine).then(|| "handed over without evidence".into())
}

/// What is wrong with a refusal: its way out must be one for this role, with this task as it stands.
pub fn refused(company: &Company, actor: &Actor, rejection: &Rejection) -> Option<String> {
    if rejection.remedy.text.is_empty() {
        return Some(format!("a refusal without a way out: {rejection:?}"));
    }
    let verb = rejection.remedy.verb?;
    let fits = company.rules.of(verb, actor.role()).any(|r| r.is_taskless() || r.matches(&company.task));
    let told = format!("{} is told to call {verb} in {}: {rejection:?}", actor.role(), company.task.stage);
    (!fits).then_some(told)
}

/// A run that is over is not heard.
pub fn ghosts_are_silent(company: &Company) -> Option<String> {
    company.ghosts.values().find_map(|ghost| {
        let actor = company.speaker(ghost)?;
        match company.call(actor, Verb::IAmIdle, Wording::Full) {
            Err(rejection) if rejection.kind == Kind::Superseded => None,
            other => Some(format!("a run that is over was answered: {:?}", other.map(|(_, d)| d.events))),
        }
    })
}

/// People of other cells, and of the same cell without the task, change nothing.
pub fn strangers_change_nothing(company: &Company) -> Option<String> {
    const STRANGERS: &[&str] = &["fe-dev-1", "fe-qa", "fe-doc", "fe-pm", "auditor", "be-pr-reviewer"];
    STRANGERS.iter().filter_map(|slug| company.roster.by_slug(slug)).find_map(|agent| {
        let (company, run) = company.with_run(agent.id, Verb::GiveMeWork);
        let actor = company.speaker(&run)?;
        let granted = company.rules.granted(agent.role);
        granted.into_iter().filter(|v| !matches!(v, Verb::GiveMeWork | Verb::IAmIdle | Verb::Evidence | Verb::Note)).find_map(|verb| {
            match company.call(actor.clone(), verb, Wording::Full) {
                Ok(_) => Some(format!("{verb} of {} was accepted", agent.slug)),
                Err(rejection) => refused(&company, &actor, &rejection),
            }
        })
    })
}

/// Everybody of the cell, whether at work here or not, is heard only in time and in full.
///
/// `heard` learns who was heard with what.
pub fn colleagues_are_heard_in_turn(company: &Company, heard: &mut dyn FnMut(Verb, Role)) -> Option<String> {
    const COLLEAGUES: &[&str] = &["be-dev-1", "be-dev-2", "be-qa", "be-doc", "be-pm", "main-pm"];
    let colleagues = COLLEAGUES.iter().filter_map(|slug| company.roster.by_slug(slug)).filter_map(|agent| {
        let (company, run) = company.with_run(agent.id, Verb::GiveMeWork);
        let actor = company.speaker(&run)?;
        Some((company, actor))
    });
    let ceo = company.ceo().map(|actor| (company.clone(), actor));
    colleagues.chain(ceo).find_map(|(company, actor)| {
        let granted = company.rules.granted(actor.role()).into_iter();
        granted.filter(|v| *v != Verb::CreateTask).find_map(|verb| match company.call(actor.clone(), verb, Wording::Full) {
            Ok((after, decision)) => {
                heard(verb, actor.role());
                accepted(&company, &after, &actor, verb, Wording::Full, &decision)
            }
            Err(rejection) => refused(&company, &actor, &rejection),
        })
    })
}

/// Calls that do not fit, say nothing, or leave work uncommitted are refused, and say what to do instead.
pub fn careless_calls(company: &Company) -> Option<String> {
    let agents = company.spawns.values().filter_map(|run| company.speaker(run));
    agents.chain(company.ceo()).find_map(|actor| {
        let fitting = verbs_for(&company.rules, actor.role(), &company.task);
        company.rules.granted(actor.role()).into_iter().filter(|v| *v != Verb::CreateTask).find_map(|verb| {
            let wordings: &[Wording] = match fitting.contains(&verb) {
                true => &[Wording::Wordless, Wording::Bare, Wording::OverUncommittedWork],
                false => &[Wording::Full],
            };
            wordings.iter().find_map(|wording| match company.call(actor.clone(), verb, *wording) {
                Ok((after, decision)) => accepted(company, &after, &actor, verb, *wording, &decision),
                Err(rejection) => refused(company, &actor, &rejection),
            })
        })
    })
}

/// Somebody is next whose verb is really accepted, or an effect is under way.
pub fn somebody_is_next(company: &Company) -> Option<String> {
    let task = &company.task;
    match next_actor(task, &[], &company.roster) {
        NextActor::Nobody => (!task.stage.is_terminal()).then(|| "nobody is next".into()),
        NextActor::Waits(wait) => {
            let alive = task.pending.iter().all(|p| company.open.iter().any(|i| i.intent == p.intent));
            (task.pending.is_empty() || !alive).then(|| format!("it {wait}, which never ends"))
        }
        NextActor::Ceo(words) => {
            let ceo = company.ceo()?;
            let can = [Verb::Approve, Verb::Resume, Verb::Unblock, Verb::Activate]
                .into_iter()
                .any(|v| company.call(ceo.clone(), v, Wording::Full).is_ok());
            (!can).then(|| format!("the CEO cannot {words}"))
        }
        NextActor::Agents(agents, verb) => {
            let works = agents.iter().any(|agent| acts(company, *agent, verb));
            (!works).then(|| format!("{verb} is next, but nobody can call it in {}", task.stage))
        }
    }
}

/// Whether an agent, through its run or a new one, is heard with this verb.
fn acts(company: &Company, agent: roboco_domain::id::AgentId, verb: Verb) -> bool {
    let heard = |c: &Company| {
        let run = c.run_of(agent).cloned();
        run.and_then(|run| c.speaker(&run)).is_some_and(|actor| c.call(actor, verb, Wording::Full).is_ok())
    };
    match company.run_of(agent) {
        Some(_) if heard(company) => true,
        Some(run) => company
            .end(run.id, roboco_domain::outcome::Outcome::Lost)
            .and_then(|ended| ended.start(agent, verb))
            .is_some_and(|started| heard(&started)),
        None => company.start(agent, verb).is_some_and(|started| heard(&started)),
    }
}

/// What must be true of every state at rest.
pub fn unsound(company: &Company) -> Option<String> {
    let task = &company.task;
    let asks = !company.inbox.is_empty();
    let for_human = matches!(task.hold, Some(Hold::Blocked { resolver: Resolver::Human, .. }));
    if (for_human || task.stage == Stage::Ceo) && !asks {
        return Some("it waits for the CEO, who does not hear of it".into());
    }
    if task.stage.is_terminal() && asks {
        return Some("it has ended and still asks the CEO".into());
    }
    if matches!(task.stage, Stage::Working | Stage::SelfCheck) && task.ownership.assignee.is_none() {
        return Some("started work is nobody's".into());
    }
    if let Some(lease) = &task.ownership.lease {
        let role = company.roster.agent(lease.holder).map(|a| a.role);
        let wanted = match task.stage {
            Stage::Ready | Stage::Working | Stage::SelfCheck | Stage::Revision => Role::Developer,
            Stage::Qa => Role::Qa,
            Stage::Docs => Role::Documenter,
            _ => return Some(format!("a right in {}", task.stage)),
        };
        if role != Some(wanted) || task.hold.is_some() {
            return Some("a right in the wrong hands, or under a hold".into());
        }
    }
    if task.stage == Stage::Done {
        let reviewed = task.review.as_ref().is_some_and(|r| r.passed == Some(true) && Some(&r.pin.head) == task.delivery.head.as_ref());
        if !reviewed || task.docs.is_none() || task.delivery.merged.is_none() {
            return Some("completed without review, documents or merge".into());
        }
    }
    None
}

/// Whether an accepted settlement moved something it may not move.
pub fn settled(before: &Company, after: &Company, decision: &Decision) -> Option<String> {
    let waited = decision.settles.is_some_and(|intent| before.task.pending.iter().any(|p| p.intent == intent));
    if !waited && !decision.events.is_empty() {
        return Some("a result nobody waited for changed something".into());
    }
    let landed = decision.events.iter().any(|e| matches!(e, Event::MergeLanded { .. }));
    if landed && before.task.delivery.ceo_target && before.approved != before.task.delivery.head {
        return Some("merged to a branch of the CEO without the CEO".into());
    }
    handed_over(&after.task, before.task.stage)
}
