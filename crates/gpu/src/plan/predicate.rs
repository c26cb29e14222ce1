//! Predicates: which rows a launch treats.
//!
//! Which rows come to a stage is a set of conditions of which one must hold, each a mask and a value for the predicate word.
//! Sets are kept small by the method of Quine and McCluskey: conditions that differ in one bit merge.

use std::collections::BTreeSet;

use crate::kernel::Condition;

/// A stage's bits of the predicate word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The lowest bit.
    pub shift: u32,
    /// How many bits there are.
    pub bits: u32,
    /// How many outputs the stage has.
    pub outputs: u32,
}

/// What a stage decided about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Nothing: it did not treat the packet.
    Open,
    /// The output that the packet takes.
    Output(u32),
    /// The packet is to be dropped.
    Drop,
}

impl Field {
    /// Most outputs of a stage that decides.
    pub const MAX_OUTPUTS: u32 = 1022;

    /// The field above `shift` for so many outputs: one value for each, one for none yet and one to drop.
    pub(super) fn above(shift: u32, outputs: u32) -> Self {
        let bits = u32::BITS - (outputs + 1).leading_zeros();
        Self { shift, bits, outputs }
    }

    /// The field's bits.
    pub const fn mask(self) -> u32 {
        (1u32 << self.bits).wrapping_sub(1).wrapping_shl(self.shift)
    }

    /// What the field holds for a decision.
    pub const fn value(self, decision: Decision) -> u32 {
        match decision {
            Decision::Open => 0,
            Decision::Output(output) => (output + 1) << self.shift & self.mask(),
            Decision::Drop => self.mask(),
        }
    }

    /// What a predicate word says of the stage's decision.
    pub const fn decision(self, predicate: u32) -> Decision {
        let field = predicate & self.mask();
        match field >> self.shift {
            0 => Decision::Open,
            _ if field == self.mask() => Decision::Drop,
            value => Decision::Output(value - 1),
        }
    }

    /// The condition that the field says so.
    pub const fn is(self, decision: Decision) -> Condition {
        Condition { mask: self.mask(), value: self.value(decision) }
    }

    /// Conditions that hold for these outputs and for nothing else that the field can hold.
    pub(super) fn any_of(self, outputs: &BTreeSet<u32>) -> Vec<Condition> {
        let wanted: Vec<_> =
            outputs.iter().map(|&output| self.is(Decision::Output(output))).collect();
        // Values that no decision has may go either way.
        let unused = (self.outputs + 1)..(1u32 << self.bits) - 1;
        let free = unused.map(|value| self.is(Decision::Output(value - 1)));
        if wanted.len() < 2 { wanted } else { cover(&wanted, free) }
    }
}

/// The condition that holds always.
pub(super) const ALWAYS: Condition = Condition { mask: 0, value: 0 };

impl Condition {
    /// Whether a predicate word satisfies it.
    #[inline]
    pub const fn holds(self, predicate: u32) -> bool {
        predicate & self.mask == self.value
    }

    /// Whether it holds wherever the other does.
    const fn covers(self, other: Self) -> bool {
        self.mask & !other.mask == 0 && other.value & self.mask == self.value
    }
}

/// Both conditions; none when they contradict each other.
pub(super) fn both(one: Condition, other: Condition) -> Option<Condition> {
    let common = one.mask & other.mask;
    (one.value & common == other.value & common)
        .then_some(Condition { mask: one.mask | other.mask, value: one.value | other.value })
}

/// Fewer conditions with the same meaning.
pub(super) fn simplified(conditions: &[Condition]) -> Vec<Condition> {
    cover(conditions, std::iter::empty())
}

/// Few conditions that hold where the wanted ones do, and else at most where the free ones do.
fn cover(wanted: &[Condition], free: impl Iterator<Item = Condition>) -> Vec<Condition> {
    let cubes = merges(wanted.iter().copied().chain(free));
    let mut left: Vec<Condition> = wanted.to_vec();
    let mut chosen = Vec::new();
    // Greedy: the cube that covers most of what is left; of equal ones, the one with fewest bits to look at.
    while let Some(best) = cubes.iter().copied().max_by_key(|cube| {
        let covered = left.iter().filter(|&&condition| cube.covers(condition)).count();
        (covered, u32::BITS - cube.mask.count_ones())
    }) {
        let before = left.len();
        left.retain(|&condition| !best.covers(condition));
        if left.len() == before {
            break;
        }
        chosen.push(best);
    }
    chosen
}

/// What comes of merging conditions that differ in one bit, until none can be merged any more.
fn merges(conditions: impl Iterator<Item = Condition>) -> Vec<Condition> {
    let mut all: BTreeSet<(u32, u32)> = conditions.map(|c| (c.mask, c.value)).collect();
    let mut fresh: Vec<(u32, u32)> = all.iter().copied().collect();
    let mut merged = BTreeSet::new();
    while let Some((mask, value)) = fresh.pop() {
        for bit in (0..u32::BITS).map(|bit| 1u32 << bit).filter(|bit| mask & bit != 0) {
            if !all.contains(&(mask, value ^ bit)) {
                continue;
            }
            merged.extend([(mask, value), (mask, value ^ bit)]);
            let shorter = (mask & !bit, value & !bit);
            if all.insert(shorter) {
                fresh.push(shorter);
            }
        }
    }
    all.difference(&merged).map(|&(mask, value)| Condition { mask, value }).collect()
}
