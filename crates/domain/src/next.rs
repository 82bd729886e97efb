//! Who acts next: a total function over every task. Dispatch, work selection, hints and the panel all ask this one.

use crate::assembly::{Standing, standing};
use crate::id::{AgentId, TaskNumber};
use crate::role::{Role, Team};
use crate::roster::{Agent, GateTier, Retired, Roster};
use crate::task::{Hold, PausedBy, PendingKind, Resolver, Shape, Stage, Task, TaskBrief};
use crate::time::Timestamp;
use crate::verb::Verb;

/// A wait that changes nothing in the task's row and ends by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// Prerequisites are open.
    Dependencies(Vec<TaskNumber>),
    /// Parts of it are being delivered.
    Parts(Vec<TaskNumber>),
    /// Work it belongs to is set aside.
    Above(TaskNumber),
    /// An effect is under way.
    Effect(PendingKind),
    /// It cools down after fruitless runs.
    CoolDown(Timestamp),
    /// All fitting seats are taken.
    SeatBusy,
    /// The provider refuses until then.
    Provider(String, Timestamp),
    /// The company runs as many agents as it may.
    Capacity,
    /// Nothing new is started at all.
    Dispatch(String),
    /// An earlier run for it has not ended yet.
    Stopping,
    /// A table of this version has no rows for its shape.
    Shape(Shape),
}

impl std::fmt::Display for Wait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Dependencies(tasks) => {
                write!(f, "waits for {}", tasks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
            }
            Self::Parts(tasks) => {
                write!(f, "waits for its parts {}", tasks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
            }
            Self::Above(task) => write!(f, "{task}, which it belongs to, is set aside"),
            Self::Effect(kind) => write!(f, "{kind} is under way"),
            Self::CoolDown(_) => f.write_str("cools down after runs without a result"),
            Self::SeatBusy => f.write_str("every fitting agent is busy"),
            Self::Provider(name, _) => write!(f, "provider {name} refuses for now"),
            Self::Capacity => f.write_str("as many agents run as may"),
            Self::Dispatch(why) => write!(f, "nothing new is started: {why}"),
            Self::Stopping => f.write_str("an earlier run is still being stopped"),
            Self::Shape(shape) => write!(f, "shape {shape} is not delivered by this version"),
        }
    }
}

/// Whose turn it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextActor {
    /// One of these agents, preferred first, with this verb.
    Agents(Vec<AgentId>, Verb),
    /// The company itself: every part is done, so the whole is handed in.
    Company,
    /// The CEO, with these words.
    Ceo(String),
    /// Nobody: it waits for something that comes by itself.
    Waits(Wait),
    /// Nobody: it has ended.
    Nobody,
}

/// Whose turn it is.
pub fn next_actor(task: &Task, dependencies: &[TaskBrief], roster: &Roster) -> NextActor {
    if task.stage.is_terminal() {
        return NextActor::Nobody;
    }
    if let Some(hold) = &task.hold {
        return held(task, hold, roster);
    }
    if let Some(pending) = task.pending.first() {
        return NextActor::Waits(Wait::Effect(pending.kind));
    }
    if !Shape::DELIVERED.contains(&task.shape) {
        return NextActor::Waits(Wait::Shape(task.shape));
    }
    let whole = task.shape.is_assembled();
    match task.stage {
        // What a PM set aside while splitting its work is the PM's to release; what the CEO set aside is nobody else's.
        Stage::Backlog if task.shape.is_part() => {
            one(roster.pm_of(&task.team).map(|a| a.id), Verb::Activate, "release it from the backlog: the cell has no PM")
        }
        Stage::Backlog => NextActor::Ceo(format!("release {} from the backlog", task.number)),
        Stage::Ready => {
            let open: Vec<_> = dependencies.iter().filter(|d| !d.stage.is_terminal()).map(|d| d.number).collect();
            if !open.is_empty() {
                NextActor::Waits(Wait::Dependencies(open))
            } else if whole {
                planner(task, roster, Verb::IWillPlan)
            } else {
                NextActor::Agents(authors(task, roster), Verb::IWillWorkOn)
            }
        }
        Stage::Working if whole => match standing(task) {
            Standing::Open(parts) => NextActor::Waits(Wait::Parts(parts)),
            Standing::Unplanned(_) | Standing::Objections | Standing::Unchanged => planner(task, roster, Verb::IWillPlan),
            Standing::Whole => NextActor::Company,
        },
        Stage::Revision if whole => planner(task, roster, Verb::IWillPlan),
        Stage::Working | Stage::SelfCheck | Stage::Revision => NextActor::Agents(authors(task, roster), Verb::IWillWorkOn),
        Stage::Qa => reviewers(task, roster, Role::Qa, Verb::ClaimReview),
        Stage::Docs => reviewers(task, roster, Role::Documenter, Verb::ClaimDocTask),
        Stage::Gate => reviewers(task, roster, Role::PrReviewer, Verb::ClaimGateReview),
        Stage::PmReview => planner(task, roster, Verb::Complete),
        Stage::Ceo => NextActor::Ceo(format!("approve or reject {}", task.number)),
        Stage::Done | Stage::Cancelled => NextActor::Nobody,
    }
}

