//! The command line as a client of a running server: requests with the CEO's token, and refusals as sentences and exit codes.

mod stream;

use std::ffi::OsStr;
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use roboco_process::find_program;
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::config::Config;
use crate::data_dir::DataDir;
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::terminal::clean;

pub(crate) use stream::{Next, Stream};

/// Longer than any command waits for its effect on the server.
const DEADLINE: Duration = Duration::from_secs(900);
/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(5);

/// A connection to the server of one company.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    token: SecretString,
    start: String,
}

impl Client {
    /// Finds the running server: the one of this data directory or, when a token is given by `ROBOCO_TOKEN`, the one at the configured
    /// address.
    ///
    /// # Errors
    /// No server runs, or there is no token.
    pub(crate) fn connect(data: &DataDir, config: &Config, environment: &Environment) -> Result<Self, Failure> {
        let start = start_command(data, environment);
        let given = environment.text("ROBOCO_TOKEN").map(SecretString::from);
        let base = match (data.running_server()?, &given) {
            (Some(server), _) => format!("http://{}", server.address),
            (None, Some(_)) if !config.server.public_base_url.is_empty() => config.server.public_base_url.trim_end_matches('/').to_owned(),
            (None, Some(_)) => format!("http://{}:{}", config.server.host, config.server.port),
            (None, None) => return Err(not_running(&start)),
        };
        let token = match given {
            Some(token) => token,
            None => data.ceo_token()?.ok_or_else(|| not_running(&start))?,
        };
        Self::new(base, token, start)
    }

    /// A client of the server at this address.
    ///
    /// # Errors
    /// The HTTP client cannot be built.
    pub(crate) fn new(base: String, token: SecretString, start: String) -> Result<Self, Failure> {
        let http = reqwest::Client::builder().connect_timeout(CONNECT).redirect(reqwest::redirect::Policy::none());
        let http = if base.starts_with("http://") { http.no_proxy() } else { http };
        let http = http.build().map_err(|error| Failure::broken(format!("the HTTP client cannot be made: {error}")))?;
        Ok(Self { http, base, token, start })
    }

    /// Reads something.
    ///
    /// # Errors
    /// The server's refusal, or none runs.
    pub(crate) async fn get(&self, path: &str, query: &[(&str, String)]) -> Result<Value, Failure> {
        let response = self.send(self.request(Method::GET, path).query(query).timeout(DEADLINE)).await?;
        read(response).await
    }

    /// Reads something of a known shape.
    ///
    /// # Errors
    /// As [`Client::get`]; also when the server speaks another version.
    pub(crate) async fn read<T: DeserializeOwned>(&self, path: &str, query: &[(&str, String)]) -> Result<T, Failure> {
        typed(self.get(path, query).await?)
    }

    /// Changes something.
    ///
    /// # Errors
    /// The server's refusal, or none runs.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let response = self.send(self.request(Method::POST, path).json(body).timeout(DEADLINE)).await?;
        read(response).await
    }

    /// Follows events after a sequence number, of one task or of all.
    ///
    /// # Errors
    /// The server's refusal, or none runs.
    pub(crate) async fn stream(&self, task: Option<&str>, after: u64) -> Result<Stream, Failure> {
        let mut query = vec![("after", after.to_string())];
        query.extend(task.map(|task| ("task", task.to_owned())));
        let response = self.send(self.request(Method::GET, "/api/stream").query(&query)).await?;
        if response.status().is_success() {
            return Ok(Stream::new(response, after));
        }
        let status = response.status();
        Err(read(response).await.err().unwrap_or_else(|| refusal(status, &Value::Null)))
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base)).bearer_auth(self.token.expose_secret())
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        request.send().await.map_err(|error| {
            if error.is_connect() {
                return not_running(&self.start);
            }
            let what = if error.is_timeout() { "it did not answer in time" } else { "the connection broke" };
            Failure::new(Exit::NoServer, format!("the server at {} cannot be used: {what}. Look at its log, then try again", self.base))
        })
    }
}

/// The command that starts the server of this data directory.
pub(crate) fn start_command(data: &DataDir, environment: &Environment) -> String {
    let usual = crate::config::data_dir(None, environment).is_ok_and(|usual| usual == data.root());
    let program = program_word(environment);
    if usual { format!("{program} up") } else { format!("{program} --data-dir {} up", data.root().display()) }
}

