//! The dispatch plan: which runs to start, which to stop, and why everything else waits. Pure; the supervisor only carries it out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::id::{AgentId, SpawnId, TaskId};
use crate::next::{NextActor, Wait, next_actor, turn_order};
use crate::role::Role;
use crate::roster::Roster;
use crate::spawn::Spawn;
use crate::task::{Hold, PausedBy, PausedRun, Stage, Task, TaskBrief};
use crate::time::Timestamp;
use crate::verb::Verb;

/// How long the turn of a run may still take after its task was paused.
pub const PAUSE_GRACE: Duration = Duration::from_secs(60);

/// What the company allows right now.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Runs at the same time.
    pub max_spawns: usize,
    /// Why nothing new may start; absent when it may.
    pub stopped: Option<String>,
    /// Providers that refuse, and until when.
    pub parked: BTreeMap<String, Timestamp>,
    /// Which provider an agent uses; agents without a row use [`Policy::default_provider`].
    pub routes: BTreeMap<AgentId, String>,
    /// For everybody else.
    pub default_provider: String,
}

impl Policy {
    /// The provider an agent uses.
    pub fn provider(&self, agent: AgentId) -> &str {
        self.routes.get(&agent).map_or(&self.default_provider, String::as_str)
    }
}

/// What the plan looks at.
#[derive(Debug, Clone)]
pub struct PlanInput<'a> {
    /// The moment.
    pub now: Timestamp,
    /// Who exists.
    pub roster: &'a Roster,
    /// Every open task.
    pub tasks: &'a [Arc<Task>],
    /// Every run that has not ended.
    pub spawns: &'a [Spawn],
    /// Prerequisites that are not among the open tasks have ended.
    pub policy: &'a Policy,
}

/// A run to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// For which task.
    pub task: TaskId,
    /// Who.
    pub agent: AgentId,
    /// The verb its brief offers first.
    pub verb: Verb,
}

/// When a run that must end does so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Now; it gets only the usual time to drain.
    AtOnce,
    /// When its turn is over. Should that take longer than allowed, a later plan says [`Manner::AtOnce`]; should the reason vanish before,
    /// the run no longer stands in the plan and goes on.
    AfterTurn,
}

/// A run to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// Why, in words for its record.
    pub reason: String,
    /// When.
    pub manner: Manner,
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.reason)
    }
}

/// What to do now, and when to look again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Runs to start, most urgent first.
    pub start: Vec<Start>,
    /// Runs to stop, why and when.
    pub stop: Vec<(SpawnId, Stop)>,
    /// Assembled work whose parts are all done, to be handed in.
    pub submit: Vec<TaskId>,
    /// Leases that ran out.
    pub expire: Vec<TaskId>,
    /// Why a task does not move.
    pub waiting: Vec<(TaskId, Wait)>,
    /// When something will change by itself.
    pub next_look: Option<Timestamp>,
}

impl Plan {
    fn look_at(&mut self, at: Timestamp) {
        self.next_look = Some(self.next_look.map_or(at, |known| known.min(at)));
    }
}

