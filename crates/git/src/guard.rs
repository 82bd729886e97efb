//! What may not be committed, decided on what git is about to store rather than on the files an agent still holds.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::error::GitError;
use crate::git::Git;
use crate::glob::PathGlob;
use crate::path::{RepoPath, is_git_dir_name};
use crate::secrets::{SecretKind, scan};

/// Largest file that is accepted, in bytes.
pub(crate) const FILE_BYTES: u64 = 5 * 1024 * 1024;
/// Problems that are reported at most; the first ones tell enough.
const REPORTED: usize = 50;

/// One reason why a commit was refused. Every text says what to do; no text holds the secret it speaks of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitProblem {
    /// An added line holds a secret.
    #[error(
        "{path}:{line} holds {kind} ({fingerprint}): take it out and read it from the environment; if it is harmless, ask for a waiver"
    )]
    Secret {
        /// The file.
        path: RepoPath,
        /// The line in the new version.
        line: u64,
        /// The kind of secret.
        kind: SecretKind,
        /// Names the secret in a waiver without showing it.
        fingerprint: String,
    },
    /// The path may only be changed with a grant.
    #[error("{path} is protected by `{glob}`: undo this change, or ask for a grant for this path")]
    Protected {
        /// The file.
        path: RepoPath,
        /// The pattern that covers it.
        glob: String,
    },
    /// A submodule or a nested repository would be added, changed or removed.
    #[error("{path} is a repository of its own: nested repositories and submodules cannot be changed here; move it out of the tree")]
    Gitlink {
        /// The folder.
        path: RepoPath,
    },
    /// A symbolic link leads out of the repository.
    #[error("{path} is a link that leads out of the repository: link to something inside, or copy it")]
    LinkOutside {
        /// The link.
        path: RepoPath,
    },
    /// A file is too large.
    #[error(
        "{path} has {bytes} bytes; at most {FILE_BYTES} are accepted: remove it, make it smaller, or add it to .gitignore and generate it"
    )]
    TooLarge {
        /// The file.
        path: RepoPath,
        /// Its size.
        bytes: u64,
    },
    /// A file that belongs to the machine or to a tool.
    #[error("{path} does not belong into a repository: add it to .gitignore")]
    Junk {
        /// The file.
        path: RepoPath,
    },
    /// Conflict markers are still in the file.
    #[error("{path}:{line} still has conflict markers: resolve the conflict, remove the markers, then commit")]
    ConflictMarkers {
        /// The file.
        path: RepoPath,
        /// Where they start.
        line: u64,
    },
    /// A path that was asked for cannot be committed.
    #[error("{path:?} cannot be committed: {why}")]
    BadPath {
        /// As it was given.
        path: String,
        /// Why, and what to do.
        why: String,
    },
    /// More was changed than can be checked.
    #[error("this change is too large to be checked: commit it in smaller parts, and keep generated files out")]
    TooMuch,
}

/// What the guard goes by.
pub(crate) struct Rules<'a> {
    pub(crate) protect: &'a [PathGlob],
    pub(crate) granted: &'a [PathGlob],
    /// Fingerprints of secrets that a person has waived.
    pub(crate) waived: &'a [String],
    /// Only these paths are judged; `None` judges all. In a merge, what came in unchanged was judged where it came from.
    pub(crate) only: Option<&'a HashSet<RepoPath>>,
}

impl Change {
    /// Whether content of this repository would be committed.
    fn is_stored(&self) -> bool {
        self.status != b'D' && self.new_mode != GITLINK
    }
}

/// The difference between two trees as git prints it.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) files: Vec<Change>,
    pub(crate) insertions: u64,
    pub(crate) deletions: u64,
    patch: Vec<u8>,
}

/// One changed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) path: RepoPath,
    old_mode: Vec<u8>,
    new_mode: Vec<u8>,
    /// The new content, by the id git printed.
    object: Vec<u8>,
    status: u8,
}

/// The sizes in bytes of stored objects, by id.
#[derive(Debug, Default)]
pub(crate) struct Sizes(HashMap<Vec<u8>, u64>);

