//! Scenarios as text: one line per call, with what it must come to.
//!
//! ```text
//! given leaf in qa                      a task driven there by the usual commands; `leaf`, `child` or `backlog`; `held paused human` …
//! be-qa claim_review -> qa, lease be-qa
//! be-qa pass criteria=C1 -> refused incomplete_input, missing criteria_verified, try pass, stage qa
//! anew                                  forget everything, in another company
//! git land conflict                     what the next effect of that kind comes to
//! hold back / settle                    leave effects open / let them come to their results
//! retire be-qa · wrote be-qa · owned by main-pm     what happened outside of commands
//! use T-3 · done T-3 · submit           speak of another task / let it be delivered to its end / the company hands the whole in
//! after 700s · expire · ends be-qa crashed · starts be-qa claim_review · revoke be-qa · tree dirty src/a.rs
//! ```

use std::time::Duration;

use roboco_domain::command::{Body, SystemCommand};
use roboco_domain::effect::{EffectResult, LandRefusal};
use roboco_domain::id::TaskId;
use roboco_domain::known::Known;
use roboco_domain::next::{NextActor, next_actor};
use roboco_domain::outcome::Outcome;
use roboco_domain::rejection::Rejection;
use roboco_domain::rules::RuleSet;
use roboco_domain::status::Status;
use roboco_domain::task::{GateVerdict, Hold, Stage, Task, TaskBrief};
use roboco_domain::verb::Verb;
use std::sync::Arc;

use crate::invariants::remedy_is_executable;
use crate::scene;
use crate::world::{Accepted, Origin, World, oid};

/// What a line came to.
struct Outcomes {
    refusal: Option<Rejection>,
    accepted: Option<Accepted>,
    events: Vec<&'static str>,
}

#[derive(PartialEq)]
enum Effects {
    Settled,
    HeldBack,
}

struct Play {
    world: World,
    task: TaskId,
    effects: Effects,
}

/// Plays a scenario by the standard rules.
pub(crate) fn check(script: &str) {
    check_by(None, script);
}

/// Plays a scenario by a given table.
pub(crate) fn check_by(rules: Option<&Arc<RuleSet>>, script: &str) {
    let world = rules.map_or_else(World::new, |r| World::with_rules(Arc::clone(r)));
    let mut play = Play { world, task: TaskId::new(uuid::Uuid::nil()), effects: Effects::Settled };
    for line in script.lines().map(|l| l.split(" #").next().unwrap_or_default().trim()).filter(|l| !l.is_empty()) {
        let (what, wanted) = line.split_once("->").map_or((line, ""), |(a, b)| (a.trim(), b.trim()));
        let outcome = play.line(what);
        for fact in wanted.split(',').map(str::trim).filter(|f| !f.is_empty()) {
            if let Err(seen) = play.holds(fact, &outcome) {
                panic!("{line}\n  wanted {fact}, but {seen}\n  {}", play.state(&outcome));
            }
        }
        let expects_refusal = wanted.contains("refused");
        if let Some(refusal) = outcome.refusal.as_ref().filter(|_| !expects_refusal) {
            panic!("{line}\n  was refused: {refusal:?}");
        }
    }
}

impl Play {
    fn task(&self) -> &Task {
        self.world.task(self.task)
    }

    fn state(&self, outcome: &Outcomes) -> String {
        let t = self.task();
        format!(
            "stage {}, hold {:?}, ownership {:?}, refusal {:?}, events {:?}",
            t.stage, t.hold, t.ownership, outcome.refusal, outcome.events
        )
    }

