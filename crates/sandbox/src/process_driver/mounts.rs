//! What of the host a sandbox sees beside its own mounts: the system's programs, a few files of `/etc`, and tools without their logins.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::{Access, Mount};

/// Directories of programs. On most systems all but the first are links into it.
const PROGRAMS: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];
/// What programs need of `/etc` to find names, users, libraries, certificates and the time. Nothing that holds a secret.
const ETC: [&str; 22] = [
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
];
/// Names under which tools keep logins.
const CREDENTIALS: [&str; 14] = [
    ".credentials.json",
    ".git-credentials",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".yarnrc.yml",
    "auth.json",
    "credentials",
    "credentials.json",
    "credentials.toml",
    "gradle.properties",
    "hosts.yml",
    "oauth_creds.json",
    "settings-security.xml",
];
/// How deep below a tool directory logins are looked for.
const CREDENTIAL_DEPTH: usize = 3;
/// Entries looked at below one tool directory.
const CREDENTIAL_ENTRIES: usize = 20_000;

/// A path of the system that every sandbox has, and how it gets there.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SystemPart {
    /// The host's directory itself.
    Directory(PathBuf),
    /// A link that is one on the host too, with where it leads.
    Link { path: PathBuf, target: PathBuf },
    /// A file with what the host's holds at the start: a copy is made much faster than a mount.
    File(PathBuf),
}

/// The system's part of every sandbox.
pub(super) fn system() -> Vec<SystemPart> {
    let programs = PROGRAMS.iter().map(PathBuf::from).filter(|path| path.exists()).map(|path| match fs::read_link(&path) {
        Ok(target) => SystemPart::Link { path, target },
        Err(_) => SystemPart::Directory(path),
    });
    // A link in /etc is replaced by what it leads to; what this process may not read is left out.
    let etc = ETC.iter().map(PathBuf::from).filter_map(|path| {
        let is_dir = fs::File::open(&path).and_then(|file| file.metadata()).ok()?.is_dir();
        Some(if is_dir { SystemPart::Directory(path) } else { SystemPart::File(path) })
    });
    programs.chain(etc).collect()
}

/// The paths of the system's part.
fn system_paths() -> impl Iterator<Item = &'static Path> {
    PROGRAMS.iter().chain(&ETC).map(Path::new)
}

/// Everything of the host that every sandbox can read.
pub(super) fn visible(tool_dirs: &[PathBuf]) -> Vec<PathBuf> {
    system_paths().filter(|path| path.exists()).map(Path::to_owned).chain(tool_dirs.iter().cloned()).collect()
}

/// Files within the tool directories that hold logins.
pub(super) fn credentials(tool_dirs: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for directory in tool_dirs {
        let mut budget = CREDENTIAL_ENTRIES;
        search(directory, CREDENTIAL_DEPTH, &mut budget, &mut found);
        if budget == 0 {
            tracing::warn!("{} is too big to be searched for logins; name a smaller directory", directory.display());
        }
    }
    found
}

fn search(directory: &Path, depth: usize, budget: &mut usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if *budget == 0 {
            return;
        }
        *budget -= 1;
        let name = entry.file_name();
        if CREDENTIALS.iter().any(|known| name == *known) {
            found.push(entry.path());
        } else if depth > 1 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            search(&entry.path(), depth - 1, budget, found);
        }
    }
}

/// The `PATH` with the programs of the tool directories first.
pub(super) fn search_path(tool_dirs: &[PathBuf], system: &str) -> OsString {
    let tools = tool_dirs.iter().map(|directory| {
        let bin = directory.join("bin");
        if bin.is_dir() { bin } else { directory.clone() }
    });
    let all = tools.chain(std::env::split_paths(system));
    // A directory with a colon in its name cannot be on any path.
    std::env::join_paths(all).unwrap_or_else(|_| system.into())
}

/// Whether a path of the host is seen inside at the same place through these mounts or the system's part.
pub(super) fn covers(mounts: &[Mount], path: &Path) -> bool {
    // A link of the system is seen as a link, and leads to what is seen.
    let system = system_paths().any(|root| path.starts_with(root) && root.exists());
    system || mounts.iter().any(|mount| mount.host == mount.inside && path.starts_with(&mount.inside))
}

