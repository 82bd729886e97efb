//! The real credential of a provider, read when a request needs it.

use std::path::PathBuf;

use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use roboco_domain::time::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

/// The header of an API key.
pub(crate) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// How the gateway proves itself to a provider.
#[derive(Debug, Clone)]
pub enum Credential {
    /// An API key, sent as `x-api-key`.
    ApiKey(SecretString),
    /// A long-lived token, sent as a bearer. Clients must run in their subscription mode to ask for what such a token allows.
    Token(SecretString),
    /// The user's own credential file, kept fresh by the user's own client and read again for every request:
    /// `claudeAiOauth.accessToken` until `claudeAiOauth.expiresAt` (milliseconds). Only the access token is ever read.
    OauthFile(PathBuf),
    /// None, for upstreams that want none.
    None,
}

/// Why there is no credential; never carries any part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Missing {
    /// No file, or it cannot be read.
    Unreadable,
    /// The file does not have the expected content.
    NotSignedIn,
    /// The token's time is over.
    Expired,
}

impl Missing {
    pub(crate) const fn text(&self) -> &'static str {
        match self {
            Self::Unreadable => "the login file cannot be read",
            Self::NotSignedIn => "there is no login in the login file",
            Self::Expired => "the login has expired",
        }
    }
}

impl Credential {
    /// The header that carries it, at the moment `now`.
    pub(crate) async fn header(&self, now: Timestamp) -> Result<Option<(HeaderName, HeaderValue)>, Missing> {
        match self {
            Self::ApiKey(key) => Ok(Some((API_KEY, secret_value(key.expose_secret())?))),
            Self::Token(token) => Ok(Some((AUTHORIZATION, bearer(token)?))),
            Self::OauthFile(path) => {
                let text = tokio::fs::read_to_string(path).await.map_err(|_| Missing::Unreadable)?;
                let token = access_token(&text, now)?;
                Ok(Some((AUTHORIZATION, bearer(&token)?)))
            }
            Self::None => Ok(None),
        }
    }
}

fn access_token(text: &str, now: Timestamp) -> Result<SecretString, Missing> {
    let file: Value = serde_json::from_str(text).map_err(|_| Missing::NotSignedIn)?;
    let login = file.get("claudeAiOauth").ok_or(Missing::NotSignedIn)?;
    let token = login.get("accessToken").and_then(Value::as_str).filter(|token| !token.is_empty()).ok_or(Missing::NotSignedIn)?;
    // A file without an expiry holds a token that does not expire.
    match login.get("expiresAt").and_then(Value::as_i64) {
        Some(at) if Timestamp::from_millis(at) <= now => Err(Missing::Expired),
        Some(_) | None => Ok(SecretString::from(token)),
    }
}

fn bearer(token: &SecretString) -> Result<HeaderValue, Missing> {
    secret_value(&format!("Bearer {}", token.expose_secret()))
}

fn secret_value(text: &str) -> Result<HeaderValue, Missing> {
    let mut value = HeaderValue::from_str(text).map_err(|_| Missing::NotSignedIn)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_file_is_good_until_its_token_expires() {
        let now = Timestamp::from_millis(1000);
        let good = r#"{"claudeAiOauth":{"accessToken":"at","refreshToken":"rt","expiresAt":1001}}"#;
        assert_eq!(access_token(good, now).unwrap().expose_secret(), "at");
        for (text, expected) in [
            (r#"{"claudeAiOauth":{"accessToken":"at","expiresAt":1000}}"#, Missing::Expired),
            (r#"{"claudeAiOauth":{"accessToken":"","expiresAt":9999}}"#, Missing::NotSignedIn),
            (r#"{"claudeAiOauth":{"expiresAt":9999}}"#, Missing::NotSignedIn),
            ("{}", Missing::NotSignedIn),
            ("not json", Missing::NotSignedIn),
        ] {
            assert_eq!(access_token(text, now).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn debug_output_shows_no_credential() {
        let key = || SecretString::from("sk-real");
        for credential in [Credential::ApiKey(key()), Credential::Token(key())] {
            assert!(!format!("{credential:?}").contains("sk-real"));
        }
        assert!(!format!("{:?}", secret_value("sk-real").unwrap()).contains("sk-real"));
    }
}
