//! The dispatch plan: what starts, what stops, why the rest waits, and that agents who achieve nothing do not run for ever.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use roboco_domain::assembly::{Standing, standing};
use roboco_domain::command::Actor;
use roboco_domain::command::{Body, SystemCommand};
use roboco_domain::id::{SpawnId, TaskId};
use roboco_domain::known::Known;
use roboco_domain::next::{NextActor, Wait, next_actor};
use roboco_domain::outcome::Outcome;
use roboco_domain::plan::{Manner, PAUSE_GRACE, Plan, PlanInput, Policy, plan};
use roboco_domain::role::Role;
use roboco_domain::spawn::{Spawn, SpawnState};
use roboco_domain::task::{Hold, Resolver, Shape, Stage, Task, TaskBrief};
use roboco_domain::time::Timestamp;
use roboco_domain::verb::Verb;
use serde_json::Value;

use crate::scene::{self, Place};
use crate::world::World;

fn policy() -> Policy {
    Policy { max_spawns: 8, default_provider: "scripted".into(), ..Policy::default() }
}

fn planned(world: &World, policy: &Policy) -> Plan {
    let tasks: Vec<Arc<Task>> = world.tasks.values().filter(|t| !t.stage.is_terminal()).cloned().collect();
    let spawns: Vec<Spawn> = world.spawns.values().filter(|s| s.state != SpawnState::Ended).cloned().collect();
    plan(&PlanInput { now: world.now, roster: &world.roster, tasks: &tasks, spawns: &spawns, policy })
}

/// The plan in words: `T-1 be-dev-1 i_will_work_on`, `T-2 waits: …`.
fn words(world: &World, plan: &Plan) -> Vec<String> {
    let number = |id: &TaskId| world.task(*id).number.to_string();
    let starts = plan.start.iter().map(|s| format!("{} {} {}", number(&s.task), world.roster.slug(s.agent), s.verb));
    let stops = plan.stop.iter().map(|(id, stop)| {
        let when = if stop.manner == Manner::AfterTurn { " after its turn" } else { "" };
        format!("stop {}{when}: {stop}", world.roster.slug(world.spawns[id].agent))
    });
    let expired = plan.expire.iter().map(|id| format!("{} expires", number(id)));
    let waits = plan.waiting.iter().map(|(id, wait)| format!("{} waits: {wait}", number(id)));
    starts.chain(stops).chain(expired).chain(waits).collect()
}

fn leaf(world: &mut World, place: Place) -> TaskId {
    scene::prepared(world, Shape::StandaloneLeaf, place, &[])
}

fn change(world: &mut World, task: TaskId, change: impl FnOnce(&mut Task)) {
    let mut row = Task::clone(world.task(task));
    change(&mut row);
    world.tasks.insert(task, Arc::new(row));
}

/// Starts what the plan says and returns its runs.
fn obey(world: &mut World, plan: &Plan) -> Vec<SpawnId> {
    let starts = plan.start.iter().map(|s| (world.roster.slug(s.agent), s.task, s.verb)).collect::<Vec<_>>();
    starts.into_iter().map(|(slug, task, verb)| world.start(&slug, task, verb).expect("what is planned can be started")).collect()
}

#[test]
fn the_most_urgent_then_the_oldest_starts_first() {
    let mut world = World::new();
    let tasks: Vec<TaskId> = (0..4).map(|_| leaf(&mut world, Place::Ready)).collect();
    change(&mut world, tasks[2], |t| t.priority = 0);
    change(&mut world, tasks[1], |t| t.stage_since = Timestamp::from_millis(5));
    let narrow = Policy { max_spawns: 1, ..policy() };
    assert_eq!(
        words(&world, &planned(&world, &narrow)),
        [
            "T-3 be-dev-1 i_will_work_on",
            "T-2 waits: as many agents run as may",
            "T-1 waits: as many agents run as may",
            "T-4 waits: as many agents run as may",
        ]
    );
    let wide = planned(&world, &policy());
    assert_eq!(
        words(&world, &wide),
        [
            "T-3 be-dev-1 i_will_work_on",
            "T-2 be-dev-2 i_will_work_on",
            "T-1 waits: every fitting agent is busy",
            "T-4 waits: every fitting agent is busy",
        ]
    );
    obey(&mut world, &wide);
    assert_eq!(
        words(&world, &planned(&world, &policy())),
        ["T-1 waits: every fitting agent is busy", "T-4 waits: every fitting agent is busy"]
    );
}

