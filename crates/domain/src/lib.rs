//! The pure rules of a company of coding agents.
//!
//! This crate has no IO, no async, no clock and no randomness: time and ids come in as arguments, decisions go out as data.

pub mod apply;
pub mod assembly;
pub mod breaker;
pub mod command;
pub mod decide;
pub mod effect;
pub mod envelope;
pub mod event;
pub mod finding;
pub mod frame;
pub mod guard;
pub mod id;
pub mod inbox;
pub mod input;
pub mod known;
pub mod limits;
pub mod next;
pub mod outcome;
pub mod parking;
pub mod plan;
pub mod project;
pub mod rejection;
pub mod resume;
pub mod role;
pub mod roster;
pub mod rules;
pub mod snapshot;
pub mod spawn;
pub mod status;
pub mod task;
pub mod time;
pub mod vcs;
pub mod verb;
pub mod verbs;
