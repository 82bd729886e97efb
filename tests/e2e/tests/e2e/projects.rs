//! Adding repositories, and everything that can be wrong with one.

use roboco_e2e::Place;

#[test]
fn a_repository_that_cannot_be_used_is_refused_with_what_to_do() {
    let mut place = Place::new();
    let _server = place.up();
    place.repository("empty", &[]);
    std::fs::create_dir(place.path("plain")).unwrap();
    let good = place.repository("good", &[("a.txt", "a\n")]);
    place.git(&good, &["checkout", "--quiet", "--detach"]);
    for (origin, parts) in [
        ("plain", &["is not a git repository", "git init"][..]),
        ("nowhere", &["is not a git repository"]),
        ("empty", &["has no commit yet", "git commit"]),
        ("good", &["HEAD", "check out the branch"]),
        ("https://ada:s3cretword@git.example.org/x", &["token as credential"]),
        ("http://git.example.org/x", &["use https"]),
        ("file:///tmp/x", &["without file://"]),
        ("ext::sh -c id", &["remote helpers are not accepted"]),
    ] {
        let ran = place.roboco(&["project", "add", origin, "--cell", "backend"]);
        assert_eq!(ran.code, 2, "{origin}: {ran:?}");
        for part in parts {
            assert!(ran.err.contains(part), "{origin}: {part:?} is missing in {}", ran.err);
        }
        assert!(!ran.err.contains("s3cretword") && !ran.out.contains("s3cretword"), "{ran:?}");
    }
    place.git(&good, &["checkout", "--quiet", "main"]);
    let cell = place.roboco(&["project", "add", "good", "--cell", "kitchen"]);
    assert!(cell.code == 2 && cell.err.contains("backend, frontend, ux_ui"), "{cell:?}");
    assert_eq!(place.json(&["project", "list", "--json"])["items"].as_array().unwrap().len(), 0);
    let stores = std::fs::read_dir(place.data().join("repos")).unwrap().count();
    assert_eq!(stores, 0, "a repository that was refused leaves nothing behind");
}

#[test]
fn a_repository_is_added_once_under_its_name() {
    let mut place = Place::new();
    let _server = place.up();
    place.repository("My Greeter", &[("a.txt", "a\n")]);
    let added = place.roboco(&["project", "add", "My Greeter", "--cell", "backend", "--test", "true", "--protect", "ci/**"]);
    assert_eq!(added.code, 0, "{added:?}");
    assert!(added.out.contains("project my-greeter added: work lands on main"), "{}", added.out);
    assert!(!added.out.contains("no checks"), "{}", added.out);
    let twice = place.roboco(&["project", "add", "My Greeter", "--cell", "backend"]);
    assert!(twice.code == 75 && twice.err.contains("--slug"), "{twice:?}");
    let other = place.roboco(&["project", "add", "My Greeter", "--cell", "backend", "--slug", "second"]);
    assert!(other.code == 0 && other.out.contains("no checks are configured"), "{other:?}");
    let list = place.json(&["project", "list", "--json"]);
    let slugs: Vec<&str> = list["items"].as_array().unwrap().iter().map(|p| p["slug"].as_str().unwrap()).collect();
    assert_eq!(slugs, ["my-greeter", "second"]);
    assert_eq!(list["items"][0]["commands"]["test"], "true");
    assert!(list["items"][0]["protected_paths"].as_array().unwrap().contains(&"ci/**".into()));
    let table = place.roboco(&["project", "list"]);
    assert!(table.out.contains("my-greeter") && table.out.contains("read, write"), "{}", table.out);
}
