//! Guards: named conditions of the rule table. Each says what is missing and what this caller can do about it.

use std::collections::BTreeMap;

use crate::assembly::{self, live_parts};
use crate::command::Actor;
use crate::finding::Severity;
use crate::input::{commit_subject, is_filler};
use crate::known::Known;
use crate::limits;
use crate::rejection::{Kind, Rejection, Remedy};
use crate::role::{Role, words};
use crate::rules::lifts;
use crate::snapshot::Snapshot;
use crate::spawn::Seat;
use crate::task::{Hold, HoldReason, PartState, PausedBy, Resolver, Stage, Task};
use crate::verb::{Call, Verb};

words! {
    /// A condition of the rule table.
    Guard {
        /// The task is nobody's or the caller's.
        AssigneeOrFree = "assignee_or_free",
        /// The task is the caller's.
        IsAssignee = "is_assignee",
        /// The caller's spawn holds the lease.
        HoldsLease = "holds_lease",
        /// Nobody else holds the lease.
        LeaseFree = "lease_free",
        /// The caller may read the task's journal and write to it.
        SeesTask = "sees_task",
        /// The caller did not write it.
        NotAuthor = "not_author",
        /// The task belongs to the caller's cell.
        SameTeam = "same_team",
        /// Every prerequisite has ended.
        DependenciesMet = "dependencies_met",
        /// The caller works on nothing else.
        OneActiveTask = "one_active_task",
        /// The caller has nothing set aside.
        PausedFirst = "paused_first",
        /// No effect of the task is under way.
        NothingUnderWay = "nothing_under_way",
        /// It is not being merged.
        NotMerging = "not_merging",
        /// The caller's role can lift the hold.
        LiftsHold = "lifts_hold",
        /// The hold would become stronger.
        RaisesHold = "raises_hold",
        /// An agent paused it, not the CEO.
        PausedByAgent = "paused_by_agent",
        /// There is a plan with at least one step.
        PlanGiven = "plan_given",
        /// The branch has a commit.
        CommitMade = "commit_made",
        /// The pull request is open.
        PrOpen = "pr_open",
        /// The worktree has no uncommitted change.
        TreeClean = "tree_clean",
        /// Every criterion has evidence.
        CriteriaEvidenced = "criteria_evidenced",
        /// Every open finding is answered.
        FindingsAnswered = "findings_answered",
        /// The exact commits are pinned.
        ReviewPinned = "review_pinned",
        /// Every criterion has a verdict.
        EveryCriterionJudged = "every_criterion_judged",
        /// There is at least one well-formed finding.
        FindingsGiven = "findings_given",
        /// The findings are heavy enough to send the work back.
        BounceAllowed = "bounce_allowed",
        /// There are files, or a reason why none.
        DocsGiven = "docs_given",
        /// The notes say something.
        NotesGiven = "notes_given",
        /// The reason says something.
        ReasonGiven = "reason_given",
        /// The text says something.
        TextGiven = "text_given",
        /// The commit subject says something.
        SubjectGiven = "subject_given",
        /// The caller reviews assembled work of this kind.
        ReviewsHere = "reviews_here",
        /// There is room for one more part, and nobody has it already.
        RoomForPart = "room_for_part",
        /// The part says everything its author needs.
        PartDescribed = "part_described",
        /// The criteria are those of the task.
        CriteriaNamed = "criteria_named",
        /// There is a developer to give it to.
        SuccessorNamed = "successor_named",
        /// Every part has ended.
        PartsEnded = "parts_ended",
        /// Somebody answers for every criterion, and every cell that was asked for took part.
        EverythingCovered = "everything_covered",
        /// It changed since it failed, or may be looked at once more.
        WorthAnotherLook = "worth_another_look",
        /// The decision is about the commit that is there now.
        HeadUnchanged = "head_unchanged",
    }
}

/// The order in which guards are asked; the first category with a miss answers, and misses of evidence are told together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    /// Whose task it is.
    Ownership,
    /// Who may never judge it.
    AuthorBan,
    /// Whose cell it belongs to.
    Team,
    /// What goes first.
    Order,
    /// What must be there; all misses are told together.
    Evidence,
    /// What the outside world says.
    Facts,
}

