//! How much an agent has used its tools and whether it goes round in circles; and how it ends: which verb it called last, and how often it
//! tried to stop without one that closes its part.

use std::collections::{BTreeMap, VecDeque};

use roboco_domain::limits::{TOOL_CALLS_STOP, TOOL_CALLS_WARN};
use roboco_domain::verb::{Ends, Verb};
use serde::Deserialize;
use serde_json::{Value, json};

/// Calls that are compared to find a loop, and equal ones among them that are one.
const LOOP_WINDOW: usize = 10;
const LOOP_CALLS: usize = 3;
/// Looking is no loop.
const DISCOVERY: &[&str] = &["give_me_work", "triage", "triage_all", "evidence", "i_am_idle"];
/// Tools in the window in which a closing verb counts as recent.
const RECENT: usize = 5;
/// Times an agent may be told to close its part before it is let go.
const STOP_ALLOWANCE: u32 = 1;
/// Different tools that are counted by name; the rest is counted together.
const TOOLS: usize = 500;

/// A finished call of any tool of the client.
#[derive(Debug, Deserialize)]
pub(super) struct ToolCalled {
    tool: String,
    args_hash: String,
}

/// A tool that was used, for the question whether the agent has closed its part.
#[derive(Debug, Deserialize)]
pub(super) struct ToolRecorded {
    tool: String,
    /// False for a verb that was refused: it closes nothing.
    #[serde(default = "accepted")]
    accepted: bool,
}

const fn accepted() -> bool {
    true
}

/// What one session has used.
#[derive(Debug, Default)]
pub(super) struct Usage {
    total: u32,
    by_tool: BTreeMap<String, u32>,
    /// Tool and arguments of the last calls.
    calls: VecDeque<(String, String)>,
    /// Whether the last call was one too many of the same.
    repeats: Repeats,
    tools: VecDeque<(String, Closing)>,
    stop_attempts: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Repeats {
    Yes,
    #[default]
    No,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    Yes,
    No,
}

impl Usage {
    /// Counts a call.
    pub(super) fn called(&mut self, called: ToolCalled) {
        let tool = bare(&called.tool);
        self.total = self.total.saturating_add(1);
        let name = if self.by_tool.len() < TOOLS || self.by_tool.contains_key(tool) { tool } else { "other" };
        *self.by_tool.entry(name.to_owned()).or_default() += 1;
        self.repeats = Repeats::No;
        if !DISCOVERY.contains(&tool) {
            let call = (tool.to_owned(), called.args_hash);
            let before = self.calls.iter().rev().take(LOOP_WINDOW - 1).filter(|other| **other == call).count();
            if before + 1 >= LOOP_CALLS {
                self.repeats = Repeats::Yes;
            }
            push(&mut self.calls, call, LOOP_WINDOW);
        }
    }

    /// The budget and what is used of it. A loop is over with the next call that is another one.
    pub(super) fn budget(&self) -> Value {
        json!({
            "total": self.total, "by_tool": self.by_tool, "warn": self.total >= TOOL_CALLS_WARN, "halt": self.total >= TOOL_CALLS_STOP,
            "loop": self.repeats == Repeats::Yes, "warn_threshold": TOOL_CALLS_WARN, "halt_threshold": TOOL_CALLS_STOP, "loop_threshold": LOOP_CALLS,
            "loop_window": LOOP_WINDOW, "loop_action": "halt",
        })
    }

    /// Notes which tool was used last.
    pub(super) fn recorded(&mut self, recorded: &ToolRecorded) {
        let tool = bare(&recorded.tool);
        let closes = recorded.accepted && tool.parse::<Verb>().is_ok_and(|verb| verb.ends() == Ends::Session);
        push(&mut self.tools, (tool.to_owned(), if closes { Closing::Yes } else { Closing::No }), RECENT);
    }

    /// Notes that the agent wants to stop.
    pub(super) fn stop_attempted(&mut self) {
        self.stop_attempts = self.stop_attempts.saturating_add(1);
    }

