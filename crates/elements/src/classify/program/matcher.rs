//! Running a decision program on packets.
//!
//! A [`Matcher`] holds a program in up to three forms: a flat one for packets that have every byte the program tests,
//! which is nearly all; one for the others that checks at every step whether the bytes are present ([`Careful`]); and,
//! if it is small, one for many packets at once ([`Lanes`]).

use super::careful::Careful;
use super::decision::Program;
use super::grouped::{Group, Grouped};
use super::insn::{Insn, Jump};
use super::lanes::Lanes;
use super::next::{DROP, Next, Otherwise};
use super::place::{Place, as_loaded, load};

/// An executable program over packets of `N` sections: one, the whole packet ([`Layout::Flat`](super::Layout::Flat)),
/// or three, which begin with the MAC, the network and the transport header ([`Layout::Ip`](super::Layout::Ip)).
///
/// Each section runs to the end of the packet; one that the packet does not have is empty.
#[derive(Clone, Debug)]
pub struct Matcher<const N: usize> {
    /// Section lengths that are enough for all tests.
    enough: [usize; N],
    /// The output for all packets when there are no steps.
    constant: usize,
    /// The same for packets that may lack bytes, whose program may have no steps though the other one has.
    constant_short: usize,
    steps: Box<[Step]>,
    /// The values of the steps that have several, sorted.
    sets: Box<[Box<[u32]>]>,
    careful: Careful,
    lanes: Option<Lanes>,
}

/// A program of one test of one word, as many classifiers are: one branch per packet and no loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Single {
    /// The offset of the word; a packet that has it has enough bytes.
    start: u16,
    mask: u32,
    value: u32,
    /// The outputs when it fails and when it holds; `u16::MAX` for [`DROP`].
    outputs: [u16; 2],
}

impl Single {
    /// The output for a packet, if it has the word.
    #[inline(always)]
    pub(super) fn classify(&self, data: &[u8]) -> Option<u16> {
        let start = usize::from(self.start);
        let word = u32::from_ne_bytes(*data.get(start..start + 4)?.first_chunk()?);
        let holds = word & self.mask == self.value;
        Some(self.outputs[usize::from(holds)])
    }
}

/// An output in 16 bits; `u16::MAX` for [`DROP`], and for outputs that no element has.
#[inline(always)]
fn narrow(output: usize) -> u16 {
    output.min(usize::from(u16::MAX)) as u16
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

impl<const N: usize> Matcher<N> {
    /// Prepares a program to run: `program` for packets that have all the bytes that `original` tests, `exact` for the
    /// others. All three must agree on the former.
    pub(super) fn for_programs(program: &Program, exact: &Program, original: &[Insn]) -> Self {
        let grouped = Grouped::new(program);
        let place = |insn: &Insn| Place::new(&insn.test, program.layout(), program.align_offset());
        let mut enough = [0; N];
        let mut require = |place: &Place, bytes: u8| {
            if let Some(enough) = enough.get_mut(usize::from(place.section)) {
                *enough = (*enough).max(usize::from(place.start) + usize::from(bytes));
            }
        };
        // If the programs are the same, their origin does not matter.
        if program != exact {
            for insn in original {
                let place = place(insn);
                require(&place, place.needs);
            }
        }
        let output =
            |constant: Option<Jump>| constant.map_or(DROP, |jump| Next::new(jump).output());
        let mut steps = Vec::new();
        let mut sets = Vec::new();
        for group in grouped.groups() {
            let place = place(&group.insn);
            require(&place, 4);
            steps.push(Step::new(group, &place, &mut sets));
        }
        Self {
            enough,
            constant: output(grouped.constant()),
            constant_short: output(exact.constant()),
            steps: steps.into_boxed_slice(),
            sets: sets.into_boxed_slice(),
            careful: Careful::new(exact.insns(), place),
            lanes: Lanes::new(program.insns(), place),
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
        // Jumps lead forward, so the loop ends.
        while let Some(step) = self.steps.get(at) {
            let section = if N == 1 { 0 } else { usize::from(step.section) };
            let Some(word) = sections.get(section).and_then(|bytes| load(bytes, step.start)) else {
                // Unreachable: the lengths have been checked.
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

    /// Whether the program is small enough to run on many packets at once, or empty.
    pub(super) fn is_small(&self) -> bool {
        self.lanes.is_some() || self.steps.is_empty()
    }

    /// The output for a packet of one section that has all tested bytes, `u16::MAX` for [`DROP`], if all tests are of
    /// single values; else `None`. Calls no function.
    #[inline(always)]
    pub(super) fn classify_at_once(&self, data: &[u8]) -> Option<u16> {
        if self.enough.iter().any(|&enough| data.len() < enough) {
            return None;
        }
        let mut step = self.steps.first()?;
        // Jumps lead forward, so the loop ends.
        loop {
            let word = load(data, step.start)?;
            if step.has_set {
                return None;
            }
            let next = step.next[usize::from(word & step.mask == step.value)];
            match next.step() {
                Some(at) => step = self.steps.get(at)?,
                None => return Some(narrow(next.output())),
            }
        }
    }

    /// Writes the port of each packet. `sections` returns those of a packet.
    #[inline(always)]
    pub fn classify_all<'a, P>(
        &self,
        packets: &'a [P],
        sections: impl Fn(&'a P) -> Option<[&'a [u8]; N]>,
        otherwise: Otherwise,
        ports: &mut [u16],
    ) {
        if let Some(lanes) = &self.lanes {
            let short = |sections| self.classify_short(sections);
            lanes.classify(packets, sections, &self.enough, short, otherwise, ports);
            return;
        }
        for (packet, port) in packets.iter().zip(ports) {
            *port = match sections(packet) {
                Some(sections) => otherwise.port(self.classify(sections)),
                None => otherwise.no_sections,
            };
        }
    }

    /// The program, if it is one test of the packet.
    pub(super) fn single(&self) -> Option<Single> {
        let [step] = &*self.steps else { return None };
        let ends = step.next.iter().all(|next| next.step().is_none());
        let start = usize::from(step.start);
        let enough = self.enough.iter().all(|&enough| enough <= start + size_of::<u32>());
        (N == 1 && ends && enough && !step.has_set).then(|| Single {
            start: step.start,
            mask: step.mask,
            value: step.value,
            outputs: step.next.map(|next| narrow(next.output())),
        })
    }

    /// The size of the program's forms in bytes.
    pub(super) fn bytes(&self) -> usize {
        let sets = self.sets.iter().map(|set| size_of_val(set) + size_of_val(&**set));
        size_of_val(&*self.steps) + sets.sum::<usize>() + self.careful.bytes()
    }

    #[inline(always)]
    fn accepts(&self, step: &Step, word: u32) -> bool {
        let word = word & step.mask;
        if !step.has_set {
            return word == step.value;
        }
        self.sets.get(step.value as usize).is_some_and(|set| set.binary_search(&word).is_ok())
    }

    /// The output for a packet that may lack bytes that are tested.
    #[cold]
    #[inline(never)]
    fn classify_short(&self, sections: [&[u8]; N]) -> usize {
        self.careful.run(0, self.careful.len(), &sections).unwrap_or(self.constant_short)
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
