//! Who asks: a person, by the token that `roboco up` wrote for them. Only its digest is kept, so the database gives none away.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use roboco_domain::command::Actor;
use roboco_domain::id::AgentId;
use roboco_domain::role::Role;
use roboco_gateway::Problem;
use sha2::{Digest, Sha256};

use crate::ServerState;
use crate::failure;

/// The person behind a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Person(AgentId);

impl Person {
    pub(crate) const fn actor(self) -> Actor {
        Actor::Ceo(self.0)
    }

    pub(crate) const fn agent(self) -> AgentId {
        self.0
    }
}

/// What is kept of a person's token: its SHA-256 in hexadecimal.
pub fn token_digest(token: &str) -> String {
    Sha256::digest(token.as_bytes()).iter().fold(String::with_capacity(64), |text, byte| text + &format!("{byte:02x}"))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty()).then_some(token.trim())
}

/// Lets only people in.
pub(crate) async fn check(State(state): State<ServerState>, mut request: Request, next: Next) -> Response {
    let correlation = Problem::correlation_of(request.headers());
    let known = match bearer(request.headers()) {
        Some(token) => match state.company.store().token(&token_digest(token)).await {
            Ok(known) => known,
            Err(fault) => return failure::fault(&fault.into(), correlation).into_response(),
        },
        None => None,
    };
    let ceo = |agent: &AgentId| state.company.roster().agent(*agent).is_some_and(|seat| seat.role == Role::Ceo);
    match known.filter(ceo) {
        Some(agent) => {
            request.extensions_mut().insert(Person(agent));
            next.run(request).await
        }
        None => Problem::new(
            StatusCode::UNAUTHORIZED,
            "not_authenticated",
            "this is not the token of a person",
            "send the token from the file `ceo.token` in the data directory as `Authorization: Bearer …`",
            correlation,
        )
        .into_response(),
    }
}