/// What a guard looks at.
#[derive(Debug, Clone, Copy)]
pub struct GuardContext<'a> {
    /// The world.
    pub world: &'a Snapshot,
    /// The task.
    pub task: &'a Task,
    /// Who calls.
    pub actor: &'a Actor,
    /// What is called.
    pub call: &'a Call,
}

/// Why a guard does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Miss {
    /// A refusal of its own.
    Refused(Box<Rejection>),
    /// Something is missing: its tokens, and how to get it.
    Missing(Vec<String>, Remedy),
    /// An argument is wrong: its name, and what is wanted.
    Argument(String, String),
}

impl Guard {
    /// When it is asked.
    pub const fn category(self) -> Category {
        match self {
            Self::AssigneeOrFree | Self::IsAssignee | Self::HoldsLease | Self::LeaseFree | Self::SeesTask => Category::Ownership,
            Self::NotAuthor => Category::AuthorBan,
            Self::SameTeam | Self::ReviewsHere => Category::Team,
            Self::DependenciesMet
            | Self::OneActiveTask
            | Self::PausedFirst
            | Self::NothingUnderWay
            | Self::NotMerging
            | Self::LiftsHold
            | Self::RaisesHold
            | Self::RoomForPart
            | Self::WorthAnotherLook
            | Self::PausedByAgent => Category::Order,
            Self::PlanGiven
            | Self::CommitMade
            | Self::PrOpen
            | Self::CriteriaEvidenced
            | Self::FindingsAnswered
            | Self::ReviewPinned
            | Self::EveryCriterionJudged
            | Self::FindingsGiven
            | Self::BounceAllowed
            | Self::DocsGiven
            | Self::NotesGiven
            | Self::ReasonGiven
            | Self::TextGiven
            | Self::SubjectGiven
            | Self::PartDescribed
            | Self::CriteriaNamed
            | Self::SuccessorNamed
            | Self::PartsEnded
            | Self::EverythingCovered
            | Self::TreeClean => Category::Evidence,
            Self::HeadUnchanged => Category::Facts,
        }
    }

    /// Asks it.
    ///
    /// # Errors
    /// What is missing, and what to do about it.
    pub fn check(self, cx: GuardContext<'_>) -> Result<(), Miss> {
        match self {
            Self::AssigneeOrFree => assignee_or_free(cx),
            Self::IsAssignee => is_assignee(cx),
            Self::HoldsLease => holds_lease(cx),
            Self::LeaseFree => lease_free(cx),
            Self::SeesTask => sees_task(cx),
            Self::NotAuthor => not_author(cx),
            Self::SameTeam => same_team(cx),
            Self::DependenciesMet => dependencies_met(cx),
            Self::OneActiveTask => one_active_task(cx),
            Self::PausedFirst => paused_first(cx),
            Self::NothingUnderWay => nothing_under_way(cx),
            Self::NotMerging => not_merging(cx),
            Self::LiftsHold => lifts_hold(cx),
            Self::RaisesHold => raises_hold(cx),
            Self::PausedByAgent => paused_by_agent(cx),
            Self::PlanGiven => plan_given(cx),
            Self::CommitMade => commit_made(cx),
            Self::PrOpen => pr_open(cx),
            Self::TreeClean => tree_clean(cx),
            Self::CriteriaEvidenced => criteria_evidenced(cx),
            Self::FindingsAnswered => findings_answered(cx),
            Self::ReviewPinned => review_pinned(cx),
            Self::EveryCriterionJudged => every_criterion_judged(cx),
            Self::FindingsGiven => findings_given(cx),
            Self::BounceAllowed => bounce_allowed(cx),
            Self::DocsGiven => docs_given(cx),
            Self::NotesGiven => prose(cx, "notes"),
            Self::ReasonGiven => prose(cx, "reason"),
            Self::TextGiven => prose(cx, "text"),
            Self::SubjectGiven => subject_given(cx),
            Self::HeadUnchanged => head_unchanged(cx),
            Self::ReviewsHere => reviews_here(cx),
            Self::RoomForPart => room_for_part(cx),
            Self::PartDescribed => part_described(cx),
            Self::CriteriaNamed => criteria_named(cx),
            Self::SuccessorNamed => successor_named(cx),
            Self::PartsEnded => parts_ended(cx),
            Self::EverythingCovered => everything_covered(cx),
            Self::WorthAnotherLook => worth_another_look(cx),
        }
    }
}

