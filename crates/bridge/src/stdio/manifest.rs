//! Which tools a server offers: what the registry grants the role, cut to the manifest when there is one.
//!
//! The manifest is a file of the spawn. One that is named but cannot be read is a fault of the spawn and stops the server, unless the
//! environment allows everything; where none is named and the usual place is empty, the registry alone says what the role may call.

use std::path::{Path, PathBuf};

use roboco_domain::decide::standard_rules;
use roboco_domain::role::{Role, Team};
use roboco_domain::verb::Verb;
use serde_json::Value;

/// One of the two servers of an agent: verbs that move tasks, or tools that write and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Namespace {
    Flow,
    Do,
}

impl Namespace {
    /// The name it gives itself.
    pub(crate) const fn server(self) -> &'static str {
        match self {
            Self::Flow => "roboco-flow",
            Self::Do => "roboco-do",
        }
    }

    /// The word behind `roboco bridge`.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Flow => "flow",
            Self::Do => "do",
        }
    }

    /// Where a verb is called.
    pub(crate) fn path(self, role: Role, verb: &str) -> String {
        match self {
            Self::Flow => format!("/api/v1/flow/{}/{verb}", role.route()),
            Self::Do => format!("/api/v1/do/{verb}"),
        }
    }

    const fn field(self) -> &'static str {
        match self {
            Self::Flow => "flow_tools",
            Self::Do => "do_tools",
        }
    }

    const fn holds(self, verb: Verb) -> bool {
        match self {
            Self::Flow => verb.is_flow(),
            Self::Do => verb.is_do(),
        }
    }

    /// The verbs of a role, flow verbs by name and tools in the order of the registry.
    fn granted(self, role: Role) -> Vec<Verb> {
        let mut verbs: Vec<Verb> = standard_rules().granted(role).into_iter().filter(|verb| self.holds(*verb)).collect();
        if self == Self::Flow {
            verbs.sort_by_key(|verb| verb.as_str());
        }
        verbs
    }

    fn everything(self) -> Vec<Verb> {
        Verb::ALL.iter().copied().filter(|verb| self.holds(*verb)).collect()
    }
}

/// What happens when a manifest should be there and is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fallback {
    Refuse,
    /// For tests and development: every verb there is.
    Everything,
}

/// Where the manifest is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// The file that the environment names.
    pub(crate) named: Option<PathBuf>,
    /// Where it is when the environment names none.
    pub(crate) usual: PathBuf,
    pub(crate) fallback: Fallback,
}

/// What is offered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tools {
    pub(crate) verbs: Vec<Verb>,
    /// The agent's team, when the manifest names one.
    pub(crate) team: Option<Team>,
    pub(crate) warnings: Vec<String>,
}

/// The manifest is of no use.
#[derive(Debug, thiserror::Error)]
#[error(
    "the tool manifest {path} of the role {role} {cause}; start the agent again so that it is written anew, or set ROBOCO_ALLOW_FULL_TOOLSET \
     for a test"
)]
pub(crate) struct ManifestError {
    path: String,
    role: Role,
    cause: String,
}

/// Reads what a server offers to a role.
///
/// # Errors
/// The manifest is missing or broken and nothing else was allowed.
pub(crate) fn tools(namespace: Namespace, role: Role, source: &Source) -> Result<Tools, ManifestError> {
    let path = match (&source.named, source.fallback) {
        (Some(path), _) => path,
        (None, Fallback::Refuse) if !source.usual.exists() => {
            return Ok(Tools { verbs: namespace.granted(role), team: None, warnings: Vec::new() });
        }
        (None, _) => &source.usual,
    };
    match read(namespace, path) {
        Ok((names, team)) => {
            let (verbs, warnings) = choose(namespace, role, &names);
            Ok(Tools { verbs, team, warnings })
        }
        Err(cause) if source.fallback == Fallback::Everything => {
            let warning = format!("the tool manifest {} of the role {role} {cause}; every tool is offered", path.display());
            Ok(Tools { verbs: namespace.everything(), team: None, warnings: vec![warning] })
        }
        Err(cause) => Err(ManifestError { path: path.display().to_string(), role, cause }),
    }
}

