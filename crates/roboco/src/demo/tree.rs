//! What became of the work of a whole company: its tasks as a tree, with the objections that were raised on the way.

use roboco_company::views::TaskView;

use crate::client::Client;
use crate::command::Here;
use crate::failure::Failure;
use crate::terminal::{Style, clean_line};

/// Prints a task and everything below it.
///
/// # Errors
/// The output is closed, or the server gone.
pub(super) async fn show(here: &Here, client: &Client, root: &TaskView) -> Result<(), Failure> {
    let screen = here.screen;
    screen.line(&screen.paint(Style::Bold, "\nthe work and its parts"))?;
    let mut left = vec![(0, root.clone())];
    while let Some((depth, view)) = left.pop() {
        line(here, depth, &view)?;
        for part in view.parts.iter().rev() {
            left.push((depth + 1, client.read(&format!("/api/tasks/{}", part.number), &[]).await?));
        }
    }
    Ok(())
}

fn line(here: &Here, depth: usize, view: &TaskView) -> Result<(), Failure> {
    let screen = here.screen;
    let indent = "  ".repeat(depth + 1);
    let row = &view.row;
    let merge = view.merge_commit.as_deref().and_then(|commit| commit.get(..10)).unwrap_or("not merged");
    let about = format!("{} {} by {}, {merge}", view.shape, row.status, row.assignee.as_deref().unwrap_or(&row.team));
    screen.line(&format!("{indent}{} {}  {}", row.number, clean_line(&row.title), screen.paint(Style::Dim, &about)))?;
    for finding in &view.findings {
        let text = format!("{indent}  {} of {}, {}: {}", finding.id, finding.origin, finding.status, clean_line(&finding.text));
        screen.line(&screen.paint(Style::Warn, &text))?;
    }
    Ok(())
}
