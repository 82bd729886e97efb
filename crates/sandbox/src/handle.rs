//! A running sandbox, the same for every driver: frames in, commands out, and an end.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use roboco_domain::frame::{COMMAND_BYTES, Command, Exit, FRAME_BYTES, Frame, Hello, Item, PROTOCOL};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::codec::{FramedRead, LinesCodec};

use crate::{Memory, SandboxError};

/// Frames read ahead of the caller; with the longest lines this is 4 MiB.
const READ_AHEAD: usize = 64;
/// Commands on their way.
const QUEUE: usize = 64;
/// What is kept of the bridge's own error output, in bytes.
const COMPLAINT_BYTES: usize = 8 * 1024;
/// Longest wait for the bridge's greeting. Loading a big binary from a cold disk on a busy machine takes seconds.
const GREETING: Duration = Duration::from_secs(30);

/// What a client did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientIo {
    /// It wrote a line to its standard output.
    Out(String),
    /// It, or the bridge on its behalf, wrote a line to its standard error.
    Err(String),
    /// It ended. The last that is said.
    Exit(Exit),
    /// The sandbox ended without telling how its client did: killed, out of memory, or broken. The last that is said.
    Lost(String),
}

/// What a client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientInput {
    /// A line for its standard input.
    Line(String),
    /// The end of its standard input.
    Eof,
    /// TERM to everything it started, and KILL after the grace.
    Stop {
        /// Time between the two.
        grace: Duration,
    },
}

/// A running sandbox. Dropping it kills everything inside.
pub struct Sandbox {
    name: String,
    pid: Option<u32>,
    frames: mpsc::Receiver<(u64, ClientIo)>,
    /// Number of the newest frame given to the caller.
    given: u64,
    taken: watch::Sender<u64>,
    commands: mpsc::Sender<String>,
    kill: Arc<Notify>,
    ended: watch::Receiver<Option<Ended>>,
    _tasks: JoinSet<()>,
}

/// The end of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// How its main process ended, which is as the client did unless the sandbox was killed.
    pub exit: Exit,
    /// Whether something in it was killed for want of memory.
    pub memory: Memory,
}

/// The main process of a sandbox, as a driver knows it.
#[async_trait::async_trait]
pub(crate) trait MainProcess: Send {
    /// Waits for its end; may be cancelled and called again.
    async fn wait(&mut self) -> Ended;
    /// Ends it and everything inside at once.
    fn kill(&mut self);
}

/// What a driver has of a sandbox that it just made.
pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) pid: Option<u32>,
    pub(crate) stdin: Box<dyn AsyncWrite + Send + Unpin>,
    pub(crate) stdout: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) stderr: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) main: Box<dyn MainProcess>,
}

type Complaint = Arc<Mutex<Vec<u8>>>;

