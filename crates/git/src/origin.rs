//! Where a project comes from, and what is needed to talk to it.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use secrecy::{ExposeSecret, SecretString};

use crate::error::Refusal;
use crate::git::{Call, Git};

/// A repository that work comes from and lands in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A folder on this machine, bare or with a working tree. Absolute and without symbolic links.
    Folder(PathBuf),
    /// An `https://` or `ssh://` address (also written `user@host:path`), without credentials.
    Url(String),
}

/// What the origin is read and written with. Never shown, never written to disk by this crate.
#[derive(Debug, Clone, Default)]
pub enum Credential {
    /// Nothing: folders, public repositories, keys that ssh finds by itself.
    #[default]
    None,
    /// An ssh agent that listens on this socket.
    SshAgent(PathBuf),
    /// An access token for https.
    Token(SecretString),
}

/// What may be done with an origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Work can land there.
    Write,
    /// Work can only be read from there; the text says why.
    ReadOnly(String),
}

impl Origin {
    /// Reads a folder or an address as a person gives it. A relative folder is resolved against `relative_to`.
    ///
    /// # Errors
    /// `BadOrigin` for other schemes, options, remote helpers, embedded credentials; `NotARepository` for a folder that is not there.
    pub fn parse(text: &str, relative_to: &Path) -> Result<Self, Refusal> {
        let bad = |why| Refusal::BadOrigin { origin: without_credentials(text), why };
        let text = text.trim();
        if text.is_empty() || text.len() > 1000 || text.chars().any(char::is_control) {
            return Err(bad("give a folder, or an https:// or ssh:// address"));
        }
        if text.starts_with('-') {
            return Err(bad("it looks like an option"));
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            return match scheme.to_ascii_lowercase().as_str() {
                "https" => url("https", rest).map_err(bad).map(Self::Url),
                "ssh" => url("ssh", rest).map_err(bad).map(Self::Url),
                "file" => Err(bad("give the folder itself, without file://")),
                "http" => Err(bad("http sends tokens in the open; use https")),
                _ => Err(bad("only folders, https:// and ssh:// addresses are accepted")),
            };
        }
        if text.contains("::") {
            return Err(bad("remote helpers are not accepted; use a folder, https:// or ssh://"));
        }
        let colon = text.find(':');
        if colon.is_some_and(|colon| !text.get(..colon).is_some_and(|host| host.contains('/'))) && !relative_to.join(text).exists() {
            return scp_like(text).map_err(bad).map(Self::Url);
        }
        let folder = relative_to.join(text);
        folder.canonicalize().map(Self::Folder).map_err(|_| Refusal::NotARepository(folder))
    }

    /// Whether work lands in a folder of this machine.
    pub fn is_folder(&self) -> bool {
        matches!(self, Self::Folder(_))
    }

    pub(crate) fn location(&self) -> OsString {
        match self {
            Self::Folder(path) => path.clone().into(),
            Self::Url(url) => url.into(),
        }
    }

    /// Lets a command talk to this origin and to nothing else.
    pub(crate) fn open<'g>(&self, call: Call<'g>, credential: &Credential) -> Call<'g> {
        match self {
            Self::Folder(_) => call.env("GIT_ALLOW_PROTOCOL", "file"),
            Self::Url(url) if url.starts_with("ssh://") => {
                let call = call.env("GIT_ALLOW_PROTOCOL", "ssh");
                match credential {
                    Credential::SshAgent(socket) => call.env("SSH_AUTH_SOCK", socket),
                    Credential::None | Credential::Token(_) => call,
                }
            }
            Self::Url(url) => {
                let call = call.env("GIT_ALLOW_PROTOCOL", "https");
                match credential {
                    // Bound to this host: no other host is ever sent the token.
                    Credential::Token(token) => {
                        let basic = base64::engine::general_purpose::STANDARD.encode(format!("x-access-token:{}", token.expose_secret()));
                        call.config(format!("http.{}/.extraHeader", host_part(url)), format!("Authorization: Basic {basic}"))
                    }
                    Credential::None | Credential::SshAgent(_) => call,
                }
            }
        }
    }

    /// The command that reads from a folder: the folder's own hooks and monitors stay off on its side too.
    pub(crate) fn upload_pack(&self, git: &Git) -> Option<OsString> {
        self.is_folder().then(|| other_side(git, &[], "upload-pack"))
    }

    /// The command that writes to a folder. Files move together with the branch that is checked out; changed files stop it.
    pub(crate) fn receive_pack(&self, git: &Git) -> Option<OsString> {
        self.is_folder().then(|| other_side(git, &["receive.denyCurrentBranch=updateInstead", "receive.autogc=false"], "receive-pack"))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "{}", path.display()),
            Self::Url(url) => f.write_str(url),
        }
    }
}

