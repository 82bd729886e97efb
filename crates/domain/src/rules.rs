//! The one table of legal moves: who may call which verb on which task, and what must be true first.
//!
//! Everything that speaks of permission is derived from it: decisions, manifests, `valid_next_verbs`, prompts, the panel's actions and the docs.

use crate::guard::Guard;
use crate::role::Role;
use crate::task::{Hold, PausedBy, Resolver, Shape, Stage, Task};
use crate::verb::Verb;

/// Which holds a rule tolerates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// None may stand.
    Free,
    /// Only while paused.
    Paused,
    /// Only while blocked.
    Blocked,
    /// Free or blocked.
    FreeOrBlocked,
    /// Does not matter.
    Any,
}

impl Holds {
    const fn allows(self, hold: Option<&Hold>) -> bool {
        match (self, hold) {
            (Self::Any, _)
            | (Self::Free | Self::FreeOrBlocked, None)
            | (Self::Paused, Some(Hold::Paused { .. }))
            | (Self::Blocked | Self::FreeOrBlocked, Some(Hold::Blocked { .. })) => true,
            (Self::Free, Some(_))
            | (Self::Paused, None | Some(Hold::Blocked { .. } | Hold::Budget { .. }))
            | (Self::Blocked | Self::FreeOrBlocked, Some(Hold::Paused { .. } | Hold::Budget { .. }))
            | (Self::Blocked, None) => false,
        }
    }
}

/// One legal move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What is called.
    pub verb: Verb,
    /// By whom.
    pub roles: &'static [Role],
    /// On which kinds of task; empty for verbs that name none.
    pub shapes: &'static [Shape],
    /// From where.
    pub from: &'static [Stage],
    /// Under which holds.
    pub holds: Holds,
    /// What must be true, checked in the order of [`Guard::category`].
    pub guards: &'static [Guard],
}

/// A table of rules. Production uses [`RULES`]; tests take a guard or a role away to prove that something notices.
#[derive(Debug, Clone)]
pub struct RuleSet {
    rules: Vec<OwnedRule>,
}

/// A rule whose parts can be taken away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedRule {
    /// What is called.
    pub verb: Verb,
    /// By whom.
    pub roles: Vec<Role>,
    /// On which kinds of task.
    pub shapes: &'static [Shape],
    /// From where.
    pub from: Vec<Stage>,
    /// Under which holds.
    pub holds: Holds,
    /// What must be true.
    pub guards: Vec<Guard>,
}

impl OwnedRule {
    /// Whether the rule speaks of this task as it stands.
    pub fn matches(&self, task: &Task) -> bool {
        self.shapes.contains(&task.shape) && self.from.contains(&task.stage) && self.holds.allows(task.hold.as_ref())
    }

    /// Whether the rule names no task.
    pub const fn is_taskless(&self) -> bool {
        self.shapes.is_empty()
    }
}

impl RuleSet {
    /// The table of this version.
    pub fn standard() -> Self {
        let rules = RULES
            .iter()
            .map(|rule| OwnedRule {
                verb: rule.verb,
                roles: rule.roles.to_vec(),
                shapes: rule.shapes,
                from: rule.from.to_vec(),
                holds: rule.holds,
                guards: rule.guards.to_vec(),
            })
            .collect();
        Self { rules }
    }

    /// A changed copy, for tests.
    #[must_use]
    pub fn changed(&self, change: impl FnOnce(&mut Vec<OwnedRule>)) -> Self {
        let mut copy = self.clone();
        change(&mut copy.rules);
        copy
    }

    /// Every rule.
    pub fn rules(&self) -> &[OwnedRule] {
        &self.rules
    }

    /// The rules of a verb for a role.
    pub fn of(&self, verb: Verb, role: Role) -> impl Iterator<Item = &OwnedRule> {
        self.rules.iter().filter(move |r| r.verb == verb && r.roles.contains(&role))
    }

    /// Whether a role may ever call a verb.
    pub fn grants(&self, verb: Verb, role: Role) -> bool {
        self.of(verb, role).next().is_some()
    }

    /// The verbs a role may ever call, in registry order.
    pub fn granted(&self, role: Role) -> Vec<Verb> {
        Verb::ALL.iter().copied().filter(|v| self.grants(*v, role)).collect()
    }
}

