//! The one shape of every error answer that is no envelope, for agents and for people.

use std::collections::BTreeMap;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use roboco_domain::id::CorrelationId;
use serde_json::json;
use uuid::Uuid;

/// Traces a request from header to log to answer.
pub(crate) const CORRELATION: HeaderName = HeaderName::from_static("x-correlation-id");

/// An error answer: what happened, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// HTTP status.
    pub status: StatusCode,
    /// A word for programs.
    pub code: String,
    /// A sentence for people.
    pub message: String,
    /// The way out.
    pub remediate: Option<String>,
    /// Everything that is missing.
    pub missing: Vec<String>,
    /// A hint per argument.
    pub field_hints: BTreeMap<String, String>,
    /// Traces the request.
    pub correlation: CorrelationId,
    /// When to try again, in seconds.
    pub retry_after: Option<u64>,
}

impl Problem {
    /// A problem with its way out.
    pub fn new(
        status: StatusCode,
        code: &str,
        message: impl Into<String>,
        remediate: impl Into<String>,
        correlation: CorrelationId,
    ) -> Self {
        Self {
            status,
            code: code.to_owned(),
            message: message.into(),
            remediate: Some(remediate.into()),
            missing: Vec::new(),
            field_hints: BTreeMap::new(),
            correlation,
            retry_after: None,
        }
    }

    /// The correlation id of a request: the one it brings, or a new one.
    pub fn correlation_of(headers: &HeaderMap) -> CorrelationId {
        headers
            .get(&CORRELATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| text.parse().ok())
            .unwrap_or_else(|| CorrelationId::new(Uuid::now_v7()))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self { status, code, message, remediate, missing, field_hints, correlation, retry_after } = self;
        let field = field_hints.keys().next().cloned();
        let body = json!({ "error": {
            "code": code, "message": message, "remediate": remediate, "field": field, "missing": missing, "field_hints": field_hints,
            "details": {}, "correlation_id": correlation,
        }});
        let mut response = (status, Json(body)).into_response();
        stamp(response.headers_mut(), correlation);
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Puts the correlation id on an answer.
pub(crate) fn stamp(headers: &mut HeaderMap, correlation: CorrelationId) {
    if let Ok(value) = HeaderValue::try_from(correlation.to_string()) {
        headers.insert(CORRELATION, value);
    }
}
