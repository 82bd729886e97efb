//! The rules take time, ids and facts as arguments. The crate graph keeps other crates out; this keeps the standard library out, and the
//! functions of allowed crates that read a clock or roll dice.

use super::{Problem, SourceFile};

const RULES_FOLDER: &str = "crates/domain/src/";

/// Each is a way to learn something that was not an argument.
const IMPURE: &[&str] = &[
    "Instant::now",
    "SystemTime",
    "Uuid::new_v1",
    "Uuid::new_v4",
    "Uuid::now_v7",
    "env::var",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "thread_rng",
];

/// Lines of the rules that look outside.
pub(super) fn impure_rules(files: &[SourceFile]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.path.starts_with(RULES_FOLDER) && file.is_production_rust()) {
        for (number, line) in file.production_lines().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            problems.extend(IMPURE.iter().filter(|call| line.contains(*call)).map(|call| Problem {
                place: format!("{}:{number}", file.path),
                message: format!("`{call}` looks outside the rules: take the value as an argument"),
            }));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn rules_do_not_look_outside() {
        let cases = [
            ("crates/domain/src/a.rs", "//! A.\nlet now = std::time::Instant::now();\n", 1),
            ("crates/domain/src/a.rs", "//! A.\nlet id = Uuid::now_v7();\n", 1),
            ("crates/domain/src/a.rs", "//! Never calls Uuid::now_v7.\n", 0),
            ("crates/domain/src/a.rs", "//! A.\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n", 0),
            ("crates/store/src/a.rs", "//! A.\nlet id = Uuid::now_v7();\n", 0),
        ];
        for (path, text, expected) in cases {
            assert_eq!(impure_rules(&[sample(path, text)]).len(), expected, "{path} {text:?}");
        }
    }
}
