//! Assembled work: planning it, giving out its parts, saying what covers what, and handing the whole in.

use schemars::JsonSchema;
use serde::Deserialize;

use super::create_task::{NewTask, Wanted, branch_kind, new_task};
use super::done::{ResolvedFinding, addressed};
use super::work::{IWillWorkOn, cut, lease_for};
use super::{Hints, Subject, subject};
use crate::assembly::{Standing, is_bare, is_unchanged, live_parts, missing, overlaps, standing, uncovered};
use crate::command::Fresh;
use crate::effect::TreeFor;
use crate::event::Event;
use crate::finding::normal;
use crate::guard::GuardContext;
use crate::id::{AgentId, CriterionNumber, PrNumber, TaskId};
use crate::input::{TextList, clamp};
use crate::limits;
use crate::rejection::{Kind, Rejection, Remedy};
use crate::role::Role;
use crate::roster::Agent;
use crate::snapshot::{Answer, Decision, Snapshot};
use crate::task::{Complexity, Nature, Part, PartState, PendingKind, Shape, Stage, Task, TaskType};
use crate::vcs::BranchName;
use crate::verb::Verb;

/// Arguments of `delegate`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Delegate {
    /// The work it becomes a part of: `T-142`, its id, or a unique prefix of it.
    #[serde(alias = "task_id")]
    pub parent_task_id: String,
    /// One line, up to 200 characters.
    #[serde(default)]
    pub title: String,
    /// What is wanted, with every technical fact its author needs.
    #[serde(default)]
    pub description: String,
    /// Slug of the agent who delivers it.
    #[serde(default)]
    pub assigned_to: String,
    /// One to seven verifiable outcomes, up to 200 characters each.
    #[serde(default, alias = "acceptance_criteria")]
    pub criteria: TextList,
    /// What kind of result is wanted.
    #[serde(default, rename = "type", alias = "task_type")]
    pub task_type: Option<TaskType>,
    /// Who can judge it.
    #[serde(default)]
    pub nature: Option<Nature>,
    /// How much is touched.
    #[serde(default, alias = "estimated_complexity")]
    pub complexity: Option<Complexity>,
    /// The criteria of the whole that it covers: `C1`, …
    #[serde(default, alias = "covers_parent_criteria")]
    pub covers: TextList,
    /// Path globs it means to touch; required for code.
    #[serde(default, alias = "intends_to_touch")]
    pub touches: TextList,
    /// Tasks that must end first.
    #[serde(default)]
    pub depends_on: TextList,
    /// 0 is most urgent, 3 least; that of the whole when left out.
    #[serde(default)]
    pub priority: Option<u8>,
}

/// Arguments of `declare_coverage`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeclareCoverage {
    /// The whole: `T-142`, its id, or a unique prefix of it.
    pub task_id: String,
    /// Its criteria: `C1`, …
    #[serde(default)]
    pub criteria: TextList,
    /// The number of the part that covers them; you answer for them yourself when it is left out.
    #[serde(default)]
    pub part: Option<String>,
    /// Why they are covered there.
    #[serde(default)]
    pub reason: String,
}

/// Arguments of `reassign`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reassign {
    /// The task: `T-142`, its id, or a unique prefix of it.
    pub task_id: String,
    /// Slug of the developer who takes it over.
    #[serde(default, alias = "new_assignee")]
    pub to: String,
    /// Why.
    #[serde(default)]
    pub reason: String,
}

/// Arguments of `submit_up` and `submit_root`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitWhole {
    /// The task: `T-142`, its id, or a unique prefix of it.
    pub task_id: String,
    /// What it is, for the reviewer; this is the record of your decision.
    #[serde(default)]
    pub notes: String,
    /// One entry per open finding.
    #[serde(default)]
    pub resolved_findings: Vec<ResolvedFinding>,
}

subject!(Delegate => parent_task_id, DeclareCoverage => task_id, Reassign => task_id, SubmitWhole => task_id);

