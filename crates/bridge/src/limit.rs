//! Limits that the bridge puts on itself, and `roboco bridge limit`, which does only that and becomes another program.
//!
//! The count of processes must be limited inside the sandbox's own user namespace: outside, the kernel would count the user's other
//! processes too. `--cgroup` joins existing control groups. `limit --open FILE` opens files for a program that takes a file's content as a
//! descriptor: the argument `{{file 0}}` becomes the descriptor of the first one, and so on. It is used outside.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{IntoRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{EXIT_BROKEN, EXIT_USAGE, USAGE, child, fail};

/// Most opened files; the descriptors of a process are limited, often to 1024.
const FILES_MAX: usize = 500;

/// What this process and everything it starts is held to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) memory: Option<u64>,
    pub(crate) pids: Option<u64>,
    pub(crate) cgroups: Vec<PathBuf>,
}

impl Limits {
    /// Takes an option of the command line with its value; `None` if there is no such option or the value is wrong.
    pub(crate) fn option(&mut self, name: &str, value: OsString) -> Option<()> {
        match name {
            "--memory" => self.memory = Some(value.to_str()?.parse().ok()?),
            "--pids" => self.pids = Some(value.to_str()?.parse().ok()?),
            "--cgroup" => self.cgroups.push(value.into()),
            _ => return None,
        }
        Some(())
    }

    /// Puts the limits in force, for good. Must be called before this process has a second thread.
    pub(crate) fn apply(&self) -> Result<(), String> {
        for group in &self.cgroups {
            join(group).map_err(|error| format!("cannot join the control group {}: {error}", group.display()))?;
        }
        // Data instead of address space: runtimes such as Node and Java reserve far more addresses than they ever use.
        let wanted = [(Resource::Data, self.memory), (Resource::Nproc, self.pids), (Resource::Core, Some(0))];
        for (resource, limit) in wanted {
            let Some(limit) = limit else { continue };
            let hard = getrlimit(resource).maximum.map_or(limit, |maximum| maximum.min(limit));
            setrlimit(resource, Rlimit { current: Some(hard), maximum: Some(hard) })
                .map_err(|error| format!("cannot limit {resource:?} to {limit}: {error}"))?;
        }
        Ok(())
    }
}

/// Joins a control group with the only thread of this process.
fn join(group: &Path) -> io::Result<()> {
    // Both files move the writer for "0". The kernel moves a whole process only after a wait of several milliseconds, which it can
    // skip for a thread that moves itself; only the older interface lets a thread do so.
    let mut file = match OpenOptions::new().write(true).open(group.join("tasks")) {
        Err(error) if error.kind() == ErrorKind::NotFound => OpenOptions::new().write(true).open(group.join("cgroup.procs"))?,
        opened => opened?,
    };
    file.write_all(b"0")
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    limits: Limits,
    files: Vec<PathBuf>,
    argv: Vec<OsString>,
}

/// Never returns when all went well.
pub(crate) fn main(args: Vec<OsString>) -> ExitCode {
    let Some(options) = parse(args) else { return fail(EXIT_USAGE, USAGE) };
    if let Err(problem) = options.limits.apply() {
        return fail(EXIT_BROKEN, &problem);
    }
    let mut descriptors = Vec::new();
    for path in &options.files {
        match open(path) {
            Ok(descriptor) => descriptors.push(descriptor),
            Err(error) => return fail(EXIT_BROKEN, &format!("cannot open {}: {error}", path.display())),
        }
    }
    let argv = with_descriptors(options.argv, &descriptors);
    let Some((program, rest)) = argv.split_first() else { return fail(EXIT_USAGE, USAGE) };
    let error = child::command(program).into_std().args(rest).exec();
    fail(EXIT_BROKEN, &format!("cannot start {}: {error}", program.display()))
}

/// Opens a file for reading and leaves it open for the program that follows, which closes it.
fn open(path: &Path) -> io::Result<RawFd> {
    let file = File::open(path)?;
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty())?;
    Ok(file.into_raw_fd())
}

/// The words with every name of an opened file replaced by its descriptor.
fn with_descriptors(mut argv: Vec<OsString>, descriptors: &[RawFd]) -> Vec<OsString> {
    for word in &mut argv {
        let number = word.to_str().and_then(|word| word.strip_prefix("{{file ")?.strip_suffix("}}")?.parse::<usize>().ok());
        if let Some(descriptor) = number.and_then(|number| descriptors.get(number)) {
            *word = descriptor.to_string().into();
        }
    }
    argv
}

fn parse(args: Vec<OsString>) -> Option<Options> {
    let mut options = Options::default();
    let mut args = args.into_iter();
    loop {
        match args.next()?.to_str()? {
            "--" => break,
            "--open" => options.files.push(args.next()?.into()),
            name => options.limits.option(name, args.next()?)?,
        }
    }
    options.argv = args.collect();
    (!options.argv.is_empty() && options.files.len() <= FILES_MAX).then_some(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_strict() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(
            parse(words("--memory 5 --open /x --cgroup /a --pids 7 --open /y --cgroup /b -- sh -c x")),
            Some(Options {
                limits: Limits { memory: Some(5), pids: Some(7), cgroups: vec!["/a".into(), "/b".into()] },
                files: vec!["/x".into(), "/y".into()],
                argv: words("sh -c x")
            })
        );
        let many = format!("{}-- sh", "--open /x ".repeat(FILES_MAX + 1));
        for wrong in ["--memory", "--memory x -- sh", "--memory 5", "--memory 5 --", "sh", "--other 1 -- sh", "--open", &many] {
            assert_eq!(parse(words(wrong)), None, "{wrong}");
        }
    }

    #[test]
    fn names_of_opened_files_become_descriptors() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let argv = words(&["a", "{{file 1}}", "{{file 0}}", "{{file 2}}", "x{{file 0}}", "{{door}}"]);
        assert_eq!(with_descriptors(argv, &[7, 9]), words(&["a", "9", "7", "{{file 2}}", "x{{file 0}}", "{{door}}"]));
    }

    #[test]
    fn a_control_group_of_either_kernel_interface_is_joined() {
        for file in ["tasks", "cgroup.procs"] {
            let group = tempfile::tempdir().unwrap();
            std::fs::write(group.path().join(file), "").unwrap();
            join(group.path()).unwrap();
            assert_eq!(std::fs::read_to_string(group.path().join(file)).unwrap(), "0", "{file}");
        }
        assert!(join(tempfile::tempdir().unwrap().path()).is_err(), "what is no control group cannot be joined");
    }
}
