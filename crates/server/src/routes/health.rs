//! Whether the process lives and the database answers; for supervisors and load balancers, without a token.

use axum::Json;
use axum::extract::State;
use roboco_company::fault::Fault;
use roboco_gateway::Problem;
use schemars::JsonSchema;
use serde::Serialize;

use crate::ServerState;
use crate::failure;
use crate::input::Correlation;

/// One word.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Health {
    /// `ok`.
    status: &'static str,
    /// Version of the program.
    version: &'static str,
}

const FINE: Health = Health { status: "ok", version: env!("CARGO_PKG_VERSION") };

pub(crate) async fn health() -> Json<Health> {
    Json(FINE)
}

pub(crate) async fn ready(State(state): State<ServerState>, Correlation(id): Correlation) -> Result<Json<Health>, Problem> {
    match state.company.store().ping().await {
        Ok(()) => Ok(Json(FINE)),
        Err(fault) => Err(failure::fault(&Fault { retryable: true, ..fault.into() }, id)),
    }
}
