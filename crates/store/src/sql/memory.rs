//! The rows that decisions are made on, kept in memory: open tasks, seats, live spawns, open inbox items, projects and the counters.
//!
//! One process leads and is the only writer, so its memory is the truth as long as every write goes through it. The database checks every
//! version again; when it disagrees, another process has written, and everything is loaded anew.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use roboco_domain::id::{AgentId, InboxNumber, ProjectId, SpawnId, TaskId, TaskNumber};
use roboco_domain::inbox::InboxItem;
use roboco_domain::project::Project;
use roboco_domain::snapshot::NextNumbers;
use roboco_domain::spawn::{Seat, Spawn, SpawnState};
use roboco_domain::task::Task;

use crate::EventRow;

/// What the next rows are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counter {
    pub(super) event: u64,
    pub(super) task: u64,
    pub(super) inbox: u64,
}

impl Counter {
    pub(super) const fn numbers(self) -> NextNumbers {
        NextNumbers { task: TaskNumber(self.task), inbox: InboxNumber(self.inbox) }
    }
}

/// Rows by their keys. The ended ones are not here.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    pub(super) counter: Counter,
    pub(super) tasks: HashMap<TaskId, Arc<Task>>,
    /// Open tasks in the order people see.
    pub(super) numbers: BTreeMap<TaskNumber, TaskId>,
    pub(super) projects: HashMap<ProjectId, Arc<Project>>,
    pub(super) seats: HashMap<AgentId, Seat>,
    pub(super) spawns: BTreeMap<SpawnId, Spawn>,
    pub(super) inbox: BTreeMap<InboxNumber, InboxItem>,
}

impl Memory {
    pub(super) fn new(counter: Counter) -> Self {
        Self {
            counter,
            tasks: HashMap::new(),
            numbers: BTreeMap::new(),
            projects: HashMap::new(),
            seats: HashMap::new(),
            spawns: BTreeMap::new(),
            inbox: BTreeMap::new(),
        }
    }

    /// Keeps the row, or forgets it when it has ended.
    pub(super) fn put_task(&mut self, task: Arc<Task>) {
        if task.stage.is_terminal() {
            self.tasks.remove(&task.id);
            self.numbers.remove(&task.number);
        } else {
            self.numbers.insert(task.number, task.id);
            self.tasks.insert(task.id, task);
        }
    }

    pub(super) fn put_project(&mut self, project: Arc<Project>) {
        self.projects.insert(project.id, project);
    }

    pub(super) fn put_seat(&mut self, seat: Seat) {
        self.seats.insert(seat.agent, seat);
    }

    /// Keeps the row, or forgets it when it has ended.
    pub(super) fn put_spawn(&mut self, spawn: Spawn) {
        if spawn.state == SpawnState::Ended {
            self.spawns.remove(&spawn.id);
        } else {
            self.spawns.insert(spawn.id, spawn);
        }
    }

    /// Keeps the row, or forgets it when it was decided.
    pub(super) fn put_inbox(&mut self, item: InboxItem) {
        if item.decided_at.is_some() {
            self.inbox.remove(&item.number);
        } else {
            self.inbox.insert(item.number, item);
        }
    }

    /// Takes over what was committed.
    pub(super) fn apply(&mut self, staged: Staged) -> Vec<Arc<EventRow>> {
        let Staged { counter, tasks, projects, seats, spawns, inbox, events } = staged;
        self.counter = counter;
        tasks.into_values().for_each(|task| self.put_task(task));
        projects.into_values().for_each(|project| self.put_project(project));
        seats.into_values().for_each(|seat| self.put_seat(seat));
        spawns.into_values().for_each(|spawn| self.put_spawn(spawn));
        inbox.into_values().for_each(|item| self.put_inbox(item));
        events
    }
}

/// What a transaction under way will have changed, ended rows included. Thrown away when it fails.
#[derive(Debug)]
pub(super) struct Staged {
    pub(super) counter: Counter,
    pub(super) tasks: HashMap<TaskId, Arc<Task>>,
    pub(super) projects: HashMap<ProjectId, Arc<Project>>,
    pub(super) seats: HashMap<AgentId, Seat>,
    pub(super) spawns: HashMap<SpawnId, Spawn>,
    pub(super) inbox: HashMap<InboxNumber, InboxItem>,
    pub(super) events: Vec<Arc<EventRow>>,
}

impl Staged {
    pub(super) fn new(counter: Counter) -> Self {
        Self {
            counter,
            tasks: HashMap::new(),
            projects: HashMap::new(),
            seats: HashMap::new(),
            spawns: HashMap::new(),
            inbox: HashMap::new(),
            events: Vec::new(),
        }
    }
}
