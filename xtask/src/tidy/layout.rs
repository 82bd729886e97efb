//! Names and front doors of files.

use super::{Problem, SourceFile};

/// Names that say nothing about what is inside, so everything ends up there.
const GRAB_BAGS: &[&str] = &["common", "helper", "helpers", "misc", "util", "utils"];

/// Production files that do not open with a module comment.
pub(super) fn missing_headers(files: &[SourceFile]) -> Vec<Problem> {
    let without = |file: &&SourceFile| file.is_production_rust() && !file.text.starts_with("//! ");
    let problem = |file: &SourceFile| Problem {
        place: file.path.clone(),
        message: "must open with `//!`: what this file is for, and what is deliberately not in it".into(),
    };
    files.iter().filter(without).map(problem).collect()
}

/// `mod.rs`, and files, folders or crates named after nothing.
pub(super) fn forbidden_names(files: &[SourceFile]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let mut report = |message: String| problems.push(Problem { place: file.path.clone(), message });
        if file.path.ends_with("/mod.rs") {
            report("use `name.rs` beside `name/` instead of `name/mod.rs`".into());
        }
        let named_so = |part: &str| {
            let stem = part.strip_suffix(".rs").unwrap_or(part);
            GRAB_BAGS.contains(&stem)
        };
        if let Some(part) = file.path.split('/').find(|part| named_so(part)) {
            report(format!("{part:?} is not a subject: name the idea that the code is about"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn production_files_need_a_front_door() {
        let cases = [
            ("crates/a/src/b.rs", "//! Verbs.\n", 0),
            ("crates/a/src/b.rs", "use std::fmt;\n//! Verbs.\n", 1),
            ("crates/a/src/b.rs", "", 1),
            ("crates/a/build.rs", "fn main() {}\n", 1),
            ("crates/a/tests/b.rs", "use std::fmt;\n", 0),
            ("docs/a.md", "# A\n", 0),
        ];
        for (path, text, expected) in cases {
            assert_eq!(missing_headers(&[sample(path, text)]).len(), expected, "{path} {text:?}");
        }
    }

    #[test]
    fn names_without_a_subject_are_refused() {
        let cases = [
            ("crates/a/src/tasks.rs", 0),
            ("crates/a/src/commons.rs", 0),
            ("crates/a/src/tasks/mod.rs", 1),
            ("crates/a/src/utils.rs", 1),
            ("crates/common/src/lib.rs", 1),
            ("crates/a/tests/helpers/start.rs", 1),
            ("crates/a/tests/common/mod.rs", 2),
        ];
        for (path, expected) in cases {
            assert_eq!(forbidden_names(&[sample(path, "")]).len(), expected, "{path}");
        }
    }
}
