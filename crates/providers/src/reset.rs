//! Reads when a limit resets out of the sentences clients print. Only called on text a client itself marked as an error.
//!
//! Accepts Unix seconds or milliseconds, RFC 3339, relative waits ("try again in 2 hours"), and clock times with or without a weekday, a
//! date and a time zone. What cannot be read with confidence is `None`: not knowing is better than parking for a day.

use std::time::Duration;

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::{Offset, TimeZone};
use jiff::{Span, ZonedDateTime};
use roboco_domain::time::Timestamp;

/// A reset further away than this is a misreading.
const FARTHEST: Duration = Duration::from_secs(400 * 24 * 60 * 60);
/// A clock time that passed this recently means "now", not "tomorrow".
const JUST_PASSED: Duration = Duration::from_secs(10 * 60);
/// Words after which a time is a reset time.
const ANCHORS: [&str; 8] = ["reset", "try again", "retry", "available", "until", "come back", "wait", "limit reached"];

/// When the limit described by `text` resets.
pub fn reset_time(text: &str, now: Timestamp) -> Option<Timestamp> {
    let lower = text.to_ascii_lowercase();
    let start = ANCHORS.iter().filter_map(|anchor| lower.find(anchor)).min()?;
    let words = words(lower.get(start..)?);
    absolute(&words, now).or_else(|| relative(&words, now)).or_else(|| calendar(&words, now)).filter(|at| plausible(*at, now))
}

/// A Unix time in seconds or milliseconds, as clients write it in typed fields.
pub fn epoch(value: i64, now: Timestamp) -> Option<Timestamp> {
    let millis = if value < 100_000_000_000 { value.checked_mul(1000)? } else { value };
    Some(Timestamp::from_millis(millis)).filter(|at| plausible(*at, now))
}

fn plausible(at: Timestamp, now: Timestamp) -> bool {
    at <= now.after(FARTHEST) && now.since(at) <= Duration::from_secs(24 * 60 * 60)
}

/// Words without the punctuation around them; signs inside stay (`11:10pm`, `america/new_york`, `retry-after`).
fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ',' | ';' | '·' | '|' | '=' | '"' | '\''))
        .map(|word| word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '+'))
        .filter(|word| !word.is_empty())
        .collect()
}

fn absolute(words: &[&str], now: Timestamp) -> Option<Timestamp> {
    words.iter().find_map(|word| {
        if matches!(word.len(), 10 | 13) && word.bytes().all(|b| b.is_ascii_digit()) {
            return epoch(word.parse().ok()?, now);
        }
        let upper = word.to_ascii_uppercase();
        let exact = upper.parse::<jiff::Timestamp>().ok();
        let local = || upper.parse::<jiff::civil::DateTime>().ok().filter(|_| upper.contains('T'))?.to_zoned_datetime(TimeZone::UTC).ok();
        exact.or_else(|| local().map(|at| at.timestamp())).map(|at| Timestamp::from_millis(at.as_millisecond()))
    })
}

/// "in 2 hours and 5 minutes", "after 30s", "retry-after: 120".
fn relative(words: &[&str], now: Timestamp) -> Option<Timestamp> {
    let start = words.iter().position(|word| matches!(*word, "in" | "after" | "retry-after" | "wait" | "for"))?;
    let mut total = Duration::ZERO;
    let mut found = false;
    let mut rest = words.get(start + 1..)?.iter().filter(|word| !matches!(**word, "and" | "about" | "another")).peekable();
    while let Some(word) = rest.next() {
        let digits = word.len() - word.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, unit) = word.split_at(digits);
        let Ok(number) = number.parse::<u64>() else { break };
        let spaced = unit.is_empty().then(|| rest.peek().and_then(|next| unit_seconds(next))).flatten();
        let seconds = match (unit_seconds(unit), spaced) {
            (Some(seconds), _) => seconds,
            (None, Some(seconds)) => {
                rest.next();
                seconds
            }
            // A bare number is the header's form and means seconds, but only where the header's name stands before it.
            (None, None) if unit.is_empty() && !found && words.get(start) == Some(&"retry-after") => 1,
            (None, None) => break,
        };
        total = total.checked_add(Duration::from_secs(number.checked_mul(seconds)?))?;
        found = true;
    }
    found.then(|| now.after(total))
}

