//! The demo: one task from order to merge.

use roboco_e2e::Place;
use serde_json::Value;

/// What happens to the task, without the runs of its agents.
const LIFE: &[(&str, &str, &str)] = &[
    ("task.created", "ceo", ""),
    ("task.claimed", "be-dev-1", ""),
    ("task.plan_set", "be-dev-1", ""),
    ("branch.cut", "system", ""),
    ("task.started", "system", "working"),
    ("commit.recorded", "system", ""),
    ("pr.opened", "be-dev-1", ""),
    ("task.submitted", "be-dev-1", "self_check"),
    ("criterion.evidenced", "be-dev-1", ""),
    ("criterion.evidenced", "be-dev-1", ""),
    ("gate.passed", "system", ""),
    ("task.handed_to_qa", "system", "qa"),
    ("review.claimed", "be-qa", ""),
    ("review.pinned", "system", ""),
    ("review.passed", "be-qa", "docs"),
    ("docs.claimed", "be-doc", ""),
    ("commit.recorded", "system", ""),
    ("docs.recorded", "be-doc", "pm_review"),
    ("review.carried", "be-doc", ""),
    ("task.accepted", "be-pm", ""),
    ("task.sent_to_ceo", "be-pm", "ceo"),
    ("inbox.opened", "be-pm", ""),
    ("ceo.approved", "ceo", ""),
    ("merge.landed", "system", ""),
    ("task.completed", "system", "done"),
    ("inbox.decided", "system", ""),
];

/// Each run of an agent, with the verb that ended its part.
const RUNS: &[(&str, &str)] = &[("T-1/1", "i_am_done"), ("T-1/2", "pass"), ("T-1/3", "i_documented"), ("T-1/4", "complete")];

fn text<'v>(event: &'v Value, name: &str) -> &'v str {
    event[name].as_str().unwrap_or_default()
}

/// Merges on the default branch that carry the task.
fn merges(place: &Place) -> usize {
    let log = place.git(&place.data().join("demo/greeter"), &["log", "--merges", "--format=%(trailers:key=Task,valueonly)", "main"]);
    log.lines().filter(|line| line.trim() == "T-1").count()
}

