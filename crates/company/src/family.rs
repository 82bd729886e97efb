//! What surrounds a task: the work it is a part of, what is open below it, what it waits for, and whose turn it is with all that.

use std::sync::Arc;

use roboco_domain::command::Body;
use roboco_domain::id::TaskId;
use roboco_domain::next::{NextActor, Wait, next_actor};
use roboco_domain::rejection::Rejection;
use roboco_domain::roster::Roster;
use roboco_domain::task::{Hold, Task, TaskBrief};
use roboco_domain::verb::Call;
use roboco_store::Store;

use crate::Company;
use crate::fault::Fault;

/// The work a task is a part of, nearest first. Ended work counts too.
pub(crate) async fn ancestors(store: &dyn Store, task: &Task) -> Result<Vec<Arc<Task>>, Fault> {
    let mut ancestors: Vec<Arc<Task>> = Vec::new();
    let mut above = task.parent;
    while let Some(id) = above {
        let Some(task) = store.task(id).await? else { break };
        above = task.parent;
        ancestors.push(task);
    }
    Ok(ancestors)
}

/// Open tasks below one, each after what it is a part of.
pub(crate) async fn descendants(store: &dyn Store, task: TaskId) -> Result<Vec<Arc<Task>>, Fault> {
    let open = store.open_tasks().await?;
    let mut found: Vec<Arc<Task>> = Vec::new();
    let mut above = vec![task];
    while !above.is_empty() {
        let level: Vec<_> = open.iter().filter(|t| t.parent.is_some_and(|parent| above.contains(&parent))).cloned().collect();
        above = level.iter().map(|t| t.id).collect();
        found.extend(level);
    }
    Ok(found)
}

/// What others need to know of tasks, in the order asked for.
pub(crate) async fn briefs(store: &dyn Store, ids: &[TaskId]) -> Result<Vec<TaskBrief>, Fault> {
    let mut briefs = Vec::with_capacity(ids.len());
    for id in ids {
        if let Some(task) = store.task(*id).await? {
            briefs.push(TaskBrief::from(&*task));
        }
    }
    Ok(briefs)
}

/// Whose turn it is with a task.
pub(crate) async fn turn(store: &dyn Store, roster: &Roster, task: &Task) -> Result<NextActor, Fault> {
    let set_aside = |above: &&Arc<Task>| above.hold.as_ref().is_some_and(Hold::stops_parts);
    if !task.stage.is_terminal()
        && let Some(above) = ancestors(store, task).await?.iter().find(set_aside)
    {
        // Nothing below work that was set aside as a whole moves.
        return Ok(NextActor::Waits(Wait::Above(above.number)));
    }
    let dependencies = briefs(store, &task.depends_on).await?;
    Ok(next_actor(task, &dependencies, roster))
}

impl Company {
    /// The tasks that a command names beside its own. The inner refusal is a reference that names nothing or too much.
    pub(crate) async fn named(&self, body: &Body) -> Result<Result<Vec<TaskBrief>, Rejection>, Fault> {
        let typed = match body {
            Body::Verb { call, .. } => match &**call {
                Call::CreateTask(args) => args.depends_on.0.as_slice(),
                Call::Delegate(args) => args.depends_on.0.as_slice(),
                _ => &[],
            },
            Body::AddProject(_) | Body::System(_) => &[],
        };
        let mut ids = Vec::with_capacity(typed.len());
        for text in typed {
            match self.resolve(text).await? {
                Ok(id) => ids.push(id),
                Err(rejection) => return Ok(Err(rejection)),
            }
        }
        Ok(Ok(briefs(&*self.store, &ids).await?))
    }
}