fn unit_seconds(unit: &str) -> Option<u64> {
    match unit {
        "s" | "sec" | "secs" | "second" | "seconds" => Some(1),
        "m" | "min" | "mins" | "minute" | "minutes" => Some(60),
        "h" | "hr" | "hrs" | "hour" | "hours" => Some(60 * 60),
        "d" | "day" | "days" => Some(24 * 60 * 60),
        "w" | "week" | "weeks" => Some(7 * 24 * 60 * 60),
        _ => None,
    }
}

/// The parts of a date a sentence may name.
#[derive(Default)]
struct Parts {
    time: Option<Time>,
    weekday: Option<Weekday>,
    month: Option<i8>,
    day: Option<i8>,
    year: Option<i16>,
    date: Option<Date>,
    tomorrow: bool,
    zone: Option<TimeZone>,
    unknown_zone: bool,
}

fn calendar(words: &[&str], now: Timestamp) -> Option<Timestamp> {
    let mut parts = Parts::default();
    for (at, word) in words.iter().enumerate() {
        let after = words.get(at + 1).copied();
        let before = at.checked_sub(1).and_then(|i| words.get(i)).copied();
        parts.read(word, before, after);
    }
    if parts.unknown_zone {
        return None;
    }
    let zone = parts.zone.clone().unwrap_or(TimeZone::UTC);
    let here = jiff::Timestamp::from_millisecond(now.millis()).ok()?.to_zoned_datetime(zone.clone());
    let at = parts.resolve(&here, zone)?;
    Some(Timestamp::from_millis(at.timestamp().as_millisecond()))
}

impl Parts {
    fn read(&mut self, word: &str, before: Option<&str>, after: Option<&str>) {
        if let Some(month) = month(word) {
            self.month = Some(month);
        } else if let Some(weekday) = weekday(word) {
            self.weekday = Some(weekday);
        } else if let Some(time) = clock(word, after) {
            self.time = self.time.or(Some(time));
        } else if let Ok(date) = word.parse::<Date>() {
            self.date = Some(date);
        } else if word == "tomorrow" {
            self.tomorrow = true;
        } else if let Some(zone) = zone(word) {
            self.zone = Some(zone);
        } else if self.time.is_some() && self.zone.is_none() && looks_like_a_zone(word) {
            self.unknown_zone = true;
        } else if let Ok(number) = word.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse::<i16>() {
            let beside_month = before.and_then(month).is_some() || after.and_then(month).is_some();
            match i8::try_from(number) {
                Ok(day) if beside_month && (1..=31).contains(&day) => self.day = Some(day),
                _ if (2000..2200).contains(&number) => self.year = Some(number),
                _ => {}
            }
        }
    }

    fn resolve(&self, here: &ZonedDateTime, zone: TimeZone) -> Option<ZonedDateTime> {
        let today = here.date();
        let midnight = Time::midnight();
        let in_zone = |date: Date, time: Time| date.to_datetime(time).to_zoned_datetime(zone.clone()).ok();
        if let Some(date) = self.date {
            return in_zone(date, self.time.unwrap_or(midnight));
        }
        if let (Some(month), Some(day)) = (self.month, self.day) {
            let date = Date::new(self.year.unwrap_or(today.year()), month, day).ok()?;
            // In December, "Jan 3" is next year.
            let past = self.year.is_none() && date < today.checked_sub(Span::new().days(1)).ok()?;
            let date = if past { Date::new(date.year().checked_add(1)?, month, day).ok()? } else { date };
            return in_zone(date, self.time.unwrap_or(midnight));
        }
        if let Some(weekday) = self.weekday {
            let time = self.time.unwrap_or(midnight);
            let ahead = today.weekday().until(weekday);
            let at = in_zone(today.checked_add(Span::new().days(ahead)).ok()?, time)?;
            return if passed(&at, here) { at.checked_add(Span::new().days(7)).ok() } else { Some(at) };
        }
        if self.tomorrow {
            return in_zone(today.tomorrow().ok()?, self.time.unwrap_or(midnight));
        }
        let at = in_zone(today, self.time?)?;
        if passed(&at, here) { in_zone(today.tomorrow().ok()?, self.time?) } else { Some(at) }
    }
}

