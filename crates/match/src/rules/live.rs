//! Rules that change while packets are classified.
//!
//! Building the trees of 10,000 rules takes too long to be done for each change. So a removed rule gets a bit in a
//! list of removed rules, which a search checks when it has found a rule. Inserted rules have small trees of their
//! own: of two rules that are found, the earlier one decides. After [`LiveRules::MANY_CHANGES`], all trees should be
//! rebuilt in the background, while changes continue: [`LiveRules::renewed`] and [`LiveRules::moved_to`].
//!
//! A `LiveRules` is immutable. A change makes another one, which shares the trees. Threads that classify continue
//! with the old one, and never wait.

use std::sync::Arc;

use super::classifier::{BLOCK, Classifier, NONE};
use super::key::Key;
use super::rule::{Action, Rule, RuleSet};
use super::table::{Changes, DROP, table};

/// Rules, and their changes.
///
/// A rule is identified by its *place*, which is its present position in the order, or by its *number*, which it
/// keeps until the trees are rebuilt.
#[derive(Clone, Debug)]
pub struct LiveRules {
    trees: Classifier,
    /// The rules from which the trees were built; their numbers begin at 0.
    original: Arc<[Rule]>,
    /// The rules that were inserted since, with the following numbers. Those that were removed again are still here.
    later: Vec<Rule>,
    /// The numbers of the rules in their present order.
    order: Vec<u32>,
    /// A bit for each original rule that was removed.
    removed: Vec<u32>,
    added: Option<Added>,
    mask: [u32; Key::WORDS],
    changes: usize,
}

/// Trees of the inserted rules, in their order.
#[derive(Clone, Debug)]
struct Added {
    trees: Classifier,
    /// The number of each rule.
    numbers: Vec<u32>,
    /// The original rule before which each rule is.
    before: Vec<u32>,
}

/// There is no rule at this place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no rule {place}; the number of rules is {rules}")]
pub struct NoSuchRule {
    /// The requested place, from 0.
    pub place: usize,
    /// The number of rules.
    pub rules: usize,
}

impl LiveRules {
    /// The number of changes after which the trees should be rebuilt.
    pub const MANY_CHANGES: usize = 64;

    /// Builds the trees of rules.
    pub fn new(rules: RuleSet) -> Self {
        let count = rules.rules.len();
        Self {
            trees: Classifier::new(&rules),
            mask: rules.rules.iter().fold([0; Key::WORDS], add_mask),
            original: rules.rules.into(),
            later: Vec::new(),
            order: (0..count as u32).collect(),
            removed: Vec::new(),
            added: None,
            changes: 0,
        }
    }

