//! One throw-away PostgreSQL for one run of tests or benches: its own folder, a free loopback port, gone afterwards whatever happens.
//!
//! The server asks the kernel to be interrupted when we die, so even a killed run leaves no server behind. Durability is off for tests:
//! they check what is stored, and crash tests of the product run on a database the product itself configures. It is on for benches,
//! whose figures would otherwise leave out what a write costs.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;

use crate::prerequisites::postgres_folder;
use crate::shell;

const FOLDER_PREFIX: &str = "roboco-postgres-";
const START_DEADLINE: Duration = Duration::from_secs(60);
const STOP_DEADLINE: Duration = Duration::from_secs(10);
/// A port that was free a moment ago may be taken by a test of somebody else; a handful of tries is plenty.
const PORT_TRIES: u32 = 5;

/// A running server; dropping it stops the server and removes its files.
pub(crate) struct Postgres {
    server: Child,
    port: u16,
    _folder: TempDir,
}

/// Whether a commit is on disk before it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// As the server comes: nothing that was answered is lost.
    On,
    /// Faster, and lost with the machine.
    Off,
}

/// The account the server runs as: PostgreSQL refuses to run as root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Account {
    uid: u32,
    gid: u32,
}

impl Postgres {
    /// Creates a cluster and starts it.
    pub(crate) fn start(durability: Durability) -> Result<Self> {
        remove_abandoned_folders(&std::env::temp_dir());
        let programs = postgres_folder().context("PostgreSQL was not found: apt-get install -y postgresql")?;
        let folder = tempfile::Builder::new().prefix(&format!("{FOLDER_PREFIX}{}-", std::process::id())).tempdir()?;
        let account = if shell::is_root() { Some(service_account()?) } else { None };
        if let Some(Account { uid, gid }) = account {
            chown(folder.path(), Some(uid), Some(gid)).context("the database folder could not be handed to the service account")?;
        }
        let data = folder.path().join("data");
        let mut initdb = as_account(shell::command(programs.join("initdb")), account, folder.path());
        initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--pgdata"]).arg(&data);
        shell::capture(&mut initdb).context("initdb could not create the test database")?;

        for _ in 0..PORT_TRIES {
            let port = free_port()?;
            let mut server = serve(&programs, &data, folder.path(), account, (port, durability))?;
            match wait_until_ready(&programs, &mut server, port)? {
                Readiness::Ready => return Ok(Self { server, port, _folder: folder }),
                Readiness::Exited => {}
            }
        }
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        bail!("PostgreSQL did not start:\n{log}")
    }

    /// How tests reach it: the superuser, no password, the maintenance database.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGINT is "fast shutdown": running transactions are rolled back, the server ends by itself.
        let asked = pid_of(&self.server).is_some_and(|pid| kill_process(pid, Signal::INT).is_ok());
        let deadline = Instant::now() + STOP_DEADLINE;
        while asked && Instant::now() < deadline {
            if !matches!(self.server.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        if let Err(error) = self.server.kill().and_then(|()| self.server.wait()) {
            eprintln!("PostgreSQL on port {} could not be stopped: {error}", self.port);
        }
    }
}

enum Readiness {
    Ready,
    Exited,
}

fn serve(programs: &Path, data: &Path, folder: &Path, account: Option<Account>, (port, durability): (u16, Durability)) -> Result<Child> {
    let log = File::create(folder.join("log"))?;
    let postgres = programs.join("postgres");
    let launcher = match shell::find("setpriv") {
        Some(setpriv) => {
            let mut command = shell::command(setpriv);
            command.args(["--pdeathsig", "INT", "--"]).arg(postgres);
            command
        }
        None => shell::command(postgres),
    };
    let mut server = as_account(launcher, account, folder);
    server.arg("-D").arg(data).arg("-p").arg(port.to_string()).args(["-h", "127.0.0.1", "-k", ""]);
    // Tests open many small pools side by side.
    server.args(["-c", "max_connections=400"]);
    if durability == Durability::Off {
        server.args(["-F", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"]);
    }
    server.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    server.spawn().context("PostgreSQL could not be started")
}

fn wait_until_ready(programs: &Path, server: &mut Child, port: u16) -> Result<Readiness> {
    let deadline = Instant::now() + START_DEADLINE;
    while Instant::now() < deadline {
        if server.try_wait()?.is_some() {
            return Ok(Readiness::Exited);
        }
        let mut probe = shell::command(programs.join("pg_isready"));
        probe.args(["-q", "-h", "127.0.0.1", "-U", "postgres", "-d", "postgres", "-p"]).arg(port.to_string());
        if probe.status().is_ok_and(|status| status.success()) {
            return Ok(Readiness::Ready);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    server.kill()?;
    server.wait()?;
    bail!("PostgreSQL did not accept connections within {} s", START_DEADLINE.as_secs())
}

fn as_account(mut command: Command, account: Option<Account>, folder: &Path) -> Command {
    command.current_dir(folder);
    if let Some(Account { uid, gid }) = account {
        command.uid(uid).gid(gid).env("HOME", folder);
    }
    command
}

fn service_account() -> Result<Account> {
    let accounts = std::fs::read_to_string("/etc/passwd").context("/etc/passwd could not be read")?;
    ["postgres", "nobody"]
        .iter()
        .find_map(|name| account_in(&accounts, name))
        .context("PostgreSQL does not run as root and there is neither a user `postgres` nor `nobody`")
}

fn account_in(passwd: &str, name: &str) -> Option<Account> {
    let mut fields = passwd.lines().map(|line| line.split(':')).find_map(|mut fields| (fields.next() == Some(name)).then_some(fields))?;
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    Some(Account { uid, gid })
}

/// A port nobody listens on right now.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// An interrupted run cannot remove its folder; the next one does, when the process named in it is gone.
fn remove_abandoned_folders(parent: &Path) {
    let folders = std::fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path());
    for folder in folders.filter(|folder| owner_is_gone(folder)) {
        if let Err(error) = std::fs::remove_dir_all(&folder) {
            eprintln!("{} was left by an interrupted run and could not be removed: {error}", folder.display());
        }
    }
}

fn owner_is_gone(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let owner = name.strip_prefix(FOLDER_PREFIX).and_then(|rest| rest.split('-').next()).and_then(|pid| pid.parse().ok());
    owner.and_then(Pid::from_raw).is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_account_is_read_from_the_password_file() {
        let passwd =
            "root:x:0:0:root:/root:/bin/bash\npostgres-old:x:7:7::/:/bin/false\npostgres:x:101:104:,,,:/var/lib/postgresql:/bin/bash\n";
        assert_eq!(account_in(passwd, "postgres"), Some(Account { uid: 101, gid: 104 }));
        assert_eq!(account_in(passwd, "nobody"), None);
    }

    #[test]
    fn only_folders_of_dead_runs_are_abandoned() {
        let own = std::path::PathBuf::from(format!("/tmp/{FOLDER_PREFIX}{}-abc", std::process::id()));
        assert!(!owner_is_gone(&own));
        assert!(owner_is_gone(Path::new(&format!("/tmp/{FOLDER_PREFIX}{}-abc", i32::MAX))));
        assert!(!owner_is_gone(Path::new("/tmp/something-else")));
    }
}
