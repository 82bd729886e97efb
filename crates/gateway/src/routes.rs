//! The plain HTTP routes: `/api/v1/flow/{role}/{verb}` and `/api/v1/do/{tool}`.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post};
use http::{HeaderMap, Method, StatusCode, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use roboco_domain::id::CorrelationId;
use roboco_domain::limits;
use roboco_domain::verb::Verb;

use crate::Gateway;
use crate::caller::Caller;
use crate::dispatch::{Arguments, Incoming};
use crate::manifest;
use crate::mcp;
use crate::problem::Problem;

pub(crate) fn router(gateway: Gateway) -> Router {
    Router::new()
        .route("/api/v1/flow/{role}/{verb}", post(flow).fallback(wrong_method))
        .route("/api/v1/do/{tool}", post(tool).fallback(wrong_method))
        .route("/api/v1/{*rest}", any(nowhere))
        .with_state(gateway.clone())
        .merge(mcp::router(gateway))
}

async fn flow(State(gateway): State<Gateway>, Path((role, verb)): Path<(String, String)>, headers: HeaderMap, body: Body) -> Response {
    let caller = match gateway.identify(&headers) {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    let known = manifest::flow(caller.actor.role);
    let verb = known.iter().copied().find(|known| known.as_str() == verb).ok_or(verb);
    if role != caller.actor.role.route() {
        // A run that lost its seat hears that before anything else.
        let probe = incoming(&caller, verb.unwrap_or(Verb::GiveMeWork), Arguments::Json(serde_json::Value::Null));
        match gateway.unseated(&caller.actor).await {
            Ok(None) => {}
            Ok(Some(rejection)) => return gateway.refuse(&probe, None, &rejection).into_response(),
            Err(fault) => return gateway.broken(&probe, &fault.into()).into_response(),
        }
        return Problem::new(
            StatusCode::FORBIDDEN,
            "not_authorized",
            format!("/api/v1/flow/{role} is not the door of the role {}", caller.actor.role),
            format!("call /api/v1/flow/{}", caller.actor.role.route()),
            caller.correlation,
        )
        .into_response();
    }
    match verb {
        Ok(verb) => run(&gateway, caller, verb, &headers, body).await,
        Err(unknown) => no_such_verb(&caller, &unknown, "verbs", &known),
    }
}

async fn tool(State(gateway): State<Gateway>, Path(tool): Path<String>, headers: HeaderMap, body: Body) -> Response {
    let caller = match gateway.identify(&headers) {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    let known = manifest::tools(caller.actor.role);
    match known.iter().copied().find(|known| known.as_str() == tool) {
        Some(verb) => run(&gateway, caller, verb, &headers, body).await,
        None => no_such_verb(&caller, &tool, "tools", &known),
    }
}

async fn run(gateway: &Gateway, caller: Caller, verb: Verb, headers: &HeaderMap, body: Body) -> Response {
    let bytes = match read(headers, body, caller.correlation).await {
        Ok(bytes) => bytes,
        Err(problem) => return problem.into_response(),
    };
    // No body is the same as no arguments.
    let arguments = match bytes.iter().all(u8::is_ascii_whitespace) {
        true => Arguments::Json(serde_json::Value::Null),
        false => match serde_json::from_slice(&bytes) {
            Ok(value) => Arguments::Json(value),
            Err(error) => Arguments::Unreadable(format!("a JSON object, but: {error}")),
        },
    };
    gateway.dispatch(incoming(&caller, verb, arguments)).await.into_response()
}

fn incoming(caller: &Caller, verb: Verb, arguments: Arguments) -> Incoming {
    Incoming { actor: caller.actor.clone(), verb, arguments, correlation: caller.correlation, key: caller.key.clone() }
}

/// Reads a body up to the limit.
pub(crate) async fn read(headers: &HeaderMap, body: Body, correlation: CorrelationId) -> Result<Bytes, Box<Problem>> {
    let too_large = || {
        Box::new(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "incomplete_input",
            format!("the body is larger than {} bytes", limits::BODY_BYTES),
            "send less: name files instead of quoting them",
            correlation,
        ))
    };
    let announced = headers.get(http::header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()).and_then(|text| text.parse().ok());
    if announced.is_some_and(|length: usize| length > limits::BODY_BYTES) {
        return Err(too_large());
    }
    match Limited::new(body, limits::BODY_BYTES).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(_) => Err(Box::new(Problem::new(
            StatusCode::BAD_REQUEST,
            "incomplete_input",
            "the body ended before it was complete",
            "send the request again",
            correlation,
        ))),
    }
}

fn no_such_verb(caller: &Caller, asked: &str, what: &str, known: &[Verb]) -> Response {
    let listed = known.iter().map(|verb| verb.as_str()).collect::<Vec<_>>().join(", ");
    let asked: String = asked.chars().take(60).collect();
    Problem::new(
        StatusCode::NOT_FOUND,
        "not_found",
        format!("{asked:?} is not among the {what} of the role {}", caller.actor.role),
        format!("your {what} are {listed}"),
        caller.correlation,
    )
    .into_response()
}

/// Everything else under the agents' prefix.
async fn nowhere(State(gateway): State<Gateway>, uri: Uri, headers: HeaderMap) -> Response {
    match gateway.identify(&headers) {
        Err(problem) => problem.into_response(),
        Ok(caller) => Problem::new(
            StatusCode::NOT_FOUND,
            "not_found",
            format!("there is nothing at {}", uri.path()),
            format!("call /api/v1/flow/{}/{{verb}} or /api/v1/do/{{tool}}", caller.actor.role.route()),
            caller.correlation,
        )
        .into_response(),
    }
}

pub(crate) async fn wrong_method(method: Method, headers: HeaderMap) -> Response {
    let correlation = Problem::correlation_of(&headers);
    let message = format!("{method} is not possible here");
    let mut response =
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message, "send it with POST", correlation).into_response();
    response.headers_mut().insert(http::header::ALLOW, http::HeaderValue::from_static("POST"));
    response
}
