//! Where settings come from: the first settings file that exists, then the environment over it. Every wrong name is reported at once.

use std::path::{Path, PathBuf};

use figment::providers::Serialized;
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};

use super::docs::keys;
use super::names::{Meaning, PREFIX, is_setting, meaning, nearest};
use super::{Config, Login};
use crate::environment::Environment;

/// The settings cannot be used. Every problem is listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the settings cannot be used:\n  - {}", .problems.join("\n  - "))]
pub(crate) struct ConfigError {
    pub(crate) problems: Vec<String>,
}

/// Settings with where they came from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Loaded {
    /// What is in force.
    pub(crate) config: Config,
    /// The file that was read, if any.
    pub(crate) file: Option<PathBuf>,
    /// The environment variables that were used.
    pub(crate) variables: Vec<String>,
}

/// The data directory: the one asked for, `ROBOCO_DATA_DIR`, or the usual place of this user.
///
/// # Errors
/// There is no usual place because the user has no home.
pub(crate) fn data_dir(asked: Option<&Path>, environment: &Environment) -> Result<PathBuf, ConfigError> {
    let found = asked.map(Path::to_owned).or_else(|| environment.path("ROBOCO_DATA_DIR"));
    let found = found.or_else(|| environment.xdg("XDG_DATA_HOME", ".local/share").map(|dir| dir.join("roboco")));
    let dir = found.ok_or_else(|| one("there is no home directory to keep data in: give --data-dir"))?;
    std::path::absolute(&dir).map_err(|error| one(format!("data directory {}: {error}", dir.display())))
}

/// Reads the settings for a data directory.
///
/// # Errors
/// Every unknown, retired or unusable name and value.
pub(crate) fn load(asked: Option<&Path>, data_dir: &Path, environment: &Environment) -> Result<Loaded, ConfigError> {
    let paths: Vec<String> = keys().into_iter().map(|key| key.path).collect();
    let mut problems = Vec::new();
    let mut figment = Figment::from(Serialized::defaults(Config::default()));

    let file = find_file(asked, data_dir, environment)?;
    if let Some(file) = &file {
        let text = std::fs::read_to_string(file).map_err(|error| one(format!("{}: {error}", file.display())))?;
        let table: toml::Table = text.parse().map_err(|error| one(format!("{}: {error}", file.display())))?;
        unknown_in(&table, "", &paths, &mut |problem| problems.push(format!("{}: {problem}", file.display())));
        figment = figment.merge(Source { name: file.display().to_string(), table: Dict::from_iter(values(table)) });
    }

    let mut variables = Vec::new();
    for (name, value) in environment.with_prefix(PREFIX) {
        let full = format!("{PREFIX}{name}");
        match meaning(name, &paths) {
            Meaning::Setting(path) => match value.to_str() {
                Some(text) => {
                    // Slugs of agents have dashes, which names of variables cannot have.
                    let path = if path.starts_with("routing.agent.") { path.replace('_', "-") } else { path };
                    figment = figment.merge(Source { name: full.clone(), table: nested(&path, text) });
                    variables.push(full);
                }
                None => problems.push(format!("{full}: the value is not text")),
            },
            Meaning::NotASetting => {}
            Meaning::Gone(instead) => problems.push(format!("{full} no longer exists: {instead}")),
            Meaning::Unknown(Some(near)) => problems.push(format!("{full} is not a setting; the nearest is {near}")),
            Meaning::Unknown(None) => problems.push(format!("{full} is not a setting; `roboco config --docs` lists them")),
        }
    }
    if !problems.is_empty() {
        return Err(ConfigError { problems });
    }
    let config: Config = figment.extract().map_err(|error| ConfigError { problems: error.into_iter().map(explain).collect() })?;
    check(&config, &mut problems);
    if problems.is_empty() { Ok(Loaded { config, file, variables }) } else { Err(ConfigError { problems }) }
}

fn one(problem: impl Into<String>) -> ConfigError {
    ConfigError { problems: vec![problem.into()] }
}

