//! What is removed when it is past its time, so that nothing grows for ever. All of it may be broken off anywhere; the next round goes on.

mod homes;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use roboco_company::fault::Fault;
use roboco_domain::limits;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at};

use crate::Shared;

/// How often old rows and what is in the trash are removed.
const OFTEN: Duration = Duration::from_secs(60 * 60);
/// How often projects and homes are looked after: that may take minutes.
const SELDOM: Duration = Duration::from_secs(24 * 60 * 60);
/// When they are looked after first: agents that wait since the last stop go before.
const FIRST: Duration = Duration::from_secs(15 * 60);

/// Removes what is past its retention until it is told to stop.
pub(crate) async fn keep_house(shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let seldom = || async {
        keep_projects(&shared).await;
        keep_homes(&shared).await;
    };
    tokio::select! {
        () = in_rhythm(|| remove_old(&shared), seldom) => {}
        () = crate::told_to_stop(&mut stopped) => {}
    }
}

/// Does both again and again, never at the same time; ends only by being dropped.
async fn in_rhythm<F: Future<Output = ()>, G: Future<Output = ()>>(often: impl Fn() -> F, seldom: impl Fn() -> G) {
    let (mut next, mut next_seldom) = (interval(OFTEN), interval_at(Instant::now() + FIRST, SELDOM));
    for rhythm in [&mut next, &mut next_seldom] {
        rhythm.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    loop {
        tokio::select! {
            _ = next.tick() => often().await,
            _ = next_seldom.tick() => seldom().await,
        }
    }
}

async fn remove_old(shared: &Shared) {
    if let Err(error) = shared.company().store().prune(shared.now()).await {
        tracing::warn!(%error, "old rows could not be removed; trying again later");
    }
    if let Err(error) = shared.parts.repos.empty_trash(limits::TRASH_KEEP, SystemTime::now()).await {
        tracing::warn!(%error, "the trash could not be emptied; trying again later");
    }
}

async fn keep_projects(shared: &Shared) {
    let projects = match shared.company().store().projects().await {
        Ok(projects) => projects,
        Err(error) => {
            tracing::warn!(%error, "the projects could not be looked after; trying again later");
            return;
        }
    };
    for project in projects {
        if let Err(error) = shared.parts.repos.housekeep(project.id, SystemTime::now()).await {
            tracing::warn!(%error, project = project.slug, "the project could not be looked after; trying again later");
        }
    }
}

async fn keep_homes(shared: &Shared) {
    if let Err(fault) = forget_unused(shared, SystemTime::now()).await {
        tracing::warn!(fault = fault.message, "old files in the homes of agents could not be removed; trying again later");
    }
}

/// Removes what nobody has used for long from homes in which nothing runs.
async fn forget_unused(shared: &Shared, now: SystemTime) -> Result<(), Fault> {
    let company = shared.company();
    let live = company.store().live_spawns().await?;
    let running: HashSet<String> =
        live.iter().filter_map(|spawn| company.roster().agent(spawn.agent)).map(|agent| agent.slug.clone()).collect();
    let root = shared.config.homes.clone();
    let Some(before) = now.checked_sub(limits::TRASH_KEEP) else { return Ok(()) };
    let removed = tokio::task::spawn_blocking(move || homes::forget(&root, before, |home| !running.contains(home)));
    match removed.await {
        Ok(Ok(removed)) => tracing::debug!(removed, "old files in the homes of agents"),
        Ok(Err(error)) => return Err(Fault::passing(format!("{}: {error}", shared.config.homes.display()))),
        Err(error) => return Err(Fault::passing(error.to_string())),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn projects_and_homes_are_looked_after_a_while_after_the_start_and_then_daily() {
        let (started, rounds) = (Instant::now(), RefCell::new(Vec::new()));
        let note = |what: &'static str| rounds.borrow_mut().push((what, started.elapsed().as_secs() / 60));
        let seldom = || async {
            // A large project takes its time.
            tokio::time::sleep(Duration::from_secs(300)).await;
            note("seldom");
        };
        let two_days = Duration::from_secs(2 * 24 * 60 * 60 + 30 * 60);
        assert!(tokio::time::timeout(two_days, in_rhythm(|| async { note("often") }, seldom)).await.is_err(), "it goes on");
        let times = |of: &str| rounds.borrow().iter().filter(|(what, _)| *what == of).map(|(_, minute)| *minute).collect::<Vec<_>>();
        assert_eq!(times("seldom"), [20, 24 * 60 + 20, 48 * 60 + 20]);
        assert_eq!(times("often")[..3], [0, 60, 120]);
        assert_eq!(times("often").len(), 49);
    }
}
