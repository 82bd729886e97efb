//! The default company is data, so nothing but these tests reads it as a whole before it runs.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot read its data fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use toml::{Table, Value};

fn company() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../company")
}

fn read(path: &str) -> Table {
    let file = company().join(path);
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn text<'a>(table: &'a Value, key: &str) -> &'a str {
    table.get(key).and_then(Value::as_str).unwrap_or_else(|| panic!("no text {key:?} in {table}"))
}

#[test]
fn the_roster_has_twenty_eight_distinct_identities() {
    let roster = read("roster.toml");
    let agents = roster["agent"].as_array().unwrap();
    let slugs: BTreeSet<&str> = agents.iter().map(|agent| text(agent, "slug")).collect();
    let ids: BTreeSet<&str> = agents.iter().map(|agent| text(agent, "id")).collect();
    let names: BTreeSet<&str> = agents.iter().map(|agent| text(agent, "name")).collect();
    assert_eq!((agents.len(), slugs.len(), ids.len(), names.len()), (28, 28, 28, 28));
    let group = |team: &str| match team {
        "system" => "0000",
        "backend" => "0001",
        "frontend" => "0002",
        "ux_ui" => "0003",
        "main_pm" | "board" => "0004",
        other => panic!("unknown team {other}"),
    };
    for agent in agents {
        let expected = if text(agent, "role") == "ceo" { "0000" } else { group(text(agent, "team")) };
        assert_eq!(text(agent, "id").split('-').nth(3), Some(expected), "{agent}");
    }
}

#[test]
fn every_cell_can_deliver() {
    let roster = read("roster.toml");
    for cell in roster["cell"].as_array().unwrap() {
        let mut roles: BTreeMap<&str, usize> = BTreeMap::new();
        for agent in roster["agent"].as_array().unwrap().iter().filter(|agent| text(agent, "team") == text(cell, "slug")) {
            *roles.entry(text(agent, "role")).or_default() += 1;
        }
        let expected = BTreeMap::from([("cell_pm", 1), ("developer", 2), ("documenter", 1), ("pr_reviewer", 1), ("qa", 1)]);
        assert_eq!(roles, expected, "{cell}");
    }
}

#[test]
fn every_role_that_runs_has_a_tier_and_no_other() {
    let roster = read("roster.toml");
    let role_of = |agent| text(agent, "role");
    let mut running: BTreeSet<&str> = roster["agent"].as_array().unwrap().iter().map(role_of).collect();
    assert!(running.remove("ceo") && running.remove("system"));
    let rows = roster["role"].as_table().unwrap();
    assert_eq!(rows.keys().map(String::as_str).collect::<BTreeSet<_>>(), running);
    for (name, row) in rows {
        let rank = |key| ["standard", "strong"].iter().position(|tier| *tier == text(row, key));
        assert!(rank("tier") >= rank("floor") && rank("floor").is_some(), "{name}: {row}");
        assert!(["default", "medium"].contains(&text(row, "effort")), "{name}: {row}");
    }
}

#[test]
fn prompts_render_with_everything_they_name_and_stay_short() {
    let mut templates = minijinja::Environment::new();
    templates.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    templates.set_loader(minijinja::path_loader(company().join("prompts")));
    let facts = minijinja::context! {
        agent => "be-dev-1", role => "developer", team => "backend", project => "greeter", verbs => "VERB TABLE", limits => "LIMIT LIST",
    };
    for role in ["base", "developer", "qa", "documenter", "cell_pm", "main_pm", "pr_reviewer"] {
        let prompt = templates.get_template(&format!("{role}.md")).unwrap().render(&facts).unwrap();
        for part in ["be-dev-1", "backend", "greeter", "VERB TABLE", "LIMIT LIST", "## Rules for everybody"] {
            assert_eq!(prompt.matches(part).count(), 1, "{part} in {role}:\n{prompt}");
        }
        assert_eq!(prompt.contains("## Your role"), role != "base", "{prompt}");
        // Four bytes are about one token; verbs and limits come on top.
        assert!(prompt.len() / 4 < 900, "{role} has {} bytes", prompt.len());
    }
}

/// All strings of a value, at any depth.
fn strings<'a>(value: &'a Value, into: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => into.push(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, into)),
        Value::Table(table) => table.values().for_each(|item| strings(item, into)),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {}
    }
}

fn all_plays() -> Vec<Value> {
    read("demo/play.toml")["play"].as_array().unwrap().clone()
}

/// The title that a play is for; empty when it is for any.
fn title(play: &Value) -> &str {
    play["when"].get("task").and_then(Value::as_str).unwrap_or_default()
}

/// The plays of the demo's one task; those of the whole company speak of other tasks.
fn plays() -> Vec<Value> {
    all_plays().into_iter().filter(|play| title(play).starts_with("Greet several")).collect()
}