#[test]
fn a_seat_runs_once_and_other_seats_go_on() {
    let mut world = World::new();
    leaf(&mut world, Place::Qa);
    leaf(&mut world, Place::Qa);
    leaf(&mut world, Place::PmReview);
    leaf(&mut world, Place::Ceo);
    leaf(&mut world, Place::Done);
    assert_eq!(
        words(&world, &planned(&world, &policy())),
        ["T-1 be-qa claim_review", "T-3 be-pm complete", "T-2 waits: every fitting agent is busy"]
    );
}

#[test]
fn a_parked_provider_waits_and_another_one_is_used() {
    let mut world = World::new();
    leaf(&mut world, Place::Ready);
    let until = world.now.after(Duration::from_secs(90));
    let mut parked = Policy { parked: BTreeMap::from([("scripted".to_owned(), until)]), ..policy() };
    let told = planned(&world, &parked);
    assert_eq!(words(&world, &told), ["T-1 waits: provider scripted refuses for now"]);
    assert_eq!(told.next_look, Some(until));
    parked.routes.insert(world.id_of("be-dev-2"), "another".into());
    assert_eq!(words(&world, &planned(&world, &parked)), ["T-1 be-dev-2 i_will_work_on"]);
    world.wait(Duration::from_secs(90));
    parked.routes.clear();
    assert_eq!(words(&world, &planned(&world, &parked)), ["T-1 be-dev-1 i_will_work_on"]);
}

#[test]
fn a_poisonous_task_cools_down_while_others_start() {
    let mut world = World::new();
    let poison = leaf(&mut world, Place::Ready);
    leaf(&mut world, Place::Ready);
    change(&mut world, poison, |t| t.priority = 0);
    let run = world.start("be-dev-1", poison, Verb::IWillWorkOn).unwrap();
    world.end_run(run, Outcome::Crashed { code: Some(1), detail: "it fell over".into() });
    let told = planned(&world, &policy());
    assert_eq!(words(&world, &told), ["T-2 be-dev-1 i_will_work_on", "T-1 waits: cools down after runs without a result"]);
    assert_eq!(told.next_look, world.task(poison).meter.not_before);
    world.wait(Duration::from_secs(10));
    assert_eq!(words(&world, &planned(&world, &policy())), ["T-1 be-dev-1 i_will_work_on", "T-2 be-dev-2 i_will_work_on"]);
}

#[test]
fn prerequisites_hold_their_dependents() {
    let mut world = World::new();
    let first = leaf(&mut world, Place::Working);
    scene::end_runs(&mut world);
    scene::prepared(&mut world, Shape::StandaloneLeaf, Place::Ready, &[first]);
    assert_eq!(words(&world, &planned(&world, &policy())), ["T-1 be-dev-1 i_will_work_on", "T-2 waits: waits for T-1"]);
    let ceo = world.ceo();
    world.call(ceo, Verb::Cancel, Some(first), scene::args(Verb::Cancel, world.task(first), &[])).unwrap();
    assert_eq!(words(&world, &planned(&world, &policy())), ["T-2 be-dev-1 i_will_work_on"]);
}

#[test]
fn runs_of_held_and_ended_tasks_are_stopped() {
    for (hold, why) in
        [("paused human", "its task was paused"), ("blocked cell_pm", "its task is blocked"), ("budget", "its task is over its budget")]
    {
        let mut world = World::new();
        let task = leaf(&mut world, Place::Working);
        scene::put_hold(&mut world, task, hold);
        world.wait(PAUSE_GRACE);
        let told = words(&world, &planned(&world, &policy()));
        assert!(told.contains(&format!("stop be-dev-1: {why}")), "{told:?}");
        assert_eq!(told.iter().any(|w| w == "T-1 be-pm unblock"), hold == "blocked cell_pm", "{told:?}");
    }
    let mut world = World::new();
    let task = leaf(&mut world, Place::Working);
    let ceo = world.ceo();
    world.call(ceo, Verb::Cancel, Some(task), scene::args(Verb::Cancel, world.task(task), &[])).unwrap();
    assert_eq!(words(&world, &planned(&world, &policy())), ["stop be-dev-1: its task has ended"]);
}

