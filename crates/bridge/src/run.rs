//! `roboco bridge run`: the main process of a sandbox. It owns the client, numbers what the client writes, and opens the way to the door.
//!
//! `--door SOCKET` makes it listen on `--listen` (default 127.0.0.1:7777; port 0 takes any free one) and carry every connection to that
//! unix socket. `{{door}}` in the client's arguments and environment values, and in the files named by `--fill`, becomes the address it
//! listens on, e.g. `127.0.0.1:7777`.
//! `--memory`, `--pids` and `--cgroup` hold it and the client to limits, as `limit` does.
//! Standard input and output speak [`roboco_domain::frame`]. When standard input ends, the control plane is gone: the client and all
//! it started are killed.

mod client;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use roboco_domain::frame::{COMMAND_BYTES, Command, Exit, FrameError, PROTOCOL};
use rustix::process::Signal;
use tokio::io::{AsyncWriteExt, Stdin};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;
use tokio::time::Instant;

use crate::limit::Limits;
use crate::lines::Lines;
use crate::relay::relay;
use crate::spool::{SPOOL_BYTES, Spool};
use crate::{EXIT_BROKEN, EXIT_USAGE, USAGE, child, fail};
use client::Client;

/// Fixed inside a sandbox with its own network; elsewhere the caller asks for port 0.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7777);
/// How long the end of the client is kept for a control plane that is away. Longer absences learn it from the engine.
const LINGER: Duration = Duration::from_secs(600);
/// Grace given when an engine asks this process to end.
const ENGINE_STOP: Duration = Duration::from_secs(8);
/// How often adopted orphans are buried.
const BURIAL: Duration = Duration::from_secs(10);
/// A deadline that never comes.
const NEVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

#[derive(Debug, PartialEq, Eq)]
struct Options {
    limits: Limits,
    door: Option<PathBuf>,
    listen: SocketAddr,
    fill: Vec<PathBuf>,
    argv: Vec<OsString>,
}

