//! Wire views: what people and programs see of tasks, spawns, agents and the inbox. Projections only; nothing here is stored.

mod events;

use roboco_domain::next::NextActor;
use roboco_domain::project::{Access, GateCommands, MergeMethod, Project};
use roboco_domain::role::Role;
use roboco_domain::rules::verbs_for;
use roboco_domain::spawn::{Spawn, Usage};
use roboco_domain::status::Status;
use roboco_domain::task::{Hold, Task};
use roboco_domain::time::Timestamp;
use roboco_store::Block;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::{Company, family};

pub use events::{EventView, Names};

/// A task in a list.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TaskRow {
    /// `T-142`.
    pub number: String,
    /// Its key.
    pub id: String,
    /// One line.
    pub title: String,
    /// The wire status.
    pub status: String,
    /// The stage under it.
    pub stage: String,
    /// 0 is most urgent.
    pub priority: u8,
    /// Slug of the project.
    pub project: String,
    /// The cell.
    pub team: String,
    /// Slug of whoever has it.
    pub assignee: Option<String>,
    /// Why it does not move, or whose turn it is.
    pub waits: Option<String>,
    /// Milliseconds since the epoch.
    pub stage_since: i64,
    /// Milliseconds since the epoch.
    pub created_at: i64,
}

/// A project.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProjectRow {
    /// Name in commands.
    pub slug: String,
    /// Its key.
    pub id: String,
    /// Path or URL it came from and lands at.
    pub origin: String,
    /// Where its work lands.
    pub default_branch: String,
    /// The cell that gets its work.
    pub cell: String,
    /// Its checks.
    pub commands: GateCommands,
    /// Path globs no agent may change.
    pub protected_paths: Vec<String>,
    /// Branch globs only the CEO merges to.
    pub protected_branches: Vec<String>,
    /// How finished work is merged.
    pub merge: MergeMethod,
    /// What was proven when it was added.
    pub access: Access,
    /// What was noticed when it was added.
    pub warnings: Vec<String>,
    /// Milliseconds since the epoch.
    pub created_at: i64,
}

impl From<&Project> for ProjectRow {
    fn from(project: &Project) -> Self {
        Self {
            slug: project.slug.clone(),
            id: project.id.to_string(),
            origin: project.origin.clone(),
            default_branch: project.default_branch.to_string(),
            cell: project.cell.to_string(),
            commands: project.commands.clone(),
            protected_paths: project.protected_paths.clone(),
            protected_branches: project.protected_branches.clone(),
            merge: project.merge,
            access: project.access,
            warnings: project.warnings.clone(),
            created_at: project.created_at.millis(),
        }
    }
}

/// A piece of a run's transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockRow {
    /// Counts from 1 inside the run.
    pub n: u64,
    /// Milliseconds since the epoch.
    pub at: i64,
    /// `text`, `thinking`, `tool_call`, `tool_result`, `note`, `input` or `end`.
    pub kind: String,
    /// What was said.
    pub text: String,
}

impl From<Block> for BlockRow {
    fn from(block: Block) -> Self {
        let Block { n, at, kind, text } = block;
        Self { n, at: at.millis(), kind, text }
    }
}

/// A criterion of a task.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CriterionRow {
    /// `C1`.
    pub id: String,
    /// The outcome.
    pub text: String,
    /// What the author says proves it.
    pub evidence: Option<String>,
    /// What QA saw.
    pub verdict: Option<String>,
}

/// A part of assembled work.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PartRow {
    /// `T-145`.
    pub number: String,
    /// One line.
    pub title: String,
    /// The cell that delivers it.
    pub team: String,
    /// `open`, `completed` or `cancelled`.
    pub state: String,
    /// The criteria of the whole that it covers.
    pub covers: Vec<String>,
}

/// A finding of a task.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FindingRow {
    /// `F2`.
    pub id: String,
    /// Where it stands.
    pub status: String,
    /// How much it matters.
    pub severity: String,
    /// Who raised it.
    pub origin: String,
    /// In one line.
    pub text: String,
}

