//! Doing effects: each is idempotent, because a lost answer means doing it again.

use std::sync::Arc;

use roboco_company::fault::Fault;
use roboco_domain::effect::{Effect, EffectResult, LandRefusal, Signature};
use roboco_domain::id::{IntentId, ProjectId};
use roboco_domain::project::MergeMethod;
use roboco_domain::task::GateVerdict;
use roboco_domain::vcs::{Base, BranchName, Home, Oid, Pin};
use roboco_git::{
    CommitOutcome, CommitRequest, Freshness, GitError, Landing, LandingRequest, Method, PathGlob, Person, PushRefusal, Pushed, RepoPath,
    SyncOutcome, SyncRequest, Trailer, TreeName, Unsaved,
};

use crate::Shared;
use crate::gate::Gate;
use crate::landings::Landings;
use crate::launch::review_key;

/// How often a landing starts again because the target moved under it.
const LAND_ROUNDS: u32 = 5;

/// The executor's hands.
pub(crate) struct Effects {
    shared: Arc<Shared>,
    gate: Gate,
    pub(crate) landings: Landings,
}

impl Effects {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let gate = Gate::new(Arc::clone(&shared));
        Self { shared, gate, landings: Landings::default() }
    }

    /// Does it. The error is a fault that may pass; a refusal is a result.
    pub(crate) async fn perform(&self, intent: IntentId, effect: &Effect) -> Result<EffectResult, Fault> {
        let repos = &self.shared.parts.repos;
        match effect {
            Effect::CutBranch { project, branch, base, tree, .. } => {
                let cut = repos.cut_branch(*project, branch, base, *tree).await.map_err(fault)?;
                Ok(EffectResult::BranchCut { base: cut.base, head: cut.head, tree: cut.tree })
            }
            Effect::Commit { .. } => self.commit(intent, effect).await,
            Effect::Sync { project, branch, base, author, at, .. } => {
                let request = SyncRequest {
                    project: *project,
                    branch: branch.clone(),
                    target: base.clone(),
                    trailers: Vec::new(),
                    author: person(author)?,
                    at: *at,
                };
                match repos.sync_branch(&request).await.map_err(fault)? {
                    SyncOutcome::UpToDate | SyncOutcome::Merged(_) => {
                        let state = repos.tree_state(*project, branch).await.map_err(fault)?;
                        Ok(EffectResult::Synced { head: state.head, tree: state.tree })
                    }
                    SyncOutcome::Conflict(paths) => Ok(EffectResult::SyncConflict { paths: shown(&paths) }),
                }
            }
            Effect::RunGate { project, commit, commands, .. } => {
                let ran = self.gate.run(intent, *project, commit, commands).await?;
                Ok(EffectResult::Gate { verdict: ran.verdict, summary: ran.summary, tail: ran.tail })
            }
            Effect::Pin { task, project, target, head, reviewer } => {
                let pinned = repos.pin(*project, target, head, Freshness::Cached).await.map_err(fault)?;
                repos.review_tree(*project, &review_key(*task, *reviewer), head).await.map_err(fault)?;
                Ok(EffectResult::Pinned { pin: pinned.pin })
            }
            Effect::Land { .. } => self.land(intent, effect).await,
            Effect::CleanUp { project, branch, .. } => self.clean_up(*project, branch).await,
            Effect::ReleaseReviewTree { task, project, reviewer } => {
                let name = TreeName::review(&review_key(*task, *reviewer)).map_err(|e| Fault::lasting(e.to_string()))?;
                repos.release_tree(*project, &name, Unsaved::Discard).await.map_err(fault)?;
                Ok(EffectResult::Finished)
            }
        }
    }

    async fn commit(&self, intent: IntentId, effect: &Effect) -> Result<EffectResult, Fault> {
        let Effect::Commit { project, branch, subject, body, trailers, author, at, paths, protect, .. } = effect else {
            return Ok(EffectResult::Finished);
        };
        let protect = match globs(protect) {
            Ok(protect) => protect,
            Err(problem) => return Ok(EffectResult::CommitRefused { problems: vec![problem] }),
        };
        let request = CommitRequest {
            project: *project,
            branch: branch.clone(),
            subject: subject.clone(),
            body: body.clone(),
            trailers: git_trailers(trailers),
            author: person(author)?,
            at: *at,
            paths: (!paths.is_empty()).then(|| paths.clone()),
            protect,
            granted: Vec::new(),
            waived: Vec::new(),
            key: intent.to_string(),
        };
        match self.shared.parts.repos.commit(&request).await {
            Ok(CommitOutcome::Committed(made)) => Ok(EffectResult::Committed { oid: made.oid, tree: made.tree, files: shown(&made.files) }),
            Ok(CommitOutcome::NothingToCommit) => Ok(EffectResult::NothingToCommit),
            Ok(CommitOutcome::Refused(problems)) => {
                Ok(EffectResult::CommitRefused { problems: problems.iter().map(ToString::to_string).collect() })
            }
            // What git refuses here is about what the agent asked for, so the agent is told.
            Err(GitError::Refused(refusal)) => Ok(EffectResult::CommitRefused { problems: vec![refusal.to_string()] }),
            Err(error) => Err(fault(error)),
        }
    }

    async fn land(&self, intent: IntentId, effect: &Effect) -> Result<EffectResult, Fault> {
        let Effect::Land { project, target, head, subject, trailers, author, at, method, commands, tested, .. } = effect else {
            return Ok(EffectResult::Finished);
        };
        let repos = &self.shared.parts.repos;
        let request = LandingRequest {
            project: *project,
            target: target.clone(),
            head: head.clone(),
            subject: subject.clone(),
            body: String::new(),
            trailers: git_trailers(trailers),
            author: person(author)?,
            at: *at,
            method: match method {
                MergeMethod::Merge => Method::Merge,
                MergeMethod::Squash => Method::Squash,
            },
        };
        let mut passed: Option<Oid> = tested.clone();
        for _ in 0..LAND_ROUNDS {
            let (base, commit, tree) = match repos.prepare_landing(&request).await.map_err(fault)? {
                Landing::Ready { base, commit, tree } => (base, commit, tree),
                Landing::Conflict { paths, .. } => return refused(LandRefusal::Conflict { paths: shown(&paths) }),
                Landing::AlreadyLanded { commit, tree } => return self.landed_before(*project, target, head, commit, tree).await,
            };
            // The exact tree that lands must have passed, unless nothing is configured to pass.
            if passed.as_ref() != Some(&tree) && !commands.steps().is_empty() {
                let ran = self.gate.run(intent, *project, &commit, commands).await?;
                if ran.verdict == GateVerdict::Failed {
                    return refused(LandRefusal::GateFailed { tail: ran.tail.unwrap_or(ran.summary) });
                }
                passed = Some(tree.clone());
            }
            match repos.push_landing(*project, &request.target, &commit, &base).await.map_err(fault)? {
                Pushed::Landed => return Ok(EffectResult::Landed { commit, tree }),
                Pushed::Moved => tracing::info!(target = %target.branch, "the target moved; building the merge again"),
                Pushed::Refused(PushRefusal::DirtyCheckout { paths } | PushRefusal::InTheWay { paths }) => {
                    return refused(LandRefusal::DirtyCheckout { paths: shown(&paths) });
                }
                Pushed::Refused(PushRefusal::Protected(text) | PushRefusal::NoAccess(text)) => {
                    return refused(LandRefusal::Protected { text });
                }
            }
        }
        refused(LandRefusal::Unavailable { text: format!("{} moved {LAND_ROUNDS} times in a row", target.branch) })
    }

    /// What is said of a landing whose answer was lost. Others may have landed on a branch of ours since, and the whole must not be taken for
    /// less than it holds now; so there it is the tip.
    async fn landed_before(&self, project: ProjectId, target: &Base, head: &Oid, commit: Oid, tree: Oid) -> Result<EffectResult, Fault> {
        match target.home {
            Home::Origin => Ok(EffectResult::Landed { commit, tree }),
            Home::Store => {
                // The tip holds the head already, so both merged are the tip's own tree.
                let Pin { base, merge_tree, .. } =
                    self.shared.parts.repos.pin(project, target, head, Freshness::Cached).await.map_err(fault)?.pin;
                Ok(EffectResult::Landed { commit: base, tree: merge_tree.unwrap_or(tree) })
            }
        }
    }

    async fn clean_up(&self, project: ProjectId, branch: &BranchName) -> Result<EffectResult, Fault> {
        let ended = self.shared.parts.repos.remove_branch(project, branch).await.map_err(fault)?;
        for kept in ended.tip_at.iter().chain(&ended.released.rescued) {
            tracing::info!(%branch, kept, "unsaved work is kept");
        }
        Ok(EffectResult::Finished)
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it ends arms of functions that return results")]
fn refused(refusal: LandRefusal) -> Result<EffectResult, Fault> {
    Ok(EffectResult::LandRefused { refusal })
}

fn shown(paths: &[RepoPath]) -> Vec<String> {
    paths.iter().map(ToString::to_string).collect()
}

pub(crate) fn fault(error: GitError) -> Fault {
    Fault { retryable: error.is_retryable(), message: error.to_string(), remedy: None }
}

/// What nobody may change. Where one glob cannot be read, nobody knows what it protects: then it may be everything.
fn globs(protect: &[String]) -> Result<Vec<PathGlob>, String> {
    let read = |glob: &String| {
        PathGlob::new(glob).map_err(|error| {
            format!("the project protects {glob:?}, which cannot be read ({error}): nothing can be committed until the CEO corrects it")
        })
    };
    protect.iter().map(read).collect()
}

fn person(signature: &Signature) -> Result<Person, Fault> {
    Person::new(&signature.name, &signature.email).map_err(|e| Fault::lasting(e.to_string()))
}

fn git_trailers(trailers: &[(String, String)]) -> Vec<Trailer> {
    trailers.iter().map(|(key, value)| Trailer::new(key, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_protection_that_cannot_be_read_protects_everything() {
        let globs = |text: &[&str]| globs(&text.iter().map(|glob| (*glob).to_owned()).collect::<Vec<_>>());
        assert_eq!(globs(&["deploy/**", "*.pem"]).unwrap().len(), 2);
        assert!(globs(&[]).unwrap().is_empty());
        for wrong in ["/deploy/**", "a/../b"] {
            let problem = globs(&["*.pem", wrong]).unwrap_err();
            assert!(problem.contains(wrong) && problem.contains("CEO"), "{problem}");
        }
    }
}
