//! Tasks on the screen: the list, and everything about one.

use roboco_company::views::{TaskRow, TaskView};
use serde_json::Value;

use super::staff::items;
use super::{Here, reference};
use crate::cli::{Show, TaskList};
use crate::client::typed;
use crate::failure::Failure;
use crate::terminal::{Style, clean, clean_line, clock, span};

/// `task list`
///
/// # Errors
/// No server runs.
pub(crate) async fn list(here: &Here, args: &TaskList) -> Result<(), Failure> {
    let mut query = vec![("limit", args.limit.to_string())];
    query.extend((!args.all).then(|| ("open", "true".to_owned())));
    query.extend(args.project.clone().map(|project| ("project", project)));
    let value = here.client()?.get("/api/tasks", &query).await?;
    if args.json {
        return here.screen.json(&value);
    }
    let more = !value["next"].is_null();
    let rows: Vec<TaskRow> = typed(items(value))?;
    if rows.is_empty() {
        return here.screen.line("no tasks; give one with `roboco task new`");
    }
    let now = jiff::Timestamp::now().as_millisecond();
    let cells = rows.iter().map(|task| {
        [
            task.number.clone(),
            task.status.clone(),
            task.assignee.clone().unwrap_or_default(),
            span(now - task.stage_since),
            task.project.clone(),
            clean_line(&task.title),
        ]
    });
    here.screen.table(["TASK", "STATUS", "ASSIGNEE", "FOR", "PROJECT", "TITLE"], &cells.collect::<Vec<_>>())?;
    if more {
        here.screen.line(&here.screen.paint(Style::Dim, "there are more; raise --limit"))?;
    }
    Ok(())
}

/// `task show`
///
/// # Errors
/// No server runs, or there is no such task.
pub(crate) async fn show(here: &Here, args: &Show) -> Result<(), Failure> {
    let value: Value = here.client()?.get(&format!("/api/tasks/{}", reference(&args.task)?), &[]).await?;
    if args.json {
        return here.screen.json(&value);
    }
    let view: TaskView = typed(value)?;
    let screen = here.screen;
    let row = &view.row;
    screen.line(&screen.paint(Style::Bold, &format!("{} {}", row.number, clean_line(&row.title))))?;
    let pr = view.pr.map(|pr| format!(", pull request #{pr}")).unwrap_or_default();
    screen.line(&format!(
        "{} · {} · {} · {} → {}{pr}",
        row.status,
        row.project,
        row.team,
        clean_line(&view.branch),
        clean_line(&view.target)
    ))?;
    if let Some(waits) = &row.waits {
        screen.line(&screen.paint(Style::Warn, &format!("waits for {}", clean_line(waits))))?;
    }
    screen.line(&format!("\n{}", clean(view.description.trim())))?;
    judgement(here, &view)?;
    if !view.commits.is_empty() {
        section(here, "commits")?;
        for commit in &view.commits {
            screen.line(&format!("  {}", clean_line(commit)))?;
        }
    }
    if !view.spawns.is_empty() {
        section(here, "runs")?;
        for spawn in &view.spawns {
            let outcome = spawn.outcome.as_deref().unwrap_or(&spawn.state);
            let detail = spawn.detail.as_deref().map(|detail| format!(": {}", clean_line(detail))).unwrap_or_default();
            screen.line(&format!("  {} {} {} {outcome}{detail}", spawn.number, clock(spawn.intended_at), spawn.agent))?;
        }
    }
    if let Some(commit) = &view.merge_commit {
        screen.line(&format!("\nmerged as {}", commit.get(..12).unwrap_or(commit)))?;
    }
    if !view.actions.is_empty() {
        screen.line(&format!("\nyou can: {}", view.actions.join(", ")))?;
    }
    Ok(())
}

/// Criteria, findings and checks: what a decision is based on.
///
/// # Errors
/// The output is closed.
pub(crate) fn judgement(here: &Here, view: &TaskView) -> Result<(), Failure> {
    let screen = here.screen;
    section(here, "criteria")?;
    for criterion in &view.criteria {
        let mark = if criterion.verdict.is_some() { screen.paint(Style::Good, "✓") } else { "·".to_owned() };
        screen.line(&format!("  {mark} {} {}", criterion.id, clean_line(&criterion.text)))?;
        let said = [("author", &criterion.evidence), ("QA", &criterion.verdict)];
        for (who, text) in said.into_iter().filter_map(|(who, text)| Some((who, text.as_ref()?))) {
            screen.line(&screen.paint(Style::Dim, &format!("       {who}: {}", clean_line(text))))?;
        }
    }
    if !view.findings.is_empty() {
        section(here, "findings")?;
        for finding in &view.findings {
            screen.line(&format!("  {} ({}, from {})", clean_line(&finding.text), finding.status, finding.origin))?;
        }
    }
    section(here, "checks")?;
    let gate = view.gate.as_deref().map_or_else(|| "not run yet".to_owned(), clean_line);
    screen.line(&format!("  {gate}"))
}

pub(crate) fn section(here: &Here, name: &str) -> Result<(), Failure> {
    here.screen.line(&format!("\n{}", here.screen.paint(Style::Bold, name)))
}
