//! Real git on real directories: every way from adding a project to its cleaned-up end.

#![expect(clippy::unwrap_used, reason = "the lint does not know that the helpers of tests are tests too")]

mod adding;
mod assembling;
mod committing;
mod crashes;
mod hostile;
mod housekeeping;
mod landing;
mod leaf;
mod releasing;
mod remote;
mod reviewing;
mod syncing;
mod world;
