//! The product as it is built, from outside.
#![expect(clippy::unwrap_used, reason = "a helper of a test may fail the test")]

mod company;
mod demo;
mod projects;
mod starting;
mod tasks;
