//! What elements take of memory, beside their packets.

/// What an element may take of memory. The bytes of packets do not count, because packets live in the arena, whose size
/// is fixed; their number does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes that the element takes when it starts, beyond what it took when it was configured.
    pub at_start: u64,
    /// What packets can make it take.
    pub growth: Growth,
    /// The maximum number of packets that it holds.
    pub packets: u64,
}

/// How far packets can make an element grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Its tables have limits, and take up to this many bytes.
    Limited(u64),
    /// Nothing limits the number of its entries; the word says what there is one for, such as `aggregate`.
    Unlimited(&'static str),
}

impl Default for Growth {
    fn default() -> Self {
        Self::Limited(0)
    }
}

impl Footprint {
    /// So many bytes when the element starts.
    pub fn at_start(bytes: usize) -> Self {
        Self { at_start: bytes as u64, ..Self::default() }
    }

    /// Tables that take so many bytes when they are full.
    pub fn tables(bytes: usize) -> Self {
        Self { growth: Growth::Limited(bytes as u64), ..Self::default() }
    }

    /// A table of up to `entries` entries of a type of this size, in a standard hash table: these double when they are
    /// seven eighths full, and keep the old entries meanwhile.
    pub fn hash_table(entries: usize, entry: usize) -> Self {
        // The smallest table has four.
        let slots = (entries.saturating_mul(8) / 7).max(4).checked_next_power_of_two();
        let bytes = slots.unwrap_or(usize::MAX).saturating_mul(entry.saturating_add(1));
        Self::tables(bytes.saturating_add(bytes / 2))
    }

    /// A table without a limit, which has an entry for each `what`.
    pub fn unlimited(what: &'static str) -> Self {
        Self { growth: Growth::Unlimited(what), ..Self::default() }
    }

    /// Up to so many packets.
    pub fn packets(number: usize) -> Self {
        Self { packets: number as u64, ..Self::default() }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            at_start: self.at_start.saturating_add(other.at_start),
            growth: match (self.growth, other.growth) {
                (Growth::Limited(a), Growth::Limited(b)) => Growth::Limited(a.saturating_add(b)),
                (Growth::Unlimited(what), _) | (_, Growth::Unlimited(what)) => {
                    Growth::Unlimited(what)
                }
            },
            packets: self.packets.saturating_add(other.packets),
        }
    }
}

/// What a router takes of memory: estimates, made before it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// Bytes of packet memory on each NUMA node, taken as packets need them.
    pub arena: Vec<u64>,
    /// The number of packets that the packet memory holds.
    pub buffers: u64,
    /// Bytes for each thread: what the engine keeps for the elements that the thread reaches, and their own state.
    pub threads: Vec<u64>,
    /// The elements that take more at the start or later, by their numbers.
    pub elements: Vec<(usize, Footprint)>,
}

impl Forecast {
    /// Bytes that the elements take when they start.
    pub fn at_start(&self) -> u64 {
        self.elements.iter().map(|(_, footprint)| footprint.at_start).fold(0, u64::saturating_add)
    }

    /// Bytes that packets can make the elements take, those with limits.
    pub fn growth(&self) -> u64 {
        let limited = self.elements.iter().map(|(_, footprint)| match footprint.growth {
            Growth::Limited(bytes) => bytes,
            Growth::Unlimited(_) => 0,
        });
        limited.fold(0, u64::saturating_add)
    }

    /// The maximum number of packets that elements hold.
    pub fn packets(&self) -> u64 {
        self.elements.iter().map(|(_, footprint)| footprint.packets).fold(0, u64::saturating_add)
    }

    /// Bytes in all when every table with a limit and the packet memory are full, in addition to what the program has
    /// taken already.
    pub fn most(&self) -> u64 {
        let parts = [self.at_start(), self.growth()];
        self.arena.iter().chain(&self.threads).chain(&parts).copied().fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footprints_add_up_and_no_limit_stays_no_limit() {
        let both = Footprint::tables(100).and(Footprint::packets(7)).and(Footprint::at_start(5));
        assert_eq!(both, Footprint { at_start: 5, growth: Growth::Limited(100), packets: 7 });
        let all = both.and(Footprint::unlimited("flow")).and(Footprint::tables(usize::MAX));
        assert_eq!(all.growth, Growth::Unlimited("flow"));
        let forecast = Forecast {
            arena: vec![1000, 1000],
            buffers: 10,
            threads: vec![20],
            elements: vec![(0, both), (3, all)],
        };
        assert_eq!((forecast.at_start(), forecast.growth(), forecast.packets()), (10, 100, 14));
        assert_eq!(forecast.most(), 2130);
    }

    /// Against what a hash table takes in fact.
    #[test]
    fn hash_tables_are_estimated_from_above() {
        for entries in [1, 100, 1000, 1792, 1793, 100_000] {
            let mut table = std::collections::HashMap::new();
            table.extend((0..entries as u64).map(|entry| (entry, [entry; 3])));
            let takes = table.capacity() * (size_of::<(u64, [u64; 3])>() + 1);
            let Growth::Limited(most) = Footprint::hash_table(entries, 32).growth else { panic!() };
            assert!(
                (takes as u64..5 * takes as u64 + 64).contains(&most),
                "{entries}: {takes} {most}"
            );
        }
    }
}