/// The one file that counts. A file that was asked for must exist.
fn find_file(asked: Option<&Path>, data_dir: &Path, environment: &Environment) -> Result<Option<PathBuf>, ConfigError> {
    if let Some(file) = asked.map(Path::to_owned).or_else(|| environment.path("ROBOCO_CONFIG")) {
        return if file.is_file() { Ok(Some(file)) } else { Err(one(format!("there is no settings file {}", file.display()))) };
    }
    let usual = environment.xdg("XDG_CONFIG_HOME", ".config").map(|dir| dir.join("roboco/roboco.toml"));
    Ok([Some(data_dir.join("roboco.toml")), usual].into_iter().flatten().find(|file| file.is_file()))
}

/// One layer of settings under its name in error messages.
struct Source {
    name: String,
    table: Dict,
}

impl Provider for Source {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.name.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Profile::Default.collect(self.table.clone()))
    }
}

fn values(table: toml::Table) -> impl Iterator<Item = (String, Value)> {
    table.into_iter().filter_map(|(name, value)| Some((name, Value::serialize(value).ok()?)))
}

/// The table in which `path` has the value of a variable. Numbers, lists and words are told apart as in a file without quotes.
fn nested(path: &str, text: &str) -> Dict {
    let value = text.parse::<Value>().unwrap_or_else(|never| match never {});
    // A text setting may look like a number.
    let value = if is_text(path) { Value::from(text) } else { value };
    let mut parts = path.rsplit('.');
    let last = parts.next().unwrap_or_default();
    let leaf = Dict::from([(last.to_owned(), value)]);
    parts.fold(leaf, |inner, name| Dict::from([(name.to_owned(), Value::from(inner))]))
}

fn is_text(path: &str) -> bool {
    let defaults = serde_json::to_value(Config::default()).unwrap_or_default();
    let pointer = format!("/{}", path.replace('.', "/"));
    defaults.pointer(&pointer).is_none_or(serde_json::Value::is_string)
}

fn unknown_in(table: &toml::Table, above: &str, keys: &[String], report: &mut dyn FnMut(String)) {
    for (name, value) in table {
        let path = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        let is_table = keys.iter().any(|key| key.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('.') && rest != ".*"));
        let free = keys.iter().any(|key| key.strip_suffix(".*") == Some(path.as_str()));
        match value {
            toml::Value::Table(inner) if is_table => unknown_in(inner, &path, keys, report),
            _ if is_table || free || is_setting(&path, keys) => {}
            _ => {
                let parents: std::collections::BTreeSet<&str> = keys.iter().filter_map(|key| key.split('.').next()).collect();
                let near = nearest(&path, keys.iter().map(String::as_str).chain(parents));
                let near = near.or_else(|| keys.iter().map(String::as_str).find(|key| key.rsplit('.').next() == Some(name)));
                report(match near {
                    Some(near) => format!("`{path}` is not a setting; the nearest is `{near}`"),
                    None => format!("`{path}` is not a setting; `roboco config --docs` lists them"),
                });
            }
        }
    }
}

fn explain(error: figment::Error) -> String {
    let place = error.metadata.as_ref().map(|metadata| metadata.name.to_string()).unwrap_or_default();
    let path = error.path.join(".");
    // A value may be secret, so it is only shown for settings that are not.
    let what =
        if path.ends_with("key") || path.ends_with("url") { "the value is of the wrong kind".to_owned() } else { error.kind.to_string() };
    format!("{place}: `{path}`: {what}")
}

