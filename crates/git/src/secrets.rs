//! Recognising secrets in lines that are about to be committed. Only shapes that are almost never anything else: a false alarm stops
//! an agent until a person waives it.

use std::fmt;

use sha2::{Digest, Sha256};

/// What kind of secret a line seems to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SecretKind {
    /// A PEM or OpenSSH private key.
    PrivateKey,
    /// An access key of a cloud provider.
    CloudKey,
    /// A token of a code host.
    ForgeToken,
    /// A key of a model provider.
    ModelKey,
    /// A token of another service.
    ServiceToken,
    /// A user name and password in a URL.
    UrlPassword,
}

impl fmt::Display for SecretKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PrivateKey => "a private key",
            Self::CloudKey => "a cloud access key",
            Self::ForgeToken => "a code host token",
            Self::ModelKey => "a model provider key",
            Self::ServiceToken => "a service token",
            Self::UrlPassword => "a password in a URL",
        })
    }
}

/// A secret on one line. The secret itself is not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) kind: SecretKind,
    /// Recognises the same secret again without storing it.
    pub(crate) fingerprint: String,
}

/// The characters a token is made of after its prefix.
#[derive(Clone, Copy)]
enum Alphabet {
    Alnum,
    UpperAlnum,
    Hex,
    /// Letters, digits, `_` and `-`.
    Url,
    /// Letters, digits, `_`, `-` and `.`.
    Dotted,
}

impl Alphabet {
    fn has(self, b: u8) -> bool {
        match self {
            Self::Alnum => b.is_ascii_alphanumeric(),
            Self::UpperAlnum => b.is_ascii_uppercase() || b.is_ascii_digit(),
            Self::Hex => b.is_ascii_hexdigit(),
            Self::Url => b.is_ascii_alphanumeric() || b == b'_' || b == b'-',
            Self::Dotted => Self::Url.has(b) || b == b'.',
        }
    }
}

/// A fixed prefix followed by at least `min` and at most `max` characters of an alphabet, standing alone.
struct Shape {
    kind: SecretKind,
    prefix: &'static str,
    alphabet: Alphabet,
    min: usize,
    max: usize,
}

const fn shape(kind: SecretKind, prefix: &'static str, alphabet: Alphabet, min: usize, max: usize) -> Shape {
    Shape { kind, prefix, alphabet, min, max }
}

const SHAPES: &[Shape] = &[
    shape(SecretKind::ForgeToken, "ghp_", Alphabet::Alnum, 36, 251),
    shape(SecretKind::ForgeToken, "gho_", Alphabet::Alnum, 36, 251),
    shape(SecretKind::ForgeToken, "ghu_", Alphabet::Alnum, 36, 251),
    shape(SecretKind::ForgeToken, "ghs_", Alphabet::Alnum, 36, 251),
    shape(SecretKind::ForgeToken, "ghr_", Alphabet::Alnum, 36, 251),
    shape(SecretKind::ForgeToken, "github_pat_", Alphabet::Url, 36, 255),
    shape(SecretKind::ForgeToken, "glpat-", Alphabet::Url, 20, 255),
    shape(SecretKind::CloudKey, "AKIA", Alphabet::UpperAlnum, 16, 16),
    shape(SecretKind::CloudKey, "ASIA", Alphabet::UpperAlnum, 16, 16),
    shape(SecretKind::CloudKey, "AIza", Alphabet::Url, 35, 35),
    shape(SecretKind::CloudKey, "dop_v1_", Alphabet::Hex, 64, 64),
    shape(SecretKind::ModelKey, "sk-ant-", Alphabet::Url, 40, 255),
    shape(SecretKind::ModelKey, "sk-proj-", Alphabet::Url, 40, 255),
    shape(SecretKind::ModelKey, "xai-", Alphabet::Alnum, 60, 100),
    shape(SecretKind::ModelKey, "hf_", Alphabet::Alnum, 34, 40),
    shape(SecretKind::ServiceToken, "xoxb-", Alphabet::Url, 20, 255),
    shape(SecretKind::ServiceToken, "xoxp-", Alphabet::Url, 20, 255),
    shape(SecretKind::ServiceToken, "xoxa-", Alphabet::Url, 20, 255),
    shape(SecretKind::ServiceToken, "xoxs-", Alphabet::Url, 20, 255),
    shape(SecretKind::ServiceToken, "xapp-", Alphabet::Url, 40, 255),
    shape(SecretKind::ServiceToken, "sk_live_", Alphabet::Alnum, 16, 255),
    shape(SecretKind::ServiceToken, "rk_live_", Alphabet::Alnum, 16, 255),
    shape(SecretKind::ServiceToken, "npm_", Alphabet::Alnum, 36, 36),
    shape(SecretKind::ServiceToken, "pypi-AgEIcHlwaS5vcmc", Alphabet::Url, 40, 300),
    shape(SecretKind::ServiceToken, "SG.", Alphabet::Dotted, 66, 66),
];

