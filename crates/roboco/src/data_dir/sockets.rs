//! The folder of unix sockets. Their paths may have 107 bytes only, so it is not in the data directory.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::DataDir;
use crate::environment::Environment;
use crate::failure::{Exit, Failure};

/// Bytes of a socket's path that the kernel accepts.
const LONGEST: usize = 107;
/// The longest name of a socket in the folder.
const NAME: usize = "/door.sock".len();

impl DataDir {
    /// The folder of this company's sockets, made for its owner alone: in the user's runtime directory, or in `/tmp` when there is none.
    ///
    /// # Errors
    /// Somebody else owns the folder, or it cannot be made.
    pub(crate) fn sockets(&self, environment: &Environment) -> Result<PathBuf, Failure> {
        let own = environment.path("XDG_RUNTIME_DIR").filter(|dir| dir.is_absolute() && dir.is_dir()).map(|dir| dir.join("roboco"));
        let fallback = || PathBuf::from(format!("/tmp/roboco-{}", rustix::process::geteuid().as_raw()));
        let base = own.filter(|base| base.as_os_str().len() + 9 + NAME <= LONGEST).unwrap_or_else(fallback);
        private_folder(&base)?;
        let folder = base.join(self.short_name());
        private_folder(&folder)?;
        Ok(folder)
    }
}

/// Makes a folder only its owner can enter. One that is there must be exactly that: in `/tmp` anybody could have made it.
fn private_folder(path: &Path) -> Result<(), Failure> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(Failure::file("creating", path, &error)),
        Ok(()) | Err(_) => {}
    }
    let meta = fs::symlink_metadata(path).map_err(|error| Failure::file("reading", path, &error))?;
    let ours = meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw() && meta.permissions().mode() & 0o077 == 0;
    if ours {
        return Ok(());
    }
    let text = format!("{} is not a folder of yours alone: remove it, or set XDG_RUNTIME_DIR to a folder that is", path.display());
    Err(Failure::new(Exit::Configuration, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_paths_are_short_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("x".repeat(200));
        let data = DataDir::at(&deep);
        let environment = Environment::from([("XDG_RUNTIME_DIR", dir.path().to_str().unwrap())]);
        let folder = data.sockets(&environment).unwrap();
        assert_eq!(folder, dir.path().join("roboco").join(data.short_name()));
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        fs::create_dir(&deep).unwrap();
        let environment = Environment::from([("XDG_RUNTIME_DIR", deep.to_str().unwrap())]);
        let short = data.sockets(&environment).unwrap();
        assert!(short.as_os_str().len() + NAME <= LONGEST && short.starts_with("/tmp"), "{}", short.display());
        fs::remove_dir(&short).unwrap();
    }

    #[test]
    fn a_folder_others_can_enter_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("link")).unwrap();
        for path in [open, dir.path().join("link")] {
            assert_eq!(private_folder(&path).unwrap_err().exit, Exit::Configuration, "{}", path.display());
        }
    }
}