impl Sizes {
    /// Asks git how large the content of these changes is in the store. An object that is missing has no size.
    pub(crate) async fn of(git: &Git, store: &Path, changes: &Changes) -> Result<Self, GitError> {
        let objects = changes.objects();
        if objects.is_empty() {
            return Ok(Self::default());
        }
        let call = git.call("measuring the changes").on(store).args(["cat-file", "--batch-check=%(objectname) %(objectsize)"]);
        Ok(Self::read(&call.stdin(objects).run().await?))
    }

    fn read(bytes: &[u8]) -> Self {
        let lines = String::from_utf8_lossy(bytes);
        let sizes = lines.lines().filter_map(|line| line.split_once(' '));
        Self(sizes.filter_map(|(id, size)| Some((id.as_bytes().to_vec(), size.parse().ok()?))).collect())
    }
}

const GITLINK: &[u8] = b"160000";
const SYMLINK: &[u8] = b"120000";

/// The arguments of the diff that [`Changes::read`] reads. Attributes of the repository cannot hide a file from it.
pub(crate) const DIFF_ARGS: &[&str] = &[
    "diff-tree",
    "-r",
    "-z",
    "--raw",
    "--numstat",
    "-p",
    "-U0",
    "--no-renames",
    "--text",
    "--no-ext-diff",
    "--no-textconv",
    "--full-index",
    "--ignore-submodules=none",
    "--no-color",
];

impl Changes {
    /// Reads raw lines, counts and patch.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, GitError> {
        let odd = || GitError::broken("reading the changes", "git printed something unexpected; check the git version");
        let mut changes = Self::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = rest.iter().position(|b| *b == 0).ok_or_else(odd)?;
            let (entry, after) = (rest.get(..end).unwrap_or_default(), rest.get(end + 1..).unwrap_or_default());
            rest = after;
            if entry.is_empty() {
                changes.patch = rest.to_vec();
                break;
            }
            if let Some(raw) = entry.strip_prefix(b":") {
                let fields: Vec<&[u8]> = raw.split(|b| *b == b' ').collect();
                let [old_mode, new_mode, _, object, status] = fields.as_slice() else { return Err(odd()) };
                let end = rest.iter().position(|b| *b == 0).ok_or_else(odd)?;
                let path = RepoPath::from_git(rest.get(..end).unwrap_or_default());
                rest = rest.get(end + 1..).unwrap_or_default();
                let status = status.first().copied().unwrap_or(b'?');
                let [old_mode, new_mode, object] = [old_mode, new_mode, object].map(|field| field.to_vec());
                changes.files.push(Change { path, old_mode, new_mode, object, status });
            } else {
                let mut counts = entry.splitn(3, |b| *b == b'\t').map(|n| std::str::from_utf8(n).ok().and_then(|n| n.parse::<u64>().ok()));
                changes.insertions += counts.next().flatten().unwrap_or(0);
                changes.deletions += counts.next().flatten().unwrap_or(0);
            }
        }
        Ok(changes)
    }

    /// The ids of all content that would be committed, one a line.
    fn objects(&self) -> Vec<u8> {
        let stored: HashSet<&[u8]> = self.files.iter().filter(|change| change.is_stored()).map(|change| change.object.as_slice()).collect();
        stored.into_iter().flat_map(|object| [object, b"\n"].concat()).collect()
    }

    /// Everything that speaks against committing these changes. `sizes` are those of the new content; what has none is refused.
    pub(crate) fn problems(&self, sizes: &Sizes, rules: &Rules<'_>) -> Vec<CommitProblem> {
        let judged = |path: &RepoPath| rules.only.is_none_or(|only| only.contains(path));
        let mut problems: Vec<CommitProblem> = Vec::new();
        for change in self.files.iter().filter(|change| judged(&change.path)) {
            problems.extend(path_problem(change, sizes, rules));
        }
        problems.extend(self.line_problems(rules).into_iter().filter(|(path, _)| judged(path)).map(|(_, problem)| problem));
        problems.truncate(REPORTED);
        problems
    }

    /// Whether a repository inside the tree was added or moved; its content is then not part of the tree.
    pub(crate) fn has_nested_repository(&self) -> bool {
        self.files.iter().any(|change| change.new_mode == GITLINK)
    }

    fn line_problems(&self, rules: &Rules<'_>) -> Vec<(RepoPath, CommitProblem)> {
        // Git prints one section per file in the order of the raw lines, two when the kind of file changed.
        let mut sections = self.files.iter().flat_map(|change| std::iter::repeat_n(change, if change.status == b'T' { 2 } else { 1 }));
        let mut found = Vec::new();
        let mut file: Option<&Change> = None;
        let mut markers = Markers::default();
        let (mut removed, mut added, mut line) = (0_u64, 0_u64, 0_u64);
        for text in self.patch.split(|b| *b == b'\n') {
            if removed == 0 && added == 0 {
                if text.starts_with(b"diff --git ") {
                    file = sections.next();
                    markers = Markers::default();
                } else if let Some((old, new, at)) = hunk(text) {
                    (removed, added, line) = (old, new, at);
                }
                continue;
            }
            match (text.first(), file) {
                (Some(b'-'), _) => removed = removed.saturating_sub(1),
                (Some(b'+'), Some(change)) => {
                    let content = text.get(1..).unwrap_or_default();
                    let problem = added_line(change, content, line, &mut markers, rules);
                    found.extend(problem.into_iter().map(|problem| (change.path.clone(), problem)));
                    added = added.saturating_sub(1);
                    line += 1;
                }
                _ => {}
            }
            if found.len() >= REPORTED {
                break;
            }
        }
        found
    }
}

