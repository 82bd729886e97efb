//! The legal moves of delivered work, typed by hand from what a company is, and compared with what the rules really do.

use std::sync::Arc;

use roboco_domain::decide::standard_rules;
use roboco_domain::role::Role;
use roboco_domain::rules::RuleSet;
use roboco_domain::task::{Shape, Stage};
use roboco_domain::verb::Verb;

use crate::matrix::{Cell, PREPARED, call, speakers};

/// Which roles have which verb, whatever the task.
const GRANTS: &str = "
    give_me_work     developer qa documenter cell_pm main_pm pr_reviewer
    i_am_idle        developer qa documenter cell_pm main_pm product_owner head_marketing auditor pr_reviewer
    i_will_work_on   developer
    open_pr          developer
    sync_branch      developer
    i_am_done        developer
    i_am_blocked     developer qa documenter
    unclaim          developer qa documenter pr_reviewer
    resume           developer qa documenter cell_pm main_pm ceo
    claim_review     qa
    pass             qa
    fail             qa
    claim_doc_task   documenter
    i_documented     documenter
    activate         cell_pm main_pm ceo
    i_will_plan      cell_pm main_pm
    delegate         cell_pm main_pm
    declare_coverage cell_pm main_pm
    reassign         cell_pm
    submit_up        cell_pm
    submit_root      main_pm
    claim_gate_review pr_reviewer
    pr_pass          pr_reviewer
    pr_fail          pr_reviewer
    complete         cell_pm main_pm
    request_changes  cell_pm main_pm
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

/// `verb / roles / shapes / holds / from>to …`: everything that is accepted when all that is asked for is there. A stage alone is kept.
/// Shapes: `leaf` for both kinds of leaf, `part` for a leaf under a parent, `cell`, `root`, `all`.
const MOVES: &str = "
    i_will_work_on / developer / leaf / none / ready>working revision>working working self_check
    open_pr / developer / leaf / none / working self_check
    sync_branch / developer / leaf / none / working self_check
    i_am_done / developer / leaf / none / working>qa self_check>qa
    commit / developer / leaf / none / working self_check
    commit / documenter / leaf / none / docs
    progress / developer / leaf / none / working self_check
    progress / documenter / leaf / none / docs
    unclaim / developer / leaf / none / ready working>ready self_check>ready revision>ready
    unclaim / qa / leaf / none / qa
    unclaim / documenter / leaf / none / docs
    unclaim / pr_reviewer / cell root / none / gate
    i_am_blocked / developer / leaf / none / working self_check
    i_am_blocked / qa / leaf / none / qa
    i_am_blocked / documenter / leaf / none / docs
    resume / developer / leaf / paused agent / ready working self_check revision
    resume / qa / leaf / paused agent / qa
    resume / documenter / leaf / paused agent / docs
    resume / cell_pm / leaf cell / paused agent / ready working self_check qa docs gate pm_review revision
    resume / main_pm / all / paused agent / ready working self_check qa docs gate pm_review revision
    resume / ceo / all / paused agent, paused human / backlog ready working self_check qa docs gate pm_review ceo revision
    claim_review / qa / leaf / none / qa
    pass / qa / leaf / none / qa>docs
    fail / qa / leaf / none / qa>revision
    claim_doc_task / documenter / leaf / none / docs
    i_documented / documenter / leaf / none / docs>pm_review
    i_will_plan / cell_pm / cell / none / ready>working revision>working working
    i_will_plan / main_pm / root / none / ready>working revision>working working
    delegate / cell_pm / cell / none / working
    delegate / main_pm / root / none / working
    declare_coverage / cell_pm / cell / none / working
    declare_coverage / main_pm / root / none / working
    reassign / cell_pm / part / none / ready working self_check revision
    submit_up / cell_pm / cell / none / working>gate
    submit_root / main_pm / root / none / working>gate
    claim_gate_review / pr_reviewer / cell root / none / gate
    pr_pass / pr_reviewer / cell root / none / gate>pm_review
    pr_fail / pr_reviewer / cell root / none / gate>revision
    activate / cell_pm main_pm / part cell / none / backlog>ready
    activate / ceo / all / none / backlog>ready
    complete / cell_pm / leaf cell / none / pm_review>ceo
    complete / main_pm / root / none / pm_review>ceo
    request_changes / cell_pm / leaf cell / none / pm_review>revision
    request_changes / main_pm / root / none / pm_review>revision
    unblock / cell_pm / leaf cell / blocked cell_pm / ready working self_check qa docs gate pm_review revision
    unblock / main_pm / all / blocked cell_pm, blocked main_pm / ready working self_check qa docs gate pm_review revision
    unblock / ceo / all / blocked cell_pm, blocked main_pm, blocked human / backlog ready working self_check qa docs gate pm_review ceo revision
    escalate_up / cell_pm / leaf cell / none, blocked cell_pm / ready working self_check qa docs gate pm_review revision
    escalate_to_ceo / main_pm / all / none, blocked cell_pm, blocked main_pm / ready working self_check qa docs gate pm_review revision
    cancel / cell_pm / leaf cell / none, paused agent, blocked cell_pm / backlog>cancelled ready>cancelled working>cancelled self_check>cancelled qa>cancelled docs>cancelled gate>cancelled pm_review>cancelled revision>cancelled
    cancel / main_pm / all / none, paused agent, blocked cell_pm, blocked main_pm / backlog>cancelled ready>cancelled working>cancelled self_check>cancelled qa>cancelled docs>cancelled gate>cancelled pm_review>cancelled revision>cancelled
    cancel / ceo / all / any / backlog>cancelled ready>cancelled working>cancelled self_check>cancelled qa>cancelled docs>cancelled gate>cancelled pm_review>cancelled ceo>cancelled revision>cancelled
    note / developer qa documenter cell_pm / leaf cell / any / all
    note / main_pm product_owner head_marketing auditor pr_reviewer / all / any / all
    evidence / developer qa documenter cell_pm main_pm product_owner head_marketing auditor pr_reviewer / all / any / all
    approve / ceo / all / none / ceo>done
    reject / ceo / all / none / ceo>revision
    pause / ceo / all / none / backlog ready working self_check qa docs gate pm_review ceo revision
