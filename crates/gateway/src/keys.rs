//! Agent tokens: who runs, for which seat and with which right, signed with HMAC-SHA256. A token is no proof that the run is still heard;
//! that is asked with every call.

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use roboco_domain::command::AgentActor;
use roboco_domain::id::{AgentId, SpawnId};
use roboco_domain::limits;
use roboco_domain::role::{Role, Team};
use roboco_domain::spawn::Epoch;
use roboco_domain::time::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Shortest secret that is accepted, in characters.
const SECRET_CHARS: usize = 32;

/// The secret cannot be used or made.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KeyError {
    /// It could be guessed.
    #[error("the secret of the agent tokens is shorter than {SECRET_CHARS} characters: remove it, and a new one is made at the next start")]
    Short,
    /// The machine gives no random bytes.
    #[error("this machine gives no random bytes: {0}")]
    Random(String),
    /// The signer refused.
    #[error("the token could not be signed: {0}")]
    Sign(String),
}

/// What a token says. `iat` and `exp` are seconds since the epoch.
#[derive(Serialize, Deserialize)]
struct Claims {
    sub: AgentId,
    role: Role,
    team: Team,
    spawn: SpawnId,
    epoch: Epoch,
    iat: i64,
    exp: i64,
}

/// Signs and checks the tokens of agents.
pub struct Keys {
    kid: String,
    secret: SecretString,
    encoding: EncodingKey,
    decoding: DecodingKey,
    validation: Validation,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("kid", &self.kid).finish_non_exhaustive()
    }
}

impl Keys {
    /// New keys from 256 random bits.
    ///
    /// # Errors
    /// The machine gives no random bytes.
    pub fn generate() -> Result<Self, KeyError> {
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes).map_err(|error| KeyError::Random(error.to_string()))?;
        Self::from_secret(SecretString::from(hex(&bytes)))
    }

    /// Keys from a secret that was kept.
    ///
    /// # Errors
    /// The secret is too short.
    pub fn from_secret(secret: SecretString) -> Result<Self, KeyError> {
        let bytes = secret.expose_secret().as_bytes();
        if bytes.len() < SECRET_CHARS {
            return Err(KeyError::Short);
        }
        // Names the key without giving it away: eight digits of a digest that is used for nothing else.
        let digest = Sha256::new().chain_update("roboco agent key id\n").chain_update(bytes).finalize();
        let sign = |error: jsonwebtoken::errors::Error| KeyError::Sign(error.to_string());
        let (encoding, decoding) = (EncodingKey::from_secret(bytes).map_err(sign)?, DecodingKey::from_secret(bytes).map_err(sign)?);
        let mut validation = Validation::new(Algorithm::HS256);
        // Expiry is checked against the company's clock, not the machine's.
        validation.validate_exp = false;
        Ok(Self { kid: hex(&digest[..4]), encoding, decoding, validation, secret })
    }

    /// The secret, to be kept in a file that only its owner can read.
    pub fn secret(&self) -> &SecretString {
        &self.secret
    }

    /// A token for a run, good for 24 hours.
    ///
    /// # Errors
    /// The signer refused.
    pub fn mint(&self, actor: &AgentActor, now: Timestamp) -> Result<SecretString, KeyError> {
        let AgentActor { agent, role, team, spawn, epoch } = actor.clone();
        let expires = now.after(limits::AGENT_TOKEN);
        let claims = Claims { sub: agent, role, team, spawn, epoch, iat: now.millis() / 1000, exp: expires.millis() / 1000 };
        let header = Header { kid: Some(self.kid.clone()), ..Header::new(Algorithm::HS256) };
        jsonwebtoken::encode(&header, &claims, &self.encoding).map(SecretString::from).map_err(|error| KeyError::Sign(error.to_string()))
    }

    /// What a token says, when it was signed with these keys and has not expired.
    pub fn verify(&self, token: &str, now: Timestamp) -> Option<AgentActor> {
        let data = jsonwebtoken::decode::<Claims>(token, &self.decoding, &self.validation).ok()?;
        let Claims { sub, role, team, spawn, epoch, iat: _, exp } = data.claims;
        let current = data.header.kid.as_deref() == Some(self.kid.as_str()) && exp.saturating_mul(1000) > now.millis();
        current.then_some(AgentActor { agent: sub, role, team, spawn, epoch })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        text.push(char::from(b"0123456789abcdef"[usize::from(byte >> 4)]));
        text.push(char::from(b"0123456789abcdef"[usize::from(byte & 15)]));
        text
    })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn actor() -> AgentActor {
        AgentActor {
            agent: AgentId::new(Uuid::from_u128(1)),
            role: Role::Developer,
            team: "backend".parse().unwrap(),
            spawn: SpawnId::new(Uuid::from_u128(2)),
            epoch: Epoch(7),
        }
    }

    #[test]
    fn a_token_is_heard_for_24_hours_by_the_keys_that_signed_it_and_no_others() {
        let (keys, others) = (Keys::generate().unwrap(), Keys::generate().unwrap());
        let start = Timestamp::from_millis(1_800_000_000_000);
        let token = keys.mint(&actor(), start).unwrap();
        let token = token.expose_secret();
        let last = Timestamp::from_millis(start.millis() + 86_399_999);
        assert_eq!(keys.verify(token, start), Some(actor()));
        assert_eq!(keys.verify(token, last), Some(actor()));
        assert_eq!(keys.verify(token, start.after(limits::AGENT_TOKEN)), None, "an expired token was heard");
        assert_eq!(others.verify(token, start), None, "a foreign token was heard");
        let again = Keys::from_secret(keys.secret().clone()).unwrap();
        assert_eq!(again.verify(token, start), Some(actor()), "the kept secret does not make the same keys");
    }

    #[test]
    fn changed_and_unsigned_tokens_are_not_heard() {
        let keys = Keys::generate().unwrap();
        let now = Timestamp::from_millis(1_800_000_000_000);
        let token = keys.mint(&actor(), now).unwrap();
        let [header, body, signature]: [&str; 3] = token.expose_secret().split('.').collect::<Vec<_>>().try_into().unwrap();
        let other = keys.mint(&AgentActor { epoch: Epoch(8), ..actor() }, now).unwrap();
        let other_body = other.expose_secret().split('.').nth(1).unwrap();
        // {"alg":"none","typ":"JWT"}
        let none = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0";
        for wrong in [
            String::new(),
            "UNSIGNED".into(),
            format!("{header}.{other_body}.{signature}"),
            format!("{header}.{body}."),
            format!("{none}.{body}."),
            format!("{none}.{body}.{signature}"),
            format!("{header}.{body}"),
        ] {
            assert_eq!(keys.verify(&wrong, now), None, "{wrong:?} was heard");
        }
    }

    #[test]
    fn secrets_that_could_be_guessed_are_refused_and_none_is_printed() {
        assert!(Keys::from_secret(SecretString::from("short")).is_err());
        let keys = Keys::generate().unwrap();
        assert!(!format!("{keys:?}").contains(keys.secret().expose_secret()));
    }
}
