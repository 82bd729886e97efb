//! Events: facts in the past tense, append-only. The state at any point of the log can be rebuilt from them.

use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::id::{AgentId, CriterionNumber, FindingNumber, InboxNumber, PrNumber, SpawnId, TaskId};
use crate::inbox::InboxItem;
use crate::outcome::Outcome;
use crate::project::Project;
use crate::spawn::{Epoch, Spawn, Usage};
use crate::task::{DocsRecord, GateRecord, Hold, Lease, Merged, Part, PartState, Plan, Task};
use crate::time::Timestamp;
use crate::vcs::{BranchName, Oid, Pin};
use crate::verb::Verb;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum Event {
    /// A repository was added.
    #[serde(rename = "project.added")]
    ProjectAdded {
        /// As it was added.
        project: Box<Project>,
    },
    /// A task was given to the company.
    #[serde(rename = "task.created")]
    TaskCreated {
        /// As it was created.
        task: Box<Task>,
    },
    /// It left the backlog.
    #[serde(rename = "task.activated")]
    TaskActivated {},
    /// An author took it.
    #[serde(rename = "task.claimed")]
    TaskClaimed {
        /// The right that was given.
        lease: Lease,
    },
    /// The holder's new spawn goes on under the same right.
    #[serde(rename = "task.reentered")]
    TaskReentered {
        /// The right that was given.
        lease: Lease,
    },
    /// A plan was recorded.
    #[serde(rename = "task.plan_set")]
    PlanSet {
        /// The plan.
        plan: Plan,
    },
    /// Branch and worktree are there.
    #[serde(rename = "branch.cut")]
    BranchCut {
        /// The branch.
        branch: BranchName,
        /// Tip of the target it was cut from.
        base: Oid,
        /// Tip of the branch.
        head: Oid,
        /// Tree of the tip; absent when the branch has no commit of its own yet.
        tree: Option<Oid>,
    },
    /// Work began.
    #[serde(rename = "task.started")]
    TaskStarted {},
    /// A commit was made through the gateway.
    #[serde(rename = "commit.recorded")]
    CommitRecorded {
        /// The commit.
        oid: Oid,
        /// Its tree.
        tree: Oid,
        /// First line.
        subject: String,
        /// Paths it changed.
        files: Vec<String>,
        /// Who made it.
        by: AgentId,
        /// Whether under a developer's right.
        author: bool,
    },
    /// The target was merged into the branch.
    #[serde(rename = "branch.synced")]
    BranchSynced {
        /// Tip afterwards.
        head: Oid,
        /// Its tree.
        tree: Oid,
        /// Paths left in conflict.
        conflicts: Vec<String>,
    },
    /// A pull request was opened.
    #[serde(rename = "pr.opened")]
    PrOpened {
        /// Its number.
        number: PrNumber,
        /// Its title.
        title: String,
        /// Where it wants to go.
        target: BranchName,
    },
    /// The author says it is done.
    #[serde(rename = "task.submitted")]
    TaskSubmitted {
        /// The author's words.
        notes: String,
    },
    /// The author says what proves a criterion.
    #[serde(rename = "criterion.evidenced")]
    CriterionEvidenced {
        /// Which.
        criterion: CriterionNumber,
        /// What.
        evidence: String,
    },
    /// The author answered a finding.
    #[serde(rename = "finding.addressed")]
    FindingAddressed {
        /// Which.
        finding: FindingNumber,
        /// How.
        answer: Option<String>,
    },
    /// The judge agrees that a finding is mended.
    #[serde(rename = "finding.verified")]
    FindingVerified {
        /// Which.
        finding: FindingNumber,
    },
    /// The project's checks passed, or there are none.
    #[serde(rename = "gate.passed")]
    GatePassed {
        /// What ran.
        record: GateRecord,
    },
    /// The project's checks failed.
    #[serde(rename = "gate.failed")]
    GateFailed {
        /// What ran.
        record: GateRecord,
    },
    /// A PM gave a part of the work to somebody.
    #[serde(rename = "task.delegated")]
    Delegated {
        /// The part.
        part: Part,
    },
    /// A part came to its end.
    #[serde(rename = "part.ended")]
    PartEnded {
        /// Which.
        part: TaskId,
        /// How.
        state: PartState,
        /// What its merge made of the branch; absent when nothing was merged.
        merged: Option<Merged>,
    },
    /// A PM said which criteria a part covers, or that the owner answers for them.
    #[serde(rename = "coverage.declared")]
    CoverageDeclared {
        /// The part; the owner when absent.
        part: Option<TaskId>,
        /// Which criteria.
        criteria: Vec<CriterionNumber>,
        /// Why it is covered there.
        reason: String,
    },
    /// Somebody else delivers it now.
    #[serde(rename = "task.reassigned")]
    Reassigned {
        /// Who.
        to: AgentId,
        /// Why.
        reason: String,
    },
    /// The reviewer of assembled work gets it.
    #[serde(rename = "task.handed_to_gate")]
    HandedToGate {
        /// Who assembled it.
        pm: AgentId,
        /// Whether the same commits had failed before.
        resubmitted: bool,
    },
    /// Its PM gets it without a review: nothing was merged into it.
    #[serde(rename = "task.handed_to_pm")]
    HandedToPm {
        /// Who.
        pm: AgentId,
    },
    /// QA gets it.
    #[serde(rename = "task.handed_to_qa")]
    HandedToQa {
        /// Fixed as the author.
        author: AgentId,
    },
    /// QA took it.
    #[serde(rename = "review.claimed")]
    ReviewClaimed {
        /// The right that was given.
        lease: Lease,
    },
    /// The exact commits of a review were fixed.
    #[serde(rename = "review.pinned")]
    ReviewPinned {
        /// Which.
        pin: Pin,
    },
    /// QA accepted it.
    #[serde(rename = "review.passed")]
    ReviewPassed {
        /// One per criterion.
        verdicts: Vec<(CriterionNumber, String)>,
        /// In words.
        notes: String,
    },
    /// A reviewer sent it back.
    #[serde(rename = "review.failed")]
    ReviewFailed {
        /// The new objections.
        findings: Vec<Finding>,
        /// In words.
        notes: String,
    },
    /// The review still holds after the documenter's commits.
    #[serde(rename = "review.carried")]
    ReviewCarried {
        /// To this tip.
        head: Oid,
    },
    /// The documenter changed more than documents, so QA looks again.
    #[serde(rename = "review.reopened")]
    ReviewReopened {
        /// Files that are no documents.
        files: Vec<String>,
    },
    /// The documenter took it.
    #[serde(rename = "docs.claimed")]
    DocsClaimed {
        /// The right that was given.
        lease: Lease,
    },
    /// It is documented.
    #[serde(rename = "docs.recorded")]
    DocsRecorded {
        /// What.
        docs: DocsRecord,
        /// The PM who decides next.
        pm: AgentId,
    },
    /// The PM accepted it.
    #[serde(rename = "task.accepted")]
    TaskAccepted {
        /// In words.
        notes: String,
    },
    /// The CEO decides.
    #[serde(rename = "task.sent_to_ceo")]
    SentToCeo {},
    /// A PM sent it back.
    #[serde(rename = "task.changes_requested")]
    ChangesRequested {
        /// The new objections.
        findings: Vec<Finding>,
    },
    /// Something waits for the CEO.
    #[serde(rename = "inbox.opened")]
    InboxOpened {
        /// What.
        item: InboxItem,
    },
    /// It no longer does.
    #[serde(rename = "inbox.decided")]
    InboxDecided {
        /// Which.
        number: InboxNumber,
        /// What was decided.
        decision: String,
    },
    /// The CEO approved it.
    #[serde(rename = "ceo.approved")]
    CeoApproved {
        /// The approved tip.
        head: Oid,
        /// In words.
        note: Option<String>,
    },
    /// The CEO sent it back.
    #[serde(rename = "ceo.rejected")]
    CeoRejected {
        /// The objection.
        finding: Finding,
    },
    /// It is on the target.
    #[serde(rename = "merge.landed")]
    MergeLanded {
        /// Which commit.
        merged: Merged,
    },
    /// It is not on the target.
    #[serde(rename = "merge.refused")]
    MergeRefused {
        /// Why, in a sentence.
        reason: String,
        /// Set when it goes back to its author for it.
        finding: Option<Finding>,
    },
    /// It is complete.
    #[serde(rename = "task.completed")]
    TaskCompleted {},
    /// It was given up.
    #[serde(rename = "task.cancelled")]
    TaskCancelled {
        /// Why.
        reason: String,
    },
    /// It may not move.
    #[serde(rename = "task.held")]
    TaskHeld {
        /// Why.
        hold: Hold,
    },
    /// It may move again.
    #[serde(rename = "task.unheld")]
    TaskUnheld {
        /// What changed.
        reason: String,
    },
    /// Its holder gave it back.
    #[serde(rename = "task.released")]
    TaskReleased {
        /// Why.
        reason: String,
        /// Whether the owner keeps it for later.
        keeps_owner: bool,
    },
    /// A note was written.
    #[serde(rename = "note.recorded")]
    NoteRecorded {
        /// Into which journal.
        scope: String,
        /// The note.
        text: String,
    },
    /// Progress was reported.
    #[serde(rename = "progress.reported")]
    ProgressReported {
        /// In words.
        message: String,
        /// The step that is done, from 0.
        step: Option<usize>,
    },
    /// An agent will be started.
    #[serde(rename = "spawn.intended")]
    SpawnIntended {
        /// As it was recorded.
        spawn: Box<Spawn>,
    },
    /// Its sandbox runs.
    #[serde(rename = "spawn.started")]
    SpawnStarted {},
    /// The client named its conversation.
    #[serde(rename = "spawn.session_named")]
    SpawnSessionNamed {
        /// The client's own id.
        session: String,
    },
    /// It was told to end its turn: what it waits for takes longer.
    #[serde(rename = "spawn.left")]
    SpawnLeft {
        /// What it had called.
        verb: Verb,
    },
    /// It may no longer act.
    #[serde(rename = "spawn.revoked")]
    SpawnRevoked {
        /// Whose seat.
        agent: AgentId,
        /// The seat's new right.
        epoch: Epoch,
        /// Why.
        reason: String,
    },
    /// It is over.
    #[serde(rename = "spawn.ended")]
    SpawnEnded {
        /// Which.
        spawn: SpawnId,
        /// How.
        outcome: Outcome,
        /// What it reported.
        usage: Usage,
        /// No new spawn for the task before this moment.
        not_before: Option<Timestamp>,
    },
}

