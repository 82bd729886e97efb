//! What the company needs from outside, as traits. Adapters live in `runtime`; tests bring their own.

use async_trait::async_trait;
use roboco_domain::id::ProjectId;
use roboco_domain::known::Known;
use roboco_domain::project::Access;
use roboco_domain::snapshot::TreeFact;
use roboco_domain::time::Timestamp;
use roboco_domain::vcs::{BranchName, Oid};

/// The time.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
    }
}

/// What was found when a repository was added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probed {
    /// The origin as it is kept: an absolute path or the URL.
    pub origin: String,
    /// Read from the origin's HEAD.
    pub default_branch: BranchName,
    /// What was proven.
    pub access: Access,
    /// What was noticed.
    pub warnings: Vec<String>,
}

/// The difference between two commits, cut to a size.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiffText {
    /// Paths that changed, escaped for display.
    pub files: Vec<String>,
    /// One line per file.
    pub stat: String,
    /// The difference.
    pub text: String,
}

/// Repositories, for reading and for adding one.
#[async_trait]
pub trait Repos: Send + Sync + std::fmt::Debug {
    /// Looks at an origin and makes the store of a project from it. Nothing changes at the origin.
    ///
    /// # Errors
    /// One sentence a person can act on.
    async fn add(&self, project: ProjectId, origin: &str) -> Result<Probed, String>;
    /// Removes the store of a project that was never recorded.
    async fn forget(&self, project: ProjectId);
    /// The state of a branch's writable worktree.
    async fn tree(&self, project: ProjectId, branch: &BranchName) -> Known<TreeFact>;
    /// The difference between two commits.
    ///
    /// # Errors
    /// One sentence saying why it could not be read.
    async fn diff(&self, project: ProjectId, base: &Oid, head: &Oid, cap: usize) -> Result<DiffText, String>;
}
