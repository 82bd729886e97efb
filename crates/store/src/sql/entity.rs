//! The tables, one module each. Only types that mean the same on both databases are used: text, 64-bit integers, and nothing else.

pub(super) mod agent_seat;
pub(super) mod api_token;
pub(super) mod attempt;
pub(super) mod company;
pub(super) mod counter;
pub(super) mod event;
pub(super) mod inbox;
pub(super) mod intent;
pub(super) mod leader;
pub(super) mod project;
pub(super) mod replay;
pub(super) mod spawn;
pub(super) mod task;
pub(super) mod transcript;
