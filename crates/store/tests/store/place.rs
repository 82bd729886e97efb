//! An empty database for one test.

use std::path::PathBuf;

use roboco_store::{OpenOptions, SqlStore};
use sea_orm::{ConnectionTrait, Database, DatabaseConnection, DbBackend, Statement};
use tempfile::TempDir;
use uuid::Uuid;

pub(crate) enum Place {
    Sqlite { folder: TempDir },
    Postgres { server: String, name: String },
}

impl Place {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) async fn postgres() -> Self {
        let server = server();
        let name = format!("store_{}", Uuid::now_v7().simple());
        let admin = Database::connect(&server).await.unwrap();
        admin.execute_unprepared(&format!("CREATE DATABASE {name}")).await.unwrap();
        admin.close().await.unwrap();
        Self::Postgres { server, name }
    }

    /// Only a database on a server outlives its test.
    pub(crate) async fn remove(self) {
        if let Self::Postgres { server, name } = self {
            let admin = Database::connect(&server).await.unwrap();
            admin.execute_unprepared(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
            admin.close().await.unwrap();
        }
    }

    pub(crate) fn file(&self) -> PathBuf {
        match self {
            Self::Sqlite { folder } => folder.path().join("roboco.db"),
            Self::Postgres { .. } => panic!("only SQLite has a file"),
        }
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Sqlite { .. } => format!("sqlite://{}", self.file().display()),
            Self::Postgres { server, name } => format!("{}/{name}", server.rsplit_once('/').unwrap().0),
        }
    }

    pub(crate) async fn open(&self) -> SqlStore {
        SqlStore::open(OpenOptions::new(self.url())).await.unwrap()
    }

    /// A connection that knows nothing of the store.
    pub(crate) async fn raw(&self) -> DatabaseConnection {
        let url = if matches!(self, Self::Sqlite { .. }) { format!("{}?mode=rwc", self.url()) } else { self.url() };
        Database::connect(url).await.unwrap()
    }

    pub(crate) async fn execute(&self, sql: &str) {
        let raw = self.raw().await;
        raw.execute_unprepared(sql).await.unwrap();
        raw.close().await.unwrap();
    }

    /// The first column of every row.
    pub(crate) async fn texts(&self, sql: &str) -> Vec<String> {
        let raw = self.raw().await;
        let found = raw.query_all_raw(Statement::from_string(raw.get_database_backend(), sql)).await.unwrap();
        raw.close().await.unwrap();
        found.iter().map(|row| row.try_get_by_index(0).unwrap()).collect()
    }

    pub(crate) fn backend(&self) -> DbBackend {
        match self {
            Self::Sqlite { .. } => DbBackend::Sqlite,
            Self::Postgres { .. } => DbBackend::Postgres,
        }
    }
}

/// A PostgreSQL server on which databases may be made.
#[expect(clippy::disallowed_methods, reason = "the test run names its server in the environment")]
fn server() -> String {
    std::env::var("ROBOCO_TEST_POSTGRES")
        .expect("ROBOCO_TEST_POSTGRES names no PostgreSQL server: run `make test`, which starts PostgreSQL")
}
