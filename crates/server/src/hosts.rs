//! Which names this server answers to. A page on the web can give its own name the address of this machine; its requests then carry that
//! name, and are turned away here.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{HOST, ORIGIN};
use http::{HeaderMap, StatusCode};
use roboco_gateway::Problem;

/// Names beside the loopback ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts {
    names: BTreeSet<String>,
}

impl Hosts {
    /// Answers to these names too, written without scheme and port.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self { names: names.into_iter().map(|name| name.trim().to_ascii_lowercase()).collect() }
    }

    /// Whether a `Host` like `127.0.0.1:7777` is meant for this server.
    fn admits(&self, authority: &str) -> bool {
        let name = host_of(authority).to_ascii_lowercase();
        let loopback = name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        loopback || self.names.contains(&name)
    }
}

/// The name without port and brackets.
fn host_of(authority: &str) -> &str {
    match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inside, _)) => inside,
        None => authority.split_once(':').map_or(authority, |(name, _)| name),
    }
}

pub(crate) async fn check(State(hosts): State<Arc<Hosts>>, request: Request, next: Next) -> Response {
    match refused(&hosts, request.headers(), request.uri().authority().map(http::uri::Authority::as_str)) {
        None => next.run(request).await,
        Some(message) => {
            let remedy = "use http://127.0.0.1, or name this address in `server.public_base_url` in the configuration";
            let correlation = Problem::correlation_of(request.headers());
            Problem::new(StatusCode::FORBIDDEN, "not_authorized", message, remedy, correlation).into_response()
        }
    }
}

fn refused(hosts: &Hosts, headers: &HeaderMap, target: Option<&str>) -> Option<&'static str> {
    let named = headers.get(HOST).and_then(|value| value.to_str().ok()).or(target);
    if !named.is_some_and(|host| hosts.admits(host)) {
        return Some("this server does not answer to this host name");
    }
    let origin = headers.get(ORIGIN)?;
    let own = origin.to_str().ok().and_then(|text| text.split_once("://")).is_some_and(|(_, authority)| hosts.admits(authority));
    (!own).then_some("this server does not answer to pages of other origins")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_and_configured_names_are_admitted() {
        let hosts = Hosts::new(["Roboco.Example".to_owned()]);
        for fine in ["127.0.0.1", "127.0.0.1:7777", "localhost:1", "LOCALHOST", "[::1]:7777", "[::1]", "127.1.2.3", "roboco.example:443"] {
            assert!(hosts.admits(fine), "{fine} was refused");
        }
        for wrong in
            ["", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "10.0.0.1", "[::2]", "0.0.0.0", "@localhost"]
        {
            assert!(!hosts.admits(wrong), "{wrong} was admitted");
        }
    }
}