impl Delegate {
    /// The seat it names, if it is one.
    fn assignee<'a>(&self, world: &'a Snapshot) -> Option<&'a Agent> {
        world.roster.by_slug(self.assigned_to.trim()).filter(|a| world.roster.is_working(a.id))
    }

    fn wanted(&self) -> Wanted<'_> {
        Wanted {
            title: &self.title,
            description: &self.description,
            criteria: &self.criteria.0,
            task_type: self.task_type,
            nature: self.nature,
            complexity: self.complexity,
            priority: self.priority,
        }
    }

    /// Everything that is missing or wrong, by field.
    pub(crate) fn problems(&self, cx: GuardContext<'_>) -> Hints {
        let mut hints = self.wanted().problems();
        let reach = reach(cx);
        let fits = self.assignee(cx.world).filter(|a| reach.iter().any(|r| r.id == a.id));
        if fits.is_none() {
            let slugs = reach.iter().map(|a| a.slug.as_str()).collect::<Vec<_>>().join(", ");
            hints.insert("assigned_to".into(), format!("one of {slugs}"));
        }
        let allowed = types_of(cx.actor.role());
        if self.task_type.is_some_and(|t| !allowed.contains(&t)) {
            let words = allowed.iter().map(|t| t.as_str()).collect::<Vec<_>>().join(", ");
            hints.insert(
                "type".into(),
                format!("one of {words}: what you give out is of these types, and documents are part of every leaf"),
            );
        }
        if self.task_type == Some(TaskType::Code) && self.touches.0.is_empty() {
            hints.insert("touches".into(), "the path globs it means to touch, like src/greet/**".into());
        }
        let unknown = self.covers.0.iter().any(|c| find(cx.task, c).is_none());
        if self.covers.0.is_empty() || unknown {
            hints.insert("covers".into(), format!("the criteria of {} it covers: {}", cx.task.number, criteria_of(cx.task)));
        }
        hints
    }
}

/// Whom a PM gives parts to: the main PM to the cells' PMs, a cell's PM to its developers.
fn reach(cx: GuardContext<'_>) -> Vec<&Agent> {
    let roster = &cx.world.roster;
    match cx.actor.role() {
        Role::MainPm => roster.cells().iter().flat_map(|c| roster.seats(Role::CellPm, &c.team)).collect(),
        _ => roster.seats(Role::Developer, &cx.task.team).collect(),
    }
}

const fn types_of(role: Role) -> &'static [TaskType] {
    match role {
        Role::MainPm => &[TaskType::Planning],
        _ => &[TaskType::Code, TaskType::Research, TaskType::Design],
    }
}

fn criteria_of(task: &Task) -> String {
    task.criteria.iter().map(|c| format!("{} ({})", c.id, clamp(&c.text, 80))).collect::<Vec<_>>().join(", ")
}

fn find(task: &Task, given: &str) -> Option<CriterionNumber> {
    super::done::find_criterion(task, given)
}

/// Why there is no room for one more part; none when there is.
pub(crate) fn no_room(cx: GuardContext<'_>, args: &Delegate) -> Option<String> {
    let task = cx.task;
    if task.parts.len() >= limits::PARTS {
        return Some(format!("{} has {} parts already, which is the most", task.number, limits::PARTS));
    }
    let assignee = args.assignee(cx.world)?;
    let twin =
        live_parts(task).find(|p| p.assignee == assignee.id && (task.shape == Shape::Root || normal(&p.title) == normal(&args.title)))?;
    Some(format!("{} is {}'s already and still open", twin.number, assignee.slug))
}

pub(crate) fn plan(cx: GuardContext<'_>, args: &IWillWorkOn, fresh: &Fresh) -> Result<Decision, Rejection> {
    let task = cx.task;
    if let Some(pending) = task.pending(PendingKind::CutBranch) {
        return Ok(Decision::new(Answer { waits_for: Some(pending.intent), ..Answer::next("wait for the branch") }));
    }
    let plan = args.plan().map(|plan| Event::PlanSet { plan });
    if task.stage == Stage::Working {
        return Ok(Decision::new(Answer { evidence: coverage(task), ..Answer::next(planning_next(task)) }).events(plan));
    }
    let lease = lease_for(cx)?;
    Ok(Decision::new(Answer { waits_for: Some(fresh.intent()), evidence: coverage(task), ..Answer::next(planning_next(task)) })
        .event(Event::TaskClaimed { lease })
        .events(plan)
        .effect(cut(task, TreeFor::Assembly, fresh)))
}