/// The verbs a role may call on a task as it stands, sorted by name. Guards that need arguments or facts are not asked.
pub fn verbs_for(rules: &RuleSet, role: Role, task: &Task) -> Vec<Verb> {
    let mut verbs: Vec<Verb> =
        rules.granted(role).into_iter().filter(|v| rules.of(*v, role).any(|r| r.is_taskless() || r.matches(task))).collect();
    verbs.sort_by_key(|v| v.as_str());
    verbs
}

/// Whether a hold can be lifted by this role.
pub const fn lifts(role: Role, hold: &Hold) -> bool {
    match hold {
        Hold::Blocked { resolver: Resolver::CellPm, .. } | Hold::Paused { by: PausedBy::Agent, .. } => {
            matches!(role, Role::CellPm | Role::MainPm | Role::Ceo)
        }
        Hold::Blocked { resolver: Resolver::MainPm, .. } => matches!(role, Role::MainPm | Role::Ceo),
        Hold::Blocked { resolver: Resolver::Human, .. } | Hold::Paused { by: PausedBy::Human, .. } => matches!(role, Role::Ceo),
        Hold::Budget { .. } => false,
    }
}

const LEAVES: &[Shape] = Shape::LEAVES;
const CELLS: &[Shape] = &[Shape::CellParent];
const ROOTS: &[Shape] = &[Shape::Root];
const WHOLES: &[Shape] = Shape::ASSEMBLED;
const PARTS: &[Shape] = &[Shape::Leaf];
const DELIVERED: &[Shape] = Shape::DELIVERED;
/// What a PM gave out while splitting its work.
const GIVEN_OUT: &[Shape] = &[Shape::Leaf, Shape::CellParent];
/// What a cell's PM answers for.
const OF_A_CELL: &[Shape] = &[Shape::Leaf, Shape::StandaloneLeaf, Shape::CellParent];
const AUTHORING: &[Stage] = &[Stage::Working, Stage::SelfCheck];
const OPEN: &[Stage] = &[
    Stage::Backlog,
    Stage::Ready,
    Stage::Working,
    Stage::SelfCheck,
    Stage::Qa,
    Stage::Docs,
    Stage::Gate,
    Stage::PmReview,
    Stage::Ceo,
    Stage::Revision,
];
const OPEN_BEFORE_CEO: &[Stage] = &[
    Stage::Backlog,
    Stage::Ready,
    Stage::Working,
    Stage::SelfCheck,
    Stage::Qa,
    Stage::Docs,
    Stage::Gate,
    Stage::PmReview,
    Stage::Revision,
];
/// Stages in which somebody other than the CEO is at work, so that a hold can be raised or lifted.
const IN_FLIGHT: &[Stage] =
    &[Stage::Ready, Stage::Working, Stage::SelfCheck, Stage::Qa, Stage::Docs, Stage::Gate, Stage::PmReview, Stage::Revision];

macro_rules! rules {
    ($($verb:ident by [$($role:ident),*] on $shapes:expr, from $from:expr, $holds:ident, needs [$($guard:ident),*];)*) => {
        &[$(Rule {
            verb: Verb::$verb,
            roles: &[$(Role::$role),*],
            shapes: $shapes,
            from: $from,
            holds: Holds::$holds,
            guards: &[$(Guard::$guard),*],
        }),*]
    };
}

