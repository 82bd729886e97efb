//! The wire between `roboco bridge run`, the main process of a sandbox, and the control plane: one JSON object a line in each direction.
//!
//! From the bridge: `{"hello":{"protocol":1,"last":0}}` first, then numbered frames `{"n":1,"out":"line"}`, `{"n":2,"err":"line"}` and at the
//! end `{"n":3,"exit":{"code":0}}` or `{"n":3,"exit":{"signal":9}}`. To the bridge: `{"in":"line"}`, `{"ack":2}`, `{"eof":true}`,
//! `{"stop":{"grace_ms":10000}}` and, after a reconnect, `{"hello":{"protocol":1,"last":2}}`.
//! Unknown keys are ignored, so either side may be the newer one. Every line has a bound.

use serde::{Deserialize, Serialize};

/// Version of this wire; a side that sees another one refuses to go on.
pub const PROTOCOL: u32 = 1;
/// Longest line of a client that is carried, in bytes; the rest is cut and counted.
pub const LINE_BYTES: usize = 64 * 1024;
/// Longest encoded frame of a bridge, in bytes: JSON writes a control character as six bytes.
pub const FRAME_BYTES: usize = 6 * LINE_BYTES + 1024;
/// Longest encoded command of the control plane, in bytes: a whole brief is one input line.
pub const COMMAND_BYTES: usize = 4 * 1024 * 1024;

/// What the bridge sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// The first frame of a connection.
    Hello(Hello),
    /// Something the client did; sent again until it is acknowledged.
    Numbered {
        /// Counts up from 1 without a gap.
        n: u64,
        /// What happened.
        item: Item,
    },
}

/// Who is there, and how far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`] of the sender.
    pub protocol: u32,
    /// From the bridge: number of the newest frame it has. To the bridge: number of the newest frame that was taken.
    pub last: u64,
}

/// Something the client did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// It wrote a line to its standard output.
    Out(Line),
    /// It wrote a line to its standard error.
    Err(Line),
    /// It is over; nothing follows.
    Exit(Exit),
}

/// A line of the client, without its line end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The text, at most [`LINE_BYTES`] plus the marker of a cut.
    pub text: String,
    /// Bytes that were left out at its end; the text then ends with a marker.
    pub cut: u64,
}

