//! Which states are the same: everything the rules can tell apart, and none of the texts, times and ids they cannot.

use roboco_domain::finding::FindingStatus;
use roboco_domain::id::AgentId;
use roboco_domain::inbox::InboxKind;
use roboco_domain::task::{GateVerdict, Hold, PausedBy, PendingKind, Resolver, Stage};
use roboco_domain::verb::Verb;

use crate::company::Company;

/// A hold without its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeldAs {
    /// Set aside.
    Paused(PausedBy),
    /// For somebody.
    Blocked(Resolver),
    /// For money.
    Budget,
}

/// A run that is not over.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RunView {
    /// Whose.
    pub agent: AgentId,
    /// Offered first.
    pub verb: Verb,
    /// What closed it.
    pub closed_by: Option<Verb>,
    /// Whether its seat hears it.
    pub heard: bool,
}

/// A state as the rules can tell it from others.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct View {
    place: (Stage, Option<HeldAs>),
    owners: (Option<AgentId>, Option<AgentId>, Vec<AgentId>, Vec<AgentId>),
    lease: Option<(AgentId, bool)>,
    written: Written,
    judged: Judged,
    rounds: (u32, u32),
    pending: Vec<(PendingKind, Verb)>,
    open: Vec<(&'static str, bool)>,
    runs: Vec<RunView>,
    inbox: Vec<InboxKind>,
    landed: (bool, bool, bool),
}

/// What the author has done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Written {
    planned: bool,
    cut: bool,
    committed: bool,
    requested: bool,
    evidenced: bool,
    /// Checks of exactly what is there now.
    checked: Option<GateVerdict>,
    open_findings: bool,
    addressed_findings: bool,
}

/// What others have said about it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Judged {
    review: Option<(AgentId, Option<bool>)>,
    /// Whether it was said about what is there now.
    of_this_head: bool,
    documented: bool,
    /// Whether code came in while it was being documented.
    code_since: bool,
}

impl View {
    /// The same without what only those who are at work can tell apart.
    #[must_use]
    pub fn from_outside(&self) -> Self {
        Self { runs: Vec::new(), open: Vec::new(), inbox: Vec::new(), ..self.clone() }
    }

    /// Looks at a company.
    pub fn of(company: &Company) -> Self {
        let task = &company.task;
        let live = |spawn| company.spawns.contains_key(&spawn);
        let status = |wanted| task.findings.iter().any(|f| f.status == wanted);
        let documenting = |c: &&roboco_domain::task::CommitRecord| c.at >= task.stage_since && !task.ownership.authors.contains(&c.by);
        let hold = task.hold.as_ref().map(|hold| match hold {
            Hold::Paused { by, .. } => HeldAs::Paused(*by),
            Hold::Blocked { resolver, .. } => HeldAs::Blocked(*resolver),
            Hold::Budget { .. } => HeldAs::Budget,
        });
        let delivery = &task.delivery;
        let mut open: Vec<_> = company.open.iter().map(|i| (i.effect.kind(), task.pending.iter().any(|p| p.intent == i.intent))).collect();
        open.sort_unstable();
        let runs = company.spawns.values().map(|s| RunView {
            agent: s.agent,
            verb: s.verb,
            closed_by: s.closed_by,
            heard: company.seats.get(&s.agent).is_some_and(|seat| seat.spawn == Some(s.id) && seat.epoch == s.epoch),
        });
        let mut runs: Vec<RunView> = runs.collect();
        runs.sort_by_key(|r| r.agent);
        Self {
            place: (task.stage, hold),
            owners: (task.ownership.assignee, task.ownership.author, sorted(&task.ownership.authors), sorted(&task.ownership.committers)),
            lease: task.ownership.lease.as_ref().map(|l| (l.holder, live(l.spawn))),
            written: Written {
                planned: task.plan.is_some(),
                cut: delivery.head.is_some(),
                committed: !delivery.commits.is_empty(),
                requested: delivery.pr.is_some(),
                evidenced: task.criteria.iter().all(|c| c.evidence.is_some()),
                checked: task.gate.as_ref().filter(|g| Some(&g.tree) == delivery.tree.as_ref()).map(|g| g.verdict),
                open_findings: status(FindingStatus::Open),
                addressed_findings: status(FindingStatus::Addressed),
            },
            judged: Judged {
                review: task.review.as_ref().map(|r| (r.by, r.passed)),
                of_this_head: task.review.as_ref().is_some_and(|r| Some(&r.pin.head) == delivery.head.as_ref()),
                documented: task.docs.is_some(),
                code_since: task.stage == Stage::Docs
                    && delivery.commits.iter().filter(documenting).any(|c| c.files.iter().any(|f| f.ends_with(".rs"))),
            },
            rounds: (task.counters.revisions, task.counters.conflicts.min(2)),
            pending: task.pending.iter().map(|p| (p.kind, p.verb)).collect(),
            open,
            runs,
            inbox: company.inbox.iter().map(|i| i.kind).collect(),
            landed: (delivery.ceo_target, delivery.merged.is_some(), company.approved.is_some() && company.approved == delivery.head),
        }
    }
}

fn sorted(agents: &[AgentId]) -> Vec<AgentId> {
    let mut agents = agents.to_vec();
    agents.sort_unstable();
    agents
}
