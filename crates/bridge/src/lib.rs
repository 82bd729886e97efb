//! The small half of RoboCo that runs inside a sandbox.
//!
//! `roboco bridge …` is answered before configuration, an async runtime or a database exist, so it starts in milliseconds.
//! This crate knows the wire ([`roboco_domain::frame`]) and speaks HTTP to the door; it knows nothing of the control plane's other rooms.

mod child;
mod environment;
mod exits;
mod http;
mod limit;
mod lines;
mod relay;
mod run;
mod script;
mod sidecar;
mod spool;
mod stdio;

use std::ffi::OsString;
use std::process::ExitCode;

use stdio::Namespace;

/// The command line was wrong, or asks for something this version does not have.
const EXIT_USAGE: u8 = 64;
/// A step of a script was answered in a way it did not expect.
const EXIT_UNEXPECTED: u8 = 65;
/// The agent's verbs cannot be reached.
const EXIT_UNAVAILABLE: u8 = 69;
/// The bridge itself cannot go on, for instance because the control plane is gone.
const EXIT_BROKEN: u8 = 70;
/// A play, its templates or its brief are wrong, or the environment of a verb server is.
const EXIT_CONFIG: u8 = 78;

const USAGE: &str = "usage: roboco bridge run [LIMIT]… [--door SOCKET] [--listen ADDRESS] [--fill FILE]… -- PROGRAM [ARGUMENT…]
       roboco bridge limit [LIMIT]… [--open FILE]… -- PROGRAM [ARGUMENT…]
       roboco bridge script
       roboco bridge flow
       roboco bridge do
       roboco bridge sidecar [--listen ADDRESS]
LIMIT: --memory BYTES | --pids COUNT | --cgroup DIRECTORY";

/// Runs `roboco bridge`; `args` is what follows the word `bridge`.
///
/// `run` ends with the client's own code (128 plus the signal when it was killed), `script` with 0 or one of the codes named in
/// its module, `flow` and `do` with 0 when their input ends, and a wrong command line with 64. An environment that says too little to start
/// `flow`, `do` or `sidecar` ends them with 78.
pub fn main(args: Vec<OsString>) -> ExitCode {
    let mut args = args.into_iter();
    let word = args.next().unwrap_or_default();
    let rest = args.collect();
    match word.to_str() {
        Some("run") => run::main(rest),
        Some("limit") => limit::main(rest),
        Some("script") => script::main(),
        Some("flow") => stdio::main(Namespace::Flow, rest),
        Some("do") => stdio::main(Namespace::Do, rest),
        Some("sidecar") => sidecar::main(rest),
        _ => fail(EXIT_USAGE, USAGE),
    }
}

/// Says on standard error what went wrong and gives the code to end with.
fn fail(code: u8, message: &str) -> ExitCode {
    eprintln!("roboco bridge: {message}");
    ExitCode::from(code)
}
