//! Repositories on disk: one bare store per project, working trees for agents and reviewers, and the way a task's branch goes from
//! its cut to the origin's target branch.
//!
//! [`Repos`] is the door. Under the data directory it owns
//! - `repos/<project>.git`: a bare store. Branches of agents are its `refs/heads/*`; what the origin has is `refs/remotes/origin/*`.
//!   A base that lives at the origin does not change before [`Repos::push_landing`]. One that lives in the store, the branch of
//!   assembled work, is a `refs/heads/*` too: parts are cut from it and land on it, and the origin sees none of that.
//! - `trees/<project>/…`: one writable tree per branch that has an author, detached trees for reviewers.
//! - `exports/`: copies of a commit without `.git`. `trash/`: trees that were taken away with something still in them.
//!
//! Invariants:
//! - The git binary is started only by [`Git`], with a fixed environment: no system or user configuration, no hooks, no filters, no
//!   pager, no prompt. A tree's own `.git` file is never read.
//! - Every branch is moved by compare-and-swap. Every step may be repeated after a crash and then gives the same result.
//! - Nothing that is not saved in a ref is deleted, except in trees that are made to be thrown away.
//!
//! This crate knows no tasks, no stages and no database: moments, messages and names come in as arguments. It looks at the clock only to
//! tell how old a file is and to find unused names.

mod add;
mod branch;
mod commit;
mod diff;
mod error;
mod export;
mod git;
mod glob;
mod guard;
mod housekeeping;
mod landing;
mod locks;
mod merge;
mod objects;
mod origin;
mod orphans;
mod path;
mod pushed;
mod refs;
mod release;
mod repos;
mod secrets;
mod status;
mod sync;
mod tree;

pub use add::{Added, Probe, Warning};
pub use branch::{Cut, TreeState};
pub use commit::{CommitOutcome, CommitRequest, Committed};
pub use diff::{CommitInfo, Diff, FileStat};
pub use error::{GitError, Refusal};
pub use git::Git;
pub use glob::{InvalidGlob, PathGlob};
pub use guard::CommitProblem;
pub use housekeeping::{Housekept, Packing};
pub use landing::{Landing, LandingRequest, Method};
pub use merge::{Freshness, Pinned};
pub use objects::{InvalidPerson, Person, Trailer};
pub use origin::{Access, Credential, Origin};
pub use path::{InvalidPath, RepoPath};
pub use pushed::{PushRefusal, Pushed};
pub use release::{Ended, Released, Unsaved};
pub use repos::{Repos, TreeName};
pub use secrets::SecretKind;
pub use sync::{SyncOutcome, SyncRequest};
