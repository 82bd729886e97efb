//! The private home of an agent. Its agent may leave anything in it; what we put there replaces that, and no link in it is followed.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path};

use roboco_company::fault::Fault;
use roboco_providers::HomeFile;
use secrecy::ExposeSecret as _;

/// Makes a home, or closes an old one to other users.
///
/// # Errors
/// A passing fault when the disk does not take it.
pub(crate) fn make(path: &Path) -> Result<(), Fault> {
    let made = fs::create_dir_all(path).and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o700)));
    made.map_err(|e| Fault::passing(format!("creating {}: {e}", path.display())))
}

/// Writes a client's files. No client runs in this home meanwhile: a seat has one run at a time.
///
/// # Errors
/// A passing fault when the disk does not take them; a lasting one for a file whose path leads out of the home as it is written.
pub(crate) fn write(home: &Path, files: &[HomeFile]) -> Result<(), Fault> {
    for file in files {
        let path = Path::new(&file.path);
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(Fault::lasting(format!("the client wants a file outside its home: {}", path.display())));
        }
        put(home, path, file).map_err(|e| Fault::passing(format!("writing {}: {e}", home.join(path).display())))?;
    }
    Ok(())
}

fn put(home: &Path, path: &Path, file: &HomeFile) -> io::Result<()> {
    let mut folder = home.to_owned();
    for part in path.parent().into_iter().flat_map(Path::components) {
        folder.push(part);
        own_folder(&folder)?;
    }
    let path = home.join(path);
    clear(&path)?;
    let mut handle = OpenOptions::new().write(true).create_new(true).mode(file.mode).open(&path)?;
    handle.write_all(file.content.expose_secret().as_bytes())
}

/// Makes a folder that is one: a link or a file in its place is removed, a folder stays with what is in it.
fn own_folder(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => return fs::set_permissions(path, Permissions::from_mode(0o700)),
        Ok(_) => fs::remove_file(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    DirBuilder::new().mode(0o700).create(path)
}

/// Frees a name in the home.
fn clear(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    removed.or_else(|error| {
        // Its owner may have closed a folder in it to everybody; within one folder it can be moved all the same.
        let aside = path.with_file_name(format!(".aside-{}", uuid::Uuid::now_v7().simple()));
        tracing::warn!(%error, path = %path.display(), aside = %aside.display(), "what an agent left cannot be removed; moving it aside");
        fs::rename(path, aside)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn files() -> [HomeFile; 2] {
        [".roboco/mcp.json", ".claude/a/settings.json"].map(|path| HomeFile { path: path.into(), content: "ours".into(), mode: 0o600 })
    }

    #[test]
    fn nothing_an_agent_leaves_in_its_home_stops_its_next_run() {
        type Sabotage = fn(&Path, &Path) -> io::Result<()>;
        let cases: [(&str, Sabotage); 9] = [
            ("nothing", |_, _| Ok(())),
            ("a folder in place of a file", |home, _| fs::create_dir_all(home.join(".roboco/mcp.json/deep/er"))),
            ("a link in place of the folder", |home, outside| symlink(outside, home.join(".roboco"))),
            ("a link to the root", |home, _| symlink("/", home.join(".roboco"))),
            ("a link to nowhere", |home, _| symlink("/no/such/place", home.join(".roboco"))),
            ("a link to itself", |home, _| symlink(".roboco", home.join(".roboco"))),
            ("a file in place of the folder", |home, _| fs::write(home.join(".roboco"), "mine")),
            ("a link in place of a file", |home, outside| {
                fs::create_dir(home.join(".roboco"))?;
                symlink(outside.join("theirs"), home.join(".roboco/mcp.json"))
            }),
            ("a folder closed to its owner", |home, _| {
                fs::create_dir_all(home.join(".roboco/mcp.json/closed"))?;
                fs::write(home.join(".roboco/mcp.json/closed/file"), "mine")?;
                fs::set_permissions(home.join(".roboco/mcp.json/closed"), Permissions::from_mode(0o000))?;
                fs::set_permissions(home.join(".roboco"), Permissions::from_mode(0o000))
            }),
        ];
        for (what, sabotage) in cases {
            let dir = tempfile::tempdir().unwrap();
            let (home, outside) = (dir.path().join("homes/be-dev-1"), dir.path().join("outside"));
            make(&home).unwrap();
            fs::create_dir(&outside).unwrap();
            fs::write(outside.join("theirs"), "theirs").unwrap();
            fs::create_dir(home.join(".claude")).unwrap();
            fs::write(home.join(".claude/conversation"), "kept").unwrap();
            sabotage(&home, &outside).unwrap();

            write(&home, &files()).unwrap_or_else(|fault| panic!("{what}: {fault}"));

            for file in files() {
                let path = home.join(&file.path);
                assert_eq!(fs::read_to_string(&path).unwrap(), "ours", "{what}");
                assert_eq!(path.canonicalize().unwrap(), home.canonicalize().unwrap().join(&file.path), "{what}: no link is left");
                assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            }
            assert_eq!(fs::read_to_string(home.join(".claude/conversation")).unwrap(), "kept", "{what}");
            let left: Vec<_> = fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(left, ["theirs"], "{what}: nothing is written outside");
            assert_eq!(fs::read_to_string(outside.join("theirs")).unwrap(), "theirs", "{what}");
        }
    }

    #[test]
    fn a_file_outside_the_home_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["../mcp.json", "/tmp/mcp.json", "a/../../b"] {
            let file = HomeFile { path: path.into(), content: "ours".into(), mode: 0o600 };
            assert!(!write(dir.path(), &[file]).unwrap_err().retryable, "{path}");
        }
    }
}
