//! The names of environment variables: which setting each stands for, which belong to others, and which are gone.

/// Every variable of ours starts with this.
pub(super) const PREFIX: &str = "ROBOCO_";

/// Short forms of settings.
pub(super) const SHORT: &[(&str, &str)] = &[
    ("HOST", "server.host"),
    ("PORT", "server.port"),
    ("PUBLIC_BASE_URL", "server.public_base_url"),
    ("DATABASE_URL", "database.url"),
    ("LOG", "log.filter"),
];

/// Variables that are read, but not as settings: places, and secrets that are kept out of files.
pub(super) const APART: &[(&str, &str)] = &[
    ("CONFIG", "the settings file, instead of looking for one"),
    ("DATA_DIR", "the data directory"),
    ("TOKEN", "the CEO's token, for commands that run where the data directory is not"),
    ("AGENT_AUTH_SECRET", "the secret that signs the tokens of agents, at least 32 characters, instead of the one in `secrets.toml`"),
    ("ENCRYPTION_KEY", "accepted for scripts that set it; this version stores nothing encrypted, so it has no effect yet"),
];

/// Variables of programs inside a sandbox, and of this repository's own tests. They are not for the server.
const OTHERS: &[&str] = &[
    "AGENT_ID",
    "AGENT_ROLE",
    "AGENT_TEAM",
    "AGENT_TOKEN",
    "ALLOW_FULL_TOOLSET",
    "API_URL",
    "BIN",
    "BRANCH",
    "FLOW_VERB_SLOW_TIMEOUT_SECONDS",
    "FLOW_VERB_TIMEOUT_SECONDS",
    "GATEWAY_ENABLED",
    "ORCHESTRATOR_URL",
    "PROJECT_SLUG",
    "SANDBOX",
    "SANDBOX_LABELS",
    "SDK_URL",
    "TOOL_MANIFEST_PATH",
];

/// What replaced a variable that older installations set.
const GONE: &[(&str, &str)] = &[
    ("REDIS_", "there is no Redis any more: remove it"),
    ("CLOUD_AUTH_", "sign-in is by token: remove it, and see ceo.token in the data directory"),
    ("AGENT_AUTH_REQUIRED", "agents always need a token: remove it"),
    ("PANEL_AGENT_TOKEN", "people have their own token, kept in ceo.token in the data directory: remove it"),
    ("ENVIRONMENT", "there are no modes that change what is checked: remove it"),
    ("DATABASE_", "the database is one address: set ROBOCO_DATABASE_URL"),
    ("WORKSPACES_ROOT", "trees live in the data directory: set ROBOCO_DATA_DIR"),
];

/// What a variable stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The setting at this path.
    Setting(String),
    /// Nothing that is a setting here.
    NotASetting,
    /// A setting that no longer exists; what to do instead.
    Gone(&'static str),
    /// Nobody's; the nearest name that exists, when one is near.
    Unknown(Option<String>),
}

/// What the variable `ROBOCO_{name}` stands for; `keys` are the paths of every setting.
pub(super) fn meaning(name: &str, keys: &[String]) -> Meaning {
    if let Some((_, key)) = SHORT.iter().find(|(short, _)| *short == name) {
        return Meaning::Setting((*key).to_owned());
    }
    if APART.iter().any(|(apart, _)| *apart == name) || OTHERS.contains(&name) || name.starts_with("TEST_") {
        return Meaning::NotASetting;
    }
    if name.contains("__") {
        let path = name.split("__").map(str::to_ascii_lowercase).collect::<Vec<_>>().join(".");
        return if is_setting(&path, keys) { Meaning::Setting(path) } else { Meaning::Unknown(nearest_variable(name, keys)) };
    }
    let gone = |(old, _): &&(&str, &str)| if old.ends_with('_') { name.starts_with(*old) } else { name == *old };
    if let Some((_, instead)) = GONE.iter().find(gone) {
        return Meaning::Gone(instead);
    }
    Meaning::Unknown(nearest_variable(name, keys))
}

