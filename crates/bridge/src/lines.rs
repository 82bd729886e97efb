//! Reading lines from something that may write without end: what is over the cap is thrown away and counted, never stored.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// A line without its line end.
#[derive(Debug, Default, PartialEq, Eq)]
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
    /// The beginning of a line whose end has not come yet.
    begun: Option<RawLine>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(source: R, cap: usize) -> Self {
        Self { source: BufReader::with_capacity(32 * 1024, source), cap, begun: None }
    }

    /// The next line; a last one without a line end counts. `None` at the end of the stream. A wait that is given up loses nothing: the
    /// next one goes on with the line.
    pub(crate) async fn next(&mut self) -> std::io::Result<Option<RawLine>> {
        loop {
            let chunk = self.source.fill_buf().await?;
            if chunk.is_empty() {
                return Ok(self.begun.take());
            }
            let line = self.begun.get_or_insert_default();
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let text = &chunk[..end.unwrap_or(chunk.len())];
            let fits = text.len().min(self.cap - line.bytes.len());
            line.bytes.extend_from_slice(&text[..fits]);
            line.dropped += (text.len() - fits) as u64;
            let used = end.map_or(chunk.len(), |at| at + 1);
            self.source.consume(used);
            if end.is_some() {
                return Ok(self.begun.take());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

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
    async fn a_wait_that_is_given_up_in_the_middle_of_a_line_loses_nothing() {
        let (mut writer, reader) = tokio::io::duplex(8 * 1024);
        let mut lines = Lines::new(reader, 1024 * 1024);
        let long: Vec<u8> = (0..100 * 1024).map(|n: u32| b'a' + u8::try_from(n % 26).unwrap()).collect();
        let mut given_up = 0;
        for piece in long.chunks(5000) {
            writer.write_all(piece).await.unwrap();
            // Everything that was written is taken, and then nothing more comes.
            let begun = tokio::select! {
                biased;
                line = lines.next() => Some(line.unwrap()),
                () = tokio::task::yield_now() => None,
            };
            assert_eq!(begun, None);
            given_up += 1;
        }
        assert!(given_up > 10);
        writer.write_all(b"\nnext\n").await.unwrap();
        drop(writer);
        assert_eq!(lines.next().await.unwrap().map(|line| (line.bytes == long, line.dropped)), Some((true, 0)));
        assert_eq!(lines.next().await.unwrap().map(|line| line.bytes), Some(b"next".to_vec()));
        assert_eq!(lines.next().await.unwrap(), None);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_line_far_longer_than_the_buffer_keeps_only_its_head() {
        let mut input = vec![b'x'; 3_000_000];
        input.extend(b"\nnext\n");
        assert_eq!(all(&input, 4).await, [("xxxx".to_owned(), 2_999_996), ("next".to_owned(), 0)]);
    }
}
