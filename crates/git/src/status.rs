//! What in a tree differs from its commit.

use crate::error::GitError;
use crate::git::Call;
use crate::path::RepoPath;

/// Paths that are listed at most; a build folder that nobody ignores can hold a million files.
const LISTED: usize = 1000;
/// Bytes of git's list that are read.
const LIST_BYTES: usize = 4 * 1024 * 1024;

/// Which changes count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Untracked {
    Counts,
    Ignored,
}

/// Lists the changed paths. Submodules are never entered: git would obey the configuration found inside them.
///
/// `call` is already pointed at a tree.
pub(crate) async fn dirty(call: Call<'_>, untracked: Untracked) -> Result<Vec<RepoPath>, GitError> {
    let files = match untracked {
        Untracked::Counts => "--untracked-files=all",
        Untracked::Ignored => "--untracked-files=no",
    };
    let call = call.args(["status", "--porcelain=v2", "-z", "--ignore-submodules=all", "--no-renames", files]);
    let answer = call.keep(LIST_BYTES).answer().await?;
    if answer.code != Some(0) {
        return Err(GitError::Command { doing: "looking for changes".to_owned(), said: answer.said });
    }
    let bytes = answer.stdout.into_bytes();
    Ok(bytes.split(|b| *b == 0).filter_map(changed_path).take(LISTED).collect())
}

fn changed_path(entry: &[u8]) -> Option<RepoPath> {
    let fields = match entry.first()? {
        b'1' => 8,
        b'u' => 10,
        b'?' => 1,
        _ => return None,
    };
    let path = entry.splitn(fields + 1, |b| *b == b' ').nth(fields)?;
    Some(RepoPath::from_git(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_every_kind_of_line() {
        for (line, path) in [
            ("1 .M N... 100644 100644 100644 aaa bbb a b.txt", Some("a b.txt")),
            ("u UU N... 1 2 3 4 aaa bbb ccc x/y", Some("x/y")),
            ("? new file", Some("new file")),
            ("# branch.oid abc", None),
            ("", None),
        ] {
            assert_eq!(changed_path(line.as_bytes()).map(|p| p.to_string()).as_deref(), path, "{line}");
        }
    }
}
