//! Fragments: the first one of a datagram says which connection it belongs to, and the others follow it.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::RandomState;
use millrace_core::Lock;
use millrace_core::headers::{Header, Ipv4Header, Ipv6Header};

use crate::classify::program::State;

/// The datagrams of which some fragments have arrived, the first one among them.
#[derive(Default)]
pub(super) struct Fragments(Lock<Begun>);

#[derive(Default)]
struct Begun {
    datagrams: HashMap<Key, Datagram, RandomState>,
    /// Those that have begun, by age, with their numbers. Some are complete since.
    ages: VecDeque<(Key, u64)>,
    /// How many have begun so far.
    count: u64,
}

/// What the fragments of a datagram have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    source: u128,
    destination: u128,
    id: u32,
    /// The protocol for IPv4. IPv6 has one space for all (RFC 8200, 4.5), with a number that no protocol has.
    space: u16,
}

struct Datagram {
    state: State,
    /// What has arrived, in order; what adjoins is one range.
    ranges: Vec<(usize, usize)>,
    /// Its length, when the last fragment has arrived.
    length: Option<usize>,
    /// Some fragments contradict each other.
    is_broken: bool,
    since: u64,
    number: u64,
}

/// A fragment: which datagram it is of, and its place in there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment {
    key: Key,
    start: usize,
    end: usize,
    is_last: bool,
}

/// The most datagrams at a time; the oldest makes room for another.
const MOST: usize = 4096;
/// The most gaps in a datagram.
const MOST_RANGES: usize = 64;
/// How long the fragments of a datagram may take, in milliseconds: the receiver waits no longer either (RFC 791, 3.2).
const TIMEOUT: u64 = 30_000;

impl Fragments {
    /// The state of a fragment's connection; `whole` says it for the first fragment.
    ///
    /// Fragments that overlap, or contradict each other in another way, are invalid, and so are all that follow, for a
    /// receiver might see another packet than a filter (RFC 5722, RFC 1858). A fragment that comes before the first one is
    /// untracked.
    pub(super) fn see(&self, part: &Fragment, now: u64, whole: impl FnOnce() -> State) -> State {
        if !part.is_sound() {
            return State::Invalid;
        }
        if let Some(state) = self.0.lock().follow(part, now) {
            return state;
        }
        if part.start > 0 {
            return State::Untracked;
        }
        let state = whole();
        self.0.lock().begin(part, state, now);
        state
    }

    pub(super) fn clear(&self) {
        *self.0.lock() = Begun::default();
    }

    /// Takes over the datagrams of the old one.
    pub(super) fn take(&self, old: &Self) {
        *self.0.lock() = std::mem::take(&mut *old.0.lock());
    }

    pub(super) fn bytes_when_full() -> usize {
        let ranges = MOST_RANGES * size_of::<(usize, usize)>();
        let ages = 2 * size_of::<(Key, u64)>();
        MOST * (2 * size_of::<(Key, Datagram)>() + ranges + ages)
    }
}

impl Begun {
    /// The state of a fragment of a datagram that has begun.
    fn follow(&mut self, part: &Fragment, now: u64) -> Option<State> {
        let datagram = self.datagrams.get_mut(&part.key)?;
        if now.saturating_sub(datagram.since) >= TIMEOUT {
            self.datagrams.remove(&part.key);
            return None;
        }
        datagram.add(part);
        let state = if datagram.is_broken { State::Invalid } else { datagram.state };
        if datagram.is_complete() {
            self.datagrams.remove(&part.key);
        }
        Some(state)
    }

    fn begin(&mut self, part: &Fragment, state: State, now: u64) {
        while let Some(&(key, number)) = self.ages.front() {
            let one = self.datagrams.get(&key).filter(|one| one.number == number);
            let is_old = |one: &Datagram| now.saturating_sub(one.since) >= TIMEOUT;
            match one {
                Some(one) if self.datagrams.len() < MOST && !is_old(one) => break,
                Some(_) => self.datagrams.remove(&key).map_or((), drop),
                None => {}
            }
            self.ages.pop_front();
        }
        if self.ages.len() >= 2 * MOST {
            let datagrams = &self.datagrams;
            let lasts = |(key, number): &(Key, u64)| {
                datagrams.get(key).is_some_and(|one| one.number == *number)
            };
            self.ages.retain(lasts);
        }
        self.count += 1;
        let number = self.count;
        let ranges = vec![(part.start, part.end)];
        let new = Datagram { state, ranges, length: None, is_broken: false, since: now, number };
        self.datagrams.insert(part.key, new);
        self.ages.push_back((part.key, number));
    }
}

impl Datagram {
    fn add(&mut self, part: &Fragment) {
        let at = self.ranges.partition_point(|&(_, end)| end <= part.start);
        let next = self.ranges.get(at).map(|&(start, _)| start);
        let fits = next.is_none_or(|next| part.end <= next && !part.is_last)
            && self.length.is_none_or(|length| part.end <= length && !part.is_last)
            && self.ranges.len() < MOST_RANGES;
        if self.is_broken || !fits {
            self.is_broken = true;
            self.ranges = Vec::new();
            return;
        }
        if part.is_last {
            self.length = Some(part.end);
        }
        self.ranges.insert(at, (part.start, part.end));
        self.ranges.dedup_by(|next, one| {
            let adjoins = next.0 == one.1;
            if adjoins {
                one.1 = next.1;
            }
            adjoins
        });
    }

