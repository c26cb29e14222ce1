//! Alignments of packets in memory: those that are known, and those that are required.

/// The alignment of packets: the address of their first byte leaves the remainder `offset` when divided by `modulus`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Alignment {
    /// No packets are known yet, or no alignment is required.
    #[default]
    Empty,
    /// No alignment satisfies the requirements.
    Bad,
    /// There are no packets, so every requirement is satisfied.
    Universal,
    /// With a modulus of 1, packets may have any address.
    At { modulus: u32, offset: u32 },
}

use Alignment::{At, Bad, Empty, Universal};

impl Alignment {
    /// Takes the offset modulo the modulus, which is at least 1.
    pub(super) fn new(modulus: u32, offset: i64) -> Self {
        let modulus = modulus.max(1);
        let offset = offset.rem_euclid(i64::from(modulus));
        At { modulus, offset: u32::try_from(offset).unwrap_or(0) }
    }

    /// The modulus as it is printed; 1 if there is none.
    pub(super) fn modulus(self) -> u32 {
        if let At { modulus, .. } = self { modulus } else { 1 }
    }

    pub(super) fn offset(self) -> u32 {
        if let At { offset, .. } = self { offset } else { 0 }
    }

    pub(super) fn shifted(self, bytes: i64) -> Self {
        match self {
            At { modulus, offset } => Self::new(modulus, i64::from(offset) + bytes),
            other => other,
        }
    }

    /// True if packets with this alignment also have the alignment `wanted`.
    pub(super) fn satisfies(self, wanted: Self) -> bool {
        match (self, wanted) {
            (Bad, _) | (_, Bad) => false,
            (Universal, _) => true,
            (_, Universal) => false,
            (_, Empty) | (_, At { modulus: 0..=1, .. }) => true,
            (Empty, _) => false,
            (At { modulus, offset }, At { modulus: wanted, offset: at }) => {
                modulus % wanted == 0 && offset % wanted == at
            }
        }
    }

    /// The alignment of a mixture of packets with either alignment.
    pub(super) fn either(self, other: Self) -> Self {
        let ((m, a), (n, b)) = match (self, other) {
            (Empty, other) | (_, other @ Bad) | (Universal, other @ At { .. }) => return other,
            (At { modulus: m @ 2.., offset: a }, At { modulus: n, offset: b }) => ((m, a), (n, b)),
            (this, _) => return this,
        };
        let common = gcd(m, n);
        let (a, b) = (a % common, b % common);
        if a == b {
            return At { modulus: common, offset: a };
        }
        let apart = a.abs_diff(b);
        let apart = apart.min(common - apart);
        if common.is_multiple_of(apart) {
            At { modulus: apart, offset: a % apart }
        } else {
            At { modulus: 1, offset: 0 }
        }
    }

    /// The alignment of packets that have both alignments.
    pub(super) fn both(self, other: Self) -> Self {
        let ((m, a), (n, b)) = match (self, other) {
            (Empty, other) | (_, other @ Bad) => return other,
            (At { modulus: m, offset: a }, At { modulus: n, offset: b }) => ((m, a), (n, b)),
            (this, _) => return this,
        };
        if self.satisfies(other) {
            return self;
        }
        if other.satisfies(self) {
            return other;
        }
        let (small, large) = if m < n { ((m, a), (n, b)) } else { ((n, b), (m, a)) };
        let Some(both) = (m / gcd(m, n)).checked_mul(n) else { return Bad };
        let tries = (0..both / large.0).map(|step| large.1 + step * large.0);
        let found = tries.into_iter().find(|offset| offset % small.0 == small.1);
        found.map_or(Bad, |offset| At { modulus: both, offset })
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a.max(1) } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(modulus: u32, offset: u32) -> Alignment {
        At { modulus, offset }
    }

    #[test]
    fn alignments_satisfy_weaker_ones() {
        assert!(at(8, 6).satisfies(at(4, 2)));
        assert!(!at(4, 2).satisfies(at(8, 6)));
        assert!(!at(4, 1).satisfies(at(4, 2)));
        assert!(at(1, 0).satisfies(Empty) && Empty.satisfies(at(1, 0)));
        assert!(Universal.satisfies(at(4, 2)) && !at(4, 2).satisfies(Universal));
        assert!(!Empty.satisfies(at(4, 2)) && !Bad.satisfies(at(1, 0)));
    }

    #[test]
    fn joined_alignments_are_those_of_the_addresses() {
        // Checks the definition for all addresses below the least common multiple.
        for (m, n) in [(2, 4), (4, 4), (3, 5), (6, 10), (4, 6), (8, 12)] {
            for (a, b) in (0..m).flat_map(|a| (0..n).map(move |b| (a, b))) {
                let fits = |x: u32, modulus: u32, offset: u32| x % modulus == offset;
                let both = at(m, a).both(at(n, b));
                let common: Vec<u32> =
                    (0..m * n).filter(|&x| fits(x, m, a) && fits(x, n, b)).collect();
                match both {
                    Bad => assert!(common.is_empty()),
                    At { modulus, offset } => {
                        let said: Vec<u32> =
                            (0..m * n).filter(|&x| fits(x, modulus, offset)).collect();
                        assert_eq!(said, common, "{m}/{a} and {n}/{b}");
                    }
                    _ => panic!(),
                }
                // Every address of either alignment has the common one.
                let At { modulus, offset } = at(m, a).either(at(n, b)) else { panic!() };
                let all = (0..m * n).filter(|&x| fits(x, m, a) || fits(x, n, b));
                assert!(all.into_iter().all(|x| fits(x, modulus, offset)), "{m}/{a} or {n}/{b}");
            }
        }
    }

    #[test]
    fn shifts_go_both_ways() {
        assert_eq!(at(4, 2).shifted(14), at(4, 0));
        assert_eq!(at(4, 2).shifted(-3), at(4, 3));
        assert_eq!(Empty.shifted(5), Empty);
    }
}
