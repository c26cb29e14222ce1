//! Rates by the bytes of addresses: a tree that grows where there is much traffic.

use std::fmt::Write;

use millrace_core::args::UFixed;

/// Units of time per second: each is 8 milliseconds.
pub(super) const EPOCHS: u32 = 125;
/// The fractional bits of averages.
const SCALE: u32 = 10;
/// Each epoch has a weight of 1/32 in the average.
const STABILITY: u32 = 5;
/// The default limit, in bytes.
const MOST: usize = 64 << 20;
/// Bytes that Click uses for a counter, and for a table of 256 of them.
const COUNTER: usize = 40;
const TABLE: usize = 2080;

/// The tree.
pub(super) struct RateTree {
    root: Box<Table>,
    /// The tables below the root, as the address bytes that lead to them, oldest first.
    ages: Vec<Vec<u8>>,
    memory: usize,
    /// Maximum number of bytes; 0 for no limit.
    limit: usize,
    /// Whether the limit was asked for. Then, as in Click, tables are removed only until the memory is below it.
    is_chosen: bool,
    threshold: i32,
    folded: Option<u32>,
}

struct Table([Option<Box<Counter>>; 256]);

#[derive(Clone, Default)]
struct Rates {
    epoch: u32,
    /// The amounts of the current epoch: from the address, to it.
    current: [u32; 2],
    average: [u32; 2],
}

#[derive(Default)]
struct Counter {
    rates: Rates,
    below: Option<Box<Table>>,
    /// Until this epoch, the bytes below are not measured separately.
    closed_until: u32,
}

impl Rates {
    fn advance(&mut self, now: u32) {
        let passed = now.wrapping_sub(self.epoch);
        if passed == 0 {
            return;
        }
        for (average, current) in self.average.iter_mut().zip(&mut self.current) {
            *average = moved(*average, *current);
            *average = match passed - 1 {
                100.. => 0,
                blank => (0..blank).fold(*average, |average, _| moved(average, 0)),
            };
            *current = 0;
        }
        self.epoch = now;
    }

    /// Both averages per second, without fraction.
    fn per_second(&self) -> [i32; 2] {
        self.average.map(|average| average.wrapping_mul(EPOCHS).cast_signed() >> SCALE)
    }
}

/// The average after an epoch with this amount.
fn moved(average: u32, amount: u32) -> u32 {
    let scaled = (amount << SCALE).wrapping_add(1 << (STABILITY - 1));
    average.wrapping_add_signed(scaled.wrapping_sub(average).cast_signed() >> STABILITY)
}

impl Table {
    fn new() -> Box<Self> {
        Box::new(Self([const { None }; 256]))
    }

    fn at(&mut self, byte: u8) -> &mut Option<Box<Counter>> {
        &mut self.0[usize::from(byte)]
    }

    /// The bytes used by the table and everything below it.
    fn memory(&self) -> usize {
        let counters = self.0.iter().flatten();
        let below = counters.map(|c| COUNTER + c.below.as_ref().map_or(0, |below| below.memory()));
        TABLE + below.sum::<usize>()
    }

    fn print(&mut self, prefix: &str, now: u32, text: &mut String) {
        for (byte, counter) in self.0.iter_mut().enumerate() {
            let Some(counter) = counter else { continue };
            if counter.rates.average == [0, 0] {
                continue;
            }
            let dot = if prefix.is_empty() { "" } else { "." };
            let address = format!("{prefix}{dot}{byte}");
            counter.rates.advance(now);
            let [from, to] = counter.rates.average.map(|a| UFixed::<SCALE>(a.wrapping_mul(EPOCHS)));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{address}\t{from}\t{to}");
            if let Some(below) = &mut counter.below {
                below.print(&format!("\t{address}"), now, text);
            }
        }
    }
}

impl RateTree {
    /// A tree with a limit in bytes, 0 for none, or with the default limit.
    pub(super) fn new(threshold: i32, limit: Option<usize>) -> Self {
        Self {
            root: Table::new(),
            ages: Vec::new(),
            memory: TABLE,
            limit: limit.unwrap_or(MOST),
            is_chosen: limit.is_some(),
            threshold,
            folded: None,
        }
    }

    /// Counts an amount for an address in one direction, and returns both rates per second of the longest measured part
    /// of the address. `oldest_first` says where the search for rates that have dropped starts.
    pub(super) fn update(
        &mut self,
        address: u32,
        from: bool,
        amount: Option<i32>,
        now: u32,
        oldest_first: bool,
    ) -> Option<[i32; 2]> {
        let bytes = address.to_be_bytes();
        let folded = *self.folded.get_or_insert(now);
        let mut table = &mut self.root;
        let mut depth = 0;
        let counter = loop {
            let slot = table.at(bytes[depth]);
            if slot.is_none() {
                if self.limit > 0 && self.memory + COUNTER > self.limit {
                    return None;
                }
                self.memory += COUNTER;
            }
            let fresh = || {
                let rates = Rates { epoch: now, ..Rates::default() };
                Box::new(Counter { rates, ..Counter::default() })
            };
            let counter = slot.get_or_insert_with(fresh);
            if let Some(amount) = amount {
                counter.rates.advance(now);
                let current = &mut counter.rates.current[usize::from(!from)];
                *current = current.wrapping_add_signed(amount);
            }
            if counter.below.is_none() || depth == 3 {
                break counter;
            }
            depth += 1;
            // It exists, as checked above.
            table = counter.below.get_or_insert_with(Table::new);
        };
        let rates = counter.rates.per_second();
        let much = rates.iter().any(|rate| *rate >= self.threshold);
        let room = self.limit == 0 || self.memory + COUNTER + TABLE <= self.limit;
        if counter.closed_until < now && much && depth < 3 && room {
            let mut below = Table::new();
            let first = Counter { rates: counter.rates.clone(), ..Counter::default() };
            *below.at(bytes[depth + 1]) = Some(Box::new(first));
            counter.below = Some(below);
            self.memory += COUNTER + TABLE;
            self.ages.push(bytes[..=depth].to_vec());
        }
        if now.wrapping_sub(folded) >= EPOCHS {
            self.fold(self.threshold, now, oldest_first);
            self.folded = Some(now);
        }
        Some(rates)
    }

