//! Length of files. Functions are measured by clippy.

use super::{Problem, SourceFile};

/// No production file is longer than this many lines.
const CAP: usize = 800;
/// What most files should stay under.
const TARGET_P90: usize = 350;
/// What a typical file should stay under.
const TARGET_MEDIAN: usize = 120;

/// Files over the cap that are known, with the length they may not exceed. The list only shrinks: a file that got shorter lowers its
/// number, a file under the cap leaves.
pub(super) const ALLOWED: &[(&str, usize)] = &[];

/// Files over the cap, and entries of the list that are no longer needed.
pub(super) fn too_long(files: &[SourceFile], allowed: &[(&str, usize)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.is_production_rust()) {
        let lines = file.production_lines().count();
        let limit = allowed.iter().find(|(path, _)| *path == file.path).map(|(_, limit)| *limit);
        let message = match limit {
            None if lines > CAP => format!("{lines} production lines, the cap is {CAP}: split it by noun or verb"),
            Some(limit) if lines > limit => format!("grew to {lines} production lines from {limit}: it is already over the cap"),
            Some(_) if lines <= CAP => "is under the cap again: remove it from the list of long files".to_owned(),
            Some(limit) if lines < limit => format!("shrank to {lines} production lines: lower its number in the list of long files"),
            None | Some(_) => continue,
        };
        problems.push(Problem { place: file.path.clone(), message });
    }
    for (path, _) in allowed.iter().filter(|(path, _)| !files.iter().any(|file| file.path == *path)) {
        problems.push(Problem { place: (*path).to_owned(), message: "does not exist: remove it from the list of long files".into() });
    }
    problems
}

/// Median and ninetieth percentile against their targets, for the person who looks at the output.
pub(super) fn summary(files: &[SourceFile]) -> String {
    let mut lengths: Vec<usize> =
        files.iter().filter(|file| file.is_production_rust()).map(|file| file.production_lines().count()).collect();
    lengths.sort_unstable();
    let at = |percent: usize| lengths.get(lengths.len().saturating_sub(1) * percent / 100).copied().unwrap_or(0);
    format!("lines per production file: median {} (target {TARGET_MEDIAN}), p90 {} (target {TARGET_P90})", at(50), at(90))
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn file_of(lines: usize) -> SourceFile {
        sample("crates/a/src/b.rs", &"x\n".repeat(lines))
    }

    #[test]
    fn the_cap_and_the_shrinking_list() {
        let none: &[(&str, usize)] = &[];
        let listed: &[(&str, usize)] = &[("crates/a/src/b.rs", 900)];
        let cases = [
            (800, none, None),
            (801, none, Some("the cap is 800")),
            (900, listed, None),
            (901, listed, Some("grew to 901")),
            (850, listed, Some("lower its number")),
            (800, listed, Some("remove it from the list")),
        ];
        for (lines, allowed, expected) in cases {
            let problems = too_long(&[file_of(lines)], allowed);
            match expected {
                None => assert_eq!(problems, [], "{lines}"),
                Some(part) => assert!(problems.len() == 1 && problems[0].message.contains(part), "{lines}: {problems:?}"),
            }
        }
    }

    #[test]
    fn tests_may_be_long_and_listed_files_must_exist() {
        assert_eq!(too_long(&[sample("crates/a/tests/b.rs", &"x\n".repeat(2000))], &[]), []);
        assert_eq!(too_long(&[], &[("gone.rs", 900)]).len(), 1);
    }
}