/// What the PM of assembled work does next.
pub(crate) fn planning_next(task: &Task) -> String {
    let number = task.number;
    let submit = submit_verb(task);
    match standing(task) {
        Standing::Open(parts) => {
            let left = missing(task, |p| p.state != PartState::Cancelled);
            let parts = parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            if left.is_empty() {
                format!("end your turn with i_am_idle: {parts} are being delivered, and you are called when they are done")
            } else {
                format!("nothing covers {} yet: delegate(parent_task_id={number}, …), or end your turn and plan it later", left.join(", "))
            }
        }
        Standing::Unplanned(left) => format!(
            "nothing covers {}: delegate(parent_task_id={number}, title, description, assigned_to, criteria, type, nature, complexity, covers, \
             touches), or declare_coverage(task_id={number}, criteria, reason) for what you answer for yourself; then i_am_idle",
            left.join(", ")
        ),
        Standing::Objections => format!(
            "delegate the mending of each finding, or call {submit}(task_id={number}, notes, resolved_findings) when they are answered"
        ),
        Standing::Unchanged => format!("nothing changed since it failed: delegate(parent_task_id={number}, …) what the reviewer asked for"),
        Standing::Whole => format!("call {submit}(task_id={number}, notes)"),
    }
}

/// The verb that hands this work in.
pub(crate) const fn submit_verb(task: &Task) -> Verb {
    match task.shape {
        Shape::Root => Verb::SubmitRoot,
        _ => Verb::SubmitUp,
    }
}

/// What covers which criterion, and the numbers of the parts that count, for the PM.
fn coverage(task: &Task) -> Vec<(&'static str, serde_json::Value)> {
    let rows = task.criteria.iter().map(|c| {
        let parts: Vec<String> = task
            .parts
            .iter()
            .filter(|p| p.state != PartState::Cancelled && p.covers.contains(&c.id))
            .map(|p| format!("{} ({})", p.number, p.state))
            .collect();
        serde_json::json!({ "id": c.id.to_string(), "text": c.text, "covered_by": parts, "kept": c.kept })
    });
    let counts = task.parts.iter().filter(|p| p.state != PartState::Cancelled).map(|p| p.number.to_string());
    let open = live_parts(task).map(|p| p.number.to_string());
    vec![
        ("coverage", rows.collect::<Vec<_>>().into()),
        ("parts", counts.collect::<Vec<_>>().into()),
        ("open", open.collect::<Vec<_>>().into()),
    ]
}

