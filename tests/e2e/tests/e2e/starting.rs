//! Starting and stopping: what keeps the server from running, and what it says then.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use roboco_e2e::Place;
use sea_orm::{ConnectionTrait as _, Database};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_server_stops_when_it_is_asked_to_and_its_files_are_private() {
    let mut place = Place::new();
    let server = place.up();
    let data = place.data();
    assert_eq!((mode(&data), mode(&data.join("ceo.token")), mode(&data.join("secrets.toml"))), (0o700, 0o600, 0o600));
    let text = place.http("GET", "/api/tasks", Some(&place.token()), "");
    assert_eq!(text.0, 200);
    for token in [None, Some("wrong")] {
        assert_eq!(place.http("GET", "/api/tasks", token, "").0, 401, "{token:?}");
    }
    let stopped = server.terminate();
    assert_eq!(stopped.code, 0, "{stopped:?}");
    assert!(!stopped.out.contains(&place.token()) && !stopped.err.contains(&place.token()));
    assert!(!data.join("server.json").exists());
}

#[test]
fn the_second_server_of_a_data_directory_is_told_who_the_first_is() {
    let mut place = Place::new();
    let first = place.up();
    for command in ["up", "demo"] {
        let second = place.roboco(&[command]);
        assert_eq!(second.code, 75, "{second:?}");
        assert!(second.err.contains(&format!("process {} already runs this company", first.pid())), "{}", second.err);
    }
    assert_eq!(place.roboco(&["agents"]).code, 0, "the first one still answers");
}

#[test]
fn a_port_in_use_is_named_and_nothing_is_moved_silently() {
    let mut place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    place.variables.push(("ROBOCO_PORT".into(), port.clone()));
    let ran = place.roboco(&["up"]);
    assert_eq!(ran.code, 75, "{ran:?}");
    assert!(ran.err.contains(&format!("port {port}")) && ran.err.contains("ROBOCO_PORT"), "{}", ran.err);
}

#[test]
fn wrong_settings_end_with_64_before_anything_is_touched() {
    for (name, value, part) in [
        ("ROBOCO_PROT", "1", "ROBOCO_PROT is not a setting; the nearest is ROBOCO_PORT"),
        ("ROBOCO_REDIS_URL", "x", "no longer exists"),
        ("ROBOCO_SANDBOX__DRIVER", "docker", "process"),
        ("ROBOCO_COMPANY__DIR", "/no/such/company", "roster.toml"),
        ("ROBOCO_AGENT_AUTH_SECRET", "short", "32 characters"),
        ("ROBOCO_PROVIDERS__CLAUDE__UPSTREAM", "ftp://x", "providers.claude.upstream"),
        ("ROBOCO_ROUTING__AGENT__BE_DEV_9", "claude", "no agent \"be-dev-9\""),
        ("ROBOCO_LOG", "=", "log.filter"),
    ] {
        let mut place = Place::new();
        place.variables = vec![(name.into(), value.into()), ("ROBOCO_HOST".into(), "127.0.0.1".into())];
        let ran = place.roboco(&["up"]);
        assert_eq!(ran.code, 64, "{name}: {ran:?}");
        assert!(ran.err.contains(part), "{name}: {}", ran.err);
        assert!(!ran.out.contains("runs at") && !place.data().join("server.json").exists());
    }
    let place = Place::new();
    std::fs::write(place.path("x.toml"), "server = { hsot = \"127.0.0.1\" }").unwrap();
    let ran = place.roboco(&["--config", "x.toml", "task", "list"]);
    assert_eq!(ran.code, 64, "{ran:?}");
    assert!(ran.err.contains("`server.hsot` is not a setting; the nearest is `server.host`"), "{}", ran.err);
}

#[test]
fn a_database_of_a_newer_version_is_left_alone() {
    let mut place = Place::new();
    assert_eq!(place.up().terminate().code, 0);
    let file = place.data().join("roboco.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let database = Database::connect(format!("sqlite:{}", file.display())).await.unwrap();
        let step = "INSERT INTO seaql_migrations (version, applied_at) VALUES ('m9999_from_the_future', 0)";
        database.execute_unprepared(step).await.unwrap();
        database.close().await.unwrap();
    });
    let ran = place.roboco(&["up"]);
    assert_eq!(ran.code, 64, "{ran:?}");
    assert!(ran.err.contains("newer RoboCo") && ran.err.contains("m9999_from_the_future"), "{}", ran.err);
    let doctor = place.json_of_doctor();
    let database = doctor["checks"].as_array().unwrap().iter().find(|check| check["name"] == "database").unwrap().clone();
    assert_eq!(database["health"], "fail", "{database}");
}

#[test]
fn a_damaged_database_is_named() {
    let mut place = Place::new();
    assert_eq!(place.up().terminate().code, 0);
    std::fs::write(place.data().join("roboco.db"), "not a database at all, but long enough to be read as one").unwrap();
    let ran = place.roboco(&["up"]);
    assert_eq!(ran.code, 64, "{ran:?}");
    assert!(ran.err.contains("roboco.db"), "{}", ran.err);
}

