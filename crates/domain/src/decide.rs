//! The decision: a pure function from a snapshot and a command to events and effects, or to a refusal.

use std::sync::LazyLock;

use crate::command::{Actor, AgentActor, Body, Command, Fresh, NewProject, SystemCommand};
use crate::effect::{Effect, EffectResult};
use crate::event::Event;
use crate::guard::{Category, Guard, GuardContext, Miss, is_current};
use crate::next::{NextActor, next_actor};
use crate::project::Project;
use crate::rejection::{Kind, Rejection, Remedy};
use crate::role::Role;
use crate::rules::{OwnedRule, RuleSet, verbs_for};
use crate::snapshot::{Answer, Decision, Snapshot};
use crate::spawn::SpawnState;
use crate::task::{Hold, PausedBy, PausedRun, Stage, Task};
use crate::verb::{Call, Verb};
use crate::verbs;
use crate::verbs::spawn::NewSpawn;

static STANDARD: LazyLock<RuleSet> = LazyLock::new(RuleSet::standard);

/// The table of this version.
pub fn standard_rules() -> &'static RuleSet {
    &STANDARD
}

/// Decides a command by the standard rules.
///
/// # Errors
/// A refusal; nothing may be written then.
pub fn decide(world: &Snapshot, command: &Command) -> Result<Decision, Rejection> {
    decide_by(&STANDARD, world, command)
}

/// What the caller of an effect that has ended is told, once more: nothing is decided.
pub fn told_of(world: &Snapshot, effect: &Effect, result: &EffectResult) -> Answer {
    verbs::settle::told_of(world, effect, result)
}

/// Decides a command by a given table.
///
/// # Errors
/// A refusal; nothing may be written then.
pub fn decide_by(rules: &RuleSet, world: &Snapshot, command: &Command) -> Result<Decision, Rejection> {
    match &command.body {
        Body::Verb { call, .. } => decide_verb(rules, world, command, call),
        Body::AddProject(new) => add_project(world, &command.actor, new),
        Body::System(system) => decide_system(world, command, system),
    }
}

fn decide_verb(rules: &RuleSet, world: &Snapshot, command: &Command, call: &Call) -> Result<Decision, Rejection> {
    if let Actor::Agent(agent) = &command.actor {
        check_run(world, agent)?;
    }
    let (verb, role) = (call.verb(), command.actor.role());
    if !rules.grants(verb, role) {
        return Err(Rejection::new(
            Kind::NotAuthorized,
            format!("{verb} is not a verb of the role {role}"),
            Remedy::tell(format!("your verbs are {}", list(&rules.granted(role)))),
        ));
    }
    match call {
        Call::GiveMeWork(_) => return Ok(Decision::new(Answer::next("see the task"))),
        Call::IAmIdle(_) => return idle(rules, world, command, call),
        Call::CreateTask(args) => return verbs::create_task::create(world, &command.actor, args, &command.fresh),
        _ => {}
    }
    let Some(task) = world.task.as_deref() else {
        return Err(Rejection::new(
            Kind::NotFound,
            "there is no such task",
            Remedy::tell("look at the task's number again; it reads like T-142"),
        ));
    };
    let cx = GuardContext { world, task, actor: &command.actor, call };
    let candidates: Vec<&OwnedRule> = rules.of(verb, role).collect();
    let Some(rule) = candidates.iter().find(|r| r.matches(task)) else {
        return Err(out_of_place(rules, cx, &candidates).about(task.id));
    };
    check_guards(cx, rule, Category::Ownership, Category::Facts).map_err(|r| r.about(task.id))?;
    verbs::decide(cx, &command.fresh).map_err(|r| r.about(task.id))
}

/// The caller's run must be the one its seat hears.
fn check_run(world: &Snapshot, agent: &AgentActor) -> Result<(), Rejection> {
    let live = world.spawn.as_ref().is_some_and(|s| s.id == agent.spawn && s.state != SpawnState::Ended);
    if live && is_current(world.seat.as_ref(), agent) {
        return Ok(());
    }
    Err(Rejection::new(
        Kind::Superseded,
        "this run no longer speaks for its seat; nothing it does is accepted",
        Remedy::tell("stop now; your commits are kept"),
    ))
}

