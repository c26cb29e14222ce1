//! Builds an image: every row of the [automaton](crate::patterns::automaton) is written out.

use super::{ASKS_KIND, CERTAIN, COMPARE, FOLDS, HEADER, Image, MAGIC, NOCASE, TRIGGER, VERSION};
use crate::patterns::automaton::{Automaton, Triggers};
use crate::patterns::{Kinds, PatternSet};

/// Why a pattern set has no image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The automaton is larger than [`Image::MOST_BYTES`], or the lists of what its states find are.
    #[error("the patterns are too many or too long for an automaton: {0}")]
    TooLarge(String),
    /// The selected engine is not available.
    #[error("{0}")]
    NoEngine(String),
}

impl Image {
    /// The maximum number of bytes of a transition table, and of all output lists.
    pub const MOST_BYTES: usize = 1 << 30;

    /// Compiles a pattern set.
    ///
    /// Time and memory are proportional to the bytes of all triggers: one state for each byte that is not part of a
    /// prefix of an earlier trigger, and `4 * (classes + 1)` bytes per state. Sizes beyond
    /// [`MOST_BYTES`](Self::MOST_BYTES) are found before memory is allocated.
    ///
    /// # Errors
    /// The set is too large.
    pub fn build(set: &PatternSet) -> Result<Self, BuildError> {
        let triggers = Triggers::of(set);
        check(&triggers)?;
        let automaton = triggers.automaton(Self::MOST_BYTES / 4)?;
        let outputs = automaton.outputs(&triggers.distinct);
        let lists = outputs.iter().fold(0, |sum: usize, &rules| sum.saturating_add(rules));
        at_most(lists.saturating_mul(8), || format!("{lists} rules in lists of states"))?;
        let rows = Rows::of(&automaton, &outputs);

        let (folds, classes) = (triggers.folds, &triggers.classes);
        let mut flags = if folds { FOLDS } else { 0 };
        if set.rules().iter().any(|rule| rule.kinds != Kinds::ALL) {
            flags |= ASKS_KIND;
        }
        let mut words = vec![0; HEADER];
        let class_map = push_bytes(&mut words, &classes.map);
        let table = words.len();
        rows.push(&mut words, &automaton);
        let tables = Tables::push(&mut words, set, &triggers);
        for &number in &rows.order[rows.plain..] {
            let list = words.len() as u32;
            words[table + rows.place(number) + classes.count] = list;
            let found = triggers.rules(&automaton, number);
            words.push(found.len() as u32);
            words.extend(found.iter().flat_map(|&rule| [rule, tables.to_verify[rule as usize]]));
        }
        let header = [
            MAGIC as usize,
            VERSION as usize,
            words.len(),
            flags as usize,
            rows.order.len(),
            classes.count,
            rows.stride,
            class_map,
            table,
            rows.plain * rows.stride,
            tables.contents,
            tables.rules,
            set.len(),
            triggers.longest,
            triggers.shortest,
            0,
        ];
        if u32::try_from(words.len()).is_err() {
            return Err(BuildError::TooLarge(format!("{} words", words.len())));
        }
        for (word, value) in words.iter_mut().zip(header) {
            *word = value as u32;
        }
        Ok(Self { words: words.into() })
    }
}

/// Appends bytes, padded to a word, and returns their offset.
fn push_bytes(words: &mut Vec<u32>, bytes: &[u8]) -> usize {
    let at = words.len();
    words.extend(bytes.chunks(4).map(|chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        u32::from_le_bytes(word)
    }));
    at
}

