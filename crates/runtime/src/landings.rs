//! Turns of landings on branches of assembled work.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as Guarded, PoisonError};

use roboco_domain::effect::Effect;
use roboco_domain::id::ProjectId;
use roboco_domain::vcs::{BranchName, Home};
use tokio::sync::{Mutex, OwnedMutexGuard};

type Branches = HashMap<(ProjectId, BranchName), Arc<Mutex<()>>>;

/// Parts of one whole may land at the same time. Git puts them in an order; whoever records them must keep it, because the whole's tip is
/// what the last record says.
#[derive(Debug, Default)]
pub(crate) struct Landings {
    branches: Guarded<Branches>,
}

impl Landings {
    /// Waits for the turn of an effect; keep it until its result is recorded. Effects that land on no branch of ours need none.
    pub(crate) async fn turn_of(&self, effect: &Effect) -> Option<OwnedMutexGuard<()>> {
        let Effect::Land { project, target, .. } = effect else { return None };
        match target.home {
            Home::Origin => None,
            Home::Store => {
                let branch = {
                    let mut branches = self.branches.lock().unwrap_or_else(PoisonError::into_inner);
                    branches.retain(|_, turn| Arc::strong_count(turn) > 1);
                    Arc::clone(branches.entry((*project, target.branch.clone())).or_default())
                };
                Some(branch.lock_owned().await)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use roboco_domain::effect::Signature;
    use roboco_domain::id::{TaskId, TaskNumber};
    use roboco_domain::project::{GateCommands, MergeMethod};
    use roboco_domain::time::Timestamp;
    use roboco_domain::vcs::{Base, Oid};
    use tokio::time::timeout;
    use uuid::Uuid;

    use super::*;

    fn land(branch: &str, home: Home) -> Effect {
        Effect::Land {
            task: TaskId::new(Uuid::from_u128(1)),
            number: TaskNumber(1),
            project: ProjectId::new(Uuid::from_u128(2)),
            target: Base { branch: BranchName::new(branch).unwrap(), home },
            head: Oid::new("a".repeat(40)).unwrap(),
            subject: String::new(),
            trailers: Vec::new(),
            author: Signature { name: "x".into(), email: "x@agents.invalid".into() },
            at: Timestamp::from_millis(1),
            method: MergeMethod::Merge,
            commands: GateCommands::default(),
            tested: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_landings_on_the_same_branch_of_ours_wait_for_each_other() {
        let landings = Landings::default();
        let first = landings.turn_of(&land("whole", Home::Store)).await;
        assert!(first.is_some());
        let soon = Duration::from_secs(1);
        for (branch, home) in [("other", Home::Store), ("whole", Home::Origin)] {
            let other = land(branch, home);
            assert!(timeout(soon, landings.turn_of(&other)).await.is_ok(), "{branch} {home:?}");
        }
        let same = land("whole", Home::Store);
        assert!(timeout(soon, landings.turn_of(&same)).await.is_err(), "two at once");
        drop(first);
        assert!(timeout(soon, landings.turn_of(&same)).await.is_ok());
    }
}
