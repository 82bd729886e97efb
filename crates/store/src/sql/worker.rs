//! Tasks that live as long as the store: one that ends before is a bug that must be seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::error;

use crate::StoreFault;

/// A task in the background. Clones watch the same one.
#[derive(Debug, Clone)]
pub(super) struct Worker {
    name: &'static str,
    died: Arc<AtomicBool>,
}

impl Worker {
    /// Starts it. Its panic is logged and remembered; ending in order is no fault.
    pub(super) fn start(name: &'static str, work: impl Future<Output = ()> + Send + 'static) -> Self {
        let died = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&died);
        let running = tokio::spawn(work);
        tokio::spawn(async move {
            match running.await {
                // A runtime that shuts down cancels what is left.
                Err(ended) if ended.is_panic() => {
                    seen.store(true, Ordering::Release);
                    error!(error = %ended, "{name} died; this is a bug: stop this process and start it again");
                }
                Ok(()) | Err(_) => {}
            }
        });
        Self { name, died }
    }

    /// Fails when it has died.
    pub(super) fn check(&self) -> Result<(), StoreFault> {
        if !self.died.load(Ordering::Acquire) {
            return Ok(());
        }
        let message = format!("{} died, which is a bug: stop this process and start it again", self.name);
        Err(StoreFault { message, retryable: false, remedy: Some("stop this process and start it again") })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::Worker;

    #[tokio::test]
    async fn a_worker_that_panics_is_found_dead_and_one_that_ends_in_order_is_not() {
        let fine = Worker::start("the clerk", async {});
        let broken = Worker::start("the clerk", async { assert!(std::hint::black_box(false), "a bug") });
        let deadline = Instant::now() + Duration::from_secs(20);
        while broken.check().is_ok() {
            assert!(Instant::now() < deadline, "its death is not seen");
            sleep(Duration::from_millis(1)).await;
        }
        let fault = broken.check().unwrap_err();
        assert!(!fault.retryable && fault.message.contains("the clerk died"), "{fault}");
        assert!(fine.check().is_ok() && broken.clone().check().is_err());
    }
}
