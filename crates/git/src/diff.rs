//! Showing changes and history to agents and people.

use roboco_domain::id::ProjectId;
use roboco_domain::limits::EVIDENCE_BUILD;
use roboco_domain::time::Timestamp;
use roboco_domain::vcs::{Base, Oid};

use crate::error::GitError;
use crate::objects::oid;
use crate::path::{RepoPath, for_people};
use crate::repos::Repos;

/// Bytes of a diff that are read; a file further back than this is listed, but its lines are not shown.
const READ_BYTES: usize = 32 * 1024 * 1024;
/// Longest line that is shown in full, in characters. One minified file must not fill a whole evidence pack.
const LINE_CHARS: usize = 2000;

/// What changed between a base and a head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diff {
    /// Every changed file.
    pub files: Vec<FileStat>,
    /// One line per file and a total, for people.
    pub stat: String,
    /// The unified diff, cleaned for people, cut at the cap.
    pub text: String,
    /// Whether lines of the diff are missing from `text`.
    pub truncated: bool,
}

/// One changed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStat {
    /// Its path; the new one if it was renamed.
    pub path: RepoPath,
    /// Its path before it was renamed.
    pub renamed_from: Option<RepoPath>,
    /// Added and removed lines; `None` for binary files.
    pub lines: Option<(u64, u64)>,
}

/// One commit, for lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitInfo {
    /// The commit.
    pub oid: Oid,
    /// Its parents; two for a merge.
    pub parents: Vec<Oid>,
    /// Name of the author.
    pub author: String,
    /// E-mail address of the author.
    pub email: String,
    /// When it was authored, in whole seconds.
    pub at: Timestamp,
    /// First line of the message.
    pub subject: String,
}

impl Repos {
    /// What `head` adds since it left `base`: the changes since their common ancestor. At most `cap_chars` characters of text.
    ///
    /// Two parts of one whole that both brought in the same newer origin leave several such ancestors; then it is what merging `head`
    /// would change in `base`, because against any one of them the work of others would show too.
    ///
    /// # Errors
    /// Faults of git, or commits that are not there.
    pub async fn diff(&self, project: ProjectId, base: &Oid, head: &Oid, cap_chars: usize) -> Result<Diff, GitError> {
        let store = self.store(project)?;
        let doing = format!("comparing {} with {}", head.short(), base.short());
        let call = self.git.call(doing.clone()).on(&store.dir).deadline(EVIDENCE_BUILD).args(["diff", "--numstat", "-z", "-p"]);
        let call =
            call.args(["--find-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short", "--ignore-submodules=none"]);
        let call = call.keep(READ_BYTES);
        let mut answer = call.clone().args(["--merge-base", base.as_str(), head.as_str(), "--"]).answer().await?;
        if answer.code != Some(0) && answer.said.contains("multiple merge bases") {
            let merged = self.merge(&store, base, head).await?.tree;
            answer = call.args([base.as_str(), merged.as_str(), "--"]).answer().await?;
        }
        if answer.code != Some(0) {
            return Err(GitError::Command { doing, said: answer.said });
        }
        let cut = answer.stdout.is_truncated();
        let bytes = answer.stdout.into_bytes();
        let (files, patch) = read_counts(&bytes);
        let (text, shortened) = shorten(&for_people(patch), cap_chars);
        Ok(Diff { stat: stat_text(&files), files, text, truncated: cut || shortened })
    }

    /// The commits of `head` that are not in `base`, newest first, at most a thousand.
    ///
    /// # Errors
    /// Faults of git, or commits that are not there.
    pub async fn commits(&self, project: ProjectId, base: &Oid, head: &Oid) -> Result<Vec<CommitInfo>, GitError> {
        let store = self.store(project)?;
        let format = "--format=%H%x1f%P%x1f%an%x1f%ae%x1f%at%x1f%s";
        let call = self.git.call("listing commits").on(&store.dir).args(["log", "-z", "-n", "1000", format]);
        let bytes = call.args([format!("{base}..{head}"), "--".to_owned()]).run().await?;
        bytes.split(|b| *b == 0).filter(|entry| !entry.is_empty()).map(read_commit).collect()
    }

    /// The last `count` commits of a target as a drawing, as they were last seen.
    ///
    /// # Errors
    /// `NoBranch` when the target does not exist.
    pub async fn log_graph(&self, project: ProjectId, target: &Base, count: usize) -> Result<String, GitError> {
        let store = self.store(project)?;
        let tip = store.tip(target)?;
        let call = self.git.call("drawing the history").on(&store.dir);
        let args = ["log", "--graph", "--no-color", "--no-decorate", "--abbrev=10", "--format=%h %s (%an)"];
        let bytes = call.args(args).arg(format!("--max-count={count}")).args([tip.as_str(), "--"]).run().await?;
        Ok(for_people(&bytes))
    }

