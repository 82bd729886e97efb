//! Where the running server listens, left for the commands that talk to it.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::{DataDir, read_private, write_private};
use crate::failure::Failure;

/// What a running server says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServerFile {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Its process.
    pub(crate) pid: u32,
    /// Its version.
    pub(crate) version: String,
}

impl DataDir {
    /// Says where this process listens.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn announce(&self, address: SocketAddr) -> Result<(), Failure> {
        let file = ServerFile { address, pid: std::process::id(), version: env!("CARGO_PKG_VERSION").into() };
        write_private(&self.join("server.json"), &serde_json::to_string(&file).unwrap_or_default())
    }

    /// Takes it back.
    pub(crate) fn withdraw(&self) {
        let path = self.join("server.json");
        if let Err(error) = std::fs::remove_file(&path) {
            tracing::debug!(%error, path = %path.display(), "nothing to withdraw");
        }
    }

    /// The server that runs here now. What a dead one left behind does not count, since another program may own its port by now.
    ///
    /// # Errors
    /// The file is open to other users or unreadable.
    pub(crate) fn running_server(&self) -> Result<Option<ServerFile>, Failure> {
        if !self.is_served() {
            return Ok(None);
        }
        Ok(read_private(&self.join("server.json"))?.and_then(|text| serde_json::from_str(&text).ok()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_living_server_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let data = DataDir::at(dir.path());
        let address = "127.0.0.1:4711".parse().unwrap();
        data.announce(address).unwrap();
        assert_eq!(data.running_server().unwrap(), None);
        let lock = data.lock().unwrap();
        assert_eq!(data.running_server().unwrap().unwrap().address, address);
        data.withdraw();
        assert_eq!(data.running_server().unwrap(), None);
        drop(lock);
    }
}