/// The secrets on one line.
pub(crate) fn scan(line: &[u8]) -> Vec<Found> {
    let shaped =
        SHAPES.iter().flat_map(|shape| occurrences(line, shape.prefix.as_bytes()).filter_map(move |at| shaped_at(line, at, shape)));
    let mut found: Vec<Found> = shaped.collect();
    found.extend(private_key(line));
    found.extend(named_cloud_secret(line));
    found.extend(url_password(line));
    found.dedup();
    found
}

fn occurrences<'a>(line: &'a [u8], needle: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    line.windows(needle.len()).enumerate().filter(move |(_, window)| *window == needle).map(|(at, _)| at)
}

fn shaped_at(line: &[u8], at: usize, shape: &Shape) -> Option<Found> {
    let before = at.checked_sub(1).and_then(|i| line.get(i));
    if before.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_') {
        return None;
    }
    let rest = line.get(at + shape.prefix.len()..)?;
    let body = rest.iter().take_while(|b| shape.alphabet.has(**b)).count();
    let token = line.get(at..at + shape.prefix.len() + body)?;
    (shape.min..=shape.max).contains(&body).then_some(())?;
    (!is_placeholder(token)).then(|| found(shape.kind, token))
}

/// Documentation shows tokens too: those that say so, or that repeat one character, are no secrets.
fn is_placeholder(token: &[u8]) -> bool {
    let upper = token.to_ascii_uppercase();
    if ["EXAMPLE", "XXXXXXXX", "PLACEHOLDER", "YOUR_", "YOUR-", "REDACTED", "DUMMY"].iter().any(|word| contains(&upper, word.as_bytes())) {
        return true;
    }
    let body = token.get(token.len().saturating_sub(12)..).unwrap_or_default();
    body.first().is_some_and(|first| body.iter().all(|b| b == first))
}

fn private_key(line: &[u8]) -> Option<Found> {
    let at = find(line, b"-----BEGIN ")?;
    let rest = line.get(at + 11..)?;
    let label = rest.get(..find(rest, b"-----")?)?;
    let upper = label.iter().all(|b| b.is_ascii_uppercase() || *b == b' ' || b.is_ascii_digit());
    let private = label.ends_with(b"PRIVATE KEY") || label == b"PGP PRIVATE KEY BLOCK";
    // Code that only compares with the header line, without a key behind it, ends in a quote.
    let quoted = matches!(rest.get(label.len() + 5), Some(b'"' | b'\'' | b'`'));
    (upper && private && !quoted).then(|| found(SecretKind::PrivateKey, line))
}

/// An AWS secret key has no shape of its own, but its usual name gives it away.
fn named_cloud_secret(line: &[u8]) -> Option<Found> {
    let lower = line.to_ascii_lowercase();
    for name in [&b"aws_secret_access_key"[..], b"secretaccesskey", b"accountkey="] {
        let Some(at) = find(&lower, name) else { continue };
        let rest = line.get(at + name.len()..)?;
        let skip = rest.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'=' | b':' | b'"' | b'\'' | b'>')).count();
        let value = rest.get(skip..)?;
        let length = value.iter().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'+' | b'=')).count();
        let value = value.get(..length)?;
        if matches!(length, 40 | 86..=88) && !is_placeholder(value) {
            return Some(found(SecretKind::CloudKey, value));
        }
    }
    None
}

fn url_password(line: &[u8]) -> Option<Found> {
    let mut from = 0;
    while let Some(at) = line.get(from..).and_then(|rest| find(rest, b"://")) {
        from += at + 3;
        let rest = line.get(from..)?;
        let end = rest.iter().position(|b| b"/ \t\"'`<>)\\,;#?".contains(b)).unwrap_or(rest.len());
        let authority = rest.get(..end)?;
        let Some(host_at) = authority.iter().rposition(|b| *b == b'@') else { continue };
        let (user, host) = (authority.get(..host_at)?, authority.get(host_at + 1..)?);
        let Some(colon) = user.iter().position(|b| *b == b':') else { continue };
        let password = user.get(colon + 1..)?;
        if is_real_password(password) && is_public_host(host) {
            return Some(found(SecretKind::UrlPassword, authority));
        }
    }
    None
}

fn is_real_password(password: &[u8]) -> bool {
    const COMMON: &[&[u8]] = &[b"password", b"postgres", b"changeme", b"passw0rd", b"mypassword", b"secret", b"username", b"hunter2"];
    password.len() >= 8
        && password.iter().all(|b| b.is_ascii_graphic() && !b"${}<>[]*%(".contains(b))
        && !COMMON.contains(&password.to_ascii_lowercase().as_slice())
        && !is_placeholder(password)
}

