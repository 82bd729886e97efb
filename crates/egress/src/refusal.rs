//! Answers of the gateway's own, in the shape the clients know from the vendor.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

/// Whether the client should ask again by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// It may.
    Yes,
    /// Nothing will change without a person.
    No,
}

/// An error answer: a status, the vendor's name of the error, and what to do.
pub(crate) fn refuse(status: StatusCode, kind: &str, message: &str, again: Again) -> Response {
    let body = json!({ "type": "error", "error": { "type": kind, "message": message } }).to_string();
    let mut response = (status, [(header::CONTENT_TYPE, "application/json")], Body::from(body)).into_response();
    let retry = match again {
        Again::Yes => "true",
        Again::No => "false",
    };
    response.headers_mut().insert("x-should-retry", HeaderValue::from_static(retry));
    response
}
