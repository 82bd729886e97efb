//! The model: who can do what in a state, and what must be true of all states.

use std::collections::{BTreeSet, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};

use roboco_domain::command::{Actor, SystemCommand};
use roboco_domain::id::AgentId;
use roboco_domain::outcome::Outcome;
use roboco_domain::role::Role;
use roboco_domain::rules::verbs_for;
use roboco_domain::task::Stage;
use roboco_domain::verb::Verb;
use stateright::{Model, Property};

use crate::company::{Company, Luck};
use crate::monitor;
use crate::rollout::{Ends, mark};
use crate::view::View;
use crate::words::Wording;

/// How far the model goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bound {
    /// Times it may be sent back.
    pub rounds: u32,
    /// Runs that die without a word.
    pub crashes: u8,
    /// Effects that do not succeed.
    pub failures: u8,
    /// Holds that agents or the CEO raise.
    pub holds: u8,
    /// Times work is given back, idled away or given to somebody else.
    pub returns: u8,
    /// All of these but rounds together.
    pub mishaps: u8,
}

impl Bound {
    /// Whether one more of a kind may happen.
    const fn may(self, kind: Mishap) -> bool {
        self.mishaps > 0
            && match kind {
                Mishap::Crash => self.crashes > 0,
                Mishap::Failure => self.failures > 0,
                Mishap::Hold => self.holds > 0,
                Mishap::Return => self.returns > 0,
            }
    }

    /// What is left after one more of a kind.
    #[must_use]
    const fn after(self, kind: Mishap) -> Self {
        let mut left = self;
        left.mishaps = left.mishaps.saturating_sub(1);
        match kind {
            Mishap::Crash => left.crashes = left.crashes.saturating_sub(1),
            Mishap::Failure => left.failures = left.failures.saturating_sub(1),
            Mishap::Hold => left.holds = left.holds.saturating_sub(1),
            Mishap::Return => left.returns = left.returns.saturating_sub(1),
        }
        left
    }
}

/// What may go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mishap {
    Crash,
    Failure,
    Hold,
    Return,
}

/// Which mishap a verb is; accepted, it uses one up.
const fn mishap(verb: Verb) -> Option<Mishap> {
    match verb {
        Verb::IAmBlocked | Verb::Pause | Verb::EscalateUp | Verb::EscalateToCeo => Some(Mishap::Hold),
        Verb::Unclaim | Verb::IAmIdle | Verb::Reassign => Some(Mishap::Return),
        _ => None,
    }
}

/// One leaf and everybody around it.
#[derive(Debug)]
pub struct Leaf {
    /// Where it starts.
    pub starts: Vec<Company>,
    /// How far it goes.
    pub bound: Bound,
    /// What is known about ends.
    pub ends: Ends,
    /// Views that were looked at from all sides.
    sound: Mutex<HashSet<u64>>,
    /// Which role was heard with which verb, somewhere.
    heard: Mutex<BTreeSet<(Verb, Role)>>,
}

/// A state: the company, what may still go wrong, and what already did.
#[derive(Debug, Clone)]
pub struct State {
    /// Everything.
    pub company: Arc<Company>,
    left: Bound,
    /// A sentence the monitor found broken.
    pub fault: Option<String>,
    view: Arc<View>,
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.left == other.left && self.fault == other.fault && self.view == other.view
    }
}

impl Eq for State {}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.left.hash(state);
        self.fault.hash(state);
        self.view.hash(state);
    }
}

/// What can happen next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The plan's run starts.
    Start(AgentId, Verb),
    /// An agent calls, through its run.
    Call(AgentId, Verb),
    /// The CEO decides.
    Ceo(Verb),
    /// An effect comes to something.
    Settle(usize, Luck),
    /// A closed run ends.
    End(AgentId),
    /// A run dies.
    Crash(AgentId),
    /// The plan stops a run.
    Stop(AgentId),
    /// Nobody renewed the right.
    Expire,
}

impl Leaf {
    /// A model of a leaf that starts in any of these states.
    pub fn new(starts: Vec<Company>, bound: Bound) -> Self {
        Self { starts, bound, ends: Ends::default(), sound: Mutex::new(HashSet::new()), heard: Mutex::new(BTreeSet::new()) }
    }

