//! The process driver with the real bubblewrap and a real bridge inside.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a broken expectation is how a test fails, in what it calls too")]

mod agent;
mod confinement;
mod jobs;
mod lifecycle;
mod world;
