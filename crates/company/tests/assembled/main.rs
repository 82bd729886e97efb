//! Work that is split, delivered in parts, assembled and reviewed, through the company's one way in: real rules and a real database,
//! a repository that only counts, and agents that follow a script.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod refusals;
mod script;
mod story;
mod world;