/// Whether a path names a setting, or an entry of a setting that is a table of free names.
pub(super) fn is_setting(path: &str, keys: &[String]) -> bool {
    keys.iter().any(|key| match key.strip_suffix(".*") {
        Some(table) => path.strip_prefix(table).and_then(|rest| rest.strip_prefix('.')).is_some_and(|name| !name.contains('.')),
        None => key == path,
    })
}

fn nearest_variable(name: &str, keys: &[String]) -> Option<String> {
    let long = keys.iter().map(|key| key.to_ascii_uppercase().replace('.', "__"));
    let short = SHORT.iter().map(|(short, _)| (*short).to_owned()).chain(APART.iter().map(|(apart, _)| (*apart).to_owned()));
    let dotted = name.replace("__", "_");
    let known: Vec<String> = short.chain(long).collect();
    // One underscore instead of two is the likeliest slip.
    let slip = known.iter().find(|candidate| candidate.replace("__", "_") == dotted).cloned();
    slip.or_else(|| nearest(name, known.iter().map(String::as_str)).map(str::to_owned)).map(|found| format!("{PREFIX}{found}"))
}

/// The candidate that differs least from `word`, when it differs by at most a third of its letters.
pub(super) fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, candidate) = candidates.map(|candidate| (distance(word, candidate), candidate)).min_by_key(|(d, _)| *d)?;
    (distance <= (candidate.chars().count() / 3).max(1)).then_some(candidate)
}

/// Letters to insert, delete, replace or swap with their neighbour between two words.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // Row i holds the distances between the first i letters of `a` and every beginning of `b`.
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    let cell = |rows: &[Vec<usize>], i: usize, j: usize| rows.get(i).and_then(|row| row.get(j)).copied().unwrap_or(usize::MAX / 2);
    for (i, letter) in a.iter().enumerate() {
        rows.push(vec![i + 1]);
        for (j, other) in b.iter().enumerate() {
            let replaced = cell(&rows, i, j) + usize::from(letter != other);
            let mut least = replaced.min(cell(&rows, i, j + 1) + 1).min(cell(&rows, i + 1, j) + 1);
            if i > 0 && j > 0 && a.get(i - 1) == Some(other) && b.get(j - 1) == Some(letter) {
                least = least.min(cell(&rows, i - 1, j - 1) + 1);
            }
            if let Some(row) = rows.last_mut() {
                row.push(least);
            }
        }
    }
    cell(&rows, a.len(), b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_letters() {
        for (a, b, d) in
            [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("abc", "abc", 0), ("port", "prot", 1), ("kitten", "sitting", 3), ("a", "b", 1)]
        {
            assert_eq!(distance(a, b), d, "{a} {b}");
        }
    }

    #[test]
    fn every_variable_has_one_meaning() {
        let keys: Vec<String> = ["server.port", "server.host", "providers.claude.login", "routing.role.*"].map(str::to_owned).into();
        let setting = |path: &str| Meaning::Setting(path.to_owned());
        let near = |name: &str| Meaning::Unknown(Some(name.to_owned()));
        for (name, expected) in [
            ("PORT", setting("server.port")),
            ("SERVER__PORT", setting("server.port")),
            ("PROVIDERS__CLAUDE__LOGIN", setting("providers.claude.login")),
            ("ROUTING__ROLE__QA", setting("routing.role.qa")),
            ("TOKEN", Meaning::NotASetting),
            ("AGENT_ID", Meaning::NotASetting),
            ("TEST_POSTGRES", Meaning::NotASetting),
            ("PROT", near("ROBOCO_PORT")),
            ("SERVER_PORT", near("ROBOCO_SERVER__PORT")),
            ("SERVER__PROT", near("ROBOCO_SERVER__PORT")),
            ("XYZZY", Meaning::Unknown(None)),
        ] {
            assert_eq!(meaning(name, &keys), expected, "{name}");
        }
        for name in ["REDIS_URL", "CLOUD_AUTH_DOMAIN", "AGENT_AUTH_REQUIRED", "PANEL_AGENT_TOKEN", "ENVIRONMENT", "DATABASE_HOST"] {
            assert!(matches!(meaning(name, &keys), Meaning::Gone(_)), "{name}");
        }
    }
}
