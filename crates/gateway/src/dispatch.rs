//! One call of a verb, from a verified caller to its reply: seat, budget, breaker, then the company.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use http::StatusCode;
use roboco_company::call::{Called, Request};
use roboco_company::fault::Fault;
use roboco_domain::breaker::{self, Key, Shut, Trip};
use roboco_domain::command::{Actor, AgentActor};
use roboco_domain::decide::standard_rules;
use roboco_domain::envelope::Envelope;
use roboco_domain::guard::is_current;
use roboco_domain::id::{CorrelationId, TaskId};
use roboco_domain::rejection::{Kind, Rejection, Remedy};
use roboco_domain::rules::verbs_for;
use roboco_domain::task::Task;
use roboco_domain::verb::Verb;
use roboco_store::Attempt;
use serde_json::Value;

use crate::Gateway;
use crate::reply::Reply;

/// A call as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Incoming {
    pub(crate) actor: AgentActor,
    pub(crate) verb: Verb,
    pub(crate) arguments: Arguments,
    pub(crate) correlation: CorrelationId,
    /// Unique inside the run; none when the caller gave nothing to tell a repetition by.
    pub(crate) key: Option<String>,
}

/// The body of a call.
#[derive(Debug, Clone)]
pub(crate) enum Arguments {
    /// It could be read.
    Json(Value),
    /// It could not, with the reason.
    Unreadable(String),
}

impl Incoming {
    fn json(&self) -> &Value {
        match &self.arguments {
            Arguments::Json(value) => value,
            Arguments::Unreadable(_) => &Value::Null,
        }
    }

    /// The key under which the company keeps the answer. Calls that only look are never kept.
    fn replay_key(&self) -> Option<String> {
        let changes = !matches!(self.verb, Verb::GiveMeWork | Verb::Evidence);
        self.key.as_ref().filter(|_| changes).map(|key| format!("{}:{key}", self.actor.spawn))
    }
}

impl Gateway {
    /// Answers a call. Whatever breaks is an answer too.
    pub(crate) async fn dispatch(&self, call: Incoming) -> Reply {
        self.inner.calls.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        let reply = match self.run(&call).await {
            Ok(reply) => reply,
            Err(broken) => self.broken(&call, &broken),
        };
        let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.inner.call_micros.fetch_add(took, Ordering::Relaxed);
        reply
    }

    /// The refusal of a run that no longer speaks for its seat.
    pub(crate) async fn unseated(&self, actor: &AgentActor) -> Result<Option<Rejection>, Fault> {
        let seat = self.inner.company.store().seat(actor.agent).await?;
        Ok((!is_current(Some(&seat), actor)).then(|| {
            let message = "this run no longer speaks for its seat; nothing it does is accepted";
            Rejection::new(Kind::Superseded, message, Remedy::tell("stop now; your commits are kept"))
        }))
    }

    async fn run(&self, call: &Incoming) -> Result<Reply, Broken> {
        if let Some(rejection) = self.unseated(&call.actor).await? {
            return Ok(self.refuse(call, None, &rejection));
        }
        let warning = self.inner.guard.count(call.actor.spawn, call.verb, call.json());
        let subject = self.subject(call).await?;
        let task = match subject {
            Some(id) => self.inner.company.store().task(id).await?,
            None => None,
        };
        let key = Key { spawn: call.actor.spawn, verb: call.verb, task: subject };
        let exits = self.exits(call, task.as_deref());
        let now = self.inner.company.clock().now();
        if let Err(open) = self.inner.guard.admit(key, task.as_deref().map(|t| t.stage), now, &exits)
            && !self.answered_before(call).await?
        {
            return Ok(self.shut(call, task.as_deref(), &open));
        }
        let mut reply = match &call.arguments {
            Arguments::Json(arguments) => {
                let called = self.call(call, arguments.clone()).await?;
                self.judge(call, key, task.as_deref(), called.rejection.as_ref(), called.envelope)
            }
            Arguments::Unreadable(why) => {
                let rejection = Rejection::incomplete(call.verb, "body", why);
                let refused = self.refuse(call, task.as_deref(), &rejection);
                self.judge(call, key, task.as_deref(), Some(&rejection), refused.envelope)
            }
        };
        if let Some(warning) = warning {
            reply.warn(warning);
        }
        Ok(reply)
    }

    /// Counts what came of a call. The refusal that opens the breaker is answered with the breaker's own, and kept inside it.
    fn judge(&self, call: &Incoming, key: Key, task: Option<&Task>, rejection: Option<&Rejection>, envelope: Envelope) -> Reply {
        let Some(rejection) = rejection else {
            self.inner.guard.succeeded(key);
            return Reply::ran(envelope, call.correlation);
        };
        match self.inner.guard.refused(key, rejection.kind, self.inner.company.clock().now()) {
            Trip::Counted => Reply::ran(envelope, call.correlation),
            Trip::Opened => {
                let open = breaker::open(call.verb, Shut::ForNow { times: call.verb.breaker_cap() as usize }, &self.exits(call, task));
                Reply { inner: Some(Box::new(envelope)), ..self.shut(call, task, &open) }
            }
        }
    }

