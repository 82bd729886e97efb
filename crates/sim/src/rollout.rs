//! From any state to an end: what cooperative agents, a deciding CEO and a world in which everything succeeds make of it.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use roboco_domain::outcome::Outcome;
use roboco_domain::spawn::Spawn;
use roboco_domain::task::{Hold, Resolver, Stage};
use roboco_domain::verb::Verb;

use crate::company::{Company, Luck};
use crate::view::View;
use crate::words::Wording;

/// A task takes no more moves than this to its end when everybody helps.
pub const MOST_MOVES: usize = 60;

/// States that are known to come to an end, and how far the furthest was.
#[derive(Debug, Default)]
pub struct Ends {
    known: Mutex<HashSet<u64>>,
    longest: AtomicUsize,
}

impl Ends {
    /// The most moves any state was seen to need, counted to the next state that was known already.
    pub fn longest(&self) -> usize {
        self.longest.load(Ordering::Relaxed)
    }

    /// Whether a state comes to an end within [`MOST_MOVES`].
    pub fn reached_from(&self, company: &Company) -> bool {
        let mut seen = Vec::new();
        let mut company = company.clone();
        for moves in 0..MOST_MOVES {
            let mark = mark(&View::of(&company));
            let known = self.known.lock().is_ok_and(|known| known.contains(&mark));
            if known || company.task.stage.is_terminal() {
                self.longest.fetch_max(moves, Ordering::Relaxed);
                if let Ok(mut all) = self.known.lock() {
                    all.extend(seen);
                    all.insert(mark);
                }
                return true;
            }
            seen.push(mark);
            match helpful_move(&company) {
                Some(next) => company = next,
                None => return false,
            }
        }
        false
    }
}

/// A number for a view, or for part of one.
pub(crate) fn mark(view: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    view.hash(&mut hasher);
    hasher.finish()
}

/// One move towards the end; none when nobody can make one.
pub fn helpful_move(company: &Company) -> Option<Company> {
    if let Some(next) = company.open.first() {
        return company.settle(next, Luck::Good).map(|(next, _)| next);
    }
    if let Some(run) = company.spawns.values().find(|s| s.closed_by.is_some()) {
        let outcome = Outcome::Completed { verb: run.closed_by.map(|v| v.to_string()).unwrap_or_default() };
        return company.end(run.id, outcome);
    }
    if let Some(next) = company.spawns.values().find_map(|run| agent_helps(company, run)) {
        return Some(next);
    }
    if let Some(next) = ceo_helps(company) {
        return Some(next);
    }
    let plan = company.plan();
    if let Some(start) = plan.start.first() {
        return company.start(start.agent, start.verb);
    }
    // Runs that have nothing left to do end, and rights that nobody uses run out.
    if let Some(run) = company.spawns.values().next() {
        return company.end(run.id, Outcome::Stopped { reason: "nothing is left to do".into() });
    }
    company.task.ownership.lease.as_ref().and_then(|_| company.expire())
}

fn agent_helps(company: &Company, run: &Spawn) -> Option<Company> {
    let actor = company.speaker(run)?;
    let task = &company.task;
    let holds = task.ownership.lease.as_ref().is_some_and(|l| l.spawn == run.id);
    let verb = match task.stage {
        _ if task.hold.is_some() => run.verb,
        Stage::Working | Stage::SelfCheck if holds && task.delivery.commits.is_empty() => Verb::Commit,
        Stage::Working | Stage::SelfCheck if holds && task.delivery.pr.is_none() => Verb::OpenPr,
        Stage::Working | Stage::SelfCheck if holds => Verb::IAmDone,
        Stage::Working | Stage::SelfCheck | Stage::Ready | Stage::Revision => Verb::IWillWorkOn,
        Stage::Qa if holds && task.review.as_ref().is_some_and(|r| r.passed.is_none() && r.by == run.agent) => Verb::Pass,
        Stage::Qa => Verb::ClaimReview,
        Stage::Docs if holds => Verb::IDocumented,
        Stage::Docs => Verb::ClaimDocTask,
        Stage::PmReview => Verb::Complete,
        Stage::Backlog => Verb::Activate,
        Stage::Gate | Stage::Ceo | Stage::Done | Stage::Cancelled => return None,
    };
    company.call(actor, verb, Wording::Full).ok().map(|(next, _)| next)
}

fn ceo_helps(company: &Company) -> Option<Company> {
    let verb = match (&company.task.hold, company.task.stage) {
        (Some(Hold::Paused { .. }), _) => Verb::Resume,
        (Some(Hold::Blocked { resolver: Resolver::Human, .. }), _) => Verb::Unblock,
        (None, Stage::Ceo) => Verb::Approve,
        (None, Stage::Backlog) => Verb::Activate,
        _ => return None,
    };
    company.call(company.ceo()?, verb, Wording::Full).ok().map(|(next, _)| next)
}
