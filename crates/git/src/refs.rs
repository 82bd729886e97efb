//! Reading and moving refs of a store.
//!
//! Reading needs no process: a store's refs are plain files that only git and this crate write. Moving always goes through git, with
//! the value the ref must still have.

use std::io::ErrorKind;
use std::path::Path;

use roboco_domain::vcs::Oid;

use crate::error::{GitError, OrIo};
use crate::git::Git;

/// The object a ref names, or `None` when there is no such ref. `name` is a full name such as `refs/heads/main`.
pub(crate) fn read(store: &Path, name: &str) -> Result<Option<Oid>, GitError> {
    let file = store.join(name);
    match std::fs::read_to_string(&file) {
        Ok(text) => match Oid::new(text.trim()) {
            Ok(oid) => return Ok(Some(oid)),
            Err(_) => return Err(GitError::broken(format!("reading {name}"), "the ref is damaged; restore the store from a backup")),
        },
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory | ErrorKind::NotADirectory) => {}
        Err(error) => return Err(error).or_io("reading", &file),
    }
    let packed = store.join("packed-refs");
    match std::fs::read_to_string(&packed) {
        Ok(text) => {
            Ok(text.lines().filter_map(|line| line.split_once(' ')).find(|(_, at)| *at == name).and_then(|(oid, _)| Oid::new(oid).ok()))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).or_io("reading", &packed),
    }
}

/// What a ref must hold for a move to happen.
pub(crate) enum Expected<'a> {
    /// Exactly this object.
    At(&'a Oid),
    /// Anything; the ref only records a fact.
    Any,
}

/// Moves a ref. A ref that no longer holds what was expected is an error.
pub(crate) async fn set(git: &Git, store: &Path, name: &str, to: &Oid, expected: Expected<'_>, why: &str) -> Result<(), GitError> {
    let call = git.call(format!("moving {name}")).on(store).args(["update-ref", "--no-deref", "-m", why, name, to.as_str()]);
    let call = match expected {
        Expected::At(old) => call.arg(old.as_str()),
        Expected::Any => call,
    };
    call.run().await.map(|_| ())
}