fn passed(at: &ZonedDateTime, here: &ZonedDateTime) -> bool {
    let slack = i64::try_from(JUST_PASSED.as_millis()).unwrap_or(i64::MAX);
    at.timestamp().as_millisecond().saturating_add(slack) < here.timestamp().as_millisecond()
}

/// `11:10pm`, `3pm`, `3` before `pm`, `15:30`, `15:30:05`, `noon`, `midnight`.
fn clock(word: &str, after: Option<&str>) -> Option<Time> {
    match word {
        "noon" => return Time::new(12, 0, 0, 0).ok(),
        "midnight" => return Some(Time::midnight()),
        _ => {}
    }
    let half = |text: &str| match text.replace('.', "").as_str() {
        "am" => Some(0),
        "pm" => Some(12),
        _ => None,
    };
    let digits = word.len() - word.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':').len();
    let (number, suffix) = word.split_at(digits);
    let half_of_day = if suffix.is_empty() { after.and_then(half) } else { Some(half(suffix)?) };
    let mut fields = number.split(':');
    let hour: i8 = fields.next()?.parse().ok()?;
    let rest: Vec<i8> = fields.map(str::parse).collect::<Result<_, _>>().ok()?;
    let (minute, second) = match rest.as_slice() {
        [] if half_of_day.is_some() => (0, 0),
        [minute] => (*minute, 0),
        [minute, second] => (*minute, *second),
        _ => return None,
    };
    let hour = match half_of_day {
        Some(shift) if (1..=12).contains(&hour) => hour % 12 + shift,
        Some(_) => return None,
        None => hour,
    };
    Time::new(hour, minute, second, 0).ok()
}

fn month(word: &str) -> Option<i8> {
    const NAMES: [&str; 12] =
        ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"];
    let at = NAMES.iter().position(|name| *name == word || (word.len() >= 3 && word.len() <= 4 && name.starts_with(word)))?;
    i8::try_from(at + 1).ok()
}

fn weekday(word: &str) -> Option<Weekday> {
    const NAMES: [(&str, Weekday); 7] = [
        ("monday", Weekday::Monday),
        ("tuesday", Weekday::Tuesday),
        ("wednesday", Weekday::Wednesday),
        ("thursday", Weekday::Thursday),
        ("friday", Weekday::Friday),
        ("saturday", Weekday::Saturday),
        ("sunday", Weekday::Sunday),
    ];
    NAMES.iter().find(|(name, _)| word.len() >= 3 && name.starts_with(word)).map(|(_, day)| *day)
}

fn zone(word: &str) -> Option<TimeZone> {
    let hours = match word {
        "utc" | "gmt" | "z" => 0,
        "est" => -5,
        "edt" => -4,
        "cdt" => -5,
        "mst" => -7,
        "mdt" => -6,
        "pst" => -8,
        "pdt" => -7,
        "cet" | "bst" => 1,
        "cest" => 2,
        "jst" => 9,
        _ if word.contains('/') => return TimeZone::get(word).ok(),
        _ => {
            let offset = word.strip_prefix("utc").or_else(|| word.strip_prefix("gmt"))?;
            offset.strip_prefix('+').unwrap_or(offset).parse().ok()?
        }
    };
    Offset::from_hours(hours).ok().map(TimeZone::fixed)
}