    /// One file as it is in a commit, at most `cap` bytes; `None` when there is no such file.
    ///
    /// # Errors
    /// Faults of git.
    pub async fn read_file(&self, project: ProjectId, commit: &Oid, path: &RepoPath, cap: usize) -> Result<Option<Vec<u8>>, GitError> {
        let store = self.store(project)?;
        let mut spec = std::ffi::OsString::from(format!("{commit}:"));
        spec.push(std::os::unix::ffi::OsStrExt::from_bytes(path.as_bytes()) as &std::ffi::OsStr);
        let answer =
            self.git.call(format!("reading {path}")).on(&store.dir).args(["cat-file", "blob"]).arg(spec).keep(cap).answer().await?;
        match answer.code {
            Some(0) => {
                let mut bytes = answer.stdout.into_bytes();
                bytes.truncate(cap);
                Ok(Some(bytes))
            }
            _ if answer.said.contains("does not exist in") || answer.said.contains("exists on disk, but not in") => Ok(None),
            _ => Err(GitError::Command { doing: format!("reading {path}"), said: answer.said }),
        }
    }
}

/// The counts at the start of the output, and the patch behind them.
fn read_counts(bytes: &[u8]) -> (Vec<FileStat>, &[u8]) {
    let mut files = Vec::new();
    let mut rest = bytes;
    let mut next = || -> Option<&[u8]> {
        let end = rest.iter().position(|b| *b == 0)?;
        let field = rest.get(..end)?;
        rest = rest.get(end + 1..)?;
        Some(field)
    };
    while let Some(entry) = next() {
        let fields: Vec<&[u8]> = entry.splitn(3, |b| *b == b'\t').collect();
        let [added, removed, path] = fields.as_slice() else { break };
        let number = |n: &[u8]| std::str::from_utf8(n).ok().and_then(|n| n.parse().ok());
        let (renamed_from, path) = if path.is_empty() {
            (next().map(RepoPath::from_git), next().map(RepoPath::from_git))
        } else {
            (None, Some(RepoPath::from_git(path)))
        };
        files.extend(path.map(|path| FileStat { path, renamed_from, lines: number(added).zip(number(removed)) }));
    }
    (files, rest)
}

fn stat_text(files: &[FileStat]) -> String {
    let mut text = String::new();
    let (mut added, mut removed) = (0, 0);
    for FileStat { path, renamed_from, lines } in files {
        let from = renamed_from.as_ref().map(|from| format!(" (was {from})")).unwrap_or_default();
        match lines {
            Some((plus, minus)) => {
                added += plus;
                removed += minus;
                text.push_str(&format!("{path}{from}  +{plus} -{minus}\n"));
            }
            None => {
                text.push_str(&format!("{path}{from}  binary\n"));
            }
        }
    }
    text.push_str(&format!("{} files, +{added} -{removed}", files.len()));
    text
}

/// Cuts long lines, then the whole; says whether anything is missing.
fn shorten(text: &str, cap_chars: usize) -> (String, bool) {
    let mut short = String::new();
    let mut room = cap_chars;
    let mut cut = false;
    for line in text.split_inclusive('\n') {
        let length = line.chars().count();
        let line = if length > LINE_CHARS {
            cut = true;
            let start: String = line.chars().take(LINE_CHARS).collect();
            format!("{start} [… {} more characters]\n", length - LINE_CHARS)
        } else {
            line.to_owned()
        };
        let length = line.chars().count();
        if length > room {
            short.extend(line.chars().take(room));
            return (short, true);
        }
        room -= length;
        short.push_str(&line);
    }
    (short, cut)
}

fn read_commit(entry: &[u8]) -> Result<CommitInfo, GitError> {
    let text = for_people(&entry.iter().map(|b| if *b == 0x1f { b'\n' } else { *b }).collect::<Vec<_>>());
    let fields: Vec<&str> = text.trim_start_matches('\n').splitn(6, '\n').collect();
    let [commit, parents, author, email, at, subject] = fields.as_slice() else {
        return Err(GitError::broken("listing commits", "git printed something unexpected; check the git version"));
    };
    Ok(CommitInfo {
        oid: oid(commit)?,
        parents: parents.split_whitespace().map(oid).collect::<Result<_, _>>()?,
        author: (*author).to_owned(),
        email: (*email).to_owned(),
        at: Timestamp::from_millis(at.parse::<i64>().unwrap_or(0).saturating_mul(1000)),
        subject: subject.trim_end().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renames_and_binaries_are_counted() {
        let bytes = b"1\t2\tsrc/a b.rs\0-\t-\tlogo.png\x003\t0\t\0old.txt\0new.txt\0\0diff --git a b\n";
        let (files, patch) = read_counts(bytes);
        assert_eq!(patch, b"diff --git a b\n");
        assert_eq!(stat_text(&files), "src/a b.rs  +1 -2\nlogo.png  binary\nnew.txt (was old.txt)  +3 -0\n3 files, +4 -2");
    }

    #[test]
    fn long_lines_and_long_texts_are_cut() {
        for (text, cap, short, cut) in
            [("a\nb\n", 10, "a\nb\n", false), ("abcdef\n", 3, "abc", true), ("", 5, "", false), ("ää\n", 3, "ää\n", false)]
        {
            assert_eq!(shorten(text, cap), (short.to_owned(), cut), "{text}");
        }
        let (short, cut) = shorten(&format!("{}\nend\n", "x".repeat(10_000_000)), 20_000);
        assert!(cut && short.len() < 2100 && short.ends_with("\nend\n"));
    }
}
