//! Reading a stream to its end while keeping only its beginning and its end.

use std::collections::VecDeque;

use tokio::io::{AsyncRead, AsyncReadExt};

/// How much of one output stream is kept, in bytes. Everything is read; the middle is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputCap {
    /// Bytes kept from the start.
    pub head: usize,
    /// Bytes kept from the end.
    pub tail: usize,
}

impl OutputCap {
    /// Keeps the first `bytes` bytes.
    pub const fn head(bytes: usize) -> Self {
        Self { head: bytes, tail: 0 }
    }

    /// Keeps the last `bytes` bytes.
    pub const fn tail(bytes: usize) -> Self {
        Self { head: 0, tail: bytes }
    }

    /// Keeps half of `bytes` from the start and half from the end.
    pub const fn both_ends(bytes: usize) -> Self {
        Self { head: bytes / 2, tail: bytes - bytes / 2 }
    }
}

/// What was kept of one output stream.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Captured {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
}

impl Captured {
    /// Bytes left out between the kept start and the kept end.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether something was left out.
    pub fn is_truncated(&self) -> bool {
        self.dropped > 0
    }

    /// The kept bytes, start and end joined without a mark.
    pub fn into_bytes(self) -> Vec<u8> {
        let Self { mut head, tail, dropped: _ } = self;
        let (front, back) = tail.as_slices();
        head.extend_from_slice(front);
        head.extend_from_slice(back);
        head
    }

    /// The kept bytes as text for people: invalid UTF-8 replaced, and a mark where bytes were left out.
    pub fn text(&self) -> String {
        let mut text = String::from_utf8_lossy(&self.head).into_owned();
        if self.dropped > 0 {
            text.push_str(&format!("\n[… {} bytes left out …]\n", self.dropped));
        }
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        text.push_str(&String::from_utf8_lossy(&tail));
        text
    }

    fn push(&mut self, mut bytes: &[u8], cap: OutputCap) {
        let room = cap.head.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        bytes = rest;
        if bytes.len() > cap.tail {
            let (skipped, kept) = bytes.split_at(bytes.len() - cap.tail);
            self.dropped += (skipped.len() + self.tail.len()) as u64;
            self.tail.clear();
            bytes = kept;
        }
        let overflow = (self.tail.len() + bytes.len()).saturating_sub(cap.tail);
        self.tail.drain(..overflow);
        self.dropped += overflow as u64;
        self.tail.extend(bytes);
    }
}

impl std::fmt::Debug for Captured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Output may hold anything; a debug line shows sizes only.
        f.debug_struct("Captured").field("kept", &(self.head.len() + self.tail.len())).field("dropped", &self.dropped).finish()
    }
}

/// Reads `stream` into `into` until it ends. Cancelling keeps what was read so far.
pub(crate) async fn drain(mut stream: impl AsyncRead + Unpin, cap: OutputCap, into: &mut Captured) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        into.push(buffer.get(..read).unwrap_or_default(), cap);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_both_ends_whatever_the_chunks() {
        let all: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for (head, tail, kept) in [(10, 20, 30), (0, 5, 5), (7, 0, 7), (600, 600, 1000), (500, 500, 1000)] {
            for chunk in [1, 3, 16, 64, 1000] {
                let cap = OutputCap { head, tail };
                let mut captured = Captured::default();
                all.chunks(chunk).for_each(|part| captured.push(part, cap));
                assert_eq!(captured.dropped(), 1000 - kept, "{head}/{tail} in {chunk}s");
                let bytes = captured.into_bytes();
                assert_eq!(bytes.len() as u64, kept);
                assert_eq!(bytes.get(..head.min(1000)), all.get(..head.min(1000)));
                let last = tail.min(1000 - head.min(1000));
                assert_eq!(bytes.get(bytes.len() - last..), all.get(1000 - last..));
            }
        }
    }

    #[test]
    fn text_marks_the_gap() {
        let mut captured = Captured::default();
        captured.push(b"abcdefgh", OutputCap { head: 2, tail: 2 });
        assert_eq!(captured.text(), "ab\n[… 4 bytes left out …]\ngh");
    }
}
