//! The company that comes with the program: its roster, its prompts and its demo, compiled in.

/// Files under `company/`, by their path there.
pub(crate) const FILES: &[(&str, &str)] = &[
    ("roster.toml", include_str!("../../../company/roster.toml")),
    ("prompts/base.md", include_str!("../../../company/prompts/base.md")),
    ("prompts/cell_pm.md", include_str!("../../../company/prompts/cell_pm.md")),
    ("prompts/developer.md", include_str!("../../../company/prompts/developer.md")),
    ("prompts/documenter.md", include_str!("../../../company/prompts/documenter.md")),
    ("prompts/main_pm.md", include_str!("../../../company/prompts/main_pm.md")),
    ("prompts/pr_reviewer.md", include_str!("../../../company/prompts/pr_reviewer.md")),
    ("prompts/qa.md", include_str!("../../../company/prompts/qa.md")),
    ("demo/play.toml", include_str!("../../../company/demo/play.toml")),
    ("demo/root.toml", include_str!("../../../company/demo/root.toml")),
    ("demo/task.toml", include_str!("../../../company/demo/task.toml")),
    ("demo/files/CHANGELOG.md", include_str!("../../../company/demo/files/CHANGELOG.md")),
    ("demo/files/README.md", include_str!("../../../company/demo/files/README.md")),
    ("demo/files/docs/usage.md", include_str!("../../../company/demo/files/docs/usage.md")),
    ("demo/files/root/CHANGELOG-code.md", include_str!("../../../company/demo/files/root/CHANGELOG-code.md")),
    ("demo/files/root/CHANGELOG-language.md", include_str!("../../../company/demo/files/root/CHANGELOG-language.md")),
    ("demo/files/root/CHANGELOG.md", include_str!("../../../company/demo/files/root/CHANGELOG.md")),
    ("demo/files/root/README.md", include_str!("../../../company/demo/files/root/README.md")),
    ("demo/files/root/cli-errors.test.js", include_str!("../../../company/demo/files/root/cli-errors.test.js")),
    ("demo/files/root/cli-first.js", include_str!("../../../company/demo/files/root/cli-first.js")),
    ("demo/files/root/cli.js", include_str!("../../../company/demo/files/root/cli.js")),
    ("demo/files/root/cli.test.js", include_str!("../../../company/demo/files/root/cli.test.js")),
    ("demo/files/root/code.js", include_str!("../../../company/demo/files/root/code.js")),
    ("demo/files/root/code.test.js", include_str!("../../../company/demo/files/root/code.test.js")),
    ("demo/files/root/greet.js", include_str!("../../../company/demo/files/root/greet.js")),
    ("demo/files/root/in-language.test.js", include_str!("../../../company/demo/files/root/in-language.test.js")),
    ("demo/files/root/index.js", include_str!("../../../company/demo/files/root/index.js")),
    ("demo/files/root/language-alone.js", include_str!("../../../company/demo/files/root/language-alone.js")),
    ("demo/files/root/language.js", include_str!("../../../company/demo/files/root/language.js")),
    ("demo/files/root/language.test.js", include_str!("../../../company/demo/files/root/language.test.js")),
    ("demo/files/root/languages.md", include_str!("../../../company/demo/files/root/languages.md")),
    ("demo/files/src/greet.js", include_str!("../../../company/demo/files/src/greet.js")),
    ("demo/files/src/join.js", include_str!("../../../company/demo/files/src/join.js")),
    ("demo/files/test/robust.test.js", include_str!("../../../company/demo/files/test/robust.test.js")),
    ("demo/files/test/several.test.js", include_str!("../../../company/demo/files/test/several.test.js")),
    ("demo/repo/CHANGELOG.md", include_str!("../../../company/demo/repo/CHANGELOG.md")),
    ("demo/repo/README.md", include_str!("../../../company/demo/repo/README.md")),
    ("demo/repo/docs/usage.md", include_str!("../../../company/demo/repo/docs/usage.md")),
    ("demo/repo/package.json", include_str!("../../../company/demo/repo/package.json")),
    ("demo/repo/src/cli.js", include_str!("../../../company/demo/repo/src/cli.js")),
    ("demo/repo/src/greet.js", include_str!("../../../company/demo/repo/src/greet.js")),
    ("demo/repo/src/index.js", include_str!("../../../company/demo/repo/src/index.js")),
    ("demo/repo/src/name.js", include_str!("../../../company/demo/repo/src/name.js")),
    ("demo/repo/test/greet.test.js", include_str!("../../../company/demo/repo/test/greet.test.js")),
    ("demo/repo/test/name.test.js", include_str!("../../../company/demo/repo/test/name.test.js")),
];

/// The files below a folder, by their path in it.
pub(crate) fn below(folder: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.iter().filter_map(move |(path, text)| Some((path.strip_prefix(folder)?.strip_prefix('/')?, *text)))
}

/// One file; empty when there is none, which the test below rules out.
pub(crate) fn file(path: &str) -> &'static str {
    FILES.iter().find(|(name, _)| *name == path).map_or("", |(_, text)| text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::*;

    #[test]
    fn every_file_of_the_company_is_compiled_in() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../company");
        let (mut found, mut folders): (BTreeSet<PathBuf>, _) = (BTreeSet::new(), vec![root.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.insert(path.strip_prefix(&root).unwrap().to_owned());
                }
            }
        }
        assert_eq!(found, FILES.iter().map(|(path, _)| PathBuf::from(path)).collect());
    }
}