    /// The number of rules.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// True if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The rules in their order.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.order.iter().filter_map(|number| self.rule(*number))
    }

    /// The numbers of the rules in their order.
    pub fn numbers(&self) -> &[u32] {
        &self.order
    }

    /// All numbers are below this one.
    pub fn numbers_end(&self) -> usize {
        self.original.len() + self.later.len()
    }

    /// The rule with a number.
    #[inline]
    pub fn rule(&self, number: u32) -> Option<&Rule> {
        let number = number as usize;
        let later = || self.later.get(number - self.original.len());
        self.original.get(number).or_else(later)
    }

    /// The action of the rule with this number.
    #[inline]
    pub fn action(&self, number: u32) -> Option<Action> {
        self.rule(number).map(|rule| rule.action)
    }

    /// The bits of a key that the rules examine, including the flags. Packets that are equal in these bits match the
    /// same rule.
    pub fn mask(&self) -> &[u32; Key::WORDS] {
        &self.mask
    }

    /// The maximum number of bytes that a search reads.
    pub fn bytes(&self) -> usize {
        self.trees.bytes() + self.added.as_ref().map_or(0, |added| added.trees.bytes())
    }

    /// The trees, of the original rules.
    pub fn trees(&self) -> &Classifier {
        &self.trees
    }

    /// For each key, finds the number of the first rule that matches it, or [`NONE`].
    #[inline(always)]
    pub fn classify(&self, keys: &[Key], found: &mut [u32]) {
        self.trees.classify_but(&self.removed, keys, found);
        if let Some(added) = &self.added {
            added.classify(keys, found);
        }
    }

    /// A copy with a rule inserted before the one at `place`, or after all.
    #[must_use]
    pub fn with(&self, place: usize, rule: Rule) -> Self {
        let mut live = self.clone();
        live.put(place, rule);
        live.gather_added();
        live
    }

    /// A copy without the rule at `place`.
    ///
    /// # Errors
    /// There is no such rule.
    pub fn without(&self, place: usize) -> Result<Self, NoSuchRule> {
        let mut live = self.clone();
        live.take(place)?;
        live.gather_added();
        Ok(live)
    }

    /// A copy with another rule at `place`.
    ///
    /// # Errors
    /// There is no such rule.
    pub fn replaced(&self, place: usize, rule: Rule) -> Result<Self, NoSuchRule> {
        let mut live = self.clone();
        live.take(place)?;
        live.put(place, rule);
        live.gather_added();
        Ok(live)
    }

    /// True if there are so many changes that the trees should be rebuilt.
    pub fn has_changed_much(&self) -> bool {
        self.changes >= Self::MANY_CHANGES
    }

    /// The same rules with rebuilt trees.
    #[must_use]
    pub fn renewed(&self) -> Self {
        Self::new(RuleSet { rules: self.rules().copied().collect() })
    }

    /// The rules of `self` in the trees of `renewed`, which was made from `before`, an earlier state of `self`.
    /// `None` if `self` does not come from `before` by changes.
    pub fn moved_to(&self, renewed: Self, before: &Self) -> Option<Self> {
        if !Arc::ptr_eq(&self.original, &before.original) {
            return None;
        }
        let mut places = vec![NONE; self.numbers_end()];
        for (place, number) in (0..).zip(&before.order) {
            *places.get_mut(*number as usize)? = place;
        }
        let mut moved = Self { order: Vec::with_capacity(self.order.len()), ..renewed };
        let count = moved.original.len();
        let mut is_left = vec![false; count];
        for number in &self.order {
            match is_left.get_mut(places[*number as usize] as usize) {
                Some(is_left) => {
                    *is_left = true;
                    moved.order.push(places[*number as usize]);
                }
                None => {
                    moved.order.push((count + moved.later.len()) as u32);
                    moved.later.push(*self.rule(*number)?);
                    moved.changes += 1;
                }
            }
        }
        for (number, _) in is_left.iter().enumerate().filter(|(_, is_left)| !**is_left) {
            moved.mark_removed(number);
            moved.changes += 1;
        }
        moved.mask = moved.later.iter().fold(moved.mask, add_mask);
        moved.gather_added();
        Some(moved)
    }

    /// Everything as one array of words, for a GPU: [`table`](super::table).
    ///
    /// `miss` is the action for packets without a matching rule; [`DROP`](super::DROP) drops them.
    pub fn table(&self, miss: u32) -> Vec<u32> {
        let action = |number: u32| match self.action(number) {
            Some(Action::Output(output)) => output.into(),
            _ => DROP,
        };
        let actions: Vec<u32> = (0..self.numbers_end() as u32).map(action).collect();
        let (numbers, before) = match &self.added {
            Some(added) => (&added.numbers[..], &added.before[..]),
            None => (&[][..], &[][..]),
        };
        let added = self.added.as_ref().map_or(&[][..], |added| added.trees.image().words());
        table(
            self.trees.image().words(),
            Changes { removed: &self.removed, added, numbers, before },
            &actions,
            miss,
        )
    }

    fn put(&mut self, place: usize, rule: Rule) {
        let number = self.numbers_end() as u32;
        self.order.insert(place.min(self.order.len()), number);
        self.mask = add_mask(self.mask, &rule);
        self.later.push(rule);
        self.changes += 1;
    }

    fn take(&mut self, place: usize) -> Result<(), NoSuchRule> {
        if place >= self.order.len() {
            return Err(NoSuchRule { place, rules: self.order.len() });
        }
        let number = self.order.remove(place) as usize;
        if number < self.original.len() {
            self.mark_removed(number);
        }
        self.changes += 1;
        Ok(())
    }

    fn mark_removed(&mut self, number: usize) {
        self.removed.resize(self.original.len().div_ceil(32), 0);
        self.removed[number / 32] |= 1 << (number % 32);
    }

    /// Builds the trees of the inserted rules.
    fn gather_added(&mut self) {
        let count = self.original.len() as u32;
        let (mut rules, mut numbers, mut before) = (Vec::new(), Vec::new(), Vec::new());
        let mut next = count;
        for &number in self.order.iter().rev() {
            match self.later.get((number as usize).wrapping_sub(count as usize)) {
                None => next = number,
                Some(rule) => {
                    rules.push(*rule);
                    numbers.push(number);
                    before.push(next);
                }
            }
        }
        rules.reverse();
        numbers.reverse();
        before.reverse();
        let trees = (!rules.is_empty()).then(|| Classifier::of_few(&rules));
        self.added = trees.map(|trees| Added { trees, numbers, before });
    }
}

impl Added {
    /// Replaces what was found by inserted rules that come before it.
    #[inline(always)]
    fn classify(&self, keys: &[Key], found: &mut [u32]) {
        for (keys, found) in keys.chunks(BLOCK).zip(found.chunks_mut(BLOCK)) {
            let mut here = [NONE; BLOCK];
            let here = &mut here[..keys.len()];
            self.trees.classify(keys, here);
            for (found, here) in found.iter_mut().zip(here) {
                if let Some(before) = self.before.get(*here as usize)
                    && before <= found
                {
                    *found = self.numbers[*here as usize];
                }
            }
        }
    }
}

/// Adds the bits of a key that a rule examines to a mask.
fn add_mask(mut mask: [u32; Key::WORDS], rule: &Rule) -> [u32; Key::WORDS] {
    let of_rule = rule.key_mask();
    mask.iter_mut().zip(of_rule).for_each(|(mask, of_rule)| *mask |= of_rule);
    mask
}
