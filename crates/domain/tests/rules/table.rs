//! The legal moves of a leaf, typed by hand from what a company is, and compared with what the rules really do.

use std::sync::Arc;

use roboco_domain::decide::standard_rules;
use roboco_domain::role::Role;
use roboco_domain::rules::RuleSet;
use roboco_domain::task::{Shape, Stage};
use roboco_domain::verb::Verb;

use crate::matrix::{Cell, PREPARED, SPEAKERS, call};

/// Which roles have which verb, whatever the task.
const GRANTS: &str = "
    give_me_work     developer qa documenter cell_pm main_pm pr_reviewer
    i_am_idle        developer qa documenter cell_pm main_pm product_owner head_marketing auditor pr_reviewer
    i_will_work_on   developer
    open_pr          developer
    sync_branch      developer
    i_am_done        developer
    i_am_blocked     developer qa documenter
    unclaim          developer qa documenter
    resume           developer qa documenter cell_pm main_pm ceo
    claim_review     qa
    pass             qa
    fail             qa
    claim_doc_task   documenter
    i_documented     documenter
    activate         cell_pm main_pm ceo
    complete         cell_pm
    request_changes  cell_pm
    unblock          cell_pm main_pm ceo
    escalate_up      cell_pm
    escalate_to_ceo  main_pm
    cancel           cell_pm main_pm ceo
    commit           developer documenter
    progress         developer documenter
    note             developer qa documenter cell_pm main_pm product_owner head_marketing auditor pr_reviewer
    evidence         developer qa documenter cell_pm main_pm product_owner head_marketing auditor pr_reviewer
    create_task      ceo
    approve          ceo
    reject           ceo
    pause            ceo
";

/// `verb / roles / holds / from>to …`: everything that is accepted when all that is asked for is there. A stage alone is kept.
const MOVES: &str = "
    i_will_work_on / developer / none / ready>working revision>working working self_check
    open_pr / developer / none / working self_check
    sync_branch / developer / none / working self_check
    i_am_done / developer / none / working>qa self_check>qa
    commit / developer / none / working self_check
    commit / documenter / none / docs
    progress / developer / none / working self_check
    progress / documenter / none / docs
    unclaim / developer / none / ready working>ready self_check>ready revision>ready
    unclaim / qa / none / qa
    unclaim / documenter / none / docs
    i_am_blocked / developer / none / working self_check
    i_am_blocked / qa / none / qa
    i_am_blocked / documenter / none / docs
    resume / developer / paused agent / ready working self_check revision
    resume / qa / paused agent / qa
    resume / documenter / paused agent / docs
    resume / cell_pm main_pm / paused agent / ready working self_check qa docs gate pm_review revision
    resume / ceo / paused agent, paused human / backlog ready working self_check qa docs gate pm_review ceo revision
    claim_review / qa / none / qa
    pass / qa / none / qa>docs
    fail / qa / none / qa>revision
    claim_doc_task / documenter / none / docs
    i_documented / documenter / none / docs>pm_review
    activate / ceo / none / backlog>ready
    activate / cell_pm main_pm / none / backlog>ready
    complete / cell_pm / none / pm_review>ceo
    request_changes / cell_pm / none / pm_review>revision
    unblock / cell_pm / blocked cell_pm / ready working self_check qa docs gate pm_review revision
    unblock / main_pm / blocked cell_pm, blocked main_pm / ready working self_check qa docs gate pm_review revision
    unblock / ceo / blocked cell_pm, blocked main_pm, blocked human / backlog ready working self_check qa docs gate pm_review ceo revision
    escalate_up / cell_pm / none, blocked cell_pm / ready working self_check qa docs gate pm_review revision
    escalate_to_ceo / main_pm / none, blocked cell_pm, blocked main_pm / ready working self_check qa docs gate pm_review revision
    cancel / cell_pm / none, paused agent, blocked cell_pm / backlog>cancelled ready>cancelled working>cancelled self_check>cancelled qa>cancelled docs>cancelled gate>cancelled pm_review>cancelled revision>cancelled
    cancel / main_pm / none, paused agent, blocked cell_pm, blocked main_pm / backlog>cancelled ready>cancelled working>cancelled self_check>cancelled qa>cancelled docs>cancelled gate>cancelled pm_review>cancelled revision>cancelled
    cancel / ceo / any / backlog>cancelled ready>cancelled working>cancelled self_check>cancelled qa>cancelled docs>cancelled gate>cancelled pm_review>cancelled ceo>cancelled revision>cancelled
    note / developer qa documenter cell_pm main_pm product_owner head_marketing auditor pr_reviewer / any / all
    evidence / developer qa documenter cell_pm main_pm product_owner head_marketing auditor pr_reviewer / any / all
    approve / ceo / none / ceo>done
    reject / ceo / none / ceo>revision
    pause / ceo / none / backlog ready working self_check qa docs gate pm_review ceo revision
