//! The envelope: the one shape of every answer to a verb or tool.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::id::CorrelationId;
use crate::rejection::Rejection;
use crate::role::Role;
use crate::rules::{RuleSet, verbs_for};
use crate::snapshot::Answer;
use crate::status::Status;
use crate::task::Task;

/// The wire answer of a verb. The first nine keys always appear.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Envelope {
    /// The task's status, or an action word.
    pub status: Option<String>,
    /// The task it is about.
    pub task_id: Option<String>,
    /// What to call next.
    pub next: Option<String>,
    /// Data of the verb.
    pub evidence: Map<String, Value>,
    /// What the caller should know.
    pub context_briefing: Map<String, Value>,
    /// Why it was refused; null on success.
    pub error: Option<String>,
    /// Traces the call.
    pub correlation_id: Option<String>,
    /// The task's status when the verb looked at one.
    pub current_state: Option<String>,
    /// What the caller may call on it now.
    pub valid_next_verbs: Option<Vec<String>>,
    /// Something worth knowing although it worked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// On a refusal: what was wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// On a refusal: the way out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediate: Option<String>,
    /// On a refusal: everything that is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Vec<String>>,
    /// On a refusal: a hint per argument.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_hints: Option<BTreeMap<String, String>>,
    /// On a passing failure: when to try again, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl Envelope {
    fn blank(rules: &RuleSet, role: Role, task: Option<&Task>, correlation: CorrelationId) -> Self {
        Self {
            status: None,
            task_id: None,
            next: None,
            evidence: Map::new(),
            context_briefing: Map::new(),
            error: None,
            correlation_id: Some(correlation.to_string()),
            current_state: task.map(|t| Status::of(t).as_str().to_owned()),
            valid_next_verbs: task.map(|t| verbs_for(rules, role, t).iter().map(|v| v.as_str().to_owned()).collect()),
            warning: None,
            message: None,
            remediate: None,
            missing: None,
            field_hints: None,
            retry_after_ms: None,
        }
    }

    /// The answer of an accepted call, with the task as it is now.
    pub fn accepted(rules: &RuleSet, role: Role, task: Option<&Task>, answer: &Answer, correlation: CorrelationId) -> Self {
        let word = answer.word.map(str::to_owned).or_else(|| task.map(|t| Status::of(t).as_str().to_owned()));
        Self {
            status: word,
            task_id: task.map(|t| t.number.to_string()),
            next: Some(answer.next.clone()),
            evidence: answer.evidence.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
            warning: answer.warning.clone(),
            ..Self::blank(rules, role, task, correlation)
        }
    }

    /// The answer of a refused call, with the task as it is now.
    pub fn refused(rules: &RuleSet, role: Role, task: Option<&Task>, rejection: &Rejection, correlation: CorrelationId) -> Self {
        Self {
            error: Some(rejection.kind.as_str().to_owned()),
            message: Some(rejection.message.clone()),
            remediate: Some(rejection.remedy.text.clone()),
            missing: (!rejection.missing.is_empty()).then(|| rejection.missing.clone()),
            field_hints: (!rejection.field_hints.is_empty()).then(|| rejection.field_hints.clone()),
            retry_after_ms: (rejection.kind == crate::rejection::Kind::Unavailable).then_some(2000),
            ..Self::blank(rules, role, task, correlation)
        }
    }

    /// Whether it says no.
    pub const fn is_error(&self) -> bool {
        self.error.is_some()
    }

    /// As JSON without null and empty keys, for clients whose model reads every byte.
    pub fn compact(&self) -> Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Some(map) = value.as_object_mut() {
            map.retain(|_, v| match v {
                Value::Null => false,
                Value::Array(items) => !items.is_empty(),
                Value::Object(entries) => !entries.is_empty(),
                Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
            });
        }
        value
    }
}
