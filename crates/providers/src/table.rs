//! The provider table: facts about each client as data. Model names appear here and nowhere else.

/// Something a client can or cannot do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Takes a message while a turn runs.
    Steer,
    /// Ends a turn on request and keeps the session.
    Interrupt,
    /// Continues a session in a new process.
    Resume,
    /// Good enough for a conversation with a person.
    LiveChat,
    /// Reaches its verbs over HTTP by itself.
    McpHttp,
}

/// What a client can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities(&'static [Capability]);

impl Capabilities {
    /// Whether the client can do it.
    pub fn has(self, capability: Capability) -> bool {
        self.0.contains(&capability)
    }

    /// All of them, for display.
    pub const fn all(self) -> &'static [Capability] {
        self.0
    }
}

/// How strong a model a role asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Everyday work.
    Standard,
    /// Planning and hard problems.
    Strong,
}

/// One provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderRow {
    /// The name used in settings and in `/model/{name}`.
    pub name: &'static str,
    /// The program to look for when the settings name none.
    pub program: &'static str,
    /// Where its model is, when the settings name no other place; absent for clients without a model.
    pub upstream: Option<&'static str>,
    /// What clients may ask there: method and path. The real credential can do much more at the same address, up to making other keys, so
    /// everything that is not listed stays unasked.
    pub requests: &'static [(&'static str, &'static str)],
    /// The user's own credential file, relative to the user's home.
    pub credential_file: Option<&'static str>,
    /// What it can do.
    pub capabilities: Capabilities,
    /// Default model of the standard tier; absent means the client has no models.
    pub standard: Option<&'static str>,
    /// Default model of the strong tier.
    pub strong: Option<&'static str>,
    /// What to do when there is no valid login or key.
    pub remedy: &'static str,
}

impl ProviderRow {
    /// The default model of a tier.
    pub const fn model(&self, tier: Tier) -> Option<&'static str> {
        match tier {
            Tier::Standard => self.standard,
            Tier::Strong => self.strong,
        }
    }
}

/// Claude Code. The model names are the client's own aliases for the newest of each family.
pub const CLAUDE: ProviderRow = ProviderRow {
    name: "claude",
    program: "claude",
    upstream: Some("https://api.anthropic.com"),
    requests: &[("POST", "/v1/messages"), ("POST", "/v1/messages/count_tokens")],
    credential_file: Some(".claude/.credentials.json"),
    capabilities: Capabilities(&[Capability::Steer, Capability::Interrupt, Capability::Resume, Capability::LiveChat, Capability::McpHttp]),
    standard: Some("sonnet"),
    strong: Some("opus"),
    remedy: "sign in with `claude auth login` on the machine that runs roboco, or set an API key for the provider `claude`",
};

/// Scripted agents: our own player, without a model.
pub const SCRIPTED: ProviderRow = ProviderRow {
    name: "scripted",
    program: "roboco",
    upstream: None,
    requests: &[],
    credential_file: None,
    capabilities: Capabilities(&[Capability::McpHttp]),
    standard: None,
    strong: None,
    remedy: "scripted agents need no login",
};

/// Every provider.
pub const ROWS: &[ProviderRow] = &[CLAUDE, SCRIPTED];

/// The row called `name`.
pub fn row(name: &str) -> Option<&'static ProviderRow> {
    ROWS.iter().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_driver_of_the_same_name_and_no_driver_is_without_a_row() {
        for row in ROWS {
            let driver = crate::provider(row.name).unwrap_or_else(|| panic!("{} has no driver", row.name));
            assert_eq!(driver.row(), row);
        }
        assert!(crate::provider("nobody").is_none());
        assert!(row("nobody").is_none());
    }

    #[test]
    fn a_model_is_asked_by_exact_requests_and_one_without_an_address_by_none() {
        for row in ROWS {
            assert_eq!(row.upstream.is_some(), !row.requests.is_empty(), "{}", row.name);
            for (method, path) in row.requests {
                assert!(method.bytes().all(|byte| byte.is_ascii_uppercase()), "{method}");
                let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-');
                assert!(path.starts_with('/') && !path.contains("//") && path.chars().all(plain), "{path}");
            }
        }
    }

    #[test]
    fn a_chat_needs_a_client_that_can_hold_one() {
        assert!(CLAUDE.capabilities.has(Capability::LiveChat));
        assert!(!SCRIPTED.capabilities.has(Capability::LiveChat));
        assert_eq!(CLAUDE.model(Tier::Strong), Some("opus"));
    }
}
