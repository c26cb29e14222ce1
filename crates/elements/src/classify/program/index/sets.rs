//! Sets of values of a field.

/// This many free bits above the lowest bit of the mask make a set of at most 128 ranges.
const MAX_FREE_BITS: u32 = 7;

/// Allowed values of a field, and whether the field may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ValueSet {
    /// First and last value of each range, in order; no two touch.
    pub(super) ranges: Vec<(u32, u32)>,
    /// Whether packets without the field belong to the set.
    pub(super) missing: bool,
}

impl ValueSet {
    /// No value: only packets without the field.
    pub(super) const MISSING: ValueSet = ValueSet { ranges: Vec::new(), missing: true };

    /// The values up to `max` that equal `value` under a mask of at least one bit; `None` if they form too many ranges.
    pub(super) fn masked(value: u32, mask: u32, max: u32, missing: bool) -> Option<Self> {
        let rest = mask & mask.wrapping_neg();
        let free = !mask & max & !(rest.wrapping_sub(1));
        if free.count_ones() > MAX_FREE_BITS {
            return None;
        }
        let mut ranges = Vec::with_capacity(1 << free.count_ones());
        let mut chosen = 0_u32;
        loop {
            let first = value | chosen;
            ranges.push((first, first | rest.wrapping_sub(1)));
            // The next combination of the free bits.
            chosen = chosen.wrapping_sub(free) & free;
            if chosen == 0 {
                return Some(Self { ranges, missing });
            }
        }
    }

    /// The values up to `max` that are not in this set.
    pub(super) fn complement(&self, max: u32, missing: bool) -> Self {
        let mut ranges = Vec::with_capacity(self.ranges.len() + 1);
        let mut next = Some(0);
        for &(first, last) in &self.ranges {
            if let Some(start) = next
                && start < first
            {
                ranges.push((start, first - 1));
            }
            next = last.checked_add(1);
        }
        if let Some(start) = next.filter(|&start| start <= max) {
            ranges.push((start, max));
        }
        Self { ranges, missing }
    }

    /// The intersection.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let mut ranges = Vec::new();
        let (mut ours, mut theirs) = (&self.ranges[..], &other.ranges[..]);
        while let ([(a, b), our_rest @ ..], [(c, d), their_rest @ ..]) = (ours, theirs) {
            let (first, last) = ((*a).max(*c), (*b).min(*d));
            if first <= last {
                ranges.push((first, last));
            }
            if b < d {
                ours = our_rest;
            } else {
                theirs = their_rest;
            }
        }
        Self { ranges, missing: self.missing && other.missing }
    }

    /// The union.
    pub(super) fn union(&self, other: &Self) -> Self {
        let mut all = [&self.ranges[..], &other.ranges].concat();
        all.sort_unstable();
        let mut ranges: Vec<(u32, u32)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match ranges.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last)
                }
                _ => ranges.push((first, last)),
            }
        }
        Self { ranges, missing: self.missing || other.missing }
    }

    /// Whether this set contains the other.
    pub(super) fn contains(&self, other: &Self) -> bool {
        self.intersection(other) == *other
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty() && !self.missing
    }

    /// Whether the set contains everything.
    pub(super) fn is_all(&self, max: u32) -> bool {
        self.missing && self.ranges == [(0, max)]
    }

    /// The number of values.
    pub(super) fn size(&self) -> u64 {
        self.ranges.iter().map(|(first, last)| u64::from(last - first) + 1).sum()
    }
}
