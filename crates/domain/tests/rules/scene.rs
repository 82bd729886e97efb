//! Prepared tasks, driven to a stage by the usual commands, and well-formed arguments for every verb.

use std::sync::Arc;

use roboco_domain::apply::Context;
use roboco_domain::command::{Body, SystemCommand};
use roboco_domain::event::Event;
use roboco_domain::id::{InboxNumber, TaskId};
use roboco_domain::inbox::{InboxItem, InboxKind};
use roboco_domain::roster::Roster;
use roboco_domain::spawn::Usage;
use roboco_domain::task::{GateVerdict, Hold, HoldReason, PausedBy, PausedRun, Resolver, Shape, Stage, Task};
use roboco_domain::verb::Verb;
use serde_json::{Map, Value, json};

use crate::world::{Logged, World};

/// Where a prepared task stands; finer than a stage, because a right may be held in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Backlog,
    Ready,
    Working,
    SelfCheck,
    /// Every part is done; the whole has not been handed in.
    Assembled,
    Qa,
    Gate,
    Reviewing,
    Docs,
    Documenting,
    PmReview,
    Ceo,
    Revision,
    Done,
    Cancelled,
}

impl Place {
    fn parse(word: &str) -> Self {
        match word {
            "backlog" => Self::Backlog,
            "ready" => Self::Ready,
            "working" => Self::Working,
            "self_check" => Self::SelfCheck,
            "assembled" => Self::Assembled,
            "gate" => Self::Gate,
            "qa" => Self::Qa,
            "reviewing" => Self::Reviewing,
            "docs" => Self::Docs,
            "documenting" => Self::Documenting,
            "pm_review" => Self::PmReview,
            "ceo" => Self::Ceo,
            "revision" => Self::Revision,
            "done" => Self::Done,
            "cancelled" => Self::Cancelled,
            other => panic!("no place {other}"),
        }
    }
}

/// `leaf in qa`, `child in pm_review`, `leaf in working held paused human`, `leaf in ready after T-1`.
pub(crate) fn given(world: &mut World, words: &[&str]) -> TaskId {
    let shape = match words.first() {
        Some(&"leaf") => Shape::StandaloneLeaf,
        Some(&"child") => Shape::Leaf,
        Some(&"cell") => Shape::CellParent,
        Some(&"root") => Shape::Root,
        other => panic!("no kind of task {other:?}"),
    };
    let after = |key: &str| words.iter().position(|w| *w == key).and_then(|n| words.get(n + 1)).copied();
    let depends_on: Vec<TaskId> =
        after("after").map(|n| *world.tasks.values().find(|t| t.number.to_string() == n).map(|t| &t.id).unwrap()).into_iter().collect();
    let place = Place::parse(after("in").unwrap());
    let task = prepared(world, shape, place, &depends_on);
    if let Some(n) = words.iter().position(|w| *w == "held") {
        put_hold(world, task, &words[n + 1..].join(" "));
    }
    task
}

/// The newest part of a root, put into the backlog or behind other tasks where that is wanted: no command of a scenario does it.
fn part_of(world: &mut World, root: TaskId, place: Place, depends_on: &[TaskId]) -> TaskId {
    let id = world.task(root).parts.last().unwrap().id;
    let mut task = Task::clone(world.task(id));
    if place == Place::Backlog {
        task.stage = Stage::Backlog;
    }
    task.depends_on = depends_on.to_vec();
    let logged = world.log.iter_mut().rev().find_map(|l| match &mut l.event {
        Event::TaskCreated { task: logged } if l.task == Some(id) => Some(logged),
        _ => None,
    });
    **logged.unwrap() = Task { version: 0, ..task.clone() };
    world.tasks.insert(id, Arc::new(task));
    id
}

