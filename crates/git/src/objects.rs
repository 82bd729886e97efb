//! Commits as they are written: who, when, and the message.

use roboco_domain::time::Timestamp;
use roboco_domain::vcs::Oid;

use crate::error::GitError;
use crate::git::{COMMITTER, Git};
use crate::repos::Store;

/// The author of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    name: String,
    email: String,
}

/// A name or address that cannot stand in a commit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} cannot be the author of a commit: give a name and an address without < > and line breaks")]
pub struct InvalidPerson(String);

impl Person {
    /// Checks a name and an e-mail address.
    ///
    /// # Errors
    /// `InvalidPerson` when either is empty or has characters that git reserves.
    pub fn new(name: &str, email: &str) -> Result<Self, InvalidPerson> {
        let plain = |text: &str| {
            let text = text.trim();
            !text.is_empty() && text.len() <= 200 && !text.chars().any(|c| c.is_control() || matches!(c, '<' | '>'))
        };
        // Git drops leading and trailing punctuation; a name of nothing else would be empty.
        if plain(name) && plain(email) && name.chars().any(char::is_alphanumeric) && email.contains('@') {
            Ok(Self { name: name.trim().to_owned(), email: email.trim().to_owned() })
        } else {
            Err(InvalidPerson(format!("{name} <{email}>").chars().take(120).collect()))
        }
    }

    /// This program itself.
    pub(crate) fn roboco() -> Self {
        Self { name: COMMITTER.0.to_owned(), email: COMMITTER.1.to_owned() }
    }
}

/// One `Key: value` line at the end of a commit message. Only the server writes them: lines of the same key in a body are dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trailer {
    key: String,
    value: String,
}

impl Trailer {
    /// A trailer; what cannot stand in one is dropped from key and value.
    pub fn new(key: &str, value: &str) -> Self {
        let key = key.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(60).collect();
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ").chars().filter(|c| !c.is_control()).take(500).collect();
        Self { key, value }
    }

    /// The key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The value.
    pub fn value(&self) -> &str {
        &self.value
    }
}

/// Puts a message together: subject, body, trailers.
pub(crate) fn message(subject: &str, body: &str, trailers: &[Trailer]) -> String {
    let subject = subject.split_whitespace().collect::<Vec<_>>().join(" ");
    let forged = |line: &str| {
        line.split_once(':').is_some_and(|(key, _)| trailers.iter().any(|trailer| trailer.key.eq_ignore_ascii_case(key.trim())))
    };
    let body = body.lines().filter(|line| !forged(line)).map(str::trim_end).collect::<Vec<_>>().join("\n");
    let mut text = subject;
    if !body.trim().is_empty() {
        text.push_str("\n\n");
        text.push_str(body.trim_matches('\n'));
    }
    text.push('\n');
    if !trailers.is_empty() {
        text.push('\n');
        for Trailer { key, value } in trailers {
            text.push_str(&format!("{key}: {value}\n"));
        }
    }
    text.replace('\0', "")
}

/// A commit to be written. The same values give the same object id, so writing it again after a crash is harmless.
pub(crate) struct NewCommit<'a> {
    pub(crate) tree: &'a Oid,
    pub(crate) parents: &'a [&'a Oid],
    pub(crate) author: &'a Person,
    /// `None` lets git take the present, for commits that are never repeated.
    pub(crate) at: Option<Timestamp>,
    pub(crate) message: String,
}

/// Writes the object; no ref moves.
pub(crate) async fn write_commit(git: &Git, store: &Store, commit: NewCommit<'_>) -> Result<Oid, GitError> {
    let NewCommit { tree, parents, author, at, message } = commit;
    let mut call = git.call("writing a commit").on(&store.dir).args(["commit-tree", tree.as_str()]);
    for parent in parents {
        call = call.args(["-p", parent.as_str()]);
    }
    call = call.env("GIT_AUTHOR_NAME", &author.name).env("GIT_AUTHOR_EMAIL", &author.email).stdin(message);
    if let Some(at) = at {
        let date = format!("@{} +0000", at.millis().div_euclid(1000));
        call = call.env("GIT_AUTHOR_DATE", &date).env("GIT_COMMITTER_DATE", date);
    }
    oid(&call.line().await?)
}

/// Reads an object id that git printed.
pub(crate) fn oid(text: &str) -> Result<Oid, GitError> {
    Oid::new(text).map_err(|error| GitError::broken("reading an object id from git", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_end_in_the_servers_trailers_only() {
        let trailers = [Trailer::new("Task", "T-1"), Trailer::new("Agent", "be-dev-1\nTask: T-9")];
        let text = message("  [T-1] feat:\n greet  ", "Why.\n\ntask: T-666\nAGENT : evil\nNote: kept\n", &trailers);
        assert_eq!(text, "[T-1] feat: greet\n\nWhy.\n\nNote: kept\n\nTask: T-1\nAgent: be-dev-1 Task: T-9\n");
        assert_eq!(message("s", "", &[]), "s\n");
    }

    #[test]
    fn authors_cannot_forge_a_header() {
        assert!(Person::new("Ada L.", "ada@x").is_ok());
        for (name, email) in [("", "a@b"), ("a", ""), ("a\nb", "a@b"), ("a <x@y>", "a@b"), ("a", "no-at"), ("...", "a@b")] {
            assert!(Person::new(name, email).is_err(), "{name} {email}");
        }
    }
}
