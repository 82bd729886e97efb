//! Refusals and faults as HTTP answers. Inner texts of faults go to the log, never to the caller; what a person must do is said.

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Method, StatusCode, Uri};
use roboco_company::fault::Fault;
use roboco_domain::id::CorrelationId;
use roboco_domain::rejection::{Kind, Rejection};
use roboco_gateway::Problem;

/// When to try again after a passing fault, in seconds.
const RETRY_SECONDS: u64 = 2;

/// A refusal by policy.
pub(crate) fn refusal(rejection: &Rejection, correlation: CorrelationId) -> Problem {
    let Rejection { kind, message, remedy, missing, field_hints, task: _ } = rejection;
    let mut problem = Problem::new(status_of(*kind), kind.as_str(), message.as_str(), remedy.text.as_str(), correlation);
    problem.missing.clone_from(missing);
    problem.field_hints.clone_from(field_hints);
    problem.retry_after = (*kind == Kind::Unavailable).then_some(RETRY_SECONDS);
    problem
}

const fn status_of(kind: Kind) -> StatusCode {
    match kind {
        Kind::NotFound => StatusCode::NOT_FOUND,
        Kind::NotAuthorized => StatusCode::FORBIDDEN,
        Kind::InvalidState | Kind::Superseded | Kind::StaleEvidence | Kind::SequenceHeld => StatusCode::CONFLICT,
        Kind::IncompleteInput | Kind::TracingGap => StatusCode::UNPROCESSABLE_ENTITY,
        Kind::CircuitOpen => StatusCode::TOO_MANY_REQUESTS,
        Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Kind::GatewayTimeout => StatusCode::GATEWAY_TIMEOUT,
        Kind::InternalError | Kind::TransportError => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Something broke; logged here, once.
pub(crate) fn fault(fault: &Fault, correlation: CorrelationId) -> Problem {
    if fault.retryable {
        tracing::warn!(%correlation, %fault, "a request of the operator failed for now");
        let message = "something the company needs does not answer right now; nothing was changed";
        let remedy = fault.remedy.unwrap_or("try again in 2 seconds");
        let mut problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message, remedy, correlation);
        problem.retry_after = Some(RETRY_SECONDS);
        return problem;
    }
    tracing::error!(%correlation, %fault, "a request of the operator failed");
    let remedy = format!("look in the server's log for {correlation}");
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "this failed inside the company", remedy, correlation)
}

/// There is no such thing.
pub(crate) fn missing(what: &str, remedy: &str, correlation: CorrelationId) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not_found", format!("there is no {what}"), remedy, correlation)
}

/// An argument that cannot be read.
pub(crate) fn unreadable(field: &str, hint: &str, correlation: CorrelationId) -> Problem {
    let message = format!("{field}: {hint}");
    let mut problem =
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "incomplete_input", message, format!("send {field} as {hint}"), correlation);
    problem.missing.push(field.to_owned());
    problem.field_hints.insert(field.to_owned(), hint.to_owned());
    problem
}

pub(crate) async fn nowhere(uri: Uri, headers: HeaderMap) -> Response {
    let what = format!("route {}", uri.path());
    missing(&what, "the routes are listed in /api/openapi.json", Problem::correlation_of(&headers)).into_response()
}

pub(crate) async fn wrong_method(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let message = format!("{method} is not possible on {}", uri.path());
    let remedy = "the methods are listed in /api/openapi.json";
    let correlation = Problem::correlation_of(&headers);
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message, remedy, correlation).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_must_do_is_said_and_inner_texts_are_not() {
        let full = Fault { remedy: Some("the disk of the database is full: free some room there"), ..Fault::passing("inner: 13") };
        for (fault, remedy) in [
            (full, "the disk of the database is full: free some room there"),
            (Fault::passing("inner: timeout"), "try again in 2 seconds"),
            (Fault::lasting("inner: a bug"), "look in the server's log for"),
        ] {
            let problem = super::fault(&fault, CorrelationId::new(uuid::Uuid::nil()));
            assert!(problem.remediate.as_deref().is_some_and(|said| said.starts_with(remedy)), "{problem:?}");
            assert!(!format!("{problem:?}").contains("inner"), "{problem:?}");
        }
    }
}
