//! Rules that are added and removed while packets are classified.
//!
//! Rebuilding the index of many rules takes too long for each change. Rules that are removed are marked in it, and
//! added ones have a small index of their own: the earlier rule of the two decides. After [`LiveRules::MANY_CHANGES`],
//! everything should be rebuilt.

use std::collections::HashMap;
use std::sync::Arc;

use super::expr::Expr;
use super::index::{Index, NONE, Sections};
use super::insn::{Jump, Test};
use super::lanes::LANES;
use super::next::Otherwise;

/// A rule: a condition, and the destination of packets that satisfy it.
pub(super) type Rule = (Expr<Test>, Jump);

/// Many rules, and the changes to them.
#[derive(Clone, Debug)]
pub(super) struct LiveRules {
    index: Index,
    /// The rules that the index was built from.
    original: Arc<[Rule]>,
    /// The current rules.
    order: Vec<Entry>,
    added: Option<Added>,
    changes: usize,
}

/// Where a rule is stored.
#[derive(Clone, Debug)]
enum Entry {
    /// In the index, under this number.
    Original(u32),
    Added(Arc<Rule>),
}

/// The identity of an entry: a number, or the address of a rule in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Number(u32),
    Address(usize),
}

impl Entry {
    fn key(&self) -> Key {
        match self {
            Entry::Original(rule) => Key::Number(*rule),
            Entry::Added(rule) => Key::Address(Arc::as_ptr(rule).addr()),
        }
    }
}

/// The rules that have been added, in order.
#[derive(Clone, Debug)]
struct Added {
    index: Index,
    /// For each, the original rule that it precedes.
    before: Vec<u32>,
}

impl LiveRules {
    /// The number of changes that are kept separately.
    pub(super) const MANY_CHANGES: usize = 64;

    pub(super) fn new(rules: Arc<[Rule]>) -> Self {
        let order = (0..rules.len() as u32).map(Entry::Original).collect();
        Self { index: Index::new(&rules), original: rules, order, added: None, changes: 0 }
    }

    /// The current rules.
    pub(super) fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.order.iter().filter_map(|entry| match entry {
            Entry::Original(rule) => self.original.get(*rule as usize),
            Entry::Added(rule) => Some(rule),
        })
    }

    /// Whether so much has changed that everything should be rebuilt.
    pub(super) fn has_changed_much(&self) -> bool {
        self.changes >= Self::MANY_CHANGES
    }

    /// The same with a rule before the one at this place, or at the end; `None` if everything must be rebuilt.
    pub(super) fn with(&self, place: usize, rule: Rule) -> Option<Self> {
        if self.index.constant().is_some() {
            return None;
        }
        let mut live = self.clone();
        live.order.insert(place.min(live.order.len()), Entry::Added(Arc::new(rule)));
        live.gather_added();
        Some(live)
    }

    /// The same without the rule at this place; `None` if everything must be rebuilt.
    pub(super) fn without(&self, place: usize) -> Option<Self> {
        let mut live = self.clone();
        if place >= live.order.len() {
            return None;
        }
        match live.order.remove(place) {
            Entry::Original(rule) => live.index = live.index.without(rule)?,
            Entry::Added(_) => {}
        }
        live.gather_added();
        Some(live)
    }

    /// The rules of `self` in the index of `renewed`, which was built from the rules that `self` had when it was
    /// `before`. `None` if everything must be rebuilt.
    pub(super) fn moved_to(&self, renewed: Self, before: &Self) -> Option<Self> {
        let mut places: HashMap<Key, u32> =
            (0..).zip(&before.order).map(|(at, entry)| (entry.key(), at)).collect();
        let order = self.order.iter().map(|entry| match (places.remove(&entry.key()), entry) {
            (Some(at), _) => Entry::Original(at),
            (None, entry) => entry.clone(),
        });
        let mut moved = Self { order: order.collect(), ..renewed };
        // The remaining ones have since been removed.
        for at in places.into_values() {
            moved.index = moved.index.without(at)?;
        }
        moved.gather_added();
        Some(moved)
    }

    /// Indexes the added rules.
    fn gather_added(&mut self) {
        self.changes += 1;
        let (mut rules, mut before) = (Vec::new(), Vec::new());
        let mut next = NONE;
        for entry in self.order.iter().rev() {
            match entry {
                Entry::Original(rule) => next = *rule,
                Entry::Added(rule) => {
                    rules.push(Rule::clone(rule));
                    before.push(next);
                }
            }
        }
        rules.reverse();
        before.reverse();
        let index = (!rules.is_empty()).then(|| Index::new(&rules));
        self.added = index.map(|index| Added { index, before });
    }

    /// The destination of all packets, if they have the same.
    pub(super) fn constant(&self) -> Option<usize> {
        self.index.constant().filter(|_| self.added.is_none())
    }

    /// True unless it is obvious that no packet leaves by this output.
    pub(super) fn reaches(&self, output: u32) -> bool {
        self.index.reaches(output)
            || self.added.as_ref().is_some_and(|added| added.index.reaches(output))
    }

    /// The size of the indexes in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.index.bytes() + self.added.as_ref().map_or(0, |added| added.index.bytes())
    }

    /// The output for a packet, or [`DROP`](super::DROP).
    #[inline(always)]
    pub(super) fn classify(&self, sections: Sections<'_>) -> usize {
        let rule = self.index.first_rule(sections);
        match &self.added {
            None => self.index.output(rule),
            Some(added) => self.earlier(rule, added, added.index.first_rule(sections)),
        }
    }

    /// Writes the port of each packet. `sections` returns those of a packet.
    #[inline(always)]
    pub(super) fn classify_all<'a, P>(
        &self,
        packets: &'a [P],
        sections: impl Fn(&'a P) -> Option<[&'a [u8]; 3]>,
        otherwise: Otherwise,
        ports: &mut [u16],
    ) {
        let (chunks, rest) = packets.as_chunks::<LANES>();
        let (results, free) = ports.split_at_mut(ports.len().min(packets.len() - rest.len()));
        for (now, result) in chunks.iter().zip(results.as_chunks_mut::<LANES>().0) {
            let mut absent = 0_u32;
            let all: [Sections<'a>; LANES] = std::array::from_fn(|lane| {
                sections(&now[lane]).unwrap_or_else(|| {
                    absent |= 1 << lane;
                    Sections::default()
                })
            });
            let rules = self.index.first_rules(&all);
            match &self.added {
                None => {
                    for (result, rule) in result.iter_mut().zip(rules) {
                        *result = otherwise.port(self.index.output(rule));
                    }
                }
                Some(added) => {
                    let others = added.index.first_rules(&all);
                    for lane in 0..LANES {
                        let output = self.earlier(rules[lane], added, others[lane]);
                        result[lane] = otherwise.port(output);
                    }
                }
            }
            while absent != 0 {
                result[absent.trailing_zeros() as usize] = otherwise.no_sections;
                absent &= absent - 1;
            }
        }
        for (packet, port) in rest.iter().zip(free) {
            *port = match sections(packet) {
                Some(sections) => otherwise.port(self.classify(sections)),
                None => otherwise.no_sections,
            };
        }
    }

    /// The output of the earlier of two rules; the second is an added one.
    #[inline(always)]
    fn earlier(&self, rule: u32, added: &Added, other: u32) -> usize {
        match added.before.get(other as usize) {
            Some(&before) if before <= rule => added.index.output(other),
            _ => self.index.output(rule),
        }
    }
}
