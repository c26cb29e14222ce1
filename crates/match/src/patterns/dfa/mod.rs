//! The engine of the CPU: an Aho-Corasick [automaton](super::automaton) in a [table](table) for small caches.
//!
//! One transition a byte: a load that waits for the one before. A single walk is bound by that latency, so texts are
//! walked [eight side by side](lockstep), and the loads of eight walks overlap. Where triggers are few, a [sieve](sieve)
//! passes over what holds none.
//!
//! Memory goes by states: 8 bytes for each, 8 bytes a class for each row that is kept, what verifying takes, about 100
//! bytes a rule, and 32 KB for the sieve. Building takes time in proportion.
//!
//! Gb/s on one core (AMD EPYC, Zen 5, virtual; load 1 to 2), phrases of `modsecurity-crs`, all without case, payloads of 64 and
//! 1,500 bytes side by side, in turns with Hyperscan 5.4 (`cargo xtask bench match --only patterns`, medians of 7 rounds):
//!
//! | patterns | states | rows | memory | built in | payload | 64 bytes | Hyperscan | 1,500 bytes | Hyperscan |
//! |---|---|---|---|---|---|---|---|---|---|
//! | 100 | 1,881 | 118 | 0.11 MB | 0.3 ms | requests | 9.4 | 8.0 | 22 | 39 |
//! | | | | | | text | 12 | 6.1 | 23 | 26 |
//! | | | | | | beginnings of patterns | 9.7 | 6.0 | 10 | 24 |
//! | | | | | | bytes by lot | 16 | 16 | 37 | 73 |
//! | 3,640 | 40,282 | 2,541 | 2.1 MB | 8 ms | requests | 10 | 8.7 | 11 | 17 |
//! | | | | | | text | 10 | 5.0 | 12 | 7.2 |
//! | | | | | | beginnings of patterns | 9.7 | 3.3 | 11 | 3.4 |
//! | | | | | | bytes by lot | 11 | 14 | 12 | 28 |

mod lockstep;
mod sieve;
mod table;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use super::automaton::Triggers;
use super::verify::{LANES, Mark, Missed, Verifier};
use super::{BuildError, Image, PatternSet, Text};
use crate::hyperscan::ScanSpace;
use sieve::{Sieve, Trust};
use table::{Found, Table};

/// A pattern set compiled for the CPU. Threads share it, and each has its own [`Scratch`].
#[derive(Debug)]
pub struct Dfa {
    classes: [u8; 256],
    table: Table,
    sieve: Option<Sieve>,
    verifier: Verifier,
    /// The number of rules.
    rules: usize,
    /// The length of the shortest trigger in bytes.
    shortest: usize,
    set: PatternSet,
    /// Built on demand; `None` if it would be too large.
    image: OnceLock<Option<Image>>,
}

/// The memory that a thread needs to search, for any engine.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) missed: Missed,
    pub(super) space: ScanSpace,
    /// For each rule, the number of the last text in which it was reported, for [`Dfa::each`].
    pub(super) told: Vec<u32>,
    pub(super) trust: Trust,
}

/// The number of bytes that the automaton processes before the sieve is used again.
const STRETCH: usize = 32;

/// Receives the alerts in one text.
pub(super) trait Sink {
    /// Rules from this one on need not be reported.
    fn below(&self) -> u32;
    /// True if a rule must be reported.
    fn wants(&self, rule: u32) -> bool;
    /// Receives a rule that alerts.
    fn alert(&mut self, rule: u32);
}

/// Keeps the lowest rule; `u32::MAX` means none.
#[derive(Debug)]
pub(super) struct Lowest(u32);

impl Dfa {
    /// Compiles a pattern set.
    pub fn new(set: &PatternSet) -> Result<Self, BuildError> {
        let triggers = Triggers::of(set);
        Ok(Self {
            table: Table::of(&triggers)?,
            sieve: Sieve::of(&triggers),
            verifier: Verifier::new(set, triggers.folds),
            classes: triggers.classes.map,
            rules: set.len(),
            shortest: triggers.shortest,
            set: set.clone(),
            image: OnceLock::new(),
        })
    }

    /// The image for a GPU, which is built when it is first needed. `None` if it would be larger than
    /// [`Image::MOST_BYTES`].
    pub fn image(&self) -> Option<&Image> {
        self.image.get_or_init(|| Image::build(&self.set).ok()).as_ref()
    }

    /// The size in bytes, without the [image](Self::image).
    pub fn memory(&self) -> usize {
        let sieve = self.sieve.as_ref().map_or(0, Sieve::memory);
        self.table.memory() + sieve + self.verifier.memory()
    }

    /// The result of one text: the lowest rule that alerts plus 1, or 0.
    pub fn first(&self, text: Text<'_>, scratch: &mut Scratch) -> u32 {
        scratch.missed.begin(&self.verifier);
        let mut lowest = Lowest::default();
        self.walk(text, &mut scratch.missed, &mut scratch.trust, &mut lowest);
        lowest.result()
    }

