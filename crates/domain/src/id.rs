//! Typed identifiers. Rows are keyed by UUIDs minted outside this crate; people read numbers (`T-142`, `T-142/3`, `I-31`, `#12`).
//!
//! Nothing here creates a random id: a command brings the fresh ids it may need, so a decision stays repeatable.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A text could not be read as the identifier or number it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {expected}")]
pub struct ParseIdError {
    /// What was given, cut to a safe length.
    pub text: String,
    /// What would have been accepted.
    pub expected: &'static str,
}

impl ParseIdError {
    fn new(text: &str, expected: &'static str) -> Self {
        Self { text: text.chars().take(80).collect(), expected }
    }
}

macro_rules! uuid_id {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Wraps a UUID that was made elsewhere.
            pub const fn new(id: Uuid) -> Self {
                Self(id)
            }
            /// The UUID itself, for storage.
            pub const fn uuid(self) -> Uuid {
                self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
        impl FromStr for $name {
            type Err = ParseIdError;
            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                Uuid::parse_str(text.trim()).map(Self).map_err(|_| ParseIdError::new(text, "a UUID"))
            }
        }
    )*};
}

uuid_id! {
    /// One company: the shard key of every table.
    CompanyId
    /// A seat on the roster.
    AgentId
    /// A repository a company works on.
    ProjectId
    /// A unit of work.
    TaskId
    /// One attempt to run an agent.
    SpawnId
    /// The durable row of an effect.
    IntentId
    /// One command as it was sent, for tracing and replay.
    CorrelationId
}

macro_rules! number_id {
    ($($(#[$doc:meta])* $name:ident, $prefix:literal, $expected:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
        impl FromStr for $name {
            type Err = ParseIdError;
            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                let trimmed = text.trim();
                let digits = trimmed
                    .get(..$prefix.len())
                    .filter(|head| head.eq_ignore_ascii_case($prefix))
                    .and_then(|_| trimmed.get($prefix.len()..))
                    .filter(|rest| rest.bytes().all(|b| b.is_ascii_digit()));
                digits
                    .and_then(|rest| rest.parse().ok())
                    .filter(|n| *n > 0)
                    .map(Self)
                    .ok_or_else(|| ParseIdError::new(text, $expected))
            }
        }
    )*};
}

number_id! {
    /// A task's number, one counter per company: `T-142`.
    TaskNumber, "T-", "a task number like T-142";
    /// An inbox item's number, one counter per company: `I-31`.
    InboxNumber, "I-", "an inbox number like I-31";
    /// A pull request's number, one counter per project: `#12`.
    PrNumber, "#", "a pull request number like #12";
    /// A criterion's number inside its task, never reused: `C1`.
    CriterionNumber, "C", "a criterion number like C1";
    /// A finding's number inside its task, never reused: `F2`.
    FindingNumber, "F", "a finding number like F2";
}

/// How people name a spawn: the third spawn of task 142 is `T-142/3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SpawnNumber {
    /// The task the spawn works for.
    pub task: TaskNumber,
    /// Counts from 1 inside the task.
    pub nth: u64,
}

impl fmt::Display for SpawnNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.task, self.nth)
    }
}

impl FromStr for SpawnNumber {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let wrong = || ParseIdError::new(text, "a spawn number like T-142/3");
        let (task, nth) = text.trim().split_once('/').ok_or_else(wrong)?;
        let task = task.parse().map_err(|_| wrong())?;
        let nth = nth.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?;
        Ok(Self { task, nth })
    }
}

/// A reference to a task as a person or an agent typed it: the number, the full id, or a unique prefix of at least 8 digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskRef {
    /// `T-142`.
    Number(TaskNumber),
    /// The full UUID.
    Id(TaskId),
    /// At least eight leading hexadecimal digits of the UUID, dashes dropped, lower case.
    Prefix(String),
}

impl FromStr for TaskRef {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        if let Ok(number) = text.parse() {
            return Ok(Self::Number(number));
        }
        if let Ok(id) = text.parse() {
            return Ok(Self::Id(id));
        }
        let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
        if (8..32).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Ok(Self::Prefix(digits.to_ascii_lowercase()));
        }
        Err(ParseIdError::new(text, "a task number (T-142), a task id, or at least 8 leading digits of one"))
    }
}

impl fmt::Display for TaskRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Id(id) => id.fmt(f),
            Self::Prefix(prefix) => f.write_str(prefix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_accept_the_three_forms_and_nothing_else() {
        let id = "0193f5a0-1111-7222-8333-444455556666";
        assert_eq!("T-142".parse(), Ok(TaskRef::Number(TaskNumber(142))));
        assert_eq!("t-7".parse(), Ok(TaskRef::Number(TaskNumber(7))));
        assert!(matches!(id.parse(), Ok(TaskRef::Id(_))));
        assert_eq!("0193F5A0-1111".parse(), Ok(TaskRef::Prefix("0193f5a01111".into())));
        for wrong in ["", "T-", "T-0", "T--1", "T-1x", "0193", "zzzzzzzz", "T-142/3", "T-99999999999999999999999", "é-1"] {
            assert!(wrong.parse::<TaskRef>().is_err(), "{wrong:?} was accepted");
        }
    }

    #[test]
    fn spawn_numbers_read_back_what_they_print() {
        let spawn = SpawnNumber { task: TaskNumber(142), nth: 3 };
        assert_eq!(spawn.to_string(), "T-142/3");
        assert_eq!("T-142/3".parse(), Ok(spawn));
        assert!("T-142/0".parse::<SpawnNumber>().is_err());
    }
}