/// The verb exists for the role but not here: say whose it is, or what is possible.
fn out_of_place(rules: &RuleSet, cx: GuardContext<'_>, candidates: &[&OwnedRule]) -> Rejection {
    let (task, role, verb) = (cx.task, cx.actor.role(), cx.call.verb());
    let claimable_by_other = Role::DISPATCHED.iter().any(|other| *other != role && rules.of(verb, *other).any(|r| r.matches(task)));
    let kind = if claimable_by_other { Kind::NotAuthorized } else { Kind::InvalidState };
    if !candidates.iter().any(|r| r.shapes.contains(&task.shape)) {
        return Rejection::new(kind, format!("{verb} does not apply to {} (shape {})", task.number, task.shape), possible(rules, cx));
    }
    if let Some(mut rejection) = candidates.first().and_then(|rule| owned_by_others(cx, rule)) {
        // Guards speak of the stage they belong to; here the task stands elsewhere, so their way out may be none.
        let leads = rejection.remedy.verb.is_none_or(|v| rules.of(v, role).any(|r| r.is_taskless() || r.matches(task)));
        if !leads {
            rejection.remedy = possible(rules, cx);
        }
        return rejection;
    }
    let held = match &task.hold {
        Some(Hold::Paused { by: PausedBy::Human, .. }) => " and paused by the CEO",
        Some(Hold::Paused { .. }) => " and paused",
        Some(Hold::Blocked { .. }) => " and blocked",
        Some(Hold::Budget { .. }) => " and over its budget",
        None => "",
    };
    let message = format!("{verb} is not possible now: {} is in {}{held}", task.number, task.stage);
    Rejection::new(kind, message, possible(rules, cx))
}

/// Whose the task is comes before where it stands. Under a hold nobody has a right to it, so only the owner counts then.
fn owned_by_others(cx: GuardContext<'_>, rule: &OwnedRule) -> Option<Rejection> {
    let guards = rule.guards.iter().filter(|g| cx.task.hold.is_none() || **g != Guard::HoldsLease).copied().collect();
    check_guards(cx, &OwnedRule { guards, ..rule.clone() }, Category::Ownership, Category::Ownership).err()
}

/// What the caller can do with the task instead.
fn possible(rules: &RuleSet, cx: GuardContext<'_>) -> Remedy {
    let role = cx.actor.role();
    let mut open: Vec<Verb> = verbs_for(rules, role, cx.task)
        .into_iter()
        .filter(|v| *v != cx.call.verb() && !v.is_discovery() && !matches!(v, Verb::Note | Verb::Commit | Verb::Progress))
        .collect();
    // What cannot be undone is never the first advice.
    open.sort_by_key(|v| *v == Verb::Cancel);
    if !open.is_empty() && cx.task.ownership.assignee == Some(cx.actor.agent()) {
        return Remedy { verb: open.first().copied(), text: format!("possible here: {}", list(&open)) };
    }
    match role {
        Role::Developer | Role::Qa | Role::Documenter | Role::CellPm | Role::MainPm | Role::PrReviewer => {
            Remedy::call(Verb::GiveMeWork, "call give_me_work; do not retry this")
        }
        Role::Ceo if !open.is_empty() => Remedy { verb: open.first().copied(), text: format!("possible here: {}", list(&open)) },
        Role::ProductOwner | Role::HeadMarketing | Role::Auditor => Remedy::call(Verb::IAmIdle, "call i_am_idle"),
        Role::Ceo | Role::Prompter | Role::Secretary | Role::System => Remedy::tell("nothing is possible with it now"),
    }
}

fn list(verbs: &[Verb]) -> String {
    verbs.iter().map(|v| v.as_str()).collect::<Vec<_>>().join(", ")
}