#[test]
fn a_paused_run_may_end_its_turn_for_a_minute() {
    let mut world = World::new();
    let task = leaf(&mut world, Place::Working);
    let (ceo, dev) = (world.ceo(), world.agent("be-dev-1", task));
    world.call(ceo, Verb::Pause, Some(task), scene::args(Verb::Pause, world.task(task), &[])).unwrap();
    let since = world.task(task).hold.as_ref().unwrap().since();
    let deadline = since.after(PAUSE_GRACE);
    for (after, manner) in [(0, " after its turn"), (59_999, " after its turn"), (60_000, ""), (3_600_000, "")] {
        world.now = since.after(Duration::from_millis(after));
        let told = planned(&world, &policy());
        assert_eq!(words(&world, &told), [format!("stop be-dev-1{manner}: its task was paused")], "{after}");
        assert_eq!(told.next_look, Some(deadline).filter(|at| *at > world.now), "it is looked at again when its time is over");
        for verb in [Verb::Commit, Verb::IAmDone, Verb::Resume] {
            let args = scene::args(verb, world.task(task), &[]);
            world.call(dev.clone(), verb, Some(task), args).expect_err("a paused run was heard");
        }
    }
}

#[test]
fn a_pause_that_must_be_now_waits_for_no_turn() {
    for (now, manner) in [(None, " after its turn"), (Some(false), " after its turn"), (Some(true), "")] {
        let mut world = World::new();
        let task = leaf(&mut world, Place::Working);
        let (ceo, mut args) = (world.ceo(), scene::args(Verb::Pause, world.task(task), &[]));
        args.as_object_mut().unwrap().extend(now.map(|now| ("now".to_owned(), now.into())));
        world.call(ceo, Verb::Pause, Some(task), args).unwrap();
        assert_eq!(words(&world, &planned(&world, &policy())), [format!("stop be-dev-1{manner}: its task was paused")], "{now:?}");
    }
}

#[test]
fn a_pause_that_is_lifted_in_time_stops_nothing() {
    let mut world = World::new();
    let task = leaf(&mut world, Place::Working);
    let ceo = world.ceo();
    for verb in [Verb::Pause, Verb::Resume] {
        world.call(ceo.clone(), verb, Some(task), scene::args(verb, world.task(task), &[])).unwrap();
        world.wait(PAUSE_GRACE / 2);
    }
    assert_eq!(words(&world, &planned(&world, &policy())), Vec::<String>::new());
    // A second pause gives a whole minute again.
    world.call(ceo, Verb::Pause, Some(task), scene::args(Verb::Pause, world.task(task), &[])).unwrap();
    world.wait(PAUSE_GRACE * 9 / 10);
    assert_eq!(words(&world, &planned(&world, &policy())), ["stop be-dev-1 after its turn: its task was paused"]);
}

#[test]
fn a_run_that_lifted_a_hold_is_stopped_by_the_next_one() {
    for (first, verb, next, expected) in [
        ("paused agent", Verb::Resume, "paused human", "stop be-dev-1 after its turn: its task was paused"),
        ("paused agent", Verb::Resume, "blocked human", "stop be-dev-1: its task is blocked"),
        ("paused agent", Verb::Resume, "budget", "stop be-dev-1: its task is over its budget"),
    ] {
        let mut world = World::new();
        let task = leaf(&mut world, Place::Working);
        scene::end_runs(&mut world);
        scene::put_hold(&mut world, task, first);
        world.start("be-dev-1", task, verb).unwrap();
        assert!(planned(&world, &policy()).stop.is_empty(), "it was started to lift {first}");
        let dev = world.agent("be-dev-1", task);
        world.call(dev, verb, Some(task), scene::args(verb, world.task(task), &[])).unwrap();
        assert!(planned(&world, &policy()).stop.is_empty(), "it goes on");
        scene::put_hold(&mut world, task, next);
        assert!(words(&world, &planned(&world, &policy())).contains(&expected.to_owned()), "{next}");
    }
}

#[test]
fn whoever_lifts_a_hold_is_left_to_do_it() {
    let mut world = World::new();
    let task = leaf(&mut world, Place::Qa);
    scene::put_hold(&mut world, task, "blocked cell_pm");
    let told = planned(&world, &policy());
    assert_eq!(words(&world, &told), ["T-1 be-pm unblock"]);
    obey(&mut world, &told);
    assert_eq!(words(&world, &planned(&world, &policy())), Vec::<String>::new());
}