fn other_side(git: &Git, config: &[&str], command: &str) -> OsString {
    let mut line = OsString::from("--");
    line.push(command);
    line.push("='");
    // The line goes through a shell; inside single quotes only a single quote needs care.
    line.push(git.program().to_string_lossy().replace('\'', "'\\''"));
    line.push("'");
    for pair in ["core.hooksPath=/dev/null", "core.fsmonitor=false", "safe.directory=*"].iter().chain(config) {
        line.push(format!(" -c '{pair}'"));
    }
    line.push(format!(" {command}"));
    line
}

fn url(scheme: &str, rest: &str) -> Result<String, &'static str> {
    let (authority, path) = rest.split_once('/').ok_or("the address names no repository")?;
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    match (scheme, user) {
        (_, Some(user)) if user.contains(':') => return Err("leave the password out and give a token as credential instead"),
        ("https", Some(_)) => return Err("leave the user name out and give a token as credential instead"),
        (_, Some(user)) if !is_plain(user, "._-+") || user.starts_with('-') => return Err("the user name has odd characters"),
        _ => {}
    }
    check_host(host)?;
    check_path(path)?;
    Ok(format!("{scheme}://{}{}/{path}", user.map(|user| format!("{user}@")).unwrap_or_default(), host.to_ascii_lowercase()))
}

fn scp_like(text: &str) -> Result<String, &'static str> {
    let (authority, path) = text.split_once(':').ok_or("only folders, https:// and ssh:// addresses are accepted")?;
    if path.starts_with('/') { url("ssh", &format!("{authority}{path}")) } else { url("ssh", &format!("{authority}/{path}")) }
}

fn check_host(host: &str) -> Result<(), &'static str> {
    let (name, port) = host.rsplit_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    let name_ok = !name.is_empty() && !name.starts_with('-') && !name.starts_with('.') && is_plain(name, ".-");
    let port_ok = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    if name_ok && port_ok { Ok(()) } else { Err("the host name is not valid") }
}

fn check_path(path: &str) -> Result<(), &'static str> {
    let ok = !path.is_empty() && !path.starts_with('-') && path.split('/').all(|part| part != "..") && is_plain(path, "/._-~+%@");
    if ok { Ok(()) } else { Err("the path in the address has odd characters") }
}

fn is_plain(text: &str, also: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || also.contains(c))
}

/// Scheme, host and port of a checked address.
fn host_part(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url.get(start..).and_then(|rest| rest.find('/')).map_or(url.len(), |at| start + at);
    url.get(..end).unwrap_or(url)
}

/// Cuts what might be a password out of something that was refused.
fn without_credentials(text: &str) -> String {
    let text: String = text.trim().chars().take(200).collect();
    match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://…@{host}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_normalised_or_refused() {
        let here = Path::new("/");
        for (text, url) in [
            ("https://GitHub.com/acme/greeter.git", "https://github.com/acme/greeter.git"),
            ("ssh://git@git.acme.io:2222/a/b", "ssh://git@git.acme.io:2222/a/b"),
            ("git@github.com:acme/greeter.git", "ssh://git@github.com/acme/greeter.git"),
            ("git@host:/srv/git/x.git", "ssh://git@host/srv/git/x.git"),
        ] {
            assert_eq!(Origin::parse(text, here), Ok(Origin::Url(url.to_owned())), "{text}");
        }
        let bad = ["", "-oProxyCommand=x", "ext::sh -c id", "file:///tmp/x", "http://h/x", "git://h/x", "ftp://h/x", "https://h"];
        let more = ["https://user:s3cretword@h/x", "https://s3cretword@h/x", "ssh://-oProxyCommand=x/y", "ssh://git:pw@h/x"];
        let odd = [
            "https://h/../x",
            "https://h/a b",
            "https://h:0/x",
            "https://h:99999/x",
            "https://h/x?y",
            "-a@h:x",
            "fd::17",
            "https://h/x\ny",
        ];
        for text in bad.into_iter().chain(more).chain(odd) {
            let error = Origin::parse(text, here).expect_err(text);
            assert!(matches!(error, Refusal::BadOrigin { .. }), "{text}");
            assert!(!error.to_string().contains("s3cretword"), "{error}");
        }
        assert!(matches!(Origin::parse("/no/such/folder", here), Err(Refusal::NotARepository(_))));
    }

    #[test]
    fn folders_are_resolved() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("a:b")).unwrap();
        std::fs::create_dir(root.join("repo")).unwrap();
        assert_eq!(Origin::parse("repo", &root), Ok(Origin::Folder(root.join("repo"))));
        assert_eq!(Origin::parse("./repo/../repo", &root), Ok(Origin::Folder(root.join("repo"))));
        assert_eq!(Origin::parse("a:b", &root), Ok(Origin::Folder(root.join("a:b"))));
    }

    #[test]
    fn a_token_is_bound_to_its_host() {
        assert_eq!(host_part("https://git.acme.io:8443/a/b"), "https://git.acme.io:8443");
        assert!(!format!("{:?}", Credential::Token("s3cretword".to_owned().into())).contains("s3cretword"));
    }
}
