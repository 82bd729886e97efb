//! Refusals in bulk: wrong callers and wrong arguments everywhere. Each refusal says what to do, and doing it does not lead back to it.

use std::sync::Arc;

use roboco_domain::command::Actor;
use roboco_domain::decide::standard_rules;
use roboco_domain::rejection::{Kind, Rejection};
use roboco_domain::rules::RuleSet;
use roboco_domain::verb::Verb;
use serde_json::{Value, json};

use crate::matrix::{PREPARED, Prepared, SPEAKERS};
use crate::scene;
use crate::world::{World, oid};

/// Everybody who may have something to say, strangers to the task among them.
fn callers() -> Vec<&'static str> {
    let known = SPEAKERS.iter().map(|(_, slug)| *slug).filter(|s| *s != "system");
    known.chain(["be-dev-2", "fe-dev-1", "fe-qa", "fe-doc", "fe-pm"]).collect()
}

fn actor(world: &mut World, prepared: &Prepared, slug: &str) -> Actor {
    if slug == "ceo" { world.ceo() } else { world.agent(slug, prepared.task) }
}

/// Well-formed arguments, and ones with every field in turn left out, of the wrong type, or saying nothing.
fn arguments(usual: &Value) -> Vec<Value> {
    let mut all = vec![usual.clone()];
    for key in usual.as_object().unwrap().keys().filter(|k| *k != "task_id") {
        for wrong in [None, Some(json!("tbd")), Some(json!([])), Some(json!(7)), Some(json!([{ "id": "C9", "evidence": "" }]))] {
            let mut args = usual.clone();
            match wrong {
                None => args.as_object_mut().unwrap().remove(key),
                Some(value) => args.as_object_mut().unwrap().insert(key.clone(), value),
            };
            all.push(args);
        }
    }
    all.push(json!({ "task_id": "T-1", "unknown_argument": true }));
    all.push(json!("no object"));
    all
}

fn is_well_told(rejection: &Rejection, verb: Verb) {
    assert!(!rejection.message.is_empty() && !rejection.remedy.text.is_empty(), "{rejection:?}");
    match rejection.kind {
        Kind::IncompleteInput => {
            assert!(!rejection.missing.is_empty() && rejection.remedy.verb == Some(verb), "{verb}: {rejection:?}");
            assert!(rejection.missing.iter().all(|m| rejection.field_hints.contains_key(m)), "{verb}: {rejection:?}");
        }
        Kind::TracingGap => assert!(!rejection.missing.is_empty() && rejection.remedy.verb.is_some(), "{verb}: {rejection:?}"),
        _ => {}
    }
}

/// Does what a refusal says; it may be refused for another reason, but never for the same one.
fn follow(world: &World, prepared: &Prepared, actor: &Actor, refused: Verb, rejection: &Rejection) {
    let Some(verb) = rejection.remedy.verb.filter(|v| !matches!(v, Verb::GiveMeWork | Verb::IAmIdle | Verb::CreateTask)) else { return };
    let mut world = world.clone();
    let args = scene::args(verb, world.task(prepared.task), &[]);
    if let Err(next) = world.call(actor.clone(), verb, Some(prepared.task), args) {
        assert!(
            (next.kind, &next.message) != (rejection.kind, &rejection.message),
            "{refused} refused with {rejection:?}; following it with {verb} leads back"
        );
        // Wrong arguments are told before anybody asks whose the task is.
        let told = next.kind != Kind::NotAuthorized || rejection.kind == Kind::IncompleteInput;
        assert!(told, "{refused} refused with {rejection:?}; {verb} is not for this caller: {next:?}");
    }
}

/// Plays every refusal of the verbs that are asked for.
///
/// # Panics
/// With the first that is not well told.
pub(crate) fn play(rules: &Arc<RuleSet>, verbs: &[Verb]) -> usize {
    let mut refusals = 0;
    for prepared in PREPARED.iter() {
        for slug in callers() {
            let mut world = prepared.world.clone();
            world.rules = Arc::clone(rules);
            let caller = actor(&mut world, prepared, slug);
            for verb in verbs {
                let usual = scene::args(*verb, world.task(prepared.task), &[]);
                let granted = rules.grants(*verb, caller.role());
                for args in if granted { arguments(&usual) } else { vec![usual] } {
                    let mut tried = world.clone();
                    let Err(rejection) = tried.verb(caller.clone(), *verb, Some(prepared.task), args) else { continue };
                    refusals += 1;
                    is_well_told(&rejection, *verb);
                    assert_eq!(tried.tasks, world.tasks, "a refused {verb} changed a task");
                    assert_eq!((&tried.open, &tried.inbox), (&world.open, &world.inbox), "a refused {verb} left something behind");
                    follow(&world, prepared, &caller, *verb, &rejection);
                }
            }
        }
    }
    refusals
}

#[test]
fn every_refusal_says_what_to_do_and_doing_it_helps() {
    let refusals = play(&Arc::new(standard_rules().clone()), Verb::ALL);
    assert!(refusals > 50_000, "only {refusals} calls were refused");
}

#[test]
fn an_approval_is_for_the_commit_that_was_looked_at() {
    let prepared = PREPARED.iter().find(|p| p.stage.as_str() == "ceo" && p.hold == "none").unwrap();
    let mut world = prepared.world.clone();
    let head = world.task(prepared.task).delivery.head.clone().unwrap();
    for (seen, accepted) in [(oid(1), false), (head, true)] {
        let args = json!({ "task_id": "T-1", "head": seen.as_str() });
        let ceo = world.ceo();
        let answer = world.verb(ceo, Verb::Approve, Some(prepared.task), args).map_err(|r| r.kind);
        assert_eq!(answer.is_ok(), accepted);
        assert!(accepted || answer.err() == Some(Kind::StaleEvidence));
    }
}
