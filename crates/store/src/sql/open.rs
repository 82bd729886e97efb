//! Opening a database: the address, the connections, the checks before anything is written, and the schema.

use std::fs::OpenOptions as FileOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use roboco_domain::id::CompanyId;
use sea_orm::sea_query::Value;
use sea_orm::sqlx::Connection as _;
use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DbBackend, DbErr, EntityTrait, IntoActiveModel, SqliteTransactionMode,
    Statement, TransactionOptions, TransactionTrait,
};
use sea_orm_migration::MigratorTrait;
use uuid::Uuid;

use super::entity::{company, counter, leader};
use super::fault::{fault, is_full};
use super::load;
use super::migration::Steps;
use crate::StoreFault;

/// How long a writer waits for a lock of another process.
const BUSY: Duration = Duration::from_secs(5);
/// How long a connection may take to come up or to be free.
const CONNECT: Duration = Duration::from_secs(5);
/// No single statement runs longer than this on a server.
const STATEMENT: Duration = Duration::from_secs(60);
/// Readers beside the one writer.
const SQLITE_READERS: u32 = 4;
const POSTGRES_READERS: u32 = 8;
/// A connection that was used within this time is trusted without asking the server first.
const TRUSTED: Duration = Duration::from_secs(10);
/// The whole file is checked up to this size; checking a larger one would hold up the start for seconds.
const CHECKED_BYTES: u64 = 256 * 1024 * 1024;
/// Every SQLite file begins with this.
const SQLITE_HEADER: &[u8; 16] = b"SQLite format 3\0";
/// The table in which applied steps of the schema are noted.
const STEPS_TABLE: &str = "seaql_migrations";
/// Key of the lock under which one process at a time brings a schema up to date.
const SCHEMA_LOCK: i64 = 0x0052_6f62_6f43_6f31;

/// Which database, and whose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    /// A path, `sqlite:<path>`, or `postgres://user@host/database`.
    pub url: String,
}

impl OpenOptions {
    /// The database at this address.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into() }
    }
}

/// The database cannot be used. Each message says what to do.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpenError {
    /// The address is of no known kind.
    #[error("{address:?} is no address of a database; give a file path, sqlite:<path> or postgres://user@host/database")]
    Address {
        /// What was given, without user and password.
        address: String,
    },
    /// The file cannot be made, read or written.
    #[error("the database file {} cannot be opened ({reason}); create its folder, or let this user write there", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The file is something else, or damaged.
    #[error("{} is damaged or is no SQLite database ({reason}); restore a backup, or choose another file", path.display())]
    Corrupt {
        /// Which file.
        path: PathBuf,
        /// What was seen.
        reason: String,
    },
    /// The disk has no room left.
    #[error("there is no room left on the disk of the database file {}; free some, then start again", path.display())]
    Full {
        /// Which file.
        path: PathBuf,
    },
    /// Somebody else's tables are in it.
    #[error("the database {place} holds the tables of another program; give RoboCo a database of its own")]
    Foreign {
        /// The file or the server.
        place: String,
    },
    /// The schema has steps that this version does not know.
    #[error(
        "this database was written by a newer RoboCo (schema step {step}); install that version, or restore a backup from before the upgrade"
    )]
    Newer {
        /// The first unknown step.
        step: String,
    },
    /// The server does not answer or does not let us in.
    #[error("the database server {server} cannot be used ({reason}); start it, or correct the address, user and database name")]
    Unreachable {
        /// Host and database, without user and password.
        server: String,
        /// What the driver said.
        reason: String,
    },
    /// Something failed while the schema was brought up to date or the state was loaded.
    #[error("the database could not be prepared: {0}")]
    Failed(#[from] StoreFault),
}

impl From<DbErr> for OpenError {
    fn from(cause: DbErr) -> Self {
        Self::Failed(fault(cause))
    }
}

/// The connections to an open database whose schema is current, and the company that lives there.
#[derive(Debug)]
pub(super) struct Connections {
    pub(super) company: CompanyId,
    /// The one connection that writes.
    pub(super) writer: DatabaseConnection,
    /// A few that read.
    pub(super) readers: DatabaseConnection,
}

/// The connections to a database about which nothing is known yet.
struct Pools {
    writer: DatabaseConnection,
    readers: DatabaseConnection,
}

enum Address {
    Sqlite(PathBuf),
    Postgres(String),
}