/// A run of an agent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SpawnRow {
    /// `T-142/3`.
    pub number: String,
    /// Its key.
    pub id: String,
    /// Slug of the agent.
    pub agent: String,
    /// The verb it was started for.
    pub verb: String,
    /// Which client.
    pub provider: String,
    /// `intended`, `started` or `ended`.
    pub state: String,
    /// How it ended.
    pub outcome: Option<String>,
    /// In words, when there is more to say.
    pub detail: Option<String>,
    /// What the client reported.
    pub usage: Usage,
    /// Milliseconds since the epoch.
    pub intended_at: i64,
    /// Milliseconds since the epoch.
    pub started_at: Option<i64>,
    /// Milliseconds since the epoch.
    pub ended_at: Option<i64>,
}

/// Everything about a task.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TaskView {
    /// As in a list.
    #[serde(flatten)]
    pub row: TaskRow,
    /// What is wanted.
    pub description: String,
    /// Its structural kind.
    pub shape: String,
    /// Its branch.
    pub branch: String,
    /// Where it will be merged.
    pub target: String,
    /// Tip of the branch.
    pub head: Option<String>,
    /// Number of its pull request.
    pub pr: Option<u64>,
    /// The merge commit.
    pub merge_commit: Option<String>,
    /// The outcomes.
    pub criteria: Vec<CriterionRow>,
    /// What it is assembled from.
    pub parts: Vec<PartRow>,
    /// The objections.
    pub findings: Vec<FindingRow>,
    /// The last checks, in words.
    pub gate: Option<String>,
    /// The commits, oldest first.
    pub commits: Vec<String>,
    /// How often it was sent back.
    pub revisions: u32,
    /// Runs of agents, oldest first.
    pub spawns: Vec<SpawnRow>,
    /// What the CEO can do with it now.
    pub actions: Vec<String>,
}

/// A seat and what it does.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AgentRow {
    /// `be-dev-1`.
    pub slug: String,
    /// For people.
    pub name: String,
    /// What it may do.
    pub role: String,
    /// Where it belongs.
    pub team: String,
    /// `idle` or `working`.
    pub status: String,
    /// The run it is in.
    pub spawn: Option<String>,
}

/// Something that waits for the CEO.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct InboxRow {
    /// `I-31`.
    pub number: String,
    /// `approval` or `wait`.
    pub kind: String,
    /// `T-142`.
    pub task: String,
    /// In one sentence.
    pub text: String,
    /// Milliseconds since the epoch.
    pub opened_at: i64,
}

impl Company {
    /// A task as a list shows it.
    ///
    /// # Errors
    /// A fault of the database.
    pub async fn task_row(&self, task: &Task) -> Result<TaskRow, Fault> {
        let project = self.store.project(task.project).await?;
        let waits = match family::turn(&*self.store, &self.roster, task).await? {
            NextActor::Ceo(why) => Some(format!("the CEO: {why}")),
            NextActor::Waits(wait) => Some(wait.to_string()),
            NextActor::Agents(agents, verb) => {
                let names = agents.iter().map(|a| self.roster.slug(*a)).collect::<Vec<_>>().join(" or ");
                Some(format!("{names}: {verb}"))
            }
            NextActor::Company => Some("the company: hands the whole in".to_owned()),
            NextActor::Nobody => None,
        };
        let waits = match &task.hold {
            Some(Hold::Blocked { text, .. }) => Some(format!("{}: {text}", waits.unwrap_or_default())),
            Some(Hold::Paused { .. } | Hold::Budget { .. }) | None => waits,
        };
        Ok(TaskRow {
            number: task.number.to_string(),
            id: task.id.to_string(),
            title: task.title.clone(),
            status: Status::of(task).to_string(),
            stage: task.stage.to_string(),
            priority: task.priority,
            project: project.map(|p| p.slug.clone()).unwrap_or_default(),
            team: task.team.to_string(),
            assignee: task.ownership.assignee.map(|a| self.roster.slug(a)),
            waits,
            stage_since: task.stage_since.millis(),
            created_at: task.created_at.millis(),
        })
    }

