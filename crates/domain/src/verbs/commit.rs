//! Committing through the gateway: the only way an agent's work reaches a branch.

use schemars::JsonSchema;
use serde::Deserialize;

use super::Subject;
use super::work::signature;
use crate::command::Fresh;
use crate::effect::{Effect, Intended};
use crate::guard::GuardContext;
use crate::input::{TextList, commit_body, commit_subject};
use crate::project::PROTECTED_PATHS;
use crate::rejection::Rejection;
use crate::role::Role;
use crate::snapshot::{Answer, Decision};
use crate::task::PendingKind;

/// Arguments of `commit`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Commit {
    /// What changed: `type(scope): subject`, then, after a blank line, why.
    pub message: String,
    /// Only these paths; everything when left out.
    #[serde(default)]
    pub files: TextList,
}

impl Subject for Commit {
    // The task is the one the caller's spawn works for, never "the last one touched".
    fn task_ref(&self) -> Option<&str> {
        None
    }
}

pub(crate) fn commit(cx: GuardContext<'_>, args: &Commit, fresh: &Fresh) -> Result<Decision, Rejection> {
    let task = cx.task;
    if let Some(pending) = task.pending(PendingKind::Commit) {
        return Ok(Decision::new(Answer { waits_for: Some(pending.intent), ..Answer::next("wait for the commit") }));
    }
    let subject = commit_subject(&args.message).map_err(|problem| Rejection::incomplete(cx.call.verb(), "message", &problem))?;
    let author = signature(cx.world, cx.actor.agent());
    let spawn = cx.world.spawn.as_ref().map(|s| s.number.to_string()).unwrap_or_default();
    let mut protect: Vec<String> = PROTECTED_PATHS.iter().map(|p| (*p).to_owned()).collect();
    if let Some(project) = &cx.world.project {
        protect.extend(project.protected_paths.iter().cloned());
    }
    let conventional = subject.split_once(':').is_some_and(|(head, _)| {
        let kind = head.split('(').next().unwrap_or_default().trim_end_matches('!');
        ["feat", "fix", "chore", "docs", "refactor", "test", "perf", "build", "ci"].contains(&kind)
    });
    let warning = (!conventional).then(|| "write commit subjects as type(scope): what changed".to_owned());
    Ok(Decision::new(Answer { waits_for: Some(fresh.intent()), warning, ..Answer::next("keep going") }).effect(Intended {
        intent: fresh.intent(),
        effect: Effect::Commit {
            task: task.id,
            project: task.project,
            branch: task.delivery.branch.clone(),
            subject: format!("[{}] {subject}", task.number),
            body: commit_body(&args.message),
            trailers: vec![
                ("Task".into(), task.number.to_string()),
                ("Agent".into(), cx.world.roster.slug(cx.actor.agent())),
                ("Spawn".into(), spawn),
            ],
            by: cx.actor.agent(),
            as_author: cx.actor.role() == Role::Developer,
            author,
            at: cx.world.now,
            paths: args.files.0.clone(),
            protect,
        },
    }))
}
