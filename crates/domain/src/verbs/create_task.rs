//! Giving the company a task: everything must be said, nothing is guessed.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Hints, Subject};
use crate::command::{Actor, Fresh};
use crate::event::Event;
use crate::id::{CriterionNumber, TaskId};
use crate::input::{TextList, has_control, is_evasion, is_no_description};
use crate::limits;
use crate::rejection::{Kind, Rejection, Remedy};
use crate::role::Team;
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

impl CreateTask {
    /// Everything that is missing or wrong, by field.
    fn problems(&self, world: &Snapshot) -> Hints {
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
        let criteria = &self.criteria.0;
        if criteria.is_empty() || criteria.len() > limits::CRITERIA {
            say("criteria", format!("1 to {} verifiable outcomes", limits::CRITERIA));
        }
        for (n, criterion) in criteria.iter().enumerate() {
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
        match self.team(world) {
            Ok(_) => {}
            Err(hint) => say("team", hint),
        }
        hints
    }

    fn team(&self, world: &Snapshot) -> Result<Team, String> {
        let cells = || words(world.roster.cells().iter().map(|c| c.team.as_str()));
        match (&self.team, &world.project) {
            (Some(team), _) => team.parse().ok().filter(|t| world.roster.is_cell(t)).ok_or_else(cells),
            (None, Some(project)) => Ok(project.cell.clone()),
            (None, None) => Err(cells()),
        }
    }

    fn shape(&self) -> Result<Shape, Rejection> {
        let wanted = self.shape.unwrap_or(match self.complexity {
            Some(Complexity::High) => Shape::Root,
            Some(Complexity::Low | Complexity::Medium) | None => Shape::StandaloneLeaf,
        });
        if wanted == Shape::StandaloneLeaf {
            return Ok(wanted);
        }
        Err(Rejection::new(
            Kind::InvalidState,
            format!("a task of shape {wanted} cannot be created yet: this version delivers work of one cell on one project"),
            Remedy::call(Verb::CreateTask, "split it and create each part with complexity low or medium, or pass shape=standalone_leaf"),
        ))
    }
}

fn words<'a>(items: impl Iterator<Item = &'a str>) -> String {
    format!("one of {}", items.collect::<Vec<_>>().join(", "))
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
    let shape = args.shape()?;
    let (Some(task_type), Some(nature), Some(complexity), Ok(team)) = (args.task_type, args.nature, args.complexity, args.team(world))
    else {
        return Err(Rejection::incomplete(verb, "type", "type, nature, complexity and team must be given"));
    };
    let number = world.next.task;
    let branch = BranchName::new(format!("{}/{team}/t{}", branch_kind(task_type), number.0))
        .map_err(|e| Rejection::incomplete(verb, "team", &e.to_string()))?;
    let backlog = args.backlog == Some(true);
    let task = Task {
        id: TaskId::new(fresh.row()),
        company: world.company,
        number,
        version: 0,
        project: project.id,
        title: args.title.trim().to_owned(),
        description: args.description.trim().to_owned(),
        criteria: (1..).zip(&args.criteria.0).map(|(n, text)| criterion(n, text)).collect(),
        task_type,
        nature,
        complexity,
        priority: args.priority.unwrap_or(2),
        team,
        shape,
        stage: if backlog { Stage::Backlog } else { Stage::Ready },
        stage_since: world.now,
        hold: None,
        parent: None,
        depends_on: world.dependencies.iter().map(|d| d.id).collect(),
        touches: args.touches.0.clone(),
        ownership: Ownership::default(),
        plan: None,
        delivery: Delivery {
            branch,
            target: project.default_branch.clone(),
            ceo_target: true,
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
        budget_micro_usd: args.budget_usd.map(|usd| u64::from(usd) * 1_000_000),
        created_by: actor.agent(),
        created_at: world.now,
        started_at: None,
        ended_at: None,
    };
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

fn criterion(n: u64, text: &str) -> Criterion {
    Criterion { id: CriterionNumber(n), text: text.trim().to_owned(), evidence: None, verdict: None }
}

const fn branch_kind(task_type: TaskType) -> &'static str {
    match task_type {
        TaskType::Code | TaskType::Design => "feature",
        TaskType::Documentation => "docs",
        TaskType::Research | TaskType::Planning | TaskType::Administrative => "chore",
    }
}