impl Event {
    /// The wire word, like `task.claimed`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::ProjectAdded { .. } => "project.added",
            Self::TaskCreated { .. } => "task.created",
            Self::TaskActivated {} => "task.activated",
            Self::TaskClaimed { .. } => "task.claimed",
            Self::TaskReentered { .. } => "task.reentered",
            Self::PlanSet { .. } => "task.plan_set",
            Self::BranchCut { .. } => "branch.cut",
            Self::TaskStarted {} => "task.started",
            Self::CommitRecorded { .. } => "commit.recorded",
            Self::BranchSynced { .. } => "branch.synced",
            Self::PrOpened { .. } => "pr.opened",
            Self::TaskSubmitted { .. } => "task.submitted",
            Self::CriterionEvidenced { .. } => "criterion.evidenced",
            Self::FindingAddressed { .. } => "finding.addressed",
            Self::FindingVerified { .. } => "finding.verified",
            Self::GatePassed { .. } => "gate.passed",
            Self::GateFailed { .. } => "gate.failed",
            Self::Delegated { .. } => "task.delegated",
            Self::PartEnded { .. } => "part.ended",
            Self::CoverageDeclared { .. } => "coverage.declared",
            Self::Reassigned { .. } => "task.reassigned",
            Self::HandedToGate { .. } => "task.handed_to_gate",
            Self::HandedToPm { .. } => "task.handed_to_pm",
            Self::HandedToQa { .. } => "task.handed_to_qa",
            Self::ReviewClaimed { .. } => "review.claimed",
            Self::ReviewPinned { .. } => "review.pinned",
            Self::ReviewPassed { .. } => "review.passed",
            Self::ReviewFailed { .. } => "review.failed",
            Self::ReviewCarried { .. } => "review.carried",
            Self::ReviewReopened { .. } => "review.reopened",
            Self::DocsClaimed { .. } => "docs.claimed",
            Self::DocsRecorded { .. } => "docs.recorded",
            Self::TaskAccepted { .. } => "task.accepted",
            Self::SentToCeo {} => "task.sent_to_ceo",
            Self::ChangesRequested { .. } => "task.changes_requested",
            Self::InboxOpened { .. } => "inbox.opened",
            Self::InboxDecided { .. } => "inbox.decided",
            Self::CeoApproved { .. } => "ceo.approved",
            Self::CeoRejected { .. } => "ceo.rejected",
            Self::MergeLanded { .. } => "merge.landed",
            Self::MergeRefused { .. } => "merge.refused",
            Self::TaskCompleted {} => "task.completed",
            Self::TaskCancelled { .. } => "task.cancelled",
            Self::TaskHeld { .. } => "task.held",
            Self::TaskUnheld { .. } => "task.unheld",
            Self::TaskReleased { .. } => "task.released",
            Self::NoteRecorded { .. } => "note.recorded",
            Self::ProgressReported { .. } => "progress.reported",
            Self::SpawnIntended { .. } => "spawn.intended",
            Self::SpawnStarted {} => "spawn.started",
            Self::SpawnSessionNamed { .. } => "spawn.session_named",
            Self::SpawnLeft { .. } => "spawn.left",
            Self::SpawnRevoked { .. } => "spawn.revoked",
            Self::SpawnEnded { .. } => "spawn.ended",
        }
    }
}
