//! All states within the bound.

use std::sync::Arc;
use std::time::Instant;

use roboco_domain::decide::standard_rules;
use roboco_sim::model::{Bound, Leaf};
use stateright::{Checker, Model};

use crate::start::companies;

#[test]
fn every_state_within_the_bound_is_sound_and_leads_to_an_end() {
    let bound = Bound { rounds: 1, crashes: 1, failures: 1, holds: 1, returns: 1, mishaps: 1 };
    let began = Instant::now();
    let checker = Leaf::new(companies(&Arc::new(standard_rules().clone())).to_vec(), bound).checker().threads(2).spawn_bfs().join();
    println!("{bound:?}");
    println!(
        "{} unique states, {} generated, depth {}, an end within {} moves of a known state, {:.1} s",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        checker.model().ends.longest(),
        began.elapsed().as_secs_f64()
    );
    for (name, path) in checker.discoveries() {
        if !name.starts_with("it is") && !name.starts_with("a run") {
            let fault = path.last_state().fault.clone();
            let verdict = checker.model().verdict(path.last_state());
            panic!(
                "{name}: {fault:?} {verdict:?}\n{}",
                path.into_actions().iter().map(|a| format!("{a:?}")).collect::<Vec<_>>().join("\n")
            );
        }
    }
    checker.assert_properties();
}