pub(crate) fn delegate(cx: GuardContext<'_>, args: &Delegate, fresh: &Fresh) -> Result<Decision, Rejection> {
    let (world, whole) = (cx.world, cx.task);
    let broken = || Rejection::incomplete_all(Verb::Delegate, args.problems(cx));
    let assignee = args.assignee(world).ok_or_else(broken)?;
    let (Some(task_type), Some(nature), Some(complexity)) = (args.task_type, args.nature, args.complexity) else { return Err(broken()) };
    let number = world.next.task;
    let stem = whole.delivery.branch.as_str().split_once('/').map_or(whole.delivery.branch.as_str(), |(_, rest)| rest);
    let stem = stem.rsplit('/').next().unwrap_or(stem);
    let branch = BranchName::new(format!("{}/{}/{stem}--t{}", branch_kind(task_type), assignee.team, number.0))
        .map_err(|e| Rejection::incomplete(Verb::Delegate, "assigned_to", &e.to_string()))?;
    let covers: Vec<CriterionNumber> = args.covers.0.iter().filter_map(|c| find(whole, c)).collect();
    let mut task = new_task(
        world,
        fresh,
        cx.actor.agent(),
        NewTask {
            wanted: args.wanted(),
            kinds: (task_type, nature, complexity),
            project: whole.project,
            team: assignee.team.clone(),
            shape: if whole.shape == Shape::Root { Shape::CellParent } else { Shape::Leaf },
            branch,
            target: whole.delivery.branch.clone(),
        },
    );
    task.priority = args.priority.unwrap_or(whole.priority);
    task.parent = Some(whole.id);
    task.touches.clone_from(&args.touches.0);
    task.depends_on = edges(world, whole, assignee.id, &args.touches.0);
    task.ownership.assignee = Some(assignee.id);
    let part = Part {
        id: task.id,
        number,
        title: task.title.clone(),
        team: task.team.clone(),
        assignee: assignee.id,
        touches: task.touches.clone(),
        covers,
        state: PartState::Open,
        merged: None,
    };
    let waits = task.depends_on.len();
    let mut seen = whole.clone();
    seen.parts.push(part.clone());
    let mut evidence = coverage(&seen);
    evidence.push(("part", number.to_string().into()));
    let warning = (task.criteria.len() > limits::PART_CRITERIA_WARN)
        .then(|| format!("{number} has {} criteria; smaller parts are easier to judge", task.criteria.len()));
    let next = if waits > 0 {
        format!("{number} starts when {waits} other tasks have ended; {}", planning_next(&seen))
    } else {
        planning_next(&seen)
    };
    let id = task.id;
    Ok(Decision::new(Answer { word: Some("created"), evidence, warning, ..Answer::next(next) })
        .event(Event::Delegated { part })
        .about(id, Event::TaskCreated { task: Box::new(task) }))
}

/// What must end before a new part starts: what was named, open parts it may collide with, and what its author was given before.
fn edges(world: &Snapshot, whole: &Task, assignee: AgentId, touches: &[String]) -> Vec<TaskId> {
    let named = world.named.iter().map(|t| t.id);
    let before =
        live_parts(whole).filter(|p| (whole.shape == Shape::CellParent && p.assignee == assignee) || overlaps(&p.touches, touches));
    let mut all: Vec<TaskId> = named.chain(before.map(|p| p.id)).collect();
    all.extend(whole.depends_on.iter().filter(|id| world.dependencies.iter().any(|d| d.id == **id && !d.stage.is_terminal())));
    let mut seen = Vec::with_capacity(all.len());
    all.retain(|id| {
        let fresh = !seen.contains(id) && *id != whole.id;
        seen.push(*id);
        fresh
    });
    all
}

impl DeclareCoverage {
    /// What is wrong, by field.
    pub(crate) fn problems(&self, task: &Task) -> Hints {
        let mut hints = Hints::new();
        if self.criteria.0.is_empty() || self.criteria.0.iter().any(|c| find(task, c).is_none()) {
            hints.insert("criteria".into(), format!("criteria of {}: {}", task.number, criteria_of(task)));
        }
        if self.part.is_some() && self.part_of(task).is_none() {
            let parts = task.parts.iter().map(|p| p.number.to_string()).collect::<Vec<_>>().join(", ");
            hints.insert("part".into(), format!("a part of {}: {parts}", task.number));
        }
        hints
    }

    fn part_of<'a>(&self, task: &'a Task) -> Option<&'a Part> {
        let given = self.part.as_deref()?.trim();
        task.parts.iter().find(|p| p.number.to_string().eq_ignore_ascii_case(given) || p.id.to_string() == given)
    }
}

pub(crate) fn declare_coverage(cx: GuardContext<'_>, args: &DeclareCoverage) -> Decision {
    let criteria = args.criteria.0.iter().filter_map(|c| find(cx.task, c)).collect();
    let event = Event::CoverageDeclared {
        part: args.part_of(cx.task).map(|p| p.id),
        criteria,
        reason: clamp(&args.reason, limits::NOTES_CHARS).into_owned(),
    };
    let context = crate::apply::Context { actor: cx.actor.agent(), at: cx.world.now };
    let after = crate::apply::apply_to_task(Some(cx.task.clone()), &event, context);
    let seen = after.as_ref().unwrap_or(cx.task);
    let left = uncovered(seen, |p| p.state != PartState::Cancelled).iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut evidence = coverage(seen);
    evidence.push(("uncovered", left.into()));
    Decision::new(Answer { evidence, ..Answer::next(planning_next(seen)) }).event(event)
}

