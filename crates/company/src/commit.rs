//! The one commit path: load, decide, write all or nothing, decide again when somebody was faster. The only caller of `Store::commit`.

use std::sync::Arc;

use roboco_domain::apply::changes;
use roboco_domain::command::{Actor, Body, Command, Fresh, SystemCommand};
use roboco_domain::decide::{decide, told_of};
use roboco_domain::effect::Intended;
use roboco_domain::event::Event;
use roboco_domain::id::{AgentId, CorrelationId, TaskId, TaskRef};
use roboco_domain::limits;
use roboco_domain::rejection::{Kind, Rejection, Remedy};
use roboco_domain::snapshot::{Answer, Facts, Snapshot};
use roboco_domain::task::{Stage, Task, TaskBrief};
use roboco_domain::verb::{Call, Verb};
use roboco_store::{CommitRequest, Committed, IntentState, Replay, Resolved, TaskEvents};
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::fault::Fault;
use crate::{Company, family};

/// What came of a command.
#[derive(Debug)]
pub enum Executed {
    /// It was committed.
    Accepted {
        /// For the caller; not complete while there is something to wait for.
        answer: Answer,
        /// The result of the effect that completes the answer.
        wait: Option<oneshot::Receiver<Answer>>,
        /// The task as it is now.
        task: Option<Arc<Task>>,
        /// The last event's number.
        seq: u64,
    },
    /// Nothing was written.
    Refused {
        /// Why, and the way out.
        rejection: Rejection,
        /// The task as it is.
        task: Option<Arc<Task>>,
    },
}

/// Fresh random ids for one command.
pub fn fresh() -> Fresh {
    Fresh([Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7()])
}

/// A new correlation id.
pub fn correlation() -> CorrelationId {
    CorrelationId::new(Uuid::now_v7())
}

impl Company {
    /// Executes something the company does by itself.
    ///
    /// # Errors
    /// A fault of the database.
    pub async fn execute_system(&self, system: SystemCommand) -> Result<Executed, Fault> {
        let command =
            Command { correlation: correlation(), actor: Actor::System(self.system()), body: Body::System(system), fresh: fresh() };
        self.execute(&command, Facts::default(), None).await
    }

