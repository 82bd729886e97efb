//! What must hold after every command, whoever sent it and whatever came of it. Each function panics with the rule that was broken.

use roboco_domain::assembly::is_bare;
use roboco_domain::command::{Actor, Body, Command, SystemCommand};
use roboco_domain::event::Event;
use roboco_domain::next::{NextActor, Wait, next_actor};
use roboco_domain::rejection::Rejection;
use roboco_domain::role::Role;
use roboco_domain::rules::RuleSet;
use roboco_domain::snapshot::{Decision, Snapshot};
use roboco_domain::status::{Status, StatusClass};
use roboco_domain::task::{Hold, PartState, PausedBy, Resolver, Shape, Stage, Task, TaskBrief};
use roboco_domain::verb::Verb;

use crate::world::World;

/// Verbs that name no task.
const TASKLESS: &[Verb] = &[Verb::GiveMeWork, Verb::IAmIdle, Verb::CreateTask];

/// Whether the way out that a refusal names is one for this role with this task as it stands.
pub(crate) fn remedy_is_executable(rules: &RuleSet, role: Role, task: Option<&Task>, rejection: &Rejection) -> Result<(), String> {
    if rejection.message.trim().is_empty() || rejection.remedy.text.trim().is_empty() {
        return Err(format!("a refusal says nothing: {rejection:?}"));
    }
    let Some(verb) = rejection.remedy.verb else { return Ok(()) };
    if !rules.grants(verb, role) {
        return Err(format!("{role} is told to call {verb}, which it may not: {rejection:?}"));
    }
    let Some(task) = task.filter(|_| !TASKLESS.contains(&verb)) else { return Ok(()) };
    let names_another =
        rejection.remedy.text.contains("task_id=T-") && !rejection.remedy.text.contains(&format!("task_id={}", task.number));
    if names_another || rules.of(verb, role).any(|r| r.matches(task)) {
        return Ok(());
    }
    Err(format!("{role} is told to call {verb}, which does not fit {} in {} with {:?}: {rejection:?}", task.number, task.stage, task.hold))
}

pub(crate) fn refusal_has_a_way_out(rules: &RuleSet, world: &Snapshot, command: &Command, rejection: &Rejection) {
    let role = command.actor.role();
    if role == Role::System {
        remedy_is_said(rejection);
    } else if let Err(problem) = remedy_is_executable(rules, role, world.task.as_deref(), rejection) {
        panic!("{problem}");
    }
}

pub(crate) fn remedy_is_said(rejection: &Rejection) {
    assert!(!rejection.remedy.text.trim().is_empty(), "a refusal without a way out: {rejection:?}");
}

/// Every legal move: by which verb or report, from where, to where.
fn is_edge(command: &Command, from: Stage, to: Stage) -> bool {
    use Stage as S;
    const AUTHORING: &[S] = &[S::Ready, S::Working, S::SelfCheck, S::Revision];
    let role = command.actor.role();
    match &command.body {
        Body::Verb { call, .. } => match call.verb() {
            Verb::Activate => from == S::Backlog && to == S::Ready && (role == Role::Ceo || Role::PMS.contains(&role)),
            Verb::IAmDone => role == Role::Developer && matches!((from, to), (S::Working, S::SelfCheck | S::Qa) | (S::SelfCheck, S::Qa)),
            Verb::Unclaim => role == Role::Developer && AUTHORING.contains(&from) && to == S::Ready,
            Verb::Pass => role == Role::Qa && (from, to) == (S::Qa, S::Docs),
            Verb::Fail => role == Role::Qa && (from, to) == (S::Qa, S::Revision),
            Verb::IDocumented => role == Role::Documenter && from == S::Docs && matches!(to, S::PmReview | S::Qa),
            Verb::SubmitUp => role == Role::CellPm && from == S::Working && matches!(to, S::Gate | S::PmReview),
            Verb::SubmitRoot => role == Role::MainPm && from == S::Working && matches!(to, S::Gate | S::PmReview),
            Verb::PrPass => role == Role::PrReviewer && (from, to) == (S::Gate, S::PmReview),
            Verb::PrFail => role == Role::PrReviewer && (from, to) == (S::Gate, S::Revision),
            // Assembled work into which nothing was merged is complete without a merge.
            Verb::Complete => Role::PMS.contains(&role) && from == S::PmReview && matches!(to, S::Ceo | S::Done),
            Verb::Approve => role == Role::Ceo && (from, to) == (S::Ceo, S::Done),
            Verb::RequestChanges => Role::PMS.contains(&role) && (from, to) == (S::PmReview, S::Revision),
            Verb::Reject => role == Role::Ceo && (from, to) == (S::Ceo, S::Revision),
            Verb::Cancel => to == S::Cancelled && !from.is_terminal() && (role == Role::Ceo || Role::PMS.contains(&role) && from != S::Ceo),
            _ => false,
        },
        Body::System(SystemCommand::Settle { .. }) => matches!(
            (from, to),
            (S::Ready | S::Revision, S::Working) | (S::SelfCheck, S::Qa) | (S::Ceo | S::PmReview, S::Done) | (S::PmReview, S::Revision)
        ),
        Body::System(SystemCommand::Submit { .. }) => from == S::Working && matches!(to, S::Gate | S::PmReview),
        Body::System(SystemCommand::ExpireLease { .. }) => AUTHORING.contains(&from) && to == S::Ready,
        Body::System(_) | Body::AddProject(_) => false,
    }
}