    /// Looks at a state from all sides; states that differ only in what may still go wrong are looked at once.
    ///
    /// Returns the first sentence that is broken.
    pub fn verdict(&self, state: &State) -> Option<String> {
        let mark = self::mark(&*state.view);
        if self.sound.lock().is_ok_and(|sound| sound.contains(&mark)) {
            return None;
        }
        let company = &*state.company;
        let outside = self::mark(&("outside", state.view.from_outside()));
        let strangers_known = self.sound.lock().is_ok_and(|sound| sound.contains(&outside));
        let others = || {
            if strangers_known {
                return None;
            }
            let mut heard = |verb, role| self.hear(verb, role);
            monitor::strangers_change_nothing(company).or_else(|| monitor::colleagues_are_heard_in_turn(company, &mut heard))
        };
        let broken = monitor::somebody_is_next(company)
            .or_else(|| monitor::ghosts_are_silent(company))
            .or_else(others)
            .or_else(|| monitor::careless_calls(company));
        if broken.is_none()
            && let Ok(mut sound) = self.sound.lock()
        {
            sound.extend([mark, outside]);
        }
        broken
    }

    fn hear(&self, verb: Verb, role: Role) {
        if let Ok(mut all) = self.heard.lock() {
            all.insert((verb, role));
        }
    }

    /// Which role was heard with which verb so far.
    pub fn heard(&self) -> BTreeSet<(Verb, Role)> {
        self.heard.lock().map(|heard| heard.clone()).unwrap_or_default()
    }

    fn state(company: Company, left: Bound, fault: Option<String>) -> State {
        let fault = fault.or_else(|| monitor::unsound(&company));
        let view = Arc::new(View::of(&company));
        State { company: Arc::new(company), left, fault, view }
    }
}

/// What an agent or the CEO may still try, by verb.
fn allowed(left: Bound, verb: Verb) -> bool {
    match verb {
        Verb::Fail | Verb::RequestChanges | Verb::Reject => left.rounds > 0,
        // They change nothing the rules look at.
        Verb::Note | Verb::Evidence | Verb::GiveMeWork | Verb::CreateTask => false,
        _ => mishap(verb).is_none_or(|kind| left.may(kind)),
    }
}

fn spent(left: Bound, verb: Verb) -> Bound {
    match verb {
        Verb::Fail | Verb::RequestChanges | Verb::Reject => Bound { rounds: left.rounds.saturating_sub(1), ..left },
        _ => mishap(verb).map_or(left, |kind| left.after(kind)),
    }
}

/// A call, watched: accepted or refused, it must be right.
fn watched(state: &State, actor: &Actor, verb: Verb) -> Option<State> {
    let before = &*state.company;
    match before.call(actor.clone(), verb, Wording::Full) {
        Ok((after, decision)) => {
            let fault = monitor::accepted(before, &after, actor, verb, Wording::Full, &decision);
            if decision.is_empty() && fault.is_none() && after.spawns == before.spawns {
                return None;
            }
            let left = spent(state.left, verb);
            Some(Leaf::state(only_one_lingers(after, actor.agent()), left, fault))
        }
        Err(rejection) => monitor::refused(before, actor, &rejection).map(|fault| Leaf::state(before.clone(), state.left, Some(fault))),
    }
}

/// Runs that closed their part end before another one closes; how long a client takes to end is not of interest here.
fn only_one_lingers(company: Company, newest: AgentId) -> Company {
    let closed = company.spawns.values().filter(|s| s.closed_by.is_some() && s.agent != newest).map(|s| s.id).collect::<Vec<_>>();
    let newest_closed = company.run_of(newest).is_some_and(|s| s.closed_by.is_some());
    closed.into_iter().filter(|_| newest_closed).fold(company, |company, spawn| {
        let verb = company.spawns.get(&spawn).and_then(|s| s.closed_by).map(|v| v.to_string()).unwrap_or_default();
        company.end(spawn, Outcome::Completed { verb }).unwrap_or(company)
    })
}

