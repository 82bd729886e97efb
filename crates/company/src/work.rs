//! Choosing work for an agent that asks: what it has started first, then what waits for it.

use std::sync::Arc;

use roboco_domain::command::Actor;
use roboco_domain::decide::standard_rules;
use roboco_domain::envelope::Envelope;
use roboco_domain::guard::is_current;
use roboco_domain::id::AgentId;
use roboco_domain::next::{NextActor, offer_order};
use roboco_domain::rejection::{Kind, Rejection, Remedy};
use roboco_domain::role::Role;
use roboco_domain::snapshot::Answer;
use roboco_domain::task::Task;
use roboco_domain::verb::Verb;

use crate::call::{Called, Request};
use crate::fault::Fault;
use crate::{Company, family};

impl Company {
    /// Answers `give_me_work`: the task, the verb to call on it, and a briefing. Changes nothing.
    pub(crate) async fn give_me_work(&self, request: &Request) -> Result<Called, Fault> {
        let role = request.actor.role();
        let refused = |rejection: Rejection| {
            let envelope = Envelope::refused(standard_rules(), role, None, &rejection, request.correlation);
            Called { envelope, rejection: Some(rejection), task: None }
        };
        if !standard_rules().grants(Verb::GiveMeWork, role) {
            let text = "this role is given no work";
            return Ok(refused(Rejection::new(Kind::NotAuthorized, text, Remedy::tell("look at the board instead"))));
        }
        if let Actor::Agent(agent) = &request.actor
            && !is_current(Some(&self.store.seat(agent.agent).await?), agent)
        {
            let text = "this run no longer speaks for its seat";
            return Ok(refused(Rejection::new(Kind::Superseded, text, Remedy::tell("stop now; your commits are kept"))));
        }
        let found = self.work_of(&request.actor).await?;
        let (task, answer) = match found {
            Some((task, verb)) => {
                let next = format!("{verb}(task_id={}, …)", task.number);
                let title = vec![("title", task.title.clone().into()), ("verb", verb.as_str().into())];
                (Some(task), Answer { evidence: title, ..Answer::next(next) })
            }
            None => (None, Answer { word: Some("idle"), ..Answer::next("nothing waits for you: end your turn, or call i_am_idle") }),
        };
        let envelope = Envelope::accepted(standard_rules(), role, task.as_deref(), &answer, request.correlation);
        Ok(Called { envelope, rejection: None, task: task.map(|t| t.id) })
    }

    /// The task an agent should turn to, and the verb for it.
    async fn work_of(&self, actor: &Actor) -> Result<Option<(Arc<Task>, Verb)>, Fault> {
        let agent = actor.agent();
        if let Some(id) = actor.spawn()
            && let Some(spawn) = self.store.spawn(id).await?
            && let Some(task) = self.store.task(spawn.task).await?
            && let Some(verb) = self.turn_of(agent, &task).await?
        {
            return Ok(Some((task, verb)));
        }
        let team = self.roster.agent(agent).map(|a| a.team.clone());
        let mut waiting = Vec::new();
        for task in self.store.open_tasks().await? {
            // A PM of the whole company, and reviewers outside the cells, are asked about work of every team.
            let near = matches!(actor.role(), Role::MainPm | Role::PrReviewer) || Some(&task.team) == team.as_ref();
            if near && let Some(verb) = self.turn_of(agent, &task).await? {
                waiting.push((task, verb));
            }
        }
        Ok(waiting.into_iter().min_by_key(|(task, _)| offer_order(task, agent)))
    }

    async fn turn_of(&self, agent: AgentId, task: &Task) -> Result<Option<Verb>, Fault> {
        Ok(match family::turn(&*self.store, &self.roster, task).await? {
            NextActor::Agents(agents, verb) if agents.contains(&agent) => Some(verb),
            NextActor::Agents(..) | NextActor::Company | NextActor::Ceo(_) | NextActor::Waits(_) | NextActor::Nobody => None,
        })
    }
}