/// What may happen between two states of a task.
pub(crate) fn step_is_legal(rules: &RuleSet, before: Option<&Task>, after: &Task, command: &Command, decision: &Decision) {
    let role = command.actor.role();
    let Some(before) = before else {
        assert!(matches!(after.stage, Stage::Backlog | Stage::Ready), "a task starts in {}", after.stage);
        assert_eq!(role, Role::Ceo, "only the CEO gives the company work");
        return;
    };
    let (from, to) = (before.stage, after.stage);
    if from != to {
        assert!(is_edge(command, from, to), "{} moved from {from} to {to} by {role} with {:?}", after.number, command.body);
        let same_owner = matches!((from, to), (Stage::Ready | Stage::Revision, Stage::Working) | (Stage::Working, Stage::SelfCheck));
        assert!(same_owner || after.ownership.lease.is_none(), "a right of {from} survived into {to}");
    }
    if from.is_terminal() {
        assert_eq!(
            (&before.hold, &before.ownership, &before.delivery, &before.findings, &before.plan),
            (&after.hold, &after.ownership, &after.delivery, &after.findings, &after.plan),
            "an ended task changed"
        );
    }
    if let Body::Verb { call, .. } = &command.body
        && !TASKLESS.contains(&call.verb())
    {
        assert!(rules.of(call.verb(), role).any(|r| r.matches(before)), "no row allows {} of {role} in {from}", call.verb());
    }
    let lifted = before.hold.is_some() && after.hold.is_none() && !to.is_terminal();
    if lifted && matches!(before.hold, Some(Hold::Blocked { resolver: Resolver::Human, .. } | Hold::Paused { by: PausedBy::Human, .. })) {
        assert_eq!(role, Role::Ceo, "a hold for the CEO was lifted by {role}");
    }
    if before.hold.is_some() && after.hold.is_some() && before.hold != after.hold {
        let strength = |t: &Task| t.hold.as_ref().map_or(0, Hold::strength);
        assert!(strength(before) <= strength(after), "a weaker hold replaced a stronger one");
    }
    if to == Stage::Revision && from != Stage::Revision {
        let fresh = after.findings.iter().any(|f| f.is_open() && f.round == after.counters.revisions);
        assert!(fresh, "sent back without an objection of this round");
        assert_eq!(after.counters.revisions, before.counters.revisions + 1);
        assert_eq!(after.ownership.assignee, after.ownership.author, "a revision returns to its author");
    } else {
        assert_eq!(after.counters.revisions, before.counters.revisions, "rounds counted without being sent back");
    }
    if to == Stage::Qa && from != Stage::Qa && from != Stage::Docs {
        handed_over(after);
    }
    if from == Stage::Working && matches!(to, Stage::Gate | Stage::PmReview) {
        assembled(after);
    }
    if decision.events.iter().any(|e| matches!(e, Event::TaskClaimed { .. } | Event::TaskReentered { .. })) {
        assert!(before.ownership.lease.as_ref().is_none_or(|l| l.holder == command.actor.agent() || l.expires_at <= decision_time(after)));
    }
    judged_by_others(before, command);
}

fn decision_time(after: &Task) -> roboco_domain::time::Timestamp {
    after.ownership.lease.as_ref().map_or_else(Default::default, |l| l.acquired_at)
}

/// What QA may count on when it gets a task.
fn handed_over(task: &Task) {
    assert_eq!(task.open_findings().count(), 0, "handed over with open findings");
    assert!(task.criteria.iter().all(|c| c.evidence.is_some()), "handed over without evidence");
    assert!(!task.delivery.commits.is_empty() && task.delivery.pr.is_some(), "handed over without commit or pull request");
    assert!(task.gate.as_ref().is_some_and(|g| Some(&g.tree) == task.delivery.tree.as_ref()), "handed over with unchecked content");
    assert!(task.ownership.author.is_some() && task.ownership.assignee.is_none());
}

