//! Who calls: read from the token. The identity headers of older bridges are compared with it and never believed.

use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use roboco_domain::command::AgentActor;
use roboco_domain::id::{AgentId, CorrelationId};
use roboco_domain::role::{Role, Team};

use crate::Gateway;
use crate::problem::{CORRELATION, Problem};

/// Longest key a caller may choose for replay, in bytes.
const KEY_BYTES: usize = 200;

/// A verified caller and what its request says about itself.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) actor: AgentActor,
    pub(crate) correlation: CorrelationId,
    /// A key the caller chose for replay.
    pub(crate) key: Option<String>,
}

impl Gateway {
    /// Reads and checks who sends a request.
    pub(crate) fn identify(&self, headers: &HeaderMap) -> Result<Caller, Box<Problem>> {
        let correlation = Problem::correlation_of(headers);
        let Some(actor) = presented(headers).and_then(|token| self.verify(token)) else {
            return Err(Box::new(Problem::new(
                StatusCode::UNAUTHORIZED,
                "not_authenticated",
                "this is not the token of an agent, or it has expired",
                "send the token of your run as `Authorization: Bearer …` or `X-Agent-Token`",
                correlation,
            )));
        };
        compare(headers, &actor, correlation)?;
        let key = text(headers, "idempotency-key").or_else(|| text(headers, CORRELATION.as_str()));
        if key.is_some_and(|key| key.len() > KEY_BYTES) {
            return Err(Box::new(malformed("idempotency-key", &format!("at most {KEY_BYTES} bytes"), correlation)));
        }
        Ok(Caller { actor, correlation, key: key.map(str::to_owned) })
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim).filter(|text| !text.is_empty())
}

fn presented(headers: &HeaderMap) -> Option<&str> {
    let bearer = || {
        let (scheme, token) = text(headers, AUTHORIZATION.as_str())?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
    };
    bearer().or_else(|| text(headers, "x-agent-token"))
}

/// The identity headers must say what the token says.
fn compare(headers: &HeaderMap, actor: &AgentActor, correlation: CorrelationId) -> Result<(), Box<Problem>> {
    let same = |name: &str, expected: &str, read: &dyn Fn(&str) -> Option<bool>| match headers.get(name) {
        None => Ok(()),
        Some(value) => match value.to_str().ok().and_then(read) {
            Some(true) => Ok(()),
            Some(false) => Err(Box::new(Problem::new(
                StatusCode::FORBIDDEN,
                "not_authorized",
                format!("{name} does not name the owner of the token"),
                format!("leave {name} out, or send what the token says"),
                correlation,
            ))),
            None => Err(Box::new(malformed(name, expected, correlation))),
        },
    };
    same("x-agent-id", "a UUID", &|text| text.parse::<AgentId>().ok().map(|id| id == actor.agent))?;
    same("x-agent-role", "a role", &|text| text.parse::<Role>().ok().map(|role| role == actor.role))?;
    same("x-agent-team", "a team", &|text| text.parse::<Team>().ok().map(|team| team == actor.team))
}

fn malformed(name: &str, expected: &str, correlation: CorrelationId) -> Problem {
    let mut problem = Problem::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "incomplete_input",
        format!("the header {name} cannot be read"),
        format!("send {expected} in {name}, or leave it out"),
        correlation,
    );
    problem.missing.push(name.to_owned());
    problem.field_hints.insert(name.to_owned(), expected.to_owned());
    problem
}
