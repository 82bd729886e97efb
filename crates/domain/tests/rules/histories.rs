//! Random histories: several tasks, everybody calling, runs dying, effects failing. Whatever happens, the company stays sound.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use roboco_domain::apply::apply_to_task;
use roboco_domain::command::{Actor, Body, SystemCommand};
use roboco_domain::decide::standard_rules;
use roboco_domain::effect::{Effect, EffectResult, LandRefusal};
use roboco_domain::id::TaskId;
use roboco_domain::known::Known;
use roboco_domain::next::{NextActor, next_actor};
use roboco_domain::outcome::Outcome;
use roboco_domain::role::Role;
use roboco_domain::rules::RuleSet;
use roboco_domain::task::{GateVerdict, Shape, Stage, Task};
use roboco_domain::verb::Verb;
use serde_json::Value;

use crate::matrix::SPEAKERS;
use crate::planning;
use crate::scene::{self, Place};
use crate::world::World;

/// One step of a history: what happens, to whom, and with which luck.
type Step = (u8, u8, u8, u8);

const MOST_TASKS: usize = 4;
const STRANGERS: &[&str] = &["be-dev-2", "fe-dev-1", "fe-qa", "fe-doc", "fe-pm", "pr-reviewer-1", "cell-pr-reviewer-2"];

/// How often each verb was tried and accepted, and which rows accepted something.
#[derive(Default)]
pub(crate) struct Tally {
    commands: usize,
    verbs: BTreeMap<Verb, (usize, usize)>,
    rows: BTreeMap<usize, usize>,
    finished: usize,
}

struct History<'a> {
    world: World,
    tally: &'a RefCell<Tally>,
}

fn pick<T: Copy>(from: &[T], by: u8) -> T {
    from[usize::from(by) % from.len()]
}

