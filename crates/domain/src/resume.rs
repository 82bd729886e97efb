//! Resuming: whether a new run goes on with the conversation of an earlier one.

use crate::id::AgentId;
use crate::outcome::Outcome;
use crate::spawn::Spawn;

/// The conversation a new run of `agent` with `provider` goes on with; none when it begins a new one. `earlier` are the runs of its task,
/// oldest first; runs of other agents in it do not count.
///
/// Only the agent's last run counts: an older conversation does not know what came after it. A conversation belongs to its provider, and
/// one that ended in a crash may be what the client crashed on, so it is left behind.
pub fn conversation<'a>(earlier: &'a [Spawn], agent: AgentId, provider: &str) -> Option<&'a str> {
    let last = earlier.iter().rev().find(|spawn| spawn.agent == agent)?;
    if last.provider != provider {
        return None;
    }
    match &last.outcome {
        Some(Outcome::Crashed { .. }) => None,
        None
        | Some(
            Outcome::Completed { .. }
            | Outcome::Unproductive
            | Outcome::OutOfMemory
            | Outcome::RateLimited { .. }
            | Outcome::Overloaded { .. }
            | Outcome::AuthMissing { .. }
            | Outcome::GatewayBroken { .. }
            | Outcome::Stalled { .. }
            | Outcome::BudgetStop
            | Outcome::Superseded
            | Outcome::Stopped { .. }
            | Outcome::Shutdown
            | Outcome::Lost,
        ) => last.session.as_deref(),
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::id::{SpawnId, SpawnNumber, TaskId, TaskNumber};
    use crate::spawn::{Epoch, SpawnState, Usage};
    use crate::time::Timestamp;
    use crate::verb::Verb;

    const ADA: AgentId = AgentId::new(Uuid::from_u128(1));
    const BOB: AgentId = AgentId::new(Uuid::from_u128(2));

    fn run(agent: AgentId, provider: &str, session: Option<&str>, outcome: Outcome) -> Spawn {
        Spawn {
            id: SpawnId::new(Uuid::from_u128(3)),
            number: SpawnNumber { task: TaskNumber(1), nth: 1 },
            version: 1,
            agent,
            task: TaskId::new(Uuid::from_u128(4)),
            epoch: Epoch(1),
            verb: Verb::IWillWorkOn,
            provider: provider.into(),
            model: None,
            state: SpawnState::Ended,
            session: session.map(str::to_owned),
            resume: None,
            closed_by: None,
            limited_until: None,
            outcome: Some(outcome),
            usage: Usage::default(),
            intended_at: Timestamp::from_millis(0),
            started_at: None,
            ended_at: None,
        }
    }

    fn crashed() -> Outcome {
        Outcome::Crashed { code: Some(1), detail: "it fell over".into() }
    }

    #[test]
    fn an_agent_goes_on_with_its_own_last_conversation() {
        let paused = || Outcome::Stopped { reason: "its task was paused".into() };
        let done = || Outcome::Completed { verb: "i_am_done".into() };
        let with = |session: &str, outcome: Outcome| run(ADA, "claude", Some(session), outcome);
        let table = [
            ("nothing ran before", vec![], None),
            ("its task was paused", vec![with("a", paused())], Some("a")),
            ("its work came back", vec![with("a", done()), run(BOB, "claude", Some("b"), done())], Some("a")),
            ("the last one of several", vec![with("a", done()), with("b", Outcome::Lost)], Some("b")),
            ("the server stopped", vec![with("a", Outcome::Shutdown)], Some("a")),
            ("the provider refused", vec![with("a", Outcome::RateLimited { until: None })], Some("a")),
            ("it crashed", vec![with("a", crashed())], None),
            ("it crashed after one that did not", vec![with("a", done()), with("b", crashed())], None),
            ("it crashed, and then one did not", vec![with("a", crashed()), with("b", paused())], Some("b")),
            ("only somebody else ran", vec![run(BOB, "claude", Some("b"), done())], None),
            ("it ran on another provider", vec![run(ADA, "codex", Some("c"), done())], None),
            ("it ran on another provider last", vec![with("a", done()), run(ADA, "codex", Some("c"), done())], None),
            ("it never named its conversation", vec![run(ADA, "claude", None, Outcome::Lost)], None),
            ("the last one never did", vec![with("a", done()), run(ADA, "claude", None, Outcome::Lost)], None),
        ];
        for (case, earlier, expected) in table {
            assert_eq!(conversation(&earlier, ADA, "claude"), expected, "{case}");
        }
    }
}
