//! What the driver's errors mean for the caller.

use sea_orm::sqlx::Error as DriverError;
use sea_orm::{DbErr, RuntimeErr, SqlErr};

use crate::StoreFault;

/// Classes of SQLSTATE that go away by themselves: connection, rolled back by the server, out of resources, shut down by an operator.
const PASSING_CLASSES: &[&str] = &["08", "40", "53", "57"];
/// SQLite's codes for a file that somebody else has locked.
const SQLITE_LOCKED: &[&str] = &["5", "6", "261", "517"];

/// The fault as callers see it.
pub(super) fn fault(error: DbErr) -> StoreFault {
    StoreFault { retryable: is_passing(&error), message: error.to_string() }
}

/// A row that this version of the program cannot read.
pub(super) fn unreadable(what: &str, cause: impl std::fmt::Display) -> StoreFault {
    StoreFault { message: format!("a stored {what} cannot be read: {cause}"), retryable: false }
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
            DriverError::Database(refused) => refused.code().is_some_and(|code| {
                SQLITE_LOCKED.contains(&&*code) || (code.len() == 5 && PASSING_CLASSES.iter().any(|class| code.starts_with(class)))
            }),
            _ => false,
        },
        _ => false,
    }
}