    /// How the agent stands to the end of its part.
    pub(super) fn ending(&self) -> Value {
        let names: Vec<&str> = self.tools.iter().map(|(tool, _)| tool.as_str()).collect();
        json!({
            "last_tool": names.last(), "recent_tools": names,
            "had_terminal_recently": self.tools.iter().any(|(_, closing)| *closing == Closing::Yes),
            "stop_attempts": self.stop_attempts, "stop_allowance": STOP_ALLOWANCE,
        })
    }
}

/// The name of a tool without the server that clients put before it: `mcp__roboco-do__commit` is `commit`.
fn bare(tool: &str) -> &str {
    tool.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")).map_or(tool, |(_, name)| name)
}

fn push<T>(queue: &mut VecDeque<T>, one: T, most: usize) {
    if queue.len() == most {
        queue.pop_front();
    }
    queue.push_back(one);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(usage: &mut Usage, tool: &str, hash: &str) -> bool {
        usage.called(ToolCalled { tool: tool.into(), args_hash: hash.into() });
        usage.budget()["loop"].as_bool().unwrap()
    }

    #[test]
    fn warn_and_halt_come_with_the_100th_and_the_300th_call() {
        let mut usage = Usage::default();
        for nth in 1..=301_u32 {
            call(&mut usage, "mcp__roboco-do__note", &nth.to_string());
            let budget = usage.budget();
            assert_eq!((&budget["warn"], &budget["halt"]), (&json!(nth >= 100), &json!(nth >= 300)), "{nth}");
        }
        assert_eq!(usage.budget()["by_tool"], json!({"note": 301}));
    }

    #[test]
    fn the_same_tool_with_the_same_arguments_is_a_loop_until_others_follow() {
        let mut usage = Usage::default();
        assert_eq!([1, 2, 3].map(|_| call(&mut usage, "Bash", "a")), [false, false, true]);
        assert!(!call(&mut usage, "evidence", "a"), "a loop condemned a look");
        assert!(!call(&mut usage, "Bash", "b"), "a loop condemned a later call");
        // Three tools without arguments are no loop, and looking is none however often.
        let mut usage = Usage::default();
        for tool in ["read_a2a", "read_messages", "notify_list"] {
            assert!(!call(&mut usage, tool, "e3b0"), "{tool}");
        }
        for _ in 0..5 {
            assert!(!call(&mut usage, "mcp__roboco-flow__give_me_work", "e3b0"));
        }
        // Equal calls further apart than the window are none either.
        let mut usage = Usage::default();
        for nth in 0..3 {
            assert!(!call(&mut usage, "Bash", "a"));
            for other in 0..10 {
                assert!(!call(&mut usage, "Read", &format!("{nth}/{other}")));
            }
        }
    }

    #[test]
    fn an_accepted_closing_verb_is_recent_for_five_tools() {
        let mut usage = Usage::default();
        let mut record = |tool: &str, accepted| {
            usage.recorded(&ToolRecorded { tool: tool.into(), accepted });
            usage.ending()["had_terminal_recently"].as_bool().unwrap()
        };
        assert!(!record("mcp__roboco-flow__i_am_done", false), "a refused verb closes nothing");
        assert!(!record("Bash", true));
        assert!(record("mcp__roboco-flow__i_am_done", true));
        assert!((0..4).all(|_| record("Bash", true)));
        assert!(!record("Bash", true));
        assert_eq!(usage.ending()["last_tool"], "Bash");
    }

    #[test]
    fn attempts_to_stop_are_counted() {
        let mut usage = Usage::default();
        assert_eq!(
            usage.ending(),
            json!({"last_tool": null, "recent_tools": [], "had_terminal_recently": false, "stop_attempts": 0, "stop_allowance": 1})
        );
        usage.stop_attempted();
        usage.stop_attempted();
        assert_eq!(usage.ending()["stop_attempts"], 2);
    }
}
