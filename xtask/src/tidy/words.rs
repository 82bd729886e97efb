//! Words that have no business in a repository: folders of the machine on which a file happened to be made.

use super::{Problem, SourceFile};

/// Put together from parts, so that this file does not contain them.
const FOLDERS: &[&str] = &[
    concat!("/wo", "rk/main"),
    concat!("/wo", "rk/shared"),
    concat!("/wo", "rk/.library"),
    concat!("/tm", "p/brief"),
    concat!("/tm", "p/bash_jobs"),
    concat!("/tm", "p/claude-cli"),
    concat!("/ro", "ot/.cargo"),
    concat!("/ro", "ot/.rustup"),
    concat!("/home", "/runner/"),
];

/// Lines that name such a folder.
pub(super) fn traces_of_a_machine(files: &[SourceFile]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files {
        for (index, line) in file.text.lines().enumerate() {
            problems.extend(FOLDERS.iter().filter(|folder| line.contains(*folder)).map(|folder| Problem {
                place: format!("{}:{}", file.path, index + 1),
                message: format!("names {folder}, a folder of the machine it was made on"),
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
    fn folders_of_a_build_machine_are_found_in_any_file() {
        let text = format!("a\nsee {} there\n", concat!("/wo", "rk/main/target"));
        let problems = traces_of_a_machine(&[sample("docs/a.md", &text), sample("docs/b.md", "see /workspace/main\n")]);
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].place, "docs/a.md:2");
    }
}