#[test]
fn the_demo_ends_with_one_merge_and_the_canonical_log() {
    let mut place = Place::new();
    let ran = place.roboco(&["demo", "--yes"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for part in
        ["i_will_work_on", "claim_review", "i_documented", "src/join.js  +15 -0", "checks", "approve T-1", "completed and merged", "|\\"]
    {
        assert!(ran.out.contains(part), "{part:?} is missing in\n{}", ran.out);
    }
    let repository = place.data().join("demo/greeter");
    assert_eq!(merges(&place), 1);
    assert_eq!(place.git(&repository, &["status", "--porcelain"]), "");
    assert!(repository.join("src/join.js").is_file(), "the checkout shows what was merged");

    // Started again on the same data, it finds its work done.
    let again = place.roboco(&["demo", "--yes"]);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.out.contains("going on after") && !again.out.contains("create_task"), "{}", again.out);
    assert_eq!(merges(&place), 1);

    let server = place.up();
    let tasks = place.json(&["task", "list", "--all", "--json"]);
    assert_eq!(tasks["items"].as_array().unwrap().len(), 1);
    let events = place.events("T-1");
    let life: Vec<(&str, &str, &str)> = events
        .iter()
        .filter(|event| !text(event, "kind").starts_with("spawn."))
        .map(|event| (text(event, "kind"), text(event, "actor"), text(event, "to")))
        .collect();
    assert_eq!(life, LIFE);
    for (run, verb) in RUNS {
        let of_run: Vec<&Value> =
            events.iter().filter(|event| text(event, "spawn") == *run && text(event, "kind").starts_with("spawn.")).collect();
        let kinds: Vec<&str> = of_run.iter().map(|event| text(event, "kind")).collect();
        assert_eq!(kinds, ["spawn.intended", "spawn.started", "spawn.ended"], "{run}");
        let outcome = &of_run[2]["data"]["outcome"];
        assert_eq!((text(outcome, "kind"), text(outcome, "verb")), ("completed", *verb), "{run}");
    }
    let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(seqs.windows(2).all(|pair| pair[0] + 1 == pair[1]), "the log has gaps: {seqs:?}");

    let view = place.json(&["task", "show", "T-1", "--json"]);
    assert_eq!(text(&view, "status"), "completed");
    assert!(view["spawns"].as_array().unwrap().iter().all(|spawn| spawn["ended_at"].is_i64()));
    assert_eq!(text(&view, "merge_commit"), place.git(&repository, &["rev-parse", "main"]));
    let logs = place.roboco(&["logs", "T-1"]);
    assert!(logs.code == 0 && logs.out.contains("T-1/4 be-pm") && logs.out.contains("tool_call"), "{logs:?}");
    assert_eq!(server.terminate().code, 0);
}

#[test]
fn rejected_work_comes_back_better_and_is_then_approved() {
    let place = Place::new();
    let mut demo = place.start(&["demo"]);
    demo.says("decide with");
    let inbox = place.json(&["inbox", "--json"]);
    assert_eq!(text(&inbox["items"][0], "task"), "T-1");
    let early = place.roboco(&["approve", "T-1", "--head", "0000000000000000000000000000000000000000"]);
    assert_eq!(early.code, 75, "another commit than the one that was looked at: {early:?}");

    let rejected = place.roboco(&["reject", "T-1", "what", "about", "an", "empty", "list?"]);
    assert_eq!(rejected.code, 0, "{rejected:?}");
    demo.says("what about an empty list?");
    let shown = place.json(&["task", "show", "T-1", "--json"]);
    assert_eq!((text(&shown["findings"][0], "origin"), text(&shown["findings"][0], "severity")), ("ceo", "blocker"));
    let watched = place.roboco(&["task", "watch", "T-1"]);
    assert_eq!(watched.code, 3, "a task that waits for the CEO is not done: {watched:?}");
    assert!(watched.err.contains("approve T-1"), "{}", watched.err);

    let view = place.json(&["task", "show", "T-1", "--json"]);
    assert_eq!((text(&view, "status"), view["revisions"].as_u64()), ("awaiting_ceo_approval", Some(1)));
    let approved = place.roboco(&["approve", "T-1", "--note", "better"]);
    assert_eq!(approved.code, 0, "{approved:?}");
    let ended = demo.wait();
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(merges(&place), 1);
    assert!(place.data().join("demo/greeter/test/robust.test.js").is_file(), "the answer to the finding was merged");
}

#[test]
fn a_demo_that_was_killed_goes_on_where_it_stopped() {
    let place = Place::new();
    for moment in ["i_will_work_on", "commit", "claim_doc_task"] {
        let mut demo = place.start(&["demo", "--yes"]);
        demo.says(moment);
        demo.kill();
    }
    let ran = place.roboco(&["demo", "--yes"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(merges(&place), 1);
    let subjects = place.git(&place.data().join("demo/greeter"), &["log", "--reverse", "--format=%an: %s", "main^1..main^2"]);
    let expected = [
        "Backend Developer 1: [T-1] feat(greet): greet several people at once",
        "Backend Documenter: [T-1] docs(greet): show how to greet several people",
    ];
    assert_eq!(subjects.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn cancelled_work_ends_the_demo_with_3_and_changes_nothing() {
    let place = Place::new();
    let mut demo = place.start(&["demo"]);
    demo.says("decide with");
    let cancelled = place.roboco(&["cancel", "T-1", "no", "longer", "wanted", "by", "anybody"]);
    assert_eq!(cancelled.code, 0, "{cancelled:?}");
    let ended = demo.wait();
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.err.contains("T-1 was cancelled"), "{}", ended.err);
    assert_eq!(place.git(&place.data().join("demo/greeter"), &["log", "--format=%s"]), "First version");
}

#[test]
fn a_whole_company_splits_builds_reviews_and_merges_a_root() {
    let place = Place::new();
    let ran = place.roboco(&["demo", "--company", "--yes"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for told in [
        "T-1 is completed and merged as",
        "F1 of pr_gate, verified",
        "F1 of qa, verified",
        "F1 of system, verified",
        "Mention languages in the readme  cell_parent completed by be-pm",
        "Write the page about languages  leaf completed by ux-pm",
    ] {
        assert!(ran.out.contains(told), "{told:?} is not in {}", ran.out);
    }
}

#[test]
fn a_temporary_demo_leaves_nothing_behind() {
    let place = Place::new();
    let ran = place.roboco_plain(&["demo", "--yes"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains(&format!("data        {}", place.path("tmp").display())), "{}", ran.out);
    assert_eq!(std::fs::read_dir(place.path("tmp")).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(place.path("run/roboco")).unwrap().count(), 0, "the socket's folder is gone too");
}
