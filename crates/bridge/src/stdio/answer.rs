//! What the control plane sent, as the one shape an agent reads: an envelope. Answers of other servers and of what stands between are
//! understood as well as they can be, and everything that says no says what to do instead.

use hyper::StatusCode;
use roboco_domain::rejection::Kind;
use roboco_domain::role::Role;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::exits::exits;
use crate::http::{Answer, HttpError};

/// An answer on its way to the agent.
pub(crate) type Payload = Map<String, Value>;

/// What was called, for the words of an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Called<'a> {
    pub(crate) verb: &'a str,
    pub(crate) path: &'a str,
    pub(crate) role: Role,
    pub(crate) correlation: Uuid,
}

/// Reads an answer of the control plane.
pub(crate) fn read(called: Called<'_>, answer: &Answer) -> Payload {
    let status = answer.status;
    match (serde_json::from_slice(&answer.body), status) {
        (Ok(Value::Object(map)), StatusCode::NOT_FOUND) => missing(called, map),
        (_, StatusCode::NOT_FOUND) => no_route(called),
        (Ok(Value::Object(map)), _) => {
            let says_why = map.get("error").is_some_and(|error| !error.is_null()) || map.contains_key("detail");
            if !status.is_success() && !says_why {
                return transport(called, &format!("the control plane answered {} without a reason", status.as_u16()), Reached::Perhaps);
            }
            normal(called, map)
        }
        _ => transport(called, &format!("the answer {} is no JSON object", status.as_u16()), Reached::Perhaps),
    }
}

/// A 404: of the verb, or of a route that is not there.
fn missing(called: Called<'_>, map: Payload) -> Payload {
    if map.contains_key("error") {
        return normal(called, map);
    }
    match map.get("detail").and_then(Value::as_str) {
        Some(detail) if detail != "Not Found" => refusal(called, Kind::NotFound, detail, &remedy(called, Kind::NotFound)),
        _ => no_route(called),
    }
}

fn no_route(called: Called<'_>) -> Payload {
    let Called { verb, path, role, .. } = called;
    let message = format!("no route for {verb} of the role {role}: the control plane does not know {path}");
    let text = "the control plane and this agent do not fit together; that is no fault of yours and repeating the call does not help";
    refusal(called, Kind::InvalidState, &message, &with_exits(called, text))
}

/// Brings errors of other shapes into the shape of an envelope; envelopes stay as they are.
fn normal(called: Called<'_>, mut map: Payload) -> Payload {
    match map.get_mut("error").map(Value::take) {
        Some(Value::Object(error)) => {
            let text = |name: &str| error.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
            let code = text("code").unwrap_or_default();
            let kind = kind_of_code(code);
            let message = text("message").map_or_else(|| format!("{} was refused with the code {code:?}", called.verb), str::to_owned);
            let advice = text("remediate").map_or_else(|| remedy(called, kind), str::to_owned);
            let mut payload = refusal(called, kind, &message, &advice);
            for kept in ["missing", "field_hints"] {
                if let Some(value) = error.get(kept).filter(|value| value.is_array() || value.is_object()) {
                    payload.insert(kept.into(), value.clone());
                }
            }
            payload.insert("details".into(), Value::Object(error));
            payload
        }
        Some(error) => {
            map.insert("error".into(), error);
            map
        }
        None => match map.remove("detail") {
            Some(detail) => {
                let kind = Kind::IncompleteInput;
                let message = format!("{} was called with arguments that cannot be accepted", called.verb);
                let advice = map.get("remediate").and_then(Value::as_str).map_or_else(|| remedy(called, kind), str::to_owned);
                let mut payload = refusal(called, kind, &message, &advice);
                payload.insert("detail".into(), detail);
                payload
            }
            None => map,
        },
    }
}

/// Whether the control plane may have done what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reached {
    No,
    Perhaps,
}

/// The answer when none came.
pub(crate) fn unanswered(called: Called<'_>, error: &HttpError) -> Payload {
    let reached = if matches!(error, HttpError::Unreachable(..)) { Reached::No } else { Reached::Perhaps };
    transport(called, &error.to_string(), reached)
}

fn transport(called: Called<'_>, what: &str, reached: Reached) -> Payload {
    let advice = match reached {
        Reached::No => {
            "nothing was done; call it once more, and if that fails too the operator has to check the control plane: end your turn"
        }
        Reached::Perhaps => {
            "whether it was done is not known: look at your task before you call it again; if nothing answers, the operator has to check the \
             control plane: end your turn"
        }
    };
    refusal(called, Kind::TransportError, &format!("POST {}: {what}", called.path), advice)
}

