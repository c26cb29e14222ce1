//! Searches eight texts side by side.
//!
//! Texts are processed in blocks of sixteen bytes. The last block of a text is padded with zeros, and matches in the
//! padding are ignored. A lane whose text ends takes the next one.

use super::sieve::Trust;
use super::{Dfa, LANES, Lowest, Mark, Missed, STRETCH, Sink, Text};
use crate::patterns::Kind;

/// Bytes of a block. With eight, texts of pattern prefixes take twice as long.
const BLOCK: usize = 16;
/// If fewer texts than this are left, they are searched one by one.
const FEW: usize = 3;

/// The position of the search in one text.
struct Lane<'a> {
    text: Text<'a>,
    /// The index of its result; `None` if no text was left for the lane.
    index: Option<usize>,
    /// The next byte.
    at: usize,
    mark: Mark,
    lowest: Lowest,
}

impl Dfa {
    pub(super) fn lockstep(
        &self,
        texts: &[Text<'_>],
        results: &mut [u32],
        missed: &mut Missed,
        trust: &mut Trust,
    ) {
        results.fill(0);
        let shortest = self.shortest.max(1);
        let long = texts.iter().enumerate().filter(|(_, text)| text.bytes.len() >= shortest);
        let mut waiting = long.map(|(index, &text)| (index, text));
        // Takes the next text that must be searched, and the position from which on.
        let mut next = |number: usize, missed: &mut Missed, trust: &mut Trust| {
            let found = waiting.find_map(|(index, text)| {
                let at = trust.find(self.sieve.as_ref(), text.bytes, 0)?;
                Some((index, text, at))
            });
            Lane::of(found, number, missed)
        };
        let mut lanes: [Lane<'_>; LANES] =
            std::array::from_fn(|number| next(number, missed, trust));
        let mut states = [0; LANES];
        loop {
            let busy = || lanes.iter().filter(|lane| lane.index.is_some());
            let count = busy().count();
            if count < FEW {
                break;
            }
            let mut rounds = busy().map(Lane::blocks).min().unwrap_or(0);
            if self.sieve.is_some() && trust.is_there() {
                rounds = rounds.min(STRETCH / BLOCK);
            }
            for _ in 0..rounds {
                self.round(&mut lanes, &mut states, missed);
            }
            trust.walk(count * rounds * BLOCK);
            for (number, (lane, state)) in lanes.iter_mut().zip(&mut states).enumerate() {
                if lane.index.is_some() && !self.goes_on(lane, state, trust) {
                    lane.tell(results);
                    *lane = next(number, missed, trust);
                    *state = 0;
                }
            }
        }
        for (lane, state) in lanes.iter_mut().zip(states) {
            if lane.index.is_some() {
                let Lane { text, at, mark, ref mut lowest, .. } = *lane;
                self.walk_on(text, (state, at), missed, mark, trust, lowest);
                lane.tell(results);
            }
        }
    }

    /// True if more of a lane's text must be searched. Passes over bytes that need no search.
    fn goes_on(&self, lane: &mut Lane<'_>, state: &mut u32, trust: &mut Trust) -> bool {
        if lane.blocks() > 0 && self.sieve.is_some() && self.table.is_beginning(*state) {
            let end = lane.text.bytes.len();
            lane.at = trust.find(self.sieve.as_ref(), lane.text.bytes, lane.at).unwrap_or(end);
        }
        lane.blocks() > 0
    }

    /// Processes a block of each lane.
    #[inline]
    fn round(&self, lanes: &mut [Lane<'_>; LANES], states: &mut [u32; LANES], missed: &mut Missed) {
        let blocks: [[u8; BLOCK]; LANES] = std::array::from_fn(|lane| lanes[lane].block());
        match self.table.advance(&self.classes, states, &blocks) {
            Some(after) => *states = after,
            None => self.slowly(lanes, states, &blocks, missed),
        }
        for lane in lanes {
            lane.at += BLOCK;
        }
    }

    /// Processes the blocks of a round that contains a state with output.
    #[cold]
    #[inline(never)]
    fn slowly(
        &self,
        lanes: &mut [Lane<'_>; LANES],
        states: &mut [u32; LANES],
        blocks: &[[u8; BLOCK]; LANES],
        missed: &mut Missed,
    ) {
        for step in 0..BLOCK {
            for ((state, block), lane) in states.iter_mut().zip(blocks).zip(&mut *lanes) {
                *state = self.next(*state, block[step]);
                self.check(*state, lane, step, missed);
            }
        }
    }

    #[inline(always)]
    fn check(&self, state: u32, lane: &mut Lane<'_>, step: usize, missed: &mut Missed) {
        if self.table.has_output(state) {
            self.lane_hit(state, lane, step, missed);
        }
    }

    #[cold]
    #[inline(never)]
    fn lane_hit(&self, state: u32, lane: &mut Lane<'_>, step: usize, missed: &mut Missed) {
        let end = lane.at + step + 1;
        if lane.lowest.below() > 0 && end <= lane.text.bytes.len() {
            self.hit(state, lane.text, end, missed, lane.mark, &mut lane.lowest);
        }
    }
}

impl<'a> Lane<'a> {
    fn of(text: Option<(usize, Text<'a>, usize)>, lane: usize, missed: &mut Missed) -> Self {
        let (index, text, at) = match text {
            Some((index, text, at)) => (Some(index), text, at),
            None => (None, Text { bytes: &[], kind: Kind::Other }, 0),
        };
        Self { text, index, at, mark: missed.mark(lane), lowest: Lowest::default() }
    }

    /// The number of blocks of the text that are left.
    fn blocks(&self) -> usize {
        self.text.bytes.len().saturating_sub(self.at).div_ceil(BLOCK)
    }

    /// The next block.
    #[inline]
    fn block(&self) -> [u8; BLOCK] {
        let left = self.text.bytes.get(self.at..).unwrap_or(&[]);
        left.first_chunk().copied().unwrap_or_else(|| {
            let mut block = [0; BLOCK];
            block[..left.len()].copy_from_slice(left);
            block
        })
    }

    fn tell(&self, results: &mut [u32]) {
        if let Some(result) = self.index.and_then(|index| results.get_mut(index)) {
            *result = self.lowest.result();
        }
    }
}
