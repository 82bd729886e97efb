//! Adding a repository: looked at first, recorded then; nothing changes at its origin.

use roboco_domain::command::{Actor, Body, Command, NewProject};
use roboco_domain::id::ProjectId;
use roboco_domain::project::{GateCommands, MergeMethod};
use roboco_domain::rejection::{Kind, Rejection, Remedy};
use roboco_domain::snapshot::Facts;
use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use crate::Company;
use crate::commit::{Executed, correlation, fresh};
use crate::fault::Fault;

/// What a person says about a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProjectInput {
    /// Name in commands; from the origin's last part when empty.
    pub slug: String,
    /// Path or URL.
    pub origin: String,
    /// The cell that gets its work.
    pub cell: String,
    /// Its checks.
    pub commands: GateCommands,
    /// What no agent may change.
    pub protect: Protect,
    /// How finished work is merged.
    pub merge: MergeInput,
}

/// What no agent may change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Protect {
    /// Path globs.
    pub paths: Vec<String>,
    /// Branch globs only the CEO merges to.
    pub branches: Vec<String>,
}

/// How finished work is merged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MergeInput {
    /// `merge` or `squash`.
    pub method: MergeMethod,
}

impl Company {
    /// Looks at a repository, makes its store and records the project.
    ///
    /// # Errors
    /// A fault of the database. A repository that cannot be used is a refusal.
    pub async fn add_project(&self, actor: Actor, input: ProjectInput) -> Result<Executed, Fault> {
        let refused = |kind, message: String, remedy: &str| {
            Ok(Executed::Refused { rejection: Rejection::new(kind, message, Remedy::tell(remedy)), task: None })
        };
        let slug = if input.slug.is_empty() { slug_of(&input.origin) } else { input.slug.clone() };
        if self.store.project_by_slug(&slug).await?.is_some() {
            return refused(Kind::InvalidState, format!("there is a project {slug:?} already"), "choose another slug with --slug");
        }
        let Ok(cell) = input.cell.parse() else {
            let cells = self.roster.cells().iter().map(|c| c.team.as_str()).collect::<Vec<_>>().join(", ");
            return refused(Kind::IncompleteInput, format!("cell {:?} is missing or wrong", input.cell), &format!("use one of {cells}"));
        };
        let id = ProjectId::new(Uuid::now_v7());
        let probed = match self.repos.add(id, &input.origin).await {
            Ok(probed) => probed,
            Err(why) => return refused(Kind::IncompleteInput, why, "mend that, then add the project again"),
        };
        let new = NewProject {
            id,
            slug,
            origin: probed.origin,
            default_branch: probed.default_branch,
            cell,
            commands: input.commands,
            protected_paths: input.protect.paths,
            protected_branches: input.protect.branches,
            merge: input.merge.method,
            access: probed.access,
            warnings: probed.warnings,
        };
        let command = Command { correlation: correlation(), actor, body: Body::AddProject(Box::new(new)), fresh: fresh() };
        let executed = self.execute(&command, Facts::default(), None).await;
        if !matches!(executed, Ok(Executed::Accepted { .. })) {
            self.repos.forget(id).await;
        }
        executed
    }
}

/// The last part of a path or URL as a slug.
fn slug_of(origin: &str) -> String {
    let last = origin.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or_default().trim_end_matches(".git");
    let slug: String = last.to_ascii_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    slug.trim_matches('-').chars().take(40).collect()
}
