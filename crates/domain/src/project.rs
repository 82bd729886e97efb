//! A project: one repository the company works on, its checks and its protections.

use serde::{Deserialize, Serialize};

use crate::id::{CompanyId, ProjectId};
use crate::role::Team;
use crate::time::Timestamp;
use crate::vcs::BranchName;

/// The project's own commands, set by the CEO. They run in a sandbox on a scratch copy of the exact commit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GateCommands {
    /// Prepares the copy.
    pub setup: String,
    /// Compiles it.
    pub build: String,
    /// Checks style.
    pub lint: String,
    /// Checks types.
    pub typecheck: String,
    /// Runs the tests.
    pub test: String,
}

impl GateCommands {
    /// The commands that are set, in the order they run, with their names.
    pub fn steps(&self) -> Vec<(&'static str, &str)> {
        [("setup", &self.setup), ("build", &self.build), ("lint", &self.lint), ("typecheck", &self.typecheck), ("test", &self.test)]
            .into_iter()
            .filter(|(_, command)| !command.trim().is_empty())
            .map(|(name, command)| (name, command.as_str()))
            .collect()
    }
}

/// How finished work is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MergeMethod {
    /// A commit with two parents.
    #[default]
    Merge,
    /// One commit with one parent.
    Squash,
}

/// Whether finished work can be pushed to the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Read and write were proven.
    ReadWrite,
    /// Only reading was proven; landing will be refused.
    ReadOnly,
}

/// One repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// Key.
    pub id: ProjectId,
    /// Owner of every row.
    pub company: CompanyId,
    /// Name in commands.
    pub slug: String,
    /// Optimistic version.
    pub version: u64,
    /// Path or URL it came from and lands at.
    pub origin: String,
    /// The origin's default branch: where standalone work lands.
    pub default_branch: BranchName,
    /// The cell that gets its work when a task names none.
    pub cell: Team,
    /// Its checks.
    pub commands: GateCommands,
    /// Path globs no agent may change.
    pub protected_paths: Vec<String>,
    /// Branch globs only the CEO may merge to, besides the default branch.
    pub protected_branches: Vec<String>,
    /// How finished work is merged.
    pub merge: MergeMethod,
    /// What was proven when it was added.
    pub access: Access,
    /// What was noticed when it was added.
    pub warnings: Vec<String>,
    /// Number of the next pull request.
    pub next_pr: u64,
    /// When it was added.
    pub created_at: Timestamp,
}

impl Project {
    /// What is wrong with a pattern of protected paths; none when it protects something. It is read when something is committed, and one
    /// that could not be read then would protect nothing.
    pub fn pattern_problem(pattern: &str) -> Option<&'static str> {
        match pattern {
            "" => Some("it is empty"),
            long if long.len() > 500 => Some("it is longer than 500 bytes"),
            top if top.starts_with('/') => Some("it begins with a slash: patterns are relative to the top of the repository"),
            odd if odd.chars().any(char::is_control) => Some("it has control characters"),
            up if up.split('/').any(|part| part == "..") => Some("it leads out of the repository"),
            blank if blank.trim() != blank => Some("it begins or ends with a blank"),
            _ => None,
        }
    }
}

/// Paths that are protected in every project unless the CEO says otherwise.
pub const PROTECTED_PATHS: &[&str] = &[".github/workflows/**", ".gitlab-ci.yml", "CODEOWNERS", ".github/CODEOWNERS", ".gitmodules"];
