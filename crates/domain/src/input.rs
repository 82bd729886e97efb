//! Rules for what callers type: tolerant lists, clamped prose, and the guard against filler.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Words that stand for nothing. A text that is only these is no text.
const FILLER: &[&str] =
    &["wip", "tmp", "tbd", "todo", "asdf", "oops", "stuff", "things", "n/a", "na", "none", "null", "-", "--", "...", ".", "x"];

/// Phrases that pretend to be an acceptance criterion.
const EVASIONS: &[&str] = &["completed and reviewed by assignee", "task complete", "see description", "see title", "tbd", "todo"];

/// Phrases that pretend to be a description.
const NO_DESCRIPTION: &[&str] = &["see title", "same as title", "todo", "tbd", "na", "n/a", "pending", "placeholder"];

/// Whether a text says nothing: empty, or made of filler words only.
pub fn is_filler(text: &str) -> bool {
    let trimmed = text.trim();
    if trimmed.is_empty() || FILLER.iter().any(|f| trimmed.eq_ignore_ascii_case(f)) {
        return true;
    }
    trimmed.split_whitespace().all(|word| {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        bare.is_empty() || FILLER.iter().any(|f| bare.eq_ignore_ascii_case(f))
    })
}

/// Whether an acceptance criterion only pretends to be one.
pub fn is_evasion(text: &str) -> bool {
    is_filler(text) || EVASIONS.iter().any(|e| text.trim().eq_ignore_ascii_case(e))
}

/// Whether a description only pretends to be one.
pub fn is_no_description(text: &str) -> bool {
    is_filler(text) || NO_DESCRIPTION.iter().any(|e| text.trim().eq_ignore_ascii_case(e))
}

/// Cuts a text to `limit` characters, marking the cut, and drops control characters, which would only disturb whoever reads it.
pub fn clamp(text: &str, limit: usize) -> Cow<'_, str> {
    let trimmed = text.trim();
    if has_control(trimmed) {
        let clean: String = trimmed.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t')).collect();
        return Cow::Owned(clamp(&clean, limit).into_owned());
    }
    if trimmed.chars().count() <= limit {
        return Cow::Borrowed(trimmed);
    }
    let kept: String = trimmed.chars().take(limit.saturating_sub(3)).collect();
    Cow::Owned(kept + "...")
}

/// Whether a text holds a control character other than line breaks and tabs; such text is refused where people type it.
pub fn has_control(text: &str) -> bool {
    text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
}

/// A list of texts read tolerantly: models send lone strings, nested lists and objects where a list of strings is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextList(pub Vec<String>);

impl TextList {
    fn collect(value: &Value, into: &mut Vec<String>) {
        const KEYS: &[&str] = &["$text", "text", "item", "value", "content", "summary"];
        match value {
            Value::String(text) => {
                let trimmed = text.trim();
                if !trimmed.is_empty() {
                    into.push(trimmed.to_owned());
                }
            }
            Value::Array(items) => items.iter().for_each(|item| Self::collect(item, into)),
            Value::Object(map) => match KEYS.iter().find_map(|key| map.get(*key)) {
                Some(inner) => Self::collect(inner, into),
                None => map.values().filter(|v| v.is_string()).for_each(|v| Self::collect(v, into)),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

impl<'de> Deserialize<'de> for TextList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let mut items = Vec::new();
        Self::collect(&value, &mut items);
        Ok(Self(items))
    }
}

impl JsonSchema for TextList {
    fn schema_name() -> Cow<'static, str> {
        "TextList".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": { "type": "string" } })
    }
}

/// Checks the subject of a commit as an agent typed it and returns it without a task tag and without attribution lines.
///
/// # Errors
/// One sentence saying what is wrong with it.
pub fn commit_subject(message: &str) -> Result<String, String> {
    const EMPTY_WORDS: &[&str] = &["wip", "tmp", "asdf", "oops", "fix", "update", "change", "stuff", "things"];
    let first = message.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let bare = match first.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((_, rest)) => rest.trim(),
        None => first,
    };
    if bare.is_empty() {
        return Err("the commit message is empty".into());
    }
    if has_control(bare) {
        return Err("the commit subject holds control characters".into());
    }
    if EMPTY_WORDS.iter().any(|w| bare.eq_ignore_ascii_case(w)) || is_filler(bare) {
        return Err(format!("{bare:?} does not say what changed"));
    }
    if bare.chars().count() < 10 {
        return Err("the commit subject is shorter than 10 characters".into());
    }
    Ok(clamp(bare, 120).into_owned())
}

/// The rest of a commit message: without the subject and without lines that attribute the work to a tool.
pub fn commit_body(message: &str) -> String {
    let mut lines = message.lines().skip_while(|line| line.trim().is_empty()).skip(1).filter(|line| {
        let lower = line.trim().to_ascii_lowercase();
        !lower.starts_with("co-authored-by:") && !lower.contains("generated with") && !lower.starts_with("signed-off-by:")
    });
    let mut body = String::new();
    for line in lines.by_ref() {
        if !line.chars().any(|c| c.is_control() && c != '\t') {
            body.push_str(line.trim_end());
            body.push('\n');
        }
    }
    clamp(&body, crate::limits::NOTES_CHARS).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filler_is_told_from_prose() {
        for nothing in ["", "  ", "TBD", "wip.", "n/a", "todo tbd", "...", "x", "- -", "None."] {
            assert!(is_filler(nothing), "{nothing:?}");
        }
        for prose in ["the todo list renders", "none of the tests fail", "ok", "x axis is labelled"] {
            assert!(!is_filler(prose), "{prose:?}");
        }
    }

    #[test]
    fn lists_are_read_as_models_send_them() {
        for (json, wanted) in [
            (r#"["a"," b ",""]"#, vec!["a", "b"]),
            (r#""a""#, vec!["a"]),
            (r#"null"#, vec![]),
            (r#"{"item":["a",{"$text":"b"}]}"#, vec!["a", "b"]),
            (r#"[["a"],[["b"]],3,true]"#, vec!["a", "b"]),
            (r#"{"one":"a","two":"b"}"#, vec!["a", "b"]),
        ] {
            assert_eq!(serde_json::from_str::<TextList>(json).unwrap().0, wanted, "{json}");
        }
    }

    #[test]
    fn commit_subjects() {
        assert_eq!(commit_subject("[T-1] feat(greet): join several names\n\nbody").unwrap(), "feat(greet): join several names");
        for bad in ["", "wip", "fix", "tbd tbd", "[T-1] ", "short", "bell \u{7} in the subject"] {
            assert!(commit_subject(bad).is_err(), "{bad:?}");
        }
        assert_eq!(commit_body("subject line here\n\nwhy\nCo-Authored-By: A Tool <x@y>\n"), "why");
    }
}