#[test]
fn a_closed_run_keeps_its_seat_and_not_the_task() {
    let mut world = World::new();
    let task = leaf(&mut world, Place::Working);
    let args = scene::args(Verb::IAmDone, world.task(task), &[]);
    let dev = world.agent("be-dev-1", task);
    world.call(dev, Verb::IAmDone, Some(task), args).unwrap();
    assert_eq!(words(&world, &planned(&world, &policy())), ["T-1 be-qa claim_review"], "QA need not wait for the author's client to end");
    let qa = world.agent("be-qa", task);
    world.call(qa.clone(), Verb::ClaimReview, Some(task), scene::args(Verb::ClaimReview, world.task(task), &[])).unwrap();
    world.call(qa, Verb::Fail, Some(task), scene::args(Verb::Fail, world.task(task), &[])).unwrap();
    assert_eq!(words(&world, &planned(&world, &policy())), ["T-1 waits: an earlier run is still being stopped"]);
    scene::end_runs(&mut world);
    assert_eq!(words(&world, &planned(&world, &policy())), ["T-1 be-dev-1 i_will_work_on"]);
}

#[test]
fn nothing_starts_while_dispatch_is_stopped() {
    let mut world = World::new();
    leaf(&mut world, Place::Ready);
    let stopped = Policy { stopped: Some("the disk is full".into()), ..policy() };
    assert_eq!(words(&world, &planned(&world, &stopped)), ["T-1 waits: nothing new is started: the disk is full"]);
}

#[test]
fn rights_without_a_run_end_in_time() {
    let mut world = World::new();
    let task = leaf(&mut world, Place::Working);
    let agent = world.id_of("be-dev-1");
    let run = world.live_run(agent).unwrap().id;
    world.wait(Duration::from_secs(700));
    assert!(planned(&world, &policy()).expire.is_empty(), "a run that lives keeps its right");
    world.end_run(run, Outcome::Lost);
    let told = planned(&world, &policy());
    assert_eq!(told.expire, [task]);
    let mut world = World::new();
    let task = leaf(&mut world, Place::Working);
    world.end_run(world.live_run(world.id_of("be-dev-1")).unwrap().id, Outcome::Lost);
    let told = planned(&world, &policy());
    assert_eq!((told.expire.len(), told.next_look), (0, world.task(task).ownership.lease.as_ref().map(|l| l.expires_at)));
}

#[test]
fn two_started_tasks_of_one_author_do_not_wait_for_each_other() {
    let mut world = World::new();
    let first = leaf(&mut world, Place::Working);
    let ceo = world.ceo();
    world.call(ceo.clone(), Verb::Pause, Some(first), scene::args(Verb::Pause, world.task(first), &[])).unwrap();
    let second = leaf(&mut world, Place::Working);
    world.call(ceo, Verb::Resume, Some(first), scene::args(Verb::Resume, world.task(first), &[])).unwrap();
    world.end_run(world.live_run(world.id_of("be-dev-1")).unwrap().id, Outcome::Lost);
    let told = words(&world, &planned(&world, &policy()));
    assert_eq!(told, ["T-2 be-dev-1 i_will_work_on", "T-1 waits: every fitting agent is busy"], "the one with a right goes on");
    world.wait(Duration::from_secs(601));
    world.send(world.system(), Body::System(SystemCommand::ExpireLease { task: second })).unwrap();
    assert!(!planned(&world, &policy()).start.is_empty());
}

#[test]
fn a_run_whose_part_is_over_is_stopped() {
    let mut world = World::new();
    let task = leaf(&mut world, Place::Ready);
    world.start("be-dev-1", task, Verb::IWillWorkOn).unwrap();
    let other = world.agent("be-dev-2", task);
    world.call(other, Verb::IWillWorkOn, Some(task), scene::args(Verb::IWillWorkOn, world.task(task), &[])).unwrap();
    assert_eq!(words(&world, &planned(&world, &policy())), ["stop be-dev-1: its part is over"]);
}

