//! The one place that starts the git binary, with an environment that nothing in a repository or on the machine can change.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use roboco_domain::limits::{GIT_COMMIT, GIT_LOCAL};
use roboco_process::{Captured, Input, OutputCap, Process, find_program};

use crate::error::{GitError, OrIo, Refusal};
use crate::path::for_people;

/// The oldest git that can merge without a working tree.
const OLDEST: (u32, u32) = (2, 38);
/// Standard output that is kept of a command whose whole answer is needed, in bytes.
const ANSWER_BYTES: usize = 16 * 1024 * 1024;
/// Part of git's error output that is shown, in bytes.
const SAID_BYTES: usize = 2000;
/// A lock file this old belongs to a git that died: local commands hold one for moments, and trees are locked in this process.
pub(crate) const STALE_LOCK: Duration = Duration::from_secs(30);
/// Whose name every object of ours carries as committer.
pub(crate) const COMMITTER: (&str, &str) = ("RoboCo", "roboco@agents.invalid");

/// Configuration of every command, stronger than any file. Hooks, monitors, helpers and background work are off.
const CONFIG: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.untrackedCache", "false"),
    ("core.autocrlf", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    ("core.protectNTFS", "true"),
    ("core.protectHFS", "true"),
    ("core.askPass", ""),
    ("core.logAllRefUpdates", "always"),
    ("credential.helper", ""),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    ("diff.ignoreSubmodules", "all"),
    ("commit.gpgSign", "false"),
    ("push.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("protocol.ext.allow", "never"),
    ("http.followRedirects", "false"),
    ("transfer.credentialsInUrl", "die"),
    ("advice.addEmbeddedRepo", "false"),
    ("safe.directory", "*"),
];

/// The git binary, checked once, and the count of processes started.
#[derive(Debug)]
pub struct Git {
    program: PathBuf,
    version: (u32, u32),
    home: PathBuf,
    path: OsString,
    started: AtomicU64,
}

impl Git {
    /// Finds git in `path` (the value of a `PATH` variable, which git's own helpers are found with too) and checks its version.
    /// `home` becomes git's home directory: it is created and must stay empty.
    ///
    /// # Errors
    /// `NoGit` or `OldGit` when there is no usable binary.
    pub async fn discover(path: &OsStr, home: &Path) -> Result<Self, GitError> {
        let program = find_program(OsStr::new("git"), path).ok_or(Refusal::NoGit)?;
        std::fs::create_dir_all(home).or_io("creating", home)?;
        let home = home.canonicalize().or_io("resolving", home)?;
        let mut git = Self { program, version: (0, 0), home, path: path.to_owned(), started: AtomicU64::new(0) };
        let said = git.call("asking git for its version").arg("version").run().await?;
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        git.version = parse_version(&said)
            .filter(|version| *version >= OLDEST)
            .ok_or_else(|| Refusal::OldGit { found: said.trim_start_matches("git version ").to_owned() })?;
        Ok(git)
    }

    /// Major and minor version of the binary.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// How many git processes were started since this value was made.
    pub fn processes(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// Git's home directory, which no other program has.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// The binary's path, for the command lines that one git hands to another.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// A command to be filled in. `doing` completes "… failed" for people: "cutting branch x".
    pub(crate) fn call(&self, doing: impl Into<String>) -> Call<'_> {
        Call {
            git: self,
            doing: doing.into(),
            args: Vec::new(),
            env: Vec::new(),
            config: Vec::new(),
            cwd: self.home.clone(),
            input: Input::Null,
            keep: ANSWER_BYTES,
            deadline: GIT_LOCAL,
            caller: Caller::MayLeave,
        }
    }
}

fn parse_version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.strip_prefix("git version ")?.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// How a command ended.
pub(crate) struct Answer {
    /// Exit code; `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Captured,
    /// The end of standard error, cleaned for people.
    pub(crate) said: String,
}

/// One git command.
#[derive(Clone)]
pub(crate) struct Call<'g> {
    git: &'g Git,
    doing: String,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    config: Vec<(String, OsString)>,
    cwd: PathBuf,
    input: Input,
    keep: usize,
    deadline: Duration,
    caller: Caller,
}

/// What happens to a command when nobody waits for it any more.
#[derive(Clone, Copy)]
enum Caller {
    /// It is stopped.
    MayLeave,
    /// It runs to its end or its deadline.
    IsIgnored,
}

