//! How far a request's body has come, and what kind of answer it asks for: both decide how long the answer may take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use crate::Deadlines;

/// How an answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// In pieces, the first of them soon.
    InPieces,
    /// All of it at the end, after everything was thought and written.
    AtOnce,
}

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Its body still comes.
    Sending,
    /// All of it has left; it asks for this kind of answer.
    Sent(Answer),
}

/// What took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Late {
    /// The body stopped coming, or was not taken.
    Request,
    /// The answer did not begin.
    Answer,
}

/// Watches a request's body go by; nothing of it is kept. When it is dropped, nothing more will be sent.
pub(crate) struct Upload {
    told: watch::Sender<Progress>,
    sent: Arc<AtomicU64>,
    declared: Option<u64>,
    wish: Wish,
}

impl Upload {
    /// `sent` counts the bytes; `declared` is how many there will be, if that is known.
    pub(crate) fn new(sent: Arc<AtomicU64>, declared: Option<u64>) -> (Self, watch::Receiver<Progress>) {
        let (told, progress) = watch::channel(Progress::Sending);
        (Self { told, sent, declared, wish: Wish::default() }, progress)
    }

    pub(crate) fn piece(&mut self, bytes: &[u8]) {
        self.wish.read(bytes);
        let more = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let sent = self.sent.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        let progress = if self.declared == Some(sent) { Progress::Sent(self.wish.answer()) } else { Progress::Sending };
        self.told.send_replace(progress);
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.told.send_replace(Progress::Sent(self.wish.answer()));
    }
}

/// Ends when a request has waited for too long. The time for the answer begins when the request has been sent.
pub(crate) async fn too_late(mut progress: watch::Receiver<Progress>, deadlines: Deadlines) -> Late {
    loop {
        let so_far = *progress.borrow_and_update();
        match so_far {
            Progress::Sent(answer) => {
                let bound = match answer {
                    Answer::InPieces => deadlines.first_byte,
                    Answer::AtOnce => deadlines.whole,
                };
                tokio::time::sleep(bound).await;
                return Late::Answer;
            }
            Progress::Sending => match tokio::time::timeout(deadlines.idle, progress.changed()).await {
                // It has told its last word before it went, so there is one to be read.
                Ok(Ok(()) | Err(_)) => {}
                Err(_) => return Late::Request,
            },
        }
    }
}

/// Reads JSON as it passes and knows whether `"stream": true` stands in its outermost object. Anything else, also what is no JSON, asks for
/// an answer at once.
#[derive(Debug, Default)]
struct Wish {
    depth: usize,
    string: Option<Quoted>,
    key: Key,
    streams: bool,
}

/// A string that is being read.
#[derive(Debug, Default)]
struct Quoted {
    /// How many bytes of the name were matched; `None` when it is another string.
    matched: Option<usize>,
    escaped: bool,
}

/// What came last on the outermost level.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Key {
    #[default]
    Other,
    /// The string `stream`, which may be a key or a value.
    Named,
    /// The key `stream`; its value follows.
    Asked,
}

const NAME: &[u8] = b"stream";

impl Wish {
    const fn answer(&self) -> Answer {
        if self.streams { Answer::InPieces } else { Answer::AtOnce }
    }

    fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match &mut self.string {
                Some(string) => {
                    if string.escaped {
                        string.escaped = false;
                    } else if *byte == b'\\' {
                        (string.escaped, string.matched) = (true, None);
                    } else if *byte == b'"' {
                        self.key = if string.matched == Some(NAME.len()) && self.depth == 1 { Key::Named } else { Key::Other };
                        self.string = None;
                    } else {
                        string.matched = string.matched.filter(|at| NAME.get(*at) == Some(byte)).map(|at| at + 1);
                    }
                }
                None => self.between_strings(*byte),
            }
        }
    }

    fn between_strings(&mut self, byte: u8) {
        let key = std::mem::take(&mut self.key);
        match byte {
            b'"' => self.string = Some(Quoted { matched: Some(0), escaped: false }),
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b' ' | b'\t' | b'\r' | b'\n' => self.key = key,
            b':' if key == Key::Named => self.key = Key::Asked,
            _ if key == Key::Asked => self.streams = byte == b't',
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wish_for_pieces_on_the_outermost_level_counts() {
        for (body, streams) in [
            (r#"{"model":"m","stream":true}"#, true),
            ("{ \"stream\" :\n true , \"max_tokens\": 1 }", true),
            (r#"{"stream":false,"model":"m"}"#, false),
            (r#"{"model":"m"}"#, false),
            (r#"{"tools":[{"stream":true}]}"#, false),
            (r#"{"metadata":{"stream":true},"stream":false}"#, false),
            (r#"{"text":"say \"stream\":true","a":1}"#, false),
            (r#"{"text":"\\","stream":true}"#, true),
            (r#"{"a":"stream","b":true}"#, false),
            (r#"{"streams":true,"strea":true,"xstream":true}"#, false),
            (r#"{"stream":null}"#, false),
            (r#"{"text":"}{","stream":true}"#, true),
            ("", false),
            ("]]]]{\"stream\"", false),
        ] {
            let answer = if streams { Answer::InPieces } else { Answer::AtOnce };
            for size in [1, 3, 1000] {
                let mut wish = Wish::default();
                body.as_bytes().chunks(size).for_each(|piece| wish.read(piece));
                assert_eq!(wish.answer(), answer, "{body} in pieces of {size}");
            }
        }
    }
}
