//! The cost per packet, computed from batches of which some are outliers.
//!
//! Batches are stored by the power of two of their cost per packet. So outliers can be recognised at the end, in
//! whatever order batches came, and all other batches count with their full precision. Batches whose cost is more
//! than four to eight times the median are left out, if they are fewer than one in [`RARE`]. If there are more of
//! them, the cause is not a thread that sometimes loses its core but the traffic, and then they must count.

/// At most one batch in this number may be left out.
const RARE: f64 = 8.0;
/// Powers of two: from 2^-16 to 2^47.
const BUCKETS: usize = 64;
const LEAST: i32 = -16;
/// The number of powers of two above the median's that still count.
const NEAR: usize = 2;

/// The batches of one path.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// Number of batches, packets, and cost, by the power of two of the cost per packet.
    buckets: Box<[Sum; BUCKETS]>,
    batches: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    batches: f64,
    packets: f64,
    cost: f64,
}

impl Default for Window {
    fn default() -> Self {
        Self { buckets: Box::new([Sum::default(); BUCKETS]), batches: 0.0 }
    }
}

impl Window {
    /// Adds a batch.
    pub(super) fn note(&mut self, packets: f64, cost: f64) {
        let power = (cost / packets).log2().floor() as i32;
        let bucket = power.saturating_sub(LEAST).clamp(0, BUCKETS as i32 - 1) as usize;
        if let Some(sum) = self.buckets.get_mut(bucket) {
            sum.batches += 1.0;
            sum.packets += packets;
            sum.cost += cost;
        }
        self.batches += 1.0;
    }

    /// The number of batches.
    pub(super) fn batches(&self) -> f64 {
        self.batches
    }

    /// The cost per packet; `None` if there are no batches.
    pub(super) fn cost(&self) -> Option<f64> {
        let mut below = 0.0;
        let median = self.buckets.iter().position(|sum| {
            below += sum.batches;
            2.0 * below >= self.batches && below > 0.0
        })?;
        let (near, far) = self.buckets.split_at((median + NEAR + 1).min(BUCKETS));
        let left_out: f64 = far.iter().map(|sum| sum.batches).sum();
        let counted = if left_out * RARE < self.batches { near } else { &self.buckets[..] };
        let packets: f64 = counted.iter().map(|sum| sum.packets).sum();
        let cost: f64 = counted.iter().map(|sum| sum.cost).sum();
        (packets > 0.0).then_some(cost / packets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(batches: &[(usize, f64, f64)]) -> Window {
        let mut window = Window::default();
        for &(times, packets, each) in batches {
            (0..times).for_each(|_| window.note(packets, packets * each));
        }
        window
    }

    #[test]
    fn frequent_outliers_count() {
        assert_eq!(Window::default().cost(), None);
        assert_eq!(window(&[(1, 16.0, 700.0)]).cost(), Some(700.0));
        let cost = |far, each| window(&[(100, 256.0, 20.0), (far, 256.0, each)]).cost().unwrap();
        assert_eq!(cost(14, 200.0), 20.0);
        assert_eq!(cost(14, 2e9), 20.0);
        assert!(cost(15, 200.0) > 40.0, "a part of the traffic is dear");
        assert!((cost(5, 60.0) - 2300.0 / 105.0).abs() < 1e-9, "what is near counts in full");
        assert!(cost(5, 1.0) < 20.0, "what is cheap, too");
    }

    #[test]
    fn packets_count_and_not_batches() {
        let cost = window(&[(10, 16.0, 30.0), (10, 1024.0, 20.0)]).cost().unwrap();
        assert!((cost - (16.0 * 30.0 + 1024.0 * 20.0) / 1040.0).abs() < 1e-9);
    }

    #[test]
    fn very_small_and_very_large_costs_are_counted() {
        for each in [0.0, 1e-30, 1e-3, 1e30] {
            let cost = window(&[(3, 4.0, each)]).cost().unwrap();
            assert!((cost - each).abs() <= each * 1e-9);
        }
    }
}
