//! One queue of effects per task: the first of each is under way, the others wait for it.

use std::collections::{HashMap, HashSet, VecDeque};

use roboco_domain::effect::Intended;
use roboco_domain::id::{IntentId, TaskId};
use tokio::task::{Id, JoinError, JoinSet};

/// Effects that wait or are under way. Each is in here at most once, and dropping this ends those under way.
pub(super) struct Queues<W> {
    work: W,
    /// What waits behind the effect of a task that is under way; a task without one has no entry.
    waiting: HashMap<TaskId, VecDeque<Intended>>,
    known: HashSet<IntentId>,
    /// Effects that were found open at the start. One that was committed during the start is handed over as well, perhaps when it is done.
    left: HashSet<IntentId>,
    running: JoinSet<()>,
    by_run: HashMap<Id, (TaskId, IntentId)>,
}

impl<W, F> Queues<W>
where
    W: Fn(Intended) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    /// Empty queues of effects that `work` carries out.
    pub(super) fn new(work: W) -> Self {
        Self { work, waiting: HashMap::new(), known: HashSet::new(), left: HashSet::new(), running: JoinSet::new(), by_run: HashMap::new() }
    }

    /// Takes an effect that was found open at the start.
    pub(super) fn take_left(&mut self, intended: Intended) {
        let intent = intended.intent;
        self.take(intended);
        self.left.insert(intent);
    }

    /// Takes an effect, unless it has or had it already: what is committed while the open ones are looked up comes both ways.
    pub(super) fn take(&mut self, intended: Intended) {
        if self.left.remove(&intended.intent) || !self.known.insert(intended.intent) {
            return;
        }
        match self.waiting.get_mut(&intended.effect.task()) {
            Some(queue) => queue.push_back(intended),
            None => {
                self.waiting.insert(intended.effect.task(), VecDeque::new());
                self.start(intended);
            }
        }
    }

    /// Waits until an effect has ended and starts the one behind it. `None` when nothing is under way.
    pub(super) async fn step(&mut self) -> Option<()> {
        let ended = self.running.join_next_with_id().await?;
        self.next(ended);
        Some(())
    }

    /// Waits for those under way; starts nothing any more.
    pub(super) async fn drain(&mut self) {
        while self.running.join_next().await.is_some() {}
    }

    fn start(&mut self, intended: Intended) {
        let (task, intent) = (intended.effect.task(), intended.intent);
        let run = self.running.spawn((self.work)(intended));
        self.by_run.insert(run.id(), (task, intent));
    }

    fn next(&mut self, ended: Result<(Id, ()), JoinError>) {
        let run = match &ended {
            Ok((run, ())) => *run,
            Err(error) => error.id(),
        };
        let Some((task, intent)) = self.by_run.remove(&run) else { return };
        self.known.remove(&intent);
        if let Err(error) = ended {
            // Its row is still open, so the next start takes it up again. Those behind it need not wait for that.
            tracing::error!(%error, %intent, "an effect died; this is a bug");
        }
        match self.waiting.get_mut(&task).and_then(VecDeque::pop_front) {
            Some(intended) => self.start(intended),
            None => {
                self.waiting.remove(&task);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use futures::future::BoxFuture;
    use roboco_domain::effect::Effect;
    use roboco_domain::id::ProjectId;
    use roboco_domain::vcs::BranchName;
    use tokio::sync::Semaphore;
    use uuid::Uuid;

    use super::*;

    fn effect(task: u128, intent: u128) -> Intended {
        let (task, project) = (TaskId::new(Uuid::from_u128(task)), ProjectId::new(Uuid::nil()));
        let branch: BranchName = "feature/backend/T-1".parse().unwrap();
        Intended { intent: IntentId::new(Uuid::from_u128(intent)), effect: Effect::CleanUp { task, project, branch } }
    }

    type Work = Box<dyn Fn(Intended) -> BoxFuture<'static, ()>>;

    /// Queues whose effects wait for the gate, are then written down, and die when their number is 13.
    fn queues() -> (Queues<Work>, Arc<Semaphore>, Arc<Mutex<Vec<u128>>>) {
        let (gate, done) = (Arc::new(Semaphore::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (open, written) = (Arc::clone(&gate), Arc::clone(&done));
        let work: Work = Box::new(move |intended| {
            let (open, written) = (Arc::clone(&open), Arc::clone(&written));
            Box::pin(async move {
                open.acquire().await.unwrap().forget();
                let number = intended.intent.uuid().as_u128();
                written.lock().unwrap().push(number);
                assert_ne!(number, 13, "a bug");
            })
        });
        (Queues::new(work), gate, done)
    }

    #[tokio::test]
    async fn an_effect_that_is_handed_over_twice_is_done_once() {
        let (mut queues, gate, done) = queues();
        for (task, intent) in [(1, 1), (1, 2), (1, 1), (1, 2), (2, 3), (2, 3)] {
            queues.take(effect(task, intent));
        }
        gate.add_permits(10);
        while queues.step().await.is_some() {}
        let mut done = done.lock().unwrap().clone();
        done.sort_unstable();
        assert_eq!(done, [1, 2, 3]);
        assert!(queues.known.is_empty() && queues.waiting.is_empty() && queues.by_run.is_empty(), "nothing is kept for ever");
    }

    #[tokio::test]
    async fn an_effect_that_was_committed_during_the_start_is_done_once_even_if_it_comes_again_when_it_is_done() {
        let (mut queues, gate, done) = queues();
        queues.take_left(effect(1, 1));
        gate.add_permits(10);
        while queues.step().await.is_some() {}
        for intent in [1, 2] {
            queues.take(effect(1, intent));
        }
        while queues.step().await.is_some() {}
        assert_eq!(*done.lock().unwrap(), [1, 2]);
        assert!(queues.left.is_empty(), "it comes no third time, so it is not kept");
    }

    #[tokio::test]
    async fn effects_of_one_task_keep_their_order_and_other_tasks_do_not_wait() {
        let (mut queues, gate, done) = queues();
        for (task, intent) in [(1, 1), (1, 2), (1, 3), (2, 4)] {
            queues.take(effect(task, intent));
        }
        gate.add_permits(2);
        assert!(queues.step().await.is_some() && queues.step().await.is_some());
        assert!(done.lock().unwrap().contains(&4), "the other task went on");
        gate.add_permits(2);
        while queues.step().await.is_some() {}
        let of_one: Vec<u128> = done.lock().unwrap().iter().copied().filter(|number| *number != 4).collect();
        assert_eq!(of_one, [1, 2, 3]);
    }

    #[tokio::test]
    async fn effects_behind_one_that_dies_go_on() {
        let (mut queues, gate, done) = queues();
        for intent in [13, 14] {
            queues.take(effect(1, intent));
        }
        gate.add_permits(10);
        while queues.step().await.is_some() {}
        queues.take(effect(1, 15));
        while queues.step().await.is_some() {}
        assert_eq!(*done.lock().unwrap(), [13, 14, 15]);
    }
}
