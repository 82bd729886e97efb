//! The transcript of a spawn: what its client said and did, in bounded blocks, written in small batches.

use std::sync::Arc;

use roboco_domain::id::SpawnId;
use roboco_domain::limits;
use roboco_providers::ClientEvent;
use roboco_store::Block;

use crate::Shared;

/// Blocks that are not written yet.
pub(crate) struct Transcript {
    shared: Arc<Shared>,
    spawn: SpawnId,
    next: u64,
    waiting: Vec<Block>,
}

/// This many blocks are written at once at the latest.
const BATCH: usize = 64;

impl Transcript {
    pub(crate) fn new(shared: Arc<Shared>, spawn: SpawnId) -> Self {
        Self { shared, spawn, next: 1, waiting: Vec::new() }
    }

    /// Adds what an event says.
    pub(crate) fn event(&mut self, event: &ClientEvent) {
        let (kind, text) = match event {
            ClientEvent::Ready { session, model, mcp } => {
                ("ready", format!("session {}, model {}, verbs {mcp:?}", word(session.as_deref()), word(model.as_deref())))
            }
            ClientEvent::Text(text) => ("text", text.clone()),
            ClientEvent::Thinking(text) => ("thinking", text.clone()),
            ClientEvent::ToolCall { tool, input, .. } => ("tool_call", format!("{} {input}", tool.bare())),
            ClientEvent::ToolResult { ok, text, .. } => ("tool_result", format!("{}{text}", if *ok { "" } else { "refused: " })),
            ClientEvent::Retrying(retry) => ("note", format!("the client retries ({:?}, attempt {})", retry.status, retry.attempt)),
            ClientEvent::Limited(_) => ("note", "the provider's limit was reached".into()),
            ClientEvent::Overloaded => ("note", "the provider is overloaded".into()),
            ClientEvent::AuthFailed => ("note", "the provider refused the login".into()),
            ClientEvent::ContextFull => ("note", "the conversation no longer fits the model".into()),
            ClientEvent::TurnDone(end) => ("note", format!("turn ended: {end:?}")),
            ClientEvent::Note(text) => ("note", text.clone()),
            // Counted, not written down.
            ClientEvent::Usage(_) | ClientEvent::Cost(_) => return,
        };
        self.add(kind, &text);
    }

    /// Adds a block.
    pub(crate) fn add(&mut self, kind: &str, text: &str) {
        let mut end = text.len().min(limits::TRANSCRIPT_BLOCK_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let cut = text.len() - end;
        let mut kept = text[..end].to_owned();
        if cut > 0 {
            kept.push_str(&format!(" … [{cut} bytes cut]"));
        }
        self.waiting.push(Block { n: self.next, at: self.shared.now(), kind: kind.to_owned(), text: kept });
        self.next += 1;
    }

    /// Whether it is time to write.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= BATCH
    }

    /// Writes what waits. A transcript that cannot be written must not stop the work.
    pub(crate) async fn flush(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let blocks = std::mem::take(&mut self.waiting);
        if let Err(error) = self.shared.company().store().append_transcript(self.spawn, blocks).await {
            tracing::warn!(%error, spawn = %self.spawn, "a part of the transcript could not be written");
        }
    }
}

fn word(text: Option<&str>) -> &str {
    text.unwrap_or("unknown")
}
