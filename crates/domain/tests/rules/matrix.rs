//! Who may call what, where, under which hold: really called with well-formed arguments on prepared tasks, for every combination.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use roboco_domain::command::{Body, SystemCommand};
use roboco_domain::decide::standard_rules;
use roboco_domain::id::TaskId;
use roboco_domain::rejection::Kind;
use roboco_domain::role::Role;
use roboco_domain::rules::{RuleSet, verbs_for};
use roboco_domain::task::{Shape, Stage, Task};
use roboco_domain::verb::Verb;

use crate::scene::{self, Place};
use crate::script::hold_words;
use crate::world::{Origin, World};

pub(crate) const SHAPES: &[Shape] = &[Shape::StandaloneLeaf, Shape::Leaf, Shape::CellParent, Shape::Root];
pub(crate) const HOLDS: &[&str] =
    &["none", "paused agent", "paused human", "blocked cell_pm", "blocked main_pm", "blocked human", "budget"];

/// Who speaks for a role; the task belongs to the backend cell and to these agents.
pub(crate) const SPEAKERS: &[(Role, &str)] = &[
    (Role::Developer, "be-dev-1"),
    (Role::Qa, "be-qa"),
    (Role::Documenter, "be-doc"),
    (Role::CellPm, "be-pm"),
    (Role::MainPm, "main-pm"),
    (Role::ProductOwner, "product-owner"),
    (Role::HeadMarketing, "head-marketing"),
    (Role::Auditor, "auditor"),
    (Role::PrReviewer, "be-pr-reviewer"),
    (Role::Prompter, "intake-1"),
    (Role::Secretary, "secretary-1"),
    (Role::Ceo, "ceo"),
    (Role::System, "system"),
];

/// Who speaks for a role about a task of this shape.
pub(crate) fn speakers(shape: Shape) -> impl Iterator<Item = (Role, &'static str)> {
    let reviewer = if shape == Shape::Root { "pr-reviewer-1" } else { "be-pr-reviewer" };
    SPEAKERS.iter().map(move |(role, slug)| (*role, if *role == Role::PrReviewer { reviewer } else { *slug }))
}

/// A task in a stage under a hold, in the hands of whoever works there.
pub(crate) struct Prepared {
    pub(crate) shape: Shape,
    pub(crate) stage: Stage,
    pub(crate) hold: &'static str,
    pub(crate) world: World,
    pub(crate) task: TaskId,
}

pub(crate) static PREPARED: LazyLock<Vec<Prepared>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for shape in SHAPES {
        for stage in Stage::ALL {
            for hold in HOLDS {
                let (world, task) = at(*shape, *stage, hold);
                all.push(Prepared { shape: *shape, stage: *stage, hold, world, task });
            }
        }
    }
    all
});

fn at(shape: Shape, stage: Stage, hold: &str) -> (World, TaskId) {
    let whole = shape.is_assembled();
    let place = match stage {
        Stage::Ready if whole => Place::Ready,
        Stage::Working if whole => Place::Assembled,
        Stage::SelfCheck | Stage::Qa | Stage::Docs if whole => Place::Assembled,
        Stage::Gate if whole => Place::Reviewing,
        Stage::Backlog => Place::Backlog,
        Stage::Ready | Stage::Working => Place::Working,
        Stage::SelfCheck => Place::SelfCheck,
        Stage::Qa => Place::Reviewing,
        Stage::Docs => Place::Documenting,
        Stage::Gate | Stage::PmReview => Place::PmReview,
        Stage::Ceo => Place::Ceo,
        Stage::Revision => Place::Revision,
        Stage::Done => Place::Done,
        Stage::Cancelled => Place::Cancelled,
    };
    let mut world = World::new();
    let task = scene::prepared(&mut world, shape, place, &[]);
    if stage == Stage::Ready && !whole {
        // Given back with its owner kept, so that everything an owner may do with it can be tried.
        world.wait(Duration::from_secs(601));
        world.send(world.system(), Body::System(SystemCommand::ExpireLease { task })).unwrap();
    }
    if world.task(task).stage != stage {
        // No command brings such a task here; only its row can be put there.
        let mut row = Task::clone(world.task(task));
        row.stage = stage;
        world.tasks.insert(task, Arc::new(row));
    }
    if !stage.is_terminal() {
        scene::put_hold(&mut world, task, hold);
    }
    assert_eq!(world.task(task).stage, stage);
    world.origin = Origin::Put;
    (world, task)
}

/// What a call comes to: the stage and hold it leaves, or the kind of its refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    Accepted(Stage, String),
    Refused(Kind),
}

/// Calls a verb on a copy of a prepared task.
pub(crate) fn call(rules: &Arc<RuleSet>, prepared: &Prepared, slug: &str, verb: Verb) -> Cell {
    let mut world = prepared.world.clone();
    world.rules = Arc::clone(rules);
    let actor = match slug {
        "ceo" => world.ceo(),
        "system" => world.system(),
        _ => world.agent(slug, prepared.task),
    };
    let args = scene::args(verb, world.task(prepared.task), &[]);
    match world.call(actor, verb, Some(prepared.task), args) {
        Ok(_) => {
            let task = world.task(prepared.task);
            Cell::Accepted(task.stage, hold_words(task.hold.as_ref()))
        }
        Err(rejection) => Cell::Refused(rejection.kind),
    }
}

