//! Writing files of a play: only below the working directory, never through a link that leads out of it.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Why a file of a play is not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum EditError {
    #[error("{0} is not a path below {1}; plays name files by relative paths without `..`")]
    Outside(String, &'static str),
    #[error("cannot write {0}: {1}")]
    Write(String, io::Error),
    #[error("cannot read {0}: {1}")]
    Read(String, io::Error),
}

/// Writes `content` to `path` below `root`; directories on the way are made.
pub(super) fn write(root: &Path, path: &str, content: &[u8]) -> Result<(), EditError> {
    let outside = || EditError::Outside(path.to_owned(), "the working directory");
    let failed = |error| EditError::Write(path.to_owned(), error);
    let relative = below(path).ok_or_else(outside)?;
    let root = root.canonicalize().map_err(failed)?;
    let target = root.join(&relative);
    let parent = target.parent().ok_or_else(outside)?;
    // Before anything is made: the nearest directory that exists must be inside.
    let existing = parent.ancestors().find(|directory| directory.symlink_metadata().is_ok()).ok_or_else(outside)?;
    if !existing.canonicalize().map_err(failed)?.starts_with(&root) {
        return Err(outside());
    }
    if target.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
        return Err(outside());
    }
    fs::create_dir_all(parent).map_err(failed)?;
    fs::write(&target, content).map_err(failed)
}

/// Reads a file of the plays' directory.
pub(super) fn read(directory: &Path, path: &str) -> Result<Vec<u8>, EditError> {
    let relative = below(path).ok_or_else(|| EditError::Outside(path.to_owned(), "the directory of the play's files"))?;
    let full = directory.join(relative);
    fs::read(&full).map_err(|error| EditError::Read(full.display().to_string(), error))
}

/// The path, if all it does is go down.
fn below(path: &str) -> Option<PathBuf> {
    let path = Path::new(path);
    let goes_down = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    (goes_down && path.file_name().is_some()).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_land_below_the_root_and_nowhere_else() {
        let base = tempfile::tempdir().unwrap();
        let root = base.path().join("root");
        let other = base.path().join("other");
        fs::create_dir_all(&root).unwrap();
        fs::create_dir_all(&other).unwrap();
        fs::write(other.join("kept"), "old").unwrap();
        std::os::unix::fs::symlink(&other, root.join("way_out")).unwrap();
        std::os::unix::fs::symlink(other.join("kept"), root.join("link")).unwrap();

        write(&root, "a/b/c.txt", b"1").unwrap();
        write(&root, "./a/b/c.txt", b"2").unwrap();
        assert_eq!(fs::read(root.join("a/b/c.txt")).unwrap(), b"2");

        let absolute = other.join("new").display().to_string();
        for path in ["../other/new", "a/../../other/new", &absolute, "way_out/new", "way_out/deep/new", "link", "", "."] {
            let error = write(&root, path, b"x").unwrap_err().to_string();
            assert!(error.contains("is not a path below"), "{path}: {error}");
        }
        assert_eq!(fs::read_dir(&other).unwrap().count(), 1);
        assert_eq!(fs::read(other.join("kept")).unwrap(), b"old");
    }

    #[test]
    fn sources_come_from_the_directory_of_the_play() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("files")).unwrap();
        fs::write(base.path().join("secret"), "s").unwrap();
        fs::write(base.path().join("files/x"), "content").unwrap();
        assert_eq!(read(&base.path().join("files"), "x").unwrap(), b"content");
        assert!(matches!(read(&base.path().join("files"), "../secret"), Err(EditError::Outside(..))));
        assert!(matches!(read(&base.path().join("files"), "absent"), Err(EditError::Read(..))));
    }
}