/// Asks a rule's guards category by category; the first category with a miss answers, misses of evidence all together.
fn check_guards(cx: GuardContext<'_>, rule: &OwnedRule, from: Category, to: Category) -> Result<(), Rejection> {
    let mut guards: Vec<_> = rule.guards.iter().copied().filter(|g| g.category() >= from && g.category() <= to).collect();
    guards.sort_by_key(|g| g.category());
    for same in guards.chunk_by(|a, b| a.category() == b.category()) {
        let mut missing = Vec::new();
        let mut remedies: Vec<Remedy> = Vec::new();
        let mut hints = verbs::Hints::new();
        for guard in same {
            match guard.check(cx) {
                Ok(()) => {}
                Err(Miss::Refused(rejection)) => return Err(*rejection),
                Err(Miss::Argument(field, hint)) => {
                    hints.insert(field, hint);
                }
                Err(Miss::Missing(tokens, remedy)) => {
                    missing.extend(tokens);
                    remedies.push(remedy);
                }
            }
        }
        if !missing.is_empty() {
            let text = if remedies.len() == 1 {
                remedies[0].text.clone()
            } else {
                (1..).zip(&remedies).map(|(n, r)| format!("{n}. {}", r.text)).collect::<Vec<_>>().join(" ")
            };
            return Err(Rejection::gap(missing, Remedy { verb: remedies[0].verb, text }));
        }
        if !hints.is_empty() {
            return Err(Rejection::incomplete_all(cx.call.verb(), hints));
        }
    }
    Ok(())
}

/// Going idle: refused while the work the run was started for is still untouched; work in hand is set aside.
fn idle(rules: &RuleSet, world: &Snapshot, command: &Command, call: &Call) -> Result<Decision, Rejection> {
    let actor = &command.actor;
    let answer = Answer { word: Some("idle"), ..Answer::next("end your turn") };
    let (Some(task), Actor::Agent(agent)) = (world.task.as_deref(), actor) else {
        return Ok(Decision::new(answer));
    };
    // What is under way needs nobody's presence.
    if !task.pending.is_empty() {
        return Ok(Decision::new(answer));
    }
    let holds = task.ownership.lease.as_ref().is_some_and(|l| l.holder == agent.agent);
    if holds && task.hold.is_none() {
        let event = match task.stage {
            Stage::Working | Stage::SelfCheck | Stage::Ready | Stage::Revision => {
                Event::TaskHeld { hold: Hold::Paused { by: PausedBy::Agent, since: world.now, run: PausedRun::EndsTurn } }
            }
            _ => Event::TaskReleased { reason: "its holder went idle".into(), keeps_owner: true },
        };
        return Ok(Decision::new(answer).event(event).effects(verbs::review::leave_review(task, &command.fresh)));
    }
    let offered = world.spawn.as_ref().filter(|s| s.closed_by.is_none()).map(|s| s.verb);
    let cx = GuardContext { world, task, actor, call };
    // Only work that the caller could take now: what became somebody else's, or waits, keeps nobody from going idle.
    let open = |rule: &OwnedRule| rule.matches(task) && check_guards(cx, rule, Category::Ownership, Category::Order).is_ok();
    let turn = next_actor(task, &world.dependencies, &world.roster);
    let mine = matches!(&turn, NextActor::Agents(agents, _) if agents.contains(&agent.agent));
    let untouched = offered.filter(|verb| mine && rules.of(*verb, agent.role).any(open));
    match untouched {
        Some(_) if task.shape.is_assembled() && task.stage == Stage::Working => Err(Rejection::new(
            Kind::InvalidState,
            format!("{} is not planned to its end", task.number),
            Remedy::call(Verb::Delegate, verbs::assemble::planning_next(task)),
        )
        .about(task.id)),
        Some(verb) => Err(Rejection::new(
            Kind::InvalidState,
            format!("{} waits for you", task.number),
            Remedy::call(verb, format!("call {verb}(task_id={})", task.number)),
        )
        .about(task.id)),
        None => Ok(Decision::new(answer)),
    }
}

