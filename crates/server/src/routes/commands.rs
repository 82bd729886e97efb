//! Commands: one route for every verb of the registry that people reach.

use axum::extract::{Path, State};
use axum::routing::{MethodRouter, post};
use axum::{Extension, Json};
use http::{HeaderMap, StatusCode};
use roboco_company::call::{Called, Request};
use roboco_company::fault::Fault;
use roboco_company::views::TaskRow;
use roboco_domain::id::CorrelationId;
use roboco_domain::verb::Verb;
use roboco_gateway::Problem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::tasks;
use crate::ServerState;
use crate::failure;
use crate::input::{Arguments, Correlation};
use crate::person::Person;

/// What a command came to.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CommandAnswer {
    /// The task as it is now; null when the same request was answered before and named none.
    pub task: Option<TaskRow>,
    /// What happens next.
    pub next: Option<String>,
    /// Data of the command.
    pub evidence: Map<String, Value>,
    /// Something worth knowing although it worked.
    pub warning: Option<String>,
}

/// The verbs people reach on a task, in registry order.
pub(crate) fn on_tasks() -> impl Iterator<Item = Verb> {
    Verb::ALL.iter().copied().filter(|verb| verb.is_operator() && *verb != Verb::CreateTask)
}

/// The arguments of a verb without the task, which the path names.
pub(crate) fn schema(verb: Verb) -> Value {
    let mut schema = verb.schema();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.remove("task_id");
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name != "task_id");
    }
    schema
}

/// Everything a command's route reads beside its body.
type Read = (State<ServerState>, Extension<Person>, Correlation, Path<String>, HeaderMap);

/// The route of a verb.
pub(crate) fn handler(verb: Verb) -> MethodRouter<ServerState> {
    post(move |state, person, correlation, path, headers, body| command(verb, (state, person, correlation, path, headers), body))
}

async fn command(verb: Verb, read: Read, Arguments(mut body): Arguments) -> Result<Json<CommandAnswer>, Problem> {
    let (State(state), Extension(person), Correlation(id), Path(typed), headers) = read;
    if body.get("task_id").is_some() {
        return Err(failure::unreadable("task_id", "part of the path only", id));
    }
    let task = tasks::find(&state, &typed, id).await?;
    body["task_id"] = task.id.to_string().into();
    let called = call(&state, person, verb, body, id, &headers).await?;
    answer(&state, called, Some(task.id), id).await.map(Json)
}

pub(crate) async fn create(
    State(state): State<ServerState>,
    Extension(person): Extension<Person>,
    Correlation(id): Correlation,
    headers: HeaderMap,
    Arguments(body): Arguments,
) -> Result<(StatusCode, Json<CommandAnswer>), Problem> {
    let called = call(&state, person, Verb::CreateTask, body, id, &headers).await?;
    // A repeated request makes nothing.
    let status = if called.task.is_some() { StatusCode::CREATED } else { StatusCode::OK };
    let subject = called.task;
    answer(&state, called, subject, id).await.map(|answer| (status, Json(answer)))
}

/// Runs a command to its end, also when the caller hangs up: cut off after its commit, the work that follows from it would lie still.
async fn call(
    state: &ServerState,
    person: Person,
    verb: Verb,
    arguments: Value,
    correlation: CorrelationId,
    headers: &HeaderMap,
) -> Result<Called, Problem> {
    let key = headers.get("idempotency-key").and_then(|value| value.to_str().ok()).map(str::trim).filter(|key| !key.is_empty());
    if key.is_some_and(|key| key.len() > 200) {
        return Err(failure::unreadable("idempotency-key", "at most 200 bytes", correlation));
    }
    let replay_key = key.map(|key| format!("{}:{key}", person.agent()));
    let request = Request { actor: person.actor(), verb, arguments, correlation, replay_key };
    let company = state.company.clone();
    let running = tokio::spawn(async move { company.call(request).await });
    let fault = |fault| failure::fault(&fault, correlation);
    let called = running.await.map_err(|stopped| fault(Fault::lasting(stopped.to_string())))?.map_err(fault)?;
    match &called.rejection {
        Some(rejection) => Err(failure::refusal(rejection, correlation)),
        None => Ok(called),
    }
}

async fn answer(
    state: &ServerState,
    called: Called,
    subject: Option<roboco_domain::id::TaskId>,
    id: CorrelationId,
) -> Result<CommandAnswer, Problem> {
    let fault = |fault| failure::fault(&fault, id);
    let task = match called.task.or(subject) {
        Some(task) => state.company.store().task(task).await.map_err(|e| fault(e.into()))?,
        None => None,
    };
    let row = match task {
        Some(task) => Some(state.company.task_row(&task).await.map_err(fault)?),
        None => None,
    };
    Ok(CommandAnswer { task: row, next: called.envelope.next, evidence: called.envelope.evidence, warning: called.envelope.warning })
}