impl History<'_> {
    /// Many steps lead to assembled work, so some histories begin with it.
    fn begin(&mut self, what: u8, luck: u8) {
        let places = [Place::Working, Place::Assembled, Place::Gate, Place::Reviewing, Place::PmReview, Place::Revision];
        let shape = match what % 4 {
            0 => Shape::CellParent,
            1 => Shape::Root,
            _ => return,
        };
        scene::prepared(&mut self.world, shape, pick(&places, luck), &[]);
    }

    fn some_task(&self, by: u8) -> Option<TaskId> {
        let open: Vec<TaskId> = self.world.tasks.values().filter(|t| !t.stage.is_terminal()).map(|t| t.id).collect();
        let any: Vec<TaskId> = self.world.tasks.keys().copied().collect();
        match (open.is_empty(), any.is_empty()) {
            (_, true) => None,
            (true, false) => Some(pick(&any, by)),
            (false, false) if by.is_multiple_of(16) => Some(pick(&any, by / 16)),
            (false, false) => Some(pick(&open, by)),
        }
    }

    fn call(&mut self, actor: Actor, verb: Verb, task: TaskId, args: Value) {
        let role = actor.role();
        let before = Task::clone(self.world.task(task));
        let accepted = self.world.verb(actor, verb, Some(task), args).is_ok();
        let mut tally = self.tally.borrow_mut();
        tally.commands += 1;
        let row = tally.verbs.entry(verb).or_default();
        row.0 += 1;
        if accepted {
            row.1 += 1;
            let fits =
                |r: &roboco_domain::rules::OwnedRule| r.verb == verb && r.roles.contains(&role) && (r.is_taskless() || r.matches(&before));
            if let Some(n) = self.world.rules.rules().iter().position(fits) {
                *tally.rows.entry(n).or_default() += 1;
            }
        }
    }

    fn system(&mut self, command: SystemCommand) {
        self.tally.borrow_mut().commands += 1;
        let refused = self.world.send(self.world.system(), Body::System(command)).is_err();
        assert!(!refused, "the company refuses itself only to plan a run");
    }

    fn actor(&mut self, slug: &str, task: TaskId) -> Actor {
        if slug == "ceo" { self.world.ceo() } else { self.world.agent(slug, task) }
    }

    fn create(&mut self, luck: u8) {
        if self.world.tasks.values().filter(|t| t.parent.is_none()).count() >= MOST_TASKS {
            return;
        }
        let shape = match luck % 6 {
            0 | 1 => Shape::Root,
            2 => Shape::Leaf,
            _ => Shape::StandaloneLeaf,
        };
        let depends_on: Vec<TaskId> = self.world.tasks.keys().copied().filter(|_| luck.is_multiple_of(5)).take(1).collect();
        let before = self.world.tasks.len();
        let place = if luck.is_multiple_of(4) { Place::Backlog } else { Place::Ready };
        scene::created(&mut self.world, shape, place, &depends_on);
        assert_eq!(self.world.tasks.len(), before + 1);
        let mut tally = self.tally.borrow_mut();
        let row = tally.verbs.entry(Verb::CreateTask).or_default();
        *row = (row.0 + 1, row.1 + 1);
        let n = self.world.rules.rules().iter().position(|r| r.verb == Verb::CreateTask);
        *tally.rows.entry(n.unwrap_or(usize::MAX)).or_default() += 1;
    }

    /// What somebody who wants the task done would do next.
    fn sensible(&mut self, who: u8, luck: u8) {
        let Some(id) = self.some_task(who) else { return self.create(luck) };
        let task = Task::clone(self.world.task(id));
        if !task.pending.is_empty() && !luck.is_multiple_of(8) {
            return self.settle(luck);
        }
        let roster = Arc::clone(&self.world.roster);
        let lease = task.ownership.lease.as_ref().map(|l| roster.slug(l.holder));
        let briefs = task.depends_on.iter().filter_map(|d| self.world.tasks.get(d)).map(|t| (&**t).into()).collect::<Vec<_>>();
        if let Some(holder) = lease.clone().filter(|_| luck % 11 == 3) {
            let verb = pick(&[Verb::Progress, Verb::IAmBlocked, Verb::Unclaim, Verb::Note, Verb::IAmIdle], luck / 11);
            let actor = self.actor(&holder, id);
            let args = scene::args(verb, &task, &[]);
            return self.call(actor, verb, id, args);
        }
        let (slug, verb) = match (next_actor(&task, &briefs, &roster), lease) {
            (NextActor::Agents(_, Verb::IWillWorkOn), Some(dev)) if matches!(task.stage, Stage::Working | Stage::SelfCheck) => {
                let verb = match () {
                    () if task.delivery.commits.is_empty() || luck.is_multiple_of(5) => Verb::Commit,
                    () if task.delivery.pr.is_none() => Verb::OpenPr,
                    () if luck.is_multiple_of(7) => Verb::SyncBranch,
                    () => Verb::IAmDone,
                };
                (dev, verb)
            }
            (NextActor::Agents(_, Verb::ClaimReview), Some(qa)) => (qa, if luck.is_multiple_of(3) { Verb::Fail } else { Verb::Pass }),
            (NextActor::Agents(_, Verb::ClaimDocTask), Some(doc)) => {
                (doc, if luck.is_multiple_of(3) { Verb::Commit } else { Verb::IDocumented })
            }
            (NextActor::Agents(_, Verb::ClaimGateReview), Some(judge)) => {
                (judge, if luck.is_multiple_of(3) { Verb::PrFail } else { Verb::PrPass })
            }
            // What was set aside is sometimes given up.
            (NextActor::Agents(_, Verb::Resume), _) if luck.is_multiple_of(8) => ("be-pm".to_owned(), Verb::Cancel),
            (NextActor::Agents(agents, verb), _) => {
                let verb = match verb {
                    Verb::IWillPlan if task.stage == Stage::Working => match luck % 8 {
                        0 => Verb::DeclareCoverage,
                        1 | 2 if task.shape == Shape::Root => Verb::SubmitRoot,
                        1 | 2 => Verb::SubmitUp,
                        _ => Verb::Delegate,
                    },
                    Verb::Complete if luck.is_multiple_of(4) => Verb::RequestChanges,
                    Verb::Unblock if luck.is_multiple_of(4) => {
                        if roster.agent(agents[0]).is_some_and(|a| a.role == Role::MainPm) {
                            Verb::EscalateToCeo
                        } else {
                            Verb::EscalateUp
                        }
                    }
                    other => other,
                };
                (roster.slug(pick(&agents, luck / 16)), verb)
            }
            (NextActor::Ceo(_), _) => {
                let verb = match (&task.hold, task.stage) {
                    (Some(roboco_domain::task::Hold::Paused { .. }), _) => Verb::Resume,
                    (Some(_), _) => Verb::Unblock,
                    (None, Stage::Backlog) => Verb::Activate,
                    (None, _) => {
                        if luck.is_multiple_of(4) {
                            Verb::Reject
                        } else {
                            Verb::Approve
                        }
                    }
                };
                ("ceo".to_owned(), verb)
            }
            (NextActor::Company, _) => return self.system(SystemCommand::Submit { task: id }),
            (NextActor::Waits(_), _) => return self.settle(luck),
            (NextActor::Nobody, _) => return self.create(luck),
        };
        let actor = self.actor(&slug, id);
        let args = scene::args(verb, &task, &[]);
        self.call(actor, verb, id, args);
    }

    /// Anybody calls anything, with usual or spoiled arguments.
    fn anything(&mut self, who: u8, what: u8, luck: u8) {
        let Some(id) = self.some_task(luck) else { return self.create(luck) };
        let slugs: Vec<&str> = SPEAKERS.iter().map(|(_, s)| *s).filter(|s| *s != "system").chain(STRANGERS.iter().copied()).collect();
        let slug = pick(&slugs, who);
        let actor = self.actor(slug, id);
        let granted = self.world.rules.granted(actor.role());
        // Giving up ends a history early, so it is rarer than the rest.
        let tame = |v: &Verb| *v != Verb::Cancel || luck.is_multiple_of(8);
        let all: Vec<Verb> = if luck.is_multiple_of(16) { Verb::ALL.to_vec() } else { granted }.into_iter().filter(tame).collect();
        if all.is_empty() {
            return;
        }
        let verb = pick(&all, what);
        if verb == Verb::CreateTask {
            return self.create(luck);
        }
        let mut args = scene::args(verb, self.world.task(id), &[]);
        if luck.is_multiple_of(6)
            && let Value::Object(map) = &mut args
        {
            let keys: Vec<String> = map.keys().cloned().collect();
            if let Some(key) = keys.get(usize::from(luck) % (keys.len() + 1)) {
                map.insert(key.clone(), if luck.is_multiple_of(4) { Value::Null } else { "tbd".into() });
            }
        }
        self.call(actor, verb, id, args);
    }

    fn settle(&mut self, luck: u8) {
        if self.world.open.is_empty() {
            return;
        }
        let intended = self.world.open[usize::from(luck) % self.world.open.len()].clone();
        let result = if luck.is_multiple_of(5) { bad_luck(&intended.effect, luck) } else { self.world.success(&intended.effect) };
        self.tally.borrow_mut().commands += 1;
        self.world.settle_as(intended.intent, &intended.effect, result);
        if luck.is_multiple_of(3) {
            // The same result reported twice.
            self.again(luck);
        }
    }

    fn again(&mut self, luck: u8) {
        let Some(old) = self.world.settled.get(usize::from(luck) % self.world.settled.len().max(1)).cloned() else { return };
        let before = self.world.tasks.get(&old.effect.task()).cloned();
        let result = self.world.success(&old.effect);
        self.world.settle_as(old.intent, &old.effect, result);
        let after = self.world.tasks.get(&old.effect.task()).cloned();
        if let (Some(before), Some(after)) = (before, after)
            && old.effect.pending().is_some()
        {
            assert_eq!(
                Task { version: 0, ..Task::clone(&before) },
                Task { version: 0, ..Task::clone(&after) },
                "a late result changed something"
            );
        }
    }

    fn time(&mut self, luck: u8) {
        self.world.wait(Duration::from_secs(if luck.is_multiple_of(3) { 700 } else { 20 }));
        let leased: Vec<TaskId> = self.world.tasks.values().filter(|t| t.ownership.lease.is_some()).map(|t| t.id).collect();
        for task in leased {
            self.system(SystemCommand::ExpireLease { task });
        }
    }

    fn runs(&mut self, who: u8, luck: u8) {
        let live: Vec<_> = self.world.seats.values().filter_map(|s| s.spawn).collect();
        if live.is_empty() {
            return;
        }
        let spawn = pick(&live, who);
        if luck.is_multiple_of(4) {
            return self.system(SystemCommand::RevokeSpawn { spawn, reason: "it hangs".into() });
        }
        let closed = self.world.spawns[&spawn].closed_by;
        let outcome = match (closed, luck % 5) {
            (Some(verb), _) => Outcome::Completed { verb: verb.to_string() },
            (None, 0) => Outcome::Crashed { code: None, detail: "killed".into() },
            (None, 1) => Outcome::Unproductive,
            (None, 2) => Outcome::OutOfMemory,
            (None, _) => Outcome::Lost,
        };
        self.tally.borrow_mut().commands += 1;
        self.world.end_run(spawn, outcome);
    }

    /// A run that is over, or was replaced, still calls.
    fn ghost(&mut self, who: u8, what: u8) {
        let Some(old) = self.world.spawns.values().nth(usize::from(who) % self.world.spawns.len().max(1)).cloned() else { return };
        let current = self.world.seats.get(&old.agent).is_some_and(|s| s.spawn == Some(old.id) && s.epoch == old.epoch);
        let granted = self.world.rules.granted(self.world.roster.agent(old.agent).unwrap().role);
        if current || granted.is_empty() {
            return;
        }
        let verb = pick(&granted, what);
        let args = scene::args(verb, self.world.task(old.task), &[]);
        let before = self.world.tasks.clone();
        let actor = self.world.speaker(&old);
        let refused = self.world.verb(actor, verb, Some(old.task), args).expect_err("a run that is over was heard");
        assert_eq!(refused.kind, roboco_domain::rejection::Kind::Superseded);
        assert_eq!(before, self.world.tasks);
    }

    fn step(&mut self, (what, who, which, luck): Step) {
        match what % 32 {
            0..=14 => self.sensible(who, luck),
            15..=22 => self.anything(who, which, luck),
            23..=25 => self.settle(luck),
            26 => self.time(luck),
            27..=28 => self.runs(who, luck),
            29 => self.ghost(who, which),
            30 => self.create(luck),
            _ => self.world.tree = if luck.is_multiple_of(3) { Known::Yes(vec!["src/left.rs".into()]) } else { Known::Yes(Vec::new()) },
        }
    }
}