/// What the types cannot say.
fn check(config: &Config, problems: &mut Vec<String>) {
    let mut need = |fine: bool, problem: &str| {
        if !fine {
            problems.push(problem.to_owned());
        }
    };
    need(
        config.server.host.parse::<std::net::IpAddr>().is_ok() || config.server.host == "localhost",
        "`server.host` must be an IP address or localhost",
    );
    let url = &config.server.public_base_url;
    need(
        url.is_empty() || url.starts_with("http://") || url.starts_with("https://"),
        "`server.public_base_url` must start with https:// or http://",
    );
    let database = &config.database.url;
    let known = database == "sqlite" || ["sqlite:", "postgres://", "postgresql://"].iter().any(|scheme| database.starts_with(scheme));
    need(known, "`database.url` must be sqlite or postgres://user:password@host/name");
    need(config.runtime.max_spawns > 0, "`runtime.max_spawns` must be at least 1: pause the work instead");
    need(config.runtime.max_jobs > 0, "`runtime.max_jobs` must be at least 1");
    need(config.sandbox.memory.is_enough(), "`sandbox.memory` must be at least 256 MiB: no client starts with less");
    need(config.sandbox.pids >= 64, "`sandbox.pids` must be at least 64: a client alone has some dozens of threads");
    let claude = &config.providers.claude;
    need(!claude.command.trim().is_empty(), "`providers.claude.command` must name a program");
    let needs_key = matches!(claude.login, Login::Key | Login::Token);
    need(
        !needs_key || claude.key.get().is_some(),
        "`providers.claude.login` needs `providers.claude.key`: set ROBOCO_PROVIDERS__CLAUDE__KEY",
    );
    let routes = std::iter::once(&config.routing.default).chain(config.routing.role.values()).chain(config.routing.agent.values());
    for name in routes {
        if roboco_providers::table::row(name).is_none() {
            let known = roboco_providers::table::ROWS.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
            problems.push(format!("`routing`: there is no client {name:?}; there are {known}"));
        }
    }
    for role in config.routing.role.keys().filter(|role| role.parse::<roboco_domain::role::Role>().is_err()) {
        problems.push(format!("`routing.role`: there is no role {role:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Network, Unconfined};

    fn with(file: &str, environment: Environment) -> Result<Config, String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("roboco.toml"), file).unwrap();
        load(None, dir.path(), &environment).map(|loaded| loaded.config).map_err(|error| error.to_string())
    }

    #[test]
    fn the_environment_goes_over_the_file_and_the_file_over_the_defaults() {
        let file = "server = { host = \"127.0.0.2\", port = 9000 }\nsandbox.tool_dirs = [\"/opt/tools\"]\nrouting.role.qa = \"claude\"\n";
        let config = with(
            file,
            Environment::from([
                ("ROBOCO_PORT", "9100"),
                ("ROBOCO_SANDBOX__NETWORK", "host"),
                ("ROBOCO_SANDBOX__UNCONFINED", "allow"),
                ("ROBOCO_PROVIDERS__CLAUDE__KEY", "12345"),
                ("ROBOCO_PROVIDERS__CLAUDE__LOGIN", "key"),
                ("ROBOCO_TOKEN", "not a setting"),
                ("ROBOCO_AGENT_ID", "of the bridge"),
                ("HOME", "/nowhere"),
            ]),
        )
        .unwrap();
        assert_eq!((config.server.host.as_str(), config.server.port), ("127.0.0.2", 9100));
        assert_eq!((config.sandbox.network, config.sandbox.unconfined), (Network::Host, Unconfined::Allow));
        assert_eq!(config.sandbox.tool_dirs, [PathBuf::from("/opt/tools")]);
        assert_eq!(config.routing.role["qa"], "claude");
        assert!(config.providers.claude.key.get().is_some());
        assert_eq!(config.runtime, super::super::Pace::default());
    }

    #[test]
    fn the_first_file_found_is_the_only_one_read() {
        let dir = tempfile::tempdir().unwrap();
        let (data, home, asked) = (dir.path().join("data"), dir.path().join("home/roboco"), dir.path().join("asked.toml"));
        std::fs::create_dir_all(&data).unwrap();
        std::fs::create_dir_all(&home).unwrap();
        let environment = Environment::from([("XDG_CONFIG_HOME", dir.path().join("home").to_str().unwrap())]);
        let port = |asked: Option<&Path>| load(asked, &data, &environment).unwrap().config.server.port;
        assert_eq!(port(None), 8000);
        std::fs::write(home.join("roboco.toml"), "server.port = 1\nruntime.max_jobs = 9").unwrap();
        assert_eq!(port(None), 1);
        std::fs::write(data.join("roboco.toml"), "server.port = 2").unwrap();
        assert_eq!(port(None), 2);
        assert_eq!(load(None, &data, &environment).unwrap().config.runtime.max_jobs, 2, "files are not merged");
        std::fs::write(&asked, "server.port = 3").unwrap();
        assert_eq!(port(Some(&asked)), 3);
        let missing = load(Some(&dir.path().join("no.toml")), &data, &environment).unwrap_err().to_string();
        assert!(missing.contains("there is no settings file"), "{missing}");
    }

    #[test]
    fn wrong_names_and_values_are_all_named_with_what_would_be_right() {
        let cases: [(&str, Environment, &[&str]); 12] = [
            (
                "server = { prot = 1 }\nservre.host = \"x\"",
                Environment::default(),
                &["`server.prot`", "`server.port`", "`servre", "`server"],
            ),
            ("port = 1", Environment::default(), &["`port` is not a setting; the nearest is `server.port`"]),
            ("server.port = \"many\"", Environment::default(), &["roboco.toml", "server.port"]),
            ("", Environment::from([("ROBOCO_PROT", "1")]), &["ROBOCO_PROT is not a setting; the nearest is ROBOCO_PORT"]),
            ("", Environment::from([("ROBOCO_REDIS_URL", "x")]), &["ROBOCO_REDIS_URL no longer exists: there is no Redis"]),
            ("", Environment::from([("ROBOCO_PORT", "99999")]), &["ROBOCO_PORT", "server.port"]),
            ("sandbox.driver = \"docker\"", Environment::default(), &["sandbox.driver", "process"]),
            ("sandbox.memory = \"4 bananas\"", Environment::default(), &["sandbox.memory", "6 GiB"]),
            ("", Environment::from([("ROBOCO_SANDBOX__MEMORY", "4")]), &["ROBOCO_SANDBOX__MEMORY", "sandbox.memory", "6 GiB"]),
            ("sandbox = { memory = \"4 MiB\", pids = 3 }", Environment::default(), &["sandbox.memory", "256 MiB", "sandbox.pids"]),
            ("routing.default = \"grok\"", Environment::default(), &["no client \"grok\"", "claude, scripted"]),
            ("database.url = \"mysql://u:s3cret@h/x\"\nruntime.max_spawns = 0", Environment::default(), &["database.url", "max_spawns"]),
        ];
        for (file, environment, parts) in cases {
            let error = with(file, environment).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{file:?}: {part:?} is missing in {error}");
            }
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let config = with(
            "providers.claude = { login = \"key\", key = \"s3cret\" }\ndatabase.url = \"postgres://u:s3cret@h/x\"",
            Environment::default(),
        );
        let config = config.unwrap();
        assert!(!format!("{:?}", config.providers).contains("s3cret"));
        assert!(!toml::to_string(&config).unwrap().contains("s3cret"));
    }

    #[test]
    fn the_data_directory_is_asked_for_or_the_usual_one() {
        let environment = Environment::from([("HOME", "/home/ada")]);
        assert_eq!(data_dir(None, &environment).unwrap(), Path::new("/home/ada/.local/share/roboco"));
        let environment = Environment::from([("HOME", "/home/ada"), ("XDG_DATA_HOME", "/data")]);
        assert_eq!(data_dir(None, &environment).unwrap(), Path::new("/data/roboco"));
        let environment = Environment::from([("ROBOCO_DATA_DIR", "/srv/roboco"), ("HOME", "/home/ada")]);
        assert_eq!(data_dir(None, &environment).unwrap(), Path::new("/srv/roboco"));
        assert_eq!(data_dir(Some(Path::new("/asked")), &environment).unwrap(), Path::new("/asked"));
        assert!(data_dir(None, &Environment::default()).is_err());
    }
}
