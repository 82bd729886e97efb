//! The one place that starts child processes and looks at the environment.
//!
//! The product has stricter rules (every child has a deadline and an empty environment). Here a child is a build tool that a person
//! watches and can interrupt, and it needs the person's environment.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// A command that inherits environment and terminal.
#[expect(clippy::disallowed_methods, reason = "build tools run in the developer's environment and end with the terminal")]
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// The cargo that runs us, so that a pinned toolchain stays pinned.
pub(crate) fn cargo() -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A setting from the environment; empty counts as absent.
pub(crate) fn setting(name: &str) -> Option<String> {
    std::env::var_os(name).and_then(|value| value.into_string().ok()).filter(|value| !value.is_empty())
}

/// Shows the command, runs it and fails unless it ends with 0.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    eprintln!("$ {}", shown(command));
    let status = command.status().with_context(|| format!("could not start `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs the command silently and returns what it printed; on failure its error output is part of the error.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("could not start `{}`", shown(command)))?;
    if !output.status.success() {
        bail!("`{}` ended with {}: {}", shown(command), output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Where a program is, looking through `PATH` only.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| is_executable(file))
}

/// True when we may install packages and must not start PostgreSQL as ourselves.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Program and arguments as a person would type them, without the environment.
fn shown(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or(command.get_program()).to_string_lossy();
    let words = command.get_args().map(|word| word.to_string_lossy());
    std::iter::once(name).chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_an_error_that_shows_what_it_said() {
        let error = capture(command("sh").args(["-c", "echo broken >&2; exit 3"])).unwrap_err().to_string();
        assert!(error.contains("broken") && error.contains('3'), "{error}");
    }

    #[test]
    fn programs_are_found_by_name_and_only_when_executable() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program-anywhere").is_none());
    }
}
