//! One demo company seen from outside: its process, its command line, its repository. Everything that depends on how the product's
//! command line looks is in this file.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::postgres::free_port;
use crate::shell;

/// The demo hands out exactly one task.
const TASK: &str = "T-1";
/// How long a server may take until it answers.
const ANSWER_DEADLINE: Duration = Duration::from_secs(30);

/// A data directory and the binary that works on it.
pub(super) struct Company {
    binary: PathBuf,
    data: PathBuf,
    logs: PathBuf,
}

/// What arrived on the default branch of the sample repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Delivery {
    /// Author and subject of the commits the merge brought in, oldest first.
    pub(super) commits: Vec<String>,
    /// The tree at the tip.
    tree: String,
}

/// One start of a process of the product. It is killed when dropped.
pub(super) struct Run {
    process: Child,
    log: PathBuf,
}

impl Company {
    pub(super) fn new(binary: &Path, folder: &Path) -> Result<Self> {
        let company = Self { binary: binary.to_owned(), data: folder.join("data"), logs: folder.join("logs") };
        std::fs::create_dir_all(&company.data)?;
        std::fs::create_dir_all(&company.logs)?;
        Ok(company)
    }

    /// Starts the demo, or continues the one that was killed on this data.
    pub(super) fn start(&self) -> Result<Run> {
        let mut demo = shell::command(&self.binary);
        demo.args(["demo", "--yes", "--keep", "--data-dir"]).arg(&self.data);
        self.launch(demo, "demo.log")
    }

    /// Asks the product itself, through a server started for the question, because the demo's own server has ended.
    pub(super) fn task_is_completed(&self) -> Result<()> {
        let mut up = shell::command(&self.binary);
        up.arg("--data-dir").arg(&self.data).arg("up").env("ROBOCO_PORT", free_port()?.to_string());
        let mut server = self.launch(up, "up.log")?;
        let deadline = Instant::now() + ANSWER_DEADLINE;
        let task = loop {
            let mut question = shell::command(&self.binary);
            question.arg("--data-dir").arg(&self.data).args(["task", "show", TASK, "--json"]);
            match shell::capture(&mut question) {
                Ok(answer) => break serde_json::from_str::<Value>(&answer).context("`task show --json` did not print JSON")?,
                Err(error) if Instant::now() > deadline => return Err(error.context("the server did not answer")),
                Err(_) => std::thread::sleep(Duration::from_millis(200)),
            }
            if let Some(status) = server.ended()? {
                bail!("the server ended with {status}, see {}", server.log.display());
            }
        };
        server.kill()?;
        completed(&task)
    }

    /// Reads the sample repository with git.
    pub(super) fn delivery(&self) -> Result<Delivery> {
        let repository = sample_repository(&self.data)?;
        let git = |arguments: &[&str]| -> Result<String> {
            let mut git = shell::command("git");
            git.current_dir(&repository).args(["-c", "safe.directory=*"]).args(arguments);
            Ok(shell::capture(&mut git)?.trim().to_owned())
        };
        let merges = git(&["log", "--merges", "--format=%H %(trailers:key=Task,valueonly,separator=%x20)", "HEAD"])?;
        let merge = only_merge(&merges)?;
        let dirty = git(&["status", "--porcelain"])?;
        ensure!(dirty.is_empty(), "the checkout of the sample repository is dirty:\n{dirty}");
        let commits = git(&["log", "--reverse", "--format=%an: %s", &format!("{merge}^1..{merge}^2")])?;
        let tree = git(&["rev-parse", "HEAD^{tree}"])?;
        Ok(Delivery { commits: commits.lines().map(str::to_owned).collect(), tree })
    }

    fn launch(&self, mut command: Command, log: &str) -> Result<Run> {
        let log = self.logs.join(log);
        let output: File = OpenOptions::new().create(true).append(true).open(&log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let process = command.spawn().with_context(|| format!("{} could not be started", self.binary.display()))?;
        Ok(Run { process, log })
    }
}

impl Run {
    /// How it ended, if it did.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.process.try_wait()?)
    }