fn bad_luck(effect: &Effect, luck: u8) -> EffectResult {
    let failed = EffectResult::Failed { reason: "the disk is full".into() };
    let land = |refusal| EffectResult::LandRefused { refusal };
    match (effect, luck % 3) {
        (Effect::Commit { .. }, 0) => EffectResult::NothingToCommit,
        (Effect::Commit { .. }, 1) => EffectResult::CommitRefused { problems: vec!["a key".into()] },
        (Effect::Commit { .. }, _) => EffectResult::Committed {
            oid: crate::world::oid(0xABC + u128::from(luck)),
            tree: crate::world::oid(0xDEF + u128::from(luck)),
            files: vec!["src/greet.rs".into()],
        },
        (Effect::Sync { .. }, 0) => EffectResult::SyncConflict { paths: vec!["src/greet.rs".into()] },
        (Effect::RunGate { .. }, 0 | 1) => EffectResult::Gate { verdict: GateVerdict::Failed, summary: "test: failed".into(), tail: None },
        (Effect::Land { .. }, 0) => land(LandRefusal::Conflict { paths: vec!["src/greet.rs".into()] }),
        (Effect::Land { .. }, 1) => land(LandRefusal::DirtyCheckout { paths: vec!["src/greet.rs".into()] }),
        (Effect::CleanUp { .. } | Effect::ReleaseReviewTree { .. }, _) => EffectResult::Finished,
        _ => failed,
    }
}

