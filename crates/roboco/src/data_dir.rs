//! The data directory: everything a company keeps on disk. Whoever can read it is the CEO, so only its owner can.
//!
//! It holds `roboco.db`, `secrets.toml`, `ceo.token`, `lock`, `server.json` (where the running server listens), and the folders of
//! repositories, trees and agents' homes. Sockets live elsewhere, because their paths must be short.

mod lock;
mod secrets;
mod server_file;
mod sockets;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::failure::{Exit, Failure};

pub(crate) use lock::Lock;

/// Files by which a directory is known to be ours. `demo` and `roboco.toml` may be put there before the first start.
const OURS: &[&str] = &["lock", "roboco.db", "secrets.toml", "ceo.token", "roboco.toml", "demo"];

/// The data directory of one company.
#[derive(Debug, Clone)]
pub(crate) struct DataDir {
    root: PathBuf,
}

impl DataDir {
    /// The directory at this path, for reading; it need not exist.
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Makes the directory, or takes one that is empty or ours, and closes it to everybody else.
    ///
    /// # Errors
    /// It belongs to somebody else, holds something else, or cannot be made.
    pub(crate) fn prepare(root: &Path) -> Result<Self, Failure> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(root).map_err(|error| Failure::file("creating", root, &error))?;
        let root = root.canonicalize().map_err(|error| Failure::file("resolving", root, &error))?;
        let meta = fs::metadata(&root).map_err(|error| Failure::file("reading", &root, &error))?;
        if meta.uid() != rustix::process::geteuid().as_raw() {
            let text = format!("{} belongs to another user: choose another data directory with --data-dir", root.display());
            return Err(Failure::new(Exit::Configuration, text));
        }
        let dir = Self { root };
        if meta.permissions().mode() & 0o077 != 0 {
            dir.must_be_ours()?;
            let closed = fs::set_permissions(&dir.root, fs::Permissions::from_mode(0o700));
            closed.map_err(|error| Failure::file("closing to other users:", &dir.root, &error))?;
        }
        Ok(dir)
    }

    /// A directory that others can see into is only closed when nothing of theirs can be in it.
    fn must_be_ours(&self) -> Result<(), Failure> {
        let mut entries = fs::read_dir(&self.root).map_err(|error| Failure::file("reading", &self.root, &error))?.flatten().peekable();
        let empty = entries.peek().is_none();
        if empty || entries.any(|entry| entry.file_name().to_str().is_some_and(|name| OURS.contains(&name))) {
            return Ok(());
        }
        let text = format!(
            "{} holds other things and can be read by other users: choose an empty data directory with --data-dir, or close this one with \
             `chmod 700`",
            self.root.display()
        );
        Err(Failure::new(Exit::Configuration, text))
    }

    /// Where it is.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Something in it.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Eight hexadecimal digits that stand for this directory.
    pub(crate) fn short_name(&self) -> String {
        hex(&Sha256::digest(self.root.as_os_str().as_encoded_bytes())).chars().take(8).collect()
    }
}

/// Bytes as hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// 256 random bits as hexadecimal digits.
fn random_digits() -> Result<String, Failure> {
    let mut bytes = [0_u8; 32];
    let source = Path::new("/dev/urandom");
    let read = fs::File::open(source).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| Failure::file("reading random bytes from", source, &error))?;
    Ok(hex(&bytes))
}

/// Writes a file that only its owner can read, whole or not at all.
fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
    let new = path.with_extension("new");
    let write = || {
        match fs::remove_file(&new) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().map_err(|error| Failure::file("writing", path, &error))
}

/// Reads a file that only its owner may be able to read. `None` when there is none.
fn read_private(path: &Path) -> Result<Option<String>, Failure> {
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::file("reading", path, &error)),
    };
    if meta.permissions().mode() & 0o077 != 0 {
        let text = format!("{0} can be read by other users: close it with `chmod 600 {0}`", path.display());
        return Err(Failure::new(Exit::Configuration, text));
    }
    fs::read_to_string(path).map(Some).map_err(|error| Failure::file("reading", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_new_directory_is_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("a/b");
        DataDir::prepare(&root).unwrap();
        assert_eq!(mode(&root), 0o700);
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        DataDir::prepare(&root).unwrap();
        assert_eq!(mode(&root), 0o700, "an empty one is closed");
    }

    #[test]
    fn a_directory_with_other_things_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("thesis.txt"), "").unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let failure = DataDir::prepare(dir.path()).unwrap_err();
        assert_eq!(failure.exit, Exit::Configuration);
        assert_eq!(mode(dir.path()), 0o755);
    }

    #[test]
    fn private_files_are_refused_once_others_can_read_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x");
        assert_eq!(read_private(&file).unwrap(), None);
        write_private(&file, "secret").unwrap();
        assert_eq!((mode(&file), read_private(&file).unwrap().as_deref()), (0o600, Some("secret")));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read_private(&file).unwrap_err().message.contains("chmod 600"));
    }
}
