//! Templates in a play: minijinja over the brief's fields and `last`, the last envelope.
//!
//! A text that is one single `{{ expression }}` keeps the type of the expression, so that lists and numbers can be arguments;
//! everything else becomes text. A name that does not exist is an error.

use minijinja::{Environment, UndefinedBehavior};
use serde_json::{Map, Value};

/// The names that templates see.
pub(super) struct Scope {
    environment: Environment<'static>,
    names: Map<String, Value>,
}

impl Scope {
    /// A scope with the fields of the brief; `last` is empty.
    pub(super) fn new(brief: Map<String, Value>) -> Self {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        // What is rendered is JSON and source code, never a page.
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        let mut names = brief;
        names.insert("last".into(), Value::Object(Map::new()));
        Self { environment, names }
    }

    /// Remembers the last envelope.
    pub(super) fn set_last(&mut self, envelope: Value) {
        self.names.insert("last".into(), envelope);
    }

    /// Renders every text inside a value.
    pub(super) fn value(&self, value: &Value) -> Result<Value, minijinja::Error> {
        Ok(match value {
            Value::String(text) => match single_expression(text) {
                Some(expression) => {
                    let result = self.environment.compile_expression(expression)?.eval(self.context())?;
                    if result.is_undefined() {
                        let detail = format!("`{expression}` is not defined in this brief");
                        return Err(minijinja::Error::new(minijinja::ErrorKind::UndefinedError, detail));
                    }
                    serde_json::to_value(&result)
                        .map_err(|error| minijinja::Error::new(minijinja::ErrorKind::BadSerialization, error.to_string()))?
                }
                None => Value::String(self.text(text)?),
            },
            Value::Array(items) => Value::Array(items.iter().map(|item| self.value(item)).collect::<Result<_, _>>()?),
            Value::Object(fields) => Value::Object(self.fields(fields)?),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        })
    }

    /// Renders every text inside the fields of an object.
    pub(super) fn fields(&self, fields: &Map<String, Value>) -> Result<Map<String, Value>, minijinja::Error> {
        fields.iter().map(|(key, value)| Ok((key.clone(), self.value(value)?))).collect()
    }

    /// Whether an expression is true.
    pub(super) fn holds(&self, expression: &str) -> Result<bool, minijinja::Error> {
        Ok(self.environment.compile_expression(expression)?.eval(self.context())?.is_true())
    }

    fn context(&self) -> minijinja::Value {
        minijinja::value::Serde(&self.names).into()
    }

    /// Renders a text.
    pub(super) fn text(&self, text: &str) -> Result<String, minijinja::Error> {
        self.environment.render_str(text, self.context())
    }
}

/// The expression of a text that consists of exactly one `{{ … }}`.
fn single_expression(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    (!inner.contains("{{") && !inner.contains("}}")).then(|| inner.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn scope() -> Scope {
        let Value::Object(brief) = json!({"task": "T-1", "round": 2, "criteria": [{"id": "C1", "text": "a <b>"}], "findings": []}) else {
            unreachable!()
        };
        let mut scope = Scope::new(brief);
        scope.set_last(json!({"status": "claimed", "evidence": {"pr": 7}}));
        scope
    }

    #[test]
    fn conditions() {
        for (expression, expected) in [("round == 2", true), ("round == 1 or findings", false), ("criteria | length == 1", true)] {
            assert_eq!(scope().holds(expression).unwrap(), expected, "{expression}");
        }
        assert!(scope().holds("nothing.like.that").is_err());
    }

    #[test]
    fn texts_and_values() {
        for (template, expected) in [
            (json!("{{ task }}"), json!("T-1")),
            (json!("on {{ task }}: {{ criteria[0].text }}"), json!("on T-1: a <b>")),
            (json!("{{ criteria }}"), json!([{"id": "C1", "text": "a <b>"}])),
            (json!("{{ last.evidence.pr }}"), json!(7)),
            (json!("{{ last.evidence.pr }}!"), json!("7!")),
            (json!("{{ round | string }}"), json!("2")),
            (json!("{% for c in criteria %}{{ c.id }};{% endfor %}"), json!("C1;")),
            (json!({"a": ["{{ criteria[0].id }}", 1, null, true]}), json!({"a": ["C1", 1, null, true]})),
        ] {
            assert_eq!(scope().value(&template).unwrap(), expected, "{template}");
        }
    }

    #[test]
    fn a_name_that_is_missing_is_an_error() {
        for template in
            ["{{ tsak }}", "x {{ tsak }}", "{{ findings[0].id }}", "{{ last.nothing.at_all }}", "{{ broken", "{{ last.nothing }}"]
        {
            assert!(scope().value(&json!(template)).is_err(), "{template}");
        }
    }
}
