//! The roster: who exists, read from data and checked before anything runs on it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use uuid::Uuid;

use crate::id::{AgentId, CompanyId};
use crate::role::{Role, Team, words};

words! {
    /// How strong a model an agent gets; the only model names outside provider rows.
    Tier {
        /// Enough for structured verbs.
        Standard = "standard",
        /// For judgement.
        Strong = "strong",
    }
}

words! {
    /// Which assembled work a PR reviewer gates.
    GateTier {
        /// Its own cell's work.
        Cell = "cell",
        /// Roots and inbound pull requests.
        Root = "root",
        /// Any cell's work, when that cell's reviewer is busy.
        Overflow = "overflow",
    }
}

/// One seat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Fixed across installations.
    pub id: AgentId,
    /// Name in commands and logs, like `be-dev-1`.
    pub slug: String,
    /// What it may do.
    pub role: Role,
    /// Where it belongs.
    pub team: Team,
    /// Name for people.
    pub name: String,
    /// Only for PR reviewers.
    pub gate: Option<GateTier>,
    /// No longer given work; kept because history names it.
    pub retired: Retired,
    /// Model tier, from the role.
    pub tier: Tier,
}

/// Whether a seat still gets work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retired {
    /// It works.
    No,
    /// It is kept for history only.
    Yes,
}

/// A delivery team.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Its team.
    pub team: Team,
    /// Name for people.
    pub name: String,
}

/// Everybody, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roster {
    cells: Vec<Cell>,
    agents: Vec<Agent>,
}

