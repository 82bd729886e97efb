//! The client program: its start, its three pipes, its end.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::Stdio;
use std::rc::Rc;
use std::time::Duration;

use roboco_domain::frame::{Exit, LINE_BYTES, Line};
use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncWriteExt};
use tokio::process::{Child, ChildStdin};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

use super::RunError;
use crate::child;
use crate::lines::Lines;
use crate::spool::{Channel, Spool};

/// What the client's arguments and environment hold in place of the address of the door.
const DOOR: &[u8] = b"{{door}}";
/// Input that waits for a client that does not read, in bytes; more is refused with a notice.
const INPUT_BYTES: usize = 16 * 1024 * 1024;
/// Silence after which the output pipes of a finished client are given up.
const LAST_OUTPUT: Duration = Duration::from_secs(2);
/// Input that waits, in lines.
const INPUT_LINES: usize = 1024;

/// A running client.
pub(super) struct Client {
    child: Child,
    pid: u32,
    life: Life,
    input: Option<mpsc::Sender<String>>,
    waiting: Rc<Cell<usize>>,
    readers: JoinSet<()>,
    spool: Rc<Spool>,
    /// Kept so that the task ends with the client.
    _writer: JoinHandle<()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Running,
    /// Its process id may belong to somebody else by now.
    Over,
}

impl Client {
    /// Starts `argv` with the environment of this process.
    pub(super) fn start(argv: Vec<OsString>, door: Option<SocketAddr>, spool: &Rc<Spool>) -> Result<Self, RunError> {
        let argv = argv.into_iter().map(|word| with_door(word, door, "the command line")).collect::<Result<Vec<_>, _>>()?;
        let program = argv.first().cloned().unwrap_or_default();
        let mut command = child::own_group(&program);
        command.args(argv.iter().skip(1)).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for (key, value) in std::env::vars_os().filter(|(_, value)| find(value.as_bytes()).is_some()) {
            let name = format!("the variable {}", key.display());
            command.env(key, with_door(value, door, &name)?);
        }
        let refused = |cause| RunError::Start { program: program.display().to_string(), cause };
        let mut child = command.spawn().map_err(refused)?;
        let pid = child.id().ok_or_else(|| refused(std::io::Error::other("it ended at once")))?;

        let waiting = Rc::new(Cell::new(0));
        let (input, lines) = mpsc::channel(INPUT_LINES);
        let writer = tokio::task::spawn_local(feed(child.stdin.take(), lines, Rc::clone(&waiting)));
        let mut readers = JoinSet::new();
        if let Some(stream) = child.stdout.take() {
            readers.spawn_local(read(stream, Channel::Out, Rc::clone(spool)));
        }
        if let Some(stream) = child.stderr.take() {
            readers.spawn_local(read(stream, Channel::Err, Rc::clone(spool)));
        }
        Ok(Self { child, pid, life: Life::Running, input: Some(input), waiting, readers, spool: Rc::clone(spool), _writer: writer })
    }

    /// The client's process id, which is also the id of its group.
    pub(super) const fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends a signal to the client's group, unless it is over.
    pub(super) fn signal(&self, signal: Signal) {
        match self.life {
            Life::Running => child::signal_group(self.pid, signal),
            Life::Over => {}
        }
    }

    /// Waits for the end of the client's main process. May be called again after a cancelled wait.
    pub(super) async fn ended(&mut self) -> std::io::Result<Exit> {
        let status = self.child.wait().await?;
        self.life = Life::Over;
        Ok(child::exit_of(status))
    }

    /// Waits until what it left in its output pipes is read. A process that escaped the kill may hold them open for ever,
    /// so without any progress for [`LAST_OUTPUT`] they are given up.
    pub(super) async fn output_ends(&mut self) {
        loop {
            let before = self.spool.last();
            match tokio::time::timeout(LAST_OUTPUT, self.readers.join_next()).await {
                Ok(None) => return,
                Ok(Some(_)) => {}
                // Waiting for a control plane that takes nothing is not the fault of the pipes.
                Err(_) if self.spool.last() != before || self.spool.is_full() => {}
                Err(_) => {
                    self.readers.abort_all();
                    return;
                }
            }
        }
    }