/// Why the bridge ends without its client having ended first.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("cannot start an async runtime: {0}")]
    Runtime(std::io::Error),
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, std::io::Error),
    #[error("cannot start {program}: {cause}; the program must exist inside the sandbox")]
    Start { program: String, cause: std::io::Error },
    #[error("{0} holds {{{{door}}}}, but this sandbox has no door; start it with --door")]
    NoDoor(String),
    #[error("cannot put the address of the door into {0}: {1}")]
    Fill(PathBuf, std::io::Error),
    #[error("the control plane is gone")]
    Gone,
    #[error("the control plane speaks protocol {0}, this bridge {PROTOCOL}; both must be the same roboco version")]
    Protocol(u32),
    #[error("the control plane sent what cannot be read: {0}")]
    Frame(#[from] FrameError),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// Ends with the code of the client, or with the bridge's own.
pub(crate) fn main(args: Vec<OsString>) -> ExitCode {
    let Some(options) = parse(args) else { return fail(EXIT_USAGE, USAGE) };
    // Before the runtime, which may have threads.
    if let Err(problem) = options.limits.apply() {
        return fail(EXIT_BROKEN, &problem);
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(EXIT_BROKEN, &RunError::Runtime(error).to_string()),
    };
    let result = LocalSet::new().block_on(&runtime, run(options));
    // A thread may still wait for standard input; nobody waits for it.
    runtime.shutdown_background();
    match result {
        Ok(exit) => ExitCode::from(u8::try_from(exit.shell_code()).unwrap_or(u8::MAX)),
        Err(error @ RunError::NoDoor(_)) => fail(EXIT_USAGE, &error.to_string()),
        Err(error) => fail(EXIT_BROKEN, &error.to_string()),
    }
}

fn parse(args: Vec<OsString>) -> Option<Options> {
    let mut options = Options { limits: Limits::default(), door: None, listen: LISTEN, fill: Vec::new(), argv: Vec::new() };
    let mut args = args.into_iter();
    loop {
        match args.next()?.to_str()? {
            "--" => break,
            "--door" => options.door = Some(args.next()?.into()),
            "--fill" => options.fill.push(args.next()?.into()),
            "--listen" => options.listen = args.next()?.to_str()?.parse().ok().filter(|address: &SocketAddr| address.ip().is_loopback())?,
            name => options.limits.option(name, args.next()?)?,
        }
    }
    options.argv = args.collect();
    (!options.argv.is_empty()).then_some(options)
}

async fn run(options: Options) -> Result<Exit, RunError> {
    let Options { limits: _, door, listen, fill, argv } = options;
    child::adopt_orphans()?;
    let address = match door {
        None => None,
        Some(door) => {
            let listener = TcpListener::bind(listen).await.map_err(|error| RunError::Listen(listen, error))?;
            let address = listener.local_addr()?;
            tokio::task::spawn_local(relay(listener, door));
            Some(address)
        }
    };
    for file in &fill {
        client::fill(file, address)?;
    }
    let spool = Rc::new(Spool::new(SPOOL_BYTES));
    let mut client = Client::start(argv, address, &spool)?;
    let writer = tokio::task::spawn_local(write_frames(Rc::clone(&spool)));
    let mut commands = Lines::new(tokio::io::stdin(), COMMAND_BYTES);

    let result = tokio::select! {
        result = attend(&mut client, &mut commands, &spool) => result,
        broken = writer => Err(broken.map_or(RunError::Gone, |error| error)),
    };
    child::kill_descendants().await;
    result
}

/// Everything from the start of the client to the acknowledgement of its end.
async fn attend(client: &mut Client, commands: &mut Lines<Stdin>, spool: &Rc<Spool>) -> Result<Exit, RunError> {
    let exit = live(client, commands, spool).await?;
    // What the client started ends with it.
    child::kill_descendants().await;
    tokio::select! {
        gone = hear(commands, spool) => return Err(gone),
        () = client.output_ends() => {}
    }
    spool.push_exit(exit)?;
    tokio::select! {
        gone = hear(commands, spool) => Err(gone),
        () = spool.drained() => Ok(exit),
        () = tokio::time::sleep(LINGER) => Ok(exit),
    }
}

/// While the client runs: obeys commands until it has ended.
async fn live(client: &mut Client, commands: &mut Lines<Stdin>, spool: &Rc<Spool>) -> Result<Exit, RunError> {
    let mut engine_stop = signal(SignalKind::terminate())?;
    let mut burial = tokio::time::interval(BURIAL);
    let mut kill_at = Instant::now() + NEVER;
    loop {
        tokio::select! {
            exit = client.ended() => return Ok(exit?),
            line = commands.next() => match command(line?)? {
                Command::In(line) => client.input(line)?,
                Command::Eof => client.close_input(),
                Command::Ack(n) => spool.acknowledge(n),
                Command::Hello(hello) if hello.protocol != PROTOCOL => return Err(RunError::Protocol(hello.protocol)),
                Command::Hello(hello) => spool.resume_after(hello.last),
                Command::Stop { grace_ms } => kill_at = kill_at.min(stop(client, Duration::from_millis(grace_ms))),
            },
            _ = engine_stop.recv() => kill_at = kill_at.min(stop(client, ENGINE_STOP)),
            () = tokio::time::sleep_until(kill_at) => {
                client.signal(Signal::KILL);
                kill_at = Instant::now() + NEVER;
            }
            _ = burial.tick() => child::bury_orphans(client.pid()),
        }
    }
}

/// Asks the client to end and says when it will be made to.
fn stop(client: &Client, grace: Duration) -> Instant {
    client.signal(Signal::TERM);
    Instant::now() + grace.min(NEVER)
}

/// After the client: only acknowledgements and reconnects matter. Returns when the control plane is gone.
async fn hear(commands: &mut Lines<Stdin>, spool: &Spool) -> RunError {
    loop {
        let line = match commands.next().await {
            Ok(line) => line,
            Err(error) => return error.into(),
        };
        match command(line) {
            Ok(Command::Ack(n)) => spool.acknowledge(n),
            Ok(Command::Hello(hello)) => spool.resume_after(hello.last),
            Ok(Command::In(_) | Command::Eof | Command::Stop { .. }) => {}
            Err(error) => return error,
        }
    }
}

fn command(line: Option<crate::lines::RawLine>) -> Result<Command, RunError> {
    let line = line.ok_or(RunError::Gone)?;
    // A cut command is broken JSON and is refused as such.
    Ok(Command::decode(&String::from_utf8_lossy(&line.bytes))?)
}

/// Writes frames until nobody reads them any more.
async fn write_frames(spool: Rc<Spool>) -> RunError {
    let mut out = tokio::io::stdout();
    loop {
        let batch = match spool.next_batch().await {
            Ok(batch) => batch,
            Err(error) => return error.into(),
        };
        if out.write_all(batch.as_bytes()).await.is_err() || out.flush().await.is_err() {
            return RunError::Gone;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_strict() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(
            parse(words("--door /d --fill /f --pids 7 --fill g --listen 127.0.0.1:0 --memory 5 --cgroup /c -- cat -u")),
            Some(Options {
                limits: Limits { memory: Some(5), pids: Some(7), cgroups: vec!["/c".into()] },
                door: Some("/d".into()),
                listen: "127.0.0.1:0".parse().unwrap(),
                fill: vec!["/f".into(), "g".into()],
                argv: words("cat -u")
            })
        );
        assert_eq!(
            parse(words("-- cat")),
            Some(Options { limits: Limits::default(), door: None, listen: LISTEN, fill: Vec::new(), argv: words("cat") })
        );
        for wrong in
            ["", "--", "cat", "--door", "--door /d", "--listen 0.0.0.0:1 -- cat", "--listen x -- cat", "--other -- cat", "--pids x -- cat"]
        {
            assert_eq!(parse(words(wrong)), None, "{wrong}");
        }
    }
}
