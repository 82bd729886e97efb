//! What a commit wakes: the planner, the executor of effects, and callers that wait for one.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use roboco_domain::effect::Intended;
use roboco_domain::id::IntentId;
use roboco_domain::snapshot::Answer;
use tokio::sync::{Notify, mpsc, oneshot};

/// In-process wake-ups. They only wake: whoever is woken reads the state again, so a lost one costs time, never truth.
#[derive(Debug)]
pub struct Signals {
    /// Something changed that the plan may care about.
    pub plan: Notify,
    intents: mpsc::UnboundedSender<Intended>,
    receiver: Mutex<Option<mpsc::UnboundedReceiver<Intended>>>,
    waiters: Mutex<HashMap<IntentId, Vec<oneshot::Sender<Answer>>>>,
}

impl Signals {
    pub(crate) fn new() -> Self {
        // Unbounded, yet bounded by the rows of open effects, which exist before they are sent.
        let (intents, receiver) = mpsc::unbounded_channel();
        Self { plan: Notify::new(), intents, receiver: Mutex::new(Some(receiver)), waiters: Mutex::new(HashMap::new()) }
    }

    /// The stream of effects as they are committed; there is one taker.
    pub fn take_intents(&self) -> Option<mpsc::UnboundedReceiver<Intended>> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn hand_over(&self, intents: Vec<Intended>) {
        intents.into_iter().for_each(self.late());
    }

    /// The same for later, without the company.
    pub(crate) fn late(&self) -> impl Fn(Intended) + Send + use<> {
        let intents = self.intents.clone();
        move |intent| {
            if intents.send(intent).is_err() {
                tracing::debug!("no executor runs; the effect is picked up at the next start");
            }
        }
    }

    pub(crate) fn wait_for(&self, intent: IntentId) -> oneshot::Receiver<Answer> {
        let (sender, receiver) = oneshot::channel();
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        waiters.retain(|_, senders| {
            senders.retain(|s| !s.is_closed());
            !senders.is_empty()
        });
        waiters.entry(intent).or_default().push(sender);
        receiver
    }

    pub(crate) fn settled(&self, intent: IntentId, answer: &Answer) {
        let senders = self.waiters.lock().unwrap_or_else(PoisonError::into_inner).remove(&intent);
        for sender in senders.into_iter().flatten() {
            if sender.send(answer.clone()).is_err() {
                tracing::debug!(%intent, "the caller stopped waiting");
            }
        }
    }
}
