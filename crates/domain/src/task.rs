//! The task aggregate: what a unit of work is. Its fields change only through [`crate::apply`].

use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::id::{AgentId, CompanyId, CriterionNumber, IntentId, PrNumber, ProjectId, SpawnId, TaskId, TaskNumber};
use crate::role::{Team, words};
use crate::spawn::Epoch;
use crate::time::Timestamp;
use crate::vcs::{Base, BranchName, Home, Oid, Pin};
use crate::verb::Verb;

words! {
    /// The structural kind of a task; decides its route to completion. Stored, never inferred.
    Shape {
        /// Delivery work under a parent: merges into the parent's branch.
        Leaf = "leaf",
        /// Delivery work of one cell without a parent: merges into a branch of the CEO.
        StandaloneLeaf = "standalone_leaf",
        /// A cell's part of a root.
        CellParent = "cell_parent",
        /// Work of several cells on one project.
        Root = "root",
        /// Work of several cells on several projects.
        MultiRepoRoot = "multi_repo_root",
        /// The cover of a batch.
        Umbrella = "umbrella",
        /// A root inside a batch.
        BatchRoot = "batch_root",
        /// The review of a foreign pull request.
        ExternalReview = "external_review",
        /// A run of a board program.
        Exploration = "exploration",
        /// A draft that waits for the CEO.
        HeldDraft = "held_draft",
    }
}

impl Shape {
    /// Work that one author delivers and QA judges.
    pub const LEAVES: &[Self] = &[Self::Leaf, Self::StandaloneLeaf];
    /// Work that a PM splits into parts and assembles.
    pub const ASSEMBLED: &[Self] = &[Self::CellParent, Self::Root];
    /// Everything that is delivered as a branch.
    pub const DELIVERED: &[Self] = &[Self::Leaf, Self::StandaloneLeaf, Self::CellParent, Self::Root];

    /// Whether it is made of parts.
    pub const fn is_assembled(self) -> bool {
        matches!(self, Self::CellParent | Self::Root)
    }

    /// Whether it is a part of other work: released, accepted and merged by the PM of that work.
    pub const fn is_part(self) -> bool {
        matches!(self, Self::Leaf | Self::CellParent)
    }
}

words! {
    /// Where a task stands inside its shape.
    Stage {
        /// Not released yet.
        Backlog = "backlog",
        /// May be claimed.
        Ready = "ready",
        /// An author works on it.
        Working = "working",
        /// Submitted; the project's checks run.
        SelfCheck = "self_check",
        /// QA judges it.
        Qa = "qa",
        /// It is being documented.
        Docs = "docs",
        /// Assembled work is being reviewed.
        Gate = "gate",
        /// The PM decides.
        PmReview = "pm_review",
        /// The CEO decides.
        Ceo = "ceo",
        /// Sent back to its author.
        Revision = "revision",
        /// Completed.
        Done = "done",
        /// Given up.
        Cancelled = "cancelled",
    }
}

impl Stage {
    /// Nothing changes any more.
    pub const TERMINAL: &[Self] = &[Self::Done, Self::Cancelled];

    /// Whether the task has ended.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Done | Self::Cancelled)
    }
}

words! {
    /// What kind of result is wanted.
    TaskType {
        /// Source code.
        Code = "code",
        /// Documents.
        Documentation = "documentation",
        /// An answer.
        Research = "research",
        /// A plan of other tasks.
        Planning = "planning",
        /// A design.
        Design = "design",
        /// Housekeeping.
        Administrative = "administrative",
    }
}

words! {
    /// Who can judge it.
    Nature {
        /// Engineers.
        Technical = "technical",
        /// The board.
        NonTechnical = "non_technical",
    }
}

words! {
    /// How much is touched.
    Complexity {
        /// One or two files.
        Low = "low",
        /// Three to ten files or a new module.
        Medium = "medium",
        /// Cross-cell, schema, security or migration.
        High = "high",
    }
}

words! {
    /// What an agent says it is blocked by.
    BlockerType {
        /// Something outside the company.
        External = "external",
        /// Something inside the company.
        Internal = "internal",
        /// An open question.
        Question = "question",
        /// Another task.
        Dependency = "dependency",
        /// The model provider refuses; parks the provider, never the task.
        ProviderLimit = "provider_limit",
    }
}

/// One outcome the work must have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Criterion {
    /// `C1`, never reused inside the task.
    pub id: CriterionNumber,
    /// The outcome.
    pub text: String,
    /// What the author says proves it: `test:name`, `file:path`, `commit:sha` or a sentence.
    pub evidence: Option<String>,
    /// What the last QA verdict saw.
    pub verdict: Option<String>,
    /// Set when the owner of assembled work answers for it without a part: how.
    #[serde(default)]
    pub kept: Option<String>,
}

