//! Repeatable random moments: the same seed draws the same ones on every machine.

use std::time::Duration;

/// A SplitMix64 generator. Enough for choosing moments, and short enough to need no dependency.
pub(super) struct Dice {
    state: u64,
}

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Uniform between the two, the first included.
    pub(super) fn between(&mut self, from: Duration, to: Duration) -> Duration {
        from + to.saturating_sub(from).mul_f64(self.fraction())
    }

    /// Uniform in `0.0..1.0`.
    fn fraction(&mut self) -> f64 {
        // The top 26 bits: steps of a microsecond over a minute, finer than any kill can be timed.
        let bits = u32::try_from(self.next() >> 38).unwrap_or(0);
        f64::from(bits) / f64::from(1_u32 << 26)
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_moments() {
        let draw = |seed| {
            let mut dice = Dice::new(seed);
            (0..5).map(|_| dice.between(Duration::ZERO, Duration::from_secs(10))).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn moments_are_spread_evenly_and_inside_the_bounds() {
        let (from, to) = (Duration::from_millis(200), Duration::from_millis(10_200));
        let mut dice = Dice::new(42);
        let mut tenths = [0_u32; 10];
        for _ in 0..10_000 {
            let moment = dice.between(from, to);
            assert!(from <= moment && moment < to);
            tenths[usize::try_from((moment - from).as_secs()).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|count| (850..1150).contains(count)), "{tenths:?}");
    }
}