/// A new task of the backend cell; in the backlog only when that is where it should be.
pub(crate) fn created(world: &mut World, shape: Shape, place: Place, depends_on: &[TaskId]) -> TaskId {
    if shape == Shape::CellParent {
        let root = created(world, Shape::Root, Place::Ready, &[]);
        step(world, root, "main-pm", Verb::IWillPlan, &[]);
        step(world, root, "main-pm", Verb::Delegate, &[]);
        end_runs(world);
        return part_of(world, root, place, depends_on);
    }
    let mut args = create_args();
    if shape == Shape::Root {
        args.insert("complexity".into(), "high".into());
        args.insert("cells".into(), json!(["backend"]));
    }
    args.insert("backlog".into(), (place == Place::Backlog).into());
    let ceo = world.ceo();
    let id = world.verb(ceo, Verb::CreateTask, None, Value::Object(args)).unwrap().task.unwrap();
    if shape == Shape::Leaf || !depends_on.is_empty() {
        // Work under a parent has no command yet, and no command resolves references here: the row is put as such a command would put it.
        let mut task = Task::clone(world.task(id));
        task.shape = shape;
        task.delivery.ceo_target = shape != Shape::Leaf;
        task.depends_on = depends_on.to_vec();
        if let Some(Logged { event: Event::TaskCreated { task: logged }, .. }) = world.log.last_mut() {
            **logged = Task { version: 0, ..task.clone() };
        }
        world.tasks.insert(id, Arc::new(task));
    }
    id
}

pub(crate) fn prepared(world: &mut World, shape: Shape, place: Place, depends_on: &[TaskId]) -> TaskId {
    let task = created(world, shape, place, depends_on);
    if matches!(place, Place::Backlog | Place::Ready) {
        return task;
    }
    if place == Place::Cancelled {
        step(world, task, "ceo", Verb::Cancel, &[]);
        return task;
    }
    if shape.is_assembled() { assembled(world, task, place) } else { delivered(world, task, place) }
}

/// A part that its PM gave out, delivered to its end.
pub(crate) fn finish(world: &mut World, task: TaskId) {
    if world.task(task).shape.is_assembled() {
        assembled(world, task, Place::Done);
    } else {
        delivered(world, task, Place::Done);
    }
}

/// Drives assembled work to a place, with one part that covers everything.
fn assembled(world: &mut World, task: TaskId, place: Place) -> TaskId {
    let (pm, reviewer) = match world.task(task).shape {
        Shape::Root => ("main-pm", "pr-reviewer-1"),
        _ => ("be-pm", "be-pr-reviewer"),
    };
    step(world, task, pm, Verb::IWillPlan, &[]);
    if place == Place::Working {
        return task;
    }
    step(world, task, pm, Verb::Delegate, &[]);
    end_runs(world);
    let part = world.task(task).parts[0].id;
    finish(world, part);
    if place == Place::Assembled {
        return task;
    }
    step(world, task, pm, if pm == "main-pm" { Verb::SubmitRoot } else { Verb::SubmitUp }, &[]);
    end_runs(world);
    if place == Place::Gate {
        return task;
    }
    step(world, task, reviewer, Verb::ClaimGateReview, &[]);
    match place {
        Place::Reviewing => return task,
        Place::Revision => step(world, task, reviewer, Verb::PrFail, &[]),
        _ => step(world, task, reviewer, Verb::PrPass, &[]),
    }
    end_runs(world);
    if matches!(place, Place::Revision | Place::PmReview) {
        return task;
    }
    step(world, task, pm, Verb::Complete, &[]);
    if place == Place::Done && pm == "main-pm" {
        step(world, task, "ceo", Verb::Approve, &[]);
    }
    end_runs(world);
    if pm == "be-pm" && place == Place::Ceo {
        put_before_ceo(world, task);
    }
    task
}

