//! Opening: what is made, and what is refused with which words.

use std::fs;
use std::io::{Seek, SeekFrom, Write};

use roboco_store::{OpenError, OpenOptions, SqlStore, Store};
use sea_orm::DbBackend;

use crate::place::Place;
use crate::sample::{created, note, request};

const TABLES: &[&str] = &[
    "agent_seat",
    "api_token",
    "attempt",
    "company",
    "counter",
    "event",
    "inbox",
    "intent",
    "leader",
    "project",
    "replay",
    "seaql_migrations",
    "spawn",
    "task",
    "transcript",
];

async fn refusal(url: &str) -> OpenError {
    SqlStore::open(OpenOptions::new(url)).await.expect_err("it was opened")
}

pub(crate) async fn a_fresh_schema_has_exactly_the_expected_tables(place: &Place) {
    place.open().await.close().await;
    let tables = match place.backend() {
        DbBackend::Postgres => "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'",
        _ => "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
    };
    let mut tables = place.texts(tables).await;
    tables.sort();
    assert_eq!(tables, TABLES);
    assert_eq!(
        place.texts("SELECT version FROM seaql_migrations").await,
        ["m0001_first_tables", "m0002_effects_of_a_task", "m0003_last_write"]
    );
}

pub(crate) async fn a_newer_schema_is_refused(place: &Place) {
    place.open().await.close().await;
    place.execute("INSERT INTO seaql_migrations (version, applied_at) VALUES ('m9999_tomorrow', 1)").await;
    let error = refusal(&place.url()).await;
    assert!(matches!(&error, OpenError::Newer { step } if step == "m9999_tomorrow"), "{error}");
    assert!(error.to_string().contains("written by a newer RoboCo"), "{error}");
}

pub(crate) async fn the_tables_of_another_program_are_refused(place: &Place) {
    place.execute("CREATE TABLE recipes (name TEXT)").await;
    let error = refusal(&place.url()).await;
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    assert!(error.to_string().contains("a database of its own"), "{error}");
}

pub(crate) async fn a_closed_store_refuses_politely(place: &Place) {
    let store = place.open().await;
    created(&store).await;
    store.close().await;
    let mut late = request(store.next_numbers().await.unwrap());
    late.events = vec![note("late")];
    let fault = store.commit(late).await.unwrap_err();
    assert!(fault.message.contains("closed"), "{fault}");
    assert!(store.ping().await.is_err());
}

#[tokio::test]
async fn files_that_cannot_be_opened_are_named_with_what_to_do() {
    let place = Place::sqlite();
    let file = place.file();
    let missing = file.parent().unwrap().join("missing/roboco.db");
    let error = refusal(&format!("sqlite:{}", missing.display())).await;
    assert!(matches!(&error, OpenError::File { path, .. } if *path == missing), "{error}");
    assert!(error.to_string().contains("create its folder"), "{error}");

    fs::write(&file, "These are not the tables you are looking for.").unwrap();
    let error = refusal(&place.url()).await;
    assert!(matches!(&error, OpenError::Corrupt { path, .. } if *path == file), "{error}");
    assert!(error.to_string().contains("restore a backup"), "{error}");
}

#[tokio::test]
async fn a_damaged_file_is_refused() {
    let place = Place::sqlite();
    let store = place.open().await;
    for _ in 0..20 {
        created(&store).await;
    }
    store.close().await;
    // A page of the log, which nothing reads at the start: only looking for damage finds it.
    let page = place.texts("SELECT CAST(rootpage AS TEXT) FROM sqlite_master WHERE name = 'event'").await;
    let page: u64 = page[0].parse().unwrap();
    let mut file = fs::OpenOptions::new().write(true).open(place.file()).unwrap();
    file.seek(SeekFrom::Start((page - 1) * 4096)).unwrap();
    file.write_all(&[0x5a; 4096]).unwrap();
    drop(file);
    let error = refusal(&place.url()).await;
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
}

#[tokio::test]
async fn a_new_file_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::sqlite();
    let store = place.open().await;
    created(&store).await;
    for file in [place.file(), place.file().with_extension("db-wal")] {
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_named_without_its_password() {
    let error = refusal("postgres://me:hunter2@127.0.0.1:1/roboco").await;
    assert!(matches!(&error, OpenError::Unreachable { server, .. } if server == "postgres://127.0.0.1:1/roboco"), "{error}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
    let error = refusal("mysql://me:hunter2@host/roboco").await;
    assert!(matches!(&error, OpenError::Address { .. }), "{error}");
}

/// Two control planes may be started on one server by mistake, or one for another that hangs.
#[tokio::test]
async fn many_first_starts_on_one_server_make_one_company() {
    let place = Place::postgres().await;
    let opened = futures::future::join_all((0..8).map(|_| place.open())).await;
    assert!(opened.iter().all(|store| store.company() == opened[0].company()), "they disagree about the company");
    assert_eq!(place.texts("SELECT id FROM company").await, [opened[0].company().to_string()]);
    drop(opened);
    place.remove().await;
}
