//! Predicates: which rows a launch processes.
//!
//! The rows that arrive at a stage are described by a set of conditions, of which one must hold. Each is a mask and a
//! value for the predicate word. The method of Quine and McCluskey keeps the sets small: it merges conditions that
//! differ in one bit.

use std::collections::BTreeSet;

use crate::kernel::Condition;

/// A stage's bits of the predicate word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The lowest bit.
    pub shift: u32,
    /// The number of bits.
    pub bits: u32,
    /// The number of the stage's outputs.
    pub outputs: u32,
}

/// What a stage decided about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// None: the stage did not process the packet.
    Open,
    /// The output that the packet takes.
    Output(u32),
    /// The packet is dropped.
    Drop,
}

impl Field {
    /// Maximum number of outputs of a stage that chooses.
    pub const MAX_OUTPUTS: u32 = 1022;

    /// The field from bit `shift` on for this number of outputs. It has one value per output, one for no decision,
    /// and one for a drop.
    pub(super) fn above(shift: u32, outputs: u32) -> Self {
        let bits = u32::BITS - (outputs + 1).leading_zeros();
        Self { shift, bits, outputs }
    }

    /// The field's bits.
    pub const fn mask(self) -> u32 {
        (1u32 << self.bits).wrapping_sub(1).wrapping_shl(self.shift)
    }

    /// The value of the field for a decision.
    pub const fn value(self, decision: Decision) -> u32 {
        match decision {
            Decision::Open => 0,
            Decision::Output(output) => (output + 1) << self.shift & self.mask(),
            Decision::Drop => self.mask(),
        }
    }

    /// The stage's decision in a predicate word.
    pub const fn decision(self, predicate: u32) -> Decision {
        let field = predicate & self.mask();
        match field >> self.shift {
            0 => Decision::Open,
            _ if field == self.mask() => Decision::Drop,
            value => Decision::Output(value - 1),
        }
    }

    /// The condition that the field contains this decision.
    pub const fn is(self, decision: Decision) -> Condition {
        Condition { mask: self.mask(), value: self.value(decision) }
    }

    /// Conditions that hold for these outputs, and for no other decision.
    pub(super) fn any_of(self, outputs: &BTreeSet<u32>) -> Vec<Condition> {
        let wanted: Vec<_> =
            outputs.iter().map(|&output| self.is(Decision::Output(output))).collect();
        // Values that stand for no decision may be included or not.
        let unused = (self.outputs + 1)..(1u32 << self.bits) - 1;
        let free = unused.map(|value| self.is(Decision::Output(value - 1)));
        if wanted.len() < 2 {
            return wanted;
        }
        let few = cover(&wanted, free);
        let is_all = wanted.len() == self.outputs as usize;
        if is_all && few.len() > self.bits as usize { self.any().collect() } else { few }
    }

    /// Conditions of which one holds for any output: a bit is set and the next one, cyclically, is not.
    fn any(self) -> impl Iterator<Item = Condition> {
        (0..self.bits).map(move |bit| {
            let set = 1 << (self.shift + bit);
            let clear = 1 << (self.shift + (bit + 1) % self.bits);
            Condition { mask: set | clear, value: set }
        })
    }
}

/// The condition that holds always.
pub(super) const ALWAYS: Condition = Condition { mask: 0, value: 0 };

impl Condition {
    /// True if a predicate word satisfies it.
    #[inline]
    pub const fn holds(self, predicate: u32) -> bool {
        predicate & self.mask == self.value
    }

    /// True if it holds wherever the other one holds.
    const fn covers(self, other: Self) -> bool {
        self.mask & !other.mask == 0 && other.value & self.mask == self.value
    }
}

/// The conjunction of two conditions; `None` if they contradict each other.
pub(super) fn both(one: Condition, other: Condition) -> Option<Condition> {
    let common = one.mask & other.mask;
    (one.value & common == other.value & common)
        .then_some(Condition { mask: one.mask | other.mask, value: one.value | other.value })
}

/// Fewer conditions with the same meaning.
pub(super) fn simplified(conditions: &[Condition]) -> Vec<Condition> {
    cover(conditions, std::iter::empty())
}

/// A small set of conditions that holds wherever `wanted` holds, and otherwise at most where `free` holds.
fn cover(wanted: &[Condition], free: impl Iterator<Item = Condition>) -> Vec<Condition> {
    let cubes = merges(wanted.iter().copied().chain(free));
    let mut left: Vec<Condition> = wanted.to_vec();
    let mut chosen = Vec::new();
    // Greedy: takes the cube that covers most of the rest; among equals, the one with the smallest mask.
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

/// All conditions that result from merging conditions that differ in one bit, until none can be merged.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_field_has_a_value_for_each_decision() {
        for outputs in (1..=64).chain([254, 255, 1022]) {
            let field = Field::above(5, outputs);
            let decisions =
                (0..outputs).map(Decision::Output).chain([Decision::Open, Decision::Drop]);
            for decision in decisions {
                let word = !field.mask() | field.value(decision);
                assert_eq!(field.decision(word), decision, "{outputs} outputs");
                assert!(field.is(decision).holds(word));
            }
        }
        assert_eq!((Field::above(0, 2).bits, Field::above(0, 3).bits), (2, 3));
    }

    #[test]
    fn the_set_of_all_outputs_needs_few_conditions() {
        for outputs in 1..=62 {
            let field = Field::above(0, outputs);
            let all = field.any_of(&(0..outputs).collect());
            assert!(all.len() <= field.bits as usize, "{outputs}: {all:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn conditions_hold_for_the_outputs_that_are_wanted(
            outputs in 1..40u32,
            shift in 0..20u32,
            wanted in any::<u64>(),
        ) {
            let field = Field::above(shift, outputs);
            let wanted: BTreeSet<u32> = (0..outputs).filter(|bit| wanted >> bit & 1 != 0).collect();
            let conditions = field.any_of(&wanted);
            for decision in (0..outputs).map(Decision::Output).chain([Decision::Open, Decision::Drop]) {
                let is_wanted = matches!(decision, Decision::Output(output) if wanted.contains(&output));
                let holds = conditions.iter().any(|condition| condition.holds(field.value(decision)));
                prop_assert_eq!(holds, is_wanted, "{:?} by {:?}", decision, conditions);
            }
        }

        #[test]
        fn simpler_conditions_mean_the_same(drawn in proptest::collection::vec((0..64u32, 0..64u32), 0..20)) {
            let drawn: Vec<_> = drawn.into_iter().map(|(mask, value)| Condition { mask, value: value & mask }).collect();
            let simple = simplified(&drawn);
            prop_assert!(simple.len() <= drawn.len());
            for word in 0..64 {
                let holds = |conditions: &[Condition]| conditions.iter().any(|one| one.holds(word));
                prop_assert_eq!(holds(&simple), holds(&drawn), "{} by {:?}", word, simple);
            }
        }

        #[test]
        fn both_conditions_hold_where_each_of_them_holds(one in (0..16u32, 0..16u32), other in (0..16u32, 0..16u32)) {
            let [one, other] = [one, other].map(|(mask, value)| Condition { mask, value: value & mask });
            for word in 0..16 {
                let holds = both(one, other).is_some_and(|both| both.holds(word));
                prop_assert_eq!(holds, one.holds(word) && other.holds(word));
            }
        }
    }
}
