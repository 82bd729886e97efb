//! Runs of agents and what they said.

use axum::Json;
use axum::extract::{Path, State};
use roboco_company::views::{BlockRow, SpawnRow};
use roboco_domain::id::{CorrelationId, SpawnNumber};
use roboco_domain::spawn::Spawn;
use roboco_gateway::Problem;

use super::Page;
use super::tasks::After;
use crate::ServerState;
use crate::failure;
use crate::input::{Correlation, Query};

pub(crate) async fn view(
    State(state): State<ServerState>,
    Correlation(id): Correlation,
    Path((task, nth)): Path<(String, String)>,
) -> Result<Json<SpawnRow>, Problem> {
    Ok(Json(state.company.spawn_row(&find(&state, &task, &nth, id).await?)))
}

pub(crate) async fn transcript(
    State(state): State<ServerState>,
    Correlation(id): Correlation,
    Path((task, nth)): Path<(String, String)>,
    Query(after): Query<After>,
) -> Result<Json<Page<BlockRow>>, Problem> {
    let spawn = find(&state, &task, &nth, id).await?;
    let blocks = state.company.store().transcript(spawn.id, after.after.unwrap_or(0), after.limit()).await;
    let blocks = blocks.map_err(|fault| failure::fault(&fault.into(), id))?;
    let next = blocks.last().filter(|_| blocks.len() as u64 == after.limit()).map(|block| block.n);
    Ok(Json(Page { items: blocks.into_iter().map(BlockRow::from).collect(), next }))
}

async fn find(state: &ServerState, task: &str, nth: &str, id: CorrelationId) -> Result<Spawn, Problem> {
    let typed = format!("{task}/{nth}");
    let number: SpawnNumber = typed.parse().map_err(|_| failure::unreadable("spawn", "a run's number like T-142/3", id))?;
    let spawn = state.company.store().spawn_by_number(number).await.map_err(|fault| failure::fault(&fault.into(), id))?;
    spawn.ok_or_else(|| failure::missing(&format!("run {number}"), "the runs of a task are listed with GET /api/tasks/{ref}", id))
}
