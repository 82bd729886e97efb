//! Parking: a provider that refuses is left alone for a while; its tasks are neither blocked nor blamed.

use std::collections::BTreeMap;

use crate::limits;
use crate::outcome::Outcome;
use crate::time::Timestamp;

/// Providers that refuse, and until when.
#[derive(Debug, Default)]
pub struct Parking {
    rows: BTreeMap<String, Parked>,
}

#[derive(Debug)]
struct Parked {
    until: Timestamp,
    times: u32,
}

impl Parking {
    /// Takes note of how a run ended.
    pub fn note(&mut self, provider: &str, outcome: &Outcome, now: Timestamp) {
        let (base, stated) = match outcome {
            Outcome::Overloaded { until } => (limits::PARK_OVERLOAD, *until),
            Outcome::RateLimited { until } => (limits::PARK_RATE, *until),
            // A login does not come back by itself; look again in a while in case somebody logged in.
            Outcome::AuthMissing { .. } => (limits::PARK_LOGIN, None),
            Outcome::Completed { .. } => {
                self.rows.remove(provider);
                return;
            }
            Outcome::Unproductive
            | Outcome::Crashed { .. }
            | Outcome::OutOfMemory
            | Outcome::GatewayBroken { .. }
            | Outcome::Stalled { .. }
            | Outcome::BudgetStop
            | Outcome::Superseded
            | Outcome::Stopped { .. }
            | Outcome::Shutdown
            | Outcome::Lost => return,
        };
        let times = self.rows.get(provider).map_or(0, |row| row.times);
        let backed_off = now.after(base * 2u32.pow(times.min(4)));
        let until = stated.map_or(backed_off, |at| at.max(backed_off));
        self.rows.insert(provider.to_owned(), Parked { until, times: times + 1 });
    }

    /// Those that still refuse.
    pub fn parked(&self, now: Timestamp) -> BTreeMap<String, Timestamp> {
        self.rows.iter().filter(|(_, row)| row.until > now).map(|(name, row)| (name.clone(), row.until)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
