//! One writer per database server. A SQLite file lies in the data directory, whose lock is enough; a PostgreSQL database may be found by
//! two data directories on two machines, so the right to write is a row there that is renewed while this process lives.

use std::sync::Arc;
use std::time::Duration;

use roboco_company::ports::{Clock as _, SystemClock};
use roboco_store::{Leadership, SqlStore, Store as _};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::failure::{Exit, Failure};

/// How long the right lasts without being renewed.
const TERM: Duration = Duration::from_secs(30);
/// Three tries before it runs out.
const RENEW: Duration = Duration::from_secs(10);

/// The right to write.
pub(super) struct Leader {
    held: Option<Held>,
}

struct Held {
    store: Arc<SqlStore>,
    holder: String,
    renewal: JoinHandle<()>,
    lost: watch::Receiver<Option<String>>,
}

impl Leader {
    /// Takes the right and keeps it.
    ///
    /// # Errors
    /// Another server has it.
    pub(super) async fn take(store: Arc<SqlStore>, config: &Config, place: &str) -> Result<Self, Failure> {
        if !config.database.url.starts_with("postgres") {
            return Ok(Self { held: None });
        }
        // The same data directory on the same machine is the same holder: a server that died comes back without waiting.
        let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let holder = format!("{}-{place}", machine.trim());
        match store.lead(&holder, SystemClock.now(), TERM).await {
            Ok(Leadership::Leads(_)) => {}
            Ok(Leadership::HeldBy(other, _)) => {
                let text = format!("the server {other} already works on this database: stop it first, or use another database");
                return Err(Failure::new(Exit::NotNow, text));
            }
            Err(error) => return Err(Failure::new(Exit::NotNow, error.to_string())),
        }
        let (report, lost) = watch::channel(None);
        let renewal = tokio::spawn(renew(Arc::clone(&store), holder.clone(), report));
        Ok(Self { held: Some(Held { store, holder, renewal, lost }) })
    }

    /// Waits until the right is lost; says why.
    pub(super) async fn lost(&mut self) -> String {
        let Some(held) = &mut self.held else { return std::future::pending().await };
        match held.lost.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => "nobody renews the right to write any more".to_owned(),
        }
    }

    /// Gives the right up.
    pub(super) async fn resign(self) {
        let Some(held) = self.held else { return };
        held.renewal.abort();
        if let Err(error) = held.store.resign(&held.holder).await {
            tracing::warn!(%error, "the right to write was not given up; it runs out by itself");
        }
    }
}

async fn renew(store: Arc<SqlStore>, holder: String, report: watch::Sender<Option<String>>) {
    let mut failed_for = Duration::ZERO;
    loop {
        tokio::time::sleep(RENEW).await;
        match store.lead(&holder, SystemClock.now(), TERM).await {
            Ok(Leadership::Leads(_)) => failed_for = Duration::ZERO,
            Ok(Leadership::HeldBy(other, _)) => {
                report.send_replace(Some(format!("the server {other} has taken over this database")));
                return;
            }
            Err(error) => {
                failed_for += RENEW;
                tracing::warn!(%error, "the right to write could not be renewed");
                if failed_for >= TERM {
                    report.send_replace(Some("the database did not answer until the right to write ran out".to_owned()));
                    return;
                }
            }
        }
    }
}