/// A zone we cannot place would shift the time by hours.
fn looks_like_a_zone(word: &str) -> bool {
    word.contains('/') || (word.starts_with("utc") || word.starts_with("gmt")) || matches!(word, "cst" | "ist" | "local")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Monday 2026-11-30 21:10:15 UTC.
    const NOW: &str = "2026-11-30T21:10:15Z";

    fn at(text: &str) -> Timestamp {
        Timestamp::from_millis(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
    }

    #[test]
    fn reset_times_are_read_in_many_wordings() {
        for (text, expected) in [
            ("You've hit your 5-hour limit · resets 11:10pm (UTC)", "2026-11-30T23:10:00Z"),
            ("You've hit your weekly limit · resets Dec 3 at 9am (Europe/Paris)", "2026-12-03T08:00:00Z"),
            ("You've hit your weekly limit · resets Dec 3, 9am (Europe/Paris)", "2026-12-03T08:00:00Z"),
            ("limit reached, resets 3 December 2026 09:30 UTC", "2026-12-03T09:30:00Z"),
            ("limit will reset on January 3rd at 7:05 am (America/New_York)", "2027-01-03T12:05:00Z"),
            ("session limit reached ∙ resets 3am", "2026-12-01T03:00:00Z"),
            ("Your limit resets at 3 PM PST.", "2026-11-30T23:00:00Z"),
            ("resets Thursday 10:00 (UTC)", "2026-12-03T10:00:00Z"),
            ("resets Mon 9am (UTC)", "2026-12-07T09:00:00Z"),
            ("resets Monday at 11pm UTC", "2026-11-30T23:00:00Z"),
            ("resets tomorrow at noon", "2026-12-01T12:00:00Z"),
            ("resets at midnight", "2026-12-01T00:00:00Z"),
            ("quota resets at 2026-12-01T10:00:00Z", "2026-12-01T10:00:00Z"),
            ("quota resets at 2026-12-01T10:00:00+02:00.", "2026-12-01T08:00:00Z"),
            ("quota resets on 2026-12-02 08:15 utc", "2026-12-02T08:15:00Z"),
            ("resets 23:30 UTC+2", "2026-11-30T21:30:00Z"),
            ("resets 5pm (UTC-5)", "2026-11-30T22:00:00Z"),
            ("AI usage limit reached|1796080215", "2026-11-30T23:10:15Z"),
            ("limit resets 1796080215000", "2026-11-30T23:10:15Z"),
            ("Please try again in 2 hours and 5 minutes.", "2026-11-30T23:15:15Z"),
            ("Rate limited: retry in 90s", "2026-11-30T21:11:45Z"),
            ("please wait 3 minutes", "2026-11-30T21:13:15Z"),
            ("try again in 1h 30m", "2026-11-30T22:40:15Z"),
            ("retry-after: 120", "2026-11-30T21:12:15Z"),
            ("Retry after 30 seconds", "2026-11-30T21:10:45Z"),
            // A limit that reset a few minutes ago is over, it does not come back tomorrow.
            ("resets 9:08pm (UTC)", "2026-11-30T21:08:00Z"),
        ] {
            assert_eq!(reset_time(text, at(NOW)), Some(at(expected)), "{text:?}");
        }
    }

    #[test]
    fn texts_without_a_usable_reset_time_say_nothing() {
        for text in [
            "",
            "API Error: Request rejected (429) · This request would exceed your organization's rate limit.",
            "at 11:10pm everything was fine",
            "resets soon",
            "resets 25:99",
            "resets 13pm",
            "resets 9am (Mars/Olympus)",
            "resets 9am (IST)",
            "limit reached|1234567890",
            "limit reached|9999999999999",
            "retry later (attempt 3 of 10)",
            "resets Feb 31",
            "try again in 99999999999999999999 hours",
            "resets éééé pm\u{0}",
        ] {
            assert_eq!(reset_time(text, at(NOW)), None, "{text:?}");
        }
    }

    #[test]
    fn typed_epochs_are_read_in_both_units_and_bounded() {
        assert_eq!(epoch(1_796_080_215, at(NOW)), Some(at("2026-11-30T23:10:15Z")));
        assert_eq!(epoch(1_796_080_215_000, at(NOW)), Some(at("2026-11-30T23:10:15Z")));
        for wrong in [0, -1, i64::MAX, i64::MIN, 4_000_000_000] {
            assert_eq!(epoch(wrong, at(NOW)), None, "{wrong}");
        }
    }
}