/// Drives a leaf to a place.
fn delivered(world: &mut World, task: TaskId, place: Place) -> TaskId {
    let shape = world.task(task).shape;
    let mut go = |slug: &str, verb: Verb, words: &[&str]| step(world, task, slug, verb, words);
    go("be-dev-1", Verb::IWillWorkOn, &[]);
    go("be-dev-1", Verb::Commit, &[]);
    go("be-dev-1", Verb::OpenPr, &[]);
    if place == Place::Working {
        return task;
    }
    if place == Place::SelfCheck {
        let red = roboco_domain::effect::EffectResult::Gate { verdict: GateVerdict::Failed, summary: "test: failed".into(), tail: None };
        world.git.entry("run_gate").or_default().push(red);
        let dev = world.agent("be-dev-1", task);
        let args = args(Verb::IAmDone, world.task(task), &[]);
        assert!(world.call(dev, Verb::IAmDone, Some(task), args).is_err());
        return task;
    }
    go("be-dev-1", Verb::IAmDone, &[]);
    end_runs(world);
    if place == Place::Qa {
        return task;
    }
    let mut go = |slug: &str, verb: Verb, words: &[&str]| step(world, task, slug, verb, words);
    go("be-qa", Verb::ClaimReview, &[]);
    match place {
        Place::Reviewing => return task,
        Place::Revision => go("be-qa", Verb::Fail, &[]),
        _ => go("be-qa", Verb::Pass, &[]),
    }
    end_runs(world);
    if matches!(place, Place::Docs | Place::Revision) {
        return task;
    }
    let mut go = |slug: &str, verb: Verb, words: &[&str]| step(world, task, slug, verb, words);
    go("be-doc", Verb::ClaimDocTask, &[]);
    if place == Place::Documenting {
        return task;
    }
    go("be-doc", Verb::Commit, &[]);
    go("be-doc", Verb::IDocumented, &[]);
    end_runs(world);
    let mut go = |slug: &str, verb: Verb, words: &[&str]| step(world, task, slug, verb, words);
    if place == Place::PmReview {
        return task;
    }
    go("be-pm", Verb::Complete, &[]);
    if place == Place::Done && shape == Shape::StandaloneLeaf {
        go("ceo", Verb::Approve, &[]);
    }
    end_runs(world);
    if shape == Shape::Leaf && place == Place::Ceo {
        put_before_ceo(world, task);
    }
    task
}

/// Work under a parent never comes to the CEO; only its row can be put there.
fn put_before_ceo(world: &mut World, task: TaskId) {
    let mut row = Task::clone(world.task(task));
    row.stage = Stage::Ceo;
    row.hold = None;
    row.delivery.merged = None;
    row.ended_at = None;
    world.tasks.insert(task, Arc::new(row));
    ask_ceo(world, task);
}

fn step(world: &mut World, task: TaskId, slug: &str, verb: Verb, words: &[&str]) {
    let actor = if slug == "ceo" { world.ceo() } else { world.agent(slug, task) };
    let args = args(verb, world.task(task), words);
    world.call(actor, verb, Some(task), args).unwrap_or_else(|r| panic!("{slug} {verb} was refused: {r:?}"));
}

/// Ends every run in an orderly way.
pub(crate) fn end_runs(world: &mut World) {
    let live: Vec<_> = world.seats.values().filter_map(|s| s.spawn).collect();
    for spawn in live {
        let verb = world.spawns[&spawn].closed_by.map_or_else(|| "i_am_done".to_owned(), |v| v.to_string());
        let outcome = roboco_domain::outcome::Outcome::Completed { verb };
        let ended = SystemCommand::SpawnEnded { spawn, outcome, usage: Usage::default() };
        world.send(world.system(), Body::System(ended)).unwrap();
    }
}

/// Holds a task as its row would be after the commands that lead there.
pub(crate) fn put_hold(world: &mut World, task: TaskId, words: &str) {
    let since = world.now;
    let blocked = |resolver| Hold::Blocked {
        reason: HoldReason::Blocked,
        text: "the fixture server is down".into(),
        needs: None,
        raised_by: None,
        resolver,
        since,
    };
    let hold = match words {
        "none" => return,
        "paused agent" => Hold::Paused { by: PausedBy::Agent, since, run: PausedRun::EndsTurn },
        "paused human" => Hold::Paused { by: PausedBy::Human, since, run: PausedRun::EndsTurn },
        "blocked cell_pm" => blocked(Resolver::CellPm),
        "blocked main_pm" => blocked(Resolver::MainPm),
        "blocked human" => blocked(Resolver::Human),
        "budget" => Hold::Budget { scope: "the task".into(), since },
        other => panic!("no hold {other}"),
    };
    if words == "blocked human" && world.task(task).stage != Stage::Ceo {
        ask_ceo(world, task);
    }
    let cx = Context { actor: world.system().agent(), at: world.now };
    let event = Event::TaskHeld { hold };
    let held = roboco_domain::apply::apply_to_task(Some(Task::clone(world.task(task))), &event, cx).unwrap();
    world.log.push(Logged { task: Some(task), event, cx });
    world.tasks.insert(task, Arc::new(held));
}