fn refuse(kind: Kind, message: impl Into<String>, remedy: Remedy) -> Result<(), Miss> {
    Err(Miss::Refused(Box::new(Rejection::new(kind, message, remedy))))
}

fn missing(token: impl Into<String>, remedy: Remedy) -> Result<(), Miss> {
    Err(Miss::Missing(vec![token.into()], remedy))
}

/// What a caller without a claim on the task can do: its own role's way to other work.
fn other_work(actor: &Actor) -> Remedy {
    match actor.role() {
        Role::Developer | Role::Qa | Role::Documenter | Role::CellPm | Role::MainPm | Role::PrReviewer => {
            Remedy::call(Verb::GiveMeWork, "call give_me_work for your own work; do not retry this")
        }
        Role::ProductOwner | Role::HeadMarketing | Role::Auditor => Remedy::call(Verb::IAmIdle, "call i_am_idle; do not retry this"),
        Role::Prompter | Role::Secretary | Role::Ceo | Role::System => Remedy::tell("pick another task"),
    }
}

/// Whose task it is. Somebody who left the company keeps nothing: the work waits for a successor.
fn owner(cx: GuardContext<'_>) -> Option<crate::id::AgentId> {
    cx.task.ownership.assignee.filter(|a| cx.world.roster.is_working(*a))
}

fn assignee_or_free(cx: GuardContext<'_>) -> Result<(), Miss> {
    match owner(cx) {
        Some(other) if other != cx.actor.agent() => {
            let owner = cx.world.roster.slug(other);
            refuse(Kind::NotAuthorized, format!("{} is assigned to {owner}", cx.task.number), other_work(cx.actor))
        }
        Some(_) | None => Ok(()),
    }
}

fn is_assignee(cx: GuardContext<'_>) -> Result<(), Miss> {
    let left = cx.task.ownership.assignee.is_some() && owner(cx).is_none();
    if left || cx.task.ownership.assignee == Some(cx.actor.agent()) {
        return Ok(());
    }
    let owner = cx.task.ownership.assignee.map_or_else(|| "nobody".into(), |a| cx.world.roster.slug(a));
    refuse(Kind::NotAuthorized, format!("{} is assigned to {owner}, not to you", cx.task.number), other_work(cx.actor))
}

/// The verb that takes the lease a role needs.
const fn claim_verb(role: Role) -> Option<Verb> {
    match role {
        Role::Developer => Some(Verb::IWillWorkOn),
        Role::Qa => Some(Verb::ClaimReview),
        Role::Documenter => Some(Verb::ClaimDocTask),
        Role::PrReviewer => Some(Verb::ClaimGateReview),
        Role::CellPm
        | Role::MainPm
        | Role::ProductOwner
        | Role::HeadMarketing
        | Role::Auditor
        | Role::Prompter
        | Role::Secretary
        | Role::Ceo
        | Role::System => None,
    }
}

fn holds_lease(cx: GuardContext<'_>) -> Result<(), Miss> {
    match &cx.task.ownership.lease {
        Some(lease) if lease.holder == cx.actor.agent() && Some(lease.spawn) == cx.actor.spawn() => Ok(()),
        Some(lease) if lease.holder != cx.actor.agent() => {
            let holder = cx.world.roster.slug(lease.holder);
            refuse(Kind::NotAuthorized, format!("{} is held by {holder}", cx.task.number), other_work(cx.actor))
        }
        Some(_) | None => {
            // Taking a task only to give it back helps nobody, and somebody else's cannot be taken.
            let others = cx.actor.role() == Role::Developer && assignee_or_free(cx).is_err();
            let pointless = cx.call.verb() == Verb::Unclaim || others;
            let remedy = match claim_verb(cx.actor.role()) {
                Some(verb) if !pointless => Remedy::call(verb, format!("call {verb}(task_id={}) first", cx.task.number)),
                Some(_) | None => other_work(cx.actor),
            };
            refuse(Kind::NotAuthorized, format!("you do not hold {}", cx.task.number), remedy)
        }
    }
}