words! {
    /// Whether a part still counts.
    PartState {
        /// It is being delivered.
        Open = "open",
        /// It is in its parent's branch.
        Completed = "completed",
        /// It was given up.
        Cancelled = "cancelled",
    }
}

/// What assembled work knows of one of its parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The task.
    pub id: TaskId,
    /// For texts.
    pub number: TaskNumber,
    /// Its title.
    pub title: String,
    /// Who delivers it.
    pub team: Team,
    /// Whom it was given to.
    pub assignee: AgentId,
    /// Path globs it means to touch.
    pub touches: Vec<String>,
    /// The criteria of the whole that it covers.
    pub covers: Vec<CriterionNumber>,
    /// Whether it still counts.
    pub state: PartState,
    /// The commit that brought it into the whole.
    #[serde(default)]
    pub merged: Option<Oid>,
}

/// A plan step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Short.
    pub title: String,
    /// What will be done.
    pub description: String,
    /// Ticked off by `progress`.
    pub done: bool,
}

/// How the author means to do it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The idea.
    pub approach: String,
    /// At least one.
    pub steps: Vec<Step>,
    /// Optional: what to mind.
    #[serde(default)]
    pub considerations: Vec<String>,
    /// Optional: what may go wrong, and what then.
    #[serde(default)]
    pub risks: Vec<Risk>,
    /// Optional: what is still unknown.
    #[serde(default)]
    pub questions: Vec<String>,
}

/// What may go wrong, and what then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Risk {
    /// What may go wrong.
    pub risk: String,
    /// What then.
    pub mitigation: String,
}

/// The time-limited right to act on a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Who may act.
    pub holder: AgentId,
    /// Through which spawn.
    pub spawn: SpawnId,
    /// Epoch of the holder's seat.
    pub epoch: Epoch,
    /// When it was taken.
    pub acquired_at: Timestamp,
    /// When it ends unless it is renewed.
    pub expires_at: Timestamp,
}

/// Everything about who has a task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ownership {
    /// Whose task it is in the current stage.
    pub assignee: Option<AgentId>,
    /// Who wrote it; fixed at submission. Revisions return here.
    pub author: Option<AgentId>,
    /// Everybody who committed under a developer's lease; none of them may judge it.
    pub authors: Vec<AgentId>,
    /// Everybody who committed at all.
    pub committers: Vec<AgentId>,
    /// The live right to act.
    pub lease: Option<Lease>,
}

words! {
    /// Who can lift a hold.
    Resolver {
        /// The cell's PM.
        CellPm = "cell_pm",
        /// The main PM.
        MainPm = "main_pm",
        /// Only the CEO.
        Human = "human",
    }
}

words! {
    /// Why a task was held for somebody.
    HoldReason {
        /// An agent said it cannot go on.
        Blocked = "blocked",
        /// Reviews went round too often.
        Rounds = "rounds",
        /// Its runs crash or end without a result.
        Runs = "runs",
        /// The project's checks cannot run.
        GateUnavailable = "gate_unavailable",
        /// The branch could not be prepared.
        Branch = "branch",
    }
}

words! {
    /// Who asked for a pause.
    PausedBy {
        /// The CEO; only the CEO resumes.
        Human = "human",
        /// The agent that went idle with work in hand.
        Agent = "agent",
    }
}

words! {
    /// What a pause means for the run at work.
    #[derive(Default)]
    PausedRun {
        /// It may end its turn first.
        #[default]
        EndsTurn = "ends_turn",
        /// It stops at once.
        Stops = "stops",
    }
}

/// Why a task may not move. An overlay: the stage under it is unchanged, so lifting it restores everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Hold {
    /// Set aside.
    Paused {
        /// By whom.
        by: PausedBy,
        /// Since when.
        since: Timestamp,
        /// What it means for the run at work.
        #[serde(default)]
        run: PausedRun,
    },
    /// Somebody must do something first.
    Blocked {
        /// Why.
        reason: HoldReason,
        /// In words.
        text: String,
        /// What would help.
        needs: Option<String>,
        /// Who raised it; absent when the company did.
        raised_by: Option<AgentId>,
        /// Who can lift it.
        resolver: Resolver,
        /// Since when.
        since: Timestamp,
    },
    /// A cap on money was reached; lifted by raising the cap.
    Budget {
        /// Which cap.
        scope: String,
        /// Since when.
        since: Timestamp,
    },
}

impl Hold {
    /// The strength of a block that only the CEO lifts.
    pub const STRONGEST_BLOCK: u8 = 3;

    /// Stronger holds replace weaker ones, never the reverse.
    pub const fn strength(&self) -> u8 {
        match self {
            Self::Paused { .. } => 0,
            Self::Blocked { resolver: Resolver::CellPm, .. } => 1,
            Self::Blocked { resolver: Resolver::MainPm, .. } => 2,
            Self::Blocked { resolver: Resolver::Human, .. } => Self::STRONGEST_BLOCK,
            Self::Budget { .. } => 4,
        }
    }

