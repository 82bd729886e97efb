//! The company and the task everything starts with.

use std::sync::{Arc, LazyLock};

use roboco_domain::id::{AgentId, CompanyId, CriterionNumber, ProjectId, TaskId, TaskNumber};
use roboco_domain::outcome::Outcome;
use roboco_domain::project::{Access, GateCommands, MergeMethod, Project};
use roboco_domain::roster::Roster;
use roboco_domain::rules::RuleSet;
use roboco_domain::task::{Complexity, Counters, Criterion, Delivery, Meter, Nature, Ownership, Shape, Stage, Task, TaskType};
use roboco_domain::time::Timestamp;
use roboco_domain::vcs::BranchName;
use roboco_domain::verb::Verb;
use roboco_sim::company::{Company, Luck};
use roboco_sim::rollout::{MOST_MOVES, helpful_move};
use roboco_sim::words::Wording;
use uuid::Uuid;

const COMPANY: CompanyId = CompanyId::new(Uuid::from_u128(0xC0));
const NOW: Timestamp = Timestamp::from_millis(1_000_000);

static ROSTER: LazyLock<Arc<Roster>> =
    LazyLock::new(|| Arc::new(Roster::parse(COMPANY, include_str!("../../../../company/roster.toml")).unwrap()));

fn project() -> Project {
    Project {
        id: ProjectId::new(Uuid::from_u128(0xB0)),
        company: COMPANY,
        slug: "greeter".into(),
        version: 1,
        origin: "/srv/greeter".into(),
        default_branch: BranchName::new("main").unwrap(),
        cell: "backend".parse().unwrap(),
        commands: GateCommands { test: "true".into(), ..GateCommands::default() },
        protected_paths: Vec::new(),
        protected_branches: Vec::new(),
        merge: MergeMethod::Merge,
        access: Access::ReadWrite,
        warnings: Vec::new(),
        next_pr: 1,
        created_at: NOW,
    }
}

fn task(shape: Shape, stage: Stage) -> Task {
    Task {
        id: TaskId::new(Uuid::from_u128(0xA0)),
        company: COMPANY,
        number: TaskNumber(1),
        version: 1,
        project: project().id,
        title: "Greet several people at once".into(),
        description: "The greeter should accept several names and greet all of them.".into(),
        criteria: vec![Criterion {
            id: CriterionNumber(1),
            text: "two names are joined".into(),
            evidence: None,
            verdict: None,
            kept: None,
        }],
        task_type: TaskType::Code,
        nature: Nature::Technical,
        complexity: Complexity::Low,
        priority: 2,
        team: "backend".parse().unwrap(),
        shape,
        stage,
        stage_since: NOW,
        hold: None,
        parent: None,
        depends_on: Vec::new(),
        parts: Vec::new(),
        cells: Vec::new(),
        touches: Vec::new(),
        ownership: Ownership::default(),
        plan: None,
        delivery: Delivery {
            branch: BranchName::new("feature/backend/t1").unwrap(),
            target: BranchName::new("main").unwrap(),
            ceo_target: shape == Shape::StandaloneLeaf,
            base: None,
            head: None,
            tree: None,
            commits: Vec::new(),
            pr: None,
            merged: None,
        },
        review: None,
        docs: None,
        gate: None,
        findings: Vec::new(),
        pending: Vec::new(),
        counters: Counters::default(),
        meter: Meter { progress_at: NOW, ..Meter::default() },
        journal: Vec::new(),
        budget_micro_usd: None,
        created_by: AgentId::new(Uuid::from_u128(1)),
        created_at: NOW,
        started_at: None,
        ended_at: None,
    }
}

/// A task of its own and one under a parent, in the backlog, so that the way in is checked too.
pub(crate) fn companies(rules: &Arc<RuleSet>) -> [Company; 2] {
    [Shape::StandaloneLeaf, Shape::Leaf]
        .map(|shape| Company::new(Arc::clone(&ROSTER), Arc::clone(rules), project(), task(shape, Stage::Backlog)))
}

/// The task of its own, and places on the way where something has gone wrong: sent back, blocked, escalated, paused.
pub(crate) fn places(rules: &Arc<RuleSet>) -> Vec<Company> {
    let [fresh, child] = companies(rules);
    let mut all = vec![fresh.clone()];
    // Work under a parent goes another way only from its PM on.
    all.extend(driven_to(child, Stage::PmReview));
    all.extend(abandoned(&fresh));
    let wrongs: [(Stage, &[(&str, Verb)]); 10] = [
        (Stage::Qa, &[("be-qa", Verb::ClaimReview), ("be-qa", Verb::Fail)]),
        (Stage::PmReview, &[("be-pm", Verb::RequestChanges)]),
        (Stage::Ceo, &[("ceo", Verb::Reject)]),
        (Stage::Working, &[("be-dev-1", Verb::IAmBlocked)]),
        (Stage::PmReview, &[("be-pm", Verb::EscalateUp)]),
        (Stage::Working, &[("main-pm", Verb::EscalateToCeo)]),
        (Stage::Working, &[("be-dev-1", Verb::IAmIdle)]),
        (Stage::Qa, &[("ceo", Verb::Pause)]),
        (Stage::Working, &[("ceo", Verb::Pause)]),
        (Stage::Docs, &[("ceo", Verb::Pause)]),
    ];
    for (stage, calls) in wrongs {
        // With a part of the rules gone a place may be out of reach; its absence shows elsewhere.
        all.extend(driven_to(fresh.clone(), stage).and_then(|c| calls.iter().try_fold(c, |c, (slug, verb)| called(&c, slug, *verb))));
    }
    all
}

fn driven_to(mut company: Company, stage: Stage) -> Option<Company> {
    for _ in 0..MOST_MOVES {
        if company.task.stage == stage && company.open.is_empty() {
            return Some(company);
        }
        company = helpful_move(&company)?;
    }
    None
}

/// Its author died in the middle of a commit and its right has run out.
fn abandoned(fresh: &Company) -> Option<Company> {
    let company = driven_to(fresh.clone(), Stage::Working)?;
    let run = company.spawns.values().next()?.clone();
    let (committing, _) = company.call(company.speaker(&run)?, Verb::Commit, Wording::Full).ok()?;
    committing.end(run.id, Outcome::Lost)?.expire()
}

fn called(company: &Company, slug: &str, verb: Verb) -> Option<Company> {
    let (company, actor) = if slug == "ceo" {
        (company.clone(), company.ceo()?)
    } else {
        let agent = company.roster.by_slug(slug)?.id;
        match company.run_of(agent) {
            Some(run) => (company.clone(), company.speaker(run)?),
            None => {
                let (company, run) = company.with_run(agent, verb);
                let actor = company.speaker(&run)?;
                (company, actor)
            }
        }
    };
    let (mut next, _) = company.call(actor, verb, Wording::Full).ok()?;
    while let Some(open) = next.open.first().cloned() {
        next = next.settle(&open, Luck::Good)?.0;
    }
    Some(next)
}