    /// A run as people see it.
    pub fn spawn_row(&self, spawn: &Spawn) -> SpawnRow {
        use roboco_domain::outcome::Outcome;
        let detail = spawn.outcome.as_ref().and_then(|o| match o {
            Outcome::Completed { verb } => Some(verb.clone()),
            Outcome::Crashed { detail, .. } | Outcome::GatewayBroken { detail } | Outcome::Stalled { detail } => Some(detail.clone()),
            Outcome::AuthMissing { remedy } => Some(remedy.clone()),
            Outcome::Stopped { reason } => Some(reason.clone()),
            Outcome::Unproductive
            | Outcome::OutOfMemory
            | Outcome::RateLimited { .. }
            | Outcome::Overloaded { .. }
            | Outcome::BudgetStop
            | Outcome::Superseded
            | Outcome::Shutdown
            | Outcome::Lost => None,
        });
        SpawnRow {
            number: spawn.number.to_string(),
            id: spawn.id.to_string(),
            agent: self.roster.slug(spawn.agent),
            verb: spawn.verb.to_string(),
            provider: spawn.provider.clone(),
            state: spawn.state.to_string(),
            outcome: spawn.outcome.as_ref().map(|o| o.word().to_owned()),
            detail,
            usage: spawn.usage,
            intended_at: spawn.intended_at.millis(),
            started_at: spawn.started_at.map(Timestamp::millis),
            ended_at: spawn.ended_at.map(Timestamp::millis),
        }
    }

    /// Everything about a task.
    ///
    /// # Errors
    /// A fault of the database.
    pub async fn task_view(&self, task: &Task) -> Result<TaskView, Fault> {
        let spawns = self.store.spawns_of(task.id).await?;
        let delivery = &task.delivery;
        Ok(TaskView {
            row: self.task_row(task).await?,
            description: task.description.clone(),
            shape: task.shape.to_string(),
            branch: delivery.branch.to_string(),
            target: delivery.target.to_string(),
            head: delivery.head.as_ref().map(ToString::to_string),
            pr: delivery.pr.as_ref().map(|pr| pr.number.0),
            merge_commit: delivery.merged.as_ref().map(|m| m.commit.to_string()),
            criteria: task
                .criteria
                .iter()
                .map(|c| CriterionRow {
                    id: c.id.to_string(),
                    text: c.text.clone(),
                    evidence: c.evidence.clone(),
                    verdict: c.verdict.clone(),
                })
                .collect(),
            parts: task
                .parts
                .iter()
                .map(|p| PartRow {
                    number: p.number.to_string(),
                    title: p.title.clone(),
                    team: p.team.to_string(),
                    state: p.state.to_string(),
                    covers: p.covers.iter().map(ToString::to_string).collect(),
                })
                .collect(),
            findings: task
                .findings
                .iter()
                .map(|f| FindingRow {
                    id: f.id.to_string(),
                    status: f.status.to_string(),
                    severity: f.severity.to_string(),
                    origin: f.origin.to_string(),
                    text: f.line_for_people(),
                })
                .collect(),
            gate: task.gate.as_ref().map(|g| format!("{}: {}", g.verdict, g.summary)),
            commits: delivery.commits.iter().map(|c| format!("{} {}", c.oid.short(), c.subject)).collect(),
            revisions: task.counters.revisions,
            spawns: spawns.iter().map(|s| self.spawn_row(s)).collect(),
            actions: verbs_for(roboco_domain::decide::standard_rules(), Role::Ceo, task)
                .into_iter()
                .filter(|v| v.is_operator() && !matches!(v, roboco_domain::verb::Verb::CreateTask))
                .map(roboco_domain::verb::Verb::command_word)
                .collect(),
        })
    }

    /// Every seat and what it does.
    ///
    /// # Errors
    /// A fault of the database.
    pub async fn agent_rows(&self) -> Result<Vec<AgentRow>, Fault> {
        let live = self.store.live_spawns().await?;
        Ok(self
            .roster
            .agents()
            .iter()
            .map(|agent| {
                let spawn = live.iter().find(|s| s.agent == agent.id);
                AgentRow {
                    slug: agent.slug.clone(),
                    name: agent.name.clone(),
                    role: agent.role.to_string(),
                    team: agent.team.to_string(),
                    status: if spawn.is_some() { "working".into() } else { "idle".into() },
                    spawn: spawn.map(|s| s.number.to_string()),
                }
            })
            .collect())
    }

    /// What waits for the CEO, oldest first.
    ///
    /// # Errors
    /// A fault of the database.
    pub async fn inbox_rows(&self) -> Result<Vec<InboxRow>, Fault> {
        let mut rows = Vec::new();
        for item in self.store.open_inbox(None).await? {
            let task = self.store.task(item.task).await?;
            rows.push(InboxRow {
                number: item.number.to_string(),
                kind: item.kind.to_string(),
                task: task.map_or_else(|| item.task.to_string(), |t| t.number.to_string()),
                text: item.text,
                opened_at: item.opened_at.millis(),
            });
        }
        Ok(rows)
    }
}