impl Line {
    /// A line out of raw bytes: invalid UTF-8 is replaced, what is over [`LINE_BYTES`] is cut.
    /// `dropped` counts bytes of the same line that the reader has already thrown away.
    pub fn bounded(bytes: &[u8], dropped: u64) -> Self {
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let kept = &bytes[..bytes.len().min(LINE_BYTES)];
        let mut cut = dropped + (bytes.len() - kept.len()) as u64;
        if cut == 0 {
            return Self { text: String::from_utf8_lossy(kept).into_owned(), cut };
        }
        // A character split by the cut is left out whole instead of becoming a replacement character.
        let whole = match std::str::from_utf8(kept) {
            Ok(_) => kept.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => kept.len(),
        };
        cut += (kept.len() - whole) as u64;
        let text = format!("{}…[{cut} bytes cut]", String::from_utf8_lossy(&kept[..whole]));
        Self { text, cut }
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    /// The code a shell would report: the code itself, or 128 plus the signal.
    pub const fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// What the control plane sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A line for the client's standard input.
    In(String),
    /// Every frame up to this number was taken and is not needed again.
    Ack(u64),
    /// Close the client's standard input.
    Eof,
    /// End the client's whole group: TERM, and KILL after the grace.
    Stop {
        /// Time between the two signals, in milliseconds.
        grace_ms: u64,
    },
    /// A new connection took over; send again what is newer than `last`.
    Hello(Hello),
}

/// Why a line is not part of this wire.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// It is not JSON of the expected shape.
    #[error("a frame is not readable: {0}")]
    Json(#[from] serde_json::Error),
    /// It is JSON, but says nothing this version knows.
    #[error("a frame has none of the known keys; both sides must run the same roboco version")]
    Unknown,
    /// A numbered item came without its number.
    #[error("a frame has no number")]
    Unnumbered,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct WireFrame {
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hello: Option<Hello>,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    err: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<Exit>,
    #[serde(default, skip_serializing_if = "is_zero")]
    cut: u64,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl Frame {
    /// The frame as one line, without the line end.
    pub fn encode(&self) -> Result<String, FrameError> {
        let mut wire = WireFrame::default();
        match self.clone() {
            Self::Hello(hello) => wire.hello = Some(hello),
            Self::Numbered { n, item } => {
                wire.n = Some(n);
                match item {
                    Item::Out(Line { text, cut }) => (wire.out, wire.cut) = (Some(text), cut),
                    Item::Err(Line { text, cut }) => (wire.err, wire.cut) = (Some(text), cut),
                    Item::Exit(exit) => wire.exit = Some(exit),
                }
            }
        }
        Ok(serde_json::to_string(&wire)?)
    }

    /// The frame in a line.
    pub fn decode(line: &str) -> Result<Self, FrameError> {
        let WireFrame { n, hello, out, err, exit, cut } = serde_json::from_str(line)?;
        if let Some(hello) = hello {
            return Ok(Self::Hello(hello));
        }
        let item = match (out, err, exit) {
            (Some(text), _, _) => Item::Out(Line { text, cut }),
            (None, Some(text), _) => Item::Err(Line { text, cut }),
            (None, None, Some(exit)) => Item::Exit(exit),
            (None, None, None) => return Err(FrameError::Unknown),
        };
        let n = n.ok_or(FrameError::Unnumbered)?;
        Ok(Self::Numbered { n, item })
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct WireStop {
    grace_ms: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct WireCommand {
    #[serde(rename = "in", skip_serializing_if = "Option::is_none")]
    input: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ack: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eof: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<WireStop>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hello: Option<Hello>,
}

impl Command {
    /// The command as one line, without the line end.
    pub fn encode(&self) -> Result<String, FrameError> {
        let mut wire = WireCommand::default();
        match self.clone() {
            Self::In(line) => wire.input = Some(line),
            Self::Ack(n) => wire.ack = Some(n),
            Self::Eof => wire.eof = Some(true),
            Self::Stop { grace_ms } => wire.stop = Some(WireStop { grace_ms }),
            Self::Hello(hello) => wire.hello = Some(hello),
        }
        Ok(serde_json::to_string(&wire)?)
    }

    /// The command in a line.
    pub fn decode(line: &str) -> Result<Self, FrameError> {
        let WireCommand { input, ack, eof, stop, hello } = serde_json::from_str(line)?;
        if let Some(line) = input {
            return Ok(Self::In(line));
        }
        if let Some(n) = ack {
            return Ok(Self::Ack(n));
        }
        if let Some(WireStop { grace_ms }) = stop {
            return Ok(Self::Stop { grace_ms });
        }
        if let Some(hello) = hello {
            return Ok(Self::Hello(hello));
        }
        if eof == Some(true) {
            return Ok(Self::Eof);
        }
        Err(FrameError::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_the_documented_shape_and_survive_the_way() {
        let line = |text: &str| Line { text: text.into(), cut: 0 };
        let cases = [
            (r#"{"hello":{"protocol":1,"last":7}}"#, Frame::Hello(Hello { protocol: 1, last: 7 })),
            (r#"{"n":1,"out":"a \"b\""}"#, Frame::Numbered { n: 1, item: Item::Out(line("a \"b\"")) }),
            (r#"{"n":2,"err":""}"#, Frame::Numbered { n: 2, item: Item::Err(line("")) }),
            (r#"{"n":2,"err":"x","cut":5}"#, Frame::Numbered { n: 2, item: Item::Err(Line { text: "x".into(), cut: 5 }) }),
            (r#"{"n":3,"exit":{"code":0}}"#, Frame::Numbered { n: 3, item: Item::Exit(Exit::Code(0)) }),
            (r#"{"n":4,"exit":{"signal":9}}"#, Frame::Numbered { n: 4, item: Item::Exit(Exit::Signal(9)) }),
        ];
        for (text, frame) in cases {
            assert_eq!(frame.encode().unwrap(), text);
            assert_eq!(Frame::decode(text).unwrap(), frame);
        }
    }

    #[test]
    fn commands_have_the_documented_shape_and_survive_the_way() {
        let cases = [
            (r#"{"in":"hello"}"#, Command::In("hello".into())),
            (r#"{"ack":2}"#, Command::Ack(2)),
            (r#"{"eof":true}"#, Command::Eof),
            (r#"{"stop":{"grace_ms":10000}}"#, Command::Stop { grace_ms: 10_000 }),
            (r#"{"hello":{"protocol":1,"last":2}}"#, Command::Hello(Hello { protocol: 1, last: 2 })),
        ];
        for (text, command) in cases {
            assert_eq!(command.encode().unwrap(), text);
            assert_eq!(Command::decode(text).unwrap(), command);
        }
    }

    #[test]
    fn unknown_keys_are_ignored_and_unknown_frames_refused() {
        assert_eq!(Command::decode(r#"{"ack":2,"later":[1]}"#).unwrap(), Command::Ack(2));
        assert_eq!(
            Frame::decode(r#"{"n":1,"out":"x","at":5}"#).unwrap(),
            Frame::Numbered { n: 1, item: Item::Out(Line { text: "x".into(), cut: 0 }) }
        );
        assert!(matches!(Frame::decode("{}"), Err(FrameError::Unknown)));
        assert!(matches!(Frame::decode(r#"{"out":"x"}"#), Err(FrameError::Unnumbered)));
        assert!(matches!(Frame::decode("plain text"), Err(FrameError::Json(_))));
        assert!(matches!(Command::decode(r#"{"eof":false}"#), Err(FrameError::Unknown)));
    }

    #[test]
    fn a_long_line_is_cut_at_a_character_and_says_how_much_is_missing() {
        assert_eq!(Line::bounded(b"short\r", 0), Line { text: "short".into(), cut: 0 });
        assert_eq!(Line::bounded(b"a\xffb", 0).text, "a\u{fffd}b");

        let cut = Line::bounded(&vec![b'x'; LINE_BYTES + 3], 4);
        assert_eq!(cut.cut, 7);
        assert!(cut.text.ends_with("x…[7 bytes cut]"));

        // The last kept byte is the first half of a two-byte character.
        let mut bytes = vec![b'x'; LINE_BYTES - 1];
        bytes.extend("é".as_bytes());
        let cut = Line::bounded(&bytes, 0);
        assert_eq!(cut.cut, 2);
        assert!(cut.text.ends_with("x…[2 bytes cut]") && !cut.text.contains('\u{fffd}'));
    }

    #[test]
    fn the_worst_line_fits_into_a_frame() {
        let item = Item::Out(Line::bounded(&vec![1_u8; 2 * LINE_BYTES], u64::from(u32::MAX)));
        let encoded = Frame::Numbered { n: u64::MAX, item }.encode().unwrap();
        assert!(encoded.len() <= FRAME_BYTES, "{} bytes", encoded.len());
    }
}
