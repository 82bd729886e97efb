//! Reading lines from something that may write without end: what is over the cap is thrown away and counted, never stored.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// A line without its line end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RawLine {
    /// At most the reader's cap.
    pub(crate) bytes: Vec<u8>,
    /// Bytes of the same line that were thrown away.
    pub(crate) dropped: u64,
}

/// A reader of lines with a cap on each.
pub(crate) struct Lines<R> {
    source: BufReader<R>,
    cap: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(source: R, cap: usize) -> Self {
        Self { source: BufReader::with_capacity(32 * 1024, source), cap }
    }

    /// The next line; a last one without a line end counts. `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> std::io::Result<Option<RawLine>> {
        let mut line = RawLine { bytes: Vec::new(), dropped: 0 };
        let mut seen = Seen::Nothing;
        loop {
            let chunk = self.source.fill_buf().await?;
            if chunk.is_empty() {
                return Ok(matches!(seen, Seen::Bytes).then_some(line));
            }
            seen = Seen::Bytes;
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let text = &chunk[..end.unwrap_or(chunk.len())];
            let fits = text.len().min(self.cap - line.bytes.len());
            line.bytes.extend_from_slice(&text[..fits]);
            line.dropped += (text.len() - fits) as u64;
            let used = end.map_or(chunk.len(), |at| at + 1);
            self.source.consume(used);
            if end.is_some() {
                return Ok(Some(line));
            }
        }
    }
}

enum Seen {
    Nothing,
    Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(input: &[u8], cap: usize) -> Vec<(String, u64)> {
        let mut lines = Lines::new(input, cap);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            found.push((String::from_utf8(line.bytes).unwrap(), line.dropped));
        }
        found
    }

    #[tokio::test(flavor = "current_thread")]
    async fn lines_are_split_capped_and_counted() {
        let cases = [
            ("", vec![]),
            ("\n", vec![("", 0)]),
            ("one\ntwo", vec![("one", 0), ("two", 0)]),
            ("12345678\nend\n", vec![("12345", 3), ("end", 0)]),
            ("123456", vec![("12345", 1)]),
        ];
        for (input, expected) in cases {
            let expected: Vec<_> = expected.into_iter().map(|(text, cut)| (text.to_owned(), cut)).collect();
            assert_eq!(all(input.as_bytes(), 5).await, expected, "{input:?}");
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_line_far_longer_than_the_buffer_keeps_only_its_head() {
        let mut input = vec![b'x'; 3_000_000];
        input.extend(b"\nnext\n");
        assert_eq!(all(&input, 4).await, [("xxxx".to_owned(), 2_999_996), ("next".to_owned(), 0)]);
    }
}
