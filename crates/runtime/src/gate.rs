//! The project's own checks: every command in a sandbox of its own, on a scratch copy of the exact commit, without network or secrets.

use std::sync::Arc;

use roboco_company::fault::Fault;
use roboco_domain::id::{IntentId, ProjectId};
use roboco_domain::limits;
use roboco_domain::project::GateCommands;
use roboco_domain::task::GateVerdict;
use roboco_domain::vcs::Oid;
use roboco_sandbox::{Access, Env, JobEnd, JobSpec, Labels, Limits, Mount, SandboxError};
use tokio::sync::Semaphore;

use crate::Shared;
use crate::effects::fault;

/// How often a command that cannot be run is tried before a person must look.
const TRIES: u32 = 3;

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
            let driver = &self.shared.parts.driver;
            let result = a_few_times(name, || driver.run_job(&job, limits::GATE_STEP, limits::GATE_LOG_BYTES)).await?;
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

/// Tries to run a command that may not be runnable right now. The fault lasts: what did not pass in these tries needs a person.
async fn a_few_times<T, F>(name: &str, run: impl Fn() -> F) -> Result<T, Fault>
where
    F: Future<Output = Result<T, SandboxError>>,
{
    let mut tries = 0;
    loop {
        let error = match run().await {
            Ok(result) => return Ok(result),
            Err(error) => error,
        };
        tries += 1;
        tracing::warn!(%error, tries, "the check {name} could not be run");
        if tries >= TRIES {
            return Err(Fault::lasting(format!("the checks cannot run, {name} was tried {tries} times: {error}")));
        }
        tokio::time::sleep(limits::OUTBOX_BACKOFF * 2u32.pow(tries - 1)).await;
    }
}

fn failed(mut done: Vec<String>, text: String, output: &str) -> Ran {
    done.push(text);
    let skipped = output.chars().count().saturating_sub(limits::GATE_TAIL_CHARS);
    let tail = output.chars().skip(skipped).collect();
    Ran { verdict: GateVerdict::Failed, summary: done.join(", "), tail: Some(tail) }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    fn refused() -> SandboxError {
        let (problem, remedy) = ("bubblewrap is not installed".into(), "Install it with `apt install bubblewrap`".into());
        SandboxError::Refused { what: "this command".into(), problem, remedy }
    }

    #[tokio::test(start_paused = true)]
    async fn checks_that_cannot_run_ask_for_a_person_after_three_tries() {
        let (started, tries) = (Instant::now(), Cell::new(0));
        let fault = a_few_times("test", || async {
            tries.set(tries.get() + 1);
            Err::<(), _>(refused())
        });
        let fault = fault.await.unwrap_err();
        assert_eq!(tries.get(), 3);
        assert!(!fault.retryable, "it is not tried all over again");
        assert!(fault.message.contains("apt install bubblewrap"), "{fault}");
        assert!(started.elapsed() <= Duration::from_secs(10), "{:?}", started.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn checks_that_can_run_again_in_time_run() {
        let tries = Cell::new(0);
        let ran = a_few_times("test", || async {
            tries.set(tries.get() + 1);
            if tries.get() < 3 { Err(refused()) } else { Ok(tries.get()) }
        });
        assert_eq!(ran.await.unwrap(), 3);
    }
}