fn lease_free(cx: GuardContext<'_>) -> Result<(), Miss> {
    match cx.task.live_lease(cx.world.now) {
        Some(lease) if lease.holder != cx.actor.agent() => {
            let holder = cx.world.roster.slug(lease.holder);
            refuse(Kind::NotAuthorized, format!("{} is held by {holder}", cx.task.number), other_work(cx.actor))
        }
        Some(_) | None => Ok(()),
    }
}

fn sees_task(cx: GuardContext<'_>) -> Result<(), Miss> {
    match cx.actor {
        Actor::Agent(agent) if agent.role.is_cell_scoped() && agent.team != cx.task.team => {
            refuse(Kind::NotAuthorized, format!("{} belongs to cell {}", cx.task.number, cx.task.team), other_work(cx.actor))
        }
        Actor::Agent(_) | Actor::Ceo(_) | Actor::System(_) => Ok(()),
    }
}

fn not_author(cx: GuardContext<'_>) -> Result<(), Miss> {
    // A documenter may come back to its own documents; only a developer's commits make an author.
    let committed = matches!(cx.actor.role(), Role::Qa | Role::PrReviewer) && cx.task.ownership.committers.contains(&cx.actor.agent());
    if cx.task.ownership.authors.contains(&cx.actor.agent()) || committed {
        return refuse(
            Kind::NotAuthorized,
            format!("self-review: you wrote part of {} and cannot judge it", cx.task.number),
            other_work(cx.actor),
        );
    }
    Ok(())
}

fn same_team(cx: GuardContext<'_>) -> Result<(), Miss> {
    match cx.actor {
        Actor::Agent(agent) if !matches!(agent.role, Role::MainPm) && agent.team != cx.task.team => {
            refuse(Kind::NotAuthorized, format!("{} belongs to cell {}", cx.task.number, cx.task.team), other_work(cx.actor))
        }
        Actor::Agent(_) | Actor::Ceo(_) | Actor::System(_) => Ok(()),
    }
}

fn dependencies_met(cx: GuardContext<'_>) -> Result<(), Miss> {
    let open: Vec<String> = cx.world.dependencies.iter().filter(|d| !d.stage.is_terminal()).map(|d| d.number.to_string()).collect();
    if open.is_empty() {
        return Ok(());
    }
    refuse(Kind::InvalidState, format!("{} waits for {}", cx.task.number, open.join(", ")), other_work(cx.actor))
}

fn one_active_task(cx: GuardContext<'_>) -> Result<(), Miss> {
    let me = Some(cx.actor.agent());
    // Lifted holds can leave two started tasks with one author: it goes on with either, but holds only one right at a time.
    let starts = matches!(cx.task.stage, Stage::Ready | Stage::Revision) && cx.task.hold.is_none();
    let active = cx.world.actor_tasks.iter().find(|t| {
        let started = t.assignee == me && matches!(t.stage, Stage::Working | Stage::SelfCheck);
        t.hold.is_none() && (t.holder == me || (starts && started))
    });
    match active {
        Some(other) => refuse(
            Kind::InvalidState,
            format!("you already work on {}; one task at a time", other.number),
            Remedy::call(Verb::GiveMeWork, format!("finish {} first; call give_me_work", other.number)),
        ),
        None => Ok(()),
    }
}

fn paused_first(cx: GuardContext<'_>) -> Result<(), Miss> {
    let paused = cx
        .world
        .actor_tasks
        .iter()
        .find(|t| t.assignee == Some(cx.actor.agent()) && matches!(t.hold, Some(Hold::Paused { by: PausedBy::Agent, .. })));
    match paused {
        Some(other) => refuse(
            Kind::InvalidState,
            format!("you set {} aside; go on with it first", other.number),
            Remedy::call(Verb::Resume, format!("call resume(task_id={})", other.number)),
        ),
        None => Ok(()),
    }
}

