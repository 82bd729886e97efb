//! One request through the gateway.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use futures::{Stream, StreamExt};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use reqwest::Url;

use crate::credential::API_KEY;
use crate::exchange::Watch;
use crate::refusal::{Again, refuse};
use crate::upload::{Answer, Late, Progress, Upload, too_late};
use crate::upstream::Upstream;
use crate::{Caller, Egress, End};

/// Headers that belong to one connection, to the caller's identity, or to the address, or that ask for another request than the one that
/// was allowed, and never pass.
const KEPT_BACK: [&str; 24] = [
    "authorization",
    "connection",
    "cookie",
    "cookie2",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-api-key",
    "x-goog-api-key",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-url",
];

/// How names of headers begin that never pass either: what agents say about themselves, their token for the verbs included, and what
/// proxies say about their callers.
const KEPT_BACK_FAMILIES: [&str; 2] = ["x-agent-", "x-forwarded-"];

/// Characters of a refused path that are shown.
const SHOWN: usize = 200;

/// Of an answer, these stay here as well: cookies are for browsers, and the other place is not reachable.
const KEPT_BACK_OF_ANSWERS: [&str; 2] = ["set-cookie", "alt-svc"];

pub(crate) async fn forward(State(egress): State<Arc<Egress>>, request: Request) -> Response {
    let token = presented(request.headers()).unwrap_or_default().to_owned();
    let Some(caller) = egress.callers.verify(&token) else {
        let message = "this is not the token of a running agent: send the agent's own token as the key";
        return refuse(StatusCode::UNAUTHORIZED, "authentication_error", message, Again::No);
    };
    let (provider, rest) = split(request.uri().path());
    let Some(upstream) = egress.upstreams.get(provider) else {
        let known = egress.upstreams.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let message = format!("there is no provider of this name; known: {known}");
        return refuse(StatusCode::NOT_FOUND, "not_found_error", &message, Again::No);
    };
    let Some(address) = upstream.address(rest, request.uri().query()) else {
        return refuse(StatusCode::BAD_REQUEST, "invalid_request_error", "this path leads outside the provider", Again::No);
    };
    let method = request.method();
    if rest.is_empty() && matches!(*method, Method::GET | Method::HEAD) {
        // Clients look whether anybody is there. Somebody is.
        return Response::new(Body::empty());
    }
    if !upstream.allows(method, rest) {
        egress.refusals.fetch_add(1, Ordering::Relaxed);
        let asked: String = rest.replace(&token, "…").chars().take(SHOWN).collect();
        tracing::warn!(spawn.id = %caller.spawn, provider, %method, path = ?asked, "an agent asked its provider for something it may not");
        let allowed = upstream.allowed();
        let message = format!("agents may not ask the provider {provider} for {method} /{asked}; what they may ask: {allowed}");
        return refuse(StatusCode::FORBIDDEN, "permission_error", &message, Again::No);
    }
    match upstream.credential.header((egress.clock)()).await {
        Ok(credential) => exchange(&egress, upstream, caller, provider.to_owned(), address, credential, request).await,
        Err(missing) => {
            egress.observer.auth_missing(caller, provider, &upstream.remedy);
            let message = format!("{}: {}", missing.text(), upstream.remedy);
            refuse(StatusCode::UNAUTHORIZED, "authentication_error", &message, Again::No)
        }
    }
}

/// The token in the place of a key.
fn presented(headers: &HeaderMap) -> Option<&str> {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = || {
        let (scheme, token) = text(&header::AUTHORIZATION)?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
    };
    text(&API_KEY).or_else(bearer).filter(|token| !token.is_empty())
}

/// `/model/claude/v1/messages` is `v1/messages` at `claude`.
fn split(path: &str) -> (&str, &str) {
    let below = path.strip_prefix("/model/").unwrap_or_default();
    below.split_once('/').unwrap_or((below, ""))
}