/// The PM who answers for it.
fn planner(task: &Task, roster: &Roster, verb: Verb) -> NextActor {
    let pm = task.ownership.assignee.filter(|a| roster.is_working(*a)).or_else(|| roster.pm_of(&task.team).map(|a| a.id));
    one(pm, verb, "decide about it: there is no PM for it")
}

/// Whether a seat reviews this assembled work: its own cell's or any cell's, or roots.
pub fn reviews(seat: Option<&Agent>, task: &Task) -> bool {
    let Some(gate) = seat.filter(|s| s.role == Role::PrReviewer).and_then(|s| s.gate) else { return false };
    match (task.shape, gate) {
        (Shape::Root, GateTier::Root) | (Shape::CellParent, GateTier::Overflow) => true,
        (Shape::CellParent, GateTier::Cell) => seat.is_some_and(|s| s.team == task.team),
        _ => false,
    }
}

/// The order in which tasks get their turn: the most urgent first, then what has stood longest.
pub fn turn_order(task: &Task) -> (u8, Timestamp, TaskNumber) {
    (task.priority, task.stage_since, task.number)
}

/// The order in which an agent that asks is offered its tasks: what it has started goes before what it has not.
pub fn offer_order(task: &Task, agent: AgentId) -> (bool, (u8, Timestamp, TaskNumber)) {
    (task.ownership.assignee != Some(agent), turn_order(task))
}

fn one(agent: Option<AgentId>, verb: Verb, ceo: &str) -> NextActor {
    agent.map_or_else(|| NextActor::Ceo(ceo.to_owned()), |a| NextActor::Agents(vec![a], verb))
}

/// The task's own author alone, or every developer of its cell.
fn authors(task: &Task, roster: &Roster) -> Vec<AgentId> {
    match task.ownership.assignee.filter(|a| roster.is_working(*a)) {
        Some(agent) => vec![agent],
        None => roster.seats(Role::Developer, &task.team).map(|a| a.id).collect(),
    }
}

/// The holder of the lease first, then those who usually judge it; never anybody who wrote it.
fn reviewers(task: &Task, roster: &Roster, role: Role, verb: Verb) -> NextActor {
    let judges = matches!(role, Role::Qa | Role::PrReviewer);
    let banned = |agent: AgentId| task.ownership.authors.contains(&agent) || (judges && task.ownership.committers.contains(&agent));
    let holder = task.ownership.lease.as_ref().map(|l| l.holder).filter(|a| roster.is_working(*a));
    let mut agents: Vec<AgentId> = holder.into_iter().collect();
    let mut seats: Vec<&Agent> = if role == Role::PrReviewer {
        roster.agents().iter().filter(|a| a.retired == Retired::No && reviews(Some(a), task)).collect()
    } else {
        roster.seats(role, &task.team).collect()
    };
    seats.sort_by_key(|a| a.gate == Some(GateTier::Overflow));
    agents.extend(seats.iter().map(|a| a.id).filter(|a| Some(*a) != holder && !banned(*a)));
    if agents.is_empty() {
        return NextActor::Ceo(format!("find somebody else for {}: nobody in role {role} may judge it", task.number));
    }
    NextActor::Agents(agents, verb)
}

fn held(task: &Task, hold: &Hold, roster: &Roster) -> NextActor {
    match hold {
        Hold::Paused { by: PausedBy::Human, .. } => NextActor::Ceo(format!("resume {}", task.number)),
        Hold::Paused { by: PausedBy::Agent, .. } => resumer(task, roster),
        Hold::Blocked { resolver: Resolver::CellPm, .. } => {
            one(roster.pm_of(&task.team).map(|a| a.id), Verb::Unblock, "unblock it: the cell has no PM")
        }
        Hold::Blocked { resolver: Resolver::MainPm, .. } => {
            one(roster.sole(Role::MainPm).map(|a| a.id), Verb::Unblock, "unblock it: there is no main PM")
        }
        Hold::Blocked { resolver: Resolver::Human, text, .. } => NextActor::Ceo(text.clone()),
        Hold::Budget { scope, .. } => NextActor::Ceo(format!("raise the budget of {scope}")),
    }
}

fn resumer(task: &Task, roster: &Roster) -> NextActor {
    let by_stage = |role: Role, team: &Team| roster.seats(role, team).next().map(|a| a.id);
    let agent = match task.stage {
        Stage::Qa => by_stage(Role::Qa, &task.team),
        Stage::Docs => by_stage(Role::Documenter, &task.team),
        _ => task.ownership.assignee.filter(|a| roster.is_working(*a)),
    };
    one(agent, Verb::Resume, &format!("resume {}", task.number))
}
