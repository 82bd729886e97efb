//! A company in a folder of its own: what it says must be what runs.

use std::path::Path;

use roboco_e2e::{PATIENCE, Place, until};

/// Copies the company of this repository.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

#[test]
fn another_verdict_in_the_play_changes_the_run() {
    let mut place = Place::new();
    let company = place.path("company");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../company"), &company);
    let play = company.join("demo/play.toml");
    let text = std::fs::read_to_string(&play).unwrap();
    let start = text.find("{ call = \"pass\"").unwrap();
    let end = start + text[start..].find("] } },").unwrap() + "] } },".len();
    let fail = "{ call = \"fail\", args = { task_id = \"{{ task }}\", notes = \"An empty list must be told apart from one name.\", findings = [\
                { severity = \"major\", criterion = \"{{ criteria[0].id }}\", file = \"src/join.js\", expected = \"a clear error\", actual = \"nothing is said about it\", fix = \"say it\" } ] } },";
    std::fs::write(&play, format!("{}{fail}{}", &text[..start], &text[end..])).unwrap();
    std::fs::write(place.path("t.toml"), std::fs::read_to_string(company.join("demo/task.toml")).unwrap()).unwrap();
    copy(&company.join("demo/repo"), &place.path("greeter"));
    place.repository("greeter", &[("extra.txt", "x\n")]);

    place.variables.push(("ROBOCO_COMPANY__DIR".into(), company.display().to_string()));
    place.variables.push(("ROBOCO_ROUTING__DEFAULT".into(), "scripted".into()));
    let _server = place.up();
    assert_eq!(place.roboco(&["project", "add", "greeter", "--cell", "backend", "--test", "node --test"]).code, 0);
    let given = place.roboco(&["task", "new", "--file", "t.toml"]);
    assert_eq!(given.code, 0, "{given:?}");
    until(PATIENCE, "QA sends the work back", || {
        let view = place.json(&["task", "show", "T-1", "--json"]);
        view["findings"].as_array().unwrap().iter().any(|finding| finding["origin"] == "qa" && finding["severity"] == "major")
    });
}
