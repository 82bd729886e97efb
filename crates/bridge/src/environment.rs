//! What the process around this one says: the only settings that exist inside a sandbox.

use std::collections::HashMap;

/// The variables of this process. Read once, at the start.
pub(crate) struct Environment(HashMap<String, String>);

impl Environment {
    /// All of them. What is not UTF-8 cannot name an agent or an address and is read as well as it goes.
    pub(crate) fn read() -> Self {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        Self(std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect())
    }

    /// The value of a variable without the white space around it; an empty one is none.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// The agent's token. The word `UNSIGNED` stands for none and must never travel as one.
    pub(crate) fn token(&self) -> Option<&str> {
        self.text(TOKEN).filter(|token| *token != "UNSIGNED")
    }
}

/// The variable that holds the agent's token.
pub(crate) const TOKEN: &str = "ROBOCO_AGENT_TOKEN";
/// The variable that holds the agent's id, a UUID.
pub(crate) const AGENT: &str = "ROBOCO_AGENT_ID";
/// The variable that holds the agent's role.
pub(crate) const ROLE: &str = "ROBOCO_AGENT_ROLE";

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(pairs: [(&str, &str); N]) -> Self {
        Self(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }
}
