//! `roboco bridge` as a process: the relay, the frames, the scripted agent.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a broken expectation is how a test fails, in what it calls too")]

mod process;
mod run;
mod script;
mod server;
