//! What is looked at, one function each.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use roboco_domain::limits::{DISK_FREE_BYTES, DISK_FREE_PERCENT};
use roboco_git::Git;
use roboco_process::{OutputCap, Process, find_program};
use roboco_sandbox::{Confinement, Driver as _};
use roboco_store::SqlStore;

use super::Check;
use crate::command::Here;
use crate::config::{Login, Unconfined, shown_url};
use crate::serve;

/// How long a client may take to say its version: its first start may unpack things.
const VERSION: Duration = Duration::from_secs(20);

/// Every check, in the order in which things are needed.
pub(super) async fn all(here: &Here) -> Vec<Check> {
    let mut checks = vec![settings(here), data_directory(here), disk(here.data.root()), git(here).await];
    checks.extend(sandbox(here).await);
    checks.push(claude(here).await);
    checks.push(database(here).await);
    checks.push(server(here));
    checks
}

fn settings(here: &Here) -> Check {
    let file = here.loaded.file.as_ref().map_or_else(|| "no settings file, defaults".to_owned(), |file| file.display().to_string());
    let variables = &here.loaded.variables;
    let seen = if variables.is_empty() { file } else { format!("{file}; {}", variables.join(", ")) };
    match serve::company_data(&here.loaded.config.company.dir) {
        Ok(_) => Check::ok("settings", seen),
        Err(failure) => Check::fail("settings", failure.message, "correct the company's folder, or leave `company.dir` empty"),
    }
}

fn data_directory(here: &Here) -> Check {
    let root = here.data.root();
    let Ok(meta) = std::fs::metadata(root) else {
        return Check::ok("data", format!("{} will be made at the first start", root.display()));
    };
    let mode = meta.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let fix = format!("close it with `chmod 700 {}`", root.display());
        return Check::fail("data", format!("{} is open to other users (mode {mode:o})", root.display()), fix);
    }
    if rustix::fs::access(root, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_err() {
        return Check::fail(
            "data",
            format!("{} cannot be written", root.display()),
            "let this user write there, or choose another --data-dir",
        );
    }
    match here.data.ceo_token() {
        Ok(_) => Check::ok("data", format!("{}, for this user alone", root.display())),
        Err(failure) => Check::fail("data", failure.message, "see above"),
    }
}

/// The nearest folder above that exists.
fn existing(path: &Path) -> PathBuf {
    path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/")).to_owned()
}

