//! The project's own checks: every command in a sandbox of its own, on a scratch copy of the exact commit, without network or secrets.

use std::sync::Arc;

use roboco_company::fault::Fault;
use roboco_domain::id::{IntentId, ProjectId};
use roboco_domain::limits;
use roboco_domain::project::GateCommands;
use roboco_domain::task::GateVerdict;
use roboco_domain::vcs::Oid;
use roboco_sandbox::{Access, Env, JobEnd, JobSpec, Labels, Limits, Mount};
use tokio::sync::Semaphore;

use crate::Shared;
use crate::effects::fault;

/// What the checks said.
pub(crate) struct Ran {
    pub(crate) verdict: GateVerdict,
    pub(crate) summary: String,
    pub(crate) tail: Option<String>,
}

/// Runs checks, a bounded number at a time.
pub(crate) struct Gate {
    shared: Arc<Shared>,
    slots: Semaphore,
}

impl Gate {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let slots = Semaphore::new(shared.config.max_jobs.max(1));
        Self { shared, slots }
    }

    /// Runs a project's commands on a commit, in order, up to the first that fails.
    pub(crate) async fn run(&self, intent: IntentId, project: ProjectId, commit: &Oid, commands: &GateCommands) -> Result<Ran, Fault> {
        let steps = commands.steps();
        if steps.is_empty() {
            return Ok(Ran { verdict: GateVerdict::NotConfigured, summary: "the project has no checks configured".into(), tail: None });
        }
        let _slot = self.slots.acquire().await.map_err(|_| Fault::passing("the checks are shutting down"))?;
        let repos = &self.shared.parts.repos;
        let copy = repos.export_path(project, &format!("gate-{}", commit.short()));
        repos.export(project, commit, &copy).await.map_err(fault)?;
        let ran = self.steps(intent, &copy, &steps).await;
        if let Err(error) = repos.remove_export(&copy).await {
            tracing::warn!(%error, copy = %copy.display(), "the scratch copy could not be removed");
        }
        ran
    }

    async fn steps(&self, intent: IntentId, copy: &std::path::Path, steps: &[(&str, &str)]) -> Result<Ran, Fault> {
        let mut done = Vec::new();
        for (name, command) in steps {
            let job = JobSpec {
                name: format!("roboco-gate-{intent}-{name}"),
                labels: Labels::from([("intent".into(), intent.to_string()), ("kind".into(), "gate".into())]),
                script: (*command).to_owned(),
                env: Env::new().with("CI", "true"),
                cwd: copy.to_owned(),
                mounts: vec![Mount::same(copy, Access::ReadWrite)],
                masks: Vec::new(),
                limits: Limits::JOB,
            };
            let result = self
                .shared
                .parts
                .driver
                .run_job(&job, limits::GATE_STEP, limits::GATE_LOG_BYTES)
                .await
                .map_err(|e| Fault::passing(format!("{name} could not be run: {e}")))?;
            let seconds = result.took.as_secs_f32();
            match result.end {
                JobEnd::Code(0) => done.push(format!("{name} passed in {seconds:.1} s")),
                JobEnd::Code(code) => return Ok(failed(done, format!("{name} failed with code {code}"), &result.output)),
                JobEnd::TimedOut => {
                    let text = format!("{name} did not end within {} s", limits::GATE_STEP.as_secs());
                    return Ok(failed(done, text, &result.output));
                }
            }
        }
        Ok(Ran { verdict: GateVerdict::Passed, summary: done.join(", "), tail: None })
    }
}

fn failed(mut done: Vec<String>, text: String, output: &str) -> Ran {
    done.push(text);
    let skipped = output.chars().count().saturating_sub(limits::GATE_TAIL_CHARS);
    let tail = output.chars().skip(skipped).collect();
    Ran { verdict: GateVerdict::Failed, summary: done.join(", "), tail: Some(tail) }
}
