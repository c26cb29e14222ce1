//! Histograms with logarithmic buckets, which one thread fills and others read.

use std::fmt;

use millrace_core::Count;

/// Log2 of the number of buckets per power of two: a value is known with a precision of an eighth.
const FINE: u32 = 3;
/// The number of buckets. Values up to 2^40 fit; in nanoseconds, that is a quarter of an hour.
const BUCKETS: usize = (41 - FINE as usize) << FINE;

/// How often values occurred, with a precision of an eighth.
pub struct Histogram {
    buckets: Box<[Count]>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: (0..BUCKETS).map(|_| Count::default()).collect() }
    }
}

impl Histogram {
    /// Counts a value `times` times. Only one thread may count at a time.
    #[inline]
    pub fn note(&self, value: u64, times: u64) {
        if let Some(bucket) = self.buckets.get(bucket_of(value)) {
            bucket.add(times);
        }
    }

    /// Adds the counts of another histogram.
    pub fn merge(&self, other: &Self) {
        for (into, from) in self.buckets.iter().zip(&other.buckets) {
            into.add(from.get());
        }
    }

    /// Subtracts the counts that this histogram had earlier.
    pub(super) fn subtract(&self, before: &Self) {
        for (now, before) in self.buckets.iter().zip(&before.buckets) {
            now.set(now.get() - before.get());
        }
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(Count::get).sum()
    }

    /// The smallest value that is at least as large as the given part of all values, rounded up to the end of its
    /// bucket; 0 if there are no values.
    pub fn quantile(&self, part: f64) -> u64 {
        let count = self.count();
        if count == 0 {
            return 0;
        }
        let rank = ((count as f64 * part.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.buckets.iter().position(|bucket| {
            seen += bucket.get();
            seen >= rank
        });
        last_of(found.unwrap_or(BUCKETS - 1))
    }

    /// The non-empty buckets: the greatest value of each, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.buckets.iter().map(Count::get).enumerate();
        counts.filter(|(_, count)| *count > 0).map(|(bucket, count)| (last_of(bucket), count))
    }
}

/// Count, median, 99th percentile and greatest value.
impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [half, most, all] = [0.5, 0.99, 1.0].map(|part| self.quantile(part));
        write!(f, "Histogram({} values, {half}, {most}, {all})", self.count())
    }
}

fn bucket_of(value: u64) -> usize {
    let power = value.checked_ilog2().unwrap_or(0);
    let shift = power.saturating_sub(FINE);
    // For values below 2^FINE the shift is 0, and the bucket is the value.
    let bucket = ((shift as usize) << FINE) + (value >> shift) as usize;
    bucket.min(BUCKETS - 1)
}

/// The greatest value of a bucket.
fn last_of(bucket: usize) -> u64 {
    let shift = (bucket >> FINE).saturating_sub(1);
    let first = (bucket - (shift << FINE)) as u64;
    ((first + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_its_bucket_with_a_precision_of_an_eighth() {
        let mut last = 0;
        for value in (0..5_000).chain((13..40).flat_map(|power| {
            let base = 1u64 << power;
            [base - 1, base, base + 1, base + base / 3]
        })) {
            let bucket = bucket_of(value);
            assert!(bucket >= last, "{value}");
            last = bucket;
            assert!(value <= last_of(bucket), "{value}");
            assert!(bucket == 0 || value > last_of(bucket - 1), "{value}");
            assert!(last_of(bucket) - value <= value / 8, "{value}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), 0);
        (1..=1000).for_each(|value| histogram.note(value, 2));
        assert_eq!(histogram.count(), 2000);
        for (part, exact) in [(0.0, 1), (0.5, 500), (0.99, 990), (1.0, 1000)] {
            let told = histogram.quantile(part);
            assert!((exact..=exact + exact / 8).contains(&told), "{part}: {told}");
        }
        let twice = Histogram::default();
        twice.merge(&histogram);
        twice.merge(&histogram);
        assert_eq!((twice.count(), twice.quantile(0.5)), (4000, histogram.quantile(0.5)));
        assert_eq!(histogram.buckets().map(|(_, count)| count).sum::<u64>(), 2000);
    }
}
