//! Every route of the operator, with its description.

pub(crate) mod agents;
pub(crate) mod commands;
pub(crate) mod health;
pub(crate) mod projects;
pub(crate) mod spawns;
pub(crate) mod stats;
pub(crate) mod stream;
pub(crate) mod tasks;

use std::sync::LazyLock;

use axum::extract::Request;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use http::HeaderValue;
use roboco_company::projects::ProjectInput;
use roboco_company::views::{AgentRow, BlockRow, EventView, InboxRow, ProjectRow, SpawnRow, TaskRow, TaskView};
use roboco_domain::verb::Verb;
use roboco_gateway::Problem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::openapi::path::HttpMethod::{Get, Post};

use crate::ServerState;
use crate::document::Documented;
use crate::person;

/// A whole list.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Items<T> {
    /// All of it.
    pub items: Vec<T>,
}

/// A part of a list.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Page<T> {
    /// The part.
    pub items: Vec<T>,
    /// Where the next part begins; null when this is the last.
    pub next: Option<u64>,
}

/// Rows of a page when the request names no number, and the most it may name.
pub(crate) const PAGE: u64 = 50;
pub(crate) const PAGE_MAX: u64 = 200;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| open(Documented::new(), protected).finish().1);

/// The description of all routes.
pub(crate) fn document() -> Value {
    DOCUMENT.clone()
}

pub(crate) fn router(state: &ServerState) -> Router {
    let (open, _) = open(Documented::new(), |routes| routes).finish();
    let (closed, _) = protected(Documented::new()).finish();
    open.merge(closed.route_layer(from_fn_with_state(state.clone(), person::check)))
        .method_not_allowed_fallback(crate::failure::wrong_method)
        .layer(from_fn(trace))
        .with_state(state.clone())
}

fn open(mut routes: Documented, rest: impl FnOnce(Documented) -> Documented) -> Documented {
    let health = routes.gives::<health::Health>("Whether the process lives.", "200").open();
    let ready = routes.gives::<health::Health>("Whether the database answers.", "200").open();
    rest(routes.route(Get, "/health", health, get(health::health)).route(Get, "/ready", ready, get(health::ready)))
}

fn protected(mut routes: Documented) -> Documented {
    let itself = routes.name("OpenApi", json!({ "type": "object" }));
    let itself = routes.gives_shape("This description.", "200", itself);
    routes = routes.route(Get, "/api/openapi.json", itself, get(async || Json(document())));

    let list = routes.gives::<Items<ProjectRow>>("Every project.", "200");
    let input = routes.shape::<ProjectInput>();
    let add = routes.gives::<ProjectRow>("Add a repository.", "201").takes(input);
    routes = routes.route(Get, "/api/projects", list, get(projects::list)).route(Post, "/api/projects", add, post(projects::add));

    let keys = [
        ("open", "true for open tasks only, false for ended ones"),
        ("project", "slug of a project"),
        ("before", "only tasks with a smaller number"),
        ("limit", "at most this many; 50 when left out, 200 at most"),
    ];
    let list = routes.gives::<Page<TaskRow>>("Tasks, newest first.", "200").asks(&keys);
    let arguments = routes.name("create_task", Verb::CreateTask.schema());
    let create = routes.gives::<commands::CommandAnswer>(Verb::CreateTask.help(), "201").takes(arguments);
    let view = routes.gives::<TaskView>("Everything about a task.", "200");
    let page = [("after", "only rows with a greater number"), ("limit", "at most this many; 50 when left out, 200 at most")];
    let events = routes.gives::<Page<EventView>>("What happened to a task, oldest first.", "200").asks(&page);
    routes = routes
        .route(Get, "/api/tasks", list, get(tasks::list))
        .route(Post, "/api/tasks", create, post(commands::create))
        .route(Get, "/api/tasks/{ref}", view, get(tasks::view))
        .route(Get, "/api/tasks/{ref}/events", events, get(tasks::events));
    for verb in commands::on_tasks() {
        let arguments = routes.name(verb.as_str(), commands::schema(verb));
        let command = routes.gives::<commands::CommandAnswer>(verb.help(), "200").takes(arguments);
        routes = routes.route(Post, &format!("/api/tasks/{{ref}}/{}", verb.command_word()), command, commands::handler(verb));
    }

    let agents = routes.gives::<Items<AgentRow>>("Every seat and what it does.", "200");
    let inbox = routes.gives::<Items<InboxRow>>("What waits for the CEO, oldest first.", "200");
    let spawn = routes.gives::<SpawnRow>("A run of an agent.", "200");
    let transcript = routes.gives::<Page<BlockRow>>("What a run said and did, oldest first.", "200").asks(&page);
    let stats = routes.gives::<stats::Stats>("What the process has counted since it started.", "200");
    let keys = [("task", "only events of this task"), ("after", "begin after this event; only new ones when left out")];
    let stream = routes.gives::<EventView>("Events as they happen, as server-sent events.", "200").asks(&keys);
    routes
        .route(Get, "/api/agents", agents, get(agents::list))
        .route(Get, "/api/inbox", inbox, get(agents::inbox))
        .route(Get, "/api/spawns/{task}/{nth}", spawn, get(spawns::view))
        .route(Get, "/api/spawns/{task}/{nth}/transcript", transcript, get(spawns::transcript))
        .route(Get, "/api/stats", stats, get(stats::stats))
        .route(Get, "/api/stream", stream, get(stream::stream))
}

/// Gives every request a correlation id, and every answer the same.
async fn trace(mut request: Request, next: Next) -> Response {
    const NAME: &str = "x-correlation-id";
    let correlation = Problem::correlation_of(request.headers());
    let Ok(value) = HeaderValue::try_from(correlation.to_string()) else { return next.run(request).await };
    request.headers_mut().insert(NAME, value.clone());
    let mut response = next.run(request).await;
    response.headers_mut().insert(NAME, value);
    response
}