#[test]
fn a_data_directory_with_other_things_is_not_taken() {
    let place = Place::new();
    std::fs::create_dir(place.data()).unwrap();
    std::fs::set_permissions(place.data(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(place.data().join("thesis.txt"), "").unwrap();
    let ran = place.roboco(&["up"]);
    assert_eq!(ran.code, 64, "{ran:?}");
    assert!(ran.err.contains("holds other things"), "{}", ran.err);
    assert_eq!(mode(&place.data()), 0o755);
}

#[test]
fn without_a_server_every_command_says_how_to_start_one() {
    let place = Place::new();
    for command in [
        &["task", "list"][..],
        &["task", "show", "T-1"],
        &["approve", "T-1"],
        &["inbox"],
        &["agents"],
        &["project", "list"],
        &["logs", "T-1"],
    ] {
        let ran = place.roboco(command);
        assert_eq!(ran.code, 69, "{command:?}: {ran:?}");
        assert!(ran.err.contains("RoboCo is not running: start it with `"), "{}", ran.err);
        assert!(ran.err.contains(&format!("--data-dir {} up`", place.data().display())), "{}", ran.err);
    }
    assert!(!place.data().exists(), "asking makes nothing");
}

#[test]
fn a_server_that_was_killed_is_not_taken_for_a_running_one() {
    let mut place = Place::new();
    place.up().kill();
    assert!(place.data().join("server.json").exists(), "it had no time to clean up");
    assert_eq!(place.roboco(&["task", "list"]).code, 69);
    assert_eq!(place.up().terminate().code, 0);
}

#[test]
fn commands_that_need_no_server_work_without_one() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let ran = place.roboco(&["completions", shell]);
        assert!(ran.code == 0 && ran.out.contains("roboco"), "{shell}: {ran:?}");
    }
    let settings = place.json(&["config", "--json"]);
    assert_eq!(settings["server"]["port"], 8000);
    let docs = place.roboco(&["config", "--docs"]);
    assert!(docs.code == 0 && docs.out.contains("`ROBOCO_SERVER__PORT` or `ROBOCO_PORT`"), "{docs:?}");
    assert_eq!(place.roboco(&["--version"]).code, 0);
    assert_eq!(place.roboco(&["no-such-command"]).code, 2);
    let doctor = place.json_of_doctor();
    for check in doctor["checks"].as_array().unwrap() {
        assert!(check["health"] == "ok" || check["fix"].is_string(), "{check}");
    }
    let bridge = place.roboco_plain(&["bridge"]);
    assert!(bridge.code == 64 && bridge.err.contains("usage: roboco bridge run"), "{bridge:?}");
}

trait Doctor {
    fn json_of_doctor(&self) -> serde_json::Value;
}

impl Doctor for Place {
    /// It ends with 3 where no real client is installed, which is no matter here.
    fn json_of_doctor(&self) -> serde_json::Value {
        let ran = self.roboco(&["doctor", "--json"]);
        assert!(matches!(ran.code, 0 | 3), "{ran:?}");
        serde_json::from_str(&ran.out).unwrap()
    }
}

#[test]
fn a_token_alone_is_enough_for_commands_from_elsewhere() {
    let mut place = Place::new();
    let _server = place.up();
    let (port, token) = (place.address().rsplit(':').next().unwrap().to_owned(), place.token());
    let mut elsewhere = Place::new();
    elsewhere.variables = vec![("ROBOCO_PORT".into(), port), ("ROBOCO_TOKEN".into(), token)];
    assert_eq!(elsewhere.roboco_plain(&["task", "list"]).code, 0);
    elsewhere.variables[1].1 = "not the token of anybody here".into();
    let refused = elsewhere.roboco_plain(&["task", "list"]);
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(refused.err.contains("does not know this token"), "{}", refused.err);
}

#[test]
fn on_postgresql_the_demo_runs_and_a_second_server_is_kept_out() {
    #[expect(clippy::disallowed_methods, reason = "a test has no settings file; the run names the server")]
    let server = std::env::var("ROBOCO_TEST_POSTGRES").unwrap_or_else(|_| panic!("ROBOCO_TEST_POSTGRES is not set: run `make test`"));
    let name = format!("e2e_{}", std::process::id());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let execute = |statement: String| {
        runtime.block_on(async {
            let database = Database::connect(&server).await.unwrap();
            database.execute_unprepared(&statement).await.unwrap();
            database.close().await.unwrap();
        });
    };
    execute(format!("CREATE DATABASE {name}"));
    let (before, after) = server.split_once("://").unwrap();
    let (authority, rest) = after.split_once('/').unwrap_or((after, ""));
    let query = rest.split_once('?').map(|(_, query)| format!("?{query}")).unwrap_or_default();
    let url = ("ROBOCO_DATABASE_URL".to_owned(), format!("{before}://{authority}/{name}{query}"));

    let (mut first, mut second) = (Place::new(), Place::new());
    first.variables.push(url.clone());
    second.variables.push(url);
    let ran = first.roboco(&["demo", "--yes"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!first.data().join("roboco.db").exists());
    let running = first.up();
    let refused = second.roboco(&["up"]);
    assert_eq!(refused.code, 75, "{refused:?}");
    assert!(refused.err.contains("already works on this database"), "{}", refused.err);
    assert_eq!(running.terminate().code, 0);
    assert_eq!(second.up().terminate().code, 0, "the right was given up");
    execute(format!("DROP DATABASE {name}"));
}