fn add_project(world: &Snapshot, actor: &Actor, new: &NewProject) -> Result<Decision, Rejection> {
    if actor.role() != Role::Ceo {
        return Err(Rejection::new(Kind::NotAuthorized, "only the CEO adds projects", Remedy::tell("ask the CEO")));
    }
    if world.project.is_some() {
        return Err(Rejection::new(
            Kind::InvalidState,
            format!("there is a project {:?} already", new.slug),
            Remedy::tell("choose another slug with --slug"),
        ));
    }
    let slug_fine = (1..=40).contains(&new.slug.len())
        && new.slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !new.slug.starts_with('-');
    if !slug_fine {
        return Err(Rejection::new(
            Kind::IncompleteInput,
            format!("{:?} is no slug", crate::input::clamp(&new.slug, 60)),
            Remedy::tell("use 1 to 40 lower-case letters, digits and -"),
        ));
    }
    if !world.roster.is_cell(&new.cell) {
        let cells = world.roster.cells().iter().map(|c| c.team.as_str()).collect::<Vec<_>>().join(", ");
        return Err(Rejection::new(
            Kind::IncompleteInput,
            format!("{:?} is no cell", new.cell.as_str()),
            Remedy::tell(format!("use one of {cells}")),
        ));
    }
    let unread = new.protected_paths.iter().find_map(|pattern| Project::pattern_problem(pattern).map(|problem| (pattern, problem)));
    if let Some((pattern, problem)) = unread {
        return Err(Rejection::new(
            Kind::IncompleteInput,
            format!("{:?} protects no path: {problem}", crate::input::clamp(pattern, 120)),
            Remedy::tell("write it like deploy/** or CODEOWNERS, or leave it out"),
        ));
    }
    let project = Project {
        id: new.id,
        company: world.company,
        slug: new.slug.clone(),
        version: 0,
        origin: new.origin.clone(),
        default_branch: new.default_branch.clone(),
        cell: new.cell.clone(),
        commands: new.commands.clone(),
        protected_paths: new.protected_paths.clone(),
        protected_branches: new.protected_branches.clone(),
        merge: new.merge,
        access: new.access,
        warnings: new.warnings.clone(),
        next_pr: 1,
        created_at: world.now,
    };
    Ok(Decision::new(Answer { word: Some("created"), ..Answer::next("give it a task with `roboco task new`") })
        .event(Event::ProjectAdded { project: Box::new(project) }))
}

fn decide_system(world: &Snapshot, command: &Command, system: &SystemCommand) -> Result<Decision, Rejection> {
    if command.actor.role() != Role::System {
        return Err(Rejection::new(Kind::NotAuthorized, "only the company itself sends this", Remedy::tell("use a verb")));
    }
    let Some(task) = world.task.as_deref() else {
        return Err(Rejection::new(Kind::NotFound, "there is no such task", Remedy::tell("plan again")));
    };
    match system {
        SystemCommand::PlanSpawn { agent, verb, provider, model, resume, .. } => {
            let new = NewSpawn { agent: *agent, verb: *verb, provider, model: model.as_deref(), resume: resume.as_deref() };
            verbs::spawn::plan(world, task, &new, &command.fresh)
        }
        SystemCommand::SpawnStarted { spawn } => Ok(verbs::spawn::started(world, *spawn)),
        SystemCommand::SpawnSession { spawn, session } => Ok(verbs::spawn::named(world, *spawn, session)),
        SystemCommand::SpawnLeft { spawn, verb } => Ok(verbs::spawn::left(world, *spawn, *verb)),
        SystemCommand::SpawnEnded { spawn, outcome, usage } => Ok(verbs::spawn::ended(world, task, *spawn, outcome, *usage)),
        SystemCommand::RevokeSpawn { spawn, reason } => Ok(verbs::spawn::revoke(world, *spawn, reason)),
        SystemCommand::Settle { intent, effect, result } => Ok(verbs::settle::settle(world, task, *intent, effect, result, &command.fresh)),
        SystemCommand::Submit { .. } => Ok(verbs::assemble::submit_by_itself(world, task)),
        SystemCommand::ExpireLease { .. } => Ok(expire(world, task, &command.fresh)),
    }
}

/// Ends a lease nobody renewed. Branch, plan and owner are kept.
fn expire(world: &Snapshot, task: &Task, fresh: &Fresh) -> Decision {
    match &task.ownership.lease {
        Some(lease) if lease.expires_at <= world.now => Decision::default()
            .event(Event::TaskReleased { reason: "its lease expired".into(), keeps_owner: true })
            .effects(verbs::review::leave_review(task, fresh)),
        Some(_) | None => Decision::default(),
    }
}
