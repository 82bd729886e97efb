//! One call of a verb, from the arguments of the agent's client to the answer it reads: posted to the control plane, brought into shape, and
//! shown to the sidecar when it is a refusal.

use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use roboco_domain::verb::Verb;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::answer::{self, Called, Payload};
use super::manifest::Namespace;
use super::settings::Settings;
use crate::http::{Answer, HttpError};

const CORRELATION: HeaderName = HeaderName::from_static("x-correlation-id");
/// The sidecar is on this machine and only counts; an agent does not wait longer for it.
const SIDECAR_PATIENCE: Duration = Duration::from_secs(2);
/// Tries while nobody answers at the control plane, which may be starting again, and the first wait between them; the wait doubles.
const TRIES: u32 = 6;
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// The control plane and the sidecar of one agent.
pub(crate) struct Forward {
    pub(crate) namespace: Namespace,
    pub(crate) settings: Settings,
}

impl Forward {
    /// Calls a verb. There is always an answer.
    pub(crate) async fn call(&self, verb: Verb, arguments: Map<String, Value>, correlation: Uuid) -> Payload {
        let path = self.namespace.path(self.settings.role, verb.as_str());
        let called = Called { verb: verb.as_str(), path: &path, role: self.settings.role, correlation };
        let subject = arguments.get("task_id").and_then(Value::as_str).map(str::to_owned);
        let payload = match self.ask(called, Value::Object(arguments).to_string()).await {
            Ok(answer) => answer::read(called, &answer),
            Err(error) => answer::unanswered(called, &error),
        };
        match answer::counted(&payload) {
            None => payload,
            Some(kind) => match self.attempted(called, subject.as_deref(), kind.as_str()).await {
                Ok(verdict) => opened(payload, subject, &verdict),
                Err(why) => {
                    eprintln!("roboco bridge {}: the sidecar does not count {verb}: {why}", self.namespace.word());
                    payload
                }
            },
        }
    }

    /// Sends the call. While it has not left it is sent again; after that only its caller can know whether a repetition is right.
    async fn ask(&self, called: Called<'_>, body: String) -> Result<Answer, HttpError> {
        let settings = &self.settings;
        let mut headers = settings.identity();
        if let Ok(value) = HeaderValue::try_from(called.correlation.to_string()) {
            headers.insert(CORRELATION, value);
        }
        let mut pause = TRY_AGAIN;
        for _ in 1..TRIES {
            match settings.control_plane.post(called.path, headers.clone(), body.clone().into_bytes(), settings.deadline).await {
                Err(HttpError::Unreachable(..)) => tokio::time::sleep(pause).await,
                result => return result,
            }
            pause *= 2;
        }
        settings.control_plane.post(called.path, headers, body.into_bytes(), settings.deadline).await
    }

    /// Tells the sidecar about a refusal and reads what it makes of it.
    async fn attempted(&self, called: Called<'_>, subject: Option<&str>, kind: &str) -> Result<Value, String> {
        let body = json!({"verb": called.verb, "task_id": subject, "rejection_kind": kind}).to_string().into_bytes();
        let headers = self.settings.authorization();
        let sent = self.settings.sidecar.post("/verb/attempted", headers, body, SIDECAR_PATIENCE).await;
        let answer = sent.map_err(|error| error.to_string())?;
        if !answer.status.is_success() {
            return Err(format!("it answered {}", answer.status.as_u16()));
        }
        serde_json::from_slice(&answer.body).map_err(|error| format!("its answer cannot be read: {error}"))
    }
}

/// The answer of an open breaker around the refusal that opened it; the refusal itself in every other case.
fn opened(refusal: Payload, subject: Option<String>, verdict: &Value) -> Payload {
    let Some((true, Value::Object(envelope))) = verdict["open"].as_bool().zip(verdict.get("circuit_envelope")) else { return refusal };
    let mut open = envelope.clone();
    let named = refusal.get("task_id").filter(|task| !task.is_null()).cloned();
    open.insert("task_id".into(), named.or_else(|| subject.map(Value::String)).unwrap_or_default());
    open.insert("correlation_id".into(), refusal.get("correlation_id").cloned().unwrap_or_default());
    open.insert("inner".into(), Value::Object(refusal));
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_breaker_keeps_the_refusal_and_its_subject() {
        let map = |value: Value| value.as_object().unwrap().clone();
        let verdict = json!({"open": true, "circuit_envelope": {"error": "circuit_open", "task_id": null, "correlation_id": null}});
        let before = verdict.clone();
        for (refusal, subject, task) in [
            (json!({"error": "tracing_gap", "task_id": "T-7", "correlation_id": "c"}), Some("T-8"), json!("T-7")),
            (json!({"error": "tracing_gap", "task_id": null, "correlation_id": "c"}), Some("T-8"), json!("T-8")),
            (json!({"error": "tracing_gap", "correlation_id": "c"}), None, json!(null)),
        ] {
            let open = opened(map(refusal.clone()), subject.map(str::to_owned), &verdict);
            assert_eq!(Value::Object(open), json!({"error": "circuit_open", "task_id": task, "correlation_id": "c", "inner": refusal}));
            assert_eq!(verdict, before);
        }
        let refusal = map(json!({"error": "tracing_gap"}));
        for closed in [
            json!({"open": false, "circuit_envelope": {"error": "circuit_open"}}),
            json!({"open": true, "circuit_envelope": null}),
            json!({"open": true, "circuit_envelope": "circuit_open"}),
            json!({"open": true}),
            json!({"open": "true", "circuit_envelope": {}}),
            json!(["open"]),
            json!(null),
        ] {
            assert_eq!(opened(refusal.clone(), None, &closed), refusal, "{closed}");
        }
    }
}
