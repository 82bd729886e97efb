//! Finding and ending sandboxes by the markers in the environment of their processes.
//!
//! Only processes in our own pid namespace count: what runs inside a confined sandbox could wear any marker it likes, and dies with
//! the outermost process anyway.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid};
use tokio::time::Instant;

use super::{MARK_LABELS, MARK_NAME};
use crate::{Labels, Observed, Removed, SandboxError};

/// How long a killed sandbox may take to vanish.
const VANISH: Duration = Duration::from_secs(5);
/// How long a name may stay taken by a sandbox that is ending.
const FREED: Duration = Duration::from_secs(2);
/// Pause between looks at it.
const LOOK: Duration = Duration::from_millis(10);

/// Looks taken while killing without waiting.
const KILL_ROUNDS: u32 = 4;

#[derive(Debug, Clone)]
struct Marked {
    pid: u32,
    parent: u32,
    name: String,
    labels: Option<Labels>,
    place: PlaceOf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlaceOf {
    /// In our pid namespace.
    Outside,
    /// In a sandbox's own.
    Inside,
}

/// The sandboxes that wear all of these labels.
pub(super) async fn list(own: &Labels) -> io::Result<Vec<Observed>> {
    let marked = marked().await?;
    let mut found: BTreeMap<String, Observed> = BTreeMap::new();
    for process in marked.iter().filter(|process| process.place == PlaceOf::Outside && wears(process, own)) {
        let inner = marked.iter().any(|other| other.pid == process.parent && other.name == process.name);
        if !inner {
            let labels = process.labels.clone().unwrap_or_default();
            found.entry(process.name.clone()).or_insert(Observed { name: process.name.clone(), labels, pid: process.pid });
        }
    }
    Ok(found.into_values().collect())
}

/// Waits a moment for what has this name to vanish: the last sandbox of a seat may be dying yet.
pub(super) async fn free(name: &str) -> Result<(), SandboxError> {
    let deadline = Instant::now() + FREED;
    loop {
        let all = marked().await.map_err(SandboxError::Observe)?;
        let Some(holder) = all.iter().find(|process| process.name == name && process.place == PlaceOf::Outside) else { return Ok(()) };
        if Instant::now() >= deadline {
            return Err(SandboxError::Taken { name: name.to_owned(), pid: holder.pid });
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Kills everything of the sandbox and waits until it is gone.
pub(super) async fn remove(name: &str, labels: &Labels) -> io::Result<Removed> {
    let deadline = Instant::now() + VANISH;
    loop {
        let all: Vec<Marked> = marked().await?.into_iter().filter(|process| process.name == name).collect();
        let outside: Vec<&Marked> = all.iter().filter(|process| process.place == PlaceOf::Outside).collect();
        if outside.iter().any(|process| !wears(process, labels)) {
            return Ok(Removed::NotOurs);
        }
        if all.iter().all(|process| process.place == PlaceOf::Inside && !wears(process, labels)) {
            return Ok(Removed::Gone);
        }
        if Instant::now() >= deadline {
            return Ok(Removed::StillAlive);
        }
        for process in outside {
            kill_tree(process);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Kills at once everything that wears this name and these labels, and everything below it. For places where nothing can be waited
/// for; what is born in between is caught by the next round.
pub(super) fn kill_now(name: &str, labels: &Labels) {
    for _ in 0..KILL_ROUNDS {
        let all = pids().unwrap_or_default().into_iter().filter_map(marked_process);
        let ours: Vec<Marked> =
            all.filter(|process| process.name == name && process.place == PlaceOf::Outside && wears(process, labels)).collect();
        if ours.is_empty() {
            return;
        }
        ours.iter().for_each(kill_tree);
    }
}

/// Kills a marked process and everything below it. A number that meanwhile belongs to somebody else is not hit: the handle is taken
/// first and the marker looked at again.
fn kill_tree(process: &Marked) {
    let below = descendants(process.pid);
    let Some(handle) = handle(process.pid) else { return };
    let still = marked_process(process.pid).is_some_and(|now| now.name == process.name && now.labels == process.labels);
    if !still {
        return;
    }
    // Somebody who is gone meanwhile is what is wanted; somebody who cannot be killed is seen at the next look.
    pidfd_send_signal(&handle, Signal::KILL).unwrap_or_default();
    for (pid, handle) in below {
        // An unmarked child of a marked process: taken by handle while its parent still lived.
        tracing::trace!(pid, "killing a process of sandbox {}", process.name);
        pidfd_send_signal(&handle, Signal::KILL).unwrap_or_default();
    }
}

fn descendants(root: u32) -> Vec<(u32, OwnedFd)> {
    let mut found = Vec::new();
    let mut parents = vec![root];
    let all: Vec<(u32, u32)> = pids().unwrap_or_default().into_iter().filter_map(|pid| Some((pid, status(pid)?.0))).collect();
    while let Some(parent) = parents.pop() {
        for (pid, _) in all.iter().filter(|(_, its)| *its == parent) {
            parents.push(*pid);
            if let Some(handle) = handle(*pid) {
                found.push((*pid, handle));
            }
        }
    }
    found
}

fn wears(process: &Marked, labels: &Labels) -> bool {
    process.labels.as_ref().is_some_and(|worn| labels.iter().all(|(key, value)| worn.get(key) == Some(value)))
}

/// Every marked process. Reading about a process can wait for that process, so it is done aside.
async fn marked() -> io::Result<Vec<Marked>> {
    tokio::task::spawn_blocking(|| Ok(pids()?.into_iter().filter_map(marked_process).collect())).await.map_err(io::Error::other)?
}

fn pids() -> io::Result<Vec<u32>> {
    let entries = fs::read_dir("/proc")?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// A process with our marker. Processes of other users cannot be looked at and are not ours.
fn marked_process(pid: u32) -> Option<Marked> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let find = |name: &str| {
        environment.split(|byte| *byte == 0).find_map(|pair| {
            let value = pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(String::from_utf8_lossy(value).into_owned())
        })
    };
    let name = find(MARK_NAME)?;
    let labels = find(MARK_LABELS).and_then(|labels| serde_json::from_str(&labels).ok());
    let (parent, place) = status(pid)?;
    Some(Marked { pid, parent, name, labels, place })
}

/// The parent of a process, and whether it is in our pid namespace.
fn status(pid: u32) -> Option<(u32, PlaceOf)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let parent = field("PPid:")?.trim().parse().ok()?;
    // One number per namespace, from ours inwards.
    let place = match field("NSpid:")?.split_ascii_whitespace().count() {
        1 => PlaceOf::Outside,
        _ => PlaceOf::Inside,
    };
    Some((parent, place))
}

/// A handle on a process that stays its own when the number belongs to somebody else.
pub(super) fn handle(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()
}

/// Whether a child of this process has ended. Nobody's wait for it is disturbed.
pub(super) fn has_ended(child: &OwnedFd) -> bool {
    let look = waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT);
    match look {
        Ok(status) => status.is_some(),
        // It was waited for.
        Err(error) => error == rustix::io::Errno::CHILD,
    }
}