impl Call<'_> {
    pub(crate) fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub(crate) fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub(crate) fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// One more configuration value, handed over by environment: it may be secret.
    pub(crate) fn config(mut self, name: impl Into<String>, value: impl Into<OsString>) -> Self {
        self.config.push((name.into(), value.into()));
        self
    }

    /// Works on a store, without any tree.
    pub(crate) fn on(self, git_dir: &Path) -> Self {
        self.env("GIT_DIR", git_dir)
    }

    /// Works on a tree whose administration lies at `git_dir`; the tree's own `.git` is not looked at.
    pub(crate) fn on_tree(mut self, git_dir: &Path, tree: &Path) -> Self {
        self.cwd = tree.to_owned();
        self.deadline = GIT_COMMIT;
        self.env("GIT_DIR", git_dir).env("GIT_WORK_TREE", tree)
    }

    /// Works in a folder of the user, whose repository git finds by itself.
    pub(crate) fn within(mut self, folder: &Path) -> Self {
        self.cwd = folder.to_owned();
        self
    }

    pub(crate) fn index(self, file: &Path) -> Self {
        self.env("GIT_INDEX_FILE", file)
    }

    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Input::Bytes(bytes.into());
        self
    }

    /// Keeps at most this many bytes of standard output.
    pub(crate) fn keep(mut self, bytes: usize) -> Self {
        self.keep = bytes;
        self
    }

    pub(crate) fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Lets it finish even if the caller is cancelled: stopped half-way it would leave somebody's files half changed.
    pub(crate) fn uninterrupted(mut self) -> Self {
        self.caller = Caller::IsIgnored;
        self
    }

    /// Runs it. Any exit status is an answer.
    pub(crate) async fn answer(self) -> Result<Answer, GitError> {
        let answer = self.clone().once().await?;
        if answer.code == Some(0) || !clear_stale_lock(&answer.said) {
            return Ok(answer);
        }
        self.once().await
    }

    /// Runs it; an exit status other than 0 is an error, and so is an answer that was too long to be kept.
    pub(crate) async fn run(self) -> Result<Vec<u8>, GitError> {
        let doing = self.doing.clone();
        let answer = self.answer().await?;
        if answer.code != Some(0) {
            return Err(GitError::Command { doing, said: answer.said });
        }
        if answer.stdout.is_truncated() {
            return Err(GitError::broken(doing, "git's answer is too long; split the work into smaller parts"));
        }
        Ok(answer.stdout.into_bytes())
    }

    /// Runs it and reads its answer as one line of text.
    pub(crate) async fn line(self) -> Result<String, GitError> {
        Ok(String::from_utf8_lossy(&self.run().await?).trim().to_owned())
    }

    async fn once(self) -> Result<Answer, GitError> {
        let Self { git, doing, args, env, config, cwd, input, keep, deadline, caller } = self;
        git.started.fetch_add(1, Ordering::Relaxed);
        tracing::trace!(git.args = ?args, "{doing}");
        let mut process = Process::new(&git.program, cwd, deadline)
            .args(args)
            .input(input)
            .env("PATH", &git.path)
            .env("HOME", &git.home)
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_LITERAL_PATHSPECS", "1")
            .env("GIT_PAGER", "cat")
            .env("GIT_EDITOR", ":")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_DEFAULT_REF_FORMAT", "files")
            .env("GIT_ALLOW_PROTOCOL", "none")
            .env("GIT_SSH_COMMAND", "ssh -oBatchMode=yes")
            .env("GIT_COMMITTER_NAME", COMMITTER.0)
            .env("GIT_COMMITTER_EMAIL", COMMITTER.1);
        if let Some(above) = git.home.parent() {
            // The data directory may lie inside somebody's repository; git must not find that one.
            process = process.env("GIT_CEILING_DIRECTORIES", above);
        }
        let fixed = CONFIG.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value)));
        let mut count = 0;
        for (name, value) in fixed.chain(config) {
            process = process.env(format!("GIT_CONFIG_KEY_{count}"), name).env(format!("GIT_CONFIG_VALUE_{count}"), value);
            count += 1;
        }
        let process = process.env("GIT_CONFIG_COUNT", count.to_string()).envs(env);
        let cap = OutputCap { head: keep, tail: SAID_BYTES };
        let ended = match caller {
            Caller::MayLeave => process.output(cap).await,
            Caller::IsIgnored => match tokio::spawn(process.output(cap)).await {
                Ok(ended) => ended,
                Err(error) => return Err(GitError::broken(doing, error.to_string())),
            },
        };
        match ended {
            Ok(output) => Ok(Answer { code: output.status.code(), stdout: output.stdout, said: last_words(output.stderr) }),
            Err(source) => Err(GitError::Process { doing, source }),
        }
    }
}

/// The end of git's complaint, for people.
fn last_words(stderr: Captured) -> String {
    let bytes = stderr.into_bytes();
    let start = bytes.len().saturating_sub(SAID_BYTES);
    let text = for_people(bytes.get(start..).unwrap_or_default());
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("hint:")).collect::<Vec<_>>().join("; ")
}

/// Removes the lock file that git complains about when its owner is long dead. Says whether the command is worth another try.
fn clear_stale_lock(said: &str) -> bool {
    let Some((_, rest)) = said.split_once("Unable to create '") else { return false };
    let Some((file, _)) = rest.split_once(".lock': File exists") else { return false };
    remove_if_stale(Path::new(&format!("{file}.lock")))
}

/// Removes a lock file that is older than any living owner would keep it.
pub(crate) fn remove_if_stale(lock: &Path) -> bool {
    let age =
        std::fs::symlink_metadata(lock).and_then(|meta| meta.modified()).ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    age.is_some_and(|age| age >= STALE_LOCK) && remove_lock(lock)
}

/// Removes a lock file that has no living owner.
pub(crate) fn remove_lock(lock: &Path) -> bool {
    match std::fs::remove_file(lock) {
        Ok(()) => {
            tracing::warn!(lock = %lock.display(), "removed a lock file that a dead git left behind");
            true
        }
        Err(error) => {
            tracing::warn!(%error, lock = %lock.display(), "cannot remove a stale lock file");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_with_their_vendor_suffixes() {
        for (said, version) in [
            ("git version 2.47.3", Some((2, 47))),
            ("git version 2.39.5 (Apple Git-154)", Some((2, 39))),
            ("git version 2.38.0.windows.1", Some((2, 38))),
            ("git version 3.0-rc1", Some((3, 0))),
            ("hub version 2.14", None),
        ] {
            assert_eq!(parse_version(said), version, "{said}");
        }
        assert!((2, 37) < OLDEST && (2, 38) >= OLDEST && (3, 0) >= OLDEST);
    }
}