fn address(url: &str) -> Result<Address, OpenError> {
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return Ok(Address::Postgres(url.to_owned()));
    }
    let path = match url.split_once("://") {
        Some(("sqlite", path)) => path,
        Some(_) => return Err(OpenError::Address { address: without_user(url) }),
        None => url.strip_prefix("sqlite:").unwrap_or(url),
    };
    // Every connection would see a database of its own.
    if path.is_empty() || path == ":memory:" {
        return Err(OpenError::Address { address: without_user(url) });
    }
    Ok(Address::Sqlite(PathBuf::from(path)))
}

/// The address without what stands before the `@` and after the `?`: both may hold a password.
fn without_user(url: &str) -> String {
    let plain = url.split(['?', '#']).next().unwrap_or_default();
    match (plain.split_once("://"), plain.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, place))) => format!("{scheme}://{place}"),
        (Some(_), None) | (None, None) => plain.to_owned(),
        (None, Some((_, place))) => place.to_owned(),
    }
}

/// Connects, checks, brings the schema up to date, and makes the company of a new database.
pub(super) async fn connect(options: &OpenOptions) -> Result<Connections, OpenError> {
    let (Pools { writer, readers }, place) = match address(&options.url)? {
        Address::Sqlite(path) => (sqlite(&path).await?, path.display().to_string()),
        Address::Postgres(url) => (postgres(&url).await?, without_user(&url)),
    };
    let locks = writer.get_database_backend() == DbBackend::Postgres;
    if locks {
        // Two processes that start together must not both create the tables, nor a company each.
        query(&writer, "SELECT pg_advisory_lock($1)", [SCHEMA_LOCK.into()]).await?;
    }
    let prepared = prepare(&writer, &place).await;
    if locks {
        query(&writer, "SELECT pg_advisory_unlock($1)", [SCHEMA_LOCK.into()]).await?;
    }
    prepared.map(|company| Connections { company, writer, readers })
}

async fn prepare(db: &DatabaseConnection, place: &str) -> Result<CompanyId, OpenError> {
    upgrade(db, place).await?;
    if let Some(company) = load::company(db).await? {
        return Ok(company);
    }
    let options = TransactionOptions { sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate), ..TransactionOptions::default() };
    let transaction = db.begin_with_options(options).await?;
    let company = match load::company(&transaction).await? {
        Some(company) => company,
        None => make_company(&transaction).await?,
    };
    transaction.commit().await?;
    Ok(company)
}

/// The rows every database has: one company, its counters, and a leader that nobody is yet.
async fn make_company(db: &impl ConnectionTrait) -> Result<CompanyId, DbErr> {
    let id = Uuid::now_v7();
    let company_id = id.to_string();
    let leader = leader::Model { company_id: company_id.clone(), holder: String::new(), epoch: 0, expires_at: 0 };
    leader::Entity::insert(leader.into_active_model()).exec_without_returning(db).await?;
    let numbers = counter::Model { company_id: company_id.clone(), next_event: 1, next_task: 1, next_inbox: 1, last_write: None };
    counter::Entity::insert(numbers.into_active_model()).exec_without_returning(db).await?;
    company::Entity::insert(company::Model { id: company_id }.into_active_model()).exec_without_returning(db).await?;
    Ok(CompanyId::new(id))
}

async fn upgrade(db: &DatabaseConnection, place: &str) -> Result<(), OpenError> {
    let tables = tables(db).await?;
    if tables.iter().any(|table| table == STEPS_TABLE) {
        let known: Vec<String> = Steps::get_migration_files().iter().map(|step| step.name().to_owned()).collect();
        let applied = query(db, "SELECT version FROM seaql_migrations ORDER BY version", []).await?;
        for row in applied {
            let step: String = row.try_get("", "version")?;
            if !known.contains(&step) {
                return Err(OpenError::Newer { step });
            }
        }
    } else if !tables.is_empty() {
        return Err(OpenError::Foreign { place: place.to_owned() });
    }
    Ok(Steps::up(db, None).await?)
}

/// The names of all tables.
async fn tables(db: &DatabaseConnection) -> Result<Vec<String>, DbErr> {
    let names = match db.get_database_backend() {
        DbBackend::Postgres => "SELECT tablename AS name FROM pg_catalog.pg_tables WHERE schemaname = current_schema()",
        _ => "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
    };
    query(db, names, []).await?.iter().map(|row| row.try_get("", "name")).collect()
}

async fn query<const N: usize>(db: &DatabaseConnection, sql: &str, values: [Value; N]) -> Result<Vec<sea_orm::QueryResult>, DbErr> {
    db.query_all_raw(Statement::from_sql_and_values(db.get_database_backend(), sql, values)).await
}

