//! Briefings and evidence: what a role is told about a task, from the company's own records and bounded reads of git.

use roboco_domain::effect::{Effect, EffectResult};
use roboco_domain::id::CriterionNumber;
use roboco_domain::input::clamp;
use roboco_domain::limits;
use roboco_domain::role::Role;
use roboco_domain::roster::Roster;
use roboco_domain::task::{GateVerdict, Shape, Stage, Task};
use roboco_domain::vcs::Oid;
use roboco_store::Store;
use serde_json::{Map, Value, json};

use crate::fault::Fault;
use crate::{Company, family};

/// Characters of what is told about each work a task is a part of.
const ABOVE_CHARS: usize = 1500;
/// Ended effects that are looked through for the newest of each kind.
const ENDED_EFFECTS: u64 = 50;

impl Company {
    /// The full briefing of a task: what is wanted, how far it is, what others wrote.
    ///
    /// # Errors
    /// A fault of the database.
    pub async fn briefing(&self, task: &Task) -> Result<Map<String, Value>, Fault> {
        let mut dependencies = Vec::new();
        for id in &task.depends_on {
            if let Some(done) = self.store.task(*id).await? {
                dependencies.push(json!({ "task": done.number.to_string(), "title": done.title, "stage": done.stage }));
            }
        }
        let handoff = json!({
            "task": task.number.to_string(),
            "title": task.title,
            "description": task.description,
            "branch": task.delivery.branch,
            "target": task.delivery.target,
            "pr_number": task.delivery.pr.as_ref().map(|pr| pr.number.0),
            "commits": task.delivery.commits.iter().rev().take(limits::BRIEFING_ITEMS)
                .map(|c| json!({ "commit": c.oid.short(), "subject": c.subject, "by": self.roster.slug(c.by) })).collect::<Vec<_>>(),
            "acceptance_criteria": criteria(task),
            "plan": task.plan.as_ref().map(|p| json!({
                "approach": p.approach,
                "steps": p.steps.iter().map(|s| json!({ "title": s.title, "done": s.done })).collect::<Vec<_>>(),
            })),
            "open_findings": findings(task, Which::Open),
            "checks": checks(task),
            "last_results": last_results(&*self.store, task).await?,
            "notes": journal(&self.roster, task),
            "dependencies": dependencies,
            "part_of": part_of(&*self.store, task).await?,
            "parts": parts(&self.roster, task),
            "cells_asked_for": task.cells,
            "you_can_delegate_to": delegates(&self.roster, task),
        });
        let mut map = Map::new();
        map.insert("task_handoff".into(), without_empty(handoff));
        Ok(map)
    }

    /// The evidence pack of a task. Git gets one bounded read; what could not be read is said.
    pub async fn evidence(&self, task: &Task) -> Map<String, Value> {
        let mut pack = pack(self, task).await;
        let results = last_results(&*self.store, task).await;
        let told = results.map_or_else(|fault| format!("they could not be read: {fault}").into(), Value::from);
        if told != json!([]) {
            pack.insert("last_results".into(), told);
        }
        pack
    }
}

