//! What the driver's errors mean for the caller.

use sea_orm::sqlx::Error as DriverError;
use sea_orm::{DbErr, RuntimeErr, SqlErr};

use crate::StoreFault;

/// Classes of SQLSTATE that go away by themselves: connection, rolled back by the server, out of resources, shut down by an operator.
const PASSING_CLASSES: &[&str] = &["08", "40", "53", "57"];
/// SQLite's codes for a file that somebody else has locked.
const SQLITE_LOCKED: &[&str] = &["5", "6", "261", "517"];

/// SQLite's codes for a disk without room: for the file, and for what it keeps beside it while it is open.
const SQLITE_FULL: &[&str] = &["13", "4874"];
/// PostgreSQL's code for a disk without room.
const POSTGRES_FULL: &str = "53100";

/// Nothing else helps then, and nothing but that is needed.
const FREE_ROOM: &str = "the disk of the database is full: free some room there, then it goes on by itself";

/// The fault as callers see it.
pub(super) fn fault(error: DbErr) -> StoreFault {
    if is_full(&error) {
        // Both databases take back what they were writing, and accept it again as soon as there is room.
        let message = format!("its disk is full ({error}): nothing was written; free some room, then it goes on by itself");
        return StoreFault { retryable: true, message, remedy: Some(FREE_ROOM) };
    }
    StoreFault { retryable: is_passing(&error), message: error.to_string(), remedy: None }
}

/// Whether the disk of the database has no room left.
pub(super) fn is_full(error: &DbErr) -> bool {
    refusal_code(error).is_some_and(|code| SQLITE_FULL.contains(&&*code) || code == POSTGRES_FULL)
}

/// A row that this version of the program cannot read.
pub(super) fn unreadable(what: &str, cause: impl std::fmt::Display) -> StoreFault {
    StoreFault { message: format!("a stored {what} cannot be read: {cause}"), retryable: false, remedy: None }
}

/// Whether a row with the same key was there already.
pub(super) fn is_duplicate(error: &DbErr) -> bool {
    matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_)))
}

fn is_passing(error: &DbErr) -> bool {
    match error {
        DbErr::ConnectionAcquire(_) | DbErr::Conn(_) => true,
        DbErr::Exec(RuntimeErr::SqlxError(cause)) | DbErr::Query(RuntimeErr::SqlxError(cause)) => match &**cause {
            DriverError::Io(_) | DriverError::PoolTimedOut | DriverError::PoolClosed | DriverError::WorkerCrashed => true,
            DriverError::Database(_) => refusal_code(error).is_some_and(|code| {
                SQLITE_LOCKED.contains(&&*code) || (code.len() == 5 && PASSING_CLASSES.iter().any(|class| code.starts_with(class)))
            }),
            _ => false,
        },
        _ => false,
    }
}

/// The code with which the database itself refused.
fn refusal_code(error: &DbErr) -> Option<String> {
    let (DbErr::Exec(RuntimeErr::SqlxError(cause))
    | DbErr::Query(RuntimeErr::SqlxError(cause))
    | DbErr::Conn(RuntimeErr::SqlxError(cause))) = error
    else {
        return None;
    };
    match &**cause {
        DriverError::Database(refused) => refused.code().map(|code| code.into_owned()),
        _ => None,
    }
}
