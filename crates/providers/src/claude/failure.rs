//! Why a turn failed. Typed fields decide; the words of the error text only when no field does, and the text is one the client itself
//! reported as an error, never something the model wrote.

use roboco_domain::time::Timestamp;
use serde_json::Value;

use crate::event::one_line;
use crate::reset::reset_time;
use crate::{Ending, table};

/// Characters of an error kept for a person.
const DETAIL_CHARS: usize = 300;

/// What the client reported about a failed turn or request.
#[derive(Debug, Clone, Default)]
pub(super) struct Failure {
    subtype: String,
    terminal: String,
    status: Option<u64>,
    /// The vendor's name of the error, then the client's own, then its finer code.
    kinds: [String; 3],
    text: String,
}

impl Failure {
    /// From a `result` that says it is an error, or from the message the client puts in the model's place.
    pub(super) fn read(line: &Value) -> Self {
        let text = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let errors = line.get("errors").and_then(Value::as_array).map(|errors| {
            let texts = errors.iter().map(|error| error.as_str().map_or_else(|| error.to_string(), str::to_owned));
            texts.collect::<Vec<_>>().join("; ")
        });
        let content = || {
            let blocks = line.pointer("/message/content").and_then(Value::as_array)?;
            blocks.iter().find_map(|block| block.get("text").and_then(Value::as_str)).map(str::to_owned)
        };
        let said = [Some(text("result")), errors, content()].into_iter().flatten().find(|said| !said.is_empty());
        Self {
            subtype: text("subtype"),
            terminal: text("terminal_reason"),
            status: line.get("api_error_status").and_then(Value::as_u64),
            kinds: [text("api_error_type"), text("error"), text("api_error")],
            text: said.unwrap_or_default(),
        }
    }

    /// One line for a person.
    pub(super) fn detail(&self) -> String {
        let detail = one_line(&self.text, DETAIL_CHARS);
        if !detail.is_empty() {
            return detail;
        }
        let named = [&self.terminal, &self.subtype].into_iter().find(|name| !name.is_empty());
        named.map_or_else(|| "the client gave up without saying why".to_owned(), Clone::clone)
    }

    /// What it means. `limit` is the last refusal the client announced in this turn.
    pub(super) fn ending(&self, limit: Option<Option<Timestamp>>, now: Timestamp) -> Ending {
        let typed = self.by_client().or_else(|| self.by_status());
        // A refused request says what is wrong with the request, not with the provider.
        let refused = self.status.is_some_and(|status| (400..500).contains(&status));
        let cause = if refused { typed } else { typed.or_else(|| self.by_kind()).or_else(|| self.by_text()) };
        match cause {
            Some(Cause::Interrupted) => Ending::Interrupted,
            Some(Cause::Turns) => Ending::TurnLimit,
            Some(Cause::Budget) => Ending::Budget,
            Some(Cause::Full) => Ending::ContextFull,
            Some(Cause::NoSession) => Ending::SessionLost,
            Some(Cause::Limit) => Ending::RateLimited { until: limit.flatten().or_else(|| reset_time(&self.text, now)) },
            Some(Cause::Overload) => Ending::Overloaded { until: reset_time(&self.text, now) },
            Some(Cause::Login) => Ending::AuthMissing { remedy: table::CLAUDE.remedy.to_owned() },
            Some(Cause::Credit) => Ending::AuthMissing {
                remedy: "the provider says the account cannot pay: add credit or change the plan of the provider `claude`".to_owned(),
            },
            None => Ending::Crashed { code: None, detail: self.detail() },
        }
    }

    fn by_client(&self) -> Option<Cause> {
        match (self.subtype.as_str(), self.terminal.as_str()) {
            (_, terminal) if terminal.starts_with("aborted") => Some(Cause::Interrupted),
            ("error_max_turns", _) | (_, "max_turns") => Some(Cause::Turns),
            ("error_max_budget_usd", _) | (_, "budget_exhausted") => Some(Cause::Budget),
            (_, "prompt_too_long") => Some(Cause::Full),
            _ if self.kinds.iter().any(|kind| kind == "usage_limit_reached") => Some(Cause::Limit),
            _ => None,
        }
    }

    fn by_status(&self) -> Option<Cause> {
        match self.status? {
            401 | 403 => Some(Cause::Login),
            402 => Some(Cause::Credit),
            429 => Some(Cause::Limit),
            408 | 500..=599 => Some(Cause::Overload),
            // 400 covers a full conversation and an empty account alike: the words tell.
            400 | 413 => self.by_text().filter(|cause| matches!(cause, Cause::Full | Cause::Credit)),
            _ => None,
        }
    }

    fn by_kind(&self) -> Option<Cause> {
        self.kinds.iter().find_map(|kind| match kind.as_str() {
            "rate_limit_error" | "rate_limit" => Some(Cause::Limit),
            "overloaded_error" | "overloaded" | "api_error" | "server_error" | "timeout_error" | "connection_failed" => {
                Some(Cause::Overload)
            }
            "authentication_error" | "authentication_failed" | "permission_error" => Some(Cause::Login),
            "billing_error" => Some(Cause::Credit),
            _ => None,
        })
    }