/// Makes the plan. Total over every task: each is started, running, waiting with a reason, the CEO's, or over.
pub fn plan(input: &PlanInput<'_>) -> Plan {
    let mut plan = Plan::default();
    let by_id: BTreeMap<TaskId, &Arc<Task>> = input.tasks.iter().map(|t| (t.id, t)).collect();
    let mut busy: BTreeSet<AgentId> = input.spawns.iter().map(|s| s.agent).collect();
    let mut running = input.spawns.len();
    for spawn in input.spawns {
        let task = by_id.get(&spawn.task).map(|t| &***t);
        let above = task.and_then(|t| set_aside_above(t, &by_id));
        if let Some(reason) = reason_to_stop(task, above, spawn) {
            let turn_ends_by = above.or(task).and_then(turn_ends_by).filter(|at| *at > input.now);
            if let Some(at) = turn_ends_by {
                plan.look_at(at);
            }
            let manner = if turn_ends_by.is_some() { Manner::AfterTurn } else { Manner::AtOnce };
            plan.stop.push((spawn.id, Stop { reason: reason.to_owned(), manner }));
        }
    }
    let mut order: Vec<&Arc<Task>> = input.tasks.iter().collect();
    order.sort_by_key(|t| turn_order(t));
    for task in order {
        let live: Vec<&Spawn> = input.spawns.iter().filter(|s| s.task == task.id).collect();
        expire_lease(&mut plan, task, &live, input.now);
        let dependencies: Vec<TaskBrief> = task.depends_on.iter().filter_map(|id| by_id.get(id)).map(|t| TaskBrief::from(&***t)).collect();
        if let Some(above) = set_aside_above(task, &by_id) {
            plan.waiting.push((task.id, Wait::Above(above.number)));
            continue;
        }
        let (agents, verb) = match next_actor(task, &dependencies, input.roster) {
            NextActor::Agents(agents, verb) => (agents, verb),
            NextActor::Waits(wait) => {
                plan.waiting.push((task.id, wait));
                continue;
            }
            NextActor::Company => {
                // Its PM may still be giving out parts.
                if live.is_empty() {
                    plan.submit.push(task.id);
                }
                continue;
            }
            NextActor::Ceo(_) | NextActor::Nobody => continue,
        };
        match choose(input, task, &live, &agents, &busy, running) {
            Choice::Runs => {}
            Choice::Waits(wait) => {
                if let Wait::CoolDown(at) | Wait::Provider(_, at) = &wait {
                    plan.look_at(*at);
                }
                plan.waiting.push((task.id, wait));
            }
            Choice::Start(agent) => {
                busy.insert(agent);
                running += 1;
                plan.start.push(Start { task: task.id, agent, verb });
            }
        }
    }
    plan
}

enum Choice {
    Runs,
    Waits(Wait),
    Start(AgentId),
}

fn choose(input: &PlanInput<'_>, task: &Task, live: &[&Spawn], agents: &[AgentId], busy: &BTreeSet<AgentId>, running: usize) -> Choice {
    if live.iter().any(|s| agents.contains(&s.agent) && s.closed_by.is_none()) {
        return Choice::Runs;
    }
    // A run that closed its part but has not ended yet keeps its own seat, not the task.
    let policy = input.policy;
    if let Some(until) = task.meter.not_before.filter(|at| *at > input.now) {
        return Choice::Waits(Wait::CoolDown(until));
    }
    let free: Vec<AgentId> = agents.iter().copied().filter(|a| !busy.contains(a) && !works_elsewhere(input, task, *a)).collect();
    if free.is_empty() {
        let stopping = live.iter().any(|s| agents.contains(&s.agent));
        return Choice::Waits(if stopping { Wait::Stopping } else { Wait::SeatBusy });
    }
    let parked = |agent: &AgentId| policy.parked.get(policy.provider(*agent)).copied().filter(|until| *until > input.now);
    let Some(agent) = free.iter().copied().find(|a| parked(a).is_none()) else {
        let (name, until) = free
            .iter()
            .filter_map(|a| parked(a).map(|until| (policy.provider(*a).to_owned(), until)))
            .min_by_key(|(_, until)| *until)
            .unwrap_or_default();
        return Choice::Waits(Wait::Provider(name, until));
    };
    if let Some(why) = &policy.stopped {
        return Choice::Waits(Wait::Dispatch(why.clone()));
    }
    if running >= policy.max_spawns {
        return Choice::Waits(Wait::Capacity);
    }
    Choice::Start(agent)
}

/// A developer with a task in hand, or set aside, is not given another. Between several that it has started already only a live right
/// decides, or each would wait for the other.
fn works_elsewhere(input: &PlanInput<'_>, task: &Task, agent: AgentId) -> bool {
    if input.roster.agent(agent).is_none_or(|a| a.role != Role::Developer) {
        return false;
    }
    let starts = matches!(task.stage, Stage::Ready | Stage::Revision) && task.hold.is_none();
    input.tasks.iter().filter(|t| t.id != task.id).any(|t| {
        let owns = t.ownership.assignee == Some(agent);
        match &t.hold {
            None => {
                let holds = t.live_lease(input.now).is_some_and(|l| l.holder == agent);
                holds || (starts && owns && matches!(t.stage, Stage::Working | Stage::SelfCheck))
            }
            Some(Hold::Paused { by: PausedBy::Agent, .. }) => starts && owns,
            Some(Hold::Paused { by: PausedBy::Human, .. } | Hold::Blocked { .. } | Hold::Budget { .. }) => false,
        }
    })
}

