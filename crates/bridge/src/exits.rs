//! The ways out that an agent can be told to take when a verb does not work for it.

use roboco_domain::decide::standard_rules;
use roboco_domain::role::Role;
use roboco_domain::verb::Verb;

/// Verbs that end a dead end, the most helpful first, as they are called.
const WAYS_OUT: &[(Verb, &str)] = &[
    (Verb::IAmBlocked, "i_am_blocked(reason=…)"),
    (Verb::EscalateUp, "escalate_up(reason=…)"),
    (Verb::EscalateToCeo, "escalate_to_ceo(reason=…)"),
    (Verb::Unclaim, "unclaim()"),
    (Verb::IAmIdle, "i_am_idle()"),
];
/// What is named when the role is not known: the exits that most roles have.
const USUAL: &[Verb] = &[Verb::IAmBlocked, Verb::Unclaim, Verb::IAmIdle];

/// The exits of a role without the verb that does not work, in words: `a, b or c`. Empty when none is left.
pub(crate) fn exits(role: Option<Role>, tripped: &str) -> String {
    let has = |verb: Verb| role.map_or_else(|| USUAL.contains(&verb), |role| standard_rules().grants(verb, role));
    let usable: Vec<&str> = WAYS_OUT.iter().filter(|(verb, _)| has(*verb) && verb.as_str() != tripped).map(|(_, text)| *text).collect();
    match usable.split_last() {
        None => String::new(),
        Some((only, [])) => (*only).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_verbs_of_the_role_are_exits_and_never_the_one_that_failed() {
        for (role, tripped, expected) in [
            (None, "commit", "i_am_blocked(reason=…), unclaim() or i_am_idle()"),
            (Some(Role::Developer), "i_am_done", "i_am_blocked(reason=…), unclaim() or i_am_idle()"),
            (Some(Role::Developer), "i_am_blocked", "unclaim() or i_am_idle()"),
            (Some(Role::Auditor), "note", "i_am_idle()"),
            (Some(Role::Auditor), "i_am_idle", ""),
        ] {
            assert_eq!(exits(role, tripped), expected, "{role:?} {tripped}");
        }
        let pm = exits(Some(Role::CellPm), "complete");
        assert!(!pm.contains("i_am_blocked") && pm.contains("escalate_up"), "{pm}");
    }
}
