//! What stops new runs: a full disk and providers that refuse.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use roboco_domain::limits;
use roboco_domain::outcome::Outcome;
use roboco_domain::time::Timestamp;

/// Why nothing new may start for lack of disk; none while there is enough.
pub(crate) fn disk_stop(data: &Path) -> Option<String> {
    let stat = rustix::fs::statvfs(data).ok()?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let whole = stat.f_blocks.saturating_mul(stat.f_frsize).max(1);
    let low = free < limits::DISK_FREE_BYTES || free.saturating_mul(100) / whole < limits::DISK_FREE_PERCENT;
    low.then(|| format!("the disk of {} is almost full ({} MiB free)", data.display(), free / (1024 * 1024)))
}

/// Providers that refuse, and until when.
#[derive(Debug, Default)]
pub(crate) struct Parking {
    rows: BTreeMap<String, Parked>,
}

#[derive(Debug)]
struct Parked {
    until: Timestamp,
    times: u32,
}

impl Parking {
    /// Takes note of how a run ended.
    pub(crate) fn note(&mut self, provider: &str, outcome: &Outcome, now: Timestamp) {
        let (base, stated) = match outcome {
            Outcome::Overloaded { until } => (Duration::from_secs(45), *until),
            Outcome::RateLimited { until } => (Duration::from_secs(60), *until),
            // A login does not come back by itself; look again in a while in case somebody logged in.
            Outcome::AuthMissing { .. } => (Duration::from_secs(300), None),
            Outcome::Completed { .. } => {
                self.rows.remove(provider);
                return;
            }
            _ => return,
        };
        let times = self.rows.get(provider).map_or(0, |row| row.times);
        let backed_off = now.after(base * 2u32.pow(times.min(4)));
        let until = stated.map_or(backed_off, |at| at.max(backed_off));
        self.rows.insert(provider.to_owned(), Parked { until, times: times + 1 });
        tracing::warn!(provider, outcome = outcome.word(), until = until.millis(), "the provider is parked");
    }

    /// Those that still refuse.
    pub(crate) fn parked(&self, now: Timestamp) -> BTreeMap<String, Timestamp> {
        self.rows.iter().filter(|(_, row)| row.until > now).map(|(name, row)| (name.clone(), row.until)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_parks_until_its_reset_and_backs_off_without_one() {
        let now = Timestamp::from_millis(1_000_000);
        let reset = now.after(Duration::from_secs(3 * 24 * 3600));
        let mut parking = Parking::default();
        parking.note("claude", &Outcome::RateLimited { until: Some(reset) }, now);
        assert_eq!(parking.parked(now).get("claude"), Some(&reset));
        assert!(parking.parked(reset).is_empty());
        parking.note("codex", &Outcome::Overloaded { until: None }, now);
        parking.note("codex", &Outcome::Overloaded { until: None }, now);
        assert_eq!(parking.parked(now).get("codex"), Some(&now.after(Duration::from_secs(90))));
        parking.note("codex", &Outcome::Completed { verb: "pass".into() }, now);
        assert!(!parking.parked(now).contains_key("codex"));
    }
}
