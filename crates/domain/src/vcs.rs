//! Names of things in a git repository, checked once when they enter.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A text that is no valid name of the kind asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a valid {kind}")]
pub struct InvalidName {
    /// What was given, cut to a safe length.
    pub text: String,
    /// The kind of name that was wanted.
    pub kind: &'static str,
}

macro_rules! checked_text {
    ($($(#[$doc:meta])* $name:ident, $kind:literal, $check:path;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks and wraps a text.
            ///
            /// # Errors
            /// `InvalidName` when the text breaks the rule of this kind of name.
            pub fn new(text: impl Into<String>) -> Result<Self, InvalidName> {
                let text = text.into();
                if $check(&text) {
                    Ok(Self(text))
                } else {
                    Err(InvalidName { text: text.chars().take(120).collect(), kind: $kind })
                }
            }
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl TryFrom<String> for $name {
            type Error = InvalidName;
            fn try_from(text: String) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }
        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }
        impl FromStr for $name {
            type Err = InvalidName;
            fn from_str(text: &str) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

checked_text! {
    /// A full object id: 40 (SHA-1) or 64 (SHA-256) lower-case hexadecimal digits.
    Oid, "git object id", is_oid;
    /// A branch name without `refs/heads/`, by the rules of `git check-ref-format --branch`.
    BranchName, "branch name", is_branch;
}

impl Oid {
    /// The first ten digits, for people.
    pub fn short(&self) -> &str {
        self.0.get(..10).unwrap_or(&self.0)
    }
}

fn is_oid(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_branch(text: &str) -> bool {
    const FORBIDDEN: &[char] = &[' ', '~', '^', ':', '?', '*', '[', '\\'];
    !text.is_empty()
        && text.len() <= 250
        && text != "@"
        && !text.starts_with('-')
        && !text.ends_with('.')
        && !text.contains("..")
        && !text.contains("@{")
        && !text.chars().any(|c| c.is_control() || FORBIDDEN.contains(&c))
        && text.split('/').all(|part| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock"))
}

/// Where a branch lives that others are cut from and merged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Home {
    /// At the project's origin; only what the CEO approved gets there.
    Origin,
    /// In the company's own store: the branch of assembled work.
    Store,
}

/// A branch that others are cut from and merged to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenBase")]
pub struct Base {
    /// Its name.
    pub branch: BranchName,
    /// Where it lives.
    pub home: Home,
}

/// A base as it was written down: by name alone while every base lived at the origin.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenBase {
    Name(BranchName),
    Full { branch: BranchName, home: Home },
}

impl From<WrittenBase> for Base {
    fn from(written: WrittenBase) -> Self {
        match written {
            WrittenBase::Name(branch) => Self { branch, home: Home::Origin },
            WrittenBase::Full { branch, home } => Self { branch, home },
        }
    }
}

/// The exact commits a review or an approval was given for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Pin {
    /// Tip of the target branch when it was looked at.
    pub base: Oid,
    /// Tip of the task's branch.
    pub head: Oid,
    /// Tree of the two merged; absent when they conflict.
    pub merge_tree: Option<Oid>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_names_follow_git() {
        for good in ["main", "feature/backend/t142--t145", "release/1.2", "a"] {
            assert!(BranchName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "-x", "a..b", "a b", "a/", "/a", "a//b", ".a", "a/.b", "a.lock", "a~1", "a:b", "@", "x@{1}", "a\u{7}", "end."] {
            assert!(BranchName::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn bases_of_an_older_version_live_at_the_origin() {
        let old: Base = serde_json::from_str(r#""main""#).unwrap();
        assert_eq!(old, Base { branch: BranchName::new("main").unwrap(), home: Home::Origin });
        for home in [Home::Origin, Home::Store] {
            let base = Base { branch: BranchName::new("chore/main_pm/t1").unwrap(), home };
            assert_eq!(serde_json::from_value::<Base>(serde_json::to_value(&base).unwrap()).unwrap(), base);
        }
        assert!(serde_json::from_str::<Base>(r#""a..b""#).is_err());
    }

    #[test]
    fn object_ids_are_full_and_lower_case() {
        assert!(Oid::new("a".repeat(40)).is_ok());
        for bad in ["HEAD", "abc", &"A".repeat(40), &"a".repeat(41)] {
            assert!(Oid::new(bad).is_err());
        }
    }
}
