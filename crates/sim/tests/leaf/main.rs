//! The leaf, checked exhaustively within a bound, and the rules with parts taken away, which the checker must notice.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod exhaustive;
mod mutants;
mod start;