/// The kind that an error code of the older shape stands for.
fn kind_of_code(code: &str) -> Kind {
    let code = code.to_ascii_uppercase();
    match code.as_str() {
        "AUTHENTICATION_REQUIRED" | "PERMISSION_DENIED" | "JOURNAL_ACCESS_DENIED" => Kind::NotAuthorized,
        "INVALID_INPUT" | "VALIDATION_ERROR" => Kind::IncompleteInput,
        "INVALID_STATE"
        | "TASK_LIFECYCLE_ERROR"
        | "TASK_OWNERSHIP_ERROR"
        | "SERVICE_ERROR"
        | "FETCH_FAILED"
        | "LIST_FAILED"
        | "READ_FAILED"
        | "SEARCH_FAILED"
        | "WRITE_FAILED"
        | "INTERNAL_ERROR" => Kind::InvalidState,
        // The closed list of kinds, which our own control plane uses as codes.
        exact if exact.parse::<Kind>().is_ok() => exact.parse().unwrap_or(Kind::InvalidState),
        other if other.contains("NOT_FOUND") => Kind::NotFound,
        other if ["DENIED", "AUTH", "FORBIDDEN", "PERMISSION"].iter().any(|part| other.contains(part)) => Kind::NotAuthorized,
        other if other.contains("VALIDATION") => Kind::IncompleteInput,
        _ => Kind::InvalidState,
    }
}

/// The kind under which the breaker counts an answer; none for a success and for refusals that say nothing about the caller.
pub(crate) fn counted(payload: &Payload) -> Option<Kind> {
    payload.get("error")?.as_str()?.parse::<Kind>().ok().filter(|kind| kind.counts())
}

fn remedy(called: Called<'_>, kind: Kind) -> String {
    let verb = called.verb;
    match kind {
        Kind::NotFound => "read your task again and use an id that exists now; do not repeat the call with the same id".to_owned(),
        Kind::IncompleteInput => format!("call {verb} again with the arguments corrected as `detail` says; do not repeat it unchanged"),
        Kind::NotAuthorized => {
            with_exits(called, "this is not yours to do: hand it on to whoever may, or report what blocks you, and do not repeat the call")
        }
        _ => with_exits(
            called,
            &format!("the task is in another state or the service failed: read it again and call {verb} once more, not again and again"),
        ),
    }
}

fn with_exits(called: Called<'_>, text: &str) -> String {
    match exits(Some(called.role), called.verb) {
        exits if exits.is_empty() => text.to_owned(),
        exits => format!("{text}; if you cannot go on, call {exits}"),
    }
}

/// A refusal made here, with every key an envelope has.
pub(crate) fn refusal(called: Called<'_>, kind: Kind, message: &str, remediate: &str) -> Payload {
    let envelope = json!({
        "status": null, "task_id": null, "next": null, "evidence": {}, "context_briefing": {}, "error": kind,
        "correlation_id": called.correlation.to_string(), "current_state": null, "valid_next_verbs": null,
        "message": message, "remediate": remediate, "missing": [],
    });
    match envelope {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The same answer without keys that say nothing: a model reads every byte.
pub(crate) fn compact(payload: Payload) -> Payload {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    let inner = |(key, value): (String, Value)| match value {
        Value::Object(map) if key == "inner" => (key, Value::Object(compact(map))),
        value => (key, value),
    };
    payload.into_iter().filter(|(_, value)| !empty(value)).map(inner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_kind() {
        for (code, expected) in [
            ("AUTHENTICATION_REQUIRED", Kind::NotAuthorized),
            ("permission_denied", Kind::NotAuthorized),
            ("JOURNAL_ACCESS_DENIED", Kind::NotAuthorized),
            ("NOT_AUTHORIZED", Kind::NotAuthorized),
            ("not_authenticated", Kind::NotAuthorized),
            ("ACCESS_DENIED", Kind::NotAuthorized),
            ("WRITE_FORBIDDEN", Kind::NotAuthorized),
            ("NO_PERMISSION", Kind::NotAuthorized),
            ("INVALID_INPUT", Kind::IncompleteInput),
            ("incomplete_input", Kind::IncompleteInput),
            ("BODY_VALIDATION_FAILED", Kind::IncompleteInput),
            ("VALIDATION_ERROR", Kind::IncompleteInput),
            ("NOT_FOUND", Kind::NotFound),
            ("TASK_NOT_FOUND", Kind::NotFound),
            // The name of what is missing comes before what it is about.
            ("PERMISSION_NOT_FOUND", Kind::NotFound),
            ("INVALID_STATE", Kind::InvalidState),
            ("TASK_OWNERSHIP_ERROR", Kind::InvalidState),
            ("SEARCH_FAILED", Kind::InvalidState),
            ("INTERNAL_ERROR", Kind::InvalidState),
            ("superseded", Kind::Superseded),
            ("unavailable", Kind::Unavailable),
            ("whatever", Kind::InvalidState),
            ("", Kind::InvalidState),
        ] {
            assert_eq!(kind_of_code(code), expected, "{code}");
        }
    }

    #[test]
    fn only_four_kinds_are_counted() {
        let payload = |error: Value| Map::from_iter([("error".to_owned(), error)]);
        for kind in Kind::ALL {
            let expected = matches!(kind, Kind::TracingGap | Kind::InvalidState | Kind::NotAuthorized | Kind::IncompleteInput);
            assert_eq!(counted(&payload(json!(kind))).is_some(), expected, "{kind}");
        }
        for other in [json!(null), json!("ConflictError"), json!({"code": "X"}), json!(["tracing_gap"]), json!(7)] {
            assert_eq!(counted(&payload(other.clone())), None, "{other}");
        }
        assert_eq!(counted(&Map::new()), None);
    }
}