    /// Queues a line for its standard input. A client that reads too little is told about, and the line is lost.
    pub(super) fn input(&mut self, line: String) -> Result<(), RunError> {
        let Some(queue) = &self.input else {
            return Ok(self.spool.push_notice("roboco bridge: an input line came after the end of the input and was lost".into())?);
        };
        let size = line.len();
        if self.waiting.get() + size > INPUT_BYTES {
            return Ok(self.spool.push_notice("roboco bridge: the client does not read its input; a line was lost".into())?);
        }
        match queue.try_send(line) {
            Ok(()) => self.waiting.set(self.waiting.get() + size),
            Err(_) => self.spool.push_notice("roboco bridge: the client does not read its input; a line was lost".into())?,
        }
        Ok(())
    }

    /// Closes its standard input once the queued lines are written.
    pub(super) fn close_input(&mut self) {
        self.input = None;
    }
}

async fn feed(stdin: Option<ChildStdin>, mut lines: mpsc::Receiver<String>, waiting: Rc<Cell<usize>>) {
    let Some(mut stdin) = stdin else { return };
    while let Some(mut line) = lines.recv().await {
        waiting.set(waiting.get().saturating_sub(line.len()));
        line.push('\n');
        // A client that closed its input says so by its end, which is reported elsewhere.
        if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

async fn read(stream: impl AsyncRead + Unpin, channel: Channel, spool: Rc<Spool>) {
    let mut lines = Lines::new(stream, LINE_BYTES);
    loop {
        match lines.next().await {
            Ok(Some(line)) => {
                if let Err(error) = spool.push_line(channel, Line::bounded(&line.bytes, line.dropped)).await {
                    eprintln!("roboco bridge: a line of the client was lost: {error}");
                }
            }
            Ok(None) => return,
            Err(error) => {
                eprintln!("roboco bridge: cannot read the client's output: {error}");
                return;
            }
        }
    }
}

/// Puts the address of the door into a file, for clients that read it from nowhere else.
pub(super) fn fill(file: &Path, door: Option<SocketAddr>) -> Result<(), RunError> {
    let failed = |error| RunError::Fill(file.to_owned(), error);
    let text = OsString::from_vec(std::fs::read(file).map_err(failed)?);
    let filled = with_door(text.clone(), door, &file.display().to_string())?;
    // Written in place: the file keeps its owner and its mode.
    if filled == text { Ok(()) } else { std::fs::write(file, filled.as_bytes()).map_err(failed) }
}

fn find(text: &[u8]) -> Option<usize> {
    text.windows(DOOR.len()).position(|window| window == DOOR)
}

/// The word with every `{{door}}` replaced. `place` names where it stands, since its value may be secret.
fn with_door(word: OsString, door: Option<SocketAddr>, place: &str) -> Result<OsString, RunError> {
    let mut rest: &OsStr = &word;
    let mut replaced = Vec::new();
    while let Some(at) = find(rest.as_bytes()) {
        let address = door.ok_or_else(|| RunError::NoDoor(place.to_owned()))?;
        replaced.extend(&rest.as_bytes()[..at]);
        replaced.extend(address.to_string().as_bytes());
        rest = OsStr::from_bytes(&rest.as_bytes()[at + DOOR.len()..]);
    }
    if replaced.is_empty() {
        return Ok(word);
    }
    replaced.extend(rest.as_bytes());
    Ok(OsString::from_vec(replaced))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_door_is_put_into_words() {
        let door = Some("127.0.0.1:7777".parse().unwrap());
        let cases = [
            ("plain", "plain"),
            ("http://{{door}}/mcp", "http://127.0.0.1:7777/mcp"),
            ("{{door}}{{door}}", "127.0.0.1:7777127.0.0.1:7777"),
        ];
        for (word, expected) in cases {
            assert_eq!(with_door(word.into(), door, "x").unwrap(), expected);
        }
        assert_eq!(with_door("plain".into(), None, "x").unwrap(), "plain");
        let refused = with_door("secret {{door}}".into(), None, "the variable URL").unwrap_err().to_string();
        assert!(refused.starts_with("the variable URL holds {{door}}") && !refused.contains("secret"), "{refused}");
    }
}
