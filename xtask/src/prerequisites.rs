//! Debian packages the tests and the demo need. Root gets them installed; anybody else gets the line to type.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::shell;

/// Something that comes as a system package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    /// Isolates agents and gate commands.
    Bubblewrap,
    /// The second database every storage test runs on.
    Postgres,
}

impl Tool {
    fn package(self) -> &'static str {
        match self {
            Self::Bubblewrap => "bubblewrap",
            Self::Postgres => "postgresql",
        }
    }

    fn is_present(self) -> bool {
        match self {
            Self::Bubblewrap => shell::find("bwrap").is_some(),
            Self::Postgres => postgres_folder().is_some(),
        }
    }
}

/// The folder with `initdb` and `postgres`. Debian keeps it out of `PATH`, one per version; the newest is taken.
pub(crate) fn postgres_folder() -> Option<PathBuf> {
    let mut versions: Vec<PathBuf> =
        std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    versions.sort_by_key(|path| path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse::<u32>().ok()).unwrap_or(0));
    let packaged = versions.into_iter().rev().map(|version| version.join("bin"));
    let on_path = shell::find("initdb").and_then(|file| file.canonicalize().ok()).and_then(|file| file.parent().map(PathBuf::from));
    packaged.chain(on_path).find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
}

/// Makes sure the tools are there, or fails with the line that installs them.
pub(crate) fn ensure(tools: &[Tool]) -> Result<()> {
    let missing: Vec<Tool> = tools.iter().copied().filter(|tool| !tool.is_present()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !shell::is_root() || shell::find("apt-get").is_none() {
        bail!("{}", advice(&missing));
    }
    let packages: Vec<&str> = missing.iter().map(|tool| tool.package()).collect();
    shell::run(shell::command("apt-get").args(["update", "-qq"])).with_context(|| advice(&missing))?;
    let mut install = shell::command("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive").args(["install", "-y", "-qq", "--no-install-recommends"]).args(&packages);
    shell::run(&mut install).with_context(|| advice(&missing))?;
    match missing.iter().find(|tool| !tool.is_present()) {
        Some(tool) => bail!("{} was installed but its programs were not found", tool.package()),
        None => Ok(()),
    }
}

fn advice(missing: &[Tool]) -> String {
    let packages: Vec<&str> = missing.iter().map(|tool| tool.package()).collect();
    format!("missing: {0}. Install it with:\n  sudo apt-get install -y {1}", packages.join(", "), packages.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_is_one_line_that_can_be_pasted() {
        let text = advice(&[Tool::Bubblewrap, Tool::Postgres]);
        assert!(text.ends_with("\n  sudo apt-get install -y bubblewrap postgresql"), "{text}");
    }
}
