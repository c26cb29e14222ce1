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
        if wanted.len() < 2 {
            return wanted;
        }
        let few = cover(&wanted, free);
        let is_all = wanted.len() == self.outputs as usize;
        if is_all && few.len() > self.bits as usize { self.any().collect() } else { few }
    }

    /// Conditions of which one holds for any output: some bit is set and the next one, round the corner, is not.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_field_has_a_value_for_everything() {
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
    fn all_outputs_of_many_need_few_conditions() {
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
        fn both_is_both(one in (0..16u32, 0..16u32), other in (0..16u32, 0..16u32)) {
            let [one, other] = [one, other].map(|(mask, value)| Condition { mask, value: value & mask });
            for word in 0..16 {
                let holds = both(one, other).is_some_and(|both| both.holds(word));
                prop_assert_eq!(holds, one.holds(word) && other.holds(word));
            }
        }
    }
}
