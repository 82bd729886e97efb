//! A verb from its arguments to its envelope: read, resolve, look outside, execute, wait, answer.

use std::sync::Arc;

use roboco_domain::command::{Actor, Body, Command, SystemCommand};
use roboco_domain::decide::standard_rules;
use roboco_domain::envelope::Envelope;
use roboco_domain::id::{CorrelationId, TaskId};
use roboco_domain::rejection::Rejection;
use roboco_domain::snapshot::{Answer, Facts};
use roboco_domain::task::Task;
use roboco_domain::verb::{Call, FactKind, Verb};
use roboco_store::{Attempt, Replay};
use serde_json::Value;

use crate::Company;
use crate::briefing::pack;
use crate::commit::{Executed, fresh};
use crate::fault::Fault;

/// A request to run a verb.
#[derive(Debug, Clone)]
pub struct Request {
    /// Who calls, from a verified credential.
    pub actor: Actor,
    /// What is called.
    pub verb: Verb,
    /// Its arguments.
    pub arguments: Value,
    /// Traces the call.
    pub correlation: CorrelationId,
    /// Under which key the answer is kept for replay, scoped by the caller; none for calls that only look.
    pub replay_key: Option<String>,
}

/// What a call came to.
#[derive(Debug, Clone)]
pub struct Called {
    /// The answer.
    pub envelope: Envelope,
    /// Why it was refused, for whoever counts.
    pub rejection: Option<Rejection>,
    /// The task it was about.
    pub task: Option<TaskId>,
}

impl Company {
    /// Runs a verb and answers with its envelope. A refusal is an answer, not an error.
    ///
    /// # Errors
    /// A fault: nothing is known to have changed, and trying again may help.
    pub async fn call(&self, request: Request) -> Result<Called, Fault> {
        let digest = digest(&request);
        let call = match Call::parse(request.verb, request.arguments.clone()) {
            Ok(call) => call,
            Err(rejection) => return Ok(self.refuse(&request, None, rejection)),
        };
        let task = match self.subject(&request.actor, &call).await? {
            Ok(task) => task,
            Err(rejection) => return Ok(self.refuse(&request, None, rejection)),
        };
        if matches!(call, Call::GiveMeWork(_)) {
            return self.give_me_work(&request).await;
        }
        let facts = self.facts(request.verb, task).await?;
        let replay = request.replay_key.clone().map(|key| Replay { key, digest, answer: String::new(), waits_for: None });
        let command = Command {
            correlation: request.correlation,
            actor: request.actor.clone(),
            body: Body::Verb { call: Box::new(call), task },
            fresh: fresh(),
        };
        match self.execute(&command, facts, replay).await? {
            Executed::Refused { rejection, task } => Ok(self.refuse(&request, task.as_deref(), rejection)),
            Executed::Accepted { answer, wait, task, .. } => {
                let answer = match wait {
                    Some(wait) => match tokio::time::timeout(self.verb_wait, wait).await {
                        Ok(Ok(settled)) => settled.after(answer),
                        // The effect goes on; its result reaches the agent with its next brief.
                        Ok(Err(_)) | Err(_) => {
                            self.let_leave(&request).await?;
                            pending(answer)
                        }
                    },
                    None => answer,
                };
                let task = match task {
                    Some(task) => self.store.task(task.id).await?,
                    None => None,
                };
                if let Some(rejection) = answer.refusal.clone() {
                    return Ok(self.refuse(&request, task.as_deref(), rejection));
                }
                self.accept(&request, task, &answer).await
            }
        }
    }

    /// Takes note that the caller was told to end its turn, so that nobody reminds it or holds it against its task.
    async fn let_leave(&self, request: &Request) -> Result<(), Fault> {
        if let Some(spawn) = request.actor.spawn() {
            self.execute_system(SystemCommand::SpawnLeft { spawn, verb: request.verb }).await?;
        }
        Ok(())
    }

    async fn accept(&self, request: &Request, task: Option<Arc<Task>>, answer: &Answer) -> Result<Called, Fault> {
        let role = request.actor.role();
        let mut envelope = Envelope::accepted(standard_rules(), role, task.as_deref(), answer, request.correlation);
        if let Some(task) = &task {
            match request.verb {
                Verb::Evidence => envelope.evidence.extend(self.evidence(task).await),
                Verb::ClaimReview | Verb::ClaimDocTask | Verb::ClaimGateReview => envelope.evidence.extend(pack(self, task).await),
                _ => {}
            }
            if needs_briefing(request.verb) {
                envelope.context_briefing.extend(self.briefing(task).await?);
            }
        }
        Ok(Called { task: task.as_ref().map(|t| t.id), envelope, rejection: None })
    }

    /// The envelope of a refusal; the refusal is kept for people and for the breaker.
    fn refuse(&self, request: &Request, task: Option<&Task>, rejection: Rejection) -> Called {
        let envelope = Envelope::refused(standard_rules(), request.actor.role(), task, &rejection, request.correlation);
        self.store.record_attempt(Attempt {
            at: self.clock.now(),
            spawn: request.actor.spawn(),
            agent: request.actor.agent(),
            verb: request.verb.to_string(),
            task: rejection.task.or_else(|| task.map(|t| t.id)),
            kind: rejection.kind.to_string(),
            message: rejection.message.clone(),
        });
        Called { envelope, task: rejection.task.or_else(|| task.map(|t| t.id)), rejection: Some(rejection) }
    }

    /// The task a call is about: the one it names, or the one the caller was started for.
    async fn subject(&self, actor: &Actor, call: &Call) -> Result<Result<Option<TaskId>, Rejection>, Fault> {
        if let Some(typed) = call.task_ref() {
            return Ok(self.resolve(typed).await?.map(Some));
        }
        let own = match actor.spawn() {
            Some(spawn) => self.store.spawn(spawn).await?.map(|s| s.task),
            None => None,
        };
        Ok(Ok(own))
    }

    async fn facts(&self, verb: Verb, task: Option<TaskId>) -> Result<Facts, Fault> {
        let mut facts = Facts::default();
        if verb.facts().contains(&FactKind::Tree)
            && let Some(id) = task
            && let Some(task) = self.store.task(id).await?
        {
            facts.tree = self.repos.tree(task.project, &task.delivery.branch).await;
        }
        Ok(facts)
    }
}

/// Whether a verb starts somebody's part, so that its answer says what the part is about.
const fn needs_briefing(verb: Verb) -> bool {
    matches!(verb, Verb::IWillWorkOn | Verb::IWillPlan | Verb::Resume | Verb::ClaimReview | Verb::ClaimDocTask | Verb::ClaimGateReview)
}

/// What verb and arguments a replay key stands for.
fn digest(request: &Request) -> String {
    format!("{} {}", request.verb, request.arguments)
}

fn pending(mut answer: Answer) -> Answer {
    answer.evidence.push(("pending", Value::Bool(true)));
    answer.next = "end your turn; what it comes to stands in your next brief".into();
    answer
}