/// The names in the manifest and the team it belongs to, or what is wrong with it.
fn read(namespace: Namespace, path: &Path) -> Result<(Vec<Value>, Option<Team>), String> {
    let bytes = std::fs::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    let mut manifest: Value = serde_json::from_slice(&bytes).map_err(|error| format!("is no JSON: {error}"))?;
    let team = manifest.get("team").and_then(Value::as_str).and_then(|team| team.parse().ok());
    match manifest.get_mut(namespace.field()).map(Value::take) {
        Some(Value::Array(names)) => Ok((names, team)),
        _ => Err(format!("has no list {}", namespace.field())),
    }
}

/// The verbs among the names, in their order and once each, and a warning about the others.
fn choose(namespace: Namespace, role: Role, names: &[Value]) -> (Vec<Verb>, Vec<String>) {
    let granted = namespace.granted(role);
    let mut verbs = Vec::new();
    let mut unknown = Vec::new();
    for name in names {
        let public = match name.as_str().unwrap_or_default() {
            "pass_review" => "pass",
            "fail_review" => "fail",
            other => other,
        };
        match granted.iter().find(|verb| verb.as_str() == public) {
            Some(verb) if verbs.contains(verb) => {}
            Some(verb) => verbs.push(*verb),
            None => unknown.push(name.as_str().map_or_else(|| name.to_string(), str::to_owned)),
        }
    }
    unknown.sort_unstable();
    let warning = format!("the tool manifest names what the role {role} does not have in {}: {}", namespace.server(), unknown.join(", "));
    (verbs, if unknown.is_empty() { Vec::new() } else { vec![warning] })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(tools: &Tools) -> Vec<&str> {
        tools.verbs.iter().map(|verb| verb.as_str()).collect()
    }

    #[test]
    fn a_manifest_that_is_of_no_use_stops_the_server_unless_everything_is_allowed() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text, says) in [
            ("missing", None, "cannot be read"),
            ("broken", Some("{"), "is no JSON"),
            ("other", Some("[]"), "has no list flow_tools"),
            ("text", Some(r#"{"flow_tools": "give_me_work"}"#), "has no list flow_tools"),
        ] {
            let path = folder.path().join(name);
            if let Some(text) = text {
                std::fs::write(&path, text).unwrap();
            }
            // Named by the environment, or found where it usually is.
            let absent = folder.path().join("nothing");
            for (named, usual) in [(Some(path.clone()), absent), (None, path.clone())] {
                if named.is_none() && text.is_none() {
                    continue;
                }
                let source = Source { named, usual, fallback: Fallback::Refuse };
                let error = tools(Namespace::Flow, Role::Developer, &source).unwrap_err().to_string();
                assert!(error.contains(says) && error.contains(name) && error.contains("developer"), "{error}");
                let all = tools(Namespace::Flow, Role::Developer, &Source { fallback: Fallback::Everything, ..source }).unwrap();
                assert_eq!(all.verbs, Namespace::Flow.everything(), "{name}");
                assert_eq!(all.warnings.len(), 1);
            }
        }
    }

    #[test]
    fn the_manifest_chooses_and_orders_among_the_verbs_of_the_role() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manifest.json");
        let text =
            r#"{"team": "backend", "flow_tools": ["pass_review", "zap", "fail_review", "complete", "i_am_idle", "pass"], "do_tools": []}"#;
        std::fs::write(&path, text).unwrap();
        let source = Source { named: Some(path), usual: PathBuf::new(), fallback: Fallback::Refuse };
        let flow = tools(Namespace::Flow, Role::Qa, &source).unwrap();
        assert_eq!(names(&flow), ["pass", "fail", "i_am_idle"]);
        assert_eq!(flow.team.as_ref().map(Team::as_str), Some("backend"));
        assert!(matches!(&flow.warnings[..], [warning] if warning.ends_with(": complete, zap")), "{:?}", flow.warnings);
        assert!(names(&tools(Namespace::Do, Role::Qa, &source).unwrap()).is_empty());
    }

    #[test]
    fn without_a_manifest_anywhere_the_registry_speaks() {
        let source = Source { named: None, usual: PathBuf::from("/nowhere/at/all"), fallback: Fallback::Refuse };
        for role in Role::DISPATCHED {
            let flow = tools(Namespace::Flow, *role, &source).unwrap();
            assert!(names(&flow).is_sorted() && names(&flow).contains(&"i_am_idle"), "{role}");
            assert!(names(&tools(Namespace::Do, *role, &source).unwrap()).contains(&"evidence"), "{role}");
        }
        let all = Source { fallback: Fallback::Everything, ..source };
        assert_eq!(tools(Namespace::Do, Role::Qa, &all).unwrap().verbs, Namespace::Do.everything());
    }
}
