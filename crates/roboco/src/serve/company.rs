//! The company as data: its roster, its prompts and its demo, from a folder or from inside this program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::embedded;
use crate::failure::{Exit, Failure};

/// A company before it runs.
#[derive(Debug)]
pub(crate) struct CompanyData {
    /// The text of `roster.toml`.
    pub(crate) roster: String,
    /// The prompts by file name.
    pub(crate) prompts: BTreeMap<String, String>,
    /// The files of its demo by path: `task.toml`, the repository in `repo/`, `play.toml` and the files it writes. Empty when it has none.
    pub(crate) demo: BTreeMap<PathBuf, String>,
}

impl CompanyData {
    /// What scripted agents play: `play.toml` and the files it writes.
    pub(crate) fn play(&self) -> impl Iterator<Item = (&Path, &str)> {
        let played = self.demo.iter().filter(|(path, _)| path.as_path() == Path::new("play.toml") || path.starts_with("files"));
        played.map(|(path, text)| (path.as_path(), text.as_str()))
    }

    /// The files of the sample repository.
    pub(crate) fn repository(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.demo.iter().filter_map(|(path, text)| Some((path.strip_prefix("repo").ok()?, text.as_str())))
    }
}

/// Reads a company from a folder, or the one that comes with the program when the path is empty.
///
/// # Errors
/// A file is missing, or is no text.
pub(crate) fn company_data(dir: &Path) -> Result<CompanyData, Failure> {
    if dir.as_os_str().is_empty() {
        let owned = |(path, text): (&str, &str)| (path.to_owned(), text.to_owned());
        let demo = embedded::below("demo").map(|(path, text)| (path.into(), text.to_owned()));
        return Ok(CompanyData {
            roster: embedded::file("roster.toml").to_owned(),
            prompts: embedded::below("prompts").map(owned).collect(),
            demo: demo.collect(),
        });
    }
    let roster = read(&dir.join("roster.toml"))?;
    let mut prompts = BTreeMap::new();
    let folder = dir.join("prompts");
    let entries = std::fs::read_dir(&folder).map_err(|error| wrong(&folder, &error))?;
    for entry in entries {
        let path = entry.map_err(|error| wrong(&folder, &error))?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            prompts.insert(name, read(&path)?);
        }
    }
    if !prompts.contains_key("base.md") {
        let text = format!("{} has no base.md, which every role without a prompt of its own uses", folder.display());
        return Err(Failure::new(Exit::Configuration, text));
    }
    let mut demo = BTreeMap::new();
    let folder = dir.join("demo");
    collect(&folder, &folder, &mut demo)?;
    Ok(CompanyData { roster, prompts, demo })
}

fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<PathBuf, String>) -> Result<(), Failure> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder).map_err(|error| wrong(folder, &error))? {
        let path = entry.map_err(|error| wrong(folder, &error))?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else if let Ok(name) = path.strip_prefix(root) {
            files.insert(name.to_owned(), read(&path)?);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| wrong(path, &error))
}

fn wrong(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Configuration, format!("`company.dir`: {}: {error}", path.display()))
}

/// Writes files below a folder.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn write_below<'f>(folder: &Path, files: impl IntoIterator<Item = (&'f Path, &'f str)>) -> Result<(), Failure> {
    for (name, text) in files {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).map_err(|error| Failure::file("creating", parent, &error))?;
        std::fs::write(&path, text).map_err(|error| Failure::file("writing", &path, &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_company_of_ones_own_is_read_from_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        let missing = company_data(dir.path()).unwrap_err();
        assert!(missing.exit == Exit::Configuration && missing.message.contains("roster.toml"), "{missing}");
        let embedded = company_data(Path::new("")).unwrap();
        std::fs::write(dir.path().join("roster.toml"), &embedded.roster).unwrap();
        std::fs::create_dir(dir.path().join("prompts")).unwrap();
        assert!(company_data(dir.path()).unwrap_err().message.contains("base.md"));
        for (name, text) in &embedded.prompts {
            std::fs::write(dir.path().join("prompts").join(name), text).unwrap();
        }
        assert!(embedded.repository().any(|(path, _)| path == Path::new("package.json")));
        assert!(embedded.play().all(|(path, _)| path == Path::new("play.toml") || path.starts_with("files")));
        write_below(&dir.path().join("demo"), embedded.demo.iter().map(|(path, text)| (path.as_path(), text.as_str()))).unwrap();
        let read = company_data(dir.path()).unwrap();
        assert_eq!((read.roster, read.prompts, read.demo), (embedded.roster, embedded.prompts, embedded.demo));
    }
}
