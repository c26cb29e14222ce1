//! Running a decision program on packets.
//!
//! A [`Matcher`] holds a program twice: in a flat form for packets that have every byte the
//! program looks at, which is nearly all, and in a form for the others that asks at every step
//! whether the bytes are there.

use super::decision::Program;
use super::grouped::{Group, Grouped};
use super::insn::{Insn, Jump, Test};
use super::layout::{Layout, NETWORK, TRANSPORT};

/// What classification answers when a packet leaves on no output.
pub const DROP: usize = usize::MAX;

/// An executable program over packets of `N` sections: one, the whole packet ([`Layout::Flat`]),
/// or three, what begins with the MAC, the network and the transport header ([`Layout::Ip`]).
///
/// Each section runs to the end of the packet; one that the packet has not is empty.
#[derive(Clone, Debug)]
pub struct Matcher<const N: usize> {
    /// Lengths of the sections from which on no length is asked for.
    enough: [usize; N],
    /// Where everything goes when there are no steps.
    constant: usize,
    steps: Box<[Step]>,
    /// The values of the steps that have several, sorted.
    sets: Box<[Box<[u32]>]>,
    careful: Box<[CarefulStep]>,
}

/// A test of a word. Words are as the machine loads them.
#[derive(Clone, Copy, Debug)]
struct Step {
    mask: u32,
    /// The value, or the number of the set of values.
    value: u32,
    next: [Next; 2],
    start: u16,
    section: u8,
    has_set: bool,
}

/// A test of a word that can be missing in whole or part. Words are in network order.
#[derive(Clone, Copy, Debug)]
struct CarefulStep {
    mask: u32,
    value: u32,
    next: [Next; 2],
    start: u16,
    section: u8,
    /// How many bytes of the word must be there.
    needs: u8,
    short: bool,
}

/// A step by its number, or an output with the highest bit set.
#[derive(Clone, Copy, Debug)]
struct Next(u32);

impl Next {
    const END: u32 = 1 << 31;
    const DROP: u32 = u32::MAX;

    fn new(jump: Jump) -> Self {
        match jump {
            Jump::Step(step) => Next(step & !Self::END),
            Jump::Output(port) => Next(port | Self::END),
            Jump::Drop | Jump::Failure | Jump::Success => Next(Self::DROP),
        }
    }

    /// The number of the next step, if there is one.
    #[inline(always)]
    fn step(self) -> Option<usize> {
        (self.0 & Self::END == 0).then_some(self.0 as usize)
    }

    /// The output, if there is no next step.
    #[inline(always)]
    fn output(self) -> usize {
        if self.0 == Self::DROP { DROP } else { (self.0 & !Self::END) as usize }
    }
}

impl<const N: usize> Matcher<N> {
    /// Prepares a program to run: `program` for packets that have all the bytes that `original`
    /// tests, `exact` for the others. The three must agree on the former.
    pub(super) fn for_programs(program: &Program, exact: &Program, original: &[Insn]) -> Self {
        let grouped = Grouped::new(program);
        let place = |test: &Test| Place::new(test, program.layout(), program.align_offset());
        let mut enough = [0; N];
        let mut require = |place: &Place, bytes: u8| {
            if let Some(enough) = enough.get_mut(usize::from(place.section)) {
                *enough = (*enough).max(usize::from(place.start) + usize::from(bytes));
            }
        };
        // Where the programs are the same, what they were made of does not matter.
        if program != exact {
            for insn in original {
                let place = place(&insn.test);
                require(&place, place.needs);
            }
        }
        let mut steps = Vec::new();
        let mut sets = Vec::new();
        for group in grouped.groups() {
            let place = place(&group.insn.test);
            require(&place, 4);
            steps.push(Step::new(group, &place, &mut sets));
        }
        let careful = exact.insns().iter().map(|insn| CarefulStep::new(insn, &place(&insn.test)));
        Self {
            enough,
            constant: grouped.constant().map_or(DROP, |jump| Next::new(jump).output()),
            steps: steps.into_boxed_slice(),
            sets: sets.into_boxed_slice(),
            careful: careful.collect(),
        }
    }

    /// The output for a packet, or [`DROP`].
    #[inline]
    pub fn classify(&self, sections: [&[u8]; N]) -> usize {
        let mut lengths = sections.iter().zip(&self.enough);
        if lengths.any(|(bytes, &enough)| bytes.len() < enough) {
            return self.classify_short(sections);
        }
        let mut at = 0;
        // Jumps lead forward, so that this ends.
        while let Some(step) = self.steps.get(at) {
            let section = if N == 1 { 0 } else { usize::from(step.section) };
            let Some(word) = sections.get(section).and_then(|bytes| load(bytes, step.start)) else {
                // Out of the question: the lengths have been checked.
                return self.classify_short(sections);
            };
            let next = step.next[usize::from(self.accepts(step, word))];
            match next.step() {
                Some(step) => at = step,
                None => return next.output(),
            }
        }
        self.constant
    }