async fn sqlite(path: &Path) -> Result<Pools, OpenError> {
    let bytes = prepare_file(path)?;
    let corrupt = |cause: DbErr| match is_full(&cause) {
        true => OpenError::Full { path: path.to_owned() },
        false => OpenError::Corrupt { path: path.to_owned(), reason: cause.to_string() },
    };
    let writer = sqlite_pool(path, 1, "OFF").await.map_err(corrupt)?;
    if bytes <= CHECKED_BYTES {
        let verdict = query(&writer, "PRAGMA quick_check(1)", []).await.map_err(corrupt)?;
        let verdict: String = verdict.first().map_or_else(|| Ok("no answer".into()), |row| row.try_get_by_index(0)).map_err(corrupt)?;
        if verdict != "ok" {
            return Err(OpenError::Corrupt { path: path.to_owned(), reason: verdict });
        }
    }
    let readers = sqlite_pool(path, SQLITE_READERS, "ON").await.map_err(corrupt)?;
    Ok(Pools { writer, readers })
}

/// Makes the file, readable by its owner only, or looks at its first bytes. Returns its size.
fn prepare_file(path: &Path) -> Result<u64, OpenError> {
    let broken = |cause: std::io::Error| OpenError::File { path: path.to_owned(), reason: cause.to_string() };
    let mut file = FileOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path).map_err(broken)?;
    let bytes = file.metadata().map_err(broken)?.len();
    if bytes > 0 {
        let mut header = Vec::new();
        file.by_ref().take(SQLITE_HEADER.len() as u64).read_to_end(&mut header).map_err(broken)?;
        if header != SQLITE_HEADER {
            return Err(OpenError::Corrupt { path: path.to_owned(), reason: "its first bytes are something else".into() });
        }
    }
    Ok(bytes)
}

async fn sqlite_pool(path: &Path, connections: u32, query_only: &'static str) -> Result<DatabaseConnection, DbErr> {
    let path = path.to_owned();
    let mut options = ConnectOptions::new("sqlite://file");
    options.max_connections(connections).acquire_timeout(CONNECT).test_before_acquire(false).sqlx_logging(false);
    options.idle_timeout(None::<Duration>).max_lifetime(None::<Duration>);
    // SQLite takes a transaction back by itself when the disk is full, which the driver does not notice: it would put everything that
    // follows inside a transaction that nobody ever commits. Such a connection is closed and another one is opened.
    options.map_sqlx_sqlite_before_acquire(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }));
    options.map_sqlx_sqlite_opts(move |sqlite| {
        sqlite
            .filename(&path)
            .create_if_missing(false)
            .busy_timeout(BUSY)
            .foreign_keys(true)
            .pragma("journal_mode", "WAL")
            .pragma("synchronous", "FULL")
            .pragma("query_only", query_only)
    });
    Database::connect(options).await
}

async fn postgres(url: &str) -> Result<Pools, OpenError> {
    let unreachable = |cause: DbErr| OpenError::Unreachable { server: without_user(url), reason: cause.to_string() };
    let writer = postgres_pool(url, 1).await.map_err(unreachable)?;
    let readers = postgres_pool(url, POSTGRES_READERS).await.map_err(unreachable)?;
    Ok(Pools { writer, readers })
}

async fn postgres_pool(url: &str, connections: u32) -> Result<DatabaseConnection, DbErr> {
    let mut options = ConnectOptions::new(url);
    options.max_connections(connections).connect_timeout(CONNECT).acquire_timeout(CONNECT).sqlx_logging(false);
    options.test_before_acquire_if_idle_for(TRUSTED).statement_timeout(STATEMENT).set_application_name("roboco");
    options.map_sqlx_postgres_opts(|postgres| postgres.options([("default_transaction_isolation", "read committed")]));
    Database::connect(options).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_passwords_never_shown() {
        let path = |url: &str| match address(url) {
            Ok(Address::Sqlite(path)) => path.display().to_string(),
            Ok(Address::Postgres(_)) => "postgres".into(),
            Err(error) => error.to_string(),
        };
        assert_eq!(path("sqlite:/data/roboco.db"), "/data/roboco.db");
        assert_eq!(path("sqlite:///data/roboco.db"), "/data/roboco.db");
        assert_eq!(path("data/roboco.db"), "data/roboco.db");
        assert_eq!(path("postgres://me:secret@db/roboco"), "postgres");
        for wrong in ["mysql://me:secret@db/roboco?password=secret", "sqlite::memory:", ""] {
            let message = path(wrong);
            assert!(message.contains("no address of a database") && !message.contains("secret"), "{message}");
        }
        assert_eq!(without_user("postgres://me:se@cret@db:5432/roboco?password=x"), "postgres://db:5432/roboco");
    }
}