/// What a reviewer may count on when it gets assembled work.
fn assembled(task: &Task) {
    assert!(task.parts.iter().all(|p| p.state != PartState::Open), "handed in with open parts");
    assert_eq!(task.open_findings().count(), 0, "handed in with open findings");
    for criterion in &task.criteria {
        let covered = task.parts.iter().any(|p| p.state == PartState::Completed && p.covers.contains(&criterion.id));
        assert!(covered || criterion.kept.is_some(), "handed in with nobody answering for {}", criterion.id);
    }
    for cell in &task.cells {
        assert!(task.parts.iter().any(|p| p.state == PartState::Completed && &p.team == cell), "handed in without cell {cell}");
    }
    if task.stage == Stage::Gate {
        assert!(task.delivery.pr.is_some(), "handed in without a pull request");
    }
}

/// The whole and its parts tell the same story.
fn family_is_sound(world: &World, task: &Task) {
    assert!(task.parts.len() <= 12, "too many parts");
    for part in &task.parts {
        let row = world.task(part.id);
        assert_eq!(row.parent, Some(task.id), "{} does not know its whole", row.number);
        let state = match row.stage {
            Stage::Done => PartState::Completed,
            Stage::Cancelled => PartState::Cancelled,
            _ => PartState::Open,
        };
        assert_eq!(part.state, state, "{} thinks otherwise of {}", task.number, row.number);
        assert!(state != PartState::Open || !task.stage.is_terminal(), "{} lives on under {}", row.number, task.number);
        assert!(state != PartState::Open || !matches!(task.stage, Stage::Gate | Stage::PmReview | Stage::Ceo), "judged with an open part");
        assert!(part.covers.iter().all(|c| task.criterion(*c).is_some()), "a part covers what is not there");
    }
    if let Some(whole) = task.parent {
        assert!(world.task(whole).parts.iter().any(|p| p.id == task.id), "its whole does not know {}", task.number);
    }
    let depth = std::iter::successors(task.parent, |id| world.task(*id).parent).count();
    assert!(depth <= 3, "too deep");
}

/// Nobody judges what it wrote.
fn judged_by_others(task: &Task, command: &Command) {
    let Body::Verb { call, .. } = &command.body else { return };
    let me = command.actor.agent();
    if matches!(call.verb(), Verb::ClaimReview | Verb::Pass | Verb::Fail | Verb::ClaimGateReview | Verb::PrPass | Verb::PrFail) {
        assert!(!task.ownership.authors.contains(&me) && !task.ownership.committers.contains(&me), "an author judged its own work");
    }
    if matches!(call.verb(), Verb::ClaimDocTask) {
        assert!(!task.ownership.authors.contains(&me), "an author documents its own work");
    }
    if let (Verb::Complete, Actor::Agent(actor)) = (call.verb(), &command.actor)
        && actor.role == Role::CellPm
    {
        assert_eq!(actor.team, task.team, "the PM of another cell accepted it");
    }
}

/// What must be true of every task at rest.
pub(crate) fn task_is_sound(world: &World, task: &Task) {
    let status = Status::of(task);
    assert_eq!(status.class() == StatusClass::Terminal, task.stage.is_terminal());
    right_is_sound(world, task);
    family_is_sound(world, task);
    match task.stage {
        Stage::Working | Stage::SelfCheck => {
            assert!(task.ownership.assignee.is_some(), "{} is {status} and nobody's", task.number);
            assert!(task.plan.is_some() && task.delivery.head.is_some(), "work without a plan or a branch");
        }
        Stage::PmReview => {
            let owner = task.ownership.assignee.and_then(|a| world.roster.agent(a)).map(|a| a.role);
            let pm = if task.shape == Shape::Root { Role::MainPm } else { Role::CellPm };
            assert_eq!(owner, Some(pm), "the decision is not a PM's");
            let whole = task.shape.is_assembled();
            assert!(is_bare(task) && whole || task.review.as_ref().is_some_and(|r| r.passed == Some(true)), "decided before it was judged");
            assert!(whole || task.docs.is_some());
        }
        Stage::Ceo | Stage::Done if task.shape.is_assembled() => {
            let passed = |r: &roboco_domain::task::Review| r.passed == Some(true) && Some(&r.pin.head) == task.delivery.head.as_ref();
            assert!(is_bare(task) || task.review.as_ref().is_some_and(passed), "decided about what nobody judged");
        }
        Stage::Ceo | Stage::Done => {
            assert!(task.review.as_ref().is_some_and(|r| r.passed == Some(true) && Some(&r.pin.head) == task.delivery.head.as_ref()));
            assert!(task.docs.is_some() && task.delivery.pr.is_some());
        }
        _ => {}
    }
    if task.stage == Stage::Done {
        assert!(task.delivery.merged.is_some() || (task.shape.is_assembled() && is_bare(task)), "completed without being merged");
        if task.delivery.ceo_target {
            let approved = world.log.iter().rev().any(|l| {
                l.task == Some(task.id) && matches!(&l.event, Event::CeoApproved { head, .. } if Some(head) == task.delivery.head.as_ref())
            });
            assert!(approved, "merged to a branch of the CEO without the CEO");
        }
    }
    if let Some(Hold::Blocked { text, resolver, .. }) = &task.hold {
        assert!(!text.is_empty());
        let asked = world.inbox.iter().any(|i| i.task == task.id && i.decision.is_none());
        assert!(*resolver != Resolver::Human || asked, "a hold for the CEO that the CEO does not hear of");
    }
    if task.stage == Stage::Ceo {
        assert!(world.inbox.iter().any(|i| i.task == task.id && i.decision.is_none()), "the CEO does not hear of it");
    }
    let open = world.inbox.iter().filter(|i| i.task == task.id && i.decision.is_none()).count();
    assert!(!task.stage.is_terminal() || open == 0, "an ended task still asks the CEO");
    somebody_is_next(world, task);
}

