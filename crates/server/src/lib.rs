//! The operator's API: tasks, projects, agents, runs, the inbox and the live stream, for people and their programs. Thin: parse, call the
//! company, render.
//!
//! Everything under `/api` needs the token of a person; only `/health` and `/ready` do not. Every error is JSON of one shape. There is no
//! session, no cookie and no CORS: a browser page of another origin cannot speak to it, and neither can one that renamed this machine.

mod document;
mod failure;
mod hosts;
mod input;
mod person;
mod routes;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use roboco_company::Company;
use tokio_util::sync::CancellationToken;

pub use hosts::Hosts;
pub use person::token_digest;
pub use routes::commands::CommandAnswer;
pub use routes::stats::{Counters, Stats};
pub use routes::{Items, Page};

/// What the routes work with. Clones share everything.
#[derive(Debug, Clone)]
pub struct ServerState {
    /// Whose API it is.
    pub company: Arc<Company>,
    /// The names this server answers to.
    pub hosts: Arc<Hosts>,
    /// What is counted while it runs.
    pub counters: Counters,
    /// Ends the live streams.
    pub shutdown: CancellationToken,
}

impl ServerState {
    /// The state of a server that answers to loopback names only.
    pub fn new(company: Arc<Company>, counters: Counters) -> Self {
        Self { company, hosts: Arc::new(Hosts::default()), counters, shutdown: CancellationToken::new() }
    }
}

/// The operator's routes together with those of the agents, behind the check of the host name.
pub fn router(state: ServerState, agents: Router) -> Router {
    routes::router(&state)
        .merge(agents)
        .fallback(failure::nowhere)
        .method_not_allowed_fallback(failure::wrong_method)
        .layer(from_fn_with_state(Arc::clone(&state.hosts), hosts::check))
}

/// The OpenAPI 3.1 document of the operator's routes.
pub fn openapi() -> serde_json::Value {
    routes::document()
}
