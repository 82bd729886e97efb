//! Guards and roles are taken away one by one, all of them, and the checker has to notice without knowing which.
//!
//! It looks at one task with one agent per seat and at well-formed calls, so it cannot notice everything: what it does not is listed in
//! `unnoticed.txt` and is noticed by the scenarios and tables of the rules themselves. The list may not grow by itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use roboco_domain::decide::standard_rules;
use roboco_domain::role::Role;
use roboco_domain::rules::{OwnedRule, RuleSet};
use roboco_domain::task::Shape;
use roboco_domain::verb::Verb;
use roboco_sim::model::{Bound, Leaf};
use stateright::{Checker, HasDiscoveries, Model};

use crate::start::places;

const UNNOTICED: &str = include_str!("unnoticed.txt");
/// Nothing more goes wrong: the starts are places where something has gone wrong already.
const BOUND: Bound = Bound { rounds: 0, crashes: 0, failures: 0, holds: 0, returns: 0, mishaps: 0 };
/// Without a guard effects can pile up for ever; that many states are enough to notice something else.
const MOST_STATES: usize = 20_000;

fn mutants() -> Vec<(String, RuleSet)> {
    let standard = standard_rules();
    let mut all = Vec::new();
    // What is said of assembled work alone is no part of this model.
    let of_leaves = |row: &OwnedRule| row.is_taskless() || row.shapes.iter().any(|shape| Shape::LEAVES.contains(shape));
    for (n, row) in standard.rules().iter().enumerate().filter(|(_, row)| of_leaves(row)) {
        let roles = row.roles.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let from = row.from.first().map_or_else(|| "no task".to_owned(), ToString::to_string);
        let label = format!("{} by {roles} from {from} on", row.verb);
        for guard in &row.guards {
            all.push((format!("{label} | guard {guard}"), standard.changed(|rows| rows[n].guards.retain(|g| g != guard))));
        }
        for role in &row.roles {
            all.push((format!("{label} | role {role}"), standard.changed(|rows| rows[n].roles.retain(|r| r != role))));
        }
    }
    all
}

struct Seen {
    broken: Option<&'static str>,
    heard: BTreeSet<(Verb, Role)>,
}

fn check(rules: RuleSet) -> Seen {
    let checker = Leaf::new(places(&Arc::new(rules)), BOUND)
        .checker()
        .threads(2)
        .finish_when(HasDiscoveries::AnyFailures)
        .target_state_count(MOST_STATES)
        .spawn_bfs()
        .join();
    let mut broken: Vec<&str> = checker.discoveries().into_keys().filter(|name| !is_wish(name)).collect();
    broken.sort_unstable();
    Seen { broken: broken.first().copied(), heard: checker.model().heard() }
}

/// What should be possible, in contrast to what must always be so.
fn is_wish(name: &str) -> bool {
    name.starts_with("it is") || name.starts_with("a run")
}

/// Checks every fourth change, so that the four tests share the work.
fn check_share(share: usize) {
    let usual = check(standard_rules().clone());
    assert_eq!(usual.broken, None);
    let listed: Vec<&str> = UNNOTICED.lines().filter(|l| !l.is_empty() && !l.starts_with('#')).collect();
    let all: Vec<_> = mutants().into_iter().enumerate().filter(|(n, _)| n % 4 == share).map(|(_, m)| m).collect();
    let mut unnoticed = Vec::new();
    for (name, rules) in &all {
        let seen = check(rules.clone());
        match (seen.broken, usual.heard.difference(&seen.heard).next()) {
            (Some(broken), _) => println!("noticed   {name}: {broken}"),
            (None, Some((verb, role))) => println!("noticed   {name}: {role} is never heard with {verb}"),
            (None, None) => unnoticed.push(name.as_str()),
        }
    }
    println!("{} changes, {} noticed by the checker alone", all.len(), all.len() - unnoticed.len());
    let new: Vec<&str> = unnoticed.iter().copied().filter(|name| !listed.contains(name)).collect();
    assert!(new.is_empty(), "the checker does not notice:\n{}", new.join("\n"));
    let here = |name: &&str| all.iter().any(|(n, _)| n == name);
    let stale: Vec<&str> = listed.into_iter().filter(here).filter(|name| !unnoticed.contains(name)).collect();
    assert!(stale.is_empty(), "listed as unnoticed, but noticed:\n{}", stale.join("\n"));
}

#[test]
fn parts_that_are_taken_away_are_noticed_first_share() {
    check_share(0);
}

#[test]
fn parts_that_are_taken_away_are_noticed_second_share() {
    check_share(1);
}

#[test]
fn parts_that_are_taken_away_are_noticed_third_share() {
    check_share(2);
}

#[test]
fn parts_that_are_taken_away_are_noticed_fourth_share() {
    check_share(3);
}
