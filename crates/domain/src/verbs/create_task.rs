//! Giving the company a task: everything must be said, nothing is guessed.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Hints, Subject};
use crate::command::{Actor, Fresh};
use crate::event::Event;
use crate::id::{AgentId, CriterionNumber, ProjectId, TaskId};
use crate::input::{TextList, has_control, is_evasion, is_no_description};
use crate::limits;
use crate::rejection::{Kind, Rejection, Remedy};
use crate::role::{Role, Team};
use crate::snapshot::{Answer, Decision, Snapshot};
use crate::task::{Complexity, Counters, Criterion, Delivery, Meter, Nature, Ownership, Shape, Stage, Task, TaskType};
use crate::vcs::BranchName;
use crate::verb::Verb;

/// Arguments of `create_task`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTask {
    /// Slug of the project.
    #[serde(default)]
    pub project: String,
    /// Slug of the cell that delivers it; the project's own cell when left out.
    #[serde(default)]
    pub team: Option<String>,
    /// One line, up to 200 characters.
    #[serde(default)]
    pub title: String,
    /// What is wanted, 20 characters to 32 KiB.
    #[serde(default)]
    pub description: String,
    /// One to seven verifiable outcomes, up to 200 characters each.
    #[serde(default)]
    pub criteria: TextList,
    /// What kind of result is wanted.
    #[serde(default, rename = "type")]
    pub task_type: Option<TaskType>,
    /// Who can judge it.
    #[serde(default)]
    pub nature: Option<Nature>,
    /// How much is touched.
    #[serde(default)]
    pub complexity: Option<Complexity>,
    /// 0 is most urgent, 3 least; 2 when left out.
    #[serde(default)]
    pub priority: Option<u8>,
    /// Cells that must take part, by slug; more than one makes it a root.
    #[serde(default)]
    pub cells: TextList,
    /// Its structural kind; follows from the rest when left out.
    #[serde(default)]
    pub shape: Option<Shape>,
    /// Tasks that must end first.
    #[serde(default)]
    pub depends_on: TextList,
    /// Path globs it means to touch.
    #[serde(default)]
    pub touches: TextList,
    /// Cap on what it may cost, in US dollars.
    #[serde(default)]
    pub budget_usd: Option<u32>,
    /// Keep it in the backlog until somebody releases it.
    #[serde(default)]
    pub backlog: Option<bool>,
}

impl Subject for CreateTask {
    fn task_ref(&self) -> Option<&str> {
        None
    }
}

/// What every new task must say, whoever gives it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) title: &'a str,
    pub(crate) description: &'a str,
    pub(crate) criteria: &'a [String],
    pub(crate) task_type: Option<TaskType>,
    pub(crate) nature: Option<Nature>,
    pub(crate) complexity: Option<Complexity>,
    pub(crate) priority: Option<u8>,
}

impl Wanted<'_> {
    /// Everything that is missing or wrong, by field.
    pub(crate) fn problems(&self) -> Hints {
        let mut hints = Hints::new();
        let mut say = |field: &str, hint: String| {
            hints.entry(field.to_owned()).or_insert(hint);
        };
        let title = self.title.trim();
        if title.is_empty() || title.chars().count() > limits::TITLE_CHARS || title.contains('\n') || has_control(title) {
            say("title", format!("one line of 1 to {} characters", limits::TITLE_CHARS));
        }
        let description = self.description.trim();
        if description.len() > limits::DESCRIPTION_BYTES {
            say("description", format!("at most {} bytes; this has {}", limits::DESCRIPTION_BYTES, description.len()));
        } else if description.chars().count() < limits::DESCRIPTION_MIN_CHARS || is_no_description(description) || has_control(description)
        {
            say("description", format!("at least {} characters that say what is wanted", limits::DESCRIPTION_MIN_CHARS));
        }
        if self.criteria.is_empty() || self.criteria.len() > limits::CRITERIA {
            say("criteria", format!("1 to {} verifiable outcomes", limits::CRITERIA));
        }
        for (n, criterion) in self.criteria.iter().enumerate() {
            if is_evasion(criterion) || criterion.chars().count() > limits::CRITERION_CHARS || has_control(criterion) {
                say(&format!("criteria[{n}]"), format!("a verifiable outcome of at most {} characters", limits::CRITERION_CHARS));
            }
        }
        if self.task_type.is_none() {
            say("type", words(TaskType::ALL.iter().map(|w| w.as_str())));
        }
        if self.nature.is_none() {
            say("nature", words(Nature::ALL.iter().map(|w| w.as_str())));
        }
        if self.complexity.is_none() {
            say("complexity", words(Complexity::ALL.iter().map(|w| w.as_str())));
        }
        if self.priority.is_some_and(|p| p > 3) {
            say("priority", "0 (most urgent) to 3".into());
        }
        hints
    }
}