fn nothing_under_way(cx: GuardContext<'_>) -> Result<(), Miss> {
    // The same verb on the same task is no new request: it joins the effect that is under way.
    match cx.task.pending.iter().find(|p| p.verb != cx.call.verb()) {
        Some(pending) => refuse(
            Kind::Unavailable,
            format!("{} is busy: {} is under way", cx.task.number, pending.kind),
            Remedy::tell("wait some seconds and call this again"),
        ),
        None => Ok(()),
    }
}

fn not_merging(cx: GuardContext<'_>) -> Result<(), Miss> {
    if cx.task.is_merging() {
        return refuse(
            Kind::InvalidState,
            format!("{} is being merged right now", cx.task.number),
            Remedy::tell("wait for the merge to end"),
        );
    }
    Ok(())
}

fn lifts_hold(cx: GuardContext<'_>) -> Result<(), Miss> {
    match &cx.task.hold {
        Some(hold) if !lifts(cx.actor.role(), hold) => {
            let (who, remedy) = match hold {
                Hold::Blocked { resolver: Resolver::MainPm, .. } => ("the main PM", other_work(cx.actor)),
                Hold::Blocked { .. } | Hold::Paused { .. } => ("the CEO", other_work(cx.actor)),
                Hold::Budget { .. } => ("raising the budget", other_work(cx.actor)),
            };
            refuse(Kind::InvalidState, format!("the hold of {} is lifted only by {who}", cx.task.number), remedy)
        }
        Some(_) | None => Ok(()),
    }
}

fn raises_hold(cx: GuardContext<'_>) -> Result<(), Miss> {
    let wanted = if cx.call.verb() == Verb::EscalateToCeo { 3 } else { 2 };
    match &cx.task.hold {
        Some(hold) if hold.strength() >= wanted => {
            refuse(Kind::InvalidState, format!("{} is already held at that level", cx.task.number), other_work(cx.actor))
        }
        Some(_) | None => Ok(()),
    }
}

fn paused_by_agent(cx: GuardContext<'_>) -> Result<(), Miss> {
    match &cx.task.hold {
        Some(Hold::Paused { by: PausedBy::Human, .. }) => {
            refuse(Kind::InvalidState, format!("the CEO paused {}; only the CEO resumes it", cx.task.number), other_work(cx.actor))
        }
        Some(_) | None => Ok(()),
    }
}

fn plan_given(cx: GuardContext<'_>) -> Result<(), Miss> {
    let (Call::IWillWorkOn(args) | Call::IWillPlan(args)) = cx.call else { return Ok(()) };
    if cx.task.plan.is_some() && args.plan.is_none() && args.steps.is_none() {
        return Ok(());
    }
    let mut hints = BTreeMap::new();
    if args.plan.as_deref().is_none_or(is_filler) {
        hints.insert("plan".to_owned(), "how you mean to do it, in your own words".to_owned());
    }
    let steps = args.steps.as_deref().unwrap_or_default();
    if steps.is_empty() {
        hints.insert("steps".into(), "a non-empty list of {title, description}".into());
    }
    for (n, step) in steps.iter().enumerate() {
        if is_filler(&step.title) || is_filler(&step.description) {
            hints.insert(format!("steps[{n}]"), "title and description that say something".into());
        }
    }
    if steps.len() > limits::PLAN_STEPS {
        hints.insert("steps".into(), format!("at most {} steps", limits::PLAN_STEPS));
    }
    match hints.is_empty() {
        true => Ok(()),
        false => Err(Miss::Refused(Box::new(Rejection::incomplete_all(cx.call.verb(), hints)))),
    }
}

fn commit_made(cx: GuardContext<'_>) -> Result<(), Miss> {
    if cx.task.delivery.commits.is_empty() {
        return missing("commit", Remedy::call(Verb::Commit, "commit your work with commit(message)"));
    }
    Ok(())
}

