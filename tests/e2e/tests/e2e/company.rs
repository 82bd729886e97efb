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
fn another_task_and_another_verdict_change_the_run() {
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
    let task = company.join("demo/task.toml");
    let renamed = std::fs::read_to_string(&task).unwrap().replace("Greet several people at once", "Greet several of them");
    std::fs::write(&task, renamed).unwrap();

    place.variables.push(("ROBOCO_COMPANY__DIR".into(), company.display().to_string()));
    let mut demo = place.start(&["demo"]);
    demo.says("Greet several of them");
    demo.says("be-qa     fail");
    until(PATIENCE, "QA sends the work back", || {
        let view = place.json(&["task", "show", "T-1", "--json"]);
        view["findings"].as_array().unwrap().iter().any(|finding| finding["origin"] == "qa" && finding["severity"] == "major")
    });
}