/// Every open task is started, running, waiting with a reason, or the CEO's; and whatever is started, may be.
pub(crate) fn covers_every_task(world: &World) {
    let told = planned(world, &policy());
    for start in &told.start {
        let mut tried = world.clone();
        let slug = tried.roster.slug(start.agent);
        tried.start(&slug, start.task, start.verb).unwrap_or_else(|r| panic!("{slug} cannot be started: {r:?}"));
    }
    let mut seats: Vec<_> = told.start.iter().map(|s| s.agent).collect();
    seats.sort_unstable();
    seats.dedup();
    assert_eq!(seats.len(), told.start.len(), "a seat is started twice");
    for task in world.tasks.values().filter(|t| !t.stage.is_terminal()) {
        let briefs: Vec<TaskBrief> = task.depends_on.iter().filter_map(|d| world.tasks.get(d)).map(|t| TaskBrief::from(&**t)).collect();
        let starts = told.start.iter().filter(|s| s.task == task.id).count();
        let waits = told.waiting.iter().filter(|(id, _)| *id == task.id).count();
        let runs = world.spawns.values().any(|s| s.task == task.id && s.state != SpawnState::Ended && s.closed_by.is_none());
        match next_actor(task, &briefs, &world.roster) {
            _ if told.waiting.iter().any(|(id, wait)| *id == task.id && matches!(wait, Wait::Above(_))) => assert_eq!(starts, 0),
            NextActor::Ceo(_) | NextActor::Nobody => assert_eq!((starts, waits), (0, 0)),
            NextActor::Waits(_) => assert_eq!((starts, waits), (0, 1)),
            NextActor::Company => assert!(runs_at_all(world, task) || told.submit.contains(&task.id), "{} is not handed in", task.number),
            NextActor::Agents(..) => assert!(starts + waits == 1 || (runs && starts + waits == 0), "{} is forgotten", task.number),
        }
    }
}

fn runs_at_all(world: &World, task: &Task) -> bool {
    world.spawns.values().any(|s| s.task == task.id && s.state != SpawnState::Ended)
}

/// Cooperative agents under the plan, a CEO who approves and lifts, and a world in which everything succeeds bring every task to its end.
pub(crate) fn comes_to_an_end(world: &World) {
    let mut world = world.clone();
    world.tree = Known::Yes(Vec::new());
    world.git.clear();
    scene::end_runs(&mut world);
    for _ in 0..200 {
        while let Some(next) = world.open.first().cloned() {
            world.settle(&next);
        }
        let told = planned(&world, &policy());
        for task in &told.expire {
            world.send(world.system(), Body::System(SystemCommand::ExpireLease { task: *task })).unwrap();
        }
        for task in &told.submit {
            let before = world.task(*task).stage;
            world.send(world.system(), Body::System(SystemCommand::Submit { task: *task })).unwrap();
            assert_ne!(world.task(*task).stage, before, "what is whole is handed in");
        }
        for run in obey(&mut world, &told) {
            cooperate(&mut world, run);
        }
        ceo_decides(&mut world);
        if world.tasks.values().all(|t| t.stage.is_terminal()) {
            return;
        }
        world.wait(Duration::from_secs(300));
    }
    let stuck = world.tasks.values().find(|t| !t.stage.is_terminal());
    panic!("it never ends: {stuck:?}, {:?}", words(&world, &planned(&world, &policy())));
}

/// Plays a run to its end as a willing agent would: whatever is next, until its part is over.
fn cooperate(world: &mut World, run: SpawnId) {
    let spawn = world.spawns[&run].clone();
    let task = spawn.task;
    let actor = world.speaker(&spawn);
    let mut say = |verb: Verb| {
        let args = scene::args(verb, world.task(task), &[]);
        world.call(actor.clone(), verb, Some(task), args).is_ok()
    };
    let offered = say(spawn.verb);
    if offered && matches!(spawn.verb, Verb::IWillWorkOn | Verb::Resume) {
        say(Verb::IWillWorkOn);
        say(Verb::Commit);
        say(Verb::OpenPr);
        say(Verb::IAmDone);
    }
    if offered && spawn.verb == Verb::IWillPlan {
        plan_parts(world, task, &actor);
        let idle = scene::args(Verb::IAmIdle, world.task(task), &[]);
        let _refused_while_something_is_left = world.call(actor.clone(), Verb::IAmIdle, Some(task), idle);
    }
    let mut say = |verb: Verb| {
        let args = scene::args(verb, world.task(task), &[]);
        world.call(actor.clone(), verb, Some(task), args).is_ok()
    };
    if offered && spawn.verb == Verb::ClaimGateReview {
        say(Verb::PrPass);
    }
    if offered && spawn.verb == Verb::ClaimReview {
        say(Verb::Pass);
    }
    if offered && spawn.verb == Verb::ClaimDocTask {
        say(Verb::IDocumented);
    }
    let outcome = match world.spawns[&run].closed_by {
        Some(verb) => Outcome::Completed { verb: verb.to_string() },
        None => Outcome::Unproductive,
    };
    world.end_run(run, outcome);
}

