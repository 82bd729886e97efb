//! Reading requests, with errors of the one shape.

use std::convert::Infallible;

use axum::extract::{FromRequest, FromRequestParts, Request};
use http::StatusCode;
use http::request::Parts;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use roboco_domain::id::CorrelationId;
use roboco_domain::limits;
use roboco_gateway::Problem;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure;

/// The correlation id of a request: its own, or a new one. The layer around the routes puts it there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Correlation(pub(crate) CorrelationId);

impl<S: Sync> FromRequestParts<S> for Correlation {
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(Problem::correlation_of(&parts.headers)))
    }
}

/// The query of a request; unknown keys are errors.
#[derive(Debug, Clone)]
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        axum::extract::Query::<T>::try_from_uri(&parts.uri)
            .map(|query| Self(query.0))
            .map_err(|error| failure::unreadable("query", &inner(&error), Problem::correlation_of(&parts.headers)))
    }
}

/// The innermost cause, which names the key.
fn inner(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// A JSON body up to the limit. No body is the same as an empty object.
#[derive(Debug, Clone)]
pub(crate) struct Arguments(pub(crate) Value);

impl<S: Sync> FromRequest<S> for Arguments {
    type Rejection = Problem;
    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let correlation = Problem::correlation_of(request.headers());
        let bytes = match Limited::new(request.into_body(), limits::BODY_BYTES).collect().await {
            Ok(collected) => collected.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                let message = format!("the body is larger than {} bytes", limits::BODY_BYTES);
                return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "incomplete_input", message, "send less", correlation));
            }
            Err(_) => return Err(failure::unreadable("body", "complete JSON; it ended too early", correlation)),
        };
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self(Value::Object(serde_json::Map::new())));
        }
        match serde_json::from_slice(&bytes) {
            Ok(value @ Value::Object(_)) => Ok(Self(value)),
            Ok(_) => Err(failure::unreadable("body", "a JSON object", correlation)),
            Err(error) => Err(failure::unreadable("body", &format!("a JSON object, but: {error}"), correlation)),
        }
    }
}
