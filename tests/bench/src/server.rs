//! The product as a process: started, asked, read from `/proc`, stopped.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::place::Place;

/// Longest wait for something that takes a healthy server milliseconds.
const DEADLINE: Duration = Duration::from_secs(60);

/// Where the records are kept.
#[derive(Debug, Clone)]
pub(crate) enum Database {
    Sqlite,
    /// The URL of an empty database of a durable server.
    Postgres(String),
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "SQLite",
            Self::Postgres(_) => "PostgreSQL",
        })
    }
}

/// A running server. Dropped, it is killed.
pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
    /// From the start of the process to its first yes on `/ready`.
    pub(crate) ready_after: Duration,
}

/// What the kernel counted for a process: time of its own, and of everything it started that has ended. In steps of a clock tick.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cpu {
    pub(crate) own: Duration,
    pub(crate) children: Duration,
}

impl Server {
    /// Starts the server and waits until it is ready.
    pub(crate) fn start(place: &Place, max_spawns: usize) -> Result<Self> {
        let address = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
        let log = OpenOptions::new().create(true).append(true).open(place.path("server.log"))?;
        let mut command = place.command(&place.binary);
        command.arg("--data-dir").arg(place.data()).arg("up").env("ROBOCO_PORT", address.port().to_string());
        command.env("ROBOCO_COMPANY__DIR", place.path("company")).env("ROBOCO_ROUTING__DEFAULT", "scripted");
        command.env("ROBOCO_RUNTIME__MAX_SPAWNS", max_spawns.to_string());
        if let Database::Postgres(url) = &place.database {
            command.env("ROBOCO_DATABASE__URL", url);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let began = Instant::now();
        let process = command.spawn().with_context(|| format!("{} could not be started", place.binary.display()))?;
        let mut server = Self { process, address, ready_after: Duration::ZERO };
        loop {
            if is_ready(address) {
                server.ready_after = began.elapsed();
                return Ok(server);
            }
            if let Some(status) = server.process.try_wait()? {
                let log = std::fs::read_to_string(place.path("server.log")).unwrap_or_default();
                bail!("the server ended with {status}:\n{log}");
            }
            if began.elapsed() > DEADLINE {
                bail!("the server was not ready within {} s", DEADLINE.as_secs());
            }
            std::thread::sleep(Duration::from_micros(500));
        }
    }

    /// Asks it to stop and waits for its end.
    pub(crate) fn stop(mut self) -> Result<()> {
        if let Some(pid) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            kill_process(pid, Signal::TERM)?;
        }
        let deadline = Instant::now() + DEADLINE;
        while self.process.try_wait()?.is_none() {
            if Instant::now() > deadline {
                bail!("the server did not stop within {} s", DEADLINE.as_secs());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Memory that is really there, in MiB.
    pub(crate) fn resident_mib(&self) -> Result<f64> {
        memory_mib(self.process.id(), "VmRSS")
    }

    /// Processor time so far.
    pub(crate) fn cpu(&self) -> Result<Cpu> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        cpu_in(&stat, rustix::param::clock_ticks_per_second()).context("/proc/<pid>/stat cannot be read")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None))
            && let Err(error) = self.process.kill().and_then(|()| self.process.wait())
        {
            eprintln!("process {} could not be killed: {error}", self.process.id());
        }
    }
}

/// A figure of a process's memory as the kernel names it, in MiB.
pub(crate) fn memory_mib(pid: u32, name: &str) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib: f64 = line.with_context(|| format!("the kernel tells no {name}"))?.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib / 1024.0)
}

/// One question on a connection of its own, without anything that would have to be built first.
fn is_ready(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.write_all(b"GET /ready HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer.starts_with(b"HTTP/1.1 200 "))
    };
    ask().unwrap_or(false)
}

/// The fields 14 to 17; the program's name before them may contain anything, so they are counted from its closing bracket.
fn cpu_in(stat: &str, ticks_per_second: u64) -> Option<Cpu> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |nth: usize| fields.get(nth - 3)?.parse::<u64>().ok();
    let time = |ticks: u64| Duration::from_millis(ticks * 1000 / ticks_per_second.max(1));
    Some(Cpu { own: time(ticks(14)? + ticks(15)?), children: time(ticks(16)? + ticks(17)?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_behind_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 30 20 20 0 9 0 100 200 300";
        let cpu = cpu_in(stat, 100).unwrap();
        assert_eq!((cpu.own, cpu.children), (Duration::from_secs(2), Duration::from_millis(500)));
        assert!(cpu_in("7 (short) S 1", 100).is_none());
    }
}
