//! Control groups: limits for a whole sandbox, where this process may make groups. That is usually only root, and root is who needs
//! them most, since the kernel does not count root's processes otherwise.
//!
//! Both versions of the kernel's interface are used; `/sys/fs/cgroup` itself is the parent, so nothing of the service manager is touched.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::{Limits, Memory};

const ROOT: &str = "/sys/fs/cgroup";
/// Start of the name of every group of ours.
const PREFIX: &str = "roboco-sandbox-";

/// Groups that could not be removed yet because a dying process was in them.
static LEFT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// Makes every group's name new: a group that waits for its removal must not be used again.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// The groups of one sandbox. Removed when dropped, by which time the sandbox is over.
#[derive(Debug, Default)]
pub(super) struct ControlGroups {
    directories: Vec<PathBuf>,
}

impl ControlGroups {
    /// Groups with these limits, or none where that is not possible: then the limits hold for each process.
    pub(super) fn create(name: &str, limits: Limits) -> Self {
        LEFT.lock().unwrap_or_else(PoisonError::into_inner).retain(|directory| fs::remove_dir(directory).is_err() && directory.exists());
        let mut groups = Self::default();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        for hierarchy in hierarchies() {
            let settings = hierarchy.settings(limits);
            if settings.is_empty() {
                continue;
            }
            let directory = hierarchy.parent().join(format!("{PREFIX}{}-{count}-{name}", std::process::id()));
            match make(&directory, &settings) {
                Ok(()) => groups.directories.push(directory),
                Err(error) => tracing::debug!(%error, "no control group at {}", directory.display()),
            }
        }
        groups
    }

    /// Whether the kernel killed something in these groups because they were out of memory.
    pub(super) fn memory(&self) -> Memory {
        let count = |file: &PathBuf| -> Option<u64> {
            let text = fs::read_to_string(file).ok()?;
            text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
        };
        let files = self.directories.iter().flat_map(|directory| ["memory.events", "memory.oom_control"].map(|file| directory.join(file)));
        match files.filter_map(|file| count(&file)).max() {
            None => Memory::Unknown,
            Some(0) => Memory::Enough,
            Some(_) => Memory::Exhausted,
        }
    }

    /// The options that make the bridge join these groups.
    pub(super) fn options(&self) -> impl Iterator<Item = OsString> {
        self.directories.iter().flat_map(|directory| [OsString::from("--cgroup"), directory.into()])
    }
}

impl Drop for ControlGroups {
    fn drop(&mut self) {
        for directory in &self.directories {
            if fs::remove_dir(directory).is_err() {
                LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(directory.clone());
            }
        }
    }
}

/// Removes groups that a killed server left behind. A group with processes in it cannot be removed, so the living are safe.
pub(super) fn sweep() {
    for hierarchy in hierarchies() {
        let Ok(entries) = fs::read_dir(hierarchy.parent()) else { continue };
        for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let owner = name[PREFIX.len()..].split('-').next().and_then(|pid| pid.parse::<u32>().ok());
            // Between making a group and filling it, it is empty: only groups of servers that are gone are removed.
            let orphan = owner.is_none_or(|pid| !Path::new(&format!("/proc/{pid}")).exists());
            if orphan && let Err(error) = fs::remove_dir(entry.path()) {
                tracing::debug!(%error, "the control group {name} is still in use");
            }
        }
    }
}

/// For what a limit on memory holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryScope {
    /// For a sandbox with everything in it.
    Sandbox,
    /// For each process: nobody counts them together.
    Process,
}

/// For what a limit on memory holds here. Makes a group to see.
pub(super) fn memory_scope() -> MemoryScope {
    let probe = ControlGroups::create("probe", Limits { pids: None, ..Limits::JOB });
    if probe.directories.is_empty() { MemoryScope::Process } else { MemoryScope::Sandbox }
}

/// How limits are enforced here, as a sentence.
pub(super) fn describe() -> String {
    let probe = ControlGroups::create("probe", Limits::JOB);
    match probe.directories.len() {
        0 if rustix::process::geteuid().is_root() => {
            "memory is limited for each process; the number of processes is not limited, because the kernel does not count root's and no control group can be made"
                .into()
        }
        0 => "memory is limited for each process, the number of processes for each sandbox".into(),
        _ => "memory and the number of processes are limited for each sandbox by control groups".into(),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hierarchy {
    /// One tree for everything.
    Unified,
    /// The older interface has a tree per controller.
    Memory,
    Pids,
}

fn hierarchies() -> Vec<Hierarchy> {
    let enabled = fs::read_to_string(Path::new(ROOT).join("cgroup.subtree_control")).unwrap_or_default();
    let enabled: Vec<&str> = enabled.split_ascii_whitespace().collect();
    if enabled.contains(&"memory") && enabled.contains(&"pids") {
        return vec![Hierarchy::Unified];
    }
    [Hierarchy::Memory, Hierarchy::Pids].into_iter().filter(|hierarchy| hierarchy.parent().join("cgroup.procs").exists()).collect()
}

impl Hierarchy {
    fn parent(self) -> PathBuf {
        match self {
            Self::Unified => ROOT.into(),
            Self::Memory => Path::new(ROOT).join("memory"),
            Self::Pids => Path::new(ROOT).join("pids"),
        }
    }

    fn settings(self, limits: Limits) -> Vec<(&'static str, u64)> {
        let memory =
            limits.memory_bytes.map(|bytes| if self == Self::Unified { ("memory.max", bytes) } else { ("memory.limit_in_bytes", bytes) });
        let pids = limits.pids.map(|count| ("pids.max", count));
        match self {
            Self::Unified => memory.into_iter().chain(pids).collect(),
            Self::Memory => memory.into_iter().collect(),
            Self::Pids => pids.into_iter().collect(),
        }
    }
}

fn make(directory: &Path, settings: &[(&str, u64)]) -> io::Result<()> {
    fs::create_dir(directory)?;
    let set = || settings.iter().try_for_each(|(file, value)| fs::write(directory.join(file), value.to_string()));
    set().inspect_err(|_| fs::remove_dir(directory).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hierarchy_gets_its_own_settings() {
        let limits = Limits { memory_bytes: Some(5), pids: Some(7) };
        for (hierarchy, settings) in [
            (Hierarchy::Unified, vec![("memory.max", 5), ("pids.max", 7)]),
            (Hierarchy::Memory, vec![("memory.limit_in_bytes", 5)]),
            (Hierarchy::Pids, vec![("pids.max", 7)]),
        ] {
            assert_eq!(hierarchy.settings(limits), settings);
            assert!(hierarchy.settings(Limits::default()).is_empty());
        }
    }
}
