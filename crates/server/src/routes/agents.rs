//! Who works here, and what waits for the CEO.

use axum::Json;
use axum::extract::State;
use roboco_company::views::{AgentRow, InboxRow};
use roboco_gateway::Problem;

use super::Items;
use crate::ServerState;
use crate::failure;
use crate::input::Correlation;

pub(crate) async fn list(State(state): State<ServerState>, Correlation(id): Correlation) -> Result<Json<Items<AgentRow>>, Problem> {
    state.company.agent_rows().await.map(|items| Json(Items { items })).map_err(|fault| failure::fault(&fault, id))
}

pub(crate) async fn inbox(State(state): State<ServerState>, Correlation(id): Correlation) -> Result<Json<Items<InboxRow>>, Problem> {
    state.company.inbox_rows().await.map(|items| Json(Items { items })).map_err(|fault| failure::fault(&fault, id))
}