fn pr_open(cx: GuardContext<'_>) -> Result<(), Miss> {
    if cx.task.delivery.pr.is_some() {
        return Ok(());
    }
    // Assembled work into which nothing was merged has nothing to review.
    if crate::verbs::approve::is_empty(cx.task) {
        return Ok(());
    }
    let remedy = match cx.actor.role() {
        Role::Developer => Remedy::call(Verb::OpenPr, format!("call open_pr(task_id={})", cx.task.number)),
        _ => other_work(cx.actor),
    };
    missing("pr_open", remedy)
}

fn tree_clean(cx: GuardContext<'_>) -> Result<(), Miss> {
    match &cx.world.facts.tree {
        Known::Yes(tree) if tree.dirty.is_empty() => Ok(()),
        Known::Yes(tree) => {
            let shown = tree.dirty.iter().take(10).cloned().collect::<Vec<_>>().join(", ");
            missing("uncommitted_changes", Remedy::call(Verb::Commit, format!("commit or remove these first: {shown}")))
        }
        Known::No => refuse(
            Kind::InvalidState,
            format!("the worktree of {} is gone", cx.task.number),
            Remedy::call(Verb::Unclaim, "call unclaim; the branch and its commits are kept"),
        ),
        Known::Unknown(why) => refuse(
            Kind::Unavailable,
            format!("the worktree of {} could not be read: {why}", cx.task.number),
            Remedy::tell("wait some seconds and call this again"),
        ),
    }
}

fn criteria_evidenced(cx: GuardContext<'_>) -> Result<(), Miss> {
    let Call::IAmDone(args) = cx.call else { return Ok(()) };
    let mut unknown = BTreeMap::new();
    for (n, given) in args.criteria.iter().enumerate() {
        match args.find(cx.task, &given.id) {
            None => {
                let valid = cx.task.criteria.iter().map(|c| c.id.to_string()).collect::<Vec<_>>().join(", ");
                unknown.insert(format!("criteria[{n}].id"), format!("one of {valid}"));
            }
            Some(_) if is_filler(&given.evidence) => {
                unknown.insert(format!("criteria[{n}].evidence"), "test:name, file:path, commit:sha or a sentence".into());
            }
            Some(_) => {}
        }
    }
    if !unknown.is_empty() {
        return Err(Miss::Refused(Box::new(Rejection::incomplete_all(cx.call.verb(), unknown))));
    }
    let given: Vec<_> = args.criteria.iter().filter_map(|c| args.find(cx.task, &c.id)).collect();
    let bare: Vec<String> = cx
        .task
        .criteria
        .iter()
        .filter(|c| c.evidence.is_none() && !given.contains(&c.id))
        .map(|c| format!("acceptance_criterion:{}", c.id))
        .collect();
    if bare.is_empty() {
        return Ok(());
    }
    Err(Miss::Missing(
        bare,
        Remedy::call(Verb::IAmDone, "call i_am_done again with criteria=[{id, evidence}] for each criterion that is missing"),
    ))
}

fn findings_answered(cx: GuardContext<'_>) -> Result<(), Miss> {
    let resolved = match cx.call {
        Call::IAmDone(args) => &args.resolved_findings,
        Call::SubmitUp(args) | Call::SubmitRoot(args) => &args.resolved_findings,
        _ => return Ok(()),
    };
    let verb = cx.call.verb();
    let answered = crate::verbs::done::resolved_ids(cx.task, resolved);
    let open: Vec<String> = cx.task.open_findings().filter(|f| !answered.contains(&f.id)).map(|f| f.line_for_people()).collect();
    if open.is_empty() {
        return Ok(());
    }
    missing(
        "findings_resolved",
        Remedy::call(verb, format!("mend these and call {verb} again with resolved_findings=[{{finding_id}}]: {}", open.join(" | "))),
    )
}

fn review_pinned(cx: GuardContext<'_>) -> Result<(), Miss> {
    match &cx.task.review {
        Some(review) if review.by == cx.actor.agent() && review.passed.is_none() => Ok(()),
        Some(_) | None => {
            let claim = if cx.task.shape.is_assembled() { Verb::ClaimGateReview } else { Verb::ClaimReview };
            missing("review_pinned", Remedy::call(claim, format!("call {claim}(task_id={})", cx.task.number)))
        }
    }
}

