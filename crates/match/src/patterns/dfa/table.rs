//! The transition table that the CPU walks.
//!
//! The [image](crate::patterns::image) has a row for each state, which is what a GPU wants: the same load everywhere. A CPU
//! has small caches. Here only the rows are that the [automaton](crate::patterns::automaton) keeps. An entry says all
//! that the next step needs, so that a byte costs one load that waits for the one before; a state is where such an entry is:
//!
//! | word | bits | |
//! |---|---|---|
//! | 0 | | where the row of the state begins |
//! | 1 | 0 to 7 | a class of bytes |
//! | | 8 | whether the state has output |
//! | | 9 to 31 | where the state goes on this class; on any other it goes where its row says |
//!
//! The entries that are in no row stand before the rows, depth first: a text that follows a pattern where it does not branch
//! reads eight states from a line of the cache. The last of them are those that states with output lead to, and no other
//! does: they tell which list is the state's.

use crate::patterns::BuildError;
use crate::patterns::automaton::{Automaton, Triggers};
use crate::patterns::image::at_most;

/// The table; see the [module](self). The beginning is state 0.
#[derive(Debug)]
pub(super) struct Table {
    entries: Box<[Entry]>,
    /// From where on entries are led to by states with output.
    output_from: u32,
    /// Where the lists of states with output end, and where the first begins.
    lists: Box<[u32]>,
    found: Box<[Found]>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    row: u32,
    exception: u32,
}

/// A trigger that ends in a state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) rule: u32,
    /// The rule alerts: there is nothing to verify.
    pub(super) certain: bool,
}

/// Bit of states with output.
const OUTPUT: u32 = 1 << 8;

impl Table {
    /// States that can be told apart.
    const MOST_STATES: usize = 1 << 23;
    /// Entries of all rows.
    const MOST_IN_ROWS: usize = Self::MOST_STATES * 8;

    /// # Errors
    /// The automaton is too large, or what its states find is too much.
    pub(super) fn of(triggers: &Triggers) -> Result<Self, BuildError> {
        let states = triggers.states();
        if states >= Self::MOST_STATES {
            let most = Self::MOST_STATES;
            return Err(BuildError::TooLarge(format!("{states} states, {most} are too many")));
        }
        let automaton = triggers.automaton(Self::MOST_IN_ROWS)?;
        let outputs = automaton.outputs(&triggers.distinct);
        let all = outputs.iter().fold(0, |sum: usize, &rules| sum.saturating_add(rules));
        at_most(all.saturating_mul(size_of::<Found>()), || {
            format!("{all} rules in lists of states")
        })?;

        let places = Places::of(&automaton, &outputs);
        let mut entries = vec![Entry::default(); places.rows as usize];
        entries[0] = places.entry(&automaton, 0);
        let (mut lists, mut found) = (vec![0], Vec::with_capacity(all));
        for (number, state) in (0..).zip(&automaton.states) {
            entries[places.exceptions[number as usize] as usize] =
                places.entry(&automaton, state.to);
            if outputs[number as usize] > 0 {
                let rules = triggers.rules(&automaton, number).into_iter();
                let certain = |rule| triggers.certain[rule as usize];
                found.extend(rules.map(|rule| Found { rule, certain: certain(rule) }));
                lists.push(found.len() as u32);
            }
        }
        entries.extend(automaton.rows.iter().map(|&number| places.entry(&automaton, number)));
        Ok(Self {
            entries: entries.into(),
            output_from: places.output_from,
            lists: lists.into(),
            found: found.into(),
        })
    }

    /// The state behind another one.
    #[inline(always)]
    pub(super) fn next(&self, state: u32, class: u8) -> u32 {
        // Every entry leads into the table.
        self.entries[state as usize].next(class)
    }

    /// Whether a state has output.
    #[inline(always)]
    pub(super) fn has_output(&self, state: u32) -> bool {
        self.entries[state as usize].exception & OUTPUT != 0
    }

    /// Whether a state is the beginning: the text ends with no beginning of a trigger.
    #[inline(always)]
    pub(super) fn is_beginning(&self, state: u32) -> bool {
        self.entries[state as usize] == self.entries[0]
    }

    /// Goes on by a block of bytes in each of several texts. `None` if there was a state with output, before, in between
    /// or behind.
    ///
    /// It is a function of its own, and nothing is called in its loop, so that all states stay in registers.
    #[inline(never)]
    pub(super) fn advance<const LANES: usize, const BLOCK: usize>(
        &self,
        classes: &[u8; 256],
        states: &[u32; LANES],
        blocks: &[[u8; BLOCK]; LANES],
    ) -> Option<[u32; LANES]> {
        let entries = &*self.entries;
        let mut now = states.map(|state| state as usize);
        for step in 0..BLOCK {
            for (state, block) in now.iter_mut().zip(blocks) {
                let entry = entries[*state];
                if entry.exception & OUTPUT != 0 {
                    return None;
                }
                *state = entry.next(classes[usize::from(block[step])]) as usize;
            }
        }
        let states = now.map(|state| state as u32);
        let output = states.iter().any(|&state| self.has_output(state));
        (!output).then_some(states)
    }

    /// What ends in a state with output, in the order of rules.
    pub(super) fn found(&self, state: u32) -> &[Found] {
        let leads_to = self.entries[state as usize].exception >> 9;
        let list = leads_to.wrapping_sub(self.output_from) as usize;
        let ends = self.lists.get(list..).and_then(|ends| ends.first_chunk());
        let Some(&[from, to]) = ends else { return &[] };
        self.found.get(from as usize..to as usize).unwrap_or(&[])
    }

    /// Bytes that it takes.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.entries) + size_of_val(&*self.lists) + size_of_val(&*self.found)
    }
}

impl Entry {
    #[inline(always)]
    fn next(self, class: u8) -> u32 {
        let in_row = self.row + u32::from(class);
        if self.exception as u8 == class { self.exception >> 9 } else { in_row }
    }
}

/// Where entries are.
struct Places {
    /// For each state the one that its exception leads to.
    exceptions: Vec<u32>,
    output_from: u32,
    /// The first one in rows.
    rows: u32,
}

impl Places {
    /// The first entry is that of the beginning. States whose exception leads there share it.
    fn of(automaton: &Automaton, outputs: &[usize]) -> Self {
        let mut exceptions = vec![0; outputs.len()];
        let mut count = 1;
        let mut output_from = count;
        for with_output in [false, true] {
            output_from = count;
            let states = exceptions.iter_mut().zip(&automaton.states).zip(outputs);
            for ((place, state), _) in states.filter(|(_, rules)| (**rules > 0) == with_output) {
                if with_output || state.to != 0 {
                    *place = count;
                    count += 1;
                }
            }
        }
        Self { exceptions, output_from, rows: count }
    }

    fn entry(&self, automaton: &Automaton, number: u32) -> Entry {
        let state = automaton.states[number as usize];
        let place = self.exceptions[number as usize];
        let output = if place < self.output_from { 0 } else { OUTPUT };
        Entry {
            row: self.rows + state.row,
            exception: place << 9 | output | u32::from(state.class),
        }
    }
}