fn disk(root: &Path) -> Check {
    let at = existing(root);
    let stat = match rustix::fs::statvfs(&at) {
        Ok(stat) => stat,
        Err(error) => return Check::warn("disk", format!("the free space at {} is not known: {error}", at.display()), "look with `df`"),
    };
    let (free, total) = (stat.f_bavail.saturating_mul(stat.f_frsize), stat.f_blocks.saturating_mul(stat.f_frsize).max(1));
    let percent = u128::from(free) * 100 / u128::from(total);
    let seen = format!("{:.1} GiB free ({percent} %) at {}", gib(free), at.display());
    if free < DISK_FREE_BYTES || percent < u128::from(DISK_FREE_PERCENT) {
        let wanted = format!(
            "no agent starts below {:.0} GiB or {DISK_FREE_PERCENT} %: make room, or move the data directory",
            gib(DISK_FREE_BYTES)
        );
        return Check::fail("disk", seen, wanted);
    }
    Check::ok("disk", seen)
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit after the point")]
fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

async fn git(here: &Here) -> Check {
    // Git needs a home that it leaves empty; the real one may not exist yet.
    let home = std::env::temp_dir().join(format!("roboco-doctor-{}", std::process::id()));
    let found = Git::discover(&here.environment.search_path(), &home).await;
    if let Err(error) = std::fs::remove_dir(&home) {
        tracing::debug!(%error, "the scratch home of git stays behind");
    }
    match found {
        Ok(git) => Check::ok("git", format!("version {}.{}", git.version().0, git.version().1)),
        Err(error) => Check::fail("git", error.to_string(), "install git 2.38 or newer, on Debian with `apt-get install git`"),
    }
}

async fn sandbox(here: &Here) -> Vec<Check> {
    let driver = match serve::driver(here, "doctor") {
        Ok(driver) => driver,
        Err(failure) => return vec![Check::fail("sandbox", failure.message, "start roboco by its own path")],
    };
    let report = driver.check().await;
    let confinement = match &report.confinement {
        Confinement::Bubblewrap { version, .. } => Check::ok("sandbox", format!("{version} confines agents; {}", report.limits)),
        Confinement::None { problem, remedy } => match here.loaded.config.sandbox.unconfined {
            Unconfined::Refuse => Check::fail(
                "sandbox",
                format!("nothing confines agents here: {problem}. Only the scripted agents of the demo can run"),
                remedy.clone(),
            ),
            Unconfined::Allow => Check::warn("sandbox", format!("agents run with your own rights: {problem}"), remedy.clone()),
        },
    };
    let list = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
    let visible = list(&report.visible);
    let mut checks =
        vec![confinement, Check::ok("visible", if visible.is_empty() { "nothing".into() } else { format!("read-only: {visible}") })];
    if !report.hidden.is_empty() {
        checks.push(Check::ok("hidden", format!("credentials in these folders: {}", list(&report.hidden))));
    }
    let missing: Vec<PathBuf> = here.loaded.config.sandbox.tool_dirs.iter().filter(|dir| !dir.is_dir()).cloned().collect();
    if !missing.is_empty() {
        checks.push(Check::fail("tools", format!("no such folder: {}", list(&missing)), "correct `sandbox.tool_dirs`"));
    }
    checks
}

async fn claude(here: &Here) -> Check {
    let settings = &here.loaded.config.providers.claude;
    let routing = &here.loaded.config.routing;
    let used = routing.default == "claude" || routing.role.values().chain(routing.agent.values()).any(|name| name == "claude");
    let trouble = |seen: String, fix: &str| if used { Check::fail("claude", seen, fix) } else { Check::warn("claude", seen, fix) };
    let path = here.environment.search_path();
    let Some(program) = find_program(OsStr::new(&settings.command), &path) else {
        return trouble(
            format!("{} was not found in PATH", settings.command),
            "install it with `npm install -g @anthropic-ai/claude-code`, or set `providers.claude.command`",
        );
    };
    let home = here.environment.home().unwrap_or_else(|| "/".into());
    let asked = Process::new(&program, "/", VERSION).arg("--version").env("PATH", &path).env("HOME", &home).env("DISABLE_AUTOUPDATER", "1");
    let version = match asked.output(OutputCap::head(200)).await {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout.into_bytes()).trim().to_owned(),
        Ok(output) => return trouble(format!("{} --version ended with {}", program.display(), output.status), "install it again"),
        Err(error) => return trouble(error.to_string(), "install it again, or set `providers.claude.command`"),
    };
    let login = match settings.login {
        Login::Host => {
            let file = home.join(roboco_providers::table::CLAUDE.credential_file.unwrap_or_default());
            if !file.is_file() {
                return trouble(format!("{} {version}, without a login", program.display()), roboco_providers::table::CLAUDE.remedy);
            }
            format!("login in {}", file.display())
        }
        Login::Key => "with an API key".to_owned(),
        Login::Token => "with a token".to_owned(),
        Login::None => "without a login".to_owned(),
    };
    Check::ok("claude", format!("{} {version}, {login}, model at {}", program.display(), settings.upstream))
}

async fn database(here: &Here) -> Check {
    let url = &here.loaded.config.database.url;
    let options = serve::database(here);
    if url == "sqlite" {
        let file = here.data.join("roboco.db");
        if !file.exists() {
            return Check::ok("database", format!("{} will be made at the first start", file.display()));
        }
        if here.data.is_served() {
            return Check::ok("database", format!("{} is in use by the running server", file.display()));
        }
    }
    match SqlStore::open(options).await {
        Ok(store) => {
            store.close().await;
            Check::ok("database", format!("{} opens", shown_url(url)))
        }
        Err(error) => Check::fail("database", error.to_string(), "see what the message says; nothing was changed"),
    }
}

fn server(here: &Here) -> Check {
    match here.data.running_server() {
        Ok(Some(server)) => return Check::ok("server", format!("process {} listens at http://{}", server.pid, server.address)),
        Ok(None) if here.data.is_served() => return Check::warn("server", "it is just starting or stopping", "ask again in a moment"),
        Ok(None) => {}
        Err(failure) => return Check::fail("server", failure.message, "see above"),
    }
    let settings = &here.loaded.config.server;
    let address = (settings.host.as_str(), settings.port);
    match std::net::TcpListener::bind(address) {
        Ok(_) => Check::ok("server", format!("does not run; {}:{} is free", settings.host, settings.port)),
        Err(error) => Check::fail(
            "server",
            format!("does not run, and {}:{} cannot be used: {error}", settings.host, settings.port),
            "stop what listens there, or set another ROBOCO_PORT",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Health;
    use super::*;

    #[test]
    fn the_disk_of_a_folder_that_does_not_exist_yet_is_that_of_its_parent() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(existing(&dir.path().join("a/b/c")), dir.path());
        assert_ne!(disk(&dir.path().join("a")).seen, "");
    }

    #[test]
    fn every_trouble_has_a_fix() {
        for check in [Check::warn("x", "y", "z"), Check::fail("x", "y", "z")] {
            assert!(check.health != Health::Ok && check.fix.is_some());
        }
    }
}