/// The state of every task is what its events make of it.
fn log_tells_the_state(world: &World) {
    for task in world.tasks.values() {
        let events = world.log.iter().filter(|l| l.task == Some(task.id));
        let told = events.fold(None, |state, l| apply_to_task(state, &l.event, l.cx)).expect("a task starts with its creation");
        let same = |t: &Task| Task { version: 0, pending: Vec::new(), ..t.clone() };
        assert_eq!(same(&told), same(task), "the log tells another story of {}", task.number);
    }
}

/// Plays histories and returns what was tried.
///
/// # Panics
/// With the shortest history found that breaks something.
pub(crate) fn play(rules: &Arc<RuleSet>, cases: u32, length: usize) -> Tally {
    let tally = RefCell::new(Tally::default());
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 2000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let outcome = runner.run(&vec(any::<Step>(), length), |steps| {
        let mut history = History { world: World::with_rules(Arc::clone(rules)), tally: &tally };
        history.begin(steps.first().map_or(0, |s| s.3), steps.first().map_or(0, |s| s.1));
        for step in steps {
            history.step(step);
            if step.3.is_multiple_of(4) {
                planning::covers_every_task(&history.world);
            }
        }
        log_tells_the_state(&history.world);
        planning::comes_to_an_end(&history.world);
        tally.borrow_mut().finished += history.world.tasks.values().filter(|t| t.stage == Stage::Done).count();
        Ok::<(), TestCaseError>(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    tally.into_inner()
}

#[test]
fn whatever_happens_the_company_stays_sound() {
    let rules = Arc::new(standard_rules().clone());
    let tally = play(&rules, 256, 300);
    println!("{} commands, {} tasks completed", tally.commands, tally.finished);
    for (verb, (tried, accepted)) in &tally.verbs {
        println!("{verb:<16} accepted {accepted:>6} of {tried:>6} ({:>3} %)", accepted * 100 / tried);
    }
    assert!(tally.commands >= 50_000, "only {} commands", tally.commands);
    assert!(tally.finished >= 50, "only {} tasks were completed", tally.finished);
    for (n, rule) in rules.rules().iter().enumerate() {
        let accepted = tally.rows.get(&n).copied().unwrap_or_default();
        println!("row {n:>2} {:<16} {:?}: {accepted}", rule.verb.as_str(), rule.roles);
        // Reviews are given back, not set aside, so nothing but an older row is there to resume, and what a
        // developer set aside the developer resumes; scenarios cover both.
        let of_reviewers =
            rule.verb == Verb::Resume && matches!(rule.roles.as_slice(), [Role::Qa | Role::Documenter | Role::CellPm | Role::MainPm]);
        assert!(accepted > 0 || of_reviewers, "no call was accepted by row {n}: {rule:?}");
    }
}