/// Removed lines, added lines, first added line of a hunk header.
fn hunk(text: &[u8]) -> Option<(u64, u64, u64)> {
    let text = std::str::from_utf8(text.get(..text.len().min(100))?).ok().or_else(|| {
        // The rest of the header line quotes a line of the file, which may be cut inside a character.
        text.utf8_chunks().next().map(|chunk| chunk.valid())
    })?;
    let mut words = text.strip_prefix("@@ -")?.split(' ');
    let count = |range: &str| range.split_once(',').map_or(Some(1), |(_, count)| count.parse().ok());
    let old = count(words.next()?)?;
    let range = words.next()?.strip_prefix('+')?;
    let start = range.split(',').next()?.parse().ok()?;
    Some((old, count(range)?, start))
}

/// How far into a conflict the lines of a file have led.
#[derive(Debug, Default)]
struct Markers {
    start: Option<u64>,
    middle: bool,
}

fn added_line(change: &Change, content: &[u8], line: u64, markers: &mut Markers, rules: &Rules<'_>) -> Vec<CommitProblem> {
    let path = &change.path;
    if change.new_mode == SYMLINK {
        return if leads_out(path, content) { vec![CommitProblem::LinkOutside { path: path.clone() }] } else { Vec::new() };
    }
    let secrets = scan(content).into_iter().filter(|found| !rules.waived.contains(&found.fingerprint));
    let mut problems: Vec<CommitProblem> =
        secrets.map(|found| CommitProblem::Secret { path: path.clone(), line, kind: found.kind, fingerprint: found.fingerprint }).collect();
    if content.starts_with(b"<<<<<<< ") {
        *markers = Markers { start: Some(line), middle: false };
    } else if content.trim_ascii_end() == b"=======" {
        markers.middle = markers.start.is_some();
    } else if content.starts_with(b">>>>>>> ")
        && markers.middle
        && let Some(line) = markers.start.take()
    {
        problems.push(CommitProblem::ConflictMarkers { path: path.clone(), line });
    }
    problems
}

fn path_problem(change: &Change, sizes: &Sizes, rules: &Rules<'_>) -> Option<CommitProblem> {
    let path = change.path.clone();
    if change.new_mode == GITLINK || change.old_mode == GITLINK {
        return Some(CommitProblem::Gitlink { path });
    }
    if path.as_bytes().split(|b| *b == b'/').any(is_git_dir_name) {
        return Some(CommitProblem::BadPath { path: path.to_string(), why: "git's own files cannot be committed".to_owned() });
    }
    if let Some(glob) = rules.protect.iter().find(|glob| glob.matches(&path))
        && !rules.granted.iter().any(|granted| granted.matches(&path))
    {
        return Some(CommitProblem::Protected { path, glob: glob.to_string() });
    }
    if change.status == b'D' {
        return None;
    }
    if change.status == b'A' && is_junk(path.as_bytes()) {
        return Some(CommitProblem::Junk { path });
    }
    // The size of what was stored, not of the file: the agent may have written to that one since.
    let bytes = sizes.0.get(&change.object).copied().unwrap_or(u64::MAX);
    (bytes > FILE_BYTES).then_some(CommitProblem::TooLarge { path, bytes })
}