    fn line(&mut self, what: &str) -> Outcomes {
        let from = self.world.log.len();
        let words: Vec<&str> = what.split_whitespace().collect();
        let result = match words.as_slice() {
            ["anew"] => {
                self.world = World::with_rules(Arc::clone(&self.world.rules));
                None
            }
            ["given", rest @ ..] => {
                self.task = scene::given(&mut self.world, rest);
                None
            }
            ["use", number] => {
                self.task = self.numbered(number);
                None
            }
            ["after", time] => {
                self.world.wait(Duration::from_secs(time.trim_end_matches('s').parse().unwrap()));
                None
            }
            ["hold", "back"] => {
                self.effects = Effects::HeldBack;
                None
            }
            ["settle"] => self.settle_all(),
            ["one"] => {
                // Only the oldest effect comes to its result.
                let next = self.world.open.first().cloned().unwrap();
                Some(Ok(self.world.settle(&next)))
            }
            ["again"] => {
                let old = self.world.settled.last().cloned().unwrap();
                Some(Ok(self.world.settle(&old)))
            }
            ["git", kind, result @ ..] => {
                let (kind, result) = failure(kind, result);
                self.world.git.entry(kind).or_default().push(result);
                None
            }
            ["tree", rest @ ..] => {
                self.world.tree = tree(rest);
                None
            }
            ["submit"] => Some(self.system(SystemCommand::Submit { task: self.task })),
            ["done", number] => {
                let part = self.numbered(number);
                scene::finish(&mut self.world, part);
                None
            }
            ["expire"] => Some(self.system(SystemCommand::ExpireLease { task: self.task })),
            ["wrote", slug] => {
                // As if it had been a developer before.
                let by = self.world.id_of(slug);
                self.put(|task| task.ownership.authors.push(by));
                None
            }
            ["owned", "by", slug] => {
                let owner = self.world.id_of(slug);
                self.put(|task| task.ownership.assignee = Some(owner));
                None
            }
            ["retire", slugs @ ..] => {
                scene::retire(&mut self.world, slugs);
                None
            }
            ["starts", slug, verb] => Some(self.start(slug, verb)),
            ["revoke", slug] => {
                let agent = self.world.id_of(slug);
                let spawn = self.world.live_run(agent).unwrap().id;
                Some(self.system(SystemCommand::RevokeSpawn { spawn, reason: "it hangs".into() }))
            }
            ["leaves", slug, verb] => {
                let agent = self.world.id_of(slug);
                let spawn = self.world.live_run(agent).unwrap().id;
                Some(self.system(SystemCommand::SpawnLeft { spawn, verb: verb.parse().unwrap() }))
            }
            ["ends", slug, outcome @ ..] => {
                let agent = self.world.id_of(slug);
                let spawn = self.world.live_run(agent).unwrap().clone();
                let outcome = ending(outcome, &spawn);
                Some(Ok(self.world.end_run(spawn.id, outcome)))
            }
            [slug, verb, args @ ..] => Some(self.call(slug, verb, args)),
            _ => panic!("cannot read {what:?}"),
        };
        let (accepted, refusal) = match result {
            None => (None, None),
            Some(Ok(accepted)) => (Some(accepted), None),
            Some(Err(refusal)) => (None, Some(refusal)),
        };
        let mut events = self.world.kinds_since(from);
        if words.first() != Some(&"starts") {
            // Runs that were started only to have somebody speak are no part of the story.
            events.retain(|kind| !matches!(*kind, "spawn.intended" | "spawn.started"));
        }
        Outcomes { refusal, accepted, events }
    }

    fn numbered(&self, number: &str) -> TaskId {
        self.world.tasks.values().find(|t| t.number.to_string() == number).unwrap().id
    }

    /// Lets every open effect come to its result.
    fn settle_all(&mut self) -> Option<Result<Accepted, Rejection>> {
        self.effects = Effects::Settled;
        let mut last = None;
        while let Some(next) = self.world.open.first().cloned() {
            let settled = self.world.settle(&next);
            if next.effect.pending().is_some() {
                last = Some(settled.decision.answer.refusal.clone().map_or(Ok(settled), Err));
            }
        }
        last
    }

