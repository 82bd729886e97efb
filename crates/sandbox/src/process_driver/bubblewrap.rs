//! The command line of bubblewrap: a pure function of the place to make. Nothing secret is in it; the environment is passed on as it is.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::{Access, Mount, Network, SandboxError};

use super::mounts::SystemPart;
use super::{DOOR, HOME, mounts};

/// Size of a sandbox's own `/tmp` and home, in bytes: they live in memory.
const TMP_BYTES: u64 = 1024 * 1024 * 1024;

/// What a sandbox shall look like.
pub(super) struct Place<'a> {
    pub(super) name: &'a str,
    pub(super) roboco: &'a Path,
    pub(super) tool_dirs: &'a [PathBuf],
    pub(super) mounts: &'a [Mount],
    pub(super) masks: &'a [PathBuf],
    /// `None` gives a home that is thrown away.
    pub(super) home: Option<&'a Path>,
    pub(super) door: Option<&'a Path>,
    pub(super) network: &'a Network,
    pub(super) cwd: &'a Path,
    pub(super) tmp_size: TmpSize,
}

/// Whether this bubblewrap can bound what lives in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TmpSize {
    Bounded,
    Unbounded,
}

/// Bounding came with version 0.7.
pub(super) fn tmp_size(version: &str) -> TmpSize {
    let mut numbers = version.rsplit(' ').next().unwrap_or("").split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= (0, 7) { TmpSize::Bounded } else { TmpSize::Unbounded }
}

/// What takes the place of a masked file: its empty content. The device itself would not do, since tools choke on a file that exists
/// and cannot be opened.
const NOTHING: &str = "/dev/null";

/// How bubblewrap is called.
#[derive(Debug)]
pub(super) struct Call {
    /// Everything before the program to run.
    pub(super) arguments: Vec<OsString>,
    /// The files that must be open for it. Its arguments name them as the bridge's `limit --open` does.
    pub(super) files: Vec<PathBuf>,
}

/// The call that makes a place.
pub(super) fn call(place: &Place<'_>) -> Result<Call, SandboxError> {
    let spec = |detail: String| SandboxError::Spec { name: place.name.to_owned(), detail };
    let mut words = isolation();
    match place.network {
        Network::Door(_) | Network::None => words.push("--unshare-net".into()),
        Network::Host { .. } => {}
    }
    let mut add = |parts: &[&dyn AsRef<Path>]| words.extend(parts.iter().map(|part| part.as_ref().as_os_str().to_owned()));
    let mut files = Vec::new();
    for part in mounts::system() {
        match part {
            SystemPart::Directory(path) => add(&[&"--ro-bind", &path, &path]),
            SystemPart::Link { path, target } => add(&[&"--symlink", &target, &path]),
            SystemPart::File(path) => {
                add(&[&"--file", &descriptor(&files), &path]);
                files.push(path);
            }
        }
    }
    add(&[&"--dev", &"/dev", &"--proc", &"/proc"]);
    let size = TMP_BYTES.to_string();
    let mut in_memory = vec!["/tmp"];
    match place.home {
        Some(home) => add(&[&"--bind", &home, &HOME]),
        None => in_memory.push(HOME),
    }
    for path in in_memory {
        if place.tmp_size == TmpSize::Bounded {
            add(&[&"--size", &size]);
        }
        add(&[&"--tmpfs", &path]);
    }

    let mut all: Vec<Mount> = place.tool_dirs.iter().map(|directory| Mount::same(directory, Access::ReadOnly)).collect();
    all.extend(place.mounts.iter().cloned());
    if !mounts::covers(&all, place.roboco) {
        all.push(Mount::same(place.roboco, Access::ReadOnly));
    }
    for mount in &all {
        if !mount.host.is_absolute() || !mount.inside.is_absolute() {
            return Err(spec(format!("a mount needs absolute paths, unlike {} at {}", mount.host.display(), mount.inside.display())));
        }
        if !mount.host.exists() {
            return Err(spec(format!("{} does not exist and cannot be mounted", mount.host.display())));
        }
    }
    // A mount inside another one must come after it. The sort is stable: of two at the same place the later wins.
    all.sort_by_key(|mount| mount.inside.components().count());
    for mount in &all {
        match mount.access {
            Access::ReadOnly => add(&[&"--ro-bind", &mount.host, &mount.inside]),
            Access::ReadWrite => add(&[&"--bind", &mount.host, &mount.inside]),
        }
    }
    if let Some(door) = place.door {
        if !door.exists() {
            return Err(spec(format!("there is no door at {}", door.display())));
        }
        add(&[&"--ro-bind", &door, &DOOR]);
    }
    for mask in masks(place, &all) {
        match mask {
            Mask::Directory(path) => add(&[&"--tmpfs", &path, &"--remount-ro", &path]),
            Mask::File(path) => {
                add(&[&"--ro-bind-data", &descriptor(&files), &path]);
                files.push(NOTHING.into());
            }
        }
    }
    add(&[&"--remount-ro", &"/", &"--chdir", &place.cwd]);
    Ok(Call { arguments: words, files })
}

/// What stands for the descriptor of the file that is added next.
fn descriptor(files: &[PathBuf]) -> String {
    format!("{{{{file {}}}}}", files.len())
}

