//! Children of the bridge and everything they start: begun in a process group of their own, ended as a whole tree.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use roboco_domain::frame::Exit;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, set_child_subreaper, waitpid};
use tokio::process::Command;

/// Rounds of killing before what is left is given up; a round takes [`ROUND`].
const ROUNDS: u32 = 200;
/// Time for a killed process to vanish from the process table.
const ROUND: Duration = Duration::from_millis(5);

/// A child in its own process group that dies when its handle is dropped.
pub(crate) fn own_group(program: &OsStr) -> Command {
    let mut command = command(program);
    command.process_group(0).kill_on_drop(true);
    command
}

/// A command that stays in the process group of its parent.
#[expect(
    clippy::disallowed_methods,
    reason = "the bridge runs inside the sandbox, depends on the domain only, and makes all its children here"
)]
pub(crate) fn command(program: &OsStr) -> Command {
    Command::new(program)
}

/// How a finished child ended.
pub(crate) fn exit_of(status: ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Code(-1),
    }
}

/// From now on, orphans among our descendants become our children, so that none can leave the tree by a double fork.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// Sends a signal to the process group that `leader` leads. A group that is gone already is fine.
pub(crate) fn signal_group(leader: u32, signal: Signal) {
    if let Some(pid) = pid(leader)
        && let Err(error) = kill_process_group(pid, signal)
        && error != rustix::io::Errno::SRCH
    {
        eprintln!("roboco bridge: cannot signal process group {leader}: {error}");
    }
}

/// Kills every descendant of this process and waits until none is left.
pub(crate) async fn kill_descendants() {
    for _ in 0..ROUNDS {
        let alive: Vec<_> = descendants().into_iter().filter(|process| process.state == State::Alive).collect();
        if alive.is_empty() {
            return;
        }
        for process in alive {
            // Gone in between is what we want.
            kill_process(process.pid, Signal::KILL).unwrap_or_default();
        }
        tokio::time::sleep(ROUND).await;
    }
    eprintln!("roboco bridge: some processes of the client do not die");
}

/// Takes the exit status of adopted orphans, which nobody else waits for. `own` is the child that somebody does wait for.
pub(crate) fn bury_orphans(own: u32) {
    let me = rustix::process::getpid();
    for process in descendants() {
        let mine = process.parent == me.as_raw_nonzero().get() && pid(own) != Some(process.pid);
        if mine && process.state == State::Dead {
            // Somebody else having been faster is fine.
            waitpid(Some(process.pid), WaitOptions::NOHANG).unwrap_or_default();
        }
    }
}

#[derive(Clone, Copy)]
struct Process {
    pid: Pid,
    parent: i32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Alive,
    /// Over, but its parent has not asked yet.
    Dead,
}

/// Every process below this one.
fn descendants() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let all: Vec<Process> = entries.flatten().filter_map(|entry| process(entry.file_name().to_str()?)).collect();
    let mut below = vec![rustix::process::getpid().as_raw_nonzero().get()];
    let mut found = Vec::new();
    while let Some(parent) = below.pop() {
        for process in all.iter().filter(|process| process.parent == parent) {
            below.push(process.pid.as_raw_nonzero().get());
            found.push(*process);
        }
    }
    found
}

fn process(name: &str) -> Option<Process> {
    let pid = Pid::from_raw(name.parse().ok()?)?;
    let stat = fs::read(format!("/proc/{name}/stat")).ok()?;
    // The name, in parentheses, may hold anything; the fields we want follow its end.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let text = String::from_utf8_lossy(&stat[end + 1..]).into_owned();
    let mut fields = text.split_ascii_whitespace();
    let state = if matches!(fields.next()?, "Z" | "X") { State::Dead } else { State::Alive };
    let parent = fields.next()?.parse().ok()?;
    Some(Process { pid, parent, state })
}

fn pid(raw: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(raw).ok()?)
}