    /// Changes the row in a way that no command of this version does.
    fn put(&mut self, change: impl FnOnce(&mut Task)) {
        let mut row = self.task().clone();
        change(&mut row);
        self.world.origin = Origin::Put;
        self.world.tasks.insert(self.task, Arc::new(row));
    }

    fn system(&mut self, command: SystemCommand) -> Result<Accepted, Rejection> {
        self.world.send(self.world.system(), Body::System(command))
    }

    fn start(&mut self, slug: &str, verb: &str) -> Result<Accepted, Rejection> {
        let verb: Verb = verb.parse().unwrap();
        let id = self.world.start(slug, self.task, verb)?;
        let task = Some(self.world.spawns[&id].task);
        Ok(Accepted { decision: Default::default(), task })
    }

    fn call(&mut self, slug: &str, verb: &str, words: &[&str]) -> Result<Accepted, Rejection> {
        let verb: Verb = verb.parse().unwrap();
        let before = self.task().clone();
        let args = scene::args(verb, &before, words);
        let (stale, slug) = slug.strip_prefix("old-").map_or((false, slug), |s| (true, s));
        let actor = match slug {
            "ceo" => self.world.ceo(),
            _ if stale => {
                let agent = self.world.id_of(slug);
                let old = self.world.spawns.values().filter(|s| s.agent == agent).min_by_key(|s| s.intended_at).unwrap();
                self.world.speaker(old)
            }
            _ => self.world.agent(slug, self.task),
        };
        let role = actor.role();
        let result = if self.effects == Effects::HeldBack {
            self.world.verb(actor, verb, Some(self.task), args)
        } else {
            self.world.call(actor, verb, Some(self.task), args)
        };
        if let Err(refusal) = &result {
            remedy_is_executable(&self.world.rules, role, Some(self.task()), refusal).unwrap_or_else(|e| panic!("{slug} {verb}: {e}"));
        }
        result
    }

