//! The server's event stream: server-sent events, read as they come.

use reqwest::Response;
use roboco_company::views::EventView;

use crate::failure::{Exit, Failure};

/// Longest event that is read, in bytes.
const LONGEST: usize = 4 * 1024 * 1024;

/// What came next.
#[derive(Debug)]
pub(crate) enum Next {
    /// An event.
    Event(Box<EventView>),
    /// The stream is over, or the reader fell behind: read on after the last event that came.
    Over,
}

/// A stream of events.
#[derive(Debug)]
pub(crate) struct Stream {
    response: Response,
    lines: Lines,
    /// Sequence number of the last event that came.
    pub(crate) last: u64,
}

impl Stream {
    pub(super) fn new(response: Response, after: u64) -> Self {
        Self { response, lines: Lines::default(), last: after }
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// The server speaks another version.
    pub(crate) async fn next(&mut self) -> Result<Next, Failure> {
        loop {
            while let Some(message) = self.lines.message()? {
                if message.name == "resync" {
                    return Ok(Next::Over);
                }
                let event: EventView = match serde_json::from_str(&message.data) {
                    Ok(event) => event,
                    Err(error) => {
                        return Err(Failure::broken(format!("an event was not understood ({error}): use the same version on both sides")));
                    }
                };
                // After a new connection what was seen may come again.
                if event.seq > self.last {
                    self.last = event.seq;
                    return Ok(Next::Event(Box::new(event)));
                }
            }
            match self.response.chunk().await {
                Ok(Some(bytes)) => self.lines.push(&bytes),
                Ok(None) | Err(_) => return Ok(Next::Over),
            }
        }
    }
}

/// One message of the wire.
#[derive(Debug, Default, PartialEq, Eq)]
struct Message {
    name: String,
    data: String,
}

/// Bytes to messages.
#[derive(Debug, Default)]
struct Lines {
    waiting: Vec<u8>,
    message: Message,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
    }

    /// The next whole message. Comments, ids and empty messages are passed over.
    fn message(&mut self) -> Result<Option<Message>, Failure> {
        while let Some(end) = self.waiting.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.waiting.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                let message = std::mem::take(&mut self.message);
                if message.data.is_empty() && message.name.is_empty() {
                    continue;
                }
                return Ok(Some(message));
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => self.message.name = value.to_owned(),
                "data" => {
                    if !self.message.data.is_empty() {
                        self.message.data.push('\n');
                    }
                    self.message.data.push_str(value);
                }
                _ => {}
            }
        }
        if self.waiting.len() + self.message.data.len() > LONGEST {
            return Err(Failure::new(Exit::Broken, "the server sent an event that is too long"));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_however_the_bytes_are_cut() {
        let wire = ": hello\n\nid: 7\nevent: task.claimed\ndata: {\"a\":\ndata: 1}\n\nevent: resync\r\ndata\r\n\r\n: ping\n\n";
        let expected =
            [Message { name: "task.claimed".into(), data: "{\"a\":\n1}".into() }, Message { name: "resync".into(), data: String::new() }];
        for cut in 1..wire.len() {
            let mut lines = Lines::default();
            let mut messages = Vec::new();
            for piece in wire.as_bytes().chunks(cut) {
                lines.push(piece);
                while let Some(message) = lines.message().unwrap() {
                    messages.push(message);
                }
            }
            assert_eq!(messages, expected, "pieces of {cut}");
        }
    }

    #[test]
    fn an_endless_line_is_given_up() {
        let mut lines = Lines::default();
        lines.push(&vec![b'x'; LONGEST + 1]);
        assert!(lines.message().is_err());
    }
}
