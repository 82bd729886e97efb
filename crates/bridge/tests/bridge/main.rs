//! `roboco bridge` as a process: the relay, the frames, the scripted agent, the servers of verbs and the sidecar.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a broken expectation is how a test fails, in what it calls too")]

mod loopback;
mod process;
mod rows;
mod run;
mod script;
mod server;
mod sidecar;
mod stdio;