    /// Executes a command: the only way state changes.
    ///
    /// # Errors
    /// A fault of the database, or so many lost races that something is wrong.
    pub async fn execute(&self, command: &Command, facts: Facts, replay: Option<Replay>) -> Result<Executed, Fault> {
        let lane = subject(command).map(|task| self.lanes.of(task));
        let mut turn = lane.and_then(|lane| Arc::clone(lane).try_lock_owned().ok());
        for _ in 0..limits::MAX_CONFLICTS {
            let world = match self.load(command, facts.clone()).await? {
                Ok(world) => world,
                Err(rejection) => {
                    let before = self.done_before(replay.as_ref(), None).await?;
                    return Ok(before.unwrap_or(Executed::Refused { rejection, task: None }));
                }
            };
            let decision = match decide(&world, command) {
                Ok(decision) => decision,
                // What was done before is refused now that the task has moved on; its caller gets the first answer all the same.
                Err(rejection) => {
                    let before = self.done_before(replay.as_ref(), Some(&world)).await?;
                    return Ok(before.unwrap_or(Executed::Refused { rejection, task: world.task }));
                }
            };
            if decision.is_empty() {
                if let Some(before) = self.done_before(replay.as_ref(), Some(&world)).await? {
                    return Ok(before);
                }
                let Some(intent) = decision.answer.waits_for else {
                    return Ok(Executed::Accepted { answer: decision.answer, wait: None, task: world.task, seq: 0 });
                };
                // The effect is under way already: join it, unless it ended between the look and the wait.
                let wait = self.signals.wait_for(intent);
                if matches!(self.store.intent(intent).await?, IntentState::Open) {
                    return Ok(Executed::Accepted { answer: decision.answer, wait: Some(wait), task: world.task, seq: 0 });
                }
                continue;
            }
            // A refusal never waits for other writers of the task; what must be written does, and is decided on what is there then.
            if let (Some(lane), None) = (lane, &turn) {
                turn = Some(Arc::clone(lane).lock_owned().await);
                continue;
            }
            let rows = changes(&world, command, &decision);
            let task = rows.task.clone().or_else(|| world.task.clone());
            let moved = world.task.as_ref().zip(rows.task.as_ref()).and_then(|(before, after)| moved(before, after));
            let also = grouped(&world, &rows.others, decision.also);
            let facts = decision.events.iter().chain(also.iter().flat_map(|it| &it.events));
            let concerns_plan = facts.into_iter().any(wakes_plan) || decision.settles.is_some();
            let request = CommitRequest {
                at: world.now,
                actor: command.actor.agent(),
                spawn: command.actor.spawn().or_else(|| rows.spawn.as_ref().map(|s| s.id)),
                correlation: command.correlation,
                task: task.as_ref().map(|t| t.id),
                moved,
                events: decision.events,
                also,
                changes: rows,
                numbers: world.next,
                effects: decision.effects.clone(),
                settles: settled(command, decision.settles),
                replay: replay.clone().map(|r| Replay { waits_for: decision.answer.waits_for, ..r }),
            };
            let committed = match self.store.commit(request).await {
                Ok(committed) => committed,
                Err(fault) => {
                    self.look_after(decision.effects);
                    return Err(fault.into());
                }
            };
            if let Committed::Yes(seq) = committed {
                if concerns_plan {
                    self.signals.plan.notify_one();
                }
                if let Body::System(SystemCommand::Settle { intent, .. }) = &command.body {
                    self.signals.settled(*intent, &decision.answer);
                }
                // The wait is registered before the effect is handed over, so that a fast result cannot be missed.
                let wait = decision.answer.waits_for.map(|intent| self.signals.wait_for(intent));
                self.signals.hand_over(decision.effects);
                return Ok(Executed::Accepted { answer: decision.answer, wait, task, seq });
            }
            // A key that is taken makes a commit stale: the same request was faster, just now or long ago.
            if let Some(before) = self.done_before(replay.as_ref(), Some(&world)).await? {
                return Ok(before);
            }
        }
        Err(Fault::passing("too many writers at once; try again"))
    }

    /// Hands over what was committed although the database failed to say so, as soon as it can be asked.
    fn look_after(&self, effects: Vec<Intended>) {
        let (store, hand_over) = (Arc::clone(&self.store), self.signals.late());
        tokio::spawn(async move {
            for intended in effects {
                let mut wait = limits::OUTBOX_BACKOFF;
                let state = loop {
                    match store.intent(intended.intent).await {
                        Ok(state) => break state,
                        Err(fault) => tracing::warn!(%fault, intent = %intended.intent, "whether an effect was recorded is not known yet"),
                    }
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(limits::OUTBOX_BACKOFF_MAX);
                };
                if matches!(state, IntentState::Open) {
                    tracing::info!(intent = %intended.intent, "an effect was recorded although the database did not say so");
                    hand_over(intended);
                }
            }
        });
    }

    /// What came of the request that was sent with this key before, if there was one. Nothing is done again: an effect that is under way is
    /// waited for, and what one that has ended came to is told once more.
    async fn done_before(&self, mine: Option<&Replay>, world: Option<&Snapshot>) -> Result<Option<Executed>, Fault> {
        let Some(mine) = mine else { return Ok(None) };
        let Some(kept) = self.store.replay(&mine.key).await? else { return Ok(None) };
        let task = world.and_then(|world| world.task.clone());
        if kept.digest != mine.digest {
            return Ok(Some(Executed::Refused { rejection: key_reused(), task }));
        }
        let mut before = Executed::Accepted { answer: answered_before(), wait: None, task, seq: 0 };
        let (Some(intent), Executed::Accepted { answer, wait, .. }) = (kept.waits_for, &mut before) else { return Ok(Some(before)) };
        // The wait begins before the look, so that a result in between is not missed.
        let result = self.signals.wait_for(intent);
        match (self.store.intent(intent).await?, world) {
            (IntentState::Open, _) => *wait = Some(result),
            (IntentState::Settled(effect, result), Some(world)) => *answer = told_of(world, &effect, &result).after(answer.clone()),
            (IntentState::Settled(..) | IntentState::Unknown, _) => {}
        }
        Ok(Some(before))
    }

