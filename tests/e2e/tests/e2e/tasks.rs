//! Giving tasks, and what is said about wrong ones.

use std::time::Instant;

use roboco_e2e::{Place, Running};

fn with_project() -> (Place, Running) {
    let mut place = Place::new();
    // Nobody may start to work here: the tests are about the orders.
    place.variables.push(("ROBOCO_ROUTING__DEFAULT".into(), "claude".into()));
    place.variables.push(("ROBOCO_PROVIDERS__CLAUDE__COMMAND".into(), "/no/such/client".into()));
    let server = place.up();
    place.repository("greeter", &[("a.txt", "a\n")]);
    let added = place.roboco(&["project", "add", "greeter", "--cell", "backend", "--test", "true"]);
    assert_eq!(added.code, 0, "{added:?}");
    (place, server)
}

const WHOLE: &[&str] = &[
    "task",
    "new",
    "--project=greeter",
    "--type=code",
    "--nature=technical",
    "--complexity=low",
    "--title=Greet several people",
    "--description=greet() takes one name; accept a list as well.",
    "--criterion=a list of two names is greeted",
    "--backlog",
];

#[test]
fn everything_missing_is_listed_in_one_answer() {
    let (place, _server) = with_project();
    let ran = place.roboco(&["task", "new", "--title", "Greet"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    for option in ["--project", "--type: one of code", "--nature", "--complexity: one of low, medium, high", "--description", "--criterion"]
    {
        assert!(ran.err.contains(option), "{option}: {}", ran.err);
    }
    assert!(!ran.err.contains("--title"), "{}", ran.err);
    assert_eq!(place.json(&["task", "list", "--all", "--json"])["items"].as_array().unwrap().len(), 0);
}

#[test]
fn a_task_is_given_by_options_or_by_a_file() {
    let (place, _server) = with_project();
    let by_options = place.roboco(WHOLE);
    assert!(by_options.code == 0 && by_options.out.contains("T-1 created: Greet several people"), "{by_options:?}");
    std::fs::write(
        place.path("t.toml"),
        "project = \"greeter\"\ntype = \"code\"\nnature = \"technical\"\ncomplexity = \"low\"\ntitle = \"From a \\u001b[31mfile\"\n\
         description = \"greet() takes one name; accept a list as well.\"\ncriteria = [\"it works with two names\"]\nbacklog = true\n",
    )
    .unwrap();
    let odd = place.roboco(&["task", "new", "--file", "t.toml"]);
    assert!(odd.code == 2 && odd.err.contains("title") && !odd.err.contains('\u{1b}'), "control characters are refused: {odd:?}");
    let by_file = place.roboco(&["task", "new", "--file", "t.toml", "--title", "From a file", "--priority", "0"]);
    assert!(by_file.code == 0 && by_file.out.contains("T-2 created: From a file"), "{by_file:?}");
    let view = place.json(&["task", "show", "T-2", "--json"]);
    assert_eq!((view["priority"].as_u64(), view["project"].as_str(), view["status"].as_str()), (Some(0), Some("greeter"), Some("backlog")));
    std::fs::write(place.path("wrong.toml"), "titel = \"x\"").unwrap();
    let wrong = place.roboco(&["task", "new", "--file", "wrong.toml"]);
    assert!(wrong.code == 2 && wrong.err.contains("titel") && wrong.err.contains("wrong.toml"), "{wrong:?}");
}

#[test]
fn wrong_values_are_named_with_the_right_ones() {
    let (place, _server) = with_project();
    for (option, part) in [
        ("--project=other", "roboco project list"),
        ("--type=poem", "code"),
        ("--team=kitchen", "backend, frontend, ux_ui"),
        ("--description=short", "at least 20 characters"),
        ("--depends-on=T-99", "T-99"),
        ("--priority=9", "0 (most urgent) to 3"),
    ] {
        let name = option.split('=').next().unwrap();
        let mut words: Vec<&str> = WHOLE.iter().copied().filter(|word| !word.starts_with(&format!("{name}="))).collect();
        words.push(option);
        let ran = place.roboco(&words);
        assert_eq!(ran.code, 2, "{option}: {ran:?}");
        assert!(ran.err.contains(part), "{option}: {}", ran.err);
    }
    assert_eq!(place.json(&["task", "list", "--all", "--json"])["items"].as_array().unwrap().len(), 0);
}

#[test]
fn ten_megabytes_of_description_are_refused_at_once_on_every_way() {
    let (place, _server) = with_project();
    let long = "x".repeat(10 << 20);
    std::fs::write(
        place.path("t.toml"),
        format!(
            "project = \"greeter\"\ntype = \"code\"\nnature = \"technical\"\ncomplexity = \"low\"\ntitle = \"Long\"\ndescription = \"{long}\"\n\
             criteria = [\"it works with two names\"]\n"
        ),
    )
    .unwrap();
    let begun = Instant::now();
    let ran = place.roboco(&["task", "new", "--file", "t.toml"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("at most 32768 bytes; this has 10485760"), "{}", ran.err);
    let body = serde_json::json!({ "project": "greeter", "title": "Long", "description": long }).to_string();
    let (status, answer) = place.http("POST", "/api/tasks", Some(&place.token()), &body);
    assert_eq!(status, 413, "{answer}");
    assert!(begun.elapsed().as_secs() < 20, "it took {:?}", begun.elapsed());
    assert_eq!(place.roboco(&["task", "list"]).code, 0, "the server is well");
}

#[test]
fn commands_on_tasks_that_do_not_fit_say_why() {
    let (place, _server) = with_project();
    assert_eq!(place.roboco(WHOLE).code, 0);
    for (command, code, part) in [
        (&["approve", "T-1"][..], 75, "T-1"),
        (&["resume", "T-1"], 75, ""),
        (&["approve", "T-99"], 2, "T-99"),
        (&["task", "show", "../agents"], 2, "is no task"),
        (&["reject", "T-1"], 2, "<REASON>"),
        (&["logs", "T-1/9"], 2, "T-1/9"),
        (&["logs", "T-1/x"], 2, "is no run"),
    ] {
        let ran = place.roboco(command);
        assert_eq!(ran.code, code, "{command:?}: {ran:?}");
        assert!(ran.err.contains(part), "{command:?}: {}", ran.err);
    }
    let paused = place.roboco(&["pause", "T-1"]);
    assert_eq!(paused.code, 0, "{paused:?}");
    let watched = place.roboco(&["task", "watch", "T-1"]);
    assert_eq!(watched.code, 3, "{watched:?}");
    assert!(watched.err.contains("resume T-1"), "{}", watched.err);
    assert_eq!(place.roboco(&["resume", "T-1"]).code, 0);
    assert_eq!(place.roboco(&["cancel", "T-1", "not wanted any longer"]).code, 0);
    let cancelled = place.roboco(&["task", "watch", "T-1"]);
    assert_eq!(cancelled.code, 3, "{cancelled:?}");
}
