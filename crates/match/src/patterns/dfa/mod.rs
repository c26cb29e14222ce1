//! The engine of the CPU: a walk over the [image](super::image).
//!
//! One transition a byte: a load that waits for the one before. A single walk is bound by that latency, so texts are
//! walked [eight side by side](lockstep), and the loads of eight walks overlap.
//!
//! Gb/s on one core (AMD EPYC, Zen 5), 1,400 bytes a payload, patterns from the phrases of `modsecurity-crs`, all
//! without case (`examples/pattern_speed.rs`; the less disturbed of several runs on a busy machine, Hyperscan's of one of
//! them; text in which many states are visited came to 1.5 to 3.4 in such runs):
//!
//! | patterns | memory | built in | payload | one by one | eight side by side | Hyperscan 5.4 |
//! |---|---|---|---|---|---|---|
//! | 1,000 | 4.1 MB | 34 ms | web requests | 2.6 | 15 | 3.9 |
//! | | | | beginnings of patterns | 0.7 | 3.1 | 1.9 |
//! | 3,640 | 13.5 MB | 170 ms | web requests | 2.0 | 13 | 2.0 |
//! | | | | beginnings of patterns | 0.3 | 1.8 | 1.0 |
//! | | | | bytes by lot | 2.6 | 15 | 26 |

mod lockstep;
#[cfg(test)]
mod tests;

use super::verify::{LANES, Mark, Missed, Verifier};
use super::{BuildError, Image, PatternSet, Text, image};
use crate::hyperscan::ScanSpace;

/// A pattern set compiled for the CPU; shared by threads, each with a [`Scratch`] of its own.
#[derive(Debug)]
pub struct Dfa {
    image: Image,
    /// The class map, the table's place and so on, read from the image once.
    classes: [u8; 256],
    header: image::Header,
    verifier: Verifier,
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
        let image = Image::build(set)?;
        let header = image.header();
        let verifier = Verifier::new(set, header.flags & image::FOLDS != 0);
        Ok(Self { classes: image.class_map(), header, verifier, image })
    }

    /// The image, for a GPU.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Bytes that it takes.
    pub fn memory(&self) -> usize {
        4 * self.image.words().len() + self.verifier.memory()
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
        let mut each = Each::new(told, self.header.rule_count, tell);
        self.walk(text, missed, &mut each);
    }

    fn walk(&self, text: Text<'_>, missed: &mut Missed, sink: &mut impl Sink) {
        if text.bytes.len() < self.header.shortest {
            return;
        }
        let mark = missed.mark(0);
        let rows = self.rows();
        let mut state = 0;
        for (index, &byte) in text.bytes.iter().enumerate() {
            let class = u32::from(self.classes[usize::from(byte)]);
            // Every transition leads into the table.
            state = rows.get((state + class) as usize).copied().unwrap_or(0);
            if state >= self.header.output_from {
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
        let rows = self.rows();
        for (index, &byte) in bytes.iter().enumerate() {
            let class = u32::from(self.classes[usize::from(byte)]);
            *state = rows.get((*state + class) as usize).copied().unwrap_or(0);
            if *state >= self.header.output_from {
                let entries = self.output(*state).iter();
                entries.for_each(|&[rule, _]| tell(rule, index + 1));
            }
        }
    }

    /// The transition table.
    fn rows(&self) -> &[u32] {
        let header = &self.header;
        &self.image.words()[header.rows..][..header.states * header.stride]
    }

    /// The output list of a state that has one.
    fn output(&self, state: u32) -> &[[u32; 2]] {
        let words = self.image.words();
        let list = words[self.header.rows + state as usize + self.header.classes] as usize;
        words[list + 1..][..2 * words[list] as usize].as_chunks().0
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
        for &[rule, trigger] in self.output(state) {
            if rule >= sink.below() {
                return;
            }
            if sink.wants(rule)
                && (trigger == image::CERTAIN
                    || self.verifier.alerts(rule, text, end, missed, mark))
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
