//! Repositories: the list, and adding one.

use axum::extract::State;
use axum::{Extension, Json};
use http::StatusCode;
use roboco_company::commit::Executed;
use roboco_company::projects::ProjectInput;
use roboco_company::views::ProjectRow;
use roboco_domain::event::Event;
use roboco_gateway::Problem;

use super::Items;
use crate::ServerState;
use crate::failure;
use crate::input::{Arguments, Correlation};
use crate::person::Person;

pub(crate) async fn list(State(state): State<ServerState>, Correlation(id): Correlation) -> Result<Json<Items<ProjectRow>>, Problem> {
    let projects = state.company.store().projects().await.map_err(|fault| failure::fault(&fault.into(), id))?;
    Ok(Json(Items { items: projects.iter().map(|project| ProjectRow::from(&**project)).collect() }))
}

pub(crate) async fn add(
    State(state): State<ServerState>,
    Extension(person): Extension<Person>,
    Correlation(id): Correlation,
    Arguments(body): Arguments,
) -> Result<(StatusCode, Json<ProjectRow>), Problem> {
    let input: ProjectInput = serde_json::from_value(body).map_err(|error| failure::unreadable("body", &error.to_string(), id))?;
    let fault = |fault| failure::fault(&fault, id);
    // Goes on when the caller hangs up: a repository that was looked at is recorded or forgotten, never left between.
    let company = state.company.clone();
    let adding = tokio::spawn(async move { company.add_project(person.actor(), input).await });
    let executed = adding.await.map_err(|stopped| fault(roboco_company::fault::Fault::lasting(stopped.to_string())))?;
    match executed.map_err(fault)? {
        Executed::Refused { rejection, .. } => Err(failure::refusal(&rejection, id)),
        Executed::Accepted { seq, .. } => {
            let rows = state.company.store().events(seq.saturating_sub(1), None, 1).await.map_err(|e| fault(e.into()))?;
            match rows.first().map(|row| &row.event) {
                Some(Event::ProjectAdded { project }) => Ok((StatusCode::CREATED, Json(ProjectRow::from(&**project)))),
                _ => Err(fault(roboco_company::fault::Fault::lasting("the project was added, but its event is not in the log"))),
            }
        }
    }
}
