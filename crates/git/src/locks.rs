//! The locks of this process. Nothing on disk is locked: only one process may have the repositories open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use roboco_domain::id::ProjectId;
use tokio::sync::{OwnedMutexGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// Names of locks that are kept; those nobody holds are forgotten beyond that.
const KEPT: usize = 1000;

/// One lock for each part of a project, and one around all of a project's.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    parts: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// Read by everybody who holds a part of the project, written by whoever wants to be alone with its store.
    projects: Mutex<HashMap<ProjectId, Arc<RwLock<()>>>>,
}

/// A part of a project that is locked as long as this lives.
pub(crate) struct Locked {
    _project: OwnedRwLockReadGuard<()>,
    _part: OwnedMutexGuard<()>,
}

impl Locks {
    /// Waits for a part of a project. Those on trees are held while git works in them, those on fetches while the network answers.
    pub(crate) async fn lock(&self, project: ProjectId, part: &str) -> Locked {
        // First this one, and no writer ever queues for it: so an operation may hold two parts and never waits for itself.
        let project_lock = self.project(project).read_owned().await;
        let lock = {
            let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
            if parts.len() > KEPT {
                parts.retain(|_, lock| Arc::strong_count(lock) > 1);
            }
            Arc::clone(parts.entry(format!("{project}/{part}")).or_default())
        };
        Locked { _project: project_lock, _part: lock.lock_owned().await }
    }

    /// Keeps everybody who takes a lock away from a project until it is dropped. `None` when somebody holds or awaits one.
    pub(crate) fn alone(&self, project: ProjectId) -> Option<OwnedRwLockWriteGuard<()>> {
        self.project(project).try_write_owned().ok()
    }

    fn project(&self, project: ProjectId) -> Arc<RwLock<()>> {
        Arc::clone(self.projects.lock().unwrap_or_else(PoisonError::into_inner).entry(project).or_default())
    }
}