fn is_junk(path: &[u8]) -> bool {
    const FOLDERS: &[&[u8]] = &[b"node_modules", b".venv", b"__pycache__"];
    const SAMPLES: &[&[u8]] = &[b".example", b".sample", b".template", b".dist", b".test"];
    let mut parts = path.split(|b| *b == b'/').rev();
    let name = parts.next().unwrap_or_default();
    let env = (name == b".env" || name.starts_with(b".env.")) && !SAMPLES.iter().any(|end| name.ends_with(end));
    env || name == b".DS_Store" || parts.any(|part| FOLDERS.contains(&part))
}

/// Whether a link at `path` with this target leaves the repository or enters git's own files.
fn leads_out(path: &RepoPath, target: &[u8]) -> bool {
    if target.starts_with(b"/") {
        return true;
    }
    let mut depth = path.as_bytes().split(|b| *b == b'/').count() - 1;
    for part in target.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => match depth.checked_sub(1) {
                Some(up) => depth = up,
                None => return true,
            },
            part if is_git_dir_name(part) => return true,
            _ => depth += 1,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_may_not_leave() {
        for (path, target, out) in [
            ("a", "b", false),
            ("d/a", "../b", false),
            ("d/a", "../../b", true),
            ("a", "..", true),
            ("a", "/etc/passwd", true),
            ("d/e/a", "../../x/../y", false),
            ("a", "x/../../y", true),
            ("a", ".git/config", true),
        ] {
            assert_eq!(leads_out(&RepoPath::from_git(path.as_bytes()), target.as_bytes()), out, "{path} -> {target}");
        }
    }

    #[test]
    fn junk_is_known_by_name() {
        for (path, junk) in [
            (".env", true),
            ("api/.env.production", true),
            (".env.example", false),
            ("web/node_modules/x/index.js", true),
            ("node_modules.md", false),
            (".DS_Store", true),
            ("src/environment.rs", false),
        ] {
            assert_eq!(is_junk(path.as_bytes()), junk, "{path}");
        }
    }

    #[test]
    fn hunk_headers_are_counted() {
        for (text, read) in [
            ("@@ -1 +1,2 @@", Some((1, 2, 1))),
            ("@@ -3,0 +4 @@ fn x()", Some((0, 1, 4))),
            ("@@ -0,0 +1,12 @@", Some((0, 12, 1))),
            ("@@ x", None),
            ("+@@ -1 +1 @@", None),
        ] {
            assert_eq!(hunk(text.as_bytes()), read, "{text}");
        }
    }

    #[test]
    fn lines_that_look_like_headers_do_not_shift_the_place() {
        let token = format!("ghp_{}", "a1B2c3D4e5f6".repeat(3));
        let raw = ":100644 100644 0 0 M\0a.txt\0:000000 100644 0 0 A\0b.txt\x001\t1\ta.txt\x003\t0\tb.txt\0\0";
        let patch = format!(
            "diff --git a/a.txt b/a.txt\nindex 0..1 100644\n--- a/a.txt\n+++ b/a.txt\n@@ -5 +7 @@ x\n--- old\n+++ {token}\n\
             diff --git a/b.txt b/b.txt\n--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1,3 @@\n+diff --git a/x b/x\n+@@ -1 +9,9 @@\n+{token}\n"
        );
        let changes = Changes::read(format!("{raw}{patch}").as_bytes()).unwrap();
        assert_eq!((changes.files.len(), changes.insertions, changes.deletions), (2, 4, 1));
        let rules = Rules { protect: &[], granted: &[], waived: &[], only: None };
        assert_eq!(changes.objects(), b"0\n");
        let places: Vec<String> =
            changes.problems(&Sizes::read(b"0 40\n"), &rules).iter().map(|p| p.to_string().split(' ').next().unwrap().to_owned()).collect();
        assert_eq!(places, ["a.txt:7", "b.txt:3"]);
        let unknown = changes.problems(&Sizes::read(b"0 missing\n"), &rules);
        assert!(matches!(unknown.first(), Some(CommitProblem::TooLarge { .. })), "what cannot be measured is not committed: {unknown:?}");
    }
}
