//! Assembled work: what its parts cover, what is still missing, and whether the whole can be handed in.

use crate::id::{CriterionNumber, TaskNumber};
use crate::role::Team;
use crate::task::{Part, PartState, Task};

/// How far the parts of assembled work are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Parts are being delivered.
    Open(Vec<TaskNumber>),
    /// Its PM must plan: a criterion has no part, or a cell that was asked for has none.
    Unplanned(Vec<String>),
    /// Objections to it are open: its PM gives out their mending, or says how they were answered.
    Objections,
    /// Nothing has changed since it failed, and it was handed in unchanged once already.
    Unchanged,
    /// It can be handed in.
    Whole,
}

/// How far the parts are. Total.
pub fn standing(task: &Task) -> Standing {
    let open: Vec<TaskNumber> = live_parts(task).map(|p| p.number).collect();
    if !open.is_empty() {
        return Standing::Open(open);
    }
    let missing = missing(task, |p| p.state == PartState::Completed);
    if !missing.is_empty() {
        return Standing::Unplanned(missing);
    }
    if task.open_findings().next().is_some() {
        return Standing::Objections;
    }
    if is_spent(task) { Standing::Unchanged } else { Standing::Whole }
}

/// The parts that are being delivered.
pub fn live_parts(task: &Task) -> impl Iterator<Item = &Part> {
    task.parts.iter().filter(|p| p.state == PartState::Open)
}

/// What no part that counts stands for, in words: criteria, and cells that were asked for.
pub fn missing(task: &Task, counts: impl Fn(&Part) -> bool) -> Vec<String> {
    let criteria = uncovered(task, &counts).into_iter().map(|c| c.to_string());
    let cells = cells_without(task, &counts).into_iter().map(|t| format!("cell {t}"));
    criteria.chain(cells).collect()
}

/// Criteria that nobody answers for.
pub fn uncovered(task: &Task, counts: impl Fn(&Part) -> bool) -> Vec<CriterionNumber> {
    let covered = |c: CriterionNumber| task.parts.iter().any(|p| counts(p) && p.covers.contains(&c));
    task.criteria.iter().filter(|c| c.kept.is_none() && !covered(c.id)).map(|c| c.id).collect()
}

fn cells_without(task: &Task, counts: impl Fn(&Part) -> bool) -> Vec<Team> {
    task.cells.iter().filter(|cell| !task.parts.iter().any(|p| counts(p) && &p.team == *cell)).cloned().collect()
}

/// Whether the commits that failed are all there is.
pub fn is_unchanged(task: &Task) -> bool {
    task.review.as_ref().is_some_and(|r| r.passed == Some(false) && Some(&r.pin.head) == task.delivery.head.as_ref())
}

/// Whether it failed, is unchanged, and was handed in unchanged before.
pub fn is_spent(task: &Task) -> bool {
    is_unchanged(task) && task.review.as_ref().is_some_and(|r| r.resubmitted)
}

/// Whether nothing was merged into it, so that there is nothing to review.
pub fn is_bare(task: &Task) -> bool {
    task.parts.iter().all(|p| p.merged.is_none())
}

/// Whether two declared surfaces may meet: a path, a folder or a glob of one reaches into the other's.
pub fn overlaps(one: &[String], other: &[String]) -> bool {
    one.iter().any(|a| other.iter().any(|b| meets(a, b)))
}

/// Compares what stands before the first wildcard; a doubt counts as an overlap, because going one after the other is never wrong.
fn meets(a: &str, b: &str) -> bool {
    let fixed = |glob: &str| {
        glob.find(['*', '?', '[', '{']).map_or_else(|| (glob.trim_end_matches('/').to_owned(), false), |n| (glob[..n].to_owned(), true))
    };
    let ((a, a_open), (b, b_open)) = (fixed(a), fixed(b));
    let inside = |whole: &str, open: bool, path: &str| {
        if open { path.starts_with(whole) } else { path.strip_prefix(whole).is_some_and(|rest| rest.starts_with('/')) }
    };
    a == b || inside(&a, a_open, &b) || inside(&b, b_open, &a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surfaces_meet_where_one_reaches_into_the_other() {
        for (a, b, meet) in [
            ("src/a.rs", "src/a.rs", true),
            ("src/a.rs", "src/b.rs", false),
            ("src", "src/b.rs", true),
            ("src/", "src/b.rs", true),
            ("src", "srcs/b.rs", false),
            ("src/**", "src/b.rs", true),
            ("src/*.rs", "src/*.md", true),
            ("docs/**", "src/**", false),
            ("**", "anything", true),
            ("src/a*", "src/b*", false),
        ] {
            assert_eq!(overlaps(&[a.into()], &[b.into()]), meet, "{a} {b}");
            assert_eq!(overlaps(&[b.into()], &[a.into()]), meet, "{b} {a}");
        }
        assert!(!overlaps(&[], &["src/**".into()]));
    }
}
