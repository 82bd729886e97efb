//! Findings: numbered objections that survive rounds and must be answered one by one.

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, CriterionNumber, FindingNumber};
use crate::role::words;
use crate::vcs::Oid;

words! {
    /// How much a finding matters.
    Severity {
        /// Must not ship.
        Blocker = "blocker",
        /// Wrong.
        Major = "major",
        /// Should be better.
        Minor = "minor",
        /// Taste.
        Nit = "nit",
    }
}

words! {
    /// Who raised it.
    FindingOrigin {
        /// QA.
        Qa = "qa",
        /// The PR gate.
        PrGate = "pr_gate",
        /// A PM.
        Pm = "pm",
        /// The CEO.
        Ceo = "ceo",
        /// The company itself: a conflict or a failed check.
        System = "system",
    }
}

words! {
    /// Where it stands.
    FindingStatus {
        /// Not answered.
        Open = "open",
        /// The author says it is mended.
        Addressed = "addressed",
        /// The judge agrees.
        Verified = "verified",
        /// Dropped by the auditor.
        Waived = "waived",
    }
}

/// One objection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// `F2`, never reused inside the task.
    pub id: FindingNumber,
    /// Who raised it.
    pub origin: FindingOrigin,
    /// The round it was raised in, from 1.
    pub round: u32,
    /// How much it matters.
    pub severity: Severity,
    /// Where it stands.
    pub status: FindingStatus,
    /// Which criterion it concerns.
    pub criterion: Option<CriterionNumber>,
    /// Which file.
    pub file: Option<String>,
    /// Which line, from 1.
    pub line: Option<u32>,
    /// What should be.
    pub expected: String,
    /// What is.
    pub actual: String,
    /// How it could be mended.
    pub fix: Option<String>,
    /// Who raised it, as an agent; absent for the company itself.
    pub by: Option<AgentId>,
    /// The commit it was seen on.
    pub head: Option<Oid>,
    /// How it was answered.
    pub answer: Option<String>,
}

impl Finding {
    /// Whether it still must be answered.
    pub const fn is_open(&self) -> bool {
        matches!(self.status, FindingStatus::Open)
    }

    /// Two objections with the same fingerprint on the same commit are one.
    pub fn fingerprint(&self) -> (FindingOrigin, Option<&str>, Option<CriterionNumber>, String) {
        (self.origin, self.file.as_deref(), self.criterion, normal(&format!("{} {}", self.expected, self.actual)))
    }

    /// One line for a brief.
    pub fn line_for_people(&self) -> String {
        let place = match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            (Some(file), None) => file.clone(),
            (None, _) => "—".into(),
        };
        let fix = self.fix.as_ref().map(|f| format!(" → {f}")).unwrap_or_default();
        format!("[{}] {place} ({}) — {} → {}{fix}", self.id, self.severity, self.expected, self.actual)
    }
}

/// A text without case, punctuation and spacing, for comparing.
pub(crate) fn normal(text: &str) -> String {
    let words: String = text.chars().map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { ' ' }).collect();
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}
