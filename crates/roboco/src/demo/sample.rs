//! The sample repository: an ordinary checkout, as a person would have it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use roboco_process::{OutputCap, Process, find_program};

use crate::command::Here;
use crate::failure::Failure;
use crate::serve::{CompanyData, write_below};

/// Every command here works on a handful of small files.
const DEADLINE: Duration = Duration::from_secs(30);
/// The first commit is the same in every demo.
const FIRST_COMMIT: &str = "2026-01-05T09:00:00Z";

/// The sample repository of this name below the data directory; made when it is not there. It appears whole or not at all.
///
/// # Errors
/// Git fails, or the disk.
pub(super) async fn checkout(here: &Here, name: &str, company: &CompanyData) -> Result<PathBuf, Failure> {
    let folder = here.data.join("demo");
    let (repository, new) = (folder.join(name), folder.join(".new"));
    if repository.join(".git").is_dir() {
        return Ok(repository);
    }
    if new.exists() {
        std::fs::remove_dir_all(&new).map_err(|error| Failure::file("removing", &new, &error))?;
    }
    write_below(&new, company.repository())?;
    git(here, &new, &["init", "--quiet", "--initial-branch=main", "--template="]).await?;
    git(here, &new, &["config", "user.name", "Ada"]).await?;
    git(here, &new, &["config", "user.email", "ada@example.org"]).await?;
    git(here, &new, &["add", "--all"]).await?;
    git(here, &new, &["commit", "--quiet", "--message=First version"]).await?;
    std::fs::rename(&new, &repository).map_err(|error| Failure::file("renaming", &new, &error))?;
    Ok(repository)
}

/// The history as a graph.
///
/// # Errors
/// Git fails.
pub(super) async fn history(here: &Here, repository: &Path) -> Result<String, Failure> {
    git(here, repository, &["log", "--graph", "--format=%h %s (%an)", "-n", "20"]).await
}

async fn git(here: &Here, folder: &Path, arguments: &[&str]) -> Result<String, Failure> {
    let path = here.environment.search_path();
    let program = find_program(std::ffi::OsStr::new("git"), &path).unwrap_or_else(|| "git".into());
    let process = Process::new(program, folder, DEADLINE).args(arguments.iter().copied());
    // Nothing of the user's own configuration: no signing, no hooks, no other branch name.
    let process = process
        .env("PATH", path)
        .env("HOME", folder)
        .env("LC_ALL", "C.UTF-8")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_DATE", FIRST_COMMIT)
        .env("GIT_COMMITTER_DATE", FIRST_COMMIT);
    let output = process.output(OutputCap::head(64 * 1024)).await.map_err(|error| Failure::broken(error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout.into_bytes()).trim_end().to_owned());
    }
    let said = output.stderr.text();
    Err(Failure::broken(format!("git {} in {}: {}", arguments.first().copied().unwrap_or_default(), folder.display(), said.trim())))
}