fn every_criterion_judged(cx: GuardContext<'_>) -> Result<(), Miss> {
    let Call::Pass(args) = cx.call else { return Ok(()) };
    let hints = args.problems(cx.task);
    if hints.is_empty() {
        return Ok(());
    }
    Err(Miss::Refused(Box::new(Rejection::incomplete_all(cx.call.verb(), hints))))
}

fn findings_given(cx: GuardContext<'_>) -> Result<(), Miss> {
    let hints = match cx.call {
        Call::Fail(args) | Call::PrFail(args) => crate::verbs::finding_problems(cx.task, &args.findings),
        Call::RequestChanges(args) => crate::verbs::finding_problems(cx.task, &args.findings),
        _ => BTreeMap::new(),
    };
    if hints.is_empty() {
        return Ok(());
    }
    Err(Miss::Refused(Box::new(Rejection::incomplete_all(cx.call.verb(), hints))))
}

/// The lightest severity that may still send work back in the coming round.
pub fn bounce_floor(task: &Task) -> &'static [Severity] {
    if task.counters.revisions + 1 >= limits::ROUND_CAP {
        &[Severity::Blocker, Severity::Major]
    } else {
        &[Severity::Blocker, Severity::Major, Severity::Minor]
    }
}

fn bounce_allowed(cx: GuardContext<'_>) -> Result<(), Miss> {
    let findings = match cx.call {
        Call::Fail(args) | Call::PrFail(args) => &args.findings,
        Call::RequestChanges(args) => &args.findings,
        _ => return Ok(()),
    };
    let floor = bounce_floor(cx.task);
    if findings.iter().any(|f| floor.contains(&f.severity)) {
        return Ok(());
    }
    let accept = match cx.call.verb() {
        Verb::Fail => Verb::Pass,
        Verb::PrFail => Verb::PrPass,
        _ => Verb::Complete,
    };
    refuse(
        Kind::InvalidState,
        format!("these findings are too light to send {} back in round {}", cx.task.number, cx.task.counters.revisions + 1),
        Remedy::call(accept, format!("call {accept} and put them into the notes")),
    )
}

fn docs_given(cx: GuardContext<'_>) -> Result<(), Miss> {
    let Call::IDocumented(args) = cx.call else { return Ok(()) };
    if !args.files.0.is_empty() || args.skip_reason.as_deref().is_some_and(|r| !is_filler(r)) {
        return Ok(());
    }
    Err(Miss::Argument("files".into(), "the documents you wrote or re-affirmed, or skip_reason saying why none are needed".into()))
}

fn prose(cx: GuardContext<'_>, field: &str) -> Result<(), Miss> {
    let text = crate::verbs::prose_of(cx.call);
    if text.is_some_and(|t| !is_filler(t) && t.trim().chars().count() >= 4) {
        return Ok(());
    }
    Err(Miss::Argument(crate::verbs::prose_field(cx.call).unwrap_or(field).to_owned(), "a sentence that says something".into()))
}

fn subject_given(cx: GuardContext<'_>) -> Result<(), Miss> {
    let Call::Commit(args) = cx.call else { return Ok(()) };
    match commit_subject(&args.message) {
        Ok(_) => Ok(()),
        Err(problem) => Err(Miss::Argument(
            "message".into(),
            format!("{problem}; write type(scope): what changed, like feat(greet): join several names"),
        )),
    }
}

fn head_unchanged(cx: GuardContext<'_>) -> Result<(), Miss> {
    let Call::Approve(args) = cx.call else { return Ok(()) };
    match (&args.head, &cx.task.delivery.head) {
        (Some(seen), Some(head)) if seen != head.as_str() => refuse(
            Kind::StaleEvidence,
            format!("{} has moved to {} since you looked", cx.task.number, head.short()),
            Remedy::tell("look at the task again, then decide"),
        ),
        _ => Ok(()),
    }
}

