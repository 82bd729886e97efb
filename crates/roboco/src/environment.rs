//! The environment of this process, read once. Nothing else in the product looks at environment variables.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// Where programs are looked up when `PATH` is not set.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A copy of the environment. Empty variables count as not set.
#[derive(Clone, Default)]
pub(crate) struct Environment(BTreeMap<String, OsString>);

impl Environment {
    /// Reads the environment of this process.
    pub(crate) fn read() -> Self {
        let pairs = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        Self(pairs.filter(|(_, value)| !value.is_empty()).collect())
    }

    /// The value of a variable, when it is text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(|value| value.to_str())
    }

    /// The value of a variable as a path.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.0.get(name).map(PathBuf::from)
    }

    /// Directories in which programs are looked up.
    pub(crate) fn search_path(&self) -> OsString {
        self.0.get("PATH").cloned().unwrap_or_else(|| DEFAULT_PATH.into())
    }

    /// The user's home.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.path("HOME").filter(|home| home.is_absolute())
    }

    /// A directory of the XDG base directory rules: the variable, or `below` in the home.
    pub(crate) fn xdg(&self, variable: &str, below: &str) -> Option<PathBuf> {
        self.path(variable).filter(|path| path.is_absolute()).or_else(|| self.home().map(|home| home.join(below)))
    }

    /// Variables whose name starts with `prefix`, without it.
    pub(crate) fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a OsString)> {
        self.0.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value)))
    }
}

impl std::fmt::Debug for Environment {
    /// Values may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(pairs: [(&str, &str); N]) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
    }
}
