//! Verbs named in documents, prompts and demo plays must exist. The list of verbs is the generated table in the documents, so this rule
//! needs no crate of the product; that the table itself is current is a test of the product.

use std::collections::BTreeSet;

use super::{Problem, SourceFile};

/// Generated from the registry; the first column holds the verb as `code`.
pub(super) const TABLE: &str = "docs/verbs.md";

/// How the names of verbs begin. Other snake case words in documents are fields, tables and settings.
const BEGINNINGS: &[&str] = &["claim_", "escalate_", "give_me_", "i_", "submit_"];

/// The verbs of the table, or `None` while there is no table.
pub(super) fn registered(files: &[SourceFile]) -> Option<BTreeSet<String>> {
    let table = files.iter().find(|file| file.path == TABLE)?;
    let first_column = |line: &str| line.strip_prefix('|').and_then(|rest| rest.split('|').next()).map(|cell| cell.trim().to_owned());
    let verb = |cell: String| cell.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')).map(str::to_owned);
    Some(table.text.lines().filter_map(first_column).filter_map(verb).collect())
}

/// Mentions of verbs that are not registered.
pub(super) fn unknown_verbs(files: &[SourceFile], known: &BTreeSet<String>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.path != TABLE) {
        let mentions: fn(&str) -> Vec<&str> = match file.path.rsplit('.').next() {
            Some("md") => in_prose,
            Some("toml") if file.path.starts_with("company/") => in_play,
            _ => continue,
        };
        for (index, line) in file.text.lines().enumerate() {
            problems.extend(mentions(line).into_iter().filter(|verb| !known.contains(*verb)).map(|verb| Problem {
                place: format!("{}:{}", file.path, index + 1),
                message: format!("names the verb `{verb}`, which is not in {TABLE}"),
            }));
        }
    }
    problems
}

/// Code spans that look like a verb, with or without arguments.
fn in_prose(line: &str) -> Vec<&str> {
    let spans = line.split('`').skip(1).step_by(2);
    let name = |span| -> Option<&str> { str::split(span, '(').next() };
    spans.filter_map(name).filter(|name| is_verb_like(name)).collect()
}

/// The verb of a `call = "…"` or `verb = "…"`.
fn in_play(line: &str) -> Vec<&str> {
    let after = |key: &str| line.split_once(key).and_then(|(_, rest)| rest.split('"').next());
    [after("call = \""), after("verb = \"")].into_iter().flatten().collect()
}

fn is_verb_like(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') && BEGINNINGS.iter().any(|beginning| word.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn only_registered_verbs_may_be_named() {
        let table = sample(TABLE, "# Verbs\n\n| Verb | Roles |\n|---|---|\n| `i_am_done` | developer |\n| `pass` | qa |\n");
        let known = registered(&[table]).unwrap();
        assert_eq!(known.iter().map(String::as_str).collect::<Vec<_>>(), ["i_am_done", "pass"]);
        let cases = [
            ("docs/a.md", "Call `i_am_done(task_id)` at the end.", 0),
            ("docs/a.md", "Call `i_am_finished` at the end.", 1),
            ("docs/a.md", "The column `task_id` and the text i_am_finished.", 0),
            ("company/prompts/qa.md", "First `claim_everything`, then `i_am_done`.", 1),
            ("company/demo/play.toml", "{ call = \"pass\", args = {} },", 0),
            ("company/demo/play.toml", "{ call = \"approve_all\", args = {} },", 1),
            ("company/demo/play.toml", "when = { task = \"x\", verb = \"start\" }", 1),
            ("Cargo.toml", "call = \"approve_all\"", 0),
        ];
        for (path, text, expected) in cases {
            assert_eq!(unknown_verbs(&[sample(path, text)], &known).len(), expected, "{path} {text:?}");
        }
    }

    #[test]
    fn without_a_table_nothing_is_claimed() {
        assert_eq!(registered(&[sample("docs/a.md", "")]), None);
    }
}