    #[inline(always)]
    fn accepts(&self, step: &Step, word: u32) -> bool {
        let word = word & step.mask;
        if !step.has_set {
            return word == step.value;
        }
        self.sets.get(step.value as usize).is_some_and(|set| set.binary_search(&word).is_ok())
    }

    /// The output for a packet that need not have all the bytes that are tested.
    #[cold]
    #[inline(never)]
    fn classify_short(&self, sections: [&[u8]; N]) -> usize {
        let mut at = 0;
        while let Some(step) = self.careful.get(at) {
            let bytes = sections.get(usize::from(step.section)).copied().unwrap_or_default();
            let yes = match load_part(bytes, step.start, step.needs) {
                Some(word) => word & step.mask == step.value,
                None => step.short,
            };
            let next = step.next[usize::from(yes)];
            match next.step() {
                Some(step) => at = step,
                None => return next.output(),
            }
        }
        self.constant
    }
}

impl Step {
    fn new(group: &Group, place: &Place, sets: &mut Vec<Box<[u32]>>) -> Self {
        let has_set = group.values.len() > 1;
        let value = if has_set {
            let shifted = group.values.iter().map(|&value| as_loaded(place.shifted(value)));
            let mut values: Box<[u32]> = shifted.collect();
            values.sort_unstable();
            sets.push(values);
            // There are fewer sets than instructions.
            sets.len() as u32 - 1
        } else {
            as_loaded(place.test.value)
        };
        Self {
            mask: as_loaded(place.test.mask),
            value,
            next: group.insn.jump.map(Next::new),
            start: place.start,
            section: place.section,
            has_set,
        }
    }
}

impl CarefulStep {
    fn new(insn: &Insn, place: &Place) -> Self {
        Self {
            mask: place.test.mask,
            value: place.test.value,
            next: insn.jump.map(Next::new),
            start: place.start,
            section: place.section,
            needs: place.needs,
            short: insn.short,
        }
    }
}

/// Where in a packet a test looks.
struct Place {
    section: u8,
    start: u16,
    /// How many bytes from `start` on must be there.
    needs: u8,
    /// By how many bits words are shifted so that they begin at `start`.
    shift: u32,
    /// The test of the word at `start`.
    test: Test,
}

impl Place {
    fn new(test: &Test, layout: Layout, align_offset: u16) -> Self {
        let section = layout.section(test.offset);
        let before = match (layout, section) {
            (Layout::Flat, _) => align_offset,
            // The MAC header begins two bytes into its section.
            (Layout::Ip, 0) => 2,
            (Layout::Ip, 1) => NETWORK,
            (Layout::Ip, _) => TRANSPORT,
        };
        // A word that begins before its section is exchanged for the one at its start; what it
        // has before the section does not count.
        let shift = 8 * u32::from(before.saturating_sub(test.offset));
        let mut place = Place {
            section: section as u8,
            start: test.offset.saturating_sub(before),
            needs: 0,
            shift,
            test: *test,
        };
        place.test = Test::new(0, place.shifted(test.value), place.shifted(test.mask));
        place.needs = place.test.required_length() as u8;
        place
    }

    fn shifted(&self, word: u32) -> u32 {
        word.checked_shl(self.shift).unwrap_or(0)
    }
}

/// A word in network order as the machine would load it.
fn as_loaded(word: u32) -> u32 {
    u32::from_ne_bytes(word.to_be_bytes())
}

#[inline(always)]
fn load(bytes: &[u8], start: u16) -> Option<u32> {
    let start = usize::from(start);
    let word = bytes.get(start..start + 4)?.first_chunk()?;
    Some(u32::from_ne_bytes(*word))
}

/// The word at `start`, in network order, if `needs` bytes of it are there; the others are 0 where
/// they are not.
#[inline(always)]
fn load_part(bytes: &[u8], start: u16, needs: u8) -> Option<u32> {
    let rest = bytes.get(usize::from(start)..).unwrap_or_default();
    if let Some(word) = rest.first_chunk() {
        return Some(u32::from_be_bytes(*word));
    }
    if rest.len() < usize::from(needs) {
        return None;
    }
    let mut word = [0; 4];
    for (to, from) in word.iter_mut().zip(rest) {
        *to = *from;
    }
    Some(u32::from_be_bytes(word))
}
