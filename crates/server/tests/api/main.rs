//! The operator's API, in process: real router, real database, no network.

#![expect(clippy::unwrap_used, reason = "the lint does not know that the helpers of tests are tests too")]

mod identity;
mod routes;
mod stream;
mod world;