/// Why a roster file cannot be used. All problems are listed together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the roster cannot be used:\n  - {}", .problems.join("\n  - "))]
pub struct RosterError {
    /// One sentence per problem.
    pub problems: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RosterFile {
    schema: u32,
    #[serde(default)]
    cell: Vec<CellRow>,
    #[serde(default)]
    agent: Vec<AgentRow>,
    #[serde(default)]
    role: BTreeMap<Role, RoleRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CellRow {
    slug: String,
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentRow {
    slug: String,
    id: Option<Uuid>,
    role: Role,
    team: String,
    name: String,
    gate: Option<GateTier>,
    #[serde(default)]
    retired: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RoleRow {
    tier: Tier,
    floor: Tier,
    #[serde(default)]
    #[expect(dead_code, reason = "accepted for provider adapters, which read it from the file's role table")]
    effort: Option<String>,
}

impl Roster {
    /// Reads a roster file and checks that a company can run on it.
    ///
    /// # Errors
    /// `RosterError` with every problem: unreadable file, unknown key, double slug or id, a cell without its seats,
    /// a role whose model tier is below its floor, no CEO or main PM to end the reporting chain at.
    pub fn parse(company: CompanyId, text: &str) -> Result<Self, RosterError> {
        let file: RosterFile = toml::from_str(text).map_err(|e| RosterError { problems: vec![e.to_string()] })?;
        let mut problems = Vec::new();
        if file.schema != 1 {
            problems.push(format!("schema {} is not known to this version; it reads schema 1", file.schema));
        }
        let cells = file.cell.iter().filter_map(|row| row.read(&mut problems)).collect::<Vec<_>>();
        let agents = file.agent.iter().filter_map(|row| row.read(company, &file.role, &mut problems)).collect::<Vec<_>>();
        let roster = Self { cells, agents };
        roster.check(&file.role, &mut problems);
        if problems.is_empty() { Ok(roster) } else { Err(RosterError { problems }) }
    }

    /// The delivery cells.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Every seat, retired ones included.
    pub fn agents(&self) -> &[Agent] {
        &self.agents
    }

    /// A seat by id.
    pub fn agent(&self, id: AgentId) -> Option<&Agent> {
        self.agents.iter().find(|a| a.id == id)
    }

    /// A seat by slug.
    pub fn by_slug(&self, slug: &str) -> Option<&Agent> {
        self.agents.iter().find(|a| a.slug == slug)
    }

    /// Whether a seat exists and still gets work.
    pub fn is_working(&self, id: AgentId) -> bool {
        self.agent(id).is_some_and(|a| a.retired == Retired::No)
    }

    /// The slug of a seat, for texts; an id that left the roster prints as itself.
    pub fn slug(&self, id: AgentId) -> String {
        self.agent(id).map_or_else(|| id.to_string(), |a| a.slug.clone())
    }

    /// Working seats of a role in a team.
    pub fn seats(&self, role: Role, team: &Team) -> impl Iterator<Item = &Agent> {
        self.agents.iter().filter(move |a| a.role == role && &a.team == team && a.retired == Retired::No)
    }

    /// The one PM of a cell; the main PM for every other team.
    pub fn pm_of(&self, team: &Team) -> Option<&Agent> {
        self.seats(Role::CellPm, team).next().or_else(|| self.sole(Role::MainPm))
    }

    /// The only seat of a role that exists once.
    pub fn sole(&self, role: Role) -> Option<&Agent> {
        self.agents.iter().find(|a| a.role == role && a.retired == Retired::No)
    }

    /// The human.
    pub fn ceo(&self) -> Option<&Agent> {
        self.sole(Role::Ceo)
    }

    /// Whether a team is a delivery cell.
    pub fn is_cell(&self, team: &Team) -> bool {
        self.cells.iter().any(|c| &c.team == team)
    }

    fn check(&self, roles: &BTreeMap<Role, RoleRow>, problems: &mut Vec<String>) {
        let mut slugs = BTreeSet::new();
        let mut ids = BTreeSet::new();
        for agent in &self.agents {
            if !slugs.insert(&agent.slug) {
                problems.push(format!("agent {} appears twice", agent.slug));
            }
            if !ids.insert(agent.id) {
                problems.push(format!("agent {} has an id that another agent has", agent.slug));
            }
            self.check_team(agent, problems);
        }
        for cell in &self.cells {
            for (role, most) in [
                (Role::Developer, None),
                (Role::Qa, Some(1)),
                (Role::Documenter, Some(1)),
                (Role::CellPm, Some(1)),
                (Role::PrReviewer, Some(1)),
            ] {
                let count = self.seats(role, &cell.team).count();
                if count == 0 || most.is_some_and(|m| count > m) {
                    let wanted = if most.is_some() { "exactly one" } else { "at least one" };
                    problems.push(format!("cell {} has {count} of role {role}; it needs {wanted}", cell.team));
                }
            }
        }
        for role in [Role::Ceo, Role::MainPm, Role::System] {
            let count = self.agents.iter().filter(|a| a.role == role && a.retired == Retired::No).count();
            if count != 1 {
                problems.push(format!("{count} agents have the role {role}; exactly one must"));
            }
        }
        for (role, row) in roles {
            if row.tier < row.floor {
                problems.push(format!("role {role} is given tier {} below its floor {}", row.tier, row.floor));
            }
        }
    }

    fn check_team(&self, agent: &Agent, problems: &mut Vec<String>) {
        let fixed = matches!(agent.team.as_str(), Team::BOARD | Team::MAIN_PM | Team::SYSTEM);
        let in_cell = self.is_cell(&agent.team);
        if !fixed && !in_cell {
            problems.push(format!("agent {} is in team {}, which is no cell of this roster", agent.slug, agent.team));
        }
        if agent.role.is_cell_scoped() && !in_cell {
            problems.push(format!("agent {} has the cell role {} but is not in a cell", agent.slug, agent.role));
        }
        if agent.gate.is_some() && agent.role != Role::PrReviewer {
            problems.push(format!("agent {} has a gate but is no pr_reviewer", agent.slug));
        }
    }
}

impl CellRow {
    fn read(&self, problems: &mut Vec<String>) -> Option<Cell> {
        match self.slug.parse() {
            Ok(team) => Some(Cell { team, name: self.name.clone() }),
            Err(e) => {
                problems.push(format!("cell {:?}: {e}", self.slug));
                None
            }
        }
    }
}

impl AgentRow {
    fn read(&self, company: CompanyId, roles: &BTreeMap<Role, RoleRow>, problems: &mut Vec<String>) -> Option<Agent> {
        let fine = (1..=40).contains(&self.slug.len())
            && self.slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !self.slug.starts_with('-');
        if !fine {
            problems.push(format!("agent {:?}: a slug is 1 to 40 lower-case letters, digits and -", self.slug));
        }
        let team = match self.team.parse() {
            Ok(team) => team,
            Err(e) => {
                problems.push(format!("agent {}: {e}", self.slug));
                return None;
            }
        };
        let gate = match (self.role, self.gate) {
            (Role::PrReviewer, None) => Some(GateTier::Cell),
            (_, gate) => gate,
        };
        Some(Agent {
            // Without an id of its own a seat gets one that follows from company and slug, so that two loads agree.
            id: AgentId::new(self.id.unwrap_or_else(|| Uuid::new_v5(&company.uuid(), self.slug.as_bytes()))),
            slug: self.slug.clone(),
            role: self.role,
            team,
            name: self.name.clone(),
            gate,
            retired: if self.retired { Retired::Yes } else { Retired::No },
            tier: roles.get(&self.role).map_or(Tier::Standard, |r| r.tier),
        })
    }
}