    /// Runs the verb. A verb that changes something goes on when its caller hangs up or the wall is reached: cut off between a commit and
    /// the work that follows from it, that work would lie still until the next start.
    async fn call(&self, call: &Incoming, arguments: Value) -> Result<Called, Broken> {
        let request = Request {
            actor: Actor::Agent(call.actor.clone()),
            verb: call.verb,
            arguments,
            correlation: call.correlation,
            replay_key: call.replay_key(),
        };
        let company = Arc::clone(&self.inner.company);
        if matches!(call.verb, Verb::GiveMeWork | Verb::Evidence) {
            let looked = tokio::time::timeout(self.inner.wall, company.call(request)).await;
            return Ok(looked.map_err(|_| Broken::Late)??);
        }
        let running = tokio::spawn(async move { company.call(request).await });
        match tokio::time::timeout(self.inner.wall, running).await {
            Ok(Ok(called)) => Ok(called?),
            Ok(Err(stopped)) => Err(Broken::Fault(Fault::lasting(stopped.to_string()))),
            Err(_) => Err(Broken::Late),
        }
    }

    /// The task a call is about: the one it names, or the one its run was started for.
    async fn subject(&self, call: &Incoming) -> Result<Option<TaskId>, Fault> {
        if call.verb.is_discovery() {
            return Ok(None);
        }
        match call.json().get("task_id").and_then(Value::as_str) {
            Some(typed) => Ok(self.inner.company.resolve(typed).await?.ok()),
            None => Ok(self.inner.company.store().spawn(call.actor.spawn).await?.map(|spawn| spawn.task)),
        }
    }

    async fn answered_before(&self, call: &Incoming) -> Result<bool, Fault> {
        match call.replay_key() {
            Some(key) => Ok(self.inner.company.store().replay(&key).await?.is_some()),
            None => Ok(false),
        }
    }

    fn exits(&self, call: &Incoming, task: Option<&Task>) -> Vec<Verb> {
        match task {
            // Looking needs no way out: its breaker never opens.
            _ if call.verb.is_discovery() => Vec::new(),
            Some(task) => verbs_for(standard_rules(), call.actor.role, task),
            None => standard_rules().granted(call.actor.role),
        }
    }

    /// The answer of an open breaker: the verb is no longer among what is possible.
    fn shut(&self, call: &Incoming, task: Option<&Task>, open: &Rejection) -> Reply {
        let mut reply = self.refuse(call, task, open);
        if let Some(verbs) = &mut reply.envelope.valid_next_verbs {
            verbs.retain(|verb| verb != call.verb.as_str());
        }
        reply
    }

    /// A refusal of the door itself; it is kept like those of the company.
    pub(crate) fn refuse(&self, call: &Incoming, task: Option<&Task>, rejection: &Rejection) -> Reply {
        self.inner.company.store().record_attempt(Attempt {
            at: self.inner.company.clock().now(),
            spawn: Some(call.actor.spawn),
            agent: call.actor.agent,
            verb: call.verb.to_string(),
            task: task.map(|t| t.id),
            kind: rejection.kind.to_string(),
            message: rejection.message.clone(),
        });
        self.refusal(&call.actor, call.correlation, task, rejection)
    }

    /// The envelope of a refusal, with nothing recorded.
    pub(crate) fn refusal(&self, actor: &AgentActor, correlation: CorrelationId, task: Option<&Task>, rejection: &Rejection) -> Reply {
        Reply::ran(Envelope::refused(standard_rules(), actor.role, task, rejection, correlation), correlation)
    }

    /// The answer when something broke. What exactly is for the log, not for the agent.
    pub(crate) fn broken(&self, call: &Incoming, broken: &Broken) -> Reply {
        let agent = self.slug(call.actor.agent);
        let (status, rejection) = match broken {
            Broken::Late => {
                tracing::error!(correlation = %call.correlation, verb = %call.verb, %agent, "{} of {agent} reached its wall", call.verb);
                let text = "call give_me_work to see how far it came; if that does not help, call i_am_blocked";
                let message = format!("{} took longer than {} s", call.verb, self.inner.wall.as_secs());
                (StatusCode::GATEWAY_TIMEOUT, Rejection::new(Kind::GatewayTimeout, message, Remedy::tell(text)))
            }
            Broken::Fault(fault) if fault.retryable => {
                tracing::warn!(correlation = %call.correlation, verb = %call.verb, %agent, %fault, "{} of {agent} failed for now", call.verb);
                let message = "something the company needs does not answer right now, so that this may not have been done";
                (
                    StatusCode::SERVICE_UNAVAILABLE,
                    Rejection::new(
                        Kind::Unavailable,
                        message,
                        Remedy::tell("send the same call again in 2 seconds; what was done is not done twice"),
                    ),
                )
            }
            Broken::Fault(fault) => {
                tracing::error!(correlation = %call.correlation, verb = %call.verb, %agent, %fault, "{} of {agent} failed", call.verb);
                let message = format!("this failed inside the company; it is logged under {}", call.correlation);
                let text = "do not repeat it more than once; call i_am_blocked and name the correlation id";
                (StatusCode::INTERNAL_SERVER_ERROR, Rejection::new(Kind::InternalError, message, Remedy::tell(text)))
            }
        };
        Reply { status, ..self.refusal(&call.actor, call.correlation, None, &rejection) }
    }
}

/// Why there is no answer of the company.
#[derive(Debug)]
pub(crate) enum Broken {
    /// It took too long.
    Late,
    /// It failed.
    Fault(Fault),
}

impl From<Fault> for Broken {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<roboco_store::StoreFault> for Broken {
    fn from(fault: roboco_store::StoreFault) -> Self {
        Self::Fault(fault.into())
    }
}
