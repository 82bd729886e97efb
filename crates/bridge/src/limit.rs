//! `roboco bridge limit`: puts limits on itself and becomes another program.
//!
//! It exists because the count of processes must be limited inside the sandbox's own user namespace: outside, the kernel would
//! count the user's other processes too. `--cgroup` joins existing control groups and `--empty COUNT` opens that many empty files at
//! the descriptors from 200 on, for programs that take a file's content as a descriptor; both are used outside.

use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{EXIT_BROKEN, EXIT_USAGE, USAGE, child, fail};

/// The first descriptor of an empty file: far from whatever the process has inherited.
const EMPTY: RawFd = 200;
/// Most empty files; the descriptors of a process are limited, often to 1024.
const EMPTY_MAX: RawFd = 500;

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    empty: RawFd,
    memory: Option<u64>,
    pids: Option<u64>,
    cgroups: Vec<PathBuf>,
    argv: Vec<OsString>,
}

/// Never returns when all went well.
pub(crate) fn main(args: Vec<OsString>) -> ExitCode {
    let Some(options) = parse(args) else { return fail(EXIT_USAGE, USAGE) };
    for group in &options.cgroups {
        // "0" is the writer itself.
        if let Err(error) = fs::write(group.join("cgroup.procs"), "0") {
            return fail(EXIT_BROKEN, &format!("cannot join the control group {}: {error}", group.display()));
        }
    }
    for number in 0..options.empty {
        if let Err(error) = open_empty(EMPTY + number) {
            return fail(EXIT_BROKEN, &format!("cannot open an empty file: {error}"));
        }
    }
    // Data instead of address space: runtimes such as Node and Java reserve far more addresses than they ever use.
    let wanted = [(Resource::Data, options.memory), (Resource::Nproc, options.pids), (Resource::Core, Some(0))];
    for (resource, limit) in wanted {
        let Some(limit) = limit else { continue };
        let hard = getrlimit(resource).maximum.map_or(limit, |maximum| maximum.min(limit));
        if let Err(error) = setrlimit(resource, Rlimit { current: Some(hard), maximum: Some(hard) }) {
            return fail(EXIT_BROKEN, &format!("cannot limit {resource:?} to {limit}: {error}"));
        }
    }
    let Some((program, rest)) = options.argv.split_first() else { return fail(EXIT_USAGE, USAGE) };
    let error = child::command(program).into_std().args(rest).exec();
    fail(EXIT_BROKEN, &format!("cannot start {}: {error}", program.display()))
}

/// Opens an empty file at exactly this descriptor and leaves it open for the program that follows.
fn open_empty(number: RawFd) -> std::io::Result<()> {
    let file = fs::File::open("/dev/null")?;
    let copy = rustix::io::fcntl_dupfd_cloexec(&file, number)?;
    if copy.as_raw_fd() != number {
        return Err(std::io::Error::other(format!("descriptor {number} is taken")));
    }
    rustix::io::fcntl_setfd(&copy, rustix::io::FdFlags::empty())?;
    // It is closed by whoever reads it.
    std::mem::forget(copy);
    Ok(())
}

fn parse(args: Vec<OsString>) -> Option<Options> {
    let mut options = Options::default();
    let mut args = args.into_iter();
    loop {
        match args.next()?.to_str()? {
            "--" => break,
            "--memory" => options.memory = Some(args.next()?.to_str()?.parse().ok()?),
            "--pids" => options.pids = Some(args.next()?.to_str()?.parse().ok()?),
            "--empty" => options.empty = args.next()?.to_str()?.parse().ok().filter(|count| (0..=EMPTY_MAX).contains(count))?,
            "--cgroup" => options.cgroups.push(args.next()?.into()),
            _ => return None,
        }
    }
    options.argv = args.collect();
    (!options.argv.is_empty()).then_some(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_strict() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(
            parse(words("--memory 5 --empty 2 --cgroup /a --pids 7 --cgroup /b -- sh -c x")),
            Some(Options { empty: 2, memory: Some(5), pids: Some(7), cgroups: vec!["/a".into(), "/b".into()], argv: words("sh -c x") })
        );
        for wrong in ["--memory", "--memory x -- sh", "--memory 5", "--memory 5 --", "sh", "--other 1 -- sh", "--empty 501 -- sh"] {
            assert_eq!(parse(words(wrong)), None, "{wrong}");
        }
    }
}
