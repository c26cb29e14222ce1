//! Running a program on packets that may lack bytes that it tests.

use super::insn::Insn;
use super::next::Next;
use super::place::{Place, load_part};

/// An executable program that checks at every step whether the bytes are present.
#[derive(Clone, Debug)]
pub(super) struct Careful {
    steps: Box<[Step]>,
}

/// A test of a word that may be missing in whole or part. Words are in network order.
#[derive(Clone, Copy, Debug)]
struct Step {
    mask: u32,
    value: u32,
    next: [Next; 2],
    start: u16,
    section: u8,
    /// How many bytes of the word must be present.
    needs: u8,
    short: bool,
}

impl Careful {
    pub(super) fn new(insns: &[Insn], place: impl Fn(&Insn) -> Place) -> Self {
        let step = |insn: &Insn| {
            let place = place(insn);
            Step {
                mask: place.test.mask,
                value: place.test.value,
                next: insn.jump.map(Next::new),
                start: place.start,
                section: place.section,
                needs: place.needs,
                short: insn.short,
            }
        };
        Self { steps: insns.iter().map(step).collect() }
    }

    /// Runs the steps from `first` up to, but not including, `end`: returns the output, or `None` if they lead to `end`
    /// or beyond.
    #[inline]
    pub(super) fn run<const N: usize>(
        &self,
        first: usize,
        end: usize,
        sections: &[&[u8]; N],
    ) -> Option<usize> {
        let steps = self.steps.get(..end).unwrap_or(&self.steps);
        let mut at = first;
        // Jumps lead forward, so the loop ends.
        while let Some(step) = steps.get(at) {
            let bytes = sections.get(usize::from(step.section)).copied().unwrap_or_default();
            let yes = match load_part(bytes, step.start, step.needs) {
                Some(word) => word & step.mask == step.value,
                None => step.short,
            };
            let next = step.next[usize::from(yes)];
            match next.step() {
                Some(step) => at = step,
                None => return Some(next.output()),
            }
        }
        None
    }

    /// The number of steps.
    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// The size of the steps in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.steps)
    }
}