#[derive(Debug, PartialEq, Eq)]
enum Mask {
    Directory(PathBuf),
    File(PathBuf),
}

/// What must look empty, of that which is seen at all: bubblewrap fails on the rest.
fn masks(place: &Place<'_>, all: &[Mount]) -> Vec<Mask> {
    let tools = mounts::credentials(place.tool_dirs);
    let wanted = place.masks.iter().chain(&tools);
    let found = wanted.filter_map(|mask| {
        let host = mounts::on_host(all, mask)?;
        let kind = host.symlink_metadata().ok()?;
        if kind.is_symlink() {
            // A link is hidden by hiding what it leads to, if that is seen.
            let target = host.canonicalize().ok().filter(|target| mounts::covers(all, target))?;
            return Some(if target.is_dir() { Mask::Directory(target) } else { Mask::File(target) });
        }
        Some(if kind.is_dir() { Mask::Directory(mask.clone()) } else { Mask::File(mask.clone()) })
    });
    found.collect()
}

/// A sandbox that shows everything and does nothing, to see whether one can be made.
pub(super) fn trial() -> Vec<OsString> {
    let mut words = isolation();
    words.extend(["--unshare-net", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"].map(OsString::from));
    words.extend(["--", "/bin/sh", "-c", ":"].map(OsString::from));
    words
}

/// What every sandbox is cut off from. `--die-with-parent` is a promise of the kernel to the thread that starts it.
fn isolation() -> Vec<OsString> {
    [
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--hostname",
        "sandbox",
        "--die-with-parent",
        "--new-session",
        // For a root server: bubblewrap would let its children keep root's rights inside.
        "--cap-drop",
        "ALL",
    ]
    .map(OsString::from)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(call: &Call) -> String {
        call.arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn nested_mounts_come_after_their_parents_and_masks_after_all() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        for directory in ["store", "store/tree", "tools", "home"] {
            std::fs::create_dir(path(directory)).unwrap();
        }
        std::fs::write(path("tools/credentials.toml"), "secret").unwrap();
        std::fs::write(path("store/tree/.env"), "secret").unwrap();
        std::fs::write(path("door"), "").unwrap();
        let mounts = [Mount::same(path("store/tree"), Access::ReadWrite), Mount::same(path("store"), Access::ReadOnly)];
        let network = Network::Door(path("door"));
        let (tool_dirs, masks, door, home, cwd) =
            ([path("tools")], [path("store/tree/.env"), path("absent")], path("door"), path("home"), path("store/tree"));
        let place = Place {
            name: "x",
            roboco: Path::new("/usr/bin/roboco"),
            tool_dirs: &tool_dirs,
            mounts: &mounts,
            masks: &masks,
            home: Some(&home),
            door: Some(&door),
            network: &network,
            cwd: &cwd,
            tmp_size: TmpSize::Bounded,
        };
        let call = call(&place).unwrap();
        let line = line(&call);
        let count = call.files.iter().filter(|file| *file != Path::new(NOTHING)).count();
        let (first, second) = (descriptor(&call.files[..count]), descriptor(&call.files[..=count]));
        assert_eq!(call.files[count..], [NOTHING, NOTHING].map(PathBuf::from));
        let at = |text: String| line.find(&text).unwrap_or_else(|| panic!("{text} is not in {line}"));
        let base = base.path().display();
        let order = [
            at("--unshare-net".into()),
            at("--ro-bind /usr /usr".into()),
            at("/etc/passwd".into()),
            at(format!("--bind {base}/home /home/agent")),
            at("--tmpfs /tmp".into()),
            at(format!("--ro-bind {base}/store {base}/store")),
            at(format!("--bind {base}/store/tree {base}/store/tree")),
            at(format!("--ro-bind {base}/door /run/roboco/door.sock")),
            at(format!("--ro-bind-data {first} {base}/store/tree/.env")),
            at(format!("--ro-bind-data {second} {base}/tools/credentials.toml")),
            at("--remount-ro / ".into()),
        ];
        assert!(order.is_sorted(), "{order:?} in {line}");
        assert!(!line.contains("absent") && !line.contains("setenv"));
    }

    #[test]
    fn a_mount_that_does_not_exist_is_named() {
        let mounts = [Mount::same("/no/such/place", Access::ReadOnly)];
        let place = Place {
            name: "x",
            roboco: Path::new("/usr/bin/roboco"),
            tool_dirs: &[],
            mounts: &mounts,
            masks: &[],
            home: None,
            door: None,
            network: &Network::None,
            cwd: Path::new("/"),
            tmp_size: TmpSize::Unbounded,
        };
        assert!(call(&place).unwrap_err().to_string().contains("/no/such/place does not exist"));
    }

    #[test]
    fn old_versions_cannot_bound_memory() {
        for (version, size) in [
            ("bubblewrap 0.8.0", TmpSize::Bounded),
            ("bubblewrap 0.11.0", TmpSize::Bounded),
            ("bubblewrap 1.0", TmpSize::Bounded),
            ("bubblewrap 0.4.1", TmpSize::Unbounded),
            ("", TmpSize::Unbounded),
        ] {
            assert_eq!(tmp_size(version), size, "{version}");
        }
    }
}