    /// Whether a wanted fact is so; otherwise what is.
    fn holds(&self, fact: &str, outcome: &Outcomes) -> Result<(), String> {
        let task = self.task();
        let slug = |id: Option<roboco_domain::id::AgentId>| id.map_or_else(|| "none".to_owned(), |a| self.world.roster.slug(a));
        let words: Vec<&str> = fact.split_whitespace().collect();
        let same = |seen: String, wanted: &str| if seen == wanted { Ok(()) } else { Err(format!("saw {seen:?}")) };
        match words.as_slice() {
            ["accepted"] if outcome.accepted.is_some() => Ok(()),
            ["refused", kind] => same(outcome.refusal.as_ref().map_or_else(|| "accepted".into(), |r| r.kind.to_string()), kind),
            ["missing", tokens @ ..] => same(outcome.refusal.as_ref().map(|r| r.missing.join(" ")).unwrap_or_default(), &tokens.join(" ")),
            ["try", verb] => {
                let tried = outcome.refusal.as_ref().and_then(|r| r.remedy.verb);
                same(tried.map_or_else(|| "none".into(), |v| v.to_string()), verb)
            }
            ["says", rest @ ..] => {
                let said = outcome.refusal.as_ref().map(|r| format!("{} {}", r.message, r.remedy.text)).unwrap_or_default();
                let next = outcome.accepted.as_ref().map(|a| a.decision.answer.next.clone()).unwrap_or_default();
                if format!("{said}{next}").contains(&rest.join(" ")) { Ok(()) } else { Err(format!("it said {said}{next}")) }
            }
            ["warns"] if outcome.accepted.as_ref().is_some_and(|a| a.decision.answer.warning.is_some()) => Ok(()),
            ["waits"] if outcome.accepted.as_ref().is_some_and(|a| a.decision.answer.waits_for.is_some()) => Ok(()),
            ["lease", who] => same(slug(task.ownership.lease.as_ref().map(|l| l.holder)), who),
            ["run", nth] => {
                let spawn = task.ownership.lease.as_ref().and_then(|l| self.world.spawns.get(&l.spawn));
                same(spawn.map_or_else(|| "none".into(), |s| s.number.nth.to_string()), nth)
            }
            ["owner", who] => same(slug(task.ownership.assignee), who),
            ["author", who] => same(slug(task.ownership.author), who),
            ["next", who, verb @ ..] => self.next_is(who, verb.first().copied()),
            ["hold", rest @ ..] => same(hold_words(task.hold.as_ref()), &rest.join(" ")),
            ["round", n] => same(task.counters.revisions.to_string(), n),
            ["strikes", n] => same(task.meter.strikes.to_string(), n),
            ["cooldown", s] => {
                let seen = task.meter.not_before.map_or(0, |at| at.since(self.world.now).as_secs());
                same(format!("{seen}s"), s)
            }
            ["status", word] => same(Status::of(task).to_string(), word),
            ["stage", stage] => same(task.stage.to_string(), stage),
            ["inbox", n] => {
                let open = self.world.inbox.iter().filter(|i| i.task == task.id && i.decision.is_none()).count();
                same(open.to_string(), n)
            }
            ["to", "do", kinds @ ..] => {
                same(self.world.open.iter().map(|i| i.effect.kind()).collect::<Vec<_>>().join(" "), &kinds.join(" "))
            }
            ["pending", kinds @ ..] => {
                same(task.pending.iter().map(|p| p.kind.to_string()).collect::<Vec<_>>().join(" "), &kinds.join(" "))
            }
            ["closed", slug, verb] => {
                let agent = self.world.id_of(slug);
                let spawn = self.world.spawns.values().filter(|s| s.agent == agent).max_by_key(|s| s.epoch);
                same(spawn.and_then(|s| s.closed_by).map_or_else(|| "none".into(), |v| v.to_string()), verb)
            }
            ["limited", slug, wanted] => {
                let agent = self.world.id_of(slug);
                let spawn = self.world.spawns.values().filter(|s| s.agent == agent).max_by_key(|s| s.epoch);
                let until = spawn.and_then(|s| match s.outcome {
                    Some(Outcome::RateLimited { until }) => Some(until?.since(s.ended_at?).as_millis().div_ceil(1000)),
                    _ => None,
                });
                same(until.map_or_else(|| "no".into(), |s| format!("{s}s")), wanted)
            }
            ["finding", id, status] => {
                let found = task.findings.iter().find(|f| f.id.to_string() == *id);
                same(found.map_or_else(|| "absent".into(), |f| f.status.to_string()), status)
            }
            ["parts", states @ ..] => same(task.parts.iter().map(|p| p.state.to_string()).collect::<Vec<_>>().join(" "), &states.join(" ")),
            ["findings", n] => same(task.findings.len().to_string(), n),
            ["event", kinds @ ..] => same(outcome.events.join(" "), &kinds.join(" ")),
            ["no", "event"] => same(outcome.events.join(" "), ""),
            [stage] if stage.parse::<Stage>().is_ok() => same(task.stage.to_string(), stage),
            _ => Err("nobody knows how to look for that".into()),
        }
    }

    fn next_is(&self, who: &str, verb: Option<&str>) -> Result<(), String> {
        let task = self.task();
        let briefs: Vec<TaskBrief> = task.depends_on.iter().map(|d| TaskBrief::from(self.world.task(*d))).collect();
        let seen = match next_actor(task, &briefs, &self.world.roster) {
            NextActor::Agents(agents, next) => {
                if verb.is_some_and(|v| v != next.as_str()) {
                    return Err(format!("the verb is {next}"));
                }
                agents.iter().map(|a| self.world.roster.slug(*a)).collect::<Vec<_>>().join("+")
            }
            NextActor::Ceo(_) => "ceo".into(),
            NextActor::Company => "company".into(),
            NextActor::Waits(_) => "waits".into(),
            NextActor::Nobody => "nobody".into(),
        };
        if seen == who { Ok(()) } else { Err(format!("next is {seen}")) }
    }
}