impl Sandbox {
    /// Takes over a sandbox; returns once its bridge has greeted.
    pub(crate) async fn attach(parts: Parts) -> Result<Self, SandboxError> {
        let Parts { name, pid, stdin, stdout, stderr, mut main } = parts;
        let complaint = Complaint::default();
        let kill = Arc::new(Notify::new());
        let (end, ended) = watch::channel(None);
        let mut tasks = JoinSet::new();
        let stderr_read = tasks.spawn(keep_tail(stderr, Arc::clone(&complaint)));
        let killed = Arc::clone(&kill);
        tasks.spawn(async move {
            let ended = tokio::select! {
                ended = main.wait() => ended,
                () = killed.notified() => {
                    main.kill();
                    main.wait().await
                }
            };
            // Without a handle nobody wants to know.
            end.send_replace(Some(ended));
        });
        let mut source = FramedRead::new(stdout, LinesCodec::new_with_max_length(FRAME_BYTES));
        match tokio::time::timeout(GREETING, source.next()).await {
            Ok(Some(Ok(line))) if matches!(Frame::decode(&line), Ok(Frame::Hello(Hello { protocol: PROTOCOL, .. }))) => {}
            Ok(Some(Ok(line))) => {
                let shown: String = line.chars().take(200).collect();
                return Err(SandboxError::Setup {
                    name,
                    detail: format!("its main process is not this version's bridge; it said {shown:?}"),
                });
            }
            Ok(Some(Err(error))) => return Err(SandboxError::Setup { name, detail: error.to_string() }),
            Ok(None) => {
                // Its last words are on the way; a process that holds the pipe open must not hold us.
                let mut ended = ended.clone();
                let last_words = async {
                    while !stderr_read.is_finished() {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                };
                tokio::time::timeout(Duration::from_secs(2), last_words).await.unwrap_or_default();
                let exit = tokio::time::timeout(Duration::from_secs(2), ended.wait_for(Option::is_some)).await.ok();
                let exit = exit.and_then(Result::ok).and_then(|ended| *ended).map(|ended| ended.exit);
                return Err(SandboxError::Setup { name, detail: last_words_of(&complaint, exit) });
            }
            Err(_) => {
                return Err(SandboxError::Setup { name, detail: format!("its bridge said nothing for {} s", GREETING.as_secs()) });
            }
        }
        let (sender, frames) = mpsc::channel(READ_AHEAD);
        let (commands, queue) = mpsc::channel(QUEUE);
        let (taken, acknowledgements) = watch::channel(0);
        tasks.spawn(read(source, sender, complaint, ended.clone()));
        tasks.spawn(write(stdin, queue, acknowledgements, ended.clone()));
        Ok(Self { name, pid, frames, given: 0, taken, commands, kill, ended, _tasks: tasks })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its outermost process on this host; `None` when the engine does not say.
    pub const fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// What the client did next; `None` after its end. What was returned counts as taken once the next is asked for, so a caller that
    /// dies in between loses nothing. A caller that does not ask holds the client back. May be cancelled.
    pub async fn next(&mut self) -> Option<ClientIo> {
        self.acknowledge();
        let (n, io) = self.frames.recv().await?;
        self.given = n;
        if matches!(io, ClientIo::Exit(_)) {
            self.acknowledge();
        }
        Some(io)
    }

    fn acknowledge(&self) {
        self.taken.send_if_modified(|taken| {
            let newer = self.given > *taken;
            *taken = self.given;
            newer
        });
    }

    /// Tells the client something. Waits while earlier input is on its way.
    ///
    /// # Errors
    /// `Ended`, or `TooLong` for a line over 4 MiB.
    pub async fn send(&self, input: ClientInput) -> Result<(), SandboxError> {
        let command = match input {
            ClientInput::Line(line) => Command::In(line),
            ClientInput::Eof => Command::Eof,
            ClientInput::Stop { grace } => Command::Stop { grace_ms: u64::try_from(grace.as_millis()).unwrap_or(u64::MAX) },
        };
        let line = command.encode().map_err(|error| SandboxError::Spec { name: self.name.clone(), detail: error.to_string() })?;
        if line.len() > COMMAND_BYTES {
            return Err(SandboxError::TooLong { name: self.name.clone(), bytes: line.len(), limit: COMMAND_BYTES });
        }
        self.commands.send(line).await.map_err(|_| SandboxError::Ended(self.name.clone()))
    }

    /// Kills everything inside at once. [`Sandbox::next`] then reports `Lost`.
    pub fn kill(&self) {
        self.kill.notify_one();
    }

    /// Waits for the end of the sandbox itself, which follows the client's. Frames must be taken first: an unread client does not end.
    pub async fn wait(&self) -> Ended {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await.map(|ended| *ended) {
            Ok(Some(ended)) => ended,
            // The task that knows was aborted, which only happens with the runtime's end.
            Ok(None) | Err(_) => Ended { exit: Exit::Signal(rustix::process::Signal::KILL.as_raw()), memory: Memory::Unknown },
        }
    }
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox").field("name", &self.name).field("pid", &self.pid).field("given", &self.given).finish_non_exhaustive()
    }
}

async fn read(
    mut source: FramedRead<Box<dyn AsyncRead + Send + Unpin>, LinesCodec>,
    sink: mpsc::Sender<(u64, ClientIo)>,
    complaint: Complaint,
    mut ended: watch::Receiver<Option<Ended>>,
) {
    let mut last = 0;
    let lost = loop {
        let Some(line) = source.next().await else {
            // The main process has closed its output: it is over, or about to be.
            let exit = tokio::time::timeout(Duration::from_secs(2), ended.wait_for(Option::is_some)).await;
            let exit = exit.ok().and_then(Result::ok).and_then(|ended| *ended).map(|ended| ended.exit);
            break last_words_of(&complaint, exit);
        };
        let frame = match line.map_err(|error| error.to_string()).and_then(|line| Frame::decode(&line).map_err(|error| error.to_string())) {
            Ok(frame) => frame,
            Err(error) => break error,
        };
        match frame {
            Frame::Hello(_) => {}
            // Sent again although it was taken.
            Frame::Numbered { n, .. } if n <= last => {}
            Frame::Numbered { n, .. } if n > last + 1 => break format!("the frames {} to {} are missing", last + 1, n - 1),
            Frame::Numbered { n, item } => {
                last = n;
                let io = match item {
                    Item::Out(line) => ClientIo::Out(line.text),
                    Item::Err(line) => ClientIo::Err(line.text),
                    Item::Exit(exit) => ClientIo::Exit(exit),
                };
                let over = matches!(io, ClientIo::Exit(_));
                if sink.send((n, io)).await.is_err() || over {
                    return;
                }
            }
        }
    };
    // Without a handle nobody wants to know.
    sink.send((last, ClientIo::Lost(lost))).await.unwrap_or_default();
}

async fn write(
    mut sink: Box<dyn AsyncWrite + Send + Unpin>,
    mut queue: mpsc::Receiver<String>,
    mut taken: watch::Receiver<u64>,
    mut ended: watch::Receiver<Option<Ended>>,
) {
    loop {
        let line = tokio::select! {
            line = queue.recv() => match line {
                Some(line) => line,
                None => return,
            },
            changed = taken.changed() => {
                if changed.is_err() {
                    return;
                }
                let n = *taken.borrow_and_update();
                match Command::Ack(n).encode() {
                    Ok(line) => line,
                    Err(_) => continue,
                }
            }
            _ = ended.wait_for(Option::is_some) => return,
        };
        // A sandbox that does not listen has ended, which its frames report.
        if sink.write_all(format!("{line}\n").as_bytes()).await.is_err() || sink.flush().await.is_err() {
            return;
        }
    }
}

async fn keep_tail(mut source: Box<dyn AsyncRead + Send + Unpin>, complaint: Complaint) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = source.read(&mut buffer).await {
        let mut kept = complaint.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&buffer[..count]);
        let over = kept.len().saturating_sub(COMPLAINT_BYTES);
        kept.drain(..over);
    }
}

fn last_words_of(complaint: &Complaint, exit: Option<Exit>) -> String {
    let kept = complaint.lock().unwrap_or_else(PoisonError::into_inner);
    let said = String::from_utf8_lossy(&kept).trim().to_owned();
    let how = match exit {
        Some(Exit::Code(code)) => format!("it ended with code {code}"),
        Some(Exit::Signal(signal)) => format!("it was ended by signal {signal}"),
        None => "it closed its output".into(),
    };
    if said.is_empty() { how } else { format!("{how}: {said}") }
}
