//! The outbox: effects are taken one after the other per task, tried with back-off, and answered with a command.

mod queues;

use std::sync::Arc;

use futures::future::BoxFuture;
use roboco_company::fault::Fault;
use roboco_domain::command::SystemCommand;
use roboco_domain::effect::{EffectResult, Intended};
use roboco_domain::limits;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::Shared;
use crate::effects::Effects;
use crate::record::record;
use queues::Queues;

/// Takes effects as they are committed, and those an earlier process left.
pub(crate) struct Executor {
    incoming: mpsc::UnboundedReceiver<Intended>,
    queues: Queues<Work>,
}

type Work = Box<dyn Fn(Intended) -> BoxFuture<'static, ()> + Send>;

impl Executor {
    pub(crate) async fn new(shared: Arc<Shared>) -> Result<Self, Fault> {
        let incoming =
            shared.company().signals().take_intents().ok_or_else(|| Fault::lasting("the effects of this company have a taker already"))?;
        let effects = Arc::new(Effects::new(Arc::clone(&shared)));
        let open = shared.company().store().open_intents().await?;
        let work: Work = Box::new(move |intended| {
            let (shared, effects) = (Arc::clone(&shared), Arc::clone(&effects));
            Box::pin(async move { carry_out(&shared, &effects, intended).await })
        });
        let mut queues = Queues::new(work);
        for open in open {
            tracing::info!(intent = %open.intent, effect = open.effect.kind(), "taking up an effect that was left");
            queues.take_left(Intended { intent: open.intent, effect: open.effect });
        }
        Ok(Self { incoming, queues })
    }

    /// Runs until told to stop; then what is under way is finished and the rest is left to the next start.
    pub(crate) async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                Some(intended) = self.incoming.recv() => self.queues.take(intended),
                Some(()) = self.queues.step() => {}
                () = crate::told_to_stop(&mut stopped) => break,
            }
        }
        if tokio::time::timeout(limits::STOP_DRAIN, self.queues.drain()).await.is_err() {
            tracing::warn!("effects were still under way; they are taken up again at the next start");
        }
    }
}

/// Tries an effect until it is answered for good.
async fn carry_out(shared: &Shared, effects: &Arc<Effects>, intended: Intended) {
    let Intended { intent, effect } = intended;
    let mut attempts = 0;
    let (result, turn) = loop {
        let turn = effects.landings.turn_of(&effect).await;
        let work = {
            let (effects, effect) = (Arc::clone(effects), effect.clone());
            async move { effects.perform(intent, &effect).await }
        };
        match survived(work).await {
            Ok(result) => break (result, turn),
            Err(fault) => {
                drop(turn);
                attempts += 1;
                tracing::warn!(%intent, effect = effect.kind(), attempts, fault = fault.message, "an effect failed");
                if !fault.retryable || attempts >= limits::OUTBOX_TRIES {
                    break (EffectResult::Failed { reason: fault.message }, None);
                }
                let wait = (limits::OUTBOX_BACKOFF * 2u32.pow(attempts.min(10) - 1)).min(limits::OUTBOX_BACKOFF_MAX);
                let not_before = shared.now().after(wait);
                if let Err(error) = shared.company().store().retry_intent(intent, attempts, not_before, &fault.message).await {
                    tracing::warn!(%error, "the failed try could not be noted");
                }
                tokio::time::sleep(wait).await;
            }
        }
    };
    let settle = SystemCommand::Settle { intent, effect: Box::new(effect), result };
    // The work is done; only its record is missing, and its task waits for that.
    record(shared.company(), &format!("the result of effect {intent}"), settle).await;
    drop(turn);
}

/// Runs work whose panic must not leave its task waiting: it becomes a fault that trying again does not mend. Dropping this ends the work.
async fn survived<T: Send + 'static>(work: impl Future<Output = Result<T, Fault>> + Send + 'static) -> Result<T, Fault> {
    let mut alone = JoinSet::new();
    alone.spawn(work);
    match alone.join_next().await {
        Some(Ok(result)) => result,
        Some(Err(error)) => {
            tracing::error!(%error, "an effect died; this is a bug");
            Err(Fault::lasting("it failed in a way that was not foreseen; the server's log says more"))
        }
        None => Err(Fault::lasting("it was not run")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_that_panics_is_a_lasting_fault_and_no_silence() {
        let died = survived(async { if std::hint::black_box(true) { panic!("a bug") } else { Ok(1) } }).await;
        assert!(!died.unwrap_err().retryable);
        assert_eq!(survived(async { Ok(1) }).await.unwrap(), 1);
        assert!(survived(async { Err::<u8, _>(Fault::passing("later")) }).await.unwrap_err().retryable);
    }
}
