//! Orders: what a sandbox shall be, as data that can be compared in tests.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::Confinement;

/// Facts about a sandbox that travel with it, such as company, spawn, epoch, agent, task and provider. Never secret.
pub type Labels = BTreeMap<String, String>;

/// A sandbox for an agent's client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSpec {
    /// Unique on this host: letters, digits, `-`, `_` and `.`, at most 128 of them.
    pub name: String,
    /// Facts about it.
    pub labels: Labels,
    /// The client and its arguments. `{{door}}` becomes the address of the door inside; nothing here may be secret.
    pub argv: Vec<String>,
    /// The whole environment of the client, except `HOME` and `PWD`, which the driver sets, `PATH`, which it sets when it is missing,
    /// and the two markers by which the driver finds the sandbox again. `{{door}}` is replaced here too.
    pub env: Env,
    /// Working directory, as seen inside.
    pub cwd: PathBuf,
    /// What of the host is seen inside, beside the system's programs.
    pub mounts: Vec<Mount>,
    /// A private directory of the host that becomes `HOME`.
    pub home: PathBuf,
    /// Files in the home, by paths relative to it, in which `{{door}}` is replaced before the client starts.
    pub door_files: Vec<PathBuf>,
    /// What can be reached.
    pub network: Network,
    /// What it may use up.
    pub limits: Limits,
    /// Files and directories, as seen inside, that must look empty.
    pub masks: Vec<PathBuf>,
    /// Whose code runs inside.
    pub trust: Trust,
    /// What the order was written for; it is carried out with that or not at all. `None` when it fits every confinement.
    pub confinement: Option<Confinement>,
}

/// A shell script that runs to its end, seeing only its mounts: no network, no door, no home of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSpec {
    /// As in [`SandboxSpec::name`].
    pub name: String,
    /// Facts about it.
    pub labels: Labels,
    /// Run with `sh -euc`.
    pub script: String,
    /// As in [`SandboxSpec::env`]; usually empty.
    pub env: Env,
    /// As in [`SandboxSpec::cwd`].
    pub cwd: PathBuf,
    /// As in [`SandboxSpec::mounts`].
    pub mounts: Vec<Mount>,
    /// As in [`SandboxSpec::masks`].
    pub masks: Vec<PathBuf>,
    /// What it may use up; [`Limits::JOB`] unless there is a reason.
    pub limits: Limits,
}

/// Environment variables. Values may be secret: they are never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Env(BTreeMap<String, String>);

impl Env {
    /// No variable at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one variable more, or another value for it.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// Whether the variable is set.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Names and values; the values may be secret.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Env {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A directory or file of the host seen inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Where it is on the host. Must exist.
    pub host: PathBuf,
    /// Where it is inside. Without confinement both must be equal.
    pub inside: PathBuf,
    /// What may be done with it.
    pub access: Access,
}

impl Mount {
    /// The same path on both sides.
    pub fn same(path: impl Into<PathBuf>, access: Access) -> Self {
        let host = path.into();
        Self { inside: host.clone(), host, access }
    }
}

/// What may be done with a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Look only.
    ReadOnly,
    /// Change too.
    ReadWrite,
}

/// What a sandbox can reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Network {
    /// Only the unix socket of the control plane at this path of the host.
    Door(PathBuf),
    /// Nothing.
    None,
    /// Everything the host can reach, and the door if there is one. An explicit choice of the operator.
    Host {
        /// The unix socket of the control plane.
        door: Option<PathBuf>,
    },
}

/// What a sandbox may use up. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Memory in bytes: of the whole sandbox where the host has a control group for us, else of each process.
    pub memory_bytes: Option<u64>,
    /// Processes and threads at once.
    pub pids: Option<u64>,
}

impl Limits {
    /// For gate commands: room for a compiler or a test runner, not for a leak.
    pub const JOB: Self = Self { memory_bytes: Some(2 * 1024 * 1024 * 1024), pids: Some(512) };
}

/// Whose code runs in a sandbox; decides whether it may run where nothing confines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Ours, such as a scripted agent: it may run without confinement, with a warning.
    Own,
    /// Anybody else's, such as a model's client.
    Foreign,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_environment_are_never_shown() {
        let env = Env::new().with("TOKEN", "s3cret").with("PLAIN", "also");
        let shown = format!("{env:?} {:#?}", env);
        assert!(shown.contains("TOKEN") && !shown.contains("s3cret") && !shown.contains("also"), "{shown}");
    }
}