fn right_is_sound(world: &World, task: &Task) {
    let Some(lease) = &task.ownership.lease else { return };
    assert!(task.hold.is_none(), "a held task has a live right");
    let holder = world.roster.agent(lease.holder).unwrap();
    let role = match task.stage {
        Stage::Gate => Role::PrReviewer,
        Stage::Ready | Stage::Revision if task.shape == Shape::Root => Role::MainPm,
        Stage::Ready | Stage::Revision if task.shape == Shape::CellParent => Role::CellPm,
        Stage::Working if task.shape.is_assembled() => panic!("somebody holds a right in assembled work"),
        Stage::Ready | Stage::Working | Stage::SelfCheck | Stage::Revision => Role::Developer,
        Stage::Qa => Role::Qa,
        Stage::Docs => Role::Documenter,
        other => panic!("somebody holds a right in {other}"),
    };
    assert_eq!(holder.role, role, "a right in the wrong hands");
    if role == Role::PrReviewer {
        assert!(roboco_domain::next::reviews(Some(holder), task), "reviewed by somebody else's reviewer");
    } else {
        assert_eq!(holder.team, task.team, "a right in the wrong cell");
    }
    assert_eq!(world.spawns.get(&lease.spawn).map(|s| s.agent), Some(lease.holder), "a right without its run");
    if role == Role::Developer {
        assert_eq!(task.ownership.assignee, Some(lease.holder));
        let rights = world.tasks.values().filter(|t| t.ownership.lease.as_ref().is_some_and(|l| l.holder == holder.id)).count();
        assert!(rights <= 1, "{} works on {rights} tasks at once", holder.slug);
        if matches!(task.stage, Stage::Ready) {
            assert!(task.depends_on.iter().all(|d| world.tasks[d].stage.is_terminal()), "claimed before its prerequisites ended");
        }
    }
    let writes = matches!(role, Role::Developer | Role::CellPm | Role::MainPm);
    assert!(writes || !task.ownership.authors.contains(&holder.id), "somebody judges or documents what they wrote");
}

/// Somebody can move every task that has not ended, or something that comes by itself does.
pub(crate) fn somebody_is_next(world: &World, task: &Task) {
    let dependencies: Vec<TaskBrief> = task.depends_on.iter().filter_map(|d| world.tasks.get(d)).map(|t| TaskBrief::from(&**t)).collect();
    match next_actor(task, &dependencies, &world.roster) {
        NextActor::Nobody => assert!(task.stage.is_terminal()),
        NextActor::Agents(agents, verb) => {
            assert!(!agents.is_empty(), "nobody is next");
            for agent in agents {
                let role = world.roster.agent(agent).unwrap().role;
                let fits = world.rules.of(verb, role).any(|r| r.matches(task));
                assert!(fits, "{role} is asked for {verb} on {} in {} with {:?}", task.number, task.stage, task.hold);
            }
        }
        NextActor::Company => {
            assert_eq!(roboco_domain::assembly::standing(task), roboco_domain::assembly::Standing::Whole);
        }
        NextActor::Ceo(words) => {
            assert!(!words.is_empty());
            let lifts = [Verb::Activate, Verb::Approve, Verb::Resume, Verb::Unblock];
            let fits = lifts.iter().any(|v| world.rules.of(*v, Role::Ceo).any(|r| r.matches(task)));
            assert!(
                fits || matches!(task.hold, Some(Hold::Budget { .. })),
                "the CEO can do nothing about {} in {}",
                task.number,
                task.stage
            );
        }
        NextActor::Waits(Wait::Effect(kind)) => {
            let pending = task.pending(kind).expect("an effect it waits for is under way");
            assert!(world.open.iter().any(|i| i.intent == pending.intent), "it waits for an effect that nobody works on");
        }
        NextActor::Waits(Wait::Dependencies(open) | Wait::Parts(open)) => assert!(!open.is_empty()),
        NextActor::Waits(other) => panic!("a leaf waits for {other}"),
    }
}