pub(crate) fn hold_words(hold: Option<&Hold>) -> String {
    match hold {
        None => "none".into(),
        Some(Hold::Paused { by, .. }) => format!("paused {by}"),
        Some(Hold::Blocked { resolver, .. }) => format!("blocked {resolver}"),
        Some(Hold::Budget { .. }) => "budget".into(),
    }
}

fn ending(words: &[&str], spawn: &roboco_domain::spawn::Spawn) -> Outcome {
    match words {
        [] => Outcome::Completed { verb: spawn.closed_by.map_or_else(|| panic!("the run closed nothing"), |v| v.to_string()) },
        ["crashed"] => Outcome::Crashed { code: Some(1), detail: "it fell over".into() },
        ["unproductive"] => Outcome::Unproductive,
        ["lost"] => Outcome::Lost,
        ["stopped"] => Outcome::Stopped { reason: "its part is over".into() },
        other => panic!("no ending {other:?}"),
    }
}

/// What the worktree looks like from outside.
fn tree(words: &[&str]) -> Known<Vec<String>> {
    match words {
        ["clean"] => Known::Yes(Vec::new()),
        ["dirty", files @ ..] => Known::Yes(files.iter().map(|f| (*f).to_owned()).collect()),
        ["gone"] => Known::No,
        _ => Known::Unknown("the disk does not answer".into()),
    }
}

fn failure(kind: &str, words: &[&str]) -> (&'static str, EffectResult) {
    let refused = |refusal| EffectResult::LandRefused { refusal };
    let path = || vec!["src/greet.rs".to_owned()];
    match (kind, words) {
        ("commit", ["files", files @ ..]) => (
            "commit",
            EffectResult::Committed { oid: oid(0xF00), tree: oid(0xF01), files: files.iter().map(|f| (*f).to_owned()).collect() },
        ),
        ("commit", ["documents", count]) => {
            let files = (1..=count.parse().unwrap()).map(|n: u32| format!("docs/{n}.md")).collect();
            ("commit", EffectResult::Committed { oid: oid(0xF00), tree: oid(0xF01), files })
        }
        ("commit", ["nothing"]) => ("commit", EffectResult::NothingToCommit),
        ("commit", ["refused"]) => ("commit", EffectResult::CommitRefused { problems: vec!["a key in src/greet.rs".into()] }),
        ("gate", ["failed"]) => {
            let tail = Some("1 failed: joins_names".into());
            ("run_gate", EffectResult::Gate { verdict: GateVerdict::Failed, summary: "test: failed".into(), tail })
        }
        ("gate", ["unconfigured"]) => {
            ("run_gate", EffectResult::Gate { verdict: GateVerdict::NotConfigured, summary: "no checks".into(), tail: None })
        }
        ("land", ["conflict"]) => ("land", refused(LandRefusal::Conflict { paths: path() })),
        ("land", ["dirty"]) => ("land", refused(LandRefusal::DirtyCheckout { paths: path() })),
        ("land", ["protected"]) => ("land", refused(LandRefusal::Protected { text: "no".into() })),
        ("land", ["red"]) => ("land", refused(LandRefusal::GateFailed { tail: "1 failed".into() })),
        ("land", ["unavailable"]) => ("land", refused(LandRefusal::Unavailable { text: "no route".into() })),
        ("sync", ["conflict"]) => ("sync", EffectResult::SyncConflict { paths: path() }),
        (kind, ["broken"]) => {
            let kind =
                ["cut_branch", "commit", "sync", "run_gate", "pin", "land"].into_iter().find(|k| *k == kind || *k == format!("run_{kind}"));
            (kind.unwrap(), EffectResult::Failed { reason: "the disk is full".into() })
        }
        other => panic!("no result {other:?}"),
    }
}