impl Model for Leaf {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        self.starts.iter().map(|company| Self::state(company.clone(), self.bound, None)).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let company = &*state.company;
        if state.fault.is_some() {
            return;
        }
        let plan = company.plan();
        actions.extend(plan.start.iter().map(|s| Action::Start(s.agent, s.verb)));
        let stopped = plan.stop.iter().filter_map(|(id, _)| company.spawns.get(id)).map(|s| Action::Stop(s.agent));
        actions.extend(stopped);
        for run in company.spawns.values() {
            let Some(role) = company.roster.agent(run.agent).map(|a| a.role) else { continue };
            for verb in verbs_for(&company.rules, role, &company.task).into_iter().filter(|v| allowed(state.left, *v)) {
                actions.push(Action::Call(run.agent, verb));
            }
            if run.closed_by.is_some() {
                actions.push(Action::End(run.agent));
            } else if state.left.may(Mishap::Crash) {
                actions.push(Action::Crash(run.agent));
            }
        }
        for verb in [Verb::Activate, Verb::Approve, Verb::Reject, Verb::Resume, Verb::Unblock, Verb::Pause, Verb::Cancel] {
            if allowed(state.left, verb) {
                actions.push(Action::Ceo(verb));
            }
        }
        for n in 0..company.open.len() {
            actions.push(Action::Settle(n, Luck::Good));
            if state.left.may(Mishap::Failure) {
                actions.extend([Luck::Refused, Luck::Broken, Luck::Code].map(|luck| Action::Settle(n, luck)));
            }
        }
        let unused = company.task.ownership.lease.as_ref().is_some_and(|l| !company.spawns.contains_key(&l.spawn));
        actions.extend(unused.then_some(Action::Expire));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let company = &*state.company;
        let mut left = state.left;
        let plain = |company: Option<Company>, left: Bound| company.map(|c| Self::state(c, left, None));
        match action {
            Action::Start(agent, verb) => match company.start(agent, verb) {
                Some(next) => Some(Self::state(next, left, None)),
                None => Some(Self::state(company.clone(), left, Some("what was planned could not be started".into()))),
            },
            Action::Call(agent, verb) => {
                let actor = company.speaker(company.run_of(agent)?)?;
                let next = watched(state, &actor, verb);
                if next.as_ref().is_some_and(|n| n.fault.is_none()) {
                    self.hear(verb, actor.role());
                }
                next
            }
            Action::Ceo(verb) => watched(state, &company.ceo()?, verb),
            Action::Settle(n, luck) => {
                if luck != Luck::Good {
                    left = left.after(Mishap::Failure);
                }
                let intended = company.open.get(n)?;
                let (next, decision) = company.settle(intended, luck)?;
                let fault = monitor::settled(company, &next, &decision);
                Some(Self::state(next, left, fault))
            }
            Action::End(agent) => {
                let run = company.run_of(agent)?;
                let verb = run.closed_by?.to_string();
                plain(company.end(run.id, Outcome::Completed { verb }), left)
            }
            Action::Crash(agent) => plain(company.end(company.run_of(agent)?.id, Outcome::Lost), left.after(Mishap::Crash)),
            Action::Stop(agent) => {
                let spawn = company.run_of(agent)?.id;
                let (revoked, _) = company.by_itself(SystemCommand::RevokeSpawn { spawn, reason: "planned".into() })?;
                plain(revoked.end(spawn, Outcome::Stopped { reason: "planned".into() }), left)
            }
            Action::Expire => plain(company.expire(), left),
        }
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing forbidden happens", |_, s: &State| s.fault.is_none()),
            Property::always("somebody is next, and nobody else is heard", |m: &Self, s: &State| m.verdict(s).is_none()),
            Property::always("an end can be reached", |m: &Self, s: &State| m.ends.reached_from(&s.company)),
            Property::sometimes("it is completed", |_, s: &State| s.company.task.stage == Stage::Done),
            Property::sometimes("it is given up", |_, s: &State| s.company.task.stage == Stage::Cancelled),
            Property::sometimes("it is sent back", |_, s: &State| s.company.task.counters.revisions > 0),
            Property::sometimes("it is held for the CEO", |_, s: &State| {
                s.company.task.hold.as_ref().is_some_and(roboco_domain::task::Hold::is_for_ceo)
            }),
            Property::sometimes("a run inherits a right", |_, s: &State| {
                s.company.task.ownership.lease.as_ref().is_some_and(|l| s.company.ghosts.contains_key(&l.holder))
            }),
        ]
    }
}
