//! One server per data directory: a lock that the kernel drops when its holder dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use super::DataDir;
use crate::failure::{Exit, Failure};

/// A command that asks whether a server runs holds the lock for a moment; that is not a second server.
const PATIENCE: Duration = Duration::from_millis(500);

/// The right to be the server of a data directory, as long as this value lives.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl DataDir {
    /// Takes the lock and writes this process into it.
    ///
    /// # Errors
    /// Another process has it: exit 75, naming that process.
    pub(crate) fn lock(&self) -> Result<Lock, Failure> {
        let path = self.join("lock");
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let mut file = open.map_err(|error| Failure::file("opening", &path, &error))?;
        let give_up = Instant::now() + PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(Failure::file("locking", &path, &error)),
                Err(TryLockError::WouldBlock) if Instant::now() >= give_up => return Err(self.taken(&mut file)),
                Err(TryLockError::WouldBlock) => std::thread::sleep(PATIENCE / 20),
            }
        }
        let write = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        write.map_err(|error| Failure::file("writing", &path, &error))?;
        Ok(Lock { _file: file })
    }

    fn taken(&self, file: &mut File) -> Failure {
        let mut text = String::new();
        let holder = match file.rewind().and_then(|()| file.read_to_string(&mut text)) {
            Ok(_) if !text.trim().is_empty() => format!("process {}", text.trim()),
            Ok(_) | Err(_) => "another process".to_owned(),
        };
        let root = self.root().display();
        Failure::new(
            Exit::NotNow,
            format!("{holder} already runs this company ({root}): use it, stop it with SIGTERM, or choose another --data-dir"),
        )
    }

    /// Whether a server runs here now.
    pub(crate) fn is_served(&self) -> bool {
        File::open(self.join("lock")).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_one_is_told_who_the_first_is() {
        let dir = tempfile::tempdir().unwrap();
        let data = DataDir::at(dir.path());
        assert!(!data.is_served());
        let lock = data.lock().unwrap();
        assert!(data.is_served());
        let failure = data.lock().unwrap_err();
        assert_eq!(failure.exit, Exit::NotNow);
        assert!(failure.message.contains(&format!("process {}", std::process::id())), "{failure}");
        drop(lock);
        assert!(!data.is_served());
        data.lock().unwrap();
    }
}