/// Every legal move.
pub const RULES: &[Rule] = rules! {
    GiveMeWork by [Developer, Qa, Documenter, CellPm, MainPm, PrReviewer] on &[], from &[], Any, needs [];
    IAmIdle by [Developer, Qa, Documenter, CellPm, MainPm, ProductOwner, HeadMarketing, Auditor, PrReviewer] on &[], from &[], Any, needs [];

    IWillWorkOn by [Developer] on LEAVES, from &[Stage::Ready, Stage::Revision], Free,
        needs [AssigneeOrFree, LeaseFree, SameTeam, DependenciesMet, OneActiveTask, PausedFirst, NothingUnderWay, PlanGiven];
    IWillWorkOn by [Developer] on LEAVES, from AUTHORING, Free, needs [IsAssignee, LeaseFree, SameTeam, OneActiveTask];
    OpenPr by [Developer] on LEAVES, from AUTHORING, Free, needs [HoldsLease, CommitMade];
    SyncBranch by [Developer] on LEAVES, from AUTHORING, Free, needs [HoldsLease, NothingUnderWay, TreeClean];
    IAmDone by [Developer] on LEAVES, from AUTHORING, Free,
        needs [HoldsLease, NothingUnderWay, CommitMade, PrOpen, TreeClean, CriteriaEvidenced, FindingsAnswered];
    Commit by [Developer] on LEAVES, from AUTHORING, Free, needs [HoldsLease, NothingUnderWay, SubjectGiven];
    Commit by [Documenter] on LEAVES, from &[Stage::Docs], Free, needs [HoldsLease, SubjectGiven];
    Progress by [Developer] on LEAVES, from AUTHORING, Free, needs [HoldsLease, TextGiven];
    Progress by [Documenter] on LEAVES, from &[Stage::Docs], Free, needs [HoldsLease, TextGiven];
    Unclaim by [Developer] on LEAVES, from &[Stage::Ready, Stage::Working, Stage::SelfCheck, Stage::Revision], Free,
        needs [IsAssignee, SameTeam, NothingUnderWay];
    IAmBlocked by [Developer] on LEAVES, from AUTHORING, Free, needs [HoldsLease, NothingUnderWay, ReasonGiven];
    Resume by [Developer] on LEAVES, from &[Stage::Ready, Stage::Working, Stage::SelfCheck, Stage::Revision], Paused,
        needs [IsAssignee, SameTeam, OneActiveTask, PausedByAgent];

    ClaimReview by [Qa] on LEAVES, from &[Stage::Qa], Free, needs [LeaseFree, NotAuthor, SameTeam];
    Pass by [Qa] on LEAVES, from &[Stage::Qa], Free, needs [HoldsLease, NotAuthor, NothingUnderWay, ReviewPinned, NotesGiven, EveryCriterionJudged];
    Fail by [Qa] on LEAVES, from &[Stage::Qa], Free, needs [HoldsLease, NotAuthor, NothingUnderWay, ReviewPinned, FindingsGiven, BounceAllowed];
    Unclaim by [Qa] on LEAVES, from &[Stage::Qa], Free, needs [HoldsLease, NothingUnderWay];
    IAmBlocked by [Qa] on LEAVES, from &[Stage::Qa], Free, needs [HoldsLease, NothingUnderWay, ReasonGiven];
    Resume by [Qa] on LEAVES, from &[Stage::Qa], Paused, needs [SameTeam, PausedByAgent];

    ClaimDocTask by [Documenter] on LEAVES, from &[Stage::Docs], Free, needs [LeaseFree, NotAuthor, SameTeam];
    IDocumented by [Documenter] on LEAVES, from &[Stage::Docs], Free, needs [HoldsLease, NothingUnderWay, PrOpen, TreeClean, DocsGiven];
    Unclaim by [Documenter] on LEAVES, from &[Stage::Docs], Free, needs [HoldsLease, NothingUnderWay];
    IAmBlocked by [Documenter] on LEAVES, from &[Stage::Docs], Free, needs [HoldsLease, NothingUnderWay, ReasonGiven];
    Resume by [Documenter] on LEAVES, from &[Stage::Docs], Paused, needs [SameTeam, PausedByAgent];

    IWillPlan by [CellPm] on CELLS, from &[Stage::Ready, Stage::Revision], Free,
        needs [IsAssignee, SameTeam, DependenciesMet, PlanGiven];
    IWillPlan by [MainPm] on ROOTS, from &[Stage::Ready, Stage::Revision], Free, needs [IsAssignee, DependenciesMet, PlanGiven];
    IWillPlan by [CellPm] on CELLS, from &[Stage::Working], Free, needs [IsAssignee, SameTeam];
    IWillPlan by [MainPm] on ROOTS, from &[Stage::Working], Free, needs [IsAssignee];
    Delegate by [CellPm] on CELLS, from &[Stage::Working], Free, needs [IsAssignee, SameTeam, RoomForPart, PartDescribed];
    Delegate by [MainPm] on ROOTS, from &[Stage::Working], Free, needs [IsAssignee, RoomForPart, PartDescribed];
    DeclareCoverage by [CellPm] on CELLS, from &[Stage::Working], Free, needs [IsAssignee, SameTeam, CriteriaNamed, ReasonGiven];
    DeclareCoverage by [MainPm] on ROOTS, from &[Stage::Working], Free, needs [IsAssignee, CriteriaNamed, ReasonGiven];
    Reassign by [CellPm] on PARTS, from &[Stage::Ready, Stage::Working, Stage::SelfCheck, Stage::Revision], Free,
        needs [SameTeam, NothingUnderWay, SuccessorNamed, ReasonGiven];
    SubmitUp by [CellPm] on CELLS, from &[Stage::Working], Free,
        needs [IsAssignee, SameTeam, WorthAnotherLook, PartsEnded, EverythingCovered, FindingsAnswered, NotesGiven];
    SubmitRoot by [MainPm] on ROOTS, from &[Stage::Working], Free,
        needs [IsAssignee, WorthAnotherLook, PartsEnded, EverythingCovered, FindingsAnswered, NotesGiven];

    ClaimGateReview by [PrReviewer] on WHOLES, from &[Stage::Gate], Free, needs [LeaseFree, NotAuthor, ReviewsHere];
    PrPass by [PrReviewer] on WHOLES, from &[Stage::Gate], Free, needs [HoldsLease, NotAuthor, NothingUnderWay, ReviewPinned, NotesGiven];
    PrFail by [PrReviewer] on WHOLES, from &[Stage::Gate], Free,
        needs [HoldsLease, NotAuthor, NothingUnderWay, ReviewPinned, FindingsGiven, BounceAllowed];
    Unclaim by [PrReviewer] on WHOLES, from &[Stage::Gate], Free, needs [HoldsLease, NothingUnderWay];

    Activate by [CellPm, MainPm] on GIVEN_OUT, from &[Stage::Backlog], Free, needs [SameTeam];
    Complete by [CellPm] on OF_A_CELL, from &[Stage::PmReview], Free, needs [IsAssignee, SameTeam, PrOpen, NotesGiven];
    Complete by [MainPm] on ROOTS, from &[Stage::PmReview], Free, needs [IsAssignee, PrOpen, NotesGiven];
    RequestChanges by [CellPm] on OF_A_CELL, from &[Stage::PmReview], Free,
        needs [IsAssignee, SameTeam, NotMerging, FindingsGiven, BounceAllowed];
    RequestChanges by [MainPm] on ROOTS, from &[Stage::PmReview], Free, needs [IsAssignee, FindingsGiven, BounceAllowed];
    Resume by [CellPm] on OF_A_CELL, from IN_FLIGHT, Paused, needs [SameTeam, PausedByAgent];
    Resume by [MainPm] on DELIVERED, from IN_FLIGHT, Paused, needs [PausedByAgent];
    Unblock by [CellPm] on OF_A_CELL, from IN_FLIGHT, Blocked, needs [SameTeam, LiftsHold, ReasonGiven];
    Unblock by [MainPm] on DELIVERED, from IN_FLIGHT, Blocked, needs [LiftsHold, ReasonGiven];
    EscalateUp by [CellPm] on OF_A_CELL, from IN_FLIGHT, FreeOrBlocked, needs [SameTeam, NothingUnderWay, RaisesHold, ReasonGiven];
    EscalateToCeo by [MainPm] on DELIVERED, from IN_FLIGHT, FreeOrBlocked, needs [NothingUnderWay, RaisesHold, ReasonGiven];
    Cancel by [CellPm] on OF_A_CELL, from OPEN_BEFORE_CEO, Any, needs [SameTeam, NotMerging, LiftsHold, ReasonGiven];
    Cancel by [MainPm] on DELIVERED, from OPEN_BEFORE_CEO, Any, needs [NotMerging, LiftsHold, ReasonGiven];

    Evidence by [Developer, Qa, Documenter, CellPm, MainPm, ProductOwner, HeadMarketing, Auditor, PrReviewer] on DELIVERED,
        from Stage::ALL, Any, needs [];
    Note by [Developer, Qa, Documenter, CellPm] on OF_A_CELL, from Stage::ALL, Any, needs [SeesTask, TextGiven];
    Note by [MainPm, ProductOwner, HeadMarketing, Auditor, PrReviewer] on DELIVERED, from Stage::ALL, Any, needs [TextGiven];

    CreateTask by [Ceo] on &[], from &[], Any, needs [];
    Activate by [Ceo] on DELIVERED, from &[Stage::Backlog], Free, needs [];
    Approve by [Ceo] on DELIVERED, from &[Stage::Ceo], Free, needs [HeadUnchanged];
    Reject by [Ceo] on DELIVERED, from &[Stage::Ceo], Free, needs [NotMerging, ReasonGiven];
    Cancel by [Ceo] on DELIVERED, from OPEN, Any, needs [NotMerging, ReasonGiven];
    Pause by [Ceo] on DELIVERED, from OPEN, Free, needs [NotMerging];
    Resume by [Ceo] on DELIVERED, from OPEN, Paused, needs [];
    Unblock by [Ceo] on DELIVERED, from OPEN, Blocked, needs [ReasonGiven];
};