    /// Whether only the CEO can lift it.
    pub const fn is_for_ceo(&self) -> bool {
        matches!(self, Self::Blocked { resolver: Resolver::Human, .. } | Self::Paused { by: PausedBy::Human, .. } | Self::Budget { .. })
    }

    /// Whether nothing below the held work moves either.
    pub const fn stops_parts(&self) -> bool {
        matches!(self, Self::Paused { .. } | Self::Budget { .. })
    }

    /// Since when it stands.
    pub const fn since(&self) -> Timestamp {
        match self {
            Self::Paused { since, .. } | Self::Blocked { since, .. } | Self::Budget { since, .. } => *since,
        }
    }
}

/// One commit made through the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitRecord {
    /// The commit.
    pub oid: Oid,
    /// Its tree.
    pub tree: Oid,
    /// First line of the message.
    pub subject: String,
    /// Paths it changed, escaped for display, at most [`CommitRecord::FILES_KEPT`].
    pub files: Vec<String>,
    /// Who made it.
    pub by: AgentId,
    /// When.
    pub at: Timestamp,
}

impl CommitRecord {
    /// The record keeps this many paths; git has them all.
    pub const FILES_KEPT: usize = 200;
}

/// A pull request: rows of ours until a remote forge is connected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequest {
    /// `#12` inside the project.
    pub number: PrNumber,
    /// Its title.
    pub title: String,
    /// Opened when.
    pub opened_at: Timestamp,
}

/// What was merged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merged {
    /// The merge commit.
    pub commit: Oid,
    /// Its tree.
    pub tree: Oid,
    /// When it landed.
    pub at: Timestamp,
}

/// Branch, pull request and merge of a task in one project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The task's branch.
    pub branch: BranchName,
    /// Where it will be merged.
    pub target: BranchName,
    /// Whether only the CEO may merge there.
    pub ceo_target: bool,
    /// Tip of the target when the branch was cut; absent until it is.
    pub base: Option<Oid>,
    /// Tip of the branch.
    pub head: Option<Oid>,
    /// Tree of the tip.
    pub tree: Option<Oid>,
    /// The commits made on it, oldest first, at most [`Delivery::COMMITS_KEPT`].
    pub commits: Vec<CommitRecord>,
    /// Its pull request.
    pub pr: Option<PullRequest>,
    /// Set once it has landed.
    pub merged: Option<Merged>,
}

impl Delivery {
    /// The branch it is cut from and merged to, and where that lives.
    pub fn base(&self) -> Base {
        Base { branch: self.target.clone(), home: if self.ceo_target { Home::Origin } else { Home::Store } }
    }

    /// The record keeps this many commits; git has them all.
    pub const COMMITS_KEPT: usize = 100;
}

/// What QA looked at, and who may look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    /// The judge.
    pub by: AgentId,
    /// The exact commits.
    pub pin: Pin,
    /// Whether it passed; absent while it is open.
    pub passed: Option<bool>,
    /// The judge's words.
    pub notes: String,
    /// Whether the same commits were handed in once more after they had failed.
    #[serde(default)]
    pub resubmitted: bool,
}

/// What was documented.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocsRecord {
    /// Files written or re-affirmed.
    pub files: Vec<String>,
    /// In words; the reason when nothing needed writing.
    pub notes: String,
}

words! {
    /// What the project's checks said about a tree.
    GateVerdict {
        /// Every configured command ended with 0.
        Passed = "passed",
        /// The project has no commands; shown as a warning, never as passed.
        NotConfigured = "not_configured",
        /// A command failed.
        Failed = "failed",
    }
}

/// The checks of one tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateRecord {
    /// Which tree was checked.
    pub tree: Oid,
    /// What came out.
    pub verdict: GateVerdict,
    /// Commands and their results, for people.
    pub summary: String,
    /// End of the output of the failed command.
    pub tail: Option<String>,
    /// When.
    pub at: Timestamp,
}

words! {
    /// An effect that a task waits for.
    PendingKind {
        /// Branch and worktree are being prepared.
        CutBranch = "cut_branch",
        /// A commit is being made.
        Commit = "commit",
        /// The base is being merged in.
        Sync = "sync",
        /// The project's checks run.
        Gate = "gate",
        /// The review's commits are being pinned.
        Pin = "pin",
        /// It is being merged.
        Land = "land",
    }
}

/// An effect under way. The task shows it, and its result must name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// The intent row.
    pub intent: IntentId,
    /// What is under way.
    pub kind: PendingKind,
    /// The verb that asked for it.
    pub verb: Verb,
    /// Since when.
    pub since: Timestamp,
}

