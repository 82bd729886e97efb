//! Where a provider is, and how a request path becomes an address there. No request can choose another place.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use http::Method;
use reqwest::Url;
use reqwest::redirect::Policy;

use crate::Credential;

/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(10);

/// An upstream cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// Not a usable base address.
    #[error("{url:?} cannot be an upstream: {why}")]
    Address {
        /// What was given, without any user part.
        url: String,
        /// What would be accepted.
        why: &'static str,
    },
    /// The HTTP client could not be built.
    #[error("the HTTP client for the upstream could not be built; check the TLS set-up of this machine")]
    Client(#[source] reqwest::Error),
}

/// One provider's API.
#[derive(Debug)]
pub struct Upstream {
    base: Url,
    allowed: BTreeSet<(String, String)>,
    pub(crate) credential: Credential,
    pub(crate) remedy: String,
    pub(crate) client: reqwest::Client,
}

impl Upstream {
    /// The API at `base`, with the credential to use there and what a person must do when it is missing. A real credential goes over
    /// plain HTTP to this machine only. Nothing may be asked there before [`Upstream::allowing`] says what.
    pub fn new(base: &str, credential: Credential, remedy: &str) -> Result<Self, UpstreamError> {
        let refuse = |why| UpstreamError::Address { url: base.rsplit('@').next().unwrap_or_default().to_owned(), why };
        let base = Url::parse(base).map_err(|_| refuse("it must be an address like https://api.example.com"))?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(refuse("it must start with http:// or https://"));
        }
        if !base.username().is_empty() || base.password().is_some() || base.query().is_some() || base.fragment().is_some() {
            return Err(refuse("it must not carry a user, a query or a fragment"));
        }
        let local = is_loopback(&base);
        if base.scheme() == "http" && !local && !matches!(credential, Credential::None) {
            return Err(refuse("a credential may travel over https only, except on this machine"));
        }
        // Redirects would leave the configured place; they are handed to the client as they are.
        let builder = reqwest::Client::builder().connect_timeout(CONNECT).redirect(Policy::none()).referer(false);
        let builder = if local { builder.no_proxy() } else { builder };
        let client = builder.build().map_err(UpstreamError::Client)?;
        Ok(Self { base, allowed: BTreeSet::new(), credential, remedy: remedy.to_owned(), client })
    }

    /// Lets these requests through, each a method and a path from the root of the API such as `("POST", "/v1/messages")`. Paths are taken
    /// literally, a query may follow.
    #[must_use]
    pub fn allowing<'r>(mut self, requests: impl IntoIterator<Item = (&'r str, &'r str)>) -> Self {
        self.allowed.extend(requests.into_iter().map(|(method, path)| (method.to_owned(), path.to_owned())));
        self
    }

    /// Whether a client may ask for `rest`, a path without its leading slash.
    pub(crate) fn allows(&self, method: &Method, rest: &str) -> bool {
        self.allowed.contains(&(method.as_str().to_owned(), format!("/{rest}")))
    }

    /// What may be asked, for people.
    pub(crate) fn allowed(&self) -> String {
        let requests: Vec<String> = self.allowed.iter().map(|(method, path)| format!("{method} {path}")).collect();
        if requests.is_empty() { "nothing".to_owned() } else { requests.join(", ") }
    }

    /// The address of `rest` (a path without its leading slash, still encoded) below the base; absent when it would lead elsewhere.
    pub(crate) fn address(&self, rest: &str, query: Option<&str>) -> Option<Url> {
        let lower = rest.to_ascii_lowercase();
        let disguised = ["%2f", "%5c", "%2e", "\\"].iter().any(|part| lower.contains(part));
        if disguised || rest.split('/').any(|segment| matches!(segment, "." | "..")) {
            return None;
        }
        let mut wanted = format!("{}/{rest}", self.base.path().trim_end_matches('/'));
        if wanted.is_empty() {
            wanted.push('/');
        }
        let mut url = self.base.clone();
        url.set_path(&wanted);
        url.set_query(query);
        let same_place = url.scheme() == self.base.scheme() && url.host() == self.base.host() && url.port() == self.base.port();
        (same_place && url.path() == wanted).then_some(url)
    }
}

fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;

    #[test]
    fn addresses_stay_below_the_base() {
        let plain = Upstream::new("https://api.example.com", Credential::None, "").unwrap();
        let deep = Upstream::new("https://api.example.com:8443/team/a/", Credential::None, "").unwrap();
        let at = |upstream: &Upstream, rest: &str, query| upstream.address(rest, query).map(|url| url.to_string());
        assert_eq!(at(&plain, "v1/messages", Some("beta=true")).unwrap(), "https://api.example.com/v1/messages?beta=true");
        assert_eq!(at(&plain, "", None).unwrap(), "https://api.example.com/");
        assert_eq!(at(&deep, "v1/models/a%20b", None).unwrap(), "https://api.example.com:8443/team/a/v1/models/a%20b");
        // What looks like another host is only a path.
        assert_eq!(at(&plain, "http://evil.example/x", None).unwrap(), "https://api.example.com/http://evil.example/x");
        assert_eq!(at(&plain, "/evil.example/x", None).unwrap(), "https://api.example.com//evil.example/x");
        for rest in ["..", "../x", "v1/../../x", "v1/./x", "v1/%2e%2e/x", "v1/%2E./x", "v1%2fx", "a\\..\\x", "%5C", "v1/.."] {
            assert_eq!(at(&deep, rest, None), None, "{rest}");
        }
    }

    #[test]
    fn only_what_was_allowed_may_be_asked_and_only_by_its_own_name() {
        let none = Upstream::new("https://api.example.com", Credential::None, "").unwrap();
        assert!(!none.allows(&Method::POST, "v1/messages"));
        assert_eq!(none.allowed(), "nothing");
        let some = none.allowing([("POST", "/v1/messages"), ("GET", "/v1/models")]);
        assert!(some.allows(&Method::POST, "v1/messages") && some.allows(&Method::GET, "v1/models"));
        assert_eq!(some.allowed(), "GET /v1/models, POST /v1/messages");
        for (method, rest) in [
            (Method::GET, "v1/messages"),
            (Method::DELETE, "v1/messages"),
            (Method::POST, "v1/messages/"),
            (Method::POST, "v1/messages/batches"),
            (Method::POST, "/v1/messages"),
            (Method::POST, "V1/messages"),
            (Method::POST, "v1/mess%61ges"),
            (Method::POST, "v1/messages;x"),
            (Method::POST, ""),
        ] {
            assert!(!some.allows(&method, rest), "{method} {rest}");
        }
    }

    #[test]
    fn bases_that_would_leak_or_mislead_are_refused() {
        let key = || Credential::ApiKey(SecretString::from("k"));
        for base in
            ["", "api.example.com", "ftp://x", "https://u:p@x.example", "https://x.example?a=1", "https://x.example#f", "http://x.example"]
        {
            assert!(matches!(Upstream::new(base, key(), ""), Err(UpstreamError::Address { .. })), "{base}");
        }
        let error = Upstream::new("https://user:secret@x.example", key(), "").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
        for base in ["https://x.example", "http://127.0.0.1:1", "http://localhost:1/a", "http://[::1]:1"] {
            assert!(Upstream::new(base, key(), "").is_ok(), "{base}");
        }
        assert!(Upstream::new("http://x.example", Credential::None, "").is_ok());
    }
}