fn reviews_here(cx: GuardContext<'_>) -> Result<(), Miss> {
    if crate::next::reviews(cx.world.roster.agent(cx.actor.agent()), cx.task) {
        return Ok(());
    }
    let kind = cx.task.shape;
    refuse(
        Kind::NotAuthorized,
        format!("{} is a {kind} of {}, which you do not review", cx.task.number, cx.task.team),
        other_work(cx.actor),
    )
}

fn room_for_part(cx: GuardContext<'_>) -> Result<(), Miss> {
    let Call::Delegate(args) = cx.call else { return Ok(()) };
    match crate::verbs::assemble::no_room(cx, args) {
        Some(why) => refuse(
            Kind::InvalidState,
            why,
            Remedy::call(Verb::IAmIdle, "end your turn with i_am_idle; you are called when its parts are done"),
        ),
        None => Ok(()),
    }
}

fn part_described(cx: GuardContext<'_>) -> Result<(), Miss> {
    let Call::Delegate(args) = cx.call else { return Ok(()) };
    described(cx, args.problems(cx))
}

fn criteria_named(cx: GuardContext<'_>) -> Result<(), Miss> {
    let Call::DeclareCoverage(args) = cx.call else { return Ok(()) };
    described(cx, args.problems(cx.task))
}

fn described(cx: GuardContext<'_>, hints: BTreeMap<String, String>) -> Result<(), Miss> {
    if hints.is_empty() {
        return Ok(());
    }
    Err(Miss::Refused(Box::new(Rejection::incomplete_all(cx.call.verb(), hints))))
}

fn successor_named(cx: GuardContext<'_>) -> Result<(), Miss> {
    let Call::Reassign(args) = cx.call else { return Ok(()) };
    match crate::verbs::assemble::successor(cx, args) {
        Some(_) => Ok(()),
        None => Err(Miss::Argument("to".into(), format!("one of {}", crate::verbs::assemble::successors(cx)))),
    }
}

fn parts_ended(cx: GuardContext<'_>) -> Result<(), Miss> {
    let open: Vec<String> = live_parts(cx.task).map(|p| p.number.to_string()).collect();
    if open.is_empty() {
        return Ok(());
    }
    let text = format!("{} are not done; end your turn with i_am_idle and you are called when they are", open.join(", "));
    missing("parts_ended", Remedy::call(Verb::IAmIdle, text))
}

fn everything_covered(cx: GuardContext<'_>) -> Result<(), Miss> {
    let task = cx.task;
    let left = assembly::missing(task, |p| p.state == PartState::Completed);
    // What an open part covers is told by the guard that asks for its end.
    if left.is_empty() || live_parts(task).next().is_some() {
        return Ok(());
    }
    let text = format!(
        "nothing completed covers {}: delegate(parent_task_id={n}, …) it, or declare_coverage(task_id={n}, criteria, reason) what you answer for",
        left.join(", "),
        n = task.number
    );
    missing("everything_covered", Remedy::call(Verb::Delegate, text))
}

fn worth_another_look(cx: GuardContext<'_>) -> Result<(), Miss> {
    match crate::verbs::assemble::spent(cx.task) {
        Some(rejection) => Err(Miss::Refused(Box::new(rejection))),
        None => Ok(()),
    }
}

/// Whether a hold for repeated rounds is due instead of one more lap.
pub fn is_last_round(task: &Task) -> bool {
    task.counters.revisions + 1 >= limits::ROUND_HUMAN
}

/// The hold that stands when the rounds are used up.
pub fn rounds_hold(task: &Task, now: crate::time::Timestamp) -> Hold {
    Hold::Blocked {
        reason: HoldReason::Rounds,
        text: format!("{} was sent back {} times; decide how it goes on", task.number, task.counters.revisions + 1),
        needs: Some("unblock it with a reason, or cancel it".into()),
        raised_by: None,
        resolver: Resolver::Human,
        since: now,
    }
}

/// Whether the seat hears this spawn: it is the live one and its right is the newest.
pub fn is_current(seat: Option<&Seat>, actor: &crate::command::AgentActor) -> bool {
    seat.is_some_and(|s| s.epoch == actor.epoch && s.spawn == Some(actor.spawn))
}