/// Where on the host a path seen inside lies; the innermost mount counts.
pub(super) fn on_host(mounts: &[Mount], inside: &Path) -> Option<PathBuf> {
    let around = mounts.iter().filter(|mount| inside.starts_with(&mount.inside));
    let mount = around.max_by_key(|mount| mount.inside.components().count())?;
    let below = inside.strip_prefix(&mount.inside).ok()?;
    Some(if below.as_os_str().is_empty() { mount.host.clone() } else { mount.host.join(below) })
}

/// What must be mounted, read-only, so that a program of the host runs inside under the same path. Empty for a program of the system.
///
/// A machine-code program needs itself only. A script, such as an npm package's, needs the packages around it: the directory above
/// `lib/node_modules` or the package directory itself. A home directory is never mounted for that.
pub fn program_mounts(program: &Path) -> Vec<Mount> {
    let Ok(real) = program.canonicalize() else { return Vec::new() };
    let mut mounts = Vec::new();
    if !covers(&[], &real) {
        let around = if is_machine_code(&real) { real.clone() } else { package_of(&real).unwrap_or_else(|| real.clone()) };
        mounts.push(Mount::same(around, Access::ReadOnly));
    }
    if !covers(&mounts, program) {
        mounts.push(Mount { host: real, inside: program.to_owned(), access: Access::ReadOnly });
    }
    mounts
}

/// The directory with everything a script of an installed package needs.
fn package_of(script: &Path) -> Option<PathBuf> {
    let modules = script.ancestors().find(|directory| directory.file_name().is_some_and(|name| name == "node_modules"))?;
    let lib = modules.parent()?;
    // A global installation keeps its interpreter beside its library.
    match (lib.file_name(), lib.parent()) {
        (Some(name), Some(prefix)) if name == "lib" && prefix.join("bin/node").exists() => Some(prefix.to_owned()),
        _ => Some(modules.to_owned()),
    }
}

fn is_machine_code(program: &Path) -> bool {
    let mut magic = [0; 4];
    fs::File::open(program).and_then(|mut file| file.read_exact(&mut magic)).is_ok_and(|()| magic == *b"\x7fELF")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn logins_are_found_in_tool_directories() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir_all(base.path().join("a/b/c/d")).unwrap();
        for name in ["credentials.toml", "a/.npmrc", "a/b/.netrc", "a/b/c/d/.netrc", "a/ordinary"] {
            fs::write(base.path().join(name), "x").unwrap();
        }
        let mut found = credentials(&[base.path().to_owned()]);
        found.sort();
        assert_eq!(found, ["a/.npmrc", "a/b/.netrc", "credentials.toml"].map(|name| base.path().join(name)));
    }

    #[test]
    fn a_program_brings_what_it_needs_and_no_home() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let make = |name: &str, content: &[u8]| {
            let path = base.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            path
        };
        let native = make(".local/share/client/2.1", b"\x7fELF...");
        fs::create_dir_all(base.join(".local/bin")).unwrap();
        let link = base.join(".local/bin/client");
        symlink(&native, &link).unwrap();
        let same = |path: &Path| Mount::same(path, Access::ReadOnly);
        assert_eq!(program_mounts(&native), [same(&native)]);
        assert_eq!(program_mounts(&link), [same(&native), Mount { host: native.clone(), inside: link.clone(), access: Access::ReadOnly }]);

        let script = make("nvm/v22/lib/node_modules/client/cli.js", b"#!/usr/bin/env node\n");
        make("nvm/v22/bin/node", b"\x7fELF");
        let link = base.join("nvm/v22/bin/client");
        symlink(&script, &link).unwrap();
        assert_eq!(program_mounts(&link), [same(&base.join("nvm/v22"))]);

        let plain = make("bin/tool", b"#!/bin/sh\n");
        assert_eq!(program_mounts(&plain), [same(&plain)]);
        for program in ["/bin/sh", "/usr/bin/env", "/no/such/program"] {
            assert_eq!(program_mounts(Path::new(program)), [], "{program}");
        }
    }

    #[test]
    fn the_innermost_mount_says_where_a_path_lies() {
        let mounts = [Mount::same("/a", Access::ReadOnly), Mount { host: "/x".into(), inside: "/a/b".into(), access: Access::ReadWrite }];
        for (inside, host) in [("/a/c", Some("/a/c")), ("/a/b/c", Some("/x/c")), ("/a/b", Some("/x")), ("/other", None)] {
            assert_eq!(on_host(&mounts, Path::new(inside)), host.map(PathBuf::from), "{inside}");
        }
    }
}
