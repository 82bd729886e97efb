//! Facts about the outside world, where "we could not find out" is a value of its own and never passes a gate.

use serde::{Deserialize, Serialize};

/// The answer to a question put to something remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Known<T> {
    /// It is so, and this is the value.
    Yes(T),
    /// It is definitely not so.
    No,
    /// We could not find out; the text says why, for a person.
    Unknown(String),
}

impl<T> Known<T> {
    /// The value, if the answer was a definite yes.
    pub fn yes(&self) -> Option<&T> {
        match self {
            Self::Yes(value) => Some(value),
            Self::No | Self::Unknown(_) => None,
        }
    }
}
