//! The company's view of repositories, over git on disk.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use roboco_company::ports::{DiffText, Probed, Repos};
use roboco_domain::id::ProjectId;
use roboco_domain::known::Known;
use roboco_domain::project::{Access, Project};
use roboco_domain::snapshot::TreeFact;
use roboco_domain::vcs::{BranchName, Oid};
use roboco_git::{Credential, GitError, Origin, Refusal};

/// Repositories on this machine.
#[derive(Debug)]
pub struct GitRepos {
    repos: Arc<roboco_git::Repos>,
    relative_to: PathBuf,
    ssh_agent: Option<PathBuf>,
}

impl GitRepos {
    /// Over an opened set of repositories. Relative paths of origins are read against `relative_to`.
    pub fn new(repos: Arc<roboco_git::Repos>, relative_to: PathBuf, ssh_agent: Option<PathBuf>) -> Self {
        Self { repos, relative_to, ssh_agent }
    }

    /// Tells git again how each known project is reached; git keeps that in memory only.
    pub fn restore(&self, projects: &[Arc<Project>]) {
        for project in projects {
            if let Ok(origin) = Origin::parse(&project.origin, &self.relative_to) {
                self.repos.set_credential(project.id, self.credential(&origin));
            }
        }
    }

    fn credential(&self, origin: &Origin) -> Credential {
        match &self.ssh_agent {
            Some(socket) if !origin.is_folder() => Credential::SshAgent(socket.clone()),
            Some(_) | None => Credential::None,
        }
    }
}

#[async_trait]
impl Repos for GitRepos {
    async fn add(&self, project: ProjectId, origin: &str) -> Result<Probed, String> {
        let origin = Origin::parse(origin, &self.relative_to).map_err(|e| e.to_string())?;
        let credential = self.credential(&origin);
        let added = self.repos.add(project, &origin, credential).await.map_err(|e| e.to_string())?;
        let mut warnings: Vec<String> = added.warnings.iter().map(ToString::to_string).collect();
        let access = match &added.probe.access {
            roboco_git::Access::Write => Access::ReadWrite,
            roboco_git::Access::ReadOnly(why) => {
                warnings.push(why.clone());
                Access::ReadOnly
            }
        };
        Ok(Probed { origin: added.probe.origin.to_string(), default_branch: added.probe.default_branch, access, warnings })
    }

    async fn forget(&self, project: ProjectId) {
        let store = self.repos.store_path(project);
        if let Err(error) = tokio::fs::remove_dir_all(&store).await {
            tracing::debug!(%error, store = %store.display(), "nothing to forget");
        }
    }

    async fn tree(&self, project: ProjectId, branch: &BranchName) -> Known<TreeFact> {
        match self.repos.tree_state(project, branch).await {
            Ok(state) => Known::Yes(TreeFact { head: state.head, dirty: state.dirty.iter().map(ToString::to_string).collect() }),
            Err(GitError::Refused(Refusal::NoTree(_) | Refusal::NoBranch { .. })) => Known::No,
            Err(error) => Known::Unknown(error.to_string()),
        }
    }

    async fn diff(&self, project: ProjectId, base: &Oid, head: &Oid, cap: usize) -> Result<DiffText, String> {
        let diff = self.repos.diff(project, base, head, cap).await.map_err(|e| e.to_string())?;
        Ok(DiffText { files: diff.files.iter().map(|f| f.path.to_string()).collect(), stat: diff.stat, text: diff.text })
    }
}
