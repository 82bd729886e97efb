//! Paths inside a repository: bytes inside, escaped text outside.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A path relative to the root of a repository, as git stores it. Any bytes but NUL; shown with odd bytes escaped.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoPath(Vec<u8>);

/// A text that cannot be a path in a repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path:?} cannot be used as a path: {why}")]
pub struct InvalidPath {
    /// What was given, cut to a safe length.
    pub path: String,
    /// What is wrong and what is accepted.
    pub why: &'static str,
}

impl RepoPath {
    /// Checks a path that somebody typed.
    ///
    /// # Errors
    /// `InvalidPath` for absolute paths, `..`, options, control characters and anything inside `.git`.
    pub fn parse(text: &str) -> Result<Self, InvalidPath> {
        let wrong = |why| InvalidPath { path: text.chars().take(200).collect(), why };
        let path = text.strip_prefix("./").unwrap_or(text).trim_end_matches('/');
        if path.is_empty() || path == "." {
            return Err(wrong("give a file or folder below the top of the repository"));
        }
        if text.starts_with('-') {
            return Err(wrong("it looks like an option; put ./ before it if the file really has this name"));
        }
        if path.starts_with('/') {
            return Err(wrong("give it relative to the top of the repository"));
        }
        if path.chars().any(char::is_control) {
            return Err(wrong("it contains control characters"));
        }
        for part in path.split('/') {
            if part.is_empty() || part == "." || part == ".." {
                return Err(wrong("`.`, `..` and empty parts are not accepted"));
            }
            if is_git_dir_name(part.as_bytes()) {
                return Err(wrong("git's own files cannot be committed"));
            }
        }
        Ok(Self(path.as_bytes().to_vec()))
    }

    pub(crate) fn from_git(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    /// The bytes as git stores them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Where the path lies below `root`.
    pub(crate) fn below(&self, root: &Path) -> PathBuf {
        root.join(OsStr::from_bytes(&self.0))
    }
}

impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&for_people(&self.0).replace(['\n', '\t'], "?"))
    }
}

impl fmt::Debug for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

/// Whether a path component means `.git` to git or to a file system that folds names.
pub(crate) fn is_git_dir_name(part: &[u8]) -> bool {
    let text = String::from_utf8_lossy(part).to_lowercase();
    // HFS+ ignores these characters; NTFS ignores trailing dots and blanks and knows short names and streams.
    let folded: String = text
        .chars()
        .filter(|c| !matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}'))
        .collect();
    let head = folded.split([':', '\\']).next().unwrap_or_default().trim_end_matches(['.', ' ']);
    matches!(head, ".git" | "git~1")
}

/// Bytes as text that cannot disturb a terminal, a page or a reader: invalid UTF-8 as `\xNN`, control and direction-changing
/// characters as `\u{…}`; line breaks and tabs stay.
pub(crate) fn for_people(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' | '\t' => text.push(c),
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200b}'..='\u{200f}' | '\u{feff}' => text.extend(c.escape_unicode()),
                c if c.is_control() => text.extend(c.escape_unicode()),
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// The first paths of a list, for a sentence.
pub(crate) fn some_paths(paths: &[RepoPath]) -> String {
    const SHOWN: usize = 5;
    let mut text = paths.iter().take(SHOWN).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if paths.len() > SHOWN {
        text.push_str(&format!(" and {} more", paths.len() - SHOWN));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_paths_stay_inside_and_away_from_git() {
        for good in ["a", "src/main.rs", "./a b", "ä/ö", "dir/", ".github/x", "a.git/b", ".gitignore", "./-x"] {
            assert!(RepoPath::parse(good).is_ok(), "{good}");
        }
        let bad = ["", ".", "./", "/etc/passwd", "../x", "a/../b", "--all", "-x", ".git/config", ".GIT/hooks/a", "a/.git", ".git./x"];
        for bad in bad.into_iter().chain(["GIT~1/x", ".git::$INDEX_ALLOCATION", ".g\u{200c}it/x", "a\nb", "a//b", "a\0b"]) {
            assert!(RepoPath::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn odd_bytes_are_shown_escaped() {
        for (bytes, shown) in [
            (&b"plain"[..], "plain"),
            (b"n\xff\xfe", "n\\xff\\xfe"),
            ("ü".as_bytes(), "ü"),
            (b"a\x1b[2J", "a\\u{1b}[2J"),
            ("x\u{202e}y".as_bytes(), "x\\u{202e}y"),
            (b"a\nb", "a?b"),
        ] {
            assert_eq!(RepoPath::from_git(bytes).to_string(), shown);
        }
    }
}
