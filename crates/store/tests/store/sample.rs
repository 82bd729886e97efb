//! Rows and requests to write.

use std::sync::Arc;
use std::time::Duration;

use roboco_domain::apply::Changes;
use roboco_domain::effect::{Effect, EffectResult, Intended, TreeFor};
use roboco_domain::event::Event;
use roboco_domain::id::{
    AgentId, CompanyId, CorrelationId, CriterionNumber, InboxNumber, IntentId, ProjectId, SpawnId, SpawnNumber, TaskId, TaskNumber,
};
use roboco_domain::inbox::{InboxItem, InboxKind};
use roboco_domain::project::{Access, GateCommands, MergeMethod, Project};
use roboco_domain::snapshot::NextNumbers;
use roboco_domain::spawn::{Epoch, Spawn, SpawnState, Usage};
use roboco_domain::task::{Complexity, Counters, Criterion, Delivery, Lease, Meter, Nature, Ownership, Shape, Stage, Task, TaskType};
use roboco_domain::time::Timestamp;
use roboco_domain::vcs::BranchName;
use roboco_domain::verb::Verb;
use roboco_store::{CommitRequest, Committed, EventRow, Store};
use tokio::sync::broadcast::Receiver;
use tokio::time::timeout;
use uuid::Uuid;

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// A moment some milliseconds after the usual one.
pub(crate) fn later(millis: i64) -> Timestamp {
    Timestamp::from_millis(NOW.millis() + millis)
}

pub(crate) fn agent(n: u128) -> AgentId {
    AgentId::new(Uuid::from_u128(0xa000 + n))
}

pub(crate) fn spawn_id() -> SpawnId {
    SpawnId::new(Uuid::now_v7())
}

pub(crate) fn intent_id() -> IntentId {
    IntentId::new(Uuid::now_v7())
}

pub(crate) fn branch(name: &str) -> BranchName {
    BranchName::new(name).unwrap()
}

pub(crate) fn project(company: CompanyId, slug: &str) -> Project {
    Project {
        id: ProjectId::new(Uuid::now_v7()),
        company,
        slug: slug.into(),
        version: 1,
        origin: "/srv/shop.git".into(),
        default_branch: branch("main"),
        cell: "backend".parse().unwrap(),
        commands: GateCommands { test: "make test".into(), ..GateCommands::default() },
        protected_paths: vec![".github/workflows/**".into()],
        protected_branches: vec!["release/*".into()],
        merge: MergeMethod::Merge,
        access: Access::ReadWrite,
        warnings: vec!["no tests \u{1f980}".into()],
        next_pr: 1,
        created_at: NOW,
    }
}

pub(crate) fn task(company: CompanyId, number: TaskNumber) -> Task {
    Task {
        id: TaskId::new(Uuid::now_v7()),
        company,
        number,
        version: 1,
        project: ProjectId::new(Uuid::from_u128(7)),
        title: "Say \"hello\" to '\u{e9}'; \0 too".into(),
        description: "A page that greets whoever opens it.".into(),
        criteria: vec![Criterion { id: CriterionNumber(1), text: "it greets".into(), evidence: None, verdict: None, kept: None }],
        task_type: TaskType::Code,
        nature: Nature::Technical,
        complexity: Complexity::Low,
        priority: 2,
        team: "backend".parse().unwrap(),
        shape: Shape::StandaloneLeaf,
        stage: Stage::Ready,
        stage_since: NOW,
        hold: None,
        parent: None,
        depends_on: vec![],
        parts: vec![],
        cells: vec![],
        touches: vec!["src/**".into()],
        ownership: Ownership::default(),
        plan: None,
        delivery: Delivery {
            branch: branch("feature/backend/t1"),
            target: branch("main"),
            ceo_target: true,
            base: None,
            head: None,
            tree: None,
            commits: vec![],
            pr: None,
            merged: None,
        },
        review: None,
        docs: None,
        gate: None,
        findings: vec![],
        pending: vec![],
        counters: Counters::default(),
        meter: Meter::default(),
        journal: vec![],
        budget_micro_usd: None,
        created_by: agent(0),
        created_at: NOW,
        started_at: None,
        ended_at: None,
    }
}

/// The next version of a task, changed.
pub(crate) fn next(task: &Task, change: impl FnOnce(&mut Task)) -> Arc<Task> {
    let mut next = task.clone();
    next.version += 1;
    change(&mut next);
    Arc::new(next)
}