    /// Loads what a decision may look at. The inner refusal is a reference that names nothing or too much.
    async fn load(&self, command: &Command, facts: Facts) -> Result<Result<Snapshot, Rejection>, Fault> {
        let store = &self.store;
        let subject = subject(command);
        let task = match subject {
            Some(id) => store.task(id).await?,
            None => None,
        };
        let spawn_id = match &command.body {
            Body::System(
                SystemCommand::SpawnStarted { spawn }
                | SystemCommand::SpawnSession { spawn, .. }
                | SystemCommand::SpawnLeft { spawn, .. }
                | SystemCommand::SpawnEnded { spawn, .. }
                | SystemCommand::RevokeSpawn { spawn, .. },
            ) => Some(*spawn),
            Body::System(SystemCommand::Settle { .. }) => task.as_ref().and_then(|t| t.ownership.lease.as_ref().map(|l| l.spawn)),
            Body::System(_) | Body::Verb { .. } | Body::AddProject(_) => command.actor.spawn(),
        };
        let spawn = match spawn_id {
            Some(id) => store.spawn(id).await?,
            None => None,
        };
        let task = match (&task, &spawn, &command.body) {
            (None, Some(spawn), Body::System(_)) => store.task(spawn.task).await?,
            _ => task,
        };
        let seat_of = seat_of(command, spawn.as_ref().map(|s| s.agent));
        let seat = match seat_of {
            Some(agent) => Some(store.seat(agent).await?),
            None => None,
        };
        let named = match self.named(&command.body).await? {
            Ok(named) => named,
            Err(rejection) => return Ok(Err(rejection)),
        };
        let project = match (&task, &command.body) {
            (Some(task), _) => store.project(task.project).await?,
            (None, Body::AddProject(new)) => store.project_by_slug(&new.slug).await?,
            (None, Body::Verb { call, .. }) => match &**call {
                Call::CreateTask(args) => store.project_by_slug(args.project.trim()).await?,
                _ => None,
            },
            (None, Body::System(_)) => None,
        };
        let (ancestors, dependencies) = match &task {
            Some(task) => (family::ancestors(&**store, task).await?, family::briefs(&**store, &task.depends_on).await?),
            None => (Vec::new(), Vec::new()),
        };
        let descendants = match (&task, &command.body) {
            (Some(task), Body::Verb { call, .. }) if call.verb() == Verb::Cancel => family::descendants(&**store, task.id).await?,
            _ => Vec::new(),
        };
        let actor_tasks = match &command.actor {
            Actor::Agent(agent) => tasks_of(&**store, agent.agent, subject).await?,
            Actor::Ceo(_) | Actor::System(_) => Vec::new(),
        };
        // What waits for the CEO about a task below is decided with it.
        let mut inbox = Vec::new();
        for task in task.iter().chain(&descendants) {
            inbox.extend(store.open_inbox(Some(task.id)).await?);
        }
        Ok(Ok(Snapshot {
            now: self.clock.now(),
            company: store.company(),
            roster: Arc::clone(&self.roster),
            task,
            project,
            dependencies,
            ancestors,
            descendants,
            named,
            actor_tasks,
            seat,
            spawn,
            inbox,
            next: store.next_numbers().await?,
            facts,
        }))
    }

    /// The task a typed reference stands for.
    ///
    /// # Errors
    /// The outer error is a fault; the inner one says that it names nothing, or more than one task.
    pub async fn resolve(&self, typed: &str) -> Result<Result<TaskId, Rejection>, Fault> {
        let forms = Remedy::tell("name it by its number (T-142), its full id, or at least 8 leading digits of the id");
        let reference = match typed.parse::<TaskRef>() {
            Ok(reference) => reference,
            Err(error) => {
                let mut rejection = Rejection::new(Kind::IncompleteInput, error.to_string(), forms);
                rejection.missing.push("task_id".into());
                return Ok(Err(rejection));
            }
        };
        Ok(match self.store.resolve(&reference).await? {
            Resolved::One(id) => Ok(id),
            Resolved::None => Err(Rejection::new(Kind::NotFound, format!("there is no task {reference}"), forms)),
            Resolved::Many => {
                let mut rejection = Rejection::new(Kind::IncompleteInput, format!("{reference} stands for more than one task"), forms);
                rejection.missing.push("task_id".into());
                Err(rejection)
            }
        })
    }
}