/// What a willing PM does with its work as it stands.
fn plan_parts(world: &mut World, task: TaskId, pm: &Actor) {
    let row = world.task(task).clone();
    let mut say = |verb: Verb, args: Value| world.call(pm.clone(), verb, Some(task), args).is_ok();
    match standing(&row) {
        Standing::Unplanned(_) | Standing::Unchanged => {
            if !say(Verb::Delegate, scene::args(Verb::Delegate, &row, &[])) {
                let mut args = scene::args(Verb::DeclareCoverage, &row, &[]);
                args["criteria"] = row.criteria.iter().map(|c| c.id.to_string()).collect::<Vec<_>>().into();
                say(Verb::DeclareCoverage, args);
            }
        }
        Standing::Objections | Standing::Whole => {
            let verb = if row.shape == Shape::Root { Verb::SubmitRoot } else { Verb::SubmitUp };
            say(verb, scene::args(verb, &row, &[]));
        }
        Standing::Open(_) => {}
    }
}

fn ceo_decides(world: &mut World) {
    let asked: Vec<TaskId> = world.tasks.values().filter(|t| !t.stage.is_terminal()).map(|t| t.id).collect();
    for id in asked {
        let row = world.task(id);
        let verb = match (&row.hold, row.stage) {
            (Some(Hold::Paused { .. }), _) => Verb::Resume,
            (Some(Hold::Blocked { resolver: Resolver::Human, .. }), _) => Verb::Unblock,
            (None, Stage::Ceo) => Verb::Approve,
            (None, Stage::Backlog) => Verb::Activate,
            _ => continue,
        };
        let args = scene::args(verb, row, &[]);
        let ceo = world.ceo();
        world.call(ceo, verb, Some(id), args).unwrap_or_else(|r| panic!("the CEO is refused {verb}: {r:?}"));
    }
}

/// A small generator of choices; the same seed makes the same agents.
struct Choices(u64);

impl Choices {
    fn one_of(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % count
    }
}

/// What an agent does that never achieves anything, and how its run ends.
fn achieve_nothing(world: &mut World, run: SpawnId, choices: &mut Choices) {
    let spawn = world.spawns[&run].clone();
    let task = spawn.task;
    let role = world.roster.agent(spawn.agent).unwrap().role;
    let claim = [Verb::IWillWorkOn, Verb::ClaimReview, Verb::ClaimDocTask, Verb::Resume].into_iter().find(|v| *v == spawn.verb);
    let mut say = |verb: Verb| {
        let args = scene::args(verb, world.task(task), &[]);
        let actor = world.speaker(&spawn);
        world.call(actor, verb, Some(task), args).is_ok()
    };
    if let Some(claim) = claim.filter(|_| choices.one_of(4) > 0) {
        say(claim);
    }
    let closing = match role {
        Role::CellPm => [Verb::Unblock, Verb::EscalateUp, Verb::IAmIdle, Verb::Resume],
        Role::MainPm => [Verb::Unblock, Verb::Unblock, Verb::IAmIdle, Verb::Resume],
        _ => [Verb::IAmIdle, Verb::IAmBlocked, Verb::Unclaim, Verb::Evidence],
    };
    say(closing[choices.one_of(4) as usize]);
    let outcome = match world.spawns[&run].closed_by {
        Some(verb) => Outcome::Completed { verb: verb.to_string() },
        None if choices.one_of(3) == 0 => Outcome::Crashed { code: None, detail: "killed".into() },
        None => Outcome::Unproductive,
    };
    world.end_run(run, outcome);
}

#[test]
fn agents_that_achieve_nothing_end_with_the_ceo() {
    const MOST_RUNS: usize = 16;
    for place in [Place::Ready, Place::Qa, Place::Docs, Place::PmReview, Place::Revision] {
        for seed in 0..40 {
            let mut world = World::new();
            let task = leaf(&mut world, place);
            let mut choices = Choices(seed);
            let mut runs = 0;
            for _ in 0..2000 {
                let told = planned(&world, &policy());
                for task in &told.expire {
                    world.send(world.system(), Body::System(SystemCommand::ExpireLease { task: *task })).unwrap();
                }
                for run in obey(&mut world, &told) {
                    runs += 1;
                    achieve_nothing(&mut world, run, &mut choices);
                }
                if world.task(task).hold.as_ref().is_some_and(Hold::is_for_ceo) {
                    break;
                }
                world.wait(Duration::from_secs(120));
            }
            let row = world.task(task);
            assert!(row.hold.as_ref().is_some_and(Hold::is_for_ceo), "{place:?} {seed}: {runs} runs and still {row:?}");
            assert!(runs <= MOST_RUNS, "{place:?} {seed}: {runs} runs without a result");
        }
    }
}
