//! Turns of writers of one task within this process. Versions alone would be right, but many writers of one task would only retry.

use std::sync::Arc;

use roboco_domain::id::TaskId;
use tokio::sync::Mutex;

/// Tasks share lanes by their id; more lanes mean fewer strangers in one.
const LANES: usize = 64;

/// A fair queue per task. Holding a turn is never needed to be right: the commit checks versions all the same.
#[derive(Debug)]
pub(crate) struct Lanes([Arc<Mutex<()>>; LANES]);

impl Default for Lanes {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Arc::default()))
    }
}

impl Lanes {
    /// The lane of a task.
    pub(crate) fn of(&self, task: TaskId) -> &Arc<Mutex<()>> {
        // The last bits of a time-ordered id are the random ones.
        let last = usize::from(task.uuid().as_bytes()[15]);
        &self.0[last % LANES]
    }
}