/// The developer a task can be given to.
pub(crate) fn successor<'a>(cx: GuardContext<'a>, args: &Reassign) -> Option<&'a Agent> {
    let to = cx.world.roster.by_slug(args.to.trim())?;
    let fits = to.role == Role::Developer && to.team == cx.task.team && cx.world.roster.is_working(to.id);
    (fits && cx.task.ownership.assignee != Some(to.id)).then_some(to)
}

/// Slugs a task can be given to, for a hint.
pub(crate) fn successors(cx: GuardContext<'_>) -> String {
    let seats = cx.world.roster.seats(Role::Developer, &cx.task.team).filter(|a| cx.task.ownership.assignee != Some(a.id));
    seats.map(|a| a.slug.clone()).collect::<Vec<_>>().join(", ")
}

pub(crate) fn reassign(cx: GuardContext<'_>, args: &Reassign) -> Result<Decision, Rejection> {
    let Some(to) = successor(cx, args) else {
        return Err(Rejection::incomplete(Verb::Reassign, "to", &format!("one of {}", successors(cx))));
    };
    Ok(Decision::new(Answer::next(format!("{} goes on with it; branch and commits are kept", to.slug)))
        .event(Event::Reassigned { to: to.id, reason: clamp(&args.reason, limits::NOTES_CHARS).into_owned() }))
}

pub(crate) fn submit(cx: GuardContext<'_>, args: &SubmitWhole) -> Decision {
    let events = addressed(cx.task, &args.resolved_findings);
    let decision = hand_in(cx.world, cx.task, cx.actor.agent());
    let note = Event::NoteRecorded { scope: "decision".into(), text: clamp(&args.notes, limits::NOTES_CHARS).into_owned() };
    let mut all = events;
    all.push(note);
    all.extend(decision.events);
    Decision { events: all, answer: Answer::next("end your turn; whoever judges it has it"), ..Decision::default() }
}

/// Hands the whole in when every part is done, without its PM; changes nothing when that is no longer so.
pub(crate) fn submit_by_itself(world: &Snapshot, task: &Task) -> Decision {
    let due = task.stage == Stage::Working && task.hold.is_none() && task.pending.is_empty() && task.shape.is_assembled();
    match task.ownership.assignee {
        Some(pm) if due && standing(task) == Standing::Whole => hand_in(world, task, pm),
        Some(_) | None => Decision::default(),
    }
}

fn hand_in(world: &Snapshot, task: &Task, pm: AgentId) -> Decision {
    if is_bare(task) {
        return Decision::new(Answer::default()).event(Event::HandedToPm { pm });
    }
    let opened = task.delivery.pr.is_none().then(|| Event::PrOpened {
        number: PrNumber(world.project.as_ref().map_or(1, |p| p.next_pr)),
        title: format!("[{}] {}", task.number, clamp(&task.title, limits::TITLE_CHARS)),
        target: task.delivery.target.clone(),
    });
    Decision::new(Answer::default()).events(opened).event(Event::HandedToGate { pm, resubmitted: is_unchanged(task) })
}

/// Why the whole cannot be handed in unchanged; none when it changed, or may be looked at once more.
pub(crate) fn spent(task: &Task) -> Option<Rejection> {
    crate::assembly::is_spent(task).then(|| {
        Rejection::new(
            Kind::InvalidState,
            format!("{} has not changed since it failed, and was handed in unchanged before", task.number),
            Remedy::call(Verb::Delegate, format!("delegate(parent_task_id={}, …) what the reviewer asked for", task.number)),
        )
    })
}
