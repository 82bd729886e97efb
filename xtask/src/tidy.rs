//! `tidy`: the rules of this repository that no compiler or linter knows. Each rule is a function from text to problems.

mod arrows;
mod layout;
mod purity;
mod shape;
mod size;
mod verbs;
mod words;

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::shell;
use crate::workspace::Workspace;

/// One file of the repository, new files included, ignored ones not.
#[derive(Debug, Clone)]
struct SourceFile {
    /// Relative to the root, with forward slashes.
    path: String,
    /// Its content, wrongly encoded bytes replaced.
    text: String,
}

/// Something a person has to mend.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    /// `file` or `file:line` or a package.
    place: String,
    /// What is wrong and what to do.
    message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl SourceFile {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Tests, benches and examples: they may be long and need no front door.
    fn is_test(&self) -> bool {
        let mut parts = self.path.split('/');
        let file = parts.next_back().unwrap_or_default();
        file == "tests.rs" || file.ends_with("_tests.rs") || parts.any(|folder| matches!(folder, "tests" | "benches" | "examples"))
    }

    fn is_production_rust(&self) -> bool {
        self.is_rust() && !self.is_test()
    }

    /// Line number (from 1) and text of every line outside inline test modules. Relies on the formatter: such a module opens with
    /// `#[cfg(test)]` and closes with `}`, both in the first column.
    fn production_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut in_tests = false;
        self.text.lines().enumerate().filter_map(move |(index, line)| {
            if line == "#[cfg(test)]" {
                in_tests = true;
            }
            let shown = (!in_tests).then_some((index + 1, line));
            if in_tests && (line == "}" || line.starts_with("mod ") && line.ends_with(';')) {
                in_tests = false;
            }
            shown
        })
    }
}

/// Runs every rule and lists all problems at once.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let files = read_files(&workspace.root)?;
    let mut problems = Vec::new();
    problems.extend(size::too_long(&files, size::ALLOWED));
    problems.extend(shape::too_much_in_one_place(&files, shape::ALLOWED));
    problems.extend(layout::missing_headers(&files));
    problems.extend(layout::forbidden_names(&files));
    problems.extend(arrows::wrong_dependencies(&workspace.packages));
    problems.extend(purity::impure_rules(&files));
    problems.extend(words::traces_of_a_machine(&files));
    match verbs::registered(&files) {
        Some(known) => problems.extend(verbs::unknown_verbs(&files, &known)),
        None => println!("tidy: verbs named in documents are not checked, {} does not exist yet", verbs::TABLE),
    }
    println!("tidy: {} files, {}", files.len(), size::summary(&files));
    if problems.is_empty() {
        return Ok(());
    }
    problems.sort();
    for problem in &problems {
        eprintln!("{problem}");
    }
    bail!("{} problems", problems.len())
}

fn read_files(root: &Path) -> Result<Vec<SourceFile>> {
    let mut git = shell::command("git");
    // On build servers the checkout may belong to another user than ours.
    git.current_dir(root).args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let list = shell::capture(&mut git).context("the list of files comes from git")?;
    let mut files = Vec::new();
    for path in list.split('\0').filter(|path| !path.is_empty()) {
        match std::fs::read(root.join(path)) {
            Ok(bytes) => files.push(SourceFile { path: path.to_owned(), text: String::from_utf8_lossy(&bytes).into_owned() }),
            // Deleted but not yet recorded as such, or a link to nowhere or to a folder.
            Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::IsADirectory) => {}
            Err(error) => return Err(error).context(format!("{path} could not be read")),
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup_by(|a, b| a.path == b.path);
    Ok(files)
}

#[cfg(test)]
fn sample(path: &str, text: &str) -> SourceFile {
    SourceFile { path: path.into(), text: text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_tests_are_not_production_lines() {
        let file = sample("crates/a/src/b.rs", "//! B.\nfn a() {}\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\nfn after() {}\n");
        let lines: Vec<usize> = file.production_lines().map(|(number, _)| number).collect();
        assert_eq!(lines, [1, 2, 7]);
        let outside = sample("crates/a/src/b.rs", "//! B.\n#[cfg(test)]\nmod tests;\nfn after() {}\n");
        assert_eq!(outside.production_lines().count(), 2);
    }

    #[test]
    fn test_files_are_known_by_their_place() {
        for path in ["crates/a/tests/b.rs", "tests/e2e/src/lib.rs", "crates/a/src/b/tests.rs", "crates/a/benches/c.rs"] {
            assert!(sample(path, "").is_test(), "{path}");
        }
        assert!(!sample("crates/a/src/testing.rs", "").is_test());
    }
}
