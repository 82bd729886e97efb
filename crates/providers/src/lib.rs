//! How each coding client is launched, fed, read and classified. Pure builders and parsers: this crate starts no process, opens no file
//! and no socket, and reads no clock.
//!
//! Invariants: a turn succeeded only when a terminal event of the client said so, never because of an exit code; only typed fields, and
//! text inside results the client itself marked as errors, may classify a failure; no secret is ever part of an argument vector.

pub mod claude;
pub mod event;
pub mod launch;
pub mod reset;
pub mod scripted;
pub mod table;

pub use event::{Channel, ClientEvent, Ending, Exit, McpState, Retry, Spend, Tokens, ToolName, TurnEnd};
pub use launch::{ClientSpec, Confinement, EnvValue, FileAccess, HomeFile, Launch, Login, Play, ProviderError, RunCaps, RunsAs, Session};
pub use table::{Capabilities, Capability, ProviderRow, Tier};

use roboco_domain::time::Timestamp;

/// One coding client: how to start it and how to talk to it.
pub trait Provider: Send + Sync {
    /// Its row in the provider table.
    fn row(&self) -> &'static ProviderRow;

    /// The name used in settings and in `/model/{name}`.
    fn name(&self) -> &'static str {
        self.row().name
    }

    /// What the client can do.
    fn capabilities(&self) -> Capabilities {
        self.row().capabilities
    }

    /// Everything needed to start the client. The caller adds `HOME`, `PATH` and the locale, and writes the files below `HOME`.
    fn launch(&self, launch: &Launch<'_>) -> Result<ClientSpec, ProviderError>;

    /// A fresh reader for one process. `before` is what the session had spent when the process was started: zero for a new session, the
    /// last [`Parser::spent`] for a resumed one.
    fn parser(&self, before: Spend) -> Box<dyn Parser>;

    /// The line that hands `text` to the running client; sent during a turn it steers that turn.
    fn user_message(&self, text: &str) -> String;

    /// The line that ends the current turn and keeps the session, for clients that can do it.
    fn interrupt(&self) -> Option<String>;
}

/// Reads what one client process writes. Fed line by line, in order, without line ends; bytes that are not UTF-8 were replaced before.
pub trait Parser: Send + Sync {
    /// Reads one line. `now` is when it arrived; clock times in limit texts are read against it.
    fn line(&mut self, now: Timestamp, channel: Channel, line: &str) -> Vec<ClientEvent>;

    /// The process is gone: how did it end? Never [`Ending::Finished`] without a terminal event that said so.
    fn exit(&mut self, exit: Exit) -> Ending;

    /// What the session has spent so far, earlier processes included. Keep it with the session id and hand it to [`Provider::parser`] when
    /// the session is resumed.
    fn spent(&self) -> Spend;
}

/// The provider called `name`.
pub fn provider(name: &str) -> Option<Box<dyn Provider>> {
    match name {
        claude::NAME => Some(Box::new(claude::Claude)),
        scripted::NAME => Some(Box::new(scripted::Scripted)),
        _ => None,
    }
}
