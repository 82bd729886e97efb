//! Git processes of a server that died: they are given time to end, because one of them may be writing to a user's own repository.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long they may take; local commands take moments.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

/// Waits until no git with this home runs any more, and ends those that do not come to an end. Afterwards every lock file is stale.
pub(crate) fn await_end(home: &Path) {
    let begun = Instant::now();
    loop {
        let left = running(home);
        if left.is_empty() {
            return;
        }
        if begun.elapsed() >= PATIENCE {
            for pid in left {
                tracing::warn!(pid = pid.as_raw_nonzero(), "ending a git that an earlier server left");
                if let Err(error) = kill_process(pid, Signal::KILL) {
                    tracing::debug!(%error, "it has ended by itself");
                }
            }
            return;
        }
        std::thread::sleep(LOOK);
    }
}

/// Processes started with this home. It is a directory of ours, so nothing else has it.
fn running(home: &Path) -> Vec<Pid> {
    let marker = format!("HOME={}", home.display());
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == marker.as_bytes())
    })
    .filter_map(Pid::from_raw)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_waited_for_where_nobody_runs() {
        let begun = Instant::now();
        await_end(Path::new("/nowhere/at/all"));
        assert!(begun.elapsed() < PATIENCE);
    }

    #[test]
    fn a_process_is_known_by_its_home() {
        let home = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut child = runtime.block_on(async {
            let process = roboco_process::Process::new("/bin/sleep", home.path(), roboco_process::Lifetime::Owner);
            process.arg("60").env("HOME", home.path()).spawn().unwrap()
        });
        assert_eq!(running(home.path()).len(), 1);
        child.kill_group();
        runtime.block_on(async { child.wait().await }).unwrap();
        assert_eq!(running(home.path()), Vec::new());
    }
}
