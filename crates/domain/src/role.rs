//! What an agent may be: roles, teams and the sets of roles that rules speak of.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $word)] $variant,)*
        }
        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &[Self] = &[$(Self::$variant),*];
            /// The wire word.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
        impl std::str::FromStr for $name {
            type Err = $crate::role::UnknownWord;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let wanted = text.trim();
                Self::ALL.iter().copied().find(|v| v.as_str().eq_ignore_ascii_case(wanted)).ok_or_else(|| $crate::role::UnknownWord {
                    text: text.chars().take(60).collect(),
                    allowed: Self::ALL.iter().map(|v| v.as_str()).collect::<Vec<_>>().join(", "),
                })
            }
        }
    };
}
pub(crate) use words;

/// A word outside the closed list it should come from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not one of: {allowed}")]
pub struct UnknownWord {
    /// What was given, cut to a safe length.
    pub text: String,
    /// The words that would have been accepted.
    pub allowed: String,
}

words! {
    /// What a seat on the roster may do.
    Role {
        /// Implements one leaf at a time.
        Developer = "developer",
        /// Judges a leaf against its criteria.
        Qa = "qa",
        /// Documents a leaf on its own branch.
        Documenter = "documenter",
        /// Splits, accepts and assembles the work of one cell.
        CellPm = "cell_pm",
        /// Owns roots and hands them to the CEO.
        MainPm = "main_pm",
        /// The value and scope view of the board.
        ProductOwner = "product_owner",
        /// The market view of the board.
        HeadMarketing = "head_marketing",
        /// The silent observer.
        Auditor = "auditor",
        /// Reviews assembled work.
        PrReviewer = "pr_reviewer",
        /// Turns a wish of the CEO into a draft.
        Prompter = "prompter",
        /// Acts for the CEO on command.
        Secretary = "secretary",
        /// The human.
        Ceo = "ceo",
        /// The author of automatic records.
        System = "system",
    }
}

impl Role {
    /// Roles that plan, delegate and lift holds; exempt from the one-active-task rule.
    pub const PMS: &[Self] = &[Self::CellPm, Self::MainPm];
    /// Roles with a writable worktree and the `commit` tool.
    pub const AUTHORS: &[Self] = &[Self::Developer, Self::Documenter];
    /// Roles the supervisor may start by itself.
    pub const DISPATCHED: &[Self] = &[
        Self::Developer,
        Self::Qa,
        Self::Documenter,
        Self::CellPm,
        Self::MainPm,
        Self::ProductOwner,
        Self::HeadMarketing,
        Self::Auditor,
        Self::PrReviewer,
    ];

    /// Whether the role is bound to its own cell.
    pub const fn is_cell_scoped(self) -> bool {
        matches!(self, Self::Developer | Self::Qa | Self::Documenter | Self::CellPm)
    }

    /// The path segment of `/api/v1/flow/{segment}/…`; the two board officers share one.
    pub const fn route(self) -> &'static str {
        match self {
            Self::ProductOwner | Self::HeadMarketing => "board",
            Self::Developer
            | Self::Qa
            | Self::Documenter
            | Self::CellPm
            | Self::MainPm
            | Self::Auditor
            | Self::PrReviewer
            | Self::Prompter
            | Self::Secretary
            | Self::Ceo
            | Self::System => self.as_str(),
        }
    }
}

/// A team: a delivery cell named on the roster, or one of the fixed teams.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Team(String);

impl Team {
    /// Team of the main PM.
    pub const MAIN_PM: &str = "main_pm";
    /// Team of the board, the CEO and the interactive roles.
    pub const BOARD: &str = "board";
    /// Team of the sentinel.
    pub const SYSTEM: &str = "system";

    /// The team's slug.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Team {
    type Err = UnknownWord;
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let slug = text.trim().to_ascii_lowercase();
        let fine = (1..=40).contains(&slug.len()) && slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if fine {
            Ok(Self(slug))
        } else {
            Err(UnknownWord { text: text.chars().take(60).collect(), allowed: "a team slug of lower-case letters, digits and _".into() })
        }
    }
}

impl fmt::Display for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
