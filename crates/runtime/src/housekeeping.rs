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
    let (mut often, mut seldom) = (interval(OFTEN), interval_at(Instant::now() + FIRST, SELDOM));
    for rhythm in [&mut often, &mut seldom] {
        rhythm.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    loop {
        let round = async {
            tokio::select! {
                _ = often.tick() => remove_old(&shared).await,
                _ = seldom.tick() => {
                    keep_projects(&shared).await;
                    keep_homes(&shared).await;
                }
            }
        };
        tokio::select! {
            () = round => {}
            () = crate::told_to_stop(&mut stopped) => return,
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
