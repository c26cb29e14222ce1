//! TIMING: when the packets of a trace are due.

use millrace_core::Timestamp;

/// Keeps the distances between the packets of a trace: the first one is due at once.
pub(super) struct Pace {
    /// How much faster than it was recorded the trace is played, in percent.
    acceleration: u32,
    /// A moment of the trace, and when that was or will be.
    origin: Option<(Timestamp, Timestamp)>,
}

impl Pace {
    /// A pace of `acceleration` percent of the recorded one, which is not 0.
    pub(super) fn new(acceleration: u32) -> Self {
        Self { acceleration, origin: None }
    }

    /// When a packet that was recorded at `time` is due.
    pub(super) fn due(&mut self, time: Timestamp, now: Timestamp) -> Timestamp {
        let (start, at) = *self.origin.get_or_insert((time, now));
        let recorded = i128::from((time - start).as_nanos());
        let played = recorded * 100 / i128::from(self.acceleration.max(1));
        let end = if played < 0 { i64::MIN } else { i64::MAX };
        at + Timestamp::from_nanos(i64::try_from(played).unwrap_or(end))
    }

    /// Lets the next packet be due at once.
    pub(super) fn reset(&mut self) {
        self.origin = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_distances_and_scales_them() {
        let at = Timestamp::from_millis;
        let mut pace = Pace::new(200);
        assert_eq!(pace.due(at(5_000), at(90)), at(90));
        assert_eq!(pace.due(at(5_100), at(91)), at(140));
        assert_eq!(pace.due(at(4_900), at(92)), at(40));
        pace.reset();
        assert_eq!(pace.due(at(7_000), at(100)), at(100));
        assert_eq!(Pace::new(1).due(Timestamp::MAX, at(1)), at(1));
    }
}
