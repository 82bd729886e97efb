//! The snapshot a decision is made on, and what a decision makes of it.

use std::sync::Arc;

use crate::effect::Intended;
use crate::event::Event;
use crate::id::{CompanyId, InboxNumber, IntentId, TaskId, TaskNumber};
use crate::inbox::InboxItem;
use crate::known::Known;
use crate::project::Project;
use crate::rejection::Rejection;
use crate::roster::Roster;
use crate::spawn::{Seat, Spawn};
use crate::task::{Task, TaskBrief};
use crate::time::Timestamp;
use crate::vcs::Oid;

/// The state of a task's worktree, read before deciding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFact {
    /// Tip of the branch.
    pub head: Oid,
    /// Changed and unknown paths, escaped for display.
    pub dirty: Vec<String>,
}

/// Facts about the outside world, fetched before deciding and never during.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The task's worktree.
    pub tree: Known<TreeFact>,
}

impl Default for Facts {
    fn default() -> Self {
        Self { tree: Known::Unknown("it was not looked at".into()) }
    }
}

/// Numbers the next rows get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextNumbers {
    /// Of the next task.
    pub task: TaskNumber,
    /// Of the next inbox item.
    pub inbox: InboxNumber,
}

/// Everything a decision may look at.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The moment.
    pub now: Timestamp,
    /// Owner of every row.
    pub company: CompanyId,
    /// Who exists.
    pub roster: Arc<Roster>,
    /// The task the command is about.
    pub task: Option<Arc<Task>>,
    /// Its project, or the project a new task names.
    pub project: Option<Arc<Project>>,
    /// Its prerequisites.
    pub dependencies: Vec<TaskBrief>,
    /// The work it is a part of, nearest first.
    pub ancestors: Vec<Arc<Task>>,
    /// Open tasks below it; looked at only by verbs that end a whole tree.
    pub descendants: Vec<Arc<Task>>,
    /// The tasks a command's arguments name, in the order they were named.
    pub named: Vec<TaskBrief>,
    /// Other open tasks that the acting agent is assigned to or holds.
    pub actor_tasks: Vec<TaskBrief>,
    /// The seat of the acting agent, or of the agent a spawn is planned for.
    pub seat: Option<Seat>,
    /// The caller's spawn, or the spawn the command is about.
    pub spawn: Option<Spawn>,
    /// Open inbox items of the task.
    pub inbox: Vec<InboxItem>,
    /// Numbers for new rows.
    pub next: NextNumbers,
    /// Facts from outside.
    pub facts: Facts,
}

/// What the caller is told when the decision is committed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// An action word; the task's status when absent.
    pub word: Option<&'static str>,
    /// What to do next.
    pub next: String,
    /// Something worth knowing.
    pub warning: Option<String>,
    /// Data of the verb, as JSON object entries.
    pub evidence: Vec<(&'static str, serde_json::Value)>,
    /// The effect whose result completes the answer.
    pub waits_for: Option<IntentId>,
    /// For a settled effect: the refusal the waiting caller gets.
    pub refusal: Option<Rejection>,
}

impl Answer {
    /// Only a next step.
    pub fn next(text: impl Into<String>) -> Self {
        Self { next: text.into(), ..Self::default() }
    }

    /// This answer, of an effect that has ended, completed by what its caller was told at first.
    #[must_use]
    pub fn after(self, first: Self) -> Self {
        let mut evidence = first.evidence;
        evidence.extend(self.evidence);
        let next = if self.next.is_empty() { first.next } else { self.next };
        Self { word: first.word, next, warning: self.warning.or(first.warning), evidence, waits_for: None, refusal: self.refusal }
    }
}

/// What was decided: facts, work to do, and the answer. Nothing is written yet.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Decision {
    /// What is now so.
    pub events: Vec<Event>,
    /// What is now so of other tasks; each event belongs to the task it names.
    pub also: Vec<(TaskId, Event)>,
    /// What is to be done.
    pub effects: Vec<Intended>,
    /// The effect this decision answers.
    pub settles: Option<IntentId>,
    /// For the caller.
    pub answer: Answer,
}

impl Decision {
    /// A decision with an answer.
    pub fn new(answer: Answer) -> Self {
        Self { answer, ..Self::default() }
    }

    /// Adds a fact.
    #[must_use]
    pub fn event(mut self, event: Event) -> Self {
        self.events.push(event);
        self
    }

    /// Adds facts.
    #[must_use]
    pub fn events(mut self, events: impl IntoIterator<Item = Event>) -> Self {
        self.events.extend(events);
        self
    }

    /// Adds a fact about another task.
    #[must_use]
    pub fn about(mut self, task: TaskId, event: Event) -> Self {
        self.also.push((task, event));
        self
    }

    /// Adds work.
    #[must_use]
    pub fn effect(mut self, effect: Intended) -> Self {
        self.effects.push(effect);
        self
    }

    /// Adds work, if there is any.
    #[must_use]
    pub fn effects(mut self, effects: impl IntoIterator<Item = Intended>) -> Self {
        self.effects.extend(effects);
        self
    }

    /// Whether committing it would change nothing.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.also.is_empty() && self.effects.is_empty() && self.settles.is_none()
    }
}