fn steps(play: &Value) -> &[Value] {
    play["steps"].as_array().unwrap()
}

#[test]
fn plays_fit_the_task_of_the_demo() {
    let task = read("demo/task.toml");
    let criteria = task["criteria"].as_array().unwrap().len();
    for play in &plays() {
        let title = title(play);
        assert!(task["title"].as_str().unwrap().starts_with(title.trim_end_matches('*')), "{title}");
        let mut all = Vec::new();
        strings(play, &mut all);
        for wanted in all.iter().filter_map(|text| text.strip_prefix("{{ criteria[")).filter_map(|rest| rest.split(']').next()) {
            assert!(wanted.parse::<usize>().unwrap() < criteria, "criterion {wanted} in a play of {}", text(play, "role"));
        }
        for step in steps(play).iter().filter(|step| step.get("args").is_some()) {
            let own = text(step, "call") == "commit" || text(&step["args"], "task_id") == "{{ task }}";
            assert!(own, "{step}");
        }
    }
}

#[test]
fn every_judgement_names_every_criterion() {
    let criteria = read("demo/task.toml")["criteria"].as_array().unwrap().len();
    let plays = plays();
    let calls = plays.iter().flat_map(steps).filter(|step| step.get("call").is_some());
    let mut judged = 0;
    for step in calls {
        let key = match text(step, "call") {
            "i_am_done" => "criteria",
            "pass" => "criteria_verified",
            _ => continue,
        };
        assert_eq!(step["args"][key].as_array().unwrap().len(), criteria, "{step}");
        judged += 1;
    }
    assert_eq!(judged, 3, "two rounds of the developer and one of QA");
}

#[test]
fn every_part_of_the_whole_company_has_somebody_who_plays_it() {
    let plays = all_plays();
    let played = |role: &str, verb: &str, task: &str| {
        let fits = |play: &Value| text(play, "role") == role && text(&play["when"], "verb") == verb && title(play) == task;
        plays.iter().any(fits)
    };
    assert!(played("main_pm", "i_will_plan", read("demo/root.toml")["title"].as_str().unwrap()));
    let mut given_out = 0;
    for step in plays.iter().flat_map(steps) {
        if let Some(file) = step.get("file").and_then(Value::as_str) {
            assert!(company().join("demo").join(file).is_file(), "{file}");
        }
        if step.get("call").and_then(Value::as_str) == Some("delegate") {
            let part = &step["args"];
            let (role, verb) = if text(part, "type") == "planning" { ("cell_pm", "i_will_plan") } else { ("developer", "i_will_work_on") };
            assert!(played(role, verb, text(part, "title")), "nobody plays {}", text(part, "title"));
            given_out += 1;
        }
    }
    assert_eq!(given_out, 10, "four cells and six leaves");
}

#[expect(clippy::disallowed_methods, reason = "the product's process wrapper is not a dependency of xtask")]
fn tests_pass_in(folder: &Path) -> bool {
    let output = std::process::Command::new("node").arg("--test").current_dir(folder).env_clear().env("PATH", path()).output();
    output.expect("node must be installed to run the demo's own tests").status.success()
}

fn path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Writes what the plays of these roles write, into a copy of the sample repository.
fn written_by(roles: &[&str], into: &Path) {
    copy(&company().join("demo/repo"), into);
    for play in plays().iter().filter(|play| roles.contains(&text(play, "role"))) {
        for step in steps(play).iter().filter(|step| step.get("write").is_some()) {
            let target = into.join(text(step, "write"));
            std::fs::create_dir_all(target.parent().unwrap()).unwrap();
            std::fs::copy(company().join("demo").join(text(step, "file")), target).unwrap();
        }
    }
}

#[test]
fn the_sample_repository_passes_before_and_after_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = (folder.path().join("before"), folder.path().join("after"));
    copy(&company().join("demo/repo"), &before);
    assert!(tests_pass_in(&before));
    written_by(&["developer", "documenter"], &after);
    assert!(tests_pass_in(&after));
}

#[test]
fn the_new_tests_fail_without_the_work() {
    let folder = tempfile::tempdir().unwrap();
    written_by(&["developer"], folder.path());
    std::fs::copy(company().join("demo/repo/src/greet.js"), folder.path().join("src/greet.js")).unwrap();
    assert!(!tests_pass_in(folder.path()));
}

#[test]
fn the_documents_show_what_the_work_added() {
    let folder = tempfile::tempdir().unwrap();
    written_by(&["documenter"], folder.path());
    for file in ["README.md", "docs/usage.md", "CHANGELOG.md"] {
        let (old, new) = (company().join("demo/repo").join(file), folder.path().join(file));
        assert_ne!(std::fs::read_to_string(old).unwrap(), std::fs::read_to_string(new).unwrap(), "{file}");
    }
}