";

struct Move {
    verb: Verb,
    roles: Vec<Role>,
    holds: Vec<&'static str>,
    edges: Vec<(Stage, Stage)>,
}

fn moves() -> Vec<Move> {
    let read = |line: &'static str| {
        let parts: Vec<&str> = line.split('/').map(str::trim).collect();
        let edges = match parts[3] {
            "all" => Stage::ALL.iter().map(|s| (*s, *s)).collect(),
            list => list
                .split_whitespace()
                .map(|edge| {
                    let (from, to) = edge.split_once('>').unwrap_or((edge, edge));
                    (from.parse().unwrap(), to.parse().unwrap())
                })
                .collect(),
        };
        Move {
            verb: parts[0].parse().unwrap(),
            roles: parts[1].split_whitespace().map(|r| r.parse().unwrap()).collect(),
            holds: parts[2].split(',').map(str::trim).collect(),
            edges,
        }
    };
    MOVES.lines().map(str::trim).filter(|l| !l.is_empty()).map(read).collect()
}

/// Where a call must lead, if it is legal at all.
fn wanted(moves: &[Move], role: Role, verb: Verb, shape: Shape, stage: Stage, hold: &str) -> Option<Stage> {
    let hold = if stage.is_terminal() { "none" } else { hold };
    if verb == Verb::Activate && role != Role::Ceo && shape != Shape::Leaf {
        // Only parts of split work are the PM's to release.
        return None;
    }
    let row = moves.iter().find(|m| {
        m.verb == verb
            && m.roles.contains(&role)
            && m.holds.iter().any(|h| *h == hold || *h == "any")
            && m.edges.iter().any(|e| e.0 == stage)
    })?;
    let to = row.edges.iter().find(|e| e.0 == stage).map(|e| e.1)?;
    // Work under a parent is merged by its PM; everything else is the CEO's to merge.
    let merges = verb == Verb::Complete && shape == Shape::Leaf;
    Some(if merges { Stage::Done } else { to })
}

/// Compares the table with what really happens, for the verbs that are asked for.
///
/// # Panics
/// With the first difference.
pub(crate) fn compare(rules: &Arc<RuleSet>, verbs: &[Verb]) {
    let grants: Vec<Vec<&str>> = GRANTS.lines().map(|l| l.split_whitespace().collect()).filter(|l: &Vec<&str>| !l.is_empty()).collect();
    for verb in verbs {
        let granted = grants.iter().find(|l| l[0] == verb.as_str()).unwrap_or_else(|| panic!("{verb} is missing from the table"));
        for role in Role::ALL {
            assert_eq!(rules.grants(*verb, *role), granted[1..].contains(&role.as_str()), "{role} {verb}");
        }
    }
    let moves = moves();
    for prepared in PREPARED.iter() {
        for verb in verbs.iter().filter(|v| !matches!(v, Verb::GiveMeWork | Verb::IAmIdle | Verb::CreateTask)) {
            for (role, slug) in SPEAKERS {
                let place = format!("{role} {verb} on a {} in {} held {}", prepared.shape, prepared.stage, prepared.hold);
                let wanted = wanted(&moves, *role, *verb, prepared.shape, prepared.stage, prepared.hold);
                match (call(rules, prepared, slug, *verb), wanted) {
                    (Cell::Accepted(to, _), Some(wanted)) => assert_eq!(to, wanted, "{place}"),
                    (Cell::Refused(_), None) => {}
                    (seen, wanted) => panic!("{place}: saw {seen:?}, the table says {wanted:?}"),
                }
            }
        }
    }
}

#[test]
fn the_rules_do_what_the_table_says() {
    compare(&Arc::new(standard_rules().clone()), Verb::ALL);
}