fn expire_lease(plan: &mut Plan, task: &Task, live: &[&Spawn], now: Timestamp) {
    let Some(lease) = &task.ownership.lease else { return };
    if live.iter().any(|s| s.id == lease.spawn) {
        return;
    }
    if lease.expires_at <= now {
        plan.expire.push(task.id);
    } else {
        plan.look_at(lease.expires_at);
    }
}

/// Until when the turn of a run may last; none when nothing is worth waiting for.
fn turn_ends_by(task: &Task) -> Option<Timestamp> {
    match &task.hold {
        // Nothing is wrong with the work: cut off in the middle of a thought, the conversation would be of less use to the run that goes on.
        Some(Hold::Paused { since, run: PausedRun::EndsTurn, .. }) => Some(since.after(PAUSE_GRACE)),
        Some(Hold::Paused { run: PausedRun::Stops, .. } | Hold::Blocked { .. } | Hold::Budget { .. }) | None => None,
    }
}

/// The nearest work above a task that was set aside as a whole: nothing below it moves.
fn set_aside_above<'a>(task: &Task, by_id: &BTreeMap<TaskId, &'a Arc<Task>>) -> Option<&'a Task> {
    let mut above = task.parent.and_then(|id| by_id.get(&id));
    while let Some(task) = above {
        if task.hold.as_ref().is_some_and(Hold::stops_parts) {
            return Some(task);
        }
        above = task.parent.and_then(|id| by_id.get(&id));
    }
    None
}

/// Why a run must end; none while it may go on.
fn reason_to_stop(task: Option<&Task>, above: Option<&Task>, spawn: &Spawn) -> Option<&'static str> {
    if spawn.closed_by.is_some() {
        // It has closed its part; whoever watches it gives it time to end.
        return None;
    }
    let Some(task) = task else {
        return Some("its task has ended");
    };
    if task.stage.is_terminal() {
        return Some("its task has ended");
    }
    if above.is_some() {
        return Some("the work it belongs to was set aside");
    }
    match &task.hold {
        Some(hold) if lifts(spawn.verb, hold) => None,
        Some(Hold::Paused { .. }) => Some("its task was paused"),
        Some(Hold::Blocked { .. }) => Some("its task is blocked"),
        Some(Hold::Budget { .. }) => Some("its task is over its budget"),
        None if task.pending.iter().any(|p| p.kind != crate::task::PendingKind::Land) => None,
        None => {
            let holds = task.ownership.lease.as_ref().is_some_and(|l| l.spawn == spawn.id);
            let held_by_other = task.ownership.lease.as_ref().is_some_and(|l| l.holder != spawn.agent);
            let fits = offered_in(spawn.verb).contains(&task.stage) && !held_by_other;
            (!holds && !fits).then_some("its part is over")
        }
    }
}

/// Whether a run was started to lift this hold. One that was started to lift an earlier one is like any other.
const fn lifts(verb: Verb, hold: &Hold) -> bool {
    match hold {
        Hold::Blocked { .. } => matches!(verb, Verb::Unblock | Verb::EscalateToCeo),
        Hold::Paused { by: PausedBy::Agent, .. } => matches!(verb, Verb::Resume),
        Hold::Paused { by: PausedBy::Human, .. } | Hold::Budget { .. } => false,
    }
}

/// The stages in which a brief that offers this verb still makes sense.
const fn offered_in(verb: Verb) -> &'static [Stage] {
    match verb {
        Verb::IWillWorkOn | Verb::Resume => &[Stage::Ready, Stage::Revision, Stage::Working, Stage::SelfCheck, Stage::Qa, Stage::Docs],
        Verb::IWillPlan => &[Stage::Ready, Stage::Revision, Stage::Working],
        Verb::ClaimReview => &[Stage::Qa],
        Verb::ClaimGateReview => &[Stage::Gate],
        Verb::ClaimDocTask => &[Stage::Docs],
        Verb::Complete => &[Stage::PmReview],
        Verb::Activate => &[Stage::Backlog],
        _ => Stage::ALL,
    }
}
