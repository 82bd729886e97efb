//! Documenting a task on its own branch.

use schemars::JsonSchema;
use serde::Deserialize;

use super::work::lease_for;
use super::{Subject, subject};
use crate::event::Event;
use crate::guard::GuardContext;
use crate::input::{TextList, clamp};
use crate::limits;
use crate::rejection::{Kind, Rejection, Remedy};
use crate::snapshot::{Answer, Decision};
use crate::task::{CommitRecord, Delivery, DocsRecord, Task};

/// Arguments of `i_documented`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IDocumented {
    /// The task: `T-142`, its id, or a unique prefix of it.
    pub task_id: String,
    /// What was documented, in words.
    #[serde(default)]
    pub notes: String,
    /// The documents written or re-affirmed.
    #[serde(default)]
    pub files: TextList,
    /// Why nothing needed writing.
    #[serde(default)]
    pub skip_reason: Option<String>,
}

subject!(IDocumented => task_id);

pub(crate) fn claim(cx: GuardContext<'_>) -> Result<Decision, Rejection> {
    let lease = lease_for(cx)?;
    let next = format!("write the documents, commit(message), then i_documented(task_id={}, files, notes)", cx.task.number);
    Ok(Decision::new(Answer::next(next)).event(Event::DocsClaimed { lease }))
}

/// Whether a path is a document rather than behaviour.
pub(crate) fn is_document(path: &str) -> bool {
    // No `.txt`: build systems and package managers read theirs.
    const ENDINGS: &[&str] = &[".md", ".mdx", ".rst", ".adoc", ".svg", ".png"];
    const ROOTS: &[&str] = &["docs/", "doc/", "documentation/"];
    const NAMES: &[&str] = &["CHANGELOG", "README", "LICENSE", "NOTICE", "AUTHORS"];
    let name = path.rsplit('/').next().unwrap_or(path);
    let name = name.strip_suffix(".txt").unwrap_or(name);
    ENDINGS.iter().any(|e| path.to_ascii_lowercase().ends_with(e)) || ROOTS.iter().any(|r| path.starts_with(r)) || NAMES.contains(&name)
}

/// Files committed while it was being documented that are no documents. The reviewed tip need not be a commit of the record: it may be a
/// merge of the target. What the record has no room for is taken for code, as nobody can say that it is none.
fn code_since_review(task: &Task) -> Vec<String> {
    let commits = &task.delivery.commits;
    let documenting: Vec<_> = commits.iter().filter(|c| c.at >= task.stage_since && !task.ownership.authors.contains(&c.by)).collect();
    let mut files: Vec<String> = documenting.iter().flat_map(|c| c.files.iter()).filter(|f| !is_document(f)).cloned().collect();
    if commits.len() >= Delivery::COMMITS_KEPT && commits.first().is_some_and(|c| c.at >= task.stage_since) {
        files.push(format!("{} commits or more", Delivery::COMMITS_KEPT));
    }
    for cut in documenting.iter().filter(|c| c.files.len() >= CommitRecord::FILES_KEPT) {
        files.push(format!("{} files or more in {}", CommitRecord::FILES_KEPT, cut.oid.short()));
    }
    files.sort();
    files.dedup();
    files
}

pub(crate) fn record(cx: GuardContext<'_>, args: &IDocumented) -> Result<Decision, Rejection> {
    let task = cx.task;
    let code = code_since_review(task);
    if !code.is_empty() {
        let shown = code.iter().take(10).cloned().collect::<Vec<_>>().join(", ");
        return Ok(Decision::new(Answer::next(format!("end your turn; you changed more than documents ({shown}), so QA looks again")))
            .event(Event::ReviewReopened { files: code }));
    }
    let Some(pm) = cx.world.roster.pm_of(&task.team).map(|pm| pm.id) else {
        return Err(Rejection::new(Kind::InvalidState, "no PM is left to decide", Remedy::tell("give the cell a PM in the roster")));
    };
    let notes = args.skip_reason.as_deref().filter(|_| args.files.0.is_empty()).unwrap_or(&args.notes);
    let docs = DocsRecord {
        files: args.files.0.iter().take(100).map(|f| clamp(f, 300).into_owned()).collect(),
        notes: clamp(notes, limits::NOTES_CHARS).into_owned(),
    };
    let moved = task.delivery.head.as_ref().filter(|head| task.review.as_ref().is_some_and(|r| &r.pin.head != *head));
    Ok(Decision::new(Answer::next("end your turn; the PM decides"))
        .event(Event::DocsRecorded { docs, pm })
        .events(moved.map(|head| Event::ReviewCarried { head: head.clone() })))
}

#[cfg(test)]
mod tests {
    use super::is_document;

    #[test]
    fn documents_are_told_from_what_is_read_by_machines() {
        for document in ["README", "README.txt", "a/LICENSE.txt", "guide.MD", "docs/usage.txt", "docs/conf.py", "logo.svg"] {
            assert!(is_document(document), "{document}");
        }
        for code in ["requirements.txt", "src/CMakeLists.txt", "robots.txt", "src/greet.rs", "adocs/usage.txt", "txt", "README.py"] {
            assert!(!is_document(code), "{code}");
        }
    }
}
