//! The answer of a verb on its way out: an envelope, the status it travels under, and the refusal that an open breaker stands for.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::RETRY_AFTER;
use rmcp::model::{CallToolResult, ContentBlock};
use roboco_domain::envelope::Envelope;
use roboco_domain::id::CorrelationId;
use serde::Serialize;
use serde_json::Value;

use crate::problem::stamp;

/// What is sent back.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Reply {
    #[serde(skip)]
    pub(crate) status: StatusCode,
    #[serde(skip)]
    pub(crate) correlation: CorrelationId,
    #[serde(flatten)]
    pub(crate) envelope: Envelope,
    /// The refusal with which the breaker opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) inner: Option<Box<Envelope>>,
}

impl Reply {
    /// An answer of a verb that was reached.
    pub(crate) fn ran(envelope: Envelope, correlation: CorrelationId) -> Self {
        Self { status: StatusCode::OK, correlation, envelope, inner: None }
    }

    /// Adds something worth knowing to what is there already.
    pub(crate) fn warn(&mut self, warning: String) {
        self.envelope.warning = Some(match self.envelope.warning.take() {
            Some(before) => format!("{before}; {warning}"),
            None => warning,
        });
    }

    /// As a tool's result: one text block, marked when it says no.
    pub(crate) fn into_tool_result(self) -> CallToolResult {
        let mut compact = self.envelope.compact();
        if let (Some(map), Some(inner)) = (compact.as_object_mut(), &self.inner) {
            map.insert("inner".into(), inner.compact());
        }
        let block = vec![ContentBlock::text(Value::to_string(&compact))];
        if self.envelope.is_error() { CallToolResult::error(block) } else { CallToolResult::success(block) }
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let (status, correlation) = (self.status, self.correlation);
        let wait = self.envelope.retry_after_ms.map(|millis| millis.div_ceil(1000));
        let mut response = (status, Json(self)).into_response();
        stamp(response.headers_mut(), correlation);
        if let Some(seconds) = wait {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}
