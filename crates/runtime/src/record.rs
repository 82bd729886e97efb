//! Recording what has happened: it happened whether or not the database can take it now, so it is tried until the database can.

use roboco_company::Company;
use roboco_company::fault::Fault;
use roboco_domain::command::SystemCommand;
use roboco_domain::limits;

/// Records it; `what` says in the log what is not recorded yet. Ends only when it is recorded: with a full disk or a database that is away
/// the waits between tries grow up to [`limits::OUTBOX_BACKOFF_MAX`]. Dropping it gives up; the next start cleans up then.
pub(crate) async fn record(company: &Company, what: &str, command: SystemCommand) {
    until_taken(what, || async { company.execute_system(command.clone()).await.map(drop) }).await;
}

async fn until_taken<F: Future<Output = Result<(), Fault>>>(what: &str, attempt: impl Fn() -> F) {
    let mut tries = 0u32;
    while let Err(fault) = attempt().await {
        tries += 1;
        let wait = (limits::OUTBOX_BACKOFF * 2u32.pow(tries.min(10))).min(limits::OUTBOX_BACKOFF_MAX);
        tracing::error!(tries, fault = fault.message, again_in_s = wait.as_secs(), "{what} could not be recorded; trying again");
        tokio::time::sleep(wait).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_is_full_for_a_night_delays_a_record_and_does_not_lose_it() {
        let (started, night) = (Instant::now(), Duration::from_secs(10 * 3600));
        let (tries, last, longest) = (Cell::new(0), Cell::new(started), Cell::new(Duration::ZERO));
        until_taken("the end of a night", || async {
            tries.set(tries.get() + 1);
            longest.set(longest.get().max(last.get().elapsed()));
            last.set(Instant::now());
            if started.elapsed() < night { Err(Fault::passing("its disk is full")) } else { Ok(()) }
        })
        .await;
        assert!(started.elapsed() >= night && started.elapsed() <= night + limits::OUTBOX_BACKOFF_MAX, "{:?}", started.elapsed());
        assert_eq!(longest.get().as_secs(), limits::OUTBOX_BACKOFF_MAX.as_secs(), "it never waits longer");
        assert!(tries.get() < 1000, "nor does it hammer: {} tries", tries.get());
    }
}
