//! Files in agents' homes that nobody uses any more: conversations of old tasks, caches of tools. Clients do not clean up after themselves.
//!
//! The homes belong to agents, who may have put a link anywhere, also while this runs: folders are opened one inside the other and links
//! are never followed.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat, unlinkat};
use rustix::io::Errno;

/// Folders inside each other that are looked into; every open one costs a descriptor.
const DEPTH: usize = 64;

/// Removes files that were neither read nor written since `before`, and folders that are empty then. Homes whose name is not `unused`
/// are left alone, and so is every home itself. Returns how many things were removed.
///
/// # Errors
/// The folder of all homes cannot be read. What else cannot be removed stays.
pub(super) fn forget(homes: &Path, before: SystemTime, unused: impl Fn(&str) -> bool) -> io::Result<usize> {
    let root = match open(CWD, homes) {
        Err(Errno::NOENT) => return Ok(0),
        opened => opened?,
    };
    let before = before.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let mut removed = 0;
    for home in names(root.as_fd())? {
        if home.to_str().is_ok_and(&unused)
            && let Ok(home) = open(root.as_fd(), &home)
        {
            removed += clear(home, before, DEPTH);
        }
    }
    Ok(removed)
}

/// Clears a folder; one that cannot be read stays.
fn clear(folder: OwnedFd, before: u64, depth: usize) -> usize {
    let mut removed = 0;
    for name in names(folder.as_fd()).unwrap_or_default() {
        let Ok(found) = statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let is_old = |second: i64| u64::try_from(second).unwrap_or(0) < before;
        let gone = if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            if depth > 0
                && let Ok(inner) = open(folder.as_fd(), &name)
            {
                removed += clear(inner, before, depth - 1);
            }
            // When it was read says nothing: this reads it. One with something in it is not removed.
            is_old(found.st_mtime) && unlinkat(&folder, &name, AtFlags::REMOVEDIR).is_ok()
        } else {
            is_old(found.st_mtime) && is_old(found.st_atime) && unlinkat(&folder, &name, AtFlags::empty()).is_ok()
        };
        removed += usize::from(gone);
    }
    removed
}

fn open(at: BorrowedFd<'_>, name: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    openat(at, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// What is in a folder, as it is now: it changes while it is cleared.
fn names(folder: BorrowedFd<'_>) -> rustix::io::Result<Vec<CString>> {
    let entries = Dir::read_from(folder)?;
    let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_owned()));
    names.filter(|name| !matches!(name.as_deref().map(CStr::to_bytes), Ok(b"." | b".."))).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, FileTimes};
    use std::os::unix::fs::symlink;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn age(path: &Path, read: Duration, written: Duration) {
        let now = SystemTime::now();
        File::open(path).unwrap().set_times(FileTimes::new().set_accessed(now - read).set_modified(now - written)).unwrap();
    }

    fn old_file(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "old").unwrap();
        age(path, 40 * DAY, 40 * DAY);
    }

    #[test]
    fn only_what_nobody_used_for_long_in_homes_without_a_run_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let homes = dir.path().join("homes");
        let (idle, busy, outside) = (homes.join("be-dev-1"), homes.join("be-dev-2"), dir.path().join("outside"));
        for old in ["old", ".cache/tool/a", ".cache/tool/b/c"] {
            old_file(&idle.join(old));
            old_file(&busy.join(old));
        }
        for (name, read, written) in [("read", DAY, 40 * DAY), ("written", 40 * DAY, DAY)] {
            old_file(&idle.join(name));
            age(&idle.join(name), read, written);
        }
        old_file(&outside.join("theirs"));
        symlink(&outside, idle.join("link")).unwrap();
        symlink(&outside, homes.join("be-dev-3")).unwrap();
        fs::create_dir(idle.join("fresh")).unwrap();
        for folder in [".cache/tool/b", ".cache/tool", ".cache"] {
            age(&idle.join(folder), Duration::ZERO, 40 * DAY);
        }

        let removed = forget(&homes, SystemTime::now() - 30 * DAY, |home| home != "be-dev-2").unwrap();

        let mut left: Vec<_> = fs::read_dir(&idle).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, ["fresh", "link", "read", "written"]);
        assert_eq!(removed, 6, "three files and three folders");
        assert!(busy.join("old").exists() && busy.join(".cache/tool/b/c").exists(), "its run may need it");
        assert!(outside.join("theirs").exists(), "no link is followed");
        assert_eq!(forget(&dir.path().join("none"), SystemTime::now(), |_| true).unwrap(), 0);
    }
}
