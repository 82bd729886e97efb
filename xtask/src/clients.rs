//! `test-clients`: the end-to-end tests that drive real agent clients against a loopback model.
//!
//! They are kept out of `test` because the clients are large downloads. Versions are exact: what a client prints is part of our contract
//! with it, and a new version is a change to review.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::prerequisites::{self, Tool};
use crate::suite::BINARY_SETTING;
use crate::workspace::Workspace;
use crate::{postgres, shell};

const CLAUDE_PACKAGE: &str = "@anthropic-ai/claude-code";
const CLAUDE_VERSION: &str = "2.1.332";
/// The feature that switches these tests on in a package.
const FEATURE: &str = "real-clients";
/// The package that must be among them: without it the command would prove nothing.
const END_TO_END: &str = "roboco-e2e";

/// Installs the clients once and runs every package that has tests for them.
pub(crate) fn test(workspace: &Workspace) -> Result<()> {
    let packages: Vec<&str> = workspace.packages.iter().filter(|p| p.features.contains_key(FEATURE)).map(|p| p.name.as_str()).collect();
    if !packages.contains(&END_TO_END) {
        bail!("package {END_TO_END} with the feature {FEATURE:?} is missing, so no real client would be tested");
    }
    prerequisites::ensure(&[Tool::Bubblewrap, Tool::Postgres])?;
    let claude = install_claude(&workspace.target)?;
    eprintln!("Claude Code {CLAUDE_VERSION}: {}", claude.display());
    let server = postgres::Postgres::start(postgres::Durability::Off)?;

    shell::run(shell::cargo().current_dir(&workspace.root).args(["build", "--package", "roboco", "--bin", "roboco"]))?;
    let mut cargo = shell::cargo();
    cargo.current_dir(&workspace.root).arg("test");
    for package in packages {
        cargo.args(["--package", package, "--features", &format!("{package}/{FEATURE}")]);
    }
    cargo.env("CLAUDE_BIN", &claude).env("ROBOCO_TEST_POSTGRES", server.url());
    cargo.env(BINARY_SETTING, workspace.debug_binary("roboco"));
    shell::run(&mut cargo)
}

/// The client's program, installed under the target directory unless this version is already there.
fn install_claude(target: &Path) -> Result<PathBuf> {
    let folder = target.join("clients").join(format!("claude-code-{CLAUDE_VERSION}"));
    let link = folder.join("node_modules/.bin/claude");
    if version_of(&link).is_none() {
        if shell::find("npm").is_none() {
            bail!("npm was not found: install Node.js 18 or newer");
        }
        std::fs::create_dir_all(&folder)?;
        let mut npm = shell::command("npm");
        npm.current_dir(&folder).args(["install", "--no-audit", "--no-fund", "--no-package-lock", "--prefix", "."]);
        npm.arg(format!("{CLAUDE_PACKAGE}@{CLAUDE_VERSION}"));
        shell::run(&mut npm).context("Claude Code could not be installed from npm")?;
    }
    match version_of(&link) {
        Some(version) if version.starts_with(CLAUDE_VERSION) => link.canonicalize().context("the installed client vanished"),
        Some(version) => bail!("{} is version {version}, not {CLAUDE_VERSION}: remove {}", link.display(), folder.display()),
        None => bail!("{} does not run after the installation", link.display()),
    }
}

fn version_of(program: &Path) -> Option<String> {
    let mut command = shell::command(program);
    command.arg("--version").env("DISABLE_AUTOUPDATER", "1").stdin(std::process::Stdio::null());
    shell::capture(&mut command).ok().map(|text| text.trim().to_owned())
}