/// Addresses of examples and of the own machine hold no secrets worth an alarm.
fn is_public_host(host: &[u8]) -> bool {
    let host = host.split(|b| *b == b':').next().unwrap_or_default().to_ascii_lowercase();
    let example = [&b"example.com"[..], b"example.org", b"example.net", b".invalid", b".test", b".local", b"localhost"];
    contains(&host, b".") && !host.starts_with(b"127.") && !host.starts_with(b"0.0.0.0") && !example.iter().any(|end| host.ends_with(end))
}

fn found(kind: SecretKind, secret: &[u8]) -> Found {
    let digest = Sha256::digest(secret);
    Found { kind, fingerprint: digest.iter().take(8).map(|b| format!("{b:02x}")).collect() }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    find(haystack, needle).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test secrets are put together at run time, so that this file does not trip the scan itself.
    fn token(prefix: &str, length: usize) -> String {
        prefix.to_owned() + &"a1B2c3D4e5".repeat(30)[..length]
    }

    fn upper(prefix: &str, length: usize) -> String {
        token(prefix, length).to_uppercase()
    }

    #[test]
    fn secrets_are_recognised_by_shape() {
        let begin = "-----BEGIN ";
        for (line, kind) in [
            (format!("token = \"{}\"", token("ghp_", 36)), SecretKind::ForgeToken),
            (token("github_pat_", 82), SecretKind::ForgeToken),
            (format!("  - {}", token("glpat-", 20)), SecretKind::ForgeToken),
            (format!("key={}", upper("AKIA", 16)), SecretKind::CloudKey),
            (token("AIza", 35), SecretKind::CloudKey),
            (format!("aws_secret_access_key = {}", token("", 40)), SecretKind::CloudKey),
            (format!("\"SecretAccessKey\": \"{}\"", token("", 40)), SecretKind::CloudKey),
            (format!("ANTHROPIC_API_KEY={}", token("sk-ant-api03-", 90)), SecretKind::ModelKey),
            (token("sk-proj-", 48), SecretKind::ModelKey),
            (token("xoxb-", 40), SecretKind::ServiceToken),
            (token("sk_live_", 24), SecretKind::ServiceToken),
            (token("npm_", 36), SecretKind::ServiceToken),
            (token("SG.", 22) + "." + &token("", 43), SecretKind::ServiceToken),
            (format!("{begin}RSA PRIVATE KEY-----"), SecretKind::PrivateKey),
            (format!("{begin}PRIVATE KEY-----\\nMIIE"), SecretKind::PrivateKey),
            (format!("{begin}OPENSSH PRIVATE KEY-----"), SecretKind::PrivateKey),
            ("url: postgres://app:Zk39dkXq2w@db.acme.io/app".to_owned(), SecretKind::UrlPassword),
        ] {
            let found = scan(line.as_bytes());
            assert_eq!(found.first().map(|f| f.kind), Some(kind), "{line}");
        }
    }

    #[test]
    fn what_only_looks_like_a_secret_passes() {
        for line in [
            String::new(),
            "ghp_short".to_owned(),
            format!("x{}", token("ghp_", 36)),
            "AKIAIOSFODNN7EXAMPLE".to_owned(),
            format!("{}x", upper("AKIA", 17)),
            format!("ghp_{}", "x".repeat(36)),
            "sk-ant-your-key-here".to_owned(),
            "-----BEGIN PUBLIC KEY-----".to_owned(),
            "-----BEGIN CERTIFICATE-----".to_owned(),
            format!("if text.startswith(\"-----BEGIN {} KEY-----\")", "PRIVATE"),
            "postgres://postgres:postgres@localhost:5432/db".to_owned(),
            "https://user:${PASSWORD}@git.acme.io/x".to_owned(),
            "https://user:longpassword@example.com/".to_owned(),
            "http://host:8080/a@b".to_owned(),
            "let hash = \"2fd4e1c67a2d28fced849ee1bb76e7391b93eb12\";".to_owned(),
            "aws_secret_access_key = os.environ[\"AWS_SECRET\"]".to_owned(),
        ] {
            assert_eq!(scan(line.as_bytes()), [], "{line}");
        }
    }

    #[test]
    fn a_fingerprint_recognises_the_secret_without_holding_it() {
        let secret = token("ghp_", 36);
        let (one, two) = (scan(format!("a = {secret}").as_bytes()), scan(format!("other: '{secret}'").as_bytes()));
        assert_eq!(one, two);
        assert!(!format!("{one:?}").contains(&secret[4..20]));
        assert_ne!(one, scan(token("ghp_", 37).as_bytes()));
    }
}
