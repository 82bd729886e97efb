//! Detached trees for reviewers and plain copies for gate runs.

use std::fs;
use std::path::{Path, PathBuf};

use roboco_domain::id::ProjectId;
use roboco_domain::limits::GIT_COMMIT;
use roboco_domain::vcs::Oid;

use crate::error::{GitError, OrIo, Refusal};
use crate::release::Unsaved;
use crate::repos::{Repos, TreeName};
use crate::tree::{Head, read_optional, remove_optional};

/// How directories begin that are still being filled.
pub(crate) const PART: &str = ".part-";

impl Repos {
    /// A detached tree at a commit, for the reviewer named by `key`. The same key and commit give the same tree again; another commit
    /// replaces it. Nothing that happens in it can reach a branch; a sandbox mounts it read-only or throws it away at the end.
    ///
    /// # Errors
    /// `Invalid` for an unusable key, `NoCommit` when the commit is not there.
    pub async fn review_tree(&self, project: ProjectId, key: &str, commit: &Oid) -> Result<PathBuf, GitError> {
        let store = self.store(project)?;
        let name = TreeName::review(key)?;
        let tree = self.tree(&store, &name);
        let at = read_optional(&tree.admin.join("HEAD"))?;
        if tree.path.exists() && at.is_some_and(|at| at.trim() != commit.as_str()) {
            self.release_tree(project, &name, Unsaved::Discard).await?;
        }
        let _lock = self.locks.lock(project, &name.slug()).await;
        match self.ensure_tree(&store, &tree, Head::Detached(commit), commit).await {
            Ok(()) => Ok(tree.path),
            Err(GitError::Command { said, .. }) if is_missing(&said) => Err(Refusal::NoCommit(commit.short().to_owned()).into()),
            Err(error) => Err(error),
        }
    }

    /// Writes the files of a commit to `dest`, a new directory below the exports directory, without `.git`. It appears only when it
    /// is complete.
    ///
    /// # Errors
    /// `Exists` when `dest` is there already, `Invalid` when it lies elsewhere, `NoCommit` when the commit is not there.
    pub async fn export(&self, project: ProjectId, commit: &Oid, dest: &Path) -> Result<(), GitError> {
        let store = self.store(project)?;
        self.check_export(dest)?;
        if dest.symlink_metadata().is_ok() {
            return Err(Refusal::Exists(dest.to_owned()).into());
        }
        let parent = dest.parent().unwrap_or(&self.exports);
        fs::create_dir_all(parent).or_io("creating", parent)?;
        let part = parent.join(format!("{PART}{}", self.unique()));
        let index = store.dir.join(format!("roboco-export-{}", self.unique()));
        fs::create_dir(&part).or_io("creating", &part)?;
        let call = self.git.call(format!("exporting {}", commit.short())).on_tree(&store.dir, &part).index(&index).deadline(GIT_COMMIT);
        let written = call.args(["read-tree", "--reset", "-u", commit.as_str()]).run().await;
        remove_optional(&index)?;
        match written {
            Ok(_) => fs::rename(&part, dest).or_io("renaming", &part),
            Err(error) => {
                fs::remove_dir_all(&part).or_io("removing", &part)?;
                match error {
                    GitError::Command { said, .. } if is_missing(&said) => Err(Refusal::NoCommit(commit.short().to_owned()).into()),
                    error => Err(error),
                }
            }
        }
    }

    /// A new place for an export of a project, not used before.
    pub fn export_path(&self, project: ProjectId, name: &str) -> PathBuf {
        let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' }).take(60).collect();
        self.exports.join(project.to_string()).join(format!("{plain}-{}", self.unique()))
    }

    /// Removes an export with everything a gate left in it. One that is not there is fine.
    ///
    /// # Errors
    /// `Invalid` when `dest` is no export, `Io` when something cannot be removed.
    pub async fn remove_export(&self, dest: &Path) -> Result<(), GitError> {
        self.check_export(dest)?;
        if dest.symlink_metadata().is_err() {
            return Ok(());
        }
        crate::release::remove_all(dest.to_owned()).await
    }

    fn check_export(&self, dest: &Path) -> Result<(), GitError> {
        let inside = dest.strip_prefix(&self.exports).is_ok_and(|rest| {
            rest.components().count() > 0 && rest.components().all(|part| matches!(part, std::path::Component::Normal(_)))
        });
        if inside {
            Ok(())
        } else {
            Err(Refusal::Invalid(format!("{} is not below {}: use an export path", dest.display(), self.exports.display())).into())
        }
    }
}

fn is_missing(said: &str) -> bool {
    said.contains("failed to unpack tree object") || said.contains("Not a valid object name") || said.contains("not a tree object")
}
