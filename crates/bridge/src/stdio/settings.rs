//! Who the agent is and where its control plane is, from the environment.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use roboco_domain::id::AgentId;
use roboco_domain::limits;
use roboco_domain::role::{Role, Team};
use serde_json::Value;

use super::manifest::{Fallback, Source};
use crate::environment::{AGENT, Environment, ROLE, TOKEN};
use crate::http::Address;

const CONTROL_PLANE: &str = "ROBOCO_ORCHESTRATOR_URL";
const CONTROL_PLANE_DEFAULT: &str = "http://roboco-orchestrator:8000";
const SIDECAR: &str = "ROBOCO_SDK_URL";
const SIDECAR_DEFAULT: &str = "http://localhost:9000";
const MANIFEST: &str = "ROBOCO_TOOL_MANIFEST_PATH";
const MANIFEST_DEFAULT: &str = "/app/tool-manifest.json";
const FULL_TOOLSET: &str = "ROBOCO_ALLOW_FULL_TOOLSET";
const WALL: &str = "ROBOCO_FLOW_VERB_TIMEOUT_SECONDS";
/// The client outlasts the server's wall by this much, so that an agent sees the server's answer and not a cut connection.
const HEADROOM: Duration = Duration::from_secs(10);

/// What the environment says too little or something wrong about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("the environment has no {0}; whoever starts the agent's client sets it for its MCP servers")]
    Missing(&'static str),
    #[error("{name} is {value:?}, which is not {expected}; correct it where the agent's client is started")]
    Wrong { name: &'static str, value: String, expected: String },
    #[error("{TOKEN} holds characters that no token has; give it the token of the run as it is")]
    Token,
}

/// Who calls, where to, and how long an answer may take.
pub(crate) struct Settings {
    pub(crate) role: Role,
    pub(crate) control_plane: Address,
    pub(crate) sidecar: Address,
    pub(crate) deadline: Duration,
    pub(crate) manifest: Source,
    pub(crate) warnings: Vec<String>,
    agent: AgentId,
    token: Option<HeaderValue>,
    team: Option<Team>,
}

impl Settings {
    /// Reads them.
    ///
    /// # Errors
    /// What is missing or cannot be read, with the variable's name; never with a secret.
    pub(crate) fn from(environment: &Environment) -> Result<Self, SettingsError> {
        let required = |name| environment.text(name).ok_or(SettingsError::Missing(name));
        let agent = required(AGENT)?;
        let role_text = required(ROLE)?;
        let role: Role = role_text.parse().map_err(|error: roboco_domain::role::UnknownWord| wrong(ROLE, role_text, error.allowed))?;
        if matches!(role, Role::Ceo | Role::System) {
            return Err(wrong(ROLE, role_text, "the role of an agent".into()));
        }
        let address = |name, default| {
            let text = environment.text(name).unwrap_or(default);
            Address::parse(text).ok_or_else(|| SettingsError::Wrong {
                name,
                // An address may carry a password where none belongs.
                value: if text.contains('@') { "an address with a name in it".into() } else { text.chars().take(200).collect() },
                expected: "an address like http://127.0.0.1:8000".into(),
            })
        };
        let mut warnings = Vec::new();
        let wall = match environment.text(WALL).map(|text| (text, text.parse::<u64>())) {
            None => limits::VERB_WALL,
            Some((_, Ok(seconds))) if (1..=86_400).contains(&seconds) => Duration::from_secs(seconds),
            Some((text, _)) => {
                let used = limits::VERB_WALL.as_secs();
                warnings
                    .push(format!("{WALL} is {:?}, not a number of seconds; {used} is used", text.chars().take(40).collect::<String>()));
                limits::VERB_WALL
            }
        };
        let token = environment.token();
        Ok(Self {
            role,
            control_plane: address(CONTROL_PLANE, CONTROL_PLANE_DEFAULT)?,
            sidecar: address(SIDECAR, SIDECAR_DEFAULT)?,
            deadline: wall + HEADROOM,
            manifest: Source {
                named: environment.text(MANIFEST).map(PathBuf::from),
                usual: PathBuf::from(MANIFEST_DEFAULT),
                fallback: if environment.text(FULL_TOOLSET).is_some() { Fallback::Everything } else { Fallback::Refuse },
            },
            warnings,
            agent: agent.parse().map_err(|_| wrong(AGENT, agent, "a UUID".into()))?,
            team: token.and_then(team_in),
            token: token.map(bearer).transpose()?,
        })
    }

    /// A team the manifest names goes before the one in the token.
    pub(crate) fn prefer_team(&mut self, team: Option<Team>) {
        self.team = team.or_else(|| self.team.take());
    }

    /// The headers that say who calls.
    pub(crate) fn identity(&self) -> HeaderMap {
        let mut headers = self.authorization();
        let team = self.team.as_ref().map(|team| ("x-agent-team", team.to_string()));
        let named = [("x-agent-id", self.agent.to_string()), ("x-agent-role", self.role.to_string())].into_iter().chain(team);
        // Ids, roles and teams are words that fit into a header.
        headers.extend(named.filter_map(|(name, value)| Some((HeaderName::from_static(name), HeaderValue::try_from(value).ok()?))));
        headers
    }

    /// Only the token, for the sidecar.
    pub(crate) fn authorization(&self) -> HeaderMap {
        self.token.iter().map(|token| (AUTHORIZATION, token.clone())).collect()
    }
}

fn wrong(name: &'static str, value: &str, expected: String) -> SettingsError {
    SettingsError::Wrong { name, value: value.chars().take(60).collect(), expected }
}

fn bearer(token: &str) -> Result<HeaderValue, SettingsError> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| SettingsError::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The team the token was made for. Whether it is true is for the control plane to say: it compares the header with the token.
fn team_in(token: &str) -> Option<Team> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    serde_json::from_slice::<Value>(&claims).ok()?.get("team")?.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "00000000-0000-0000-0001-000000000001";

    #[test]
    fn a_wrong_environment_is_refused_by_name_and_without_secrets() {
        for (environment, says) in [
            (Environment::from([(ROLE, "developer")]), "no ROBOCO_AGENT_ID"),
            (Environment::from([(AGENT, ID)]), "no ROBOCO_AGENT_ROLE"),
            (Environment::from([(AGENT, "be-dev-1"), (ROLE, "developer")]), "not a UUID"),
            (Environment::from([(AGENT, ID), (ROLE, "boss")]), "ROBOCO_AGENT_ROLE is \"boss\""),
            (Environment::from([(AGENT, ID), (ROLE, "ceo")]), "the role of an agent"),
            (Environment::from([(AGENT, ID), (ROLE, "qa"), (CONTROL_PLANE, "https://x")]), "ROBOCO_ORCHESTRATOR_URL is \"https://x\""),
            (Environment::from([(AGENT, ID), (ROLE, "qa"), (SIDECAR, "http://a:hush@x")]), "ROBOCO_SDK_URL"),
            (Environment::from([(AGENT, ID), (ROLE, "qa"), (TOKEN, "hush\nhush")]), "ROBOCO_AGENT_TOKEN"),
        ] {
            let error = Settings::from(&environment).err().expect(says).to_string();
            assert!(error.contains(says) && !error.contains("hush"), "{says}: {error}");
        }
    }

    #[test]
    fn the_wall_of_the_server_is_outlasted_by_ten_seconds() {
        for (text, seconds, warned) in [("", 130, 0), ("7", 17, 0), ("900", 910, 0), ("soon", 130, 1), ("0", 130, 1)] {
            let settings = Settings::from(&Environment::from([(AGENT, ID), (ROLE, "Developer"), (WALL, text)])).unwrap();
            assert_eq!((settings.deadline.as_secs(), settings.warnings.len()), (seconds, warned), "{text:?}");
        }
    }

    #[test]
    fn the_team_comes_from_the_manifest_or_from_the_token() {
        let claims = URL_SAFE_NO_PAD.encode(r#"{"sub":"x","team":"backend"}"#);
        for (token, manifest, expected) in [
            (format!("a.{claims}.c"), None, Some("backend")),
            (format!("a.{claims}.c"), Some("board"), Some("board")),
            ("opaque".into(), None, None),
            ("opaque".into(), Some("ux_ui"), Some("ux_ui")),
        ] {
            let mut settings = Settings::from(&Environment::from([(AGENT, ID), (ROLE, "qa"), (TOKEN, &token)])).unwrap();
            settings.prefer_team(manifest.map(|team: &str| team.parse().unwrap()));
            assert_eq!(settings.identity().get("x-agent-team").and_then(|team| team.to_str().ok()), expected, "{token} {manifest:?}");
        }
    }
}