/// How often things happened; numbers are never reused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Entries to the revision stage.
    pub revisions: u32,
    /// Spawns so far; the next one is this plus one.
    pub spawns: u64,
    /// Findings so far.
    pub findings: u64,
    /// Conflicts at merge time in a row.
    pub conflicts: u32,
}

/// The one progress meter of a task: how many runs since the last fact of progress.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Meter {
    /// Runs that ended on their own without a result since the last progress.
    pub strikes: u32,
    /// Crashes within the last hour.
    pub crashes: Vec<Timestamp>,
    /// No new spawn before this moment.
    pub not_before: Option<Timestamp>,
    /// When something last moved.
    pub progress_at: Timestamp,
}

/// A line of the journal, shown to the next role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalNote {
    /// Who wrote it.
    pub by: AgentId,
    /// `note`, `decision`, `reflect`, `learning`, `struggle` or `handoff`.
    pub scope: String,
    /// What it says, clamped for the record; the log has it whole.
    pub text: String,
    /// When.
    pub at: Timestamp,
}

/// A unit of work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Key.
    pub id: TaskId,
    /// Owner of every row.
    pub company: CompanyId,
    /// `T-142`.
    pub number: TaskNumber,
    /// Optimistic version; every commit that touches the task raises it by one.
    pub version: u64,
    /// The repository.
    pub project: ProjectId,
    /// One line.
    pub title: String,
    /// What is wanted.
    pub description: String,
    /// The outcomes.
    pub criteria: Vec<Criterion>,
    /// Code or something else.
    pub task_type: TaskType,
    /// Who can judge it.
    pub nature: Nature,
    /// How much is touched.
    pub complexity: Complexity,
    /// 0 is most urgent.
    pub priority: u8,
    /// The team that delivers it.
    pub team: Team,
    /// Structural kind.
    pub shape: Shape,
    /// Position.
    pub stage: Stage,
    /// Since when it is in this stage.
    pub stage_since: Timestamp,
    /// Why it may not move.
    pub hold: Option<Hold>,
    /// Its parent in the tree.
    pub parent: Option<TaskId>,
    /// Prerequisites; immutable edges.
    pub depends_on: Vec<TaskId>,
    /// The parts it is assembled from, in the order they were given out.
    #[serde(default)]
    pub parts: Vec<Part>,
    /// Cells that the human wants to take part.
    #[serde(default)]
    pub cells: Vec<Team>,
    /// Path globs it means to touch.
    pub touches: Vec<String>,
    /// Who has it.
    pub ownership: Ownership,
    /// How it will be done.
    pub plan: Option<Plan>,
    /// Branch, pull request, merge.
    pub delivery: Delivery,
    /// The current or last QA review.
    pub review: Option<Review>,
    /// The current documents.
    pub docs: Option<DocsRecord>,
    /// The last checks.
    pub gate: Option<GateRecord>,
    /// The ledger of objections.
    pub findings: Vec<Finding>,
    /// Effects under way.
    pub pending: Vec<Pending>,
    /// How often.
    pub counters: Counters,
    /// Runs since progress.
    pub meter: Meter,
    /// The newest notes.
    pub journal: Vec<JournalNote>,
    /// Cap on what it may cost, in micro-dollars.
    pub budget_micro_usd: Option<u64>,
    /// Who asked for it.
    pub created_by: AgentId,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When work first started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

impl Task {
    /// The effect of this kind that is under way.
    pub fn pending(&self, kind: PendingKind) -> Option<&Pending> {
        self.pending.iter().find(|p| p.kind == kind)
    }

    /// Whether it is being merged right now.
    pub fn is_merging(&self) -> bool {
        self.pending(PendingKind::Land).is_some()
    }

    /// The lease, if it is not expired at `now`.
    pub fn live_lease(&self, now: Timestamp) -> Option<&Lease> {
        self.ownership.lease.as_ref().filter(|l| l.expires_at > now)
    }

    /// A criterion by number.
    pub fn criterion(&self, id: CriterionNumber) -> Option<&Criterion> {
        self.criteria.iter().find(|c| c.id == id)
    }

    /// Objections that still must be answered.
    pub fn open_findings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|f| f.is_open())
    }
}

/// What other tasks need to know about a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskBrief {
    /// Key.
    pub id: TaskId,
    /// For texts.
    pub number: TaskNumber,
    /// Position.
    pub stage: Stage,
    /// The hold, if any.
    pub hold: Option<Hold>,
    /// Whose it is.
    pub assignee: Option<AgentId>,
    /// Who holds its lease.
    pub holder: Option<AgentId>,
}

impl From<&Task> for TaskBrief {
    fn from(task: &Task) -> Self {
        Self {
            id: task.id,
            number: task.number,
            stage: task.stage,
            hold: task.hold.clone(),
            assignee: task.ownership.assignee,
            holder: task.ownership.lease.as_ref().map(|l| l.holder),
        }
    }
}