impl CreateTask {
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
    fn problems(&self, world: &Snapshot) -> Hints {
        let mut hints = self.wanted().problems();
        if let Err(hint) = self.team(world) {
            hints.insert("team".into(), hint);
        }
        if let Err(hint) = self.cells(world) {
            hints.insert("cells".into(), hint);
        }
        hints
    }

    fn team(&self, world: &Snapshot) -> Result<Team, String> {
        match (&self.team, &world.project) {
            (Some(team), _) => team.parse().ok().filter(|t| world.roster.is_cell(t)).ok_or_else(|| cell_words(world)),
            (None, Some(project)) => Ok(project.cell.clone()),
            (None, None) => Err(cell_words(world)),
        }
    }

    fn cells(&self, world: &Snapshot) -> Result<Vec<Team>, String> {
        let mut cells: Vec<Team> = Vec::new();
        for cell in &self.cells.0 {
            let team = cell.parse().ok().filter(|t| world.roster.is_cell(t)).ok_or_else(|| cell_words(world))?;
            if !cells.contains(&team) {
                cells.push(team);
            }
        }
        Ok(cells)
    }

    /// Work of one cell that is not too big is one leaf; everything else is a root, unless the shape is named.
    fn shape(&self, cells: &[Team]) -> Result<Shape, Rejection> {
        let one_cell = cells.len() <= 1;
        let wanted = self.shape.unwrap_or(match self.complexity {
            Some(Complexity::Low | Complexity::Medium) if one_cell => Shape::StandaloneLeaf,
            Some(Complexity::Low | Complexity::Medium | Complexity::High) | None => Shape::Root,
        });
        let refused = |message: String, text: &str| Err(Rejection::new(Kind::InvalidState, message, Remedy::call(Verb::CreateTask, text)));
        match wanted {
            Shape::StandaloneLeaf if !one_cell => {
                refused("one leaf cannot be delivered by several cells".into(), "leave cells out, or pass shape=root")
            }
            Shape::StandaloneLeaf | Shape::Root => Ok(wanted),
            Shape::Leaf | Shape::CellParent => refused(
                format!("a {wanted} is given out by the PM of the work it belongs to"),
                "pass shape=root and let the company split it",
            ),
            Shape::MultiRepoRoot | Shape::Umbrella | Shape::BatchRoot | Shape::ExternalReview | Shape::Exploration | Shape::HeldDraft => {
                refused(
                    format!("a task of shape {wanted} cannot be created yet: this version delivers work on one project at a time"),
                    "create one task for each project with shape=root or shape=standalone_leaf",
                )
            }
        }
    }
}

fn words<'a>(items: impl Iterator<Item = &'a str>) -> String {
    format!("one of {}", items.collect::<Vec<_>>().join(", "))
}

fn cell_words(world: &Snapshot) -> String {
    words(world.roster.cells().iter().map(|c| c.team.as_str()))
}