/// The evidence pack without what effects came to, for those whose briefing tells that.
pub(crate) async fn pack(company: &Company, task: &Task) -> Map<String, Value> {
    let mut gaps = Vec::new();
    let diff = match compared(task) {
        Some((base, head)) => {
            let read = company.repos.diff(task.project, base, head, limits::EVIDENCE_DIFF_CHARS);
            match tokio::time::timeout(limits::EVIDENCE_BUILD, read).await {
                Ok(Ok(diff)) => diff,
                Ok(Err(why)) => {
                    gaps.push(format!("the difference could not be read: {why}"));
                    Default::default()
                }
                Err(_) => {
                    gaps.push("the difference took too long to read".into());
                    Default::default()
                }
            }
        }
        None => Default::default(),
    };
    let pack = json!({
        "title": task.title,
        "description": task.description,
        "branch": task.delivery.branch,
        "pr_number": task.delivery.pr.as_ref().map(|pr| pr.number.0),
        "reviewed": task.review.as_ref().map(|r| json!({ "head": r.pin.head, "passed": r.passed, "notes": r.notes })),
        "files_changed": diff.files,
        "stat": diff.stat,
        "pr_diff": diff.text,
        "commits": task.delivery.commits.iter()
            .map(|c| json!({ "commit": c.oid.short(), "subject": c.subject, "by": company.roster.slug(c.by), "files": c.files }))
            .collect::<Vec<_>>(),
        "acceptance_criteria": criteria(task),
        "parts": parts(&company.roster, task),
        "gate": checks(task),
        "findings": findings(task, Which::All),
        "docs": task.docs.as_ref().map(|d| json!({ "files": d.files, "notes": d.notes })),
        "notes": journal(&company.roster, task),
        "evidence_gaps": gaps,
    });
    match without_empty(pack) {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// What was asked for further up, nearest first, and which criteria of it this task answers for.
async fn part_of(store: &dyn Store, task: &Task) -> Result<Vec<Value>, Fault> {
    let mut below = task.id;
    let mut told = Vec::new();
    for above in family::ancestors(store, task).await? {
        let covers = above.parts.iter().find(|p| p.id == below).map(|p| p.covers.as_slice()).unwrap_or_default();
        told.push(without_empty(json!({
            "task": above.number.to_string(),
            "title": above.title,
            "description": clamp(&above.description, ABOVE_CHARS),
            "covers": covered(&above, covers),
        })));
        below = above.id;
    }
    Ok(told)
}

fn parts(roster: &Roster, task: &Task) -> Vec<Value> {
    let part = |p: &roboco_domain::task::Part| {
        without_empty(json!({
            "task": p.number.to_string(), "title": p.title, "team": p.team, "assignee": roster.slug(p.assignee), "state": p.state,
            "covers": p.covers.iter().map(ToString::to_string).collect::<Vec<_>>(), "touches": p.touches,
            "merged": p.merged.as_ref().map(Oid::short),
        }))
    };
    task.parts.iter().map(part).collect()
}

/// Slugs of those whom the PM of assembled work can give parts to.
fn delegates(roster: &Roster, task: &Task) -> Vec<String> {
    let slugs = |role, team| roster.seats(role, team).map(|a| a.slug.clone()).collect::<Vec<_>>();
    match task.shape {
        Shape::Root => roster.cells().iter().flat_map(|c| slugs(Role::CellPm, &c.team)).collect(),
        Shape::CellParent => slugs(Role::Developer, &task.team),
        _ => Vec::new(),
    }
}

/// What did not work in this stage and was not mended since: whoever waited for it may have been told nothing.
async fn last_results(store: &dyn Store, task: &Task) -> Result<Vec<Value>, Fault> {
    // Only whoever writes can mend something; a judge whose commits could not be pinned claims them again.
    if !matches!(task.stage, Stage::Ready | Stage::Working | Stage::SelfCheck | Stage::Revision | Stage::Docs) {
        return Ok(Vec::new());
    }
    let committed = task.delivery.commits.last().map_or(task.created_at, |commit| commit.at);
    let since = task.stage_since.max(committed);
    let ended = store.ended_effects(task.id, since, ENDED_EFFECTS).await?;
    // Of each kind only the newest counts.
    let newest = ended.iter().enumerate().filter(|(n, it)| ended.iter().take(*n).all(|newer| newer.effect.kind() != it.effect.kind()));
    Ok(newest.filter_map(|(_, it)| failure(&it.effect, &it.result)).collect())
}

fn findings(task: &Task, which: Which) -> Vec<Value> {
    task.findings
        .iter()
        .filter(|f| which == Which::All || f.is_open())
        .map(|f| {
            without_empty(json!({
                "id": f.id.to_string(), "origin": f.origin, "round": f.round, "severity": f.severity, "status": f.status,
                "criterion": f.criterion.map(|c| c.to_string()), "file": f.file, "line": f.line,
                "expected": f.expected, "actual": f.actual, "fix": f.fix, "answer": f.answer,
            }))
        })
        .collect()
}

fn journal(roster: &Roster, task: &Task) -> Vec<Value> {
    task.journal.iter().map(|n| json!({ "by": roster.slug(n.by), "scope": n.scope, "text": n.text })).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Open,
    All,
}

/// The commits to show: those of an open review as they were pinned, otherwise all that were made since the branch was cut.
fn compared(task: &Task) -> Option<(&Oid, &Oid)> {
    let judged = matches!(task.stage, Stage::Qa | Stage::Gate);
    match task.review.as_ref().filter(|r| judged && r.passed.is_none()) {
        Some(review) => Some((&review.pin.base, &review.pin.head)),
        None => task.delivery.base.as_ref().zip(task.delivery.head.as_ref()),
    }
}

fn covered(task: &Task, numbers: &[CriterionNumber]) -> Vec<Value> {
    let known = numbers.iter().filter_map(|id| task.criterion(*id));
    known.map(|c| json!({ "id": c.id.to_string(), "text": c.text })).collect()
}

/// The last checks; with the end of their output when they failed.
fn checks(task: &Task) -> Option<Value> {
    let gate = task.gate.as_ref()?;
    let failed = gate.verdict == GateVerdict::Failed;
    let tail = gate.tail.as_deref().filter(|_| failed).unwrap_or_default();
    let output: String = tail.chars().skip(tail.chars().count().saturating_sub(limits::GATE_TAIL_CHARS)).collect();
    let of_tip = task.delivery.tree.as_ref() == Some(&gate.tree);
    Some(without_empty(json!({
        "verdict": gate.verdict, "summary": gate.summary, "output": output,
        "of": if of_tip { "the branch as it is" } else { "an earlier state of the branch" },
    })))
}

/// What an effect came to, when somebody has to do something about it. The checks are told apart.
fn failure(effect: &Effect, result: &EffectResult) -> Option<Value> {
    let (what, paths) = match result {
        EffectResult::SyncConflict { paths } => ("it left conflict markers in these files: resolve them, then commit", paths.clone()),
        EffectResult::CommitRefused { problems } => ("it was refused: mend this, then commit again", problems.clone()),
        EffectResult::NothingToCommit => ("there was nothing to commit", Vec::new()),
        EffectResult::Failed { reason } => ("it failed", vec![clamp(reason, limits::GATE_TAIL_CHARS).into_owned()]),
        EffectResult::LandRefused { .. }
        | EffectResult::BranchCut { .. }
        | EffectResult::Committed { .. }
        | EffectResult::Synced { .. }
        | EffectResult::Gate { .. }
        | EffectResult::Pinned { .. }
        | EffectResult::Landed { .. }
        | EffectResult::Finished => return None,
    };
    Some(without_empty(json!({ "of": effect.kind(), "result": what, "about": paths })))
}

fn criteria(task: &Task) -> Vec<Value> {
    task.criteria
        .iter()
        .map(|c| {
            without_empty(json!({ "id": c.id.to_string(), "text": c.text, "evidence": c.evidence, "verdict": c.verdict, "kept": c.kept }))
        })
        .collect()
}

/// Drops keys that say nothing.
fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter()
                .filter(|(_, v)| match v {
                    Value::Null => false,
                    Value::String(text) => !text.is_empty(),
                    Value::Array(items) => !items.is_empty(),
                    Value::Object(entries) => !entries.is_empty(),
                    Value::Bool(_) | Value::Number(_) => true,
                })
                .collect(),
        ),
        other => other,
    }
}
