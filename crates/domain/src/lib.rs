//! The pure rules of a company of coding agents.
//!
//! This crate has no IO, no async, no clock and no randomness: time and ids come in as arguments, decisions go out as data.

pub mod frame;
pub mod id;
pub mod known;
pub mod limits;
pub mod outcome;
pub mod time;
pub mod vcs;