fn ask_ceo(world: &mut World, task: TaskId) {
    let number = InboxNumber(world.inbox.len() as u64 + 1);
    let opened_at = world.now;
    world.inbox.push(InboxItem {
        number,
        version: 1,
        kind: InboxKind::Wait,
        task,
        text: "it waits for you".into(),
        opened_at,
        decision: None,
        decided_at: None,
    });
}

/// Lets people go; the cell keeps its seats by hiring successors at the same time.
pub(crate) fn retire(world: &mut World, slugs: &[&str]) {
    let mut text = include_str!("../../../../company/roster.toml").to_owned();
    for slug in slugs {
        let line = text.lines().find(|l| l.contains(&format!("slug = \"{slug}\""))).unwrap().to_owned();
        let id = line.split("id = \"").nth(1).and_then(|r| r.split('"').next()).unwrap().to_owned();
        let successor = line.replace(&format!("\"{slug}\""), &format!("\"{slug}-new\"")).replace(&format!("id = \"{id}\", "), "");
        let gone = line.replace(" }", ", retired = true }");
        text = text.replace(&line, &format!("{gone}\n{successor}"));
    }
    world.roster = Arc::new(Roster::parse(world.task(*world.tasks.keys().next().unwrap()).company, &text).unwrap());
}

pub(crate) fn create_args() -> Map<String, Value> {
    let args = json!({
        "project": "greeter",
        "title": "Greet several people at once",
        "description": "The greeter should accept several names and greet all of them in one sentence.",
        "criteria": ["two names are joined with and", "an empty list greets the world"],
        "type": "code",
        "nature": "technical",
        "complexity": "low",
    });
    match args {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Well-formed arguments of a verb for a task, then changed: `key=json`, `key=word`, `key=` to leave it out,
/// `criteria=C1` to speak of that criterion alone, `findings=minor` for one finding of that weight.
pub(crate) fn args(verb: Verb, task: &Task, words: &[&str]) -> Value {
    let mut args = match usual(verb, task) {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    for word in words {
        let Some((key, value)) = word.split_once('=') else { panic!("no argument {word}") };
        let value = value.replace('_', " ");
        match (key, value.as_str()) {
            (_, "") => {
                args.remove(key);
            }
            ("criteria", id) if !id.starts_with('[') => {
                let key = if verb == Verb::Pass { "criteria_verified" } else { "criteria" };
                if let Some(Value::Array(rows)) = args.get_mut(key) {
                    rows.retain(|r| r["id"] == id || r["criterion"] == id);
                }
            }
            ("findings", severities) if Verb::parse_severity(severities) => {
                let rows = severities.split('+').enumerate().map(|(n, s)| finding(s, n)).collect();
                args.insert("findings".into(), Value::Array(rows));
            }
            (key, text) => {
                let raw = word.split_once('=').map(|(_, v)| v).unwrap_or_default();
                let value = serde_json::from_str(raw).unwrap_or_else(|_| Value::String(text.to_owned()));
                args.insert(key.to_owned(), value);
            }
        }
    }
    Value::Object(args)
}

trait SeverityWords {
    fn parse_severity(text: &str) -> bool;
}

impl SeverityWords for Verb {
    fn parse_severity(text: &str) -> bool {
        text.split('+').all(|s| s.parse::<roboco_domain::finding::Severity>().is_ok())
    }
}

fn finding(severity: &str, n: usize) -> Value {
    json!({ "severity": severity, "expected": format!("names are joined, case {n}"), "actual": "the second name is lost", "file": "src/greet.rs" })
}

fn usual(verb: Verb, task: &Task) -> Value {
    let id = task.number.to_string();
    let ids: Vec<String> = task.criteria.iter().map(|c| c.id.to_string()).collect();
    match verb {
        Verb::GiveMeWork | Verb::IAmIdle => json!({}),
        Verb::IWillWorkOn => json!({
            "task_id": id,
            "plan": "join the names before greeting",
            "steps": [{ "title": "join", "description": "join the names with commas and and" }],
        }),
        Verb::IWillPlan => json!({
            "task_id": id,
            "plan": "one part for the backend",
            "steps": [{ "title": "backend", "description": "the backend joins the names" }],
        }),
        Verb::Delegate => {
            let root = task.shape == Shape::Root;
            let mut args = create_args();
            args.remove("project");
            args.extend([
                ("parent_task_id".to_owned(), id.into()),
                ("assigned_to".to_owned(), if root { "be-pm" } else { "be-dev-1" }.into()),
                ("type".to_owned(), if root { "planning" } else { "code" }.into()),
                ("covers".to_owned(), ids.into()),
                ("touches".to_owned(), json!(["src/**"])),
                ("title".to_owned(), format!("Join the names, part {}", task.parts.len() + 1).into()),
            ]);
            Value::Object(args)
        }
        Verb::DeclareCoverage => json!({ "task_id": id, "criteria": [ids.first()], "reason": "it is checked when the whole is assembled" }),
        Verb::Reassign => json!({ "task_id": id, "to": "be-dev-2", "reason": "be-dev-1 has too much to do" }),
        Verb::SubmitUp | Verb::SubmitRoot => json!({
            "task_id": id,
            "notes": "every part is in",
            "resolved_findings": task.open_findings().map(|f| json!({ "finding_id": f.id.to_string(), "note": "mended" })).collect::<Vec<_>>(),
        }),
        Verb::PrPass => json!({ "task_id": id, "notes": "the parts fit together" }),
        Verb::PrFail => json!({ "task_id": id, "findings": [finding("major", 0)], "notes": "the parts do not fit" }),
        Verb::ClaimGateReview
        | Verb::OpenPr
        | Verb::SyncBranch
        | Verb::Unclaim
        | Verb::Resume
        | Verb::ClaimReview
        | Verb::ClaimDocTask
        | Verb::Activate
        | Verb::Pause
        | Verb::Evidence
        | Verb::Approve => json!({ "task_id": id }),
        Verb::IAmDone => json!({
            "task_id": id,
            "notes": "names are joined",
            "criteria": ids.iter().map(|c| json!({ "id": c, "evidence": "test:joins_names" })).collect::<Vec<_>>(),
            "resolved_findings": task.open_findings().map(|f| json!({ "finding_id": f.id.to_string(), "note": "mended" })).collect::<Vec<_>>(),
        }),
        Verb::Pass => json!({
            "task_id": id,
            "notes": "it does what was asked",
            "criteria_verified": ids.iter().map(|c| json!({ "criterion": c, "evidence": "ran the tests" })).collect::<Vec<_>>(),
        }),
        Verb::Fail => json!({ "task_id": id, "findings": [finding("major", 0)], "notes": "one thing is wrong" }),
        Verb::RequestChanges => json!({ "task_id": id, "findings": [finding("major", 0)] }),
        Verb::IDocumented => json!({ "task_id": id, "files": ["docs/greet.md"], "notes": "usage is described" }),
        Verb::Complete => json!({ "task_id": id, "notes": "every criterion is met" }),
        Verb::IAmBlocked | Verb::Unblock | Verb::EscalateUp | Verb::EscalateToCeo | Verb::Cancel | Verb::Reject => {
            json!({ "task_id": id, "reason": "the fixture server is down" })
        }
        Verb::Commit => json!({ "message": "feat(greet): join several names" }),
        Verb::Note => json!({ "text": "the names come sorted", "task_id": id }),
        Verb::Progress => json!({ "task_id": id, "message": "joining works" }),
        Verb::CreateTask => Value::Object(create_args()),
    }
}
