//! What cargo knows about this workspace: where it is, its packages, their dependencies and features.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::shell;

/// The workspace as `cargo metadata --no-deps` describes it.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    /// The folder of the root manifest.
    #[serde(rename = "workspace_root")]
    pub(crate) root: PathBuf,
    /// Where cargo builds.
    #[serde(rename = "target_directory")]
    pub(crate) target: PathBuf,
    /// The members.
    pub(crate) packages: Vec<Package>,
}

/// One member.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Package {
    /// As in `cargo build -p <name>`.
    pub(crate) name: String,
    /// Absolute path of its `Cargo.toml`.
    pub(crate) manifest_path: PathBuf,
    /// Direct dependencies of every kind.
    pub(crate) dependencies: Vec<Dependency>,
    /// Feature name to what it switches on.
    pub(crate) features: BTreeMap<String, Vec<String>>,
}

/// A direct dependency.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Dependency {
    /// The package's real name, also when it is renamed.
    pub(crate) name: String,
    /// What it is needed for.
    #[serde(default, deserialize_with = "kind")]
    pub(crate) kind: Kind,
}

/// What a dependency is needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Kind {
    /// The code itself.
    #[default]
    Normal,
    /// Its build script.
    Build,
    /// Its tests, examples and benches.
    Dev,
}

impl Workspace {
    /// Asks cargo about the workspace that `xtask` itself belongs to.
    pub(crate) fn load() -> Result<Self> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let json = shell::capture(shell::cargo().current_dir(here).args(["metadata", "--format-version", "1", "--no-deps"]))
            .context("cargo could not describe the workspace")?;
        serde_json::from_str(&json).context("cargo described the workspace in an unknown form")
    }

    /// The member of that name.
    pub(crate) fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }

    /// A binary built with the release profile.
    pub(crate) fn release_binary(&self, name: &str) -> PathBuf {
        self.target.join("release").join(name)
    }

    /// A binary built with the development profile.
    pub(crate) fn debug_binary(&self, name: &str) -> PathBuf {
        self.target.join("debug").join(name)
    }
}

fn kind<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Kind, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    match name.as_deref() {
        None | Some("normal") => Ok(Kind::Normal),
        Some("build") => Ok(Kind::Build),
        Some("dev") => Ok(Kind::Dev),
        Some(other) => Err(serde::de::Error::custom(format!("unknown kind of dependency {other:?}"))),
    }
}
