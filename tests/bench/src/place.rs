//! A machine of its own for the product: a home, a data directory, a company with the bench's play, a repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::server::Database;

/// The company that comes with the product, with a play that has no pauses.
const COMPANY: &[(&str, &str)] = &[
    ("roster.toml", ROSTER),
    ("prompts/base.md", include_str!("../../../company/prompts/base.md")),
    ("prompts/cell_pm.md", include_str!("../../../company/prompts/cell_pm.md")),
    ("prompts/developer.md", include_str!("../../../company/prompts/developer.md")),
    ("prompts/documenter.md", include_str!("../../../company/prompts/documenter.md")),
    ("prompts/qa.md", include_str!("../../../company/prompts/qa.md")),
    ("demo/play.toml", include_str!("../company/play.toml")),
];

/// Who works there.
pub(crate) const ROSTER: &str = include_str!("../../../company/roster.toml");

/// The folders of one measured installation; removed when dropped.
pub(crate) struct Place {
    folder: TempDir,
    /// The product.
    pub(crate) binary: PathBuf,
    /// Where its records are kept.
    pub(crate) database: Database,
}

impl Place {
    pub(crate) fn new(binary: &Path, database: Database) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("roboco-bench-").tempdir()?;
        let place = Self { folder, binary: binary.to_owned(), database };
        for name in ["home", "run", "tmp"] {
            std::fs::create_dir(place.path(name))?;
        }
        // The product puts its sockets there, and refuses a folder that others can enter.
        std::fs::set_permissions(place.path("run"), std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        for (name, text) in COMPANY {
            let path = place.path("company").join(name);
            std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
            std::fs::write(path, text)?;
        }
        place.make_repository()?;
        Ok(place)
    }

    /// A path in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// The repository the agents work for.
    pub(crate) fn repository(&self) -> PathBuf {
        self.path("counter")
    }

    /// The file system the data directory lies on, like `ext4`.
    pub(crate) fn file_system(&self) -> String {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        let kind = |line: &str| {
            let mut fields = line.split(' ').skip(1);
            Some((fields.next()?.to_owned(), fields.next()?.to_owned()))
        };
        let holding = mounts.lines().filter_map(kind).filter(|(point, _)| self.folder.path().starts_with(point));
        // Of several that hold the path the deepest counts, and of several at one point the last.
        holding.max_by_key(|(point, _)| point.len()).map_or_else(|| "unknown".to_owned(), |(_, kind)| kind)
    }

    /// A program with a home and settings of this place only.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        #[expect(clippy::disallowed_methods, reason = "the load process is the supervisor of what it measures")]
        let mut command = Command::new(program);
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.env_clear().env("PATH", path).env("HOME", self.path("home")).env("TMPDIR", self.path("tmp"));
        command.env("XDG_RUNTIME_DIR", self.path("run")).current_dir(self.folder.path());
        command
    }

    fn make_repository(&self) -> Result<()> {
        let folder = self.repository();
        std::fs::create_dir(&folder)?;
        self.git(&["init", "--quiet", "--initial-branch=main"])?;
        std::fs::write(folder.join("README.md"), "# Counter\n")?;
        std::fs::write(folder.join("count.txt"), "nothing yet\n")?;
        self.git(&["add", "--all"])?;
        self.git(&["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "--quiet", "--message=First"])
    }

    fn git(&self, arguments: &[&str]) -> Result<()> {
        let mut git = self.command("git");
        git.current_dir(self.repository()).env("GIT_CONFIG_NOSYSTEM", "1").args(arguments);
        let output = git.output().context("git could not be started")?;
        ensure!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}
