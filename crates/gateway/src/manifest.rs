//! What a role is given: the tools of its door and the abilities of its client. Derived from the rules, never typed.

use roboco_domain::decide::standard_rules;
use roboco_domain::role::Role;
use roboco_domain::verb::Verb;
use serde_json::{Value, json};

/// The verbs of a role that agents reach under `/api/v1/flow`, by name.
pub(crate) fn flow(role: Role) -> Vec<Verb> {
    let mut verbs: Vec<Verb> = standard_rules().granted(role).into_iter().filter(|verb| verb.is_flow()).collect();
    verbs.sort_by_key(|verb| verb.as_str());
    verbs
}

/// The tools of a role that agents reach under `/api/v1/do`, in the order of the registry.
pub(crate) fn tools(role: Role) -> Vec<Verb> {
    standard_rules().granted(role).into_iter().filter(|verb| verb.is_do()).collect()
}

/// The manifest of a role: its verbs by name, its tools in the order of the registry, and what its client may do to files.
pub fn manifest(role: Role) -> Value {
    let write_tools: &[&str] = if Role::AUTHORS.contains(&role) { &["Edit", "Write"] } else { &[] };
    json!({
        "role": role,
        "flow_tools": flow(role),
        "do_tools": tools(role),
        "read_tools": ["Read", "Glob", "Grep"],
        "write_tools": write_tools,
        "bash_allowed": true,
        "subagent_allowed": false,
    })
}
