//! The one thread that starts sandboxes.
//!
//! The kernel ties "die with your parent" to the *thread* that started a process, and the threads of a runtime come and go. This one
//! lives until the process ends.

use std::sync::OnceLock;

use roboco_process::{Child, Output, OutputCap, Process, ProcessError};
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;

use crate::SandboxError;

/// Starts a process whose parent is the spawner's thread.
pub(super) async fn spawn(process: Process) -> Result<Child, SandboxError> {
    let handle = thread()?;
    Ok(joined(handle.spawn(async move { process.spawn() })).await??)
}

/// Runs a process to its end whose parent is the spawner's thread. A caller that stops waiting ends it.
pub(super) async fn output(process: Process, cap: OutputCap) -> Result<Output, ProcessError> {
    let handle = thread()?;
    joined(handle.spawn(process.output(cap))).await?
}

async fn joined<T>(task: JoinHandle<T>) -> Result<T, ProcessError> {
    struct AbortOnDrop<T>(JoinHandle<T>);
    impl<T> Drop for AbortOnDrop<T> {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    let mut task = AbortOnDrop(task);
    (&mut task.0).await.map_err(|error| io("wait for", std::io::Error::other(error)))
}

fn thread() -> Result<Handle, ProcessError> {
    // Process-wide because the kernel's promise is: the thread must outlive every driver's sandboxes.
    static THREAD: OnceLock<Handle> = OnceLock::new();
    if let Some(handle) = THREAD.get() {
        return Ok(handle.clone());
    }
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| io("start", error))?;
    let handle = runtime.handle().clone();
    if THREAD.set(handle.clone()).is_ok() {
        std::thread::Builder::new()
            .name("sandbox-spawner".into())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))
            .map_err(|error| io("start", error))?;
    }
    Ok(THREAD.get().cloned().unwrap_or(handle))
}

fn io(doing: &'static str, source: std::io::Error) -> ProcessError {
    ProcessError::Io { program: "the thread that starts sandboxes".into(), doing, source }
}