    fn is_complete(&self) -> bool {
        matches!(*self.ranges, [(0, end)] if Some(end) == self.length)
    }
}

impl Fragment {
    /// The fragment that a packet is, from its IP header on; `None` for a whole packet and for what is none.
    pub(super) fn of(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::of_ipv4(packet),
            6 => Self::of_ipv6(packet),
            _ => None,
        }
    }

    fn of_ipv4(packet: &[u8]) -> Option<Self> {
        let (ip, _) = Ipv4Header::view(packet).filter(|(ip, _)| ip.is_fragment())?;
        let length = usize::from(ip.total_len.get()).checked_sub(ip.header_len())?;
        let key = Key {
            source: ip.source().to_bits().into(),
            destination: ip.destination().to_bits().into(),
            id: ip.id.get().into(),
            space: ip.protocol.into(),
        };
        let start = ip.fragment_offset();
        Some(Self { key, start, end: start + length, is_last: !ip.more_fragments() })
    }

    fn of_ipv6(packet: &[u8]) -> Option<Self> {
        let (ip, payload) = Ipv6Header::view(packet)?;
        let mut extensions = ip.extensions(payload);
        let (part, at) = extensions.find_map(|extension| {
            let (part, _) = extension.fragment()?;
            Some((part, extension.offset + extension.bytes.len()))
        })?;
        if !part.more() && part.offset() == 0 {
            return None;
        }
        let key = Key {
            source: ip.source().to_bits(),
            destination: ip.destination().to_bits(),
            id: part.id.get(),
            space: 256,
        };
        let (start, length) = (part.offset(), payload.len().checked_sub(at)?);
        Some(Self { key, start, end: start + length, is_last: !part.more() })
    }

    /// Whether a datagram can have such a fragment.
    fn is_sound(&self) -> bool {
        let length = self.end - self.start;
        length > 0 && self.end <= 0xffff && (self.is_last || length.is_multiple_of(8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(id: u32, start: usize, end: usize, is_last: bool) -> Fragment {
        Fragment { key: Key { source: 1, destination: 2, id, space: 17 }, start, end, is_last }
    }

    fn see(fragments: &Fragments, part: &Fragment, now: u64) -> State {
        fragments.see(part, now, || State::Established)
    }

    #[test]
    fn fragments_follow_the_first_one_in_any_order() {
        use State::{Established, Untracked};
        let fragments = Fragments::default();
        for (start, end, is_last, expected) in [
            (16, 24, false, Untracked),
            (0, 16, false, Established),
            (40, 47, true, Established),
            (24, 40, false, Established),
            (16, 24, false, Established),
            // The datagram is complete.
            (24, 40, false, Untracked),
            (0, 16, false, Established),
        ] {
            let found = see(&fragments, &part(7, start, end, is_last), 0);
            assert_eq!(found, expected, "{start} to {end}");
        }
        assert_eq!(see(&fragments, &part(8, 16, 24, false), 0), Untracked);
        assert_eq!(see(&fragments, &part(7, 16, 24, false), TIMEOUT), Untracked);
    }

    #[test]
    fn fragments_that_contradict_each_other_are_invalid() {
        let sound = [(0, 16, false), (24, 32, false), (48, 50, true)];
        for wrong in [
            (0, 16, false),
            (8, 24, false),
            (16, 32, false),
            (24, 32, false),
            (32, 56, false),
            (48, 56, false),
            (56, 64, false),
            (40, 48, true),
        ] {
            let fragments = Fragments::default();
            let mut states = sound
                .iter()
                .map(|&(start, end, last)| see(&fragments, &part(1, start, end, last), 0));
            assert!(states.all(|state| state == State::Established));
            let (start, end, last) = wrong;
            assert_eq!(see(&fragments, &part(1, start, end, last), 0), State::Invalid, "{wrong:?}");
            assert_eq!(see(&fragments, &part(1, 16, 24, false), 0), State::Invalid, "{wrong:?}");
        }
        let fragments = Fragments::default();
        for (start, end, last) in [(0, 12, false), (0, 0, true), (65528, 65536, false)] {
            assert_eq!(see(&fragments, &part(1, start, end, last), 0), State::Invalid);
        }
    }

    #[test]
    fn memory_is_bounded() {
        let fragments = Fragments::default();
        for id in 0..3 * MOST as u32 {
            see(&fragments, &part(id, 0, 16, false), 0);
        }
        assert_eq!(fragments.0.lock().datagrams.len(), MOST);
        assert_eq!(see(&fragments, &part(0, 16, 24, false), 0), State::Untracked);
        assert_eq!(
            see(&fragments, &part(3 * MOST as u32 - 1, 16, 24, false), 0),
            State::Established
        );
        // Datagrams that are complete at once leave only their age.
        for id in 0..9 * MOST as u32 {
            see(&fragments, &part(id, 0, 16, false), 1);
            see(&fragments, &part(id, 16, 20, true), 1);
        }
        assert!(fragments.0.lock().ages.len() <= 2 * MOST);
        let gaps = |n: usize| part(1, 16 * n, 16 * n + 8, false);
        let fragments = Fragments::default();
        let states: Vec<State> = (0..=MOST_RANGES).map(|n| see(&fragments, &gaps(n), 0)).collect();
        assert_eq!(states.last(), Some(&State::Invalid));
        see(&fragments, &part(2, 0, 8, false), TIMEOUT);
        assert_eq!(fragments.0.lock().datagrams.len(), 1);
    }
}
