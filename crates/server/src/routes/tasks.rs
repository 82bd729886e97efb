//! Tasks, for reading.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use roboco_company::views::{EventView, Names, TaskRow, TaskView};
use roboco_domain::id::CorrelationId;
use roboco_domain::task::Task;
use roboco_gateway::Problem;
use roboco_store::TaskFilter;
use serde::Deserialize;

use super::{PAGE, PAGE_MAX, Page};
use crate::ServerState;
use crate::failure;
use crate::input::{Correlation, Query};

/// Which tasks to list.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listed {
    open: Option<bool>,
    project: Option<String>,
    before: Option<u64>,
    limit: Option<u64>,
}

/// Which rows of a growing list to show.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct After {
    pub(crate) after: Option<u64>,
    pub(crate) limit: Option<u64>,
}

impl After {
    pub(crate) fn limit(&self) -> u64 {
        self.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX)
    }
}

pub(crate) async fn list(
    State(state): State<ServerState>,
    Correlation(id): Correlation,
    Query(listed): Query<Listed>,
) -> Result<Json<Page<TaskRow>>, Problem> {
    let (company, fault) = (&state.company, |fault| failure::fault(&fault, id));
    let project = match &listed.project {
        None => None,
        Some(slug) => match company.store().project_by_slug(slug).await.map_err(|e| fault(e.into()))? {
            Some(project) => Some(project.id),
            None => return Err(failure::missing(&format!("project {slug:?}"), "see GET /api/projects", id)),
        },
    };
    let limit = listed.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
    let filter = TaskFilter { open: listed.open, project, before: listed.before, limit };
    let tasks = company.store().tasks(&filter).await.map_err(|e| fault(e.into()))?;
    let next = tasks.last().filter(|_| tasks.len() as u64 == limit).map(|task| task.number.0);
    let mut items = Vec::with_capacity(tasks.len());
    for task in &tasks {
        items.push(company.task_row(task).await.map_err(fault)?);
    }
    Ok(Json(Page { items, next }))
}

pub(crate) async fn view(
    State(state): State<ServerState>,
    Correlation(id): Correlation,
    Path(typed): Path<String>,
) -> Result<Json<TaskView>, Problem> {
    let task = find(&state, &typed, id).await?;
    state.company.task_view(&task).await.map(Json).map_err(|fault| failure::fault(&fault, id))
}

pub(crate) async fn events(
    State(state): State<ServerState>,
    Correlation(id): Correlation,
    Path(typed): Path<String>,
    Query(after): Query<After>,
) -> Result<Json<Page<EventView>>, Problem> {
    let task = find(&state, &typed, id).await?;
    let (company, fault) = (&state.company, |fault| failure::fault(&fault, id));
    let rows = company.store().events(after.after.unwrap_or(0), Some(task.id), after.limit()).await.map_err(|e| fault(e.into()))?;
    let next = rows.last().filter(|_| rows.len() as u64 == after.limit()).map(|row| row.seq);
    let (mut items, mut names) = (Vec::with_capacity(rows.len()), Names::default());
    for row in &rows {
        items.push(company.event_view(row, &mut names).await.map_err(fault)?);
    }
    Ok(Json(Page { items, next }))
}

/// The task behind a typed reference.
pub(crate) async fn find(state: &ServerState, typed: &str, id: CorrelationId) -> Result<Arc<Task>, Problem> {
    let fault = |fault| failure::fault(&fault, id);
    let task = state.company.resolve(typed).await.map_err(fault)?.map_err(|rejection| failure::refusal(&rejection, id))?;
    let task = state.company.store().task(task).await.map_err(|e| fault(e.into()))?;
    task.ok_or_else(|| failure::missing(&format!("task {typed}"), "look at its number again; it reads like T-142", id))
}