/// What to type for this program: its name when the shell would find this very file, else its path.
fn program_word(environment: &Environment) -> String {
    let own = std::env::current_exe().and_then(|path| path.canonicalize());
    let found = find_program(OsStr::new("roboco"), &environment.search_path()).and_then(|path| path.canonicalize().ok());
    match (own, found) {
        (Ok(own), found) if found.as_ref() != Some(&own) => own.display().to_string(),
        _ => "roboco".to_owned(),
    }
}

/// A value as the shape it must have.
///
/// # Errors
/// It has another shape.
pub(crate) fn typed<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_json::from_value(value).map_err(|error| {
        Failure::broken(format!("the server's answer was not understood ({error}): use the same version of roboco on both sides"))
    })
}

fn not_running(start: &str) -> Failure {
    Failure::new(Exit::NoServer, format!("RoboCo is not running: start it with `{start}`"))
}

async fn read(response: Response) -> Result<Value, Failure> {
    let status = response.status();
    let body = response.bytes().await.map_err(|error| Failure::new(Exit::NoServer, format!("the server's answer broke off: {error}")))?;
    let value: Option<Value> = serde_json::from_slice(&body).ok();
    match value {
        Some(value) if status.is_success() => Ok(value),
        value => Err(refusal(status, &value.unwrap_or_default())),
    }
}

/// What a refusal means for whoever typed the command.
fn refusal(status: StatusCode, body: &Value) -> Failure {
    let error = &body["error"];
    let part = |name: &str| error[name].as_str().map(clean).unwrap_or_default();
    let (message, remedy) = (part("message"), part("remediate"));
    let message = match (message.is_empty(), remedy.is_empty() || message.contains(&remedy)) {
        (true, _) => format!("the server answered {status} without an explanation; is it another program?"),
        (false, true) => message,
        (false, false) => format!("{message}\n  {remedy}"),
    };
    match status {
        StatusCode::UNAUTHORIZED => Failure::new(
            Exit::Configuration,
            "the server does not know this token: use the data directory of the running server, or correct ROBOCO_TOKEN",
        ),
        StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            Failure::new(Exit::NotNow, message)
        }
        status if status.is_client_error() => Failure::new(Exit::Usage, message),
        _ => {
            let trace = error["correlation_id"].as_str().or(error["details"]["correlation_id"].as_str()).map(clean);
            let trace = trace.map(|id| format!("\n  the server's log has more under {id}")).unwrap_or_default();
            Failure::broken(format!("{message}{trace}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refusals_become_sentences_and_exit_codes() {
        let body = json!({ "error": { "code": "x", "message": "no \u{1b}[31msuch task", "remediate": "see `roboco task list`", "correlation_id": "abc" } });
        for (status, exit) in [
            (404, Exit::Usage),
            (422, Exit::Usage),
            (409, Exit::NotNow),
            (429, Exit::NotNow),
            (503, Exit::NotNow),
            (401, Exit::Configuration),
            (500, Exit::Broken),
        ] {
            let failure = refusal(StatusCode::from_u16(status).unwrap(), &body);
            assert_eq!(failure.exit, exit, "{status}");
            assert!(!failure.message.contains('\u{1b}'));
        }
        let failure = refusal(StatusCode::NOT_FOUND, &body);
        assert_eq!(failure.message, "no such task\n  see `roboco task list`");
        assert!(refusal(StatusCode::INTERNAL_SERVER_ERROR, &body).message.contains("abc"));
        assert!(refusal(StatusCode::BAD_GATEWAY, &Value::Null).message.contains("502"));
    }

    #[test]
    fn without_a_server_the_command_to_start_one_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::from([("HOME", "/home/ada")]);
        let failure = Client::connect(&DataDir::at(dir.path()), &Config::default(), &environment).unwrap_err();
        assert_eq!(failure.exit, Exit::NoServer);
        assert!(failure.message.starts_with("RoboCo is not running: start it with `"), "{failure}");
        assert!(failure.message.ends_with(&format!(" --data-dir {} up`", dir.path().display())), "{failure}");
        let usual = DataDir::at(std::path::Path::new("/home/ada/.local/share/roboco"));
        let command = start_command(&usual, &environment);
        assert!(command.ends_with(" up") && !command.contains("--data-dir"), "{command}");
    }
}