/// Open tasks an agent is assigned to or holds, other than one.
async fn tasks_of(store: &dyn roboco_store::Store, agent: AgentId, except: Option<TaskId>) -> Result<Vec<TaskBrief>, Fault> {
    let mine = |t: &&Arc<Task>| {
        Some(t.id) != except && (t.ownership.assignee == Some(agent) || t.ownership.lease.as_ref().is_some_and(|l| l.holder == agent))
    };
    Ok(store.open_tasks().await?.iter().filter(mine).map(|t| TaskBrief::from(&**t)).collect())
}

/// The answer of a request that was answered before.
fn answered_before() -> Answer {
    Answer { warning: Some("this request was answered before; nothing was done twice".into()), ..Answer::next("go on") }
}

/// The refusal of a key that stands for another request.
fn key_reused() -> Rejection {
    let message = "this idempotency key was used for another request";
    Rejection::new(Kind::InvalidState, message, Remedy::tell("send a new key with a new request"))
}

fn subject(command: &Command) -> Option<TaskId> {
    match &command.body {
        Body::Verb { task, .. } => *task,
        Body::System(SystemCommand::PlanSpawn { task, .. } | SystemCommand::Submit { task } | SystemCommand::ExpireLease { task }) => {
            Some(*task)
        }
        Body::System(SystemCommand::Settle { effect, .. }) => Some(effect.task()),
        Body::System(_) | Body::AddProject(_) => None,
    }
}

fn seat_of(command: &Command, spawn_agent: Option<AgentId>) -> Option<AgentId> {
    match (&command.actor, &command.body) {
        (Actor::Agent(agent), _) => Some(agent.agent),
        (_, Body::System(SystemCommand::PlanSpawn { agent, .. })) => Some(*agent),
        (_, Body::System(_)) => spawn_agent,
        (Actor::Ceo(_) | Actor::System(_), Body::Verb { .. } | Body::AddProject(_)) => None,
    }
}

/// The stage before and after, when it moved.
fn moved(before: &Task, after: &Task) -> Option<(Stage, Stage)> {
    (before.stage != after.stage).then_some((before.stage, after.stage))
}

/// Facts about other tasks by the task they are about, with its own move, in the order in which the tasks were first spoken of.
fn grouped(world: &Snapshot, rows: &[Arc<Task>], also: Vec<(TaskId, Event)>) -> Vec<TaskEvents> {
    let mut all: Vec<TaskEvents> = Vec::new();
    for (task, event) in also {
        match all.iter_mut().find(|it| it.task == task) {
            Some(known) => known.events.push(event),
            None => {
                let before = world.ancestors.iter().chain(&world.descendants).find(|t| t.id == task);
                let after = rows.iter().find(|t| t.id == task);
                let moved = before.zip(after).and_then(|(before, after)| moved(before, after));
                all.push(TaskEvents { task, moved, events: vec![event] });
            }
        }
    }
    all
}

fn settled(
    command: &Command,
    settles: Option<roboco_domain::id::IntentId>,
) -> Option<(roboco_domain::id::IntentId, roboco_domain::effect::EffectResult)> {
    match &command.body {
        Body::System(SystemCommand::Settle { intent, result, .. }) if settles == Some(*intent) => Some((*intent, result.clone())),
        Body::System(_) | Body::Verb { .. } | Body::AddProject(_) => None,
    }
}

/// Events after which somebody else may have to start or stop.
const fn wakes_plan(event: &Event) -> bool {
    !matches!(
        event,
        Event::NoteRecorded { .. }
            | Event::ProgressReported { .. }
            | Event::SpawnStarted {}
            | Event::SpawnSessionNamed { .. }
            | Event::SpawnLeft { .. }
            | Event::CommitRecorded { .. }
            | Event::PrOpened { .. }
            | Event::ProjectAdded { .. }
            | Event::SpawnIntended { .. }
    )
}
