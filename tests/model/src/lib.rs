//! A model for tests: an HTTP server on this machine that speaks the Anthropic Messages API and answers from a script.
//!
//! It keeps no conversation. Which step comes next is counted in the request itself: one step for each tool result since the last plain
//! message of the user. So a client may be killed, resumed or asked twice, and the script goes on where the conversation is. A message
//! that a client joins to the results of a turn, because it was sent into the running turn or right after an interrupt, starts no new count.

mod answer;
mod request;
mod script;
mod server;

pub use request::{Request, ToolResult};
pub use script::{Input, Play, Script, Step};
pub use server::{ModelServer, Recorded};
