//! The engine of the CPU: an Aho-Corasick [automaton](super::automaton) in a [table](table) for small caches.
//!
//! One transition a byte: a load that waits for the one before. A single walk is bound by that latency, so texts are
//! walked [eight side by side](lockstep), and the loads of eight walks overlap.
//!
//! Memory goes by states: 8 bytes for each, 8 bytes a class for each row that is kept, and what verifying takes, about 100
//! bytes a rule. Building takes time in proportion. The patterns here are phrases of `modsecurity-crs`, all without case:
//!
//! | patterns | states | rows | memory | built in |
//! |---|---|---|---|---|
//! | 100 | 1,881 | 118 | 0.07 MB | 0.2 ms |
//! | 1,000 | 14,258 | 850 | 0.6 MB | 1.5 ms |
//! | 3,640 | 40,282 | 2,541 | 2.0 MB | 8 ms |

mod lockstep;
mod table;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use super::automaton::Triggers;
use super::verify::{LANES, Mark, Missed, Verifier};
use super::{BuildError, Image, PatternSet, Text};
use crate::hyperscan::ScanSpace;
use table::{Found, Table};

/// A pattern set compiled for the CPU; shared by threads, each with a [`Scratch`] of its own.
#[derive(Debug)]
pub struct Dfa {
    classes: [u8; 256],
    table: Table,
    verifier: Verifier,
    /// How many rules there are.
    rules: usize,
    /// Bytes of the shortest trigger.
    shortest: usize,
    set: PatternSet,
    /// Built when somebody asks for it; none if it would be too large.
    image: OnceLock<Option<Image>>,
}

/// What a thread needs beside the engine to search; for any engine.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) missed: Missed,
    pub(super) space: ScanSpace,
    /// For each rule the number of the last text in which it was told, for [`Dfa::each`].
    pub(super) told: Vec<u32>,
}

/// What hears of alerts in one text.
pub(super) trait Sink {
    /// Rules from this one on are of no interest.
    fn below(&self) -> u32;
    /// Whether a rule is of interest.
    fn wants(&self, rule: u32) -> bool;
    /// A rule alerts.
    fn alert(&mut self, rule: u32);
}

/// Keeps the lowest rule, `u32::MAX` is none.
#[derive(Debug)]
pub(super) struct Lowest(u32);

impl Dfa {
    /// Compiles a pattern set.
    pub fn new(set: &PatternSet) -> Result<Self, BuildError> {
        let triggers = Triggers::of(set);
        Ok(Self {
            table: Table::of(&triggers)?,
            verifier: Verifier::new(set, triggers.folds),
            classes: triggers.classes.map,
            rules: set.len(),
            shortest: triggers.shortest,
            set: set.clone(),
            image: OnceLock::new(),
        })
    }

    /// The image, for a GPU: it is built when it is first asked for. `None` if it would be larger than
    /// [`Image::MOST_BYTES`].
    pub fn image(&self) -> Option<&Image> {
        self.image.get_or_init(|| Image::build(&self.set).ok()).as_ref()
    }

    /// Bytes that it takes; those of the [image](Self::image) are counted once it is built.
    pub fn memory(&self) -> usize {
        let image = self.image.get().and_then(Option::as_ref);
        let image = image.map_or(0, |image| size_of_val(image.words()));
        self.table.memory() + self.verifier.memory() + image
    }

    /// The result of one text: the lowest rule that alerts plus 1, or 0.
    pub fn first(&self, text: Text<'_>, scratch: &mut Scratch) -> u32 {
        scratch.missed.begin(&self.verifier);
        let mut lowest = Lowest::default();
        self.walk(text, &mut scratch.missed, &mut lowest);
        lowest.result()
    }

    /// The results of many texts, which takes less time than one after another. `results` is as long as `texts`.
    pub fn firsts(&self, texts: &[Text<'_>], results: &mut [u32], scratch: &mut Scratch) {
        scratch.missed.begin(&self.verifier);
        self.lockstep(texts, results, &mut scratch.missed);
    }

    /// Tells each rule that alerts in a text, once, in no order.
    pub fn each(&self, text: Text<'_>, scratch: &mut Scratch, tell: impl FnMut(u32)) {
        let Scratch { missed, told, .. } = scratch;
        missed.begin(&self.verifier);
        let mut each = Each::new(told, self.rules, tell);
        self.walk(text, missed, &mut each);
    }

    fn walk(&self, text: Text<'_>, missed: &mut Missed, sink: &mut impl Sink) {
        if text.bytes.len() < self.shortest {
            return;
        }
        let mark = missed.mark(0);
        let mut state = 0;
        for (index, &byte) in text.bytes.iter().enumerate() {
            state = self.next(state, byte);
            if self.table.has_output(state) {
                self.hit(state, text, index + 1, missed, mark, sink);
                if sink.below() == 0 {
                    return;
                }
            }
        }
    }

    /// Follows a text that goes on from `state`, and tells the rule and the end of every trigger, verified by
    /// nobody.
    pub(super) fn follow(&self, state: &mut u32, bytes: &[u8], mut tell: impl FnMut(u32, usize)) {
        for (index, &byte) in bytes.iter().enumerate() {
            *state = self.next(*state, byte);
            if self.table.has_output(*state) {
                let found = self.table.found(*state).iter();
                found.for_each(|found| tell(found.rule, index + 1));
            }
        }
    }

    /// The state behind another one.
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
    /// As a text's result.
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

/// Tells each rule once.
pub(super) struct Each<'a, F> {
    told: &'a mut [u32],
    /// The number of the text.
    text: u32,
    tell: F,
}

impl<'a, F: FnMut(u32)> Each<'a, F> {
    /// For one text. The first word of `told` numbers texts.
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
