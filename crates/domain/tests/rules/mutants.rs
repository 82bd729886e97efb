//! Takes every guard, every role and every stage from every row, one at a time, and demands that something notices.
//!
//! The changes are generated from the table itself, so a new guard without a test fails here. What nothing notices must be listed with its
//! reason in `survivors.txt`, and what is listed must really survive.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Arc, Once};

use roboco_domain::decide::standard_rules;
use roboco_domain::rules::RuleSet;
use roboco_domain::verb::Verb;

use crate::{assembly, histories, holds, path, refusals, reviews, runs, script, table, work};

/// Reviewed changes that nothing can notice: `row | what is taken away | why nothing can`.
const SURVIVORS: &str = include_str!("survivors.txt");

struct Mutant {
    name: String,
    verb: Verb,
    rules: Arc<RuleSet>,
}

fn mutants() -> Vec<Mutant> {
    let standard = standard_rules();
    let mut all = Vec::new();
    for (n, row) in standard.rules().iter().enumerate() {
        let roles = row.roles.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let stages = match row.from.as_slice() {
            [] => "no task".to_owned(),
            few if few.len() <= 4 => few.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            many => format!("{} stages", many.len()),
        };
        let label = format!("{} by {roles} from {stages}", row.verb);
        for guard in &row.guards {
            let rules = standard.changed(|rows| rows[n].guards.retain(|g| g != guard));
            all.push(Mutant { name: format!("{label} | guard {guard}"), verb: row.verb, rules: Arc::new(rules) });
        }
        for role in &row.roles {
            let rules = standard.changed(|rows| rows[n].roles.retain(|r| r != role));
            all.push(Mutant { name: format!("{label} | role {role}"), verb: row.verb, rules: Arc::new(rules) });
        }
        for stage in &row.from {
            let rules = standard.changed(|rows| rows[n].from.retain(|s| s != stage));
            all.push(Mutant { name: format!("{label} | stage {stage}"), verb: row.verb, rules: Arc::new(rules) });
        }
    }
    all
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Whether a detector stops at something. Its complaint is not printed: here it is wanted.
fn notices(detector: impl FnOnce()) -> bool {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |info| {
            if !QUIET.get() {
                usual(info);
            }
        }));
    });
    QUIET.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(detector));
    QUIET.set(false);
    outcome.is_err()
}

/// Who notices first; the cheap ones are asked first.
fn killer(mutant: &Mutant) -> Option<String> {
    let rules = &mutant.rules;
    let scripts = [work::ALL, reviews::ALL, holds::ALL, runs::ALL, path::ALL, assembly::ALL].concat();
    let word = mutant.verb.as_str();
    let (about, others): (Vec<_>, Vec<_>) = scripts.into_iter().partition(|(_, text)| text.contains(word));
    for (name, text) in about.into_iter().chain(others) {
        if notices(|| script::check_by(Some(rules), text)) {
            return Some(format!("scenario {name}"));
        }
    }
    if notices(|| table::compare(rules, &[mutant.verb])) {
        return Some("the table of moves".into());
    }
    let refused = || {
        refusals::play(rules, &[mutant.verb]);
    };
    if notices(refused) {
        return Some("the play of refusals".into());
    }
    let lived = || {
        histories::play(rules, 48, 300);
    };
    notices(lived).then(|| "random histories".into())
}

#[test]
fn taking_any_guard_role_or_stage_away_is_noticed() {
    let listed: Vec<(&str, &str)> = SURVIVORS
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
        .map(|l| l.rsplit_once(" | ").expect("row | what | why"))
        .collect();
    assert!(listed.iter().all(|(_, why)| why.len() > 20), "a survivor needs a reason");
    let all = mutants();
    let mut killed = 0;
    let mut unlisted = Vec::new();
    let mut survived = Vec::new();
    for mutant in &all {
        match killer(mutant) {
            Some(by) => {
                killed += 1;
                println!("noticed   {} by {by}", mutant.name);
            }
            None => {
                println!("survives  {}", mutant.name);
                survived.push(mutant.name.as_str());
                if !listed.iter().any(|(name, _)| *name == mutant.name) {
                    unlisted.push(mutant.name.as_str());
                }
            }
        }
    }
    println!("{} changes, {killed} noticed, {} survive", all.len(), survived.len());
    assert!(unlisted.is_empty(), "nothing notices when these are taken away:\n{}", unlisted.join("\n"));
    let stale: Vec<&str> = listed.iter().map(|(name, _)| *name).filter(|name| !survived.contains(name)).collect();
    assert!(stale.is_empty(), "listed as survivors, but noticed or gone:\n{}", stale.join("\n"));
}