async fn exchange(
    egress: &Egress,
    upstream: &Upstream,
    caller: Caller,
    provider: String,
    address: Url,
    credential: Option<(HeaderName, HeaderValue)>,
    request: Request,
) -> Response {
    let mut watch = Watch::start(Arc::clone(&egress.observer), caller, &provider);
    let (parts, body) = request.into_parts();
    let head = parts.method == Method::HEAD;

    let mut headers = passed(&parts.headers, &[]);
    if let Some(token) = presented(&parts.headers) {
        // Under whatever name a client also sends it.
        let tokens: Vec<HeaderName> = headers.iter().filter(|(_, value)| holds(value, token)).map(|(name, _)| name.clone()).collect();
        for name in tokens {
            headers.remove(name);
        }
    }
    headers.extend(credential);
    let mut outgoing = upstream.client.request(parts.method, address).headers(headers);
    let mut progress = tokio::sync::watch::channel(Progress::Sent(Answer::InPieces)).1;
    if parts.headers.contains_key(header::CONTENT_LENGTH) || parts.headers.contains_key(header::TRANSFER_ENCODING) {
        let (mut upload, told) = Upload::new(watch.sent(), declared_length(&parts.headers));
        progress = told;
        outgoing = outgoing.body(reqwest::Body::wrap_stream(body.into_data_stream().inspect(move |piece| {
            upload.piece(piece.as_ref().map_or(&[], |piece| piece));
        })));
    }

    let answer = tokio::select! {
        answer = outgoing.send() => Ok(answer),
        late = too_late(progress, egress.deadlines) => Err(late),
    };
    let answer = match answer {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            let reason = reason(&error);
            let message = format!("the provider {provider} cannot be reached: {reason}");
            watch.end(End::UpstreamFailed(reason));
            return refuse(StatusCode::BAD_GATEWAY, "api_error", &message, Again::Yes);
        }
        Err(late) => {
            watch.end(End::TimedOut);
            let message = match late {
                Late::Request => format!("the request to the provider {provider} stopped on its way"),
                Late::Answer => format!("the provider {provider} did not begin to answer in time"),
            };
            return refuse(StatusCode::GATEWAY_TIMEOUT, "timeout_error", &message, Again::Yes);
        }
    };

    watch.answered(answer.status(), answer.headers());
    if answer.status() == StatusCode::UNAUTHORIZED {
        egress.observer.auth_missing(caller, &provider, &upstream.remedy);
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status();
    *response.headers_mut() = passed(answer.headers(), &KEPT_BACK_OF_ANSWERS);
    let length = if head { Some(0) } else { declared_length(answer.headers()) };
    if length == Some(0) || matches!(answer.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        watch.end(End::Complete);
    } else {
        *response.body_mut() = Body::from_stream(pieces(answer.bytes_stream(), watch, egress.deadlines.idle, length));
    }
    response
}

fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The headers that pass.
fn passed(headers: &HeaderMap, also_kept: &[&str]) -> HeaderMap {
    let named: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|names| names.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let passes = |name: &HeaderName| {
        let name = name.as_str();
        let family = KEPT_BACK_FAMILIES.iter().any(|beginning| name.starts_with(beginning));
        !family && !KEPT_BACK.contains(&name) && !also_kept.contains(&name) && !named.iter().any(|n| n == name)
    };
    let kept = headers.iter().filter(|(name, _)| passes(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn holds(value: &HeaderValue, token: &str) -> bool {
    value.as_bytes().windows(token.len().max(1)).any(|part| part == token.as_bytes())
}

/// An answer's body broke off.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("the provider was silent for too long")]
    Silent,
    #[error("the provider broke off its answer")]
    Cut(#[source] reqwest::Error),
}

/// Passes the pieces of an answer on as they come. Dropping it, because the client hung up, ends the upstream's connection too.
fn pieces(
    body: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
    watch: Watch,
    idle: Duration,
    length: Option<u64>,
) -> impl Stream<Item = Result<Bytes, Broken>> + Send + 'static {
    let state = Some((Box::pin(body), watch));
    futures::stream::unfold(state, move |state| async move {
        let (mut body, mut watch) = state?;
        match tokio::time::timeout(idle, body.next()).await {
            Ok(Some(Ok(piece))) => {
                // With a declared length nobody asks for what comes after the last byte.
                if Some(watch.received(piece.len())) == length {
                    watch.end(End::Complete);
                }
                Some((Ok(piece), Some((body, watch))))
            }
            Ok(Some(Err(error))) => {
                watch.end(End::UpstreamFailed(reason(&error)));
                Some((Err(Broken::Cut(error)), None))
            }
            Ok(None) => {
                watch.end(End::Complete);
                None
            }
            Err(_) => {
                watch.end(End::TimedOut);
                Some((Err(Broken::Silent), None))
            }
        }
    })
}

/// The innermost cause, without the address: that is the operator's business, not the agent's.
fn reason(error: &reqwest::Error) -> String {
    if error.is_connect() && error.is_timeout() {
        return "connecting took too long".to_owned();
    }
    let mut cause = error.source();
    let mut text = "the request failed".to_owned();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    text
}