pub(crate) fn spawn(task: &Task, nth: u64) -> Spawn {
    Spawn {
        id: spawn_id(),
        number: SpawnNumber { task: task.number, nth },
        version: 1,
        agent: agent(1),
        task: task.id,
        epoch: Epoch(nth),
        verb: Verb::IAmDone,
        provider: "claude".into(),
        model: Some("large".into()),
        state: SpawnState::Intended,
        session: None,
        resume: None,
        closed_by: None,
        limited_until: None,
        outcome: None,
        usage: Usage { input_tokens: Some(12), ..Usage::default() },
        intended_at: NOW,
        started_at: None,
        ended_at: None,
    }
}

pub(crate) fn lease(spawn: SpawnId, expires_at: Timestamp) -> Lease {
    Lease { holder: agent(1), spawn, epoch: Epoch(1), acquired_at: NOW, expires_at }
}

pub(crate) fn inbox_item(number: InboxNumber, task: TaskId) -> InboxItem {
    InboxItem {
        number,
        version: 1,
        kind: InboxKind::Approval,
        task,
        text: "T-1 waits for you".into(),
        opened_at: NOW,
        decision: None,
        decided_at: None,
    }
}

pub(crate) fn note(text: impl Into<String>) -> Event {
    Event::NoteRecorded { scope: "note".into(), text: text.into() }
}

pub(crate) fn cut_branch(task: &Task) -> Intended {
    let effect = Effect::CutBranch {
        task: task.id,
        project: task.project,
        branch: task.delivery.branch.clone(),
        base: task.delivery.base(),
        tree: TreeFor::Author,
    };
    Intended { intent: intent_id(), effect }
}

pub(crate) fn outcome() -> EffectResult {
    EffectResult::CommitRefused { problems: vec!["secret.key looks like a \"secret\"".into()] }
}

/// A request that changes nothing yet.
pub(crate) fn request(numbers: NextNumbers) -> CommitRequest {
    CommitRequest {
        at: NOW,
        actor: agent(0),
        spawn: None,
        correlation: CorrelationId::new(Uuid::now_v7()),
        task: None,
        moved: None,
        events: vec![],
        also: vec![],
        changes: Changes::default(),
        numbers,
        effects: vec![],
        settles: None,
        replay: None,
    }
}

/// A request that writes a task with one note.
pub(crate) async fn change(store: &dyn Store, task: Arc<Task>) -> CommitRequest {
    let mut request = request(store.next_numbers().await.unwrap());
    request.task = Some(task.id);
    request.events = vec![note(format!("version {}", task.version))];
    request.changes.task = Some(task);
    request
}

/// Creates a task and returns it.
pub(crate) async fn created(store: &dyn Store) -> Arc<Task> {
    let numbers = store.next_numbers().await.unwrap();
    let task = Arc::new(task(store.company(), numbers.task));
    let mut request = request(numbers);
    request.task = Some(task.id);
    request.events = vec![Event::TaskCreated { task: Box::new((*task).clone()) }];
    request.changes.task = Some(Arc::clone(&task));
    assert!(is_committed(store.commit(request).await.unwrap()));
    task
}

/// Writes the next version of a task and returns it.
pub(crate) async fn changed(store: &dyn Store, task: &Task, how: impl FnOnce(&mut Task)) -> Arc<Task> {
    let next = next(task, how);
    let request = change(store, Arc::clone(&next)).await;
    assert!(is_committed(store.commit(request).await.unwrap()));
    next
}

pub(crate) fn is_committed(committed: Committed) -> bool {
    matches!(committed, Committed::Yes(_))
}

/// Everything a reader can see of the state, as text.
pub(crate) async fn picture(store: &dyn Store) -> String {
    let tasks = store.open_tasks().await.unwrap();
    let listed = store.tasks(&Default::default()).await.unwrap();
    let projects = store.projects().await.unwrap();
    let spawns = store.live_spawns().await.unwrap();
    let inbox = store.open_inbox(None).await.unwrap();
    let seats = [store.seat(agent(0)).await.unwrap(), store.seat(agent(1)).await.unwrap()];
    let numbers = store.next_numbers().await.unwrap();
    let events = store.events(0, None, 10_000).await.unwrap();
    let intents = store.open_intents().await.unwrap();
    format!("{tasks:#?}{listed:#?}{projects:#?}{spawns:#?}{inbox:#?}{seats:#?}{numbers:?}{events:#?}{intents:#?}")
}

/// The next event a listener hears; it must come soon.
pub(crate) async fn heard(listener: &mut Receiver<Arc<EventRow>>) -> Arc<EventRow> {
    timeout(Duration::from_secs(20), listener.recv()).await.expect("no event came").unwrap()
}