    /// Removes tables whose rates are both below `threshold`, as Click compares them, until there is enough memory.
    fn fold(&mut self, threshold: i32, now: u32, oldest_first: bool) {
        let enough = match self.limit {
            limit if limit > 0 && self.is_chosen => limit,
            _ => (self.memory as f32 * 0.9) as usize,
        };
        let mut order = self.ages.clone();
        if !oldest_first {
            order.reverse();
        }
        for path in order {
            // A table above it may have been removed.
            let Some(counter) = self.counter(&path).filter(|counter| counter.below.is_some())
            else {
                continue;
            };
            counter.rates.advance(now);
            if counter.rates.average.iter().all(|average| average.cast_signed() < threshold) {
                self.remove(&path);
                if self.memory < enough {
                    break;
                }
            }
        }
        let mut ages = std::mem::take(&mut self.ages);
        ages.retain(|path| self.counter(path).is_some_and(|counter| counter.below.is_some()));
        self.ages = ages;
    }

    /// The counter at these address bytes.
    fn counter(&mut self, path: &[u8]) -> Option<&mut Counter> {
        let (&last, above) = path.split_last()?;
        let mut table = &mut self.root;
        for &byte in above {
            table = table.at(byte).as_mut()?.below.as_mut()?;
        }
        table.at(last).as_deref_mut()
    }

    /// Removes the table at these address bytes, and returns whether there was one. Its age, and those of the tables
    /// below it, remain.
    fn remove(&mut self, path: &[u8]) -> bool {
        let below = self.counter(path).and_then(|counter| counter.below.take());
        self.memory = self.memory.saturating_sub(below.as_ref().map_or(0, |below| below.memory()));
        below.is_some()
    }

    /// Measures no bytes of an address after `level` until the epoch `until`.
    pub(super) fn set_level(&mut self, address: u32, level: usize, until: u32) {
        let bytes = address.to_be_bytes();
        let path = &bytes[..=level.min(3)];
        if let Some(counter) = self.counter(path) {
            counter.closed_until = until;
            if self.remove(path) {
                self.ages.retain(|other| !other.starts_with(path));
            }
        }
    }

    pub(super) fn text(&mut self, now: u32) -> String {
        let mut text = String::new();
        self.root.print("", now, &mut text);
        text
    }

    pub(super) fn clear(&mut self) {
        (self.root, self.memory) = (Table::new(), TABLE);
        self.ages.clear();
    }

    /// Takes over the measurements of another tree, if they fit into the memory limit.
    pub(super) fn take(&mut self, old: &mut Self) {
        if self.limit == 0 || old.memory <= self.limit {
            self.root = std::mem::replace(&mut old.root, Table::new());
            self.ages = std::mem::take(&mut old.ages);
            (self.memory, self.folded) = (old.memory, old.folded);
            old.memory = TABLE;
        }
    }

    pub(super) fn set_limit(&mut self, limit: usize, now: u32) {
        self.limit = limit;
        self.is_chosen = true;
        let step = (self.threshold / 5).max(1);
        let mut threshold = self.threshold;
        while limit > 0 && self.memory > limit && !self.ages.is_empty() {
            self.fold(threshold, now, true);
            threshold = threshold.saturating_add(step);
        }
    }

    pub(super) fn threshold(&self) -> i32 {
        self.threshold
    }

    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The memory that the tree reports is always the memory that it uses.
    #[test]
    fn reported_memory_is_the_memory_used() {
        let mut random = fastrand::Rng::with_seed(5);
        for limit in [0, 40_000, 9000] {
            let mut tree = RateTree::new(20, Some(limit));
            let mut now = 1000;
            for _ in 0..20_000 {
                now += u32::from(random.u8(..) < 20);
                let address =
                    u32::from_be_bytes([1, random.u8(0..3), random.u8(0..4), random.u8(0..5)]);
                tree.update(address, random.bool(), random.bool().then_some(1), now, random.bool());
                if random.u16(..) < 100 {
                    tree.set_level(address, random.usize(0..4), now + 50);
                }
                if random.u16(..) < 50 {
                    now += 300;
                }
            }
            assert_eq!(tree.memory(), tree.root.memory());
            assert!(limit == 0 || tree.memory() <= limit);
            tree.set_limit(6000, now);
            assert_eq!(tree.memory(), tree.root.memory());
        }
    }

    #[test]
    fn a_steady_rate_is_measured() {
        let mut tree = RateTree::new(i32::MAX, Some(0));
        let mut rates = None;
        for now in 0..1000 {
            for _ in 0..8 {
                rates = tree.update(0x0102_0304, true, Some(1), now, true);
            }
        }
        let [from, to] = rates.unwrap();
        assert!((980..=1010).contains(&from), "{from}");
        assert_eq!(to, 0);
    }
}
