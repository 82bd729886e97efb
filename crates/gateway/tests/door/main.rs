//! The agents' door, in process: real router, real database, no network.

#![expect(clippy::unwrap_used, reason = "the lint does not know that the helpers of tests are tests too")]

mod breaker;
mod identity;
mod manifests;
mod mcp;
mod verbs;
mod world;