fn standard() -> Arc<RuleSet> {
    Arc::new(standard_rules().clone())
}

fn word(cell: &Cell, before: &Prepared) -> String {
    let held = if before.stage.is_terminal() { "none" } else { before.hold };
    match cell {
        Cell::Accepted(stage, hold) if hold == held => format!("+ {stage}"),
        Cell::Accepted(stage, hold) => format!("+ {stage}, hold {hold}"),
        Cell::Refused(kind) => kind.to_string(),
    }
}

/// What a role's call comes to, by shape where that makes a difference.
fn by_shape(shapes: &[Vec<String>], role: usize) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (shape, cells) in SHAPES.iter().zip(shapes) {
        match groups.iter_mut().find(|(cell, _)| *cell == cells[role]) {
            Some((_, names)) => names.push(shape.as_str()),
            None => groups.push((&cells[role], vec![shape.as_str()])),
        }
    }
    match groups.as_slice() {
        [(same, _)] => (*same).to_owned(),
        many => many.iter().map(|(cell, names)| format!("{cell} ({})", names.join(" "))).collect::<Vec<_>>().join(", "),
    }
}

#[test]
fn the_matrix_of_roles_verbs_stages_and_holds() {
    let rules = standard();
    let mut text = String::new();
    for verb in Verb::ALL {
        let roles: Vec<Role> = SPEAKERS.iter().map(|(role, _)| *role).filter(|role| rules.grants(*verb, *role)).collect();
        writeln!(text, "# {verb}").unwrap();
        let mut rows: BTreeMap<(usize, usize), Vec<Vec<String>>> = BTreeMap::new();
        for prepared in PREPARED.iter() {
            let key =
                (Stage::ALL.iter().position(|s| *s == prepared.stage).unwrap(), HOLDS.iter().position(|h| *h == prepared.hold).unwrap());
            if prepared.stage.is_terminal() && prepared.hold != "none" {
                continue;
            }
            let cells = speakers(prepared.shape)
                .filter(|(role, _)| rules.grants(*verb, *role))
                .map(|(_, slug)| word(&call(&rules, prepared, slug, *verb), prepared))
                .collect();
            rows.entry(key).or_default().push(cells);
        }
        for ((stage, hold), shapes) in rows {
            let cells: Vec<String> = roles.iter().enumerate().map(|(n, role)| format!("{role}: {}", by_shape(&shapes, n))).collect();
            let hold = if HOLDS[hold] == "none" { String::new() } else { format!(" {}", HOLDS[hold]) };
            writeln!(text, "{}{hold} | {}", Stage::ALL[stage], cells.join(" | ")).unwrap();
        }
    }
    if text != include_str!("matrix.txt") {
        let seen = concat!(env!("CARGO_TARGET_TMPDIR"), "/matrix.txt");
        std::fs::write(seen, text).unwrap();
        panic!("the matrix has changed: read the difference between matrix.txt and {seen}, and copy it over if it is meant");
    }
}

#[test]
fn roles_without_a_row_are_refused_everywhere() {
    let rules = standard();
    for prepared in PREPARED.iter().filter(|p| p.hold == "none") {
        for (role, slug) in speakers(prepared.shape) {
            for verb in Verb::ALL.iter().filter(|v| !rules.grants(**v, role)) {
                let cell = call(&rules, prepared, slug, *verb);
                assert_eq!(cell, Cell::Refused(Kind::NotAuthorized), "{role} {verb} in {}", prepared.stage);
            }
        }
    }
}

#[test]
fn offered_verbs_are_the_accepted_ones() {
    let rules = standard();
    for prepared in PREPARED.iter() {
        let task = prepared.world.task(prepared.task);
        for (role, slug) in speakers(prepared.shape) {
            let offered = verbs_for(&rules, role, task);
            for verb in rules.granted(role).into_iter().filter(|v| *v != Verb::IAmIdle) {
                let place = format!("{role} {verb} in {} {}", prepared.stage, prepared.hold);
                match call(&rules, prepared, slug, verb) {
                    Cell::Accepted(..) => assert!(offered.contains(&verb), "{place} is accepted and not offered"),
                    // Only the order of things may stand against an offer: a hold that another lifts, or that cannot grow.
                    Cell::Refused(kind) if offered.contains(&verb) => {
                        let about_holds =
                            matches!(verb, Verb::Unblock | Verb::Resume | Verb::EscalateUp | Verb::EscalateToCeo | Verb::Cancel);
                        assert!(kind == Kind::InvalidState && about_holds, "{place} is offered and refused as {kind}");
                    }
                    Cell::Refused(_) => {}
                }
            }
        }
    }
}