    /// Kills this process alone and without warning: what it started must die by itself.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }

    /// Everything it printed.
    pub(super) fn log(&self) -> &Path {
        &self.log
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None))
            && let Err(error) = self.kill()
        {
            eprintln!("process {} could not be killed: {error}", self.process.id());
        }
    }
}

/// The task's status must be the wire name `completed`, and none of its spawns may still count as live.
fn completed(task: &Value) -> Result<()> {
    let body = task.get("task").unwrap_or(task);
    let status = body.get("status").and_then(Value::as_str).context("`task show --json` prints no status")?;
    ensure!(status == "completed", "task {TASK} is {status}, not completed");
    let spawns = task.get("spawns").or_else(|| body.get("spawns")).and_then(Value::as_array);
    let live = |spawn: &&Value| spawn.get("ended_at").is_some_and(Value::is_null);
    if let Some(spawn) = spawns.into_iter().flatten().find(live) {
        bail!("a spawn of the finished task still counts as live: {spawn}");
    }
    Ok(())
}

/// The commit of the one merge that carries the task's trailer.
fn only_merge(merges: &str) -> Result<&str> {
    let ours: Vec<&str> =
        merges.lines().filter_map(|line| line.split_once(' ')).filter(|(_, task)| task.trim() == TASK).map(|(id, _)| id).collect();
    match ours.as_slice() {
        [merge] => Ok(merge),
        other => bail!("{} merges of {TASK} on the default branch instead of one:\n{merges}", other.len()),
    }
}

/// The ordinary checkout among the files of the demo: the one folder with a `.git` folder and the sample's manifest.
fn sample_repository(data: &Path) -> Result<PathBuf> {
    const DEPTH: usize = 4;
    let mut found = Vec::new();
    let mut level = vec![data.to_owned()];
    for _ in 0..DEPTH {
        let mut next = Vec::new();
        for folder in level {
            if folder.join(".git").is_dir() && folder.join("package.json").is_file() {
                found.push(folder);
                continue;
            }
            let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
            next.extend(entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()));
        }
        level = next;
    }
    match found.as_slice() {
        [repository] => Ok(repository.clone()),
        _ => bail!("{} sample repositories under {}: {found:?}", found.len(), data.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_merge_of_the_task_is_right() {
        assert_eq!(only_merge("aaa T-1\nbbb \nccc T-12").unwrap(), "aaa");
        assert!(only_merge("bbb \nccc T-12").unwrap_err().to_string().contains("0 merges"));
        assert!(only_merge("aaa T-1\nbbb T-1").unwrap_err().to_string().contains("2 merges"));
    }

    #[test]
    fn a_finished_task_is_completed_and_has_no_live_spawn() {
        let cases = [
            (r#"{"status":"completed"}"#, true),
            (r#"{"task":{"status":"completed"},"spawns":[{"ended_at":"2026-01-01T00:00:00Z"}]}"#, true),
            (r#"{"task":{"status":"completed"},"spawns":[{"ended_at":null}]}"#, false),
            (r#"{"status":"awaiting_qa"}"#, false),
            (r"{}", false),
        ];
        for (json, expected) in cases {
            assert_eq!(completed(&serde_json::from_str(json).unwrap()).is_ok(), expected, "{json}");
        }
    }

    #[test]
    fn the_sample_repository_is_the_checkout_and_not_a_worktree() {
        let folder = tempfile::tempdir().unwrap();
        let (repository, tree) = (folder.path().join("demo/greeter"), folder.path().join("trees/greeter/x"));
        std::fs::create_dir_all(repository.join(".git")).unwrap();
        std::fs::create_dir_all(&tree).unwrap();
        for place in [&repository, &tree] {
            std::fs::write(place.join("package.json"), "{}").unwrap();
        }
        std::fs::write(tree.join(".git"), "gitdir: elsewhere").unwrap();
        assert_eq!(sample_repository(folder.path()).unwrap(), repository);
    }
}