";

struct Move {
    verb: Verb,
    roles: Vec<Role>,
    shapes: Vec<&'static str>,
    holds: Vec<&'static str>,
    edges: Vec<(Stage, Stage)>,
}

fn moves() -> Vec<Move> {
    let read = |line: &'static str| {
        let parts: Vec<&str> = line.split('/').map(str::trim).collect();
        let edges = match parts[4] {
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
            shapes: parts[2].split_whitespace().collect(),
            holds: parts[3].split(',').map(str::trim).collect(),
            edges,
        }
    };
    MOVES.lines().map(str::trim).filter(|l| !l.is_empty()).map(read).collect()
}

fn is_of(word: &str, shape: Shape) -> bool {
    match word {
        "leaf" => matches!(shape, Shape::Leaf | Shape::StandaloneLeaf),
        "part" => shape == Shape::Leaf,
        "cell" => shape == Shape::CellParent,
        "root" => shape == Shape::Root,
        _ => word == "all",
    }
}

/// Where a call must lead, if it is legal at all.
fn wanted(moves: &[Move], role: Role, verb: Verb, shape: Shape, stage: Stage, hold: &str) -> Option<Stage> {
    let hold = if stage.is_terminal() { "none" } else { hold };
    let row = moves.iter().find(|m| {
        m.verb == verb
            && m.roles.contains(&role)
            && m.shapes.iter().any(|word| is_of(word, shape))
            && m.holds.iter().any(|h| *h == hold || *h == "any")
            && m.edges.iter().any(|e| e.0 == stage)
    })?;
    let to = row.edges.iter().find(|e| e.0 == stage).map(|e| e.1)?;
    // Work under a parent is merged by its PM; everything else is the CEO's to merge.
    let merges = verb == Verb::Complete && matches!(shape, Shape::Leaf | Shape::CellParent);
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
            for (role, slug) in speakers(prepared.shape) {
                let place = format!("{role} {verb} on a {} in {} held {}", prepared.shape, prepared.stage, prepared.hold);
                let wanted = wanted(&moves, role, *verb, prepared.shape, prepared.stage, prepared.hold);
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