    fn by_text(&self) -> Option<Cause> {
        const WORDS: [(&str, Cause); 17] = [
            ("no conversation found", Cause::NoSession),
            ("prompt is too long", Cause::Full),
            ("context window", Cause::Full),
            ("credit balance", Cause::Credit),
            ("hit your", Cause::Limit),
            ("usage limit", Cause::Limit),
            ("limit reached", Cause::Limit),
            ("rate limit", Cause::Limit),
            ("overloaded", Cause::Overload),
            ("connection to the api", Cause::Overload),
            ("unable to connect", Cause::Overload),
            ("request timed out", Cause::Overload),
            ("/login", Cause::Login),
            ("not logged in", Cause::Login),
            ("failed to authenticate", Cause::Login),
            ("invalid api key", Cause::Login),
            ("token has expired", Cause::Login),
        ];
        let text = self.text.to_lowercase();
        WORDS.iter().find(|(words, _)| text.contains(words)).map(|(_, cause)| *cause)
    }
}

#[derive(Debug, Clone, Copy)]
enum Cause {
    Interrupted,
    Turns,
    Budget,
    Full,
    NoSession,
    Limit,
    Overload,
    Login,
    Credit,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// 2026-11-30 21:10:15 UTC.
    const NOW: Timestamp = Timestamp::from_millis(1_796_073_015_000);

    fn ending(line: &Value) -> Ending {
        Failure::read(line).ending(None, NOW)
    }

    #[test]
    fn typed_fields_decide_whatever_the_words_say() {
        let login = || Ending::AuthMissing { remedy: table::CLAUDE.remedy.to_owned() };
        let overloaded = || Ending::Overloaded { until: None };
        let limited = || Ending::RateLimited { until: None };
        for (line, expected) in [
            (json!({"api_error_status": 429, "result": "zzz"}), limited()),
            (json!({"api_error_status": 529, "result": "your rate limit is fine, invalid api key"}), overloaded()),
            (json!({"api_error_status": 503, "result": ""}), overloaded()),
            (json!({"api_error_status": 401, "result": "overloaded"}), login()),
            (json!({"api_error_status": 403, "api_error_type": "permission_error"}), login()),
            (json!({"api_error_status": null, "api_error": "connection_failed", "result": "?"}), overloaded()),
            (json!({"api_error_type": "rate_limit_error", "result": "?"}), limited()),
            (json!({"terminal_reason": "prompt_too_long", "api_error_status": 400}), Ending::ContextFull),
            (json!({"terminal_reason": "aborted_tools", "result": "rate limit"}), Ending::Interrupted),
            (json!({"subtype": "error_max_turns"}), Ending::TurnLimit),
            (json!({"subtype": "error_max_budget_usd"}), Ending::Budget),
        ] {
            assert_eq!(ending(&line), expected, "{line}");
        }
    }

    #[test]
    fn error_texts_are_a_fallback_in_varied_wordings() {
        let until = |millis| Ending::RateLimited { until: Some(Timestamp::from_millis(millis)) };
        for (text, expected) in [
            ("You've hit your 5-hour limit · resets 11:10pm (UTC)", until(1_796_080_200_000)),
            ("Claude AI usage limit reached|1796080215", until(1_796_080_215_000)),
            ("Weekly limit reached ∙ resets Dec 3 at 9am (UTC)", until(1_796_288_400_000)),
            ("API error: OVERLOADED, sorry", Ending::Overloaded { until: None }),
            ("Not logged in · Please run /login", Ending::AuthMissing { remedy: table::CLAUDE.remedy.to_owned() }),
            ("Prompt is too long", Ending::ContextFull),
            ("No conversation found with session ID: 2", Ending::SessionLost),
            ("something new broke", Ending::Crashed { code: None, detail: "something new broke".to_owned() }),
        ] {
            assert_eq!(ending(&json!({"is_error": true, "result": text})), expected, "{text}");
        }
        let empty = json!({"is_error": true, "subtype": "error_during_execution"});
        assert_eq!(ending(&empty), Ending::Crashed { code: None, detail: "error_during_execution".to_owned() });
    }

    #[test]
    fn a_refused_request_is_not_blamed_on_the_provider() {
        let missing = json!({"api_error_status": 404, "api_error_type": "api_error", "result": "model not found: rate limit-9"});
        assert_eq!(ending(&missing), Ending::Crashed { code: None, detail: "model not found: rate limit-9".to_owned() });
        let credit = json!({"api_error_status": 400, "result": "Your credit balance is too low"});
        assert!(matches!(ending(&credit), Ending::AuthMissing { remedy } if remedy.contains("credit")));
        let odd = json!({"api_error_status": 400, "result": "messages.3: rate limit is not a field"});
        assert!(matches!(ending(&odd), Ending::Crashed { .. }), "{:?}", ending(&odd));
    }
}