pub(crate) fn create(world: &Snapshot, actor: &Actor, args: &CreateTask, fresh: &Fresh) -> Result<Decision, Rejection> {
    let verb = Verb::CreateTask;
    let Some(project) = &world.project else {
        let given = args.project.trim();
        return Err(if given.is_empty() {
            Rejection::incomplete(verb, "project", "the slug of a project; see `roboco project list`")
        } else {
            Rejection::new(
                Kind::NotFound,
                format!("there is no project {:?}", crate::input::clamp(given, 60)),
                Remedy::call(verb, "add it with `roboco project add`, or name one that `roboco project list` shows"),
            )
        });
    };
    let hints = args.problems(world);
    if !hints.is_empty() {
        return Err(Rejection::incomplete_all(verb, hints));
    }
    let (Some(task_type), Some(nature), Some(complexity), Ok(cell), Ok(cells)) =
        (args.task_type, args.nature, args.complexity, args.team(world), args.cells(world))
    else {
        return Err(Rejection::incomplete(verb, "type", "type, nature, complexity and team must be given"));
    };
    let shape = args.shape(&cells)?;
    let number = world.next.task;
    let main_pm = world.roster.sole(Role::MainPm);
    let team = match (shape, main_pm, cells.first()) {
        (Shape::Root, Some(pm), _) => pm.team.clone(),
        (_, _, Some(only)) => only.clone(),
        _ => cell,
    };
    let branch = BranchName::new(format!("{}/{team}/t{}", branch_kind(task_type), number.0))
        .map_err(|e| Rejection::incomplete(verb, "team", &e.to_string()))?;
    let mut task = new_task(
        world,
        fresh,
        actor.agent(),
        NewTask {
            wanted: args.wanted(),
            // A PM plans; what its parts are made of is theirs.
            kinds: (if shape == Shape::Root { TaskType::Planning } else { task_type }, nature, complexity),
            project: project.id,
            team,
            shape,
            branch,
            target: project.default_branch.clone(),
        },
    );
    task.stage = if args.backlog == Some(true) { Stage::Backlog } else { Stage::Ready };
    task.depends_on = world.named.iter().map(|d| d.id).collect();
    task.touches.clone_from(&args.touches.0);
    task.budget_micro_usd = args.budget_usd.map(|usd| u64::from(usd) * 1_000_000);
    if shape == Shape::Root {
        task.cells = cells;
        task.ownership.assignee = main_pm.map(|pm| pm.id);
    }
    let evidence = vec![("task", task.number.to_string().into()), ("branch", task.delivery.branch.to_string().into())];
    // A cap that is silently ignored would be worse than none.
    let warning = args.budget_usd.map(|_| "the cap on its cost is recorded, but this version does not enforce it yet".to_owned());
    Ok(Decision::new(Answer {
        word: Some("created"),
        evidence,
        warning,
        ..Answer::next(format!("follow it with `roboco task watch {number}`"))
    })
    .event(Event::TaskCreated { task: Box::new(task) }))
}

/// What a new task is made of.
pub(crate) struct NewTask<'a> {
    pub(crate) wanted: Wanted<'a>,
    pub(crate) kinds: (TaskType, Nature, Complexity),
    pub(crate) project: ProjectId,
    pub(crate) team: Team,
    pub(crate) shape: Shape,
    pub(crate) branch: BranchName,
    pub(crate) target: BranchName,
}

/// A task that may be claimed, as it is recorded first.
pub(crate) fn new_task(world: &Snapshot, fresh: &Fresh, by: AgentId, new: NewTask<'_>) -> Task {
    let (task_type, nature, complexity) = new.kinds;
    Task {
        id: TaskId::new(fresh.row()),
        company: world.company,
        number: world.next.task,
        version: 0,
        project: new.project,
        title: new.wanted.title.trim().to_owned(),
        description: new.wanted.description.trim().to_owned(),
        criteria: (1..).zip(new.wanted.criteria).map(|(n, text)| criterion(n, text)).collect(),
        task_type,
        nature,
        complexity,
        priority: new.wanted.priority.unwrap_or(2),
        team: new.team,
        shape: new.shape,
        stage: Stage::Ready,
        stage_since: world.now,
        hold: None,
        parent: None,
        depends_on: Vec::new(),
        parts: Vec::new(),
        cells: Vec::new(),
        touches: Vec::new(),
        ownership: Ownership::default(),
        plan: None,
        delivery: Delivery {
            branch: new.branch,
            target: new.target,
            ceo_target: !new.shape.is_part(),
            base: None,
            head: None,
            tree: None,
            commits: Vec::new(),
            pr: None,
            merged: None,
        },
        review: None,
        docs: None,
        gate: None,
        findings: Vec::new(),
        pending: Vec::new(),
        counters: Counters::default(),
        meter: Meter { progress_at: world.now, ..Meter::default() },
        journal: Vec::new(),
        budget_micro_usd: None,
        created_by: by,
        created_at: world.now,
        started_at: None,
        ended_at: None,
    }
}

fn criterion(n: u64, text: &str) -> Criterion {
    Criterion { id: CriterionNumber(n), text: text.trim().to_owned(), evidence: None, verdict: None, kept: None }
}

/// The first segment of a branch name.
pub(crate) const fn branch_kind(task_type: TaskType) -> &'static str {
    match task_type {
        TaskType::Code | TaskType::Design => "feature",
        TaskType::Documentation => "docs",
        TaskType::Research | TaskType::Planning | TaskType::Administrative => "chore",
    }
}
