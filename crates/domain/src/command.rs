//! Commands: what somebody asks the company to do. The only way in for every change of state.

use uuid::Uuid;

use crate::effect::{Effect, EffectResult};
use crate::id::{AgentId, CorrelationId, IntentId, ProjectId, SpawnId, TaskId};
use crate::outcome::Outcome;
use crate::project::{Access, GateCommands, MergeMethod};
use crate::role::{Role, Team};
use crate::spawn::{Epoch, Usage};
use crate::vcs::BranchName;
use crate::verb::{Call, Verb};

/// Who sends a command; taken from a verified credential, never from a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    /// The human, or somebody with the CEO's token.
    Ceo(AgentId),
    /// An agent through a live spawn.
    Agent(AgentActor),
    /// The company itself: the supervisor, an effect's result, a timer.
    System(AgentId),
}

/// An agent through a live spawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentActor {
    /// The seat.
    pub agent: AgentId,
    /// Its role.
    pub role: Role,
    /// Its team.
    pub team: Team,
    /// The run.
    pub spawn: SpawnId,
    /// The right the run was started with.
    pub epoch: Epoch,
}

impl Actor {
    /// The seat on the roster.
    pub const fn agent(&self) -> AgentId {
        match self {
            Self::Ceo(agent) | Self::System(agent) => *agent,
            Self::Agent(actor) => actor.agent,
        }
    }

    /// The role it acts in.
    pub const fn role(&self) -> Role {
        match self {
            Self::Ceo(_) => Role::Ceo,
            Self::Agent(actor) => actor.role,
            Self::System(_) => Role::System,
        }
    }

    /// The run it acts through.
    pub const fn spawn(&self) -> Option<SpawnId> {
        match self {
            Self::Agent(actor) => Some(actor.spawn),
            Self::Ceo(_) | Self::System(_) => None,
        }
    }
}

/// Fresh random ids a decision may use, made before it, so that deciding again gives the same result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fresh(pub [Uuid; 3]);

impl Fresh {
    /// For the row the command creates.
    pub const fn row(&self) -> Uuid {
        self.0[0]
    }
    /// For its first effect.
    pub const fn intent(&self) -> IntentId {
        IntentId::new(self.0[1])
    }
    /// For its second effect.
    pub const fn second_intent(&self) -> IntentId {
        IntentId::new(self.0[2])
    }
    /// For the nth of many effects on other tasks, counted from 0.
    pub fn intent_of(&self, nth: usize) -> IntentId {
        IntentId::new(Uuid::new_v5(&self.0[2], &nth.to_be_bytes()))
    }
}

/// A repository to add, as it was probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewProject {
    /// Its key, chosen before its store was made.
    pub id: ProjectId,
    /// Name in commands.
    pub slug: String,
    /// Path or URL.
    pub origin: String,
    /// Read from the origin.
    pub default_branch: BranchName,
    /// The cell that gets its work.
    pub cell: Team,
    /// Its checks.
    pub commands: GateCommands,
    /// Path globs no agent may change, besides the fixed ones.
    pub protected_paths: Vec<String>,
    /// Branch globs only the CEO may merge to.
    pub protected_branches: Vec<String>,
    /// How finished work is merged.
    pub merge: MergeMethod,
    /// What was proven.
    pub access: Access,
    /// What was noticed.
    pub warnings: Vec<String>,
}

/// What the supervisor and the effects report or decide.
#[derive(Debug, Clone, PartialEq)]
pub enum SystemCommand {
    /// Record that an agent will be started.
    PlanSpawn {
        /// For which task.
        task: TaskId,
        /// Who.
        agent: AgentId,
        /// The verb its brief offers first.
        verb: Verb,
        /// Which client.
        provider: String,
        /// Which model.
        model: Option<String>,
        /// A conversation to go on with.
        resume: Option<String>,
    },
    /// Its sandbox runs.
    SpawnStarted {
        /// Which.
        spawn: SpawnId,
    },
    /// The client named its conversation.
    SpawnSession {
        /// Which.
        spawn: SpawnId,
        /// The client's own id.
        session: String,
    },
    /// It was told to end its turn while an effect it waits for goes on.
    SpawnLeft {
        /// Which.
        spawn: SpawnId,
        /// What it had called.
        verb: Verb,
    },
    /// It is over.
    SpawnEnded {
        /// Which.
        spawn: SpawnId,
        /// How.
        outcome: Outcome,
        /// What it reported.
        usage: Usage,
    },
    /// It may no longer act.
    RevokeSpawn {
        /// Which.
        spawn: SpawnId,
        /// Why.
        reason: String,
    },
    /// An effect came to something.
    Settle {
        /// Which.
        intent: IntentId,
        /// The work as it was recorded.
        effect: Box<Effect>,
        /// What it came to.
        result: EffectResult,
    },
    /// Every part of assembled work is done: hand the whole in, without waiting for its PM to say so.
    Submit {
        /// Which.
        task: TaskId,
    },
    /// Nobody renewed the lease.
    ExpireLease {
        /// Of which task.
        task: TaskId,
    },
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// A verb or tool, for the task it was resolved to.
    Verb {
        /// With its arguments.
        call: Box<Call>,
        /// The task it names, or the task of the caller's spawn.
        task: Option<TaskId>,
    },
    /// Add a repository.
    AddProject(Box<NewProject>),
    /// Something the company does by itself.
    System(SystemCommand),
}

/// A request.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// Traces the request through logs and events.
    pub correlation: CorrelationId,
    /// Who.
    pub actor: Actor,
    /// What.
    pub body: Body,
    /// Ids it may use.
    pub fresh: Fresh,
}
