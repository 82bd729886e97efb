//! The agents' door, in process: real router, real database, no network.

mod breaker;
mod identity;
mod manifests;
mod mcp;
mod verbs;
mod world;
