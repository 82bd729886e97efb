//! Every way a leaf can go, checked exhaustively within a bound.
//!
//! The model drives the real rules: [`company`] loads, decides by `roboco_domain::decide` and applies what came of it, exactly as a store
//! would; [`model`] lets agents, the CEO, effects and crashes take turns in every order; [`monitor`] knows, independently of the rules, what
//! must never happen; [`view`] says which states are the same. Texts, times and ids are abstracted away, nothing else is.

pub mod company;
pub mod model;
pub mod monitor;
pub mod rollout;
pub mod view;
pub mod words;
