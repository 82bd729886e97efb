//! Patterns for protected paths.

use std::fmt;
use std::str::FromStr;

use crate::path::RepoPath;

/// A pattern for paths in a repository: `*` and `?` inside a name, `**` across folders. A pattern without a slash matches the name in
/// any folder; one that matches a folder matches everything in it. Upper and lower case are the same, because on some machines they are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PathGlob(String);

/// A text that is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no path pattern: write it relative to the top of the repository, like `.github/workflows/**` or `CODEOWNERS`")]
pub struct InvalidGlob(String);

impl PathGlob {
    /// Checks and wraps a pattern.
    ///
    /// # Errors
    /// `InvalidGlob` for empty, absolute and over-long patterns, and those with `..` or control characters.
    pub fn new(pattern: &str) -> Result<Self, InvalidGlob> {
        let ok = !pattern.is_empty()
            && pattern.len() <= 500
            && !pattern.starts_with('/')
            && !pattern.chars().any(char::is_control)
            && pattern.split('/').all(|part| part != "..");
        if ok { Ok(Self(pattern.trim_end_matches('/').to_owned())) } else { Err(InvalidGlob(pattern.chars().take(120).collect())) }
    }

    /// Whether the pattern covers `path`.
    pub fn matches(&self, path: &RepoPath) -> bool {
        let pattern: Vec<Vec<u8>> = self.0.split('/').map(|part| part.to_lowercase().into_bytes()).collect();
        let path: Vec<Vec<u8>> = path.as_bytes().split(|b| *b == b'/').map(lower).collect();
        if let [name] = pattern.as_slice()
            && name.as_slice() != b"**"
        {
            return path.iter().any(|part| part_matches(name, part));
        }
        parts_match(&pattern, &path)
    }
}

impl FromStr for PathGlob {
    type Err = InvalidGlob;
    fn from_str(text: &str) -> Result<Self, InvalidGlob> {
        Self::new(text)
    }
}

impl fmt::Display for PathGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn lower(part: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(part) {
        Ok(text) => text.to_lowercase().into_bytes(),
        Err(_) => part.to_ascii_lowercase(),
    }
}

fn parts_match(pattern: &[Vec<u8>], path: &[Vec<u8>]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        // The pattern named the path itself or a folder above it.
        (None, _) => true,
        (Some((first, rest)), _) if first == b"**" => {
            parts_match(rest, path) && !(rest.is_empty() && path.is_empty())
                || path.split_first().is_some_and(|(_, deeper)| parts_match(pattern, deeper))
        }
        (Some(_), None) => false,
        (Some((first, rest)), Some((name, deeper))) => part_matches(first, name) && parts_match(rest, deeper),
    }
}

fn part_matches(pattern: &[u8], name: &[u8]) -> bool {
    // Remembering only the last star is enough: an earlier one never needs to take more.
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == b'?' || Some(c) == name.get(n) => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    n = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern.get(p..).is_some_and(|rest| rest.iter().all(|c| *c == b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_what_they_say() {
        for (pattern, yes, no) in [
            (
                ".github/workflows/**",
                &[".github/workflows/ci.yml", ".github/workflows/a/b", ".GitHub/Workflows/X.yml"][..],
                &[".github/x", "a/.github/workflows/x"][..],
            ),
            ("CODEOWNERS", &["CODEOWNERS", "docs/CODEOWNERS", "codeowners"], &["CODEOWNERS.md", "xCODEOWNERS"]),
            (".gitmodules", &[".gitmodules", "sub/.GITMODULES"], &["gitmodules"]),
            ("deploy/*.yaml", &["deploy/a.yaml", "deploy/.yaml"], &["deploy/a.yml", "deploy/x/a.yaml", "adeploy/a.yaml"]),
            ("**/secrets/**", &["secrets/a", "a/b/secrets/c"], &["secret/a"]),
            ("infra", &["infra/a/b", "x/infra/y"], &["infrared/a"]),
            ("infra/prod/", &["infra/prod/a"], &["infra/dev/a"]),
            ("*.p?m", &["a.pem", "x/y.pfm"], &["a.pm"]),
            ("a*b*c", &["abc", "aXbYbZc"], &["ab"]),
        ] {
            let glob = PathGlob::new(pattern).unwrap();
            for path in yes {
                assert!(glob.matches(&RepoPath::from_git(path.as_bytes())), "{pattern} {path}");
            }
            for path in no {
                assert!(!glob.matches(&RepoPath::from_git(path.as_bytes())), "{pattern} {path}");
            }
        }
        for bad in ["", "/etc/**", "../x", "a\nb"] {
            assert!(PathGlob::new(bad).is_err());
        }
    }
}
