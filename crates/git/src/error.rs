//! What can go wrong with a repository: refusals a person can act on, and faults that are worth another try.

use std::io;
use std::path::{Path, PathBuf};

use roboco_domain::id::ProjectId;
use roboco_domain::vcs::BranchName;
use roboco_process::ProcessError;

/// Any failure of this crate.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// A person has to change something first; trying again alone does not help.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Git could not be run or did not end in time.
    #[error("{doing}: {source}")]
    Process {
        /// What was being done.
        doing: String,
        /// The cause.
        source: ProcessError,
    },
    /// Git ran and failed.
    #[error("{doing}: git says: {said}")]
    Command {
        /// What was being done.
        doing: String,
        /// The end of git's error output, cleaned for people.
        said: String,
    },
    /// A file of ours could not be read or written.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Something on disk is not as it must be.
    #[error("{doing}: {what}")]
    Broken {
        /// What was being done.
        doing: String,
        /// What is wrong.
        what: String,
    },
}

impl GitError {
    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Refused(_) => false,
            Self::Process { source, .. } => !matches!(source, ProcessError::NotFound { .. }),
            Self::Command { .. } | Self::Io { .. } | Self::Broken { .. } => true,
        }
    }

    pub(crate) fn broken(doing: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Broken { doing: doing.into(), what: what.into() }
    }
}

/// Why a request was refused. Every text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no git binary.
    #[error("git was not found in PATH: install git 2.38 or newer")]
    NoGit,
    /// The git binary is too old to merge without a working tree.
    #[error("git {found} is too old: install git 2.38 or newer")]
    OldGit {
        /// What the binary said.
        found: String,
    },
    /// The origin's name is of a kind that is not accepted.
    #[error("{origin:?} cannot be used as origin: {why}")]
    BadOrigin {
        /// What was given, cut and without credentials.
        origin: String,
        /// What is accepted instead.
        why: &'static str,
    },
    /// The folder is no git repository.
    #[error("{} is not a git repository: give the top folder of one, or run `git init` there and commit something", .0.display())]
    NotARepository(PathBuf),
    /// The repository has no commit yet.
    #[error("{0} has no commit yet: make a first one there (`git add -A && git commit -m \"First commit\"`), then add it again")]
    EmptyRepository(String),
    /// The origin's HEAD names no branch with commits.
    #[error("the HEAD of {0} is not on a branch with commits: check out the branch to work on there, then add it again")]
    DetachedOrigin(String),
    /// The origin cannot be reached or read with the given credential.
    #[error("cannot read {origin}: {said}. Check the address, the network and the credential, then try again")]
    Unreadable {
        /// The origin.
        origin: String,
        /// What git said.
        said: String,
    },
    /// The project is already there with another origin.
    #[error("this project already has the origin {0}: remove the project first, or add the other origin as a new project")]
    OtherOrigin(String),
    /// The project's store does not exist.
    #[error("project {0} has no repository here: add the project first")]
    UnknownProject(ProjectId),
    /// The branch does not exist where it was looked for.
    #[error("there is no branch {branch} {place}: create it there, or choose another branch")]
    NoBranch {
        /// The missing branch.
        branch: BranchName,
        /// Where it was looked for.
        place: &'static str,
    },
    /// The branch has no working tree.
    #[error("branch {0} has no working tree: claim the task again, which cuts one")]
    NoTree(BranchName),
    /// The tree holds changes that the operation would touch.
    #[error("the working tree of {branch} has uncommitted changes ({paths}): commit them first, then try again")]
    DirtyTree {
        /// The branch.
        branch: BranchName,
        /// Some of the changed paths.
        paths: String,
    },
    /// The commit is not in the store.
    #[error("commit {0} is not in this project's repository: look up the commit again")]
    NoCommit(String),
    /// A path that must not exist does.
    #[error("{} already exists: remove it first, or choose another name", .0.display())]
    Exists(PathBuf),
    /// A name or a path is not acceptable.
    #[error("{0}")]
    Invalid(String),
}

pub(crate) trait OrIo<T> {
    /// Names what was tried, and on what.
    fn or_io(self, doing: &'static str, path: &Path) -> Result<T, GitError>;
}

impl<T> OrIo<T> for io::Result<T> {
    fn or_io(self, doing: &'static str, path: &Path) -> Result<T, GitError> {
        self.map_err(|source| GitError::Io { doing, path: path.to_owned(), source })
    }
}
