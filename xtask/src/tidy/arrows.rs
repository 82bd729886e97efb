//! Which crate may depend on which. The arrows point one way:
//! `domain ← store ← company ← {gateway, egress, runtime, server} ← roboco`, and the rooms at the side know `domain` and `process` only.

use super::Problem;
use crate::workspace::{Kind, Package};

/// Where a crate stands and whom it may know. A crate that is not listed is refused until somebody decides where it belongs.
struct Room {
    name: &'static str,
    knows: &'static [&'static str],
}

const PREFIX: &str = "roboco-";

const ROOMS: &[Room] = &[
    Room { name: "domain", knows: &[] },
    Room { name: "process", knows: &[] },
    Room { name: "store", knows: &["domain"] },
    Room { name: "company", knows: &["domain", "store"] },
    Room { name: "git", knows: &["domain", "process"] },
    Room { name: "forge", knows: &["domain", "process"] },
    Room { name: "providers", knows: &["domain", "process"] },
    Room { name: "sandbox", knows: &["domain", "process"] },
    Room { name: "bridge", knows: &["domain"] },
    Room { name: "gateway", knows: &["domain", "store", "company"] },
    Room { name: "egress", knows: &["domain", "store", "company"] },
    Room { name: "runtime", knows: &["domain", "store", "company", "process", "git", "forge", "providers", "sandbox"] },
    Room { name: "server", knows: &["domain", "store", "company", "gateway"] },
    Room { name: "sim", knows: &["domain", "store", "company", "runtime"] },
];

/// The binary may know every room, and nobody may know the binary.
const BINARY: &str = "roboco";

/// What would bring a runtime, input and output, a clock or randomness into the rules.
const IMPURE: &[&str] = &[
    "async-trait",
    "axum",
    "chrono",
    "fastrand",
    "futures",
    "getrandom",
    "http",
    "hyper",
    "jiff",
    "mio",
    "rand",
    "reqwest",
    "rustix",
    "sea-orm",
    "sqlx",
    "tempfile",
    "time",
    "tokio",
    "tracing",
];

/// Every dependency that points the wrong way. Only what is linked counts: a test may use more.
pub(super) fn wrong_dependencies(packages: &[Package]) -> Vec<Problem> {
    packages.iter().filter(|package| is_product(package)).flat_map(of_package).collect()
}

/// Members that are not part of the product (`xtask`, `tests/*`) may depend on anything.
fn is_product(package: &Package) -> bool {
    package.manifest_path.components().rev().nth(2).is_some_and(|folder| folder.as_os_str() == "crates")
}

fn of_package(package: &Package) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut report = |message: String| problems.push(Problem { place: package.name.clone(), message });
    let room = package.name.strip_prefix(PREFIX).and_then(|name| ROOMS.iter().find(|room| room.name == name));
    if room.is_none() && package.name != BINARY {
        report("has no place among the crates: decide what it may know and add it to the table of rooms in xtask".into());
    }
    for dependency in &package.dependencies {
        let name = dependency.name.as_str();
        let linked = dependency.kind != Kind::Dev;
        if name == BINARY {
            report("depends on the binary, which nobody may".into());
        }
        if (name.starts_with("sea-orm") || name.starts_with("sqlx")) && package.name != "roboco-store" {
            report(format!("depends on {name}: only roboco-store knows SQL"));
        }
        let Some(room) = room else { continue };
        if let Some(other) = name.strip_prefix(PREFIX)
            && !room.knows.contains(&other)
            && (linked || room.name == "domain")
        {
            report(format!("depends on {name}: it may know {}", list(room.knows)));
        }
        if room.name == "domain" && linked && IMPURE.iter().any(|impure| name == *impure || name.starts_with(&format!("{impure}-"))) {
            report(format!("depends on {name}: the rules have no async, no IO, no clock and no randomness"));
        }
    }
    problems
}

fn list(rooms: &[&str]) -> String {
    if rooms.is_empty() { "no crate of ours".into() } else { format!("only {}", rooms.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn package(name: &str, dependencies: &[(&str, Kind)]) -> Package {
        let folder = name.strip_prefix(PREFIX).unwrap_or(name);
        Package {
            name: name.into(),
            manifest_path: format!("/somewhere/crates/{folder}/Cargo.toml").into(),
            dependencies: dependencies.iter().map(|(name, kind)| Dependency { name: (*name).into(), kind: *kind }).collect(),
            features: Default::default(),
        }
    }

    #[test]
    fn arrows_point_one_way() {
        let cases = [
            ("roboco-domain", "serde", Kind::Normal, 0),
            ("roboco-domain", "proptest", Kind::Dev, 0),
            ("roboco-domain", "roboco-store", Kind::Normal, 1),
            ("roboco-domain", "roboco-store", Kind::Dev, 1),
            ("roboco-domain", "tokio", Kind::Normal, 1),
            ("roboco-domain", "tokio-util", Kind::Normal, 1),
            ("roboco-domain", "rand", Kind::Build, 1),
            ("roboco-domain", "jiff", Kind::Normal, 1),
            ("roboco-store", "roboco-domain", Kind::Normal, 0),
            ("roboco-store", "sea-orm-migration", Kind::Normal, 0),
            ("roboco-store", "roboco-company", Kind::Normal, 1),
            ("roboco-company", "sea-orm", Kind::Normal, 1),
            ("roboco-company", "sqlx-core", Kind::Dev, 1),
            ("roboco-git", "roboco-process", Kind::Normal, 0),
            ("roboco-git", "roboco-store", Kind::Normal, 1),
            ("roboco-git", "roboco-store", Kind::Dev, 0),
            ("roboco-bridge", "roboco-process", Kind::Normal, 1),
            ("roboco-server", "roboco-git", Kind::Normal, 1),
            ("roboco-gateway", "roboco-runtime", Kind::Normal, 1),
            ("roboco-runtime", "roboco", Kind::Dev, 1),
            ("roboco", "roboco-runtime", Kind::Normal, 0),
            ("roboco", "sea-orm", Kind::Normal, 1),
        ];
        for (name, dependency, kind, expected) in cases {
            let problems = wrong_dependencies(&[package(name, &[(dependency, kind)])]);
            assert_eq!(problems.len(), expected, "{name} -> {dependency} {kind:?}: {problems:?}");
        }
    }

    #[test]
    fn a_new_crate_needs_a_place() {
        assert_eq!(wrong_dependencies(&[package("roboco-common", &[])]).len(), 1);
        let mut tool = package("xtask", &[("roboco", Kind::Normal)]);
        tool.manifest_path = "/somewhere/xtask/Cargo.toml".into();
        assert_eq!(wrong_dependencies(&[tool]), []);
    }
}
