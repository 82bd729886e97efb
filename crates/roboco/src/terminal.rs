//! What a person sees and types: lines, colours, tables, questions. Texts from elsewhere lose their control characters here.

use std::io::{BufRead, IsTerminal, Write};

use crate::environment::Environment;
use crate::failure::Failure;

/// How a word is shown on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Dim,
    Bold,
    Good,
    Warn,
    Bad,
}

/// Whether colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Paint {
    Colour,
    Plain,
}

/// Standard output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Screen {
    paint: Paint,
}

impl Screen {
    /// Colours only on a terminal, and only when `NO_COLOR` is not set.
    pub(crate) fn new(environment: &Environment) -> Self {
        let colour = std::io::stdout().is_terminal() && environment.text("NO_COLOR").is_none() && environment.text("TERM") != Some("dumb");
        Self { paint: if colour { Paint::Colour } else { Paint::Plain } }
    }

    /// Prints one line, or several joined by line ends.
    ///
    /// # Errors
    /// The output is closed.
    pub(crate) fn line(self, text: &str) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")?;
        out.flush()?;
        Ok(())
    }

    /// Prints JSON for a program.
    ///
    /// # Errors
    /// The output is closed.
    pub(crate) fn json(self, value: &serde_json::Value) -> Result<(), Failure> {
        self.line(&serde_json::to_string_pretty(value).unwrap_or_default())
    }

    /// A word in a style, or as it is when there are no colours.
    pub(crate) fn paint(self, style: Style, text: &str) -> String {
        let code = match (self.paint, style) {
            (Paint::Plain, _) | (_, Style::Plain) => return text.to_owned(),
            (Paint::Colour, Style::Dim) => "2",
            (Paint::Colour, Style::Bold) => "1",
            (Paint::Colour, Style::Good) => "32",
            (Paint::Colour, Style::Warn) => "33",
            (Paint::Colour, Style::Bad) => "31",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    /// Prints rows in columns as wide as their widest cell; the last column runs free.
    ///
    /// # Errors
    /// The output is closed.
    pub(crate) fn table<const N: usize>(self, head: [&str; N], rows: &[[String; N]]) -> Result<(), Failure> {
        let mut widths = head.map(|cell| cell.chars().count());
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let line = |row: [&str; N]| {
            let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect::<Vec<_>>();
            cells.join("  ").trim_end().to_owned()
        };
        self.line(&self.paint(Style::Dim, &line(head)))?;
        for row in rows {
            self.line(&line(row.each_ref().map(String::as_str)))?;
        }
        Ok(())
    }
}

/// Whether somebody sits here who can answer.
pub(crate) fn somebody_is_here() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks on standard error and reads one line; an empty answer takes the proposal. `None` at the end of the input.
///
/// # Errors
/// The terminal cannot be read.
pub(crate) fn ask(question: &str, proposal: &str) -> Result<Option<String>, Failure> {
    let mut err = std::io::stderr().lock();
    if proposal.is_empty() {
        write!(err, "{question}: ")?;
    } else {
        write!(err, "{question} [{proposal}]: ")?;
    }
    err.flush()?;
    let mut answer = String::new();
    if std::io::stdin().lock().read_line(&mut answer)? == 0 {
        return Ok(None);
    }
    let answer = answer.trim();
    Ok(Some(if answer.is_empty() { proposal.to_owned() } else { answer.to_owned() }))
}

/// Text from elsewhere without anything that could steer a terminal: escape sequences, control characters other than line ends and tabs,
/// and marks that reorder what is shown.
pub(crate) fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.next() {
                Some('[') => skip_control_sequence(&mut chars),
                Some(']' | 'P' | '_' | '^' | 'X') => skip_string(&mut chars),
                _ => {}
            },
            '\u{9b}' => skip_control_sequence(&mut chars),
            '\n' | '\t' => cleaned.push(c),
            c if c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {}
            c => cleaned.push(c),
        }
    }
    cleaned
}

/// As [`clean`], on one line.
pub(crate) fn clean_line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn skip_control_sequence(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    for c in chars.by_ref() {
        if ('\u{40}'..='\u{7e}').contains(&c) {
            break;
        }
    }
}

fn skip_string(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while let Some(c) = chars.next() {
        if c == '\u{7}' || c == '\u{9c}' {
            break;
        }
        if c == '\u{1b}' {
            chars.next_if_eq(&'\\');
            break;
        }
    }
}

/// The time of day of a moment, in the zone of this machine.
pub(crate) fn clock(millis: i64) -> String {
    jiff::Timestamp::from_millisecond(millis)
        .map(|at| at.to_zoned_datetime(jiff::tz::TimeZone::system()).strftime("%H:%M:%S").to_string())
        .unwrap_or_default()
}

/// How long something took or is ago: `4 s`, `3 min`, `5 h`, `2 d`.
pub(crate) fn span(millis: i64) -> String {
    match millis.max(0) / 1000 {
        seconds @ 0..=99 => format!("{seconds} s"),
        seconds @ 100..=5999 => format!("{} min", seconds / 60),
        seconds @ 6000..=172_799 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_elsewhere_steers_the_terminal() {
        for (text, expected) in [
            ("plain Ünïcode → ok", "plain Ünïcode → ok"),
            ("two\nlines\tand a tab", "two\nlines\tand a tab"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}after", "after"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}Pdcs\u{9c}x", "x"),
            ("\u{9b}2Jgone", "gone"),
            ("back\u{8}\u{8}space\rreturn\u{0}", "backspacereturn"),
            ("user\u{202e}txt.exe", "usertxt.exe"),
            ("cut \u{1b}[", "cut "),
            ("cut \u{1b}", "cut "),
        ] {
            assert_eq!(clean(text), expected, "{text:?}");
        }
        assert_eq!(clean_line("a\n  b\t\u{1b}[1mc"), "a b c");
    }

    #[test]
    fn spans_are_read_at_a_glance() {
        for (millis, text) in [(-5, "0 s"), (4200, "4 s"), (180_000, "3 min"), (7_200_000, "2 h"), (259_200_000, "3 d")] {
            assert_eq!(span(millis), text);
        }
    }

    #[test]
    fn without_a_terminal_there_are_no_colours() {
        let screen = Screen { paint: Paint::Plain };
        assert_eq!(screen.paint(Style::Bad, "x"), "x");
        assert_eq!(Screen { paint: Paint::Colour }.paint(Style::Bad, "x"), "\u{1b}[31mx\u{1b}[0m");
    }
}