    /// The results of many texts, faster than one after the other. `results` must be as long as `texts`.
    pub fn firsts(&self, texts: &[Text<'_>], results: &mut [u32], scratch: &mut Scratch) {
        scratch.missed.begin(&self.verifier);
        self.lockstep(texts, results, &mut scratch.missed, &mut scratch.trust);
    }

    /// Calls `tell` for each rule that alerts in a text, once, in no particular order.
    pub fn each(&self, text: Text<'_>, scratch: &mut Scratch, tell: impl FnMut(u32)) {
        let Scratch { missed, told, trust, .. } = scratch;
        missed.begin(&self.verifier);
        let mut each = Each::new(told, self.rules, tell);
        self.walk(text, missed, trust, &mut each);
    }

    fn walk(&self, text: Text<'_>, missed: &mut Missed, trust: &mut Trust, sink: &mut impl Sink) {
        if text.bytes.len() >= self.shortest {
            let mark = missed.mark(0);
            self.walk_on(text, (0, 0), missed, mark, trust, sink);
        }
    }

    /// Searches a text from a state and a position to its end.
    fn walk_on(
        &self,
        text: Text<'_>,
        (mut state, mut at): (u32, usize),
        missed: &mut Missed,
        mark: Mark,
        trust: &mut Trust,
        sink: &mut impl Sink,
    ) {
        while at < text.bytes.len() {
            if self.table.is_beginning(state) {
                let Some(found) = trust.find(self.sieve.as_ref(), text.bytes, at) else { return };
                at = found;
            }
            let bytes = text.bytes.get(at..).unwrap_or(&[]);
            let bytes = bytes.get(..STRETCH).unwrap_or(bytes);
            for (index, &byte) in (at..).zip(bytes) {
                state = self.next(state, byte);
                if self.table.has_output(state) {
                    self.hit(state, text, index + 1, missed, mark, sink);
                    if sink.below() == 0 {
                        return;
                    }
                }
            }
            trust.walk(bytes.len());
            at += bytes.len();
        }
    }

    /// Searches a text that continues from `state`, and reports the rule and the end of every trigger, without
    /// verification.
    pub(super) fn follow(&self, state: &mut u32, bytes: &[u8], mut tell: impl FnMut(u32, usize)) {
        for (index, &byte) in bytes.iter().enumerate() {
            *state = self.next(*state, byte);
            if self.table.has_output(*state) {
                let found = self.table.found(*state).iter();
                found.for_each(|found| tell(found.rule, index + 1));
            }
        }
    }

    /// The next state.
    #[inline(always)]
    fn next(&self, state: u32, byte: u8) -> u32 {
        self.table.next(state, self.classes[usize::from(byte)])
    }

    /// Verifies the rules whose triggers end before `end`, in a state with output.
    fn hit(
        &self,
        state: u32,
        text: Text<'_>,
        end: usize,
        missed: &mut Missed,
        mark: Mark,
        sink: &mut impl Sink,
    ) {
        for &Found { rule, certain } in self.table.found(state) {
            if rule >= sink.below() {
                return;
            }
            if sink.wants(rule) && (certain || self.verifier.alerts(rule, text, end, missed, mark))
            {
                sink.alert(rule);
            }
        }
    }
}

impl Lowest {
    /// The result of a text.
    pub(super) fn result(&self) -> u32 {
        self.0.wrapping_add(1)
    }
}

impl Default for Lowest {
    fn default() -> Self {
        Self(u32::MAX)
    }
}

impl Sink for Lowest {
    #[inline]
    fn below(&self) -> u32 {
        self.0
    }

    #[inline]
    fn wants(&self, _rule: u32) -> bool {
        true
    }

    #[inline]
    fn alert(&mut self, rule: u32) {
        self.0 = self.0.min(rule);
    }
}

/// Reports each rule once.
pub(super) struct Each<'a, F> {
    told: &'a mut [u32],
    /// The number of the text.
    text: u32,
    tell: F,
}

impl<'a, F: FnMut(u32)> Each<'a, F> {
    /// For one text. The first word of `told` is the counter of texts.
    pub(super) fn new(told: &'a mut Vec<u32>, rules: usize, tell: F) -> Self {
        if told.len() != rules + 1 || told[0] == u32::MAX {
            told.clear();
            told.resize(rules + 1, 0);
        }
        told[0] += 1;
        let text = told[0];
        Self { told: &mut told[1..], text, tell }
    }
}

impl<F: FnMut(u32)> Sink for Each<'_, F> {
    fn below(&self) -> u32 {
        u32::MAX
    }

    fn wants(&self, rule: u32) -> bool {
        self.told.get(rule as usize).is_some_and(|&text| text != self.text)
    }

    fn alert(&mut self, rule: u32) {
        self.told[rule as usize] = self.text;
        (self.tell)(rule);
    }
}
