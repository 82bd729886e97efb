//! A stand-in for the `roboco` binary: the half of it that runs inside sandboxes.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(word) if word == "bridge" => roboco_bridge::main(args.collect()),
        _ => ExitCode::from(64),
    }
}
