//! The keys of an installation, made at its first start.

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::{DataDir, random_digits, read_private, write_private};
use crate::failure::{Exit, Failure};

/// The keys of an installation.
#[derive(Debug, Clone)]
pub(crate) struct Secrets {
    /// Signs the tokens of agents.
    pub(crate) agent_tokens: SecretString,
    /// What the CEO's commands are known by.
    pub(crate) ceo: SecretString,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretsFile {
    agent_tokens: String,
}

impl Secrets {
    /// What the database keeps of the CEO's token.
    pub(crate) fn ceo_digest(&self) -> String {
        roboco_server::token_digest(self.ceo.expose_secret())
    }
}

impl DataDir {
    /// Reads the keys; makes those that are missing.
    ///
    /// # Errors
    /// A file is open to other users, unreadable or damaged.
    pub(crate) fn secrets(&self) -> Result<Secrets, Failure> {
        let path = self.join("secrets.toml");
        let agent_tokens = match read_private(&path)? {
            Some(text) => {
                let damaged = |_| {
                    let text = format!("{} is damaged: restore it, or remove it and a new one is made", path.display());
                    Failure::new(Exit::Configuration, text)
                };
                toml::from_str::<SecretsFile>(&text).map_err(damaged)?.agent_tokens
            }
            None => {
                let made = random_digits()?;
                let text = "# Keys of this installation. Whoever has them can act as any agent; never share or commit this file.\n";
                write_private(&path, &format!("{text}agent_tokens = \"{made}\"\n"))?;
                made
            }
        };
        let ceo = match self.ceo_token()? {
            Some(token) => token,
            None => {
                let made = random_digits()?;
                write_private(&self.join("ceo.token"), &format!("{made}\n"))?;
                SecretString::from(made)
            }
        };
        Ok(Secrets { agent_tokens: SecretString::from(agent_tokens), ceo })
    }

    /// The CEO's token, if this directory has one.
    ///
    /// # Errors
    /// The file is open to other users, unreadable or empty.
    pub(crate) fn ceo_token(&self) -> Result<Option<SecretString>, Failure> {
        let path = self.join("ceo.token");
        let Some(text) = read_private(&path)? else { return Ok(None) };
        let token = text.trim();
        if token.len() < 32 {
            let text = format!("{} is damaged: remove it, and the next start makes a new one", path.display());
            return Err(Failure::new(Exit::Configuration, text));
        }
        Ok(Some(SecretString::from(token)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_made_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let data = DataDir::at(dir.path());
        assert!(data.ceo_token().unwrap().is_none());
        let (first, second) = (data.secrets().unwrap(), data.secrets().unwrap());
        assert_eq!(first.ceo.expose_secret(), second.ceo.expose_secret());
        assert_eq!(first.agent_tokens.expose_secret(), second.agent_tokens.expose_secret());
        assert_eq!(first.ceo.expose_secret().len(), 64);
        assert_ne!(first.ceo.expose_secret(), first.agent_tokens.expose_secret());
        assert_eq!(first.ceo_digest(), second.ceo_digest());
        assert!(!format!("{first:?}").contains(first.ceo.expose_secret()));
    }

    #[test]
    fn damaged_files_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let data = DataDir::at(dir.path());
        data.secrets().unwrap();
        write_private(&data.join("ceo.token"), "\n").unwrap();
        assert!(data.secrets().unwrap_err().message.contains("ceo.token is damaged"));
        write_private(&data.join("secrets.toml"), "nonsense").unwrap();
        assert!(data.secrets().unwrap_err().message.contains("secrets.toml is damaged"));
    }
}