/// Checks that the image of these triggers is not too large: computes the exact number of states, and an upper limit
/// of the number of patterns that are found in all of them.
fn check(triggers: &Triggers) -> Result<(), BuildError> {
    let patterns = &triggers.distinct.patterns;
    // A state is a prefix. The patterns that are found in it are its suffixes: at most one of each length.
    let mut lengths = vec![0_usize; triggers.longest + 1];
    patterns.iter().for_each(|pattern| lengths[pattern.len()] = 1);
    let mut found = vec![0_usize; triggers.longest + 1];
    let (mut of_depth, mut outputs) = (0, 0_usize);
    for depth in 1..=triggers.longest {
        of_depth += lengths[depth];
        found[depth] = found[depth - 1] + of_depth;
    }
    for (pattern, shared) in patterns.iter().zip(triggers.distinct.shared()) {
        outputs += found[pattern.len()] - found[shared];
    }
    let (states, classes) = (triggers.states(), triggers.classes.count);
    at_most(states.saturating_mul(4 * (classes + 1)), || {
        format!("{states} states for {classes} classes of bytes")
    })?;
    at_most(outputs.saturating_mul(8), || format!("{outputs} patterns that end in others"))
}
pub(in crate::patterns) fn at_most(
    bytes: usize,
    what: impl FnOnce() -> String,
) -> Result<(), BuildError> {
    let mib = |bytes: usize| bytes.div_ceil(1 << 20);
    if bytes <= Image::MOST_BYTES {
        return Ok(());
    }
    let (needed, most) = (mib(bytes), mib(Image::MOST_BYTES));
    Err(BuildError::TooLarge(format!("{} take up to {needed} MiB, {most} is the most", what())))
}

/// The transition table: the order of the states' rows.
struct Rows {
    stride: usize,
    /// States without output, then those with output, each breadth first.
    order: Vec<u32>,
    /// The number of states without output.
    plain: usize,
    /// The position of each state in the order.
    places: Vec<u32>,
}

impl Rows {
    fn of(automaton: &Automaton, outputs: &[usize]) -> Self {
        let has_output = |&&number: &&u32| outputs[number as usize] > 0;
        let (hits, mut order): (Vec<u32>, Vec<u32>) = automaton.order.iter().partition(has_output);
        let plain = order.len();
        order.extend(hits);
        let mut places = vec![0; order.len()];
        for (&number, place) in order.iter().zip(0..) {
            places[number as usize] = place;
        }
        Self { stride: automaton.classes + 1, order, plain, places }
    }

    /// The offset of a state's row, which is the state's number in the image.
    fn place(&self, number: u32) -> usize {
        self.places[number as usize] as usize * self.stride
    }

    fn push(&self, words: &mut Vec<u32>, automaton: &Automaton) {
        words.reserve(self.order.len() * self.stride);
        for &number in &self.order {
            let state = automaton.states[number as usize];
            let from = words.len();
            let row = &automaton.rows[state.row as usize..][..automaton.classes];
            words.extend(row.iter().map(|&to| self.place(to) as u32));
            words[from + usize::from(state.class)] = self.place(state.to) as u32;
            words.push(0);
        }
    }
}
/// The contents and the rules.
struct Tables {
    contents: usize,
    rules: usize,
    /// For each rule, the second word of its entries in output lists.
    to_verify: Vec<u32>,
}

impl Tables {
    fn push(words: &mut Vec<u32>, set: &PatternSet, triggers: &Triggers) -> Self {
        let mut records = Vec::new();
        let mut rules = Vec::new();
        let mut to_verify = Vec::new();
        for (index, (rule, &trigger)) in set.rules().iter().zip(&triggers.contents).enumerate() {
            let first = records.len();
            for (at, content) in rule.contents.iter().enumerate() {
                let mut flags = if content.nocase { NOCASE } else { 0 };
                if at == trigger {
                    flags |= TRIGGER;
                    if triggers.folds && content.has_case() {
                        flags |= COMPARE;
                    }
                }
                let bytes = push_bytes(words, &content.folded()) as u32;
                let length = content.bytes.len() as u32;
                let (offset, end) = (content.offset, content.end());
                records.push([index as u32, length, flags, offset, end, bytes, 0, 0]);
            }
            let trigger = first + trigger;
            let (count, kinds) = (rule.contents.len() as u32, rule.kinds.bits());
            rules.push([first as u32, count, kinds, trigger as u32]);
            let certain = triggers.certain[index];
            to_verify.push(if certain { CERTAIN } else { trigger as u32 });
        }
        let contents = words.len();
        words.extend(records.as_flattened());
        let at = words.len();
        words.extend(rules.as_flattened());
        Self { contents, rules: at, to_verify }
    }
}
