//! Building an image: the crate `aho-corasick` compiles the triggers, and its states are laid out anew.

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::dfa::DFA;
use aho_corasick::{Anchored, MatchKind, StartKind};

use super::{ASKS_KIND, CERTAIN, COMPARE, FOLDS, HEADER, Image, MAGIC, NOCASE, TRIGGER, VERSION};
use crate::patterns::{Content, Kinds, PatternSet, Rule};

/// Why a pattern set has no image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// An automaton larger than [`Image::MOST_BYTES`], or lists of what its states find that are.
    #[error("the patterns are too many or too long for an automaton: {0}")]
    TooLarge(String),
    /// The engine that was asked for cannot be had.
    #[error("{0}")]
    NoEngine(String),
}

impl Image {
    /// The most bytes of a transition table, and the most of all output lists.
    pub const MOST_BYTES: usize = 1 << 30;

    /// Compiles a pattern set.
    ///
    /// Time and memory go by the bytes of all triggers: one state for each that no earlier one has as prefix, each
    /// state of `4 * (classes + 1)` bytes; while the compiler works it has up to three times as much in all. What would
    /// be larger than [`MOST_BYTES`](Self::MOST_BYTES) is seen before it is made.
    ///
    /// # Errors
    /// The set is too large.
    pub fn build(set: &PatternSet) -> Result<Self, BuildError> {
        let triggers: Vec<usize> = set.rules().iter().map(Rule::trigger).collect();
        let contents = || set.rules().iter().zip(&triggers).map(|(rule, &at)| &rule.contents[at]);
        let folds = contents().any(|trigger| trigger.nocase && trigger.has_letters());
        let fold = |content: &Content| match folds {
            true => content.bytes.to_ascii_lowercase(),
            false => content.bytes.clone(),
        };
        let patterns: Vec<Vec<u8>> = contents().map(fold).collect();
        let classes = Classes::of(&patterns, folds);
        let distinct = Distinct::of(&patterns);
        distinct.check(&classes)?;
        let mut automaton = Automat::compile(&distinct, &classes)?;

        let mut flags = if folds { FOLDS } else { 0 };
        if set.rules().iter().any(|rule| rule.kinds != Kinds::ALL) {
            flags |= ASKS_KIND;
        }
        let mut words = vec![0; HEADER];
        let class_map = push_bytes(&mut words, &classes.map);
        let rows = words.len();
        words.resize(rows + automaton.rows.len(), 0);
        let tables = Tables::push(&mut words, set, &triggers, folds);
        automaton.push_lists(&mut words, rows, &tables);
        let lengths = || patterns.iter().map(Vec::len);
        let header = [
            MAGIC as usize,
            VERSION as usize,
            words.len(),
            flags as usize,
            automaton.states,
            classes.count,
            classes.count + 1,
            class_map,
            rows,
            automaton.output_from,
            tables.contents,
            tables.rules,
            set.len(),
            lengths().max().unwrap_or(0),
            lengths().min().unwrap_or(0),
            0,
        ];
        if u32::try_from(words.len()).is_err() {
            return Err(BuildError::TooLarge(format!("{} words", words.len())));
        }
        for (word, value) in words.iter_mut().zip(header) {
            *word = value as u32;
        }
        Ok(Self { words })
    }
}

/// Appends bytes, padded to a word, and says where.
fn push_bytes(words: &mut Vec<u32>, bytes: &[u8]) -> usize {
    let at = words.len();
    words.extend(bytes.chunks(4).map(|chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        u32::from_le_bytes(word)
    }));
    at
}

/// Bytes that no pattern tells apart are one class.
struct Classes {
    map: [u8; 256],
    count: usize,
    /// A byte of each class.
    bytes: Vec<u8>,
}

impl Classes {
    fn of(patterns: &[Vec<u8>], folds: bool) -> Self {
        let mut used = [false; 256];
        patterns.iter().flatten().for_each(|&byte| used[usize::from(byte)] = true);
        let mut bytes = Vec::new();
        // An upper case letter is in no folded pattern; it becomes its lower case below.
        bytes.extend((0..=255).find(|&byte: &u8| !used[usize::from(byte)]));
        bytes.extend((0..=255).filter(|&byte: &u8| used[usize::from(byte)]));
        let mut map = [0; 256];
        for (class, &byte) in bytes.iter().enumerate() {
            map[usize::from(byte)] = class as u8;
        }
        if folds {
            for upper in b'A'..=b'Z' {
                map[usize::from(upper)] = map[usize::from(upper.to_ascii_lowercase())];
            }
        }
        Self { map, count: bytes.len(), bytes }
    }
}

/// The patterns, each once, in order.
struct Distinct<'a> {
    patterns: Vec<&'a [u8]>,
    /// For each of them where the rules are that search for it, in ascending order.
    rules: Vec<Vec<u32>>,
}

impl<'a> Distinct<'a> {
    fn of(patterns: &'a [Vec<u8>]) -> Self {
        let mut sorted: Vec<(&[u8], u32)> = patterns.iter().map(Vec::as_slice).zip(0..).collect();
        sorted.sort_unstable();
        let mut distinct = Self { patterns: Vec::new(), rules: Vec::new() };
        for same in sorted.chunk_by(|(one, _), (other, _)| one == other) {
            distinct.patterns.extend(same.first().map(|(pattern, _)| *pattern));
            distinct.rules.push(same.iter().map(|(_, rule)| *rule).collect());
        }
        distinct
    }

    /// Whether an automaton of them is not too large: how many states it has exactly, and at most how many
    /// patterns are found in all of them together.
    fn check(&self, classes: &Classes) -> Result<(), BuildError> {
        // A state is a prefix, and what is found in it are suffixes of that: one at most of each length.
        let longest = self.patterns.iter().map(|pattern| pattern.len()).max().unwrap_or(0);
        let mut lengths = vec![0_usize; longest + 1];
        self.patterns.iter().for_each(|pattern| lengths[pattern.len()] = 1);
        let mut found = vec![0_usize; longest + 1];
        let (mut of_depth, mut states, mut outputs) = (0, 1_usize, 0_usize);
        for depth in 1..=longest {
            of_depth += lengths[depth];
            found[depth] = found[depth - 1] + of_depth;
        }
        let mut before: &[u8] = &[];
        for &pattern in &self.patterns {
            let shared = before.iter().zip(pattern).take_while(|(one, other)| one == other).count();
            states += pattern.len() - shared;
            outputs += found[pattern.len()] - found[shared];
            before = pattern;
        }
        at_most(states.saturating_mul(4 * (classes.count + 1)), || {
            format!("{states} states for {} classes of bytes", classes.count)
        })?;
        at_most(outputs.saturating_mul(8), || format!("{outputs} patterns that end in others"))
    }
}

fn at_most(bytes: usize, what: impl FnOnce() -> String) -> Result<(), BuildError> {
    let mib = |bytes: usize| bytes.div_ceil(1 << 20);
    if bytes <= Image::MOST_BYTES {
        return Ok(());
    }
    let (needed, most) = (mib(bytes), mib(Image::MOST_BYTES));
    Err(BuildError::TooLarge(format!("{} take up to {needed} MiB, {most} is the most", what())))
}

/// Our numbers of the compiler's states.
#[derive(Default)]
struct Numbers(Vec<u32>);

impl Numbers {
    const NONE: u32 = u32::MAX;

    fn get(&self, state: StateID) -> Option<u32> {
        self.0.get(state.as_usize()).copied().filter(|&number| number != Self::NONE)
    }

    fn set(&mut self, state: StateID, number: u32) {
        let at = state.as_usize();
        if self.0.len() <= at {
            self.0.resize(at + 1, Self::NONE);
        }
        self.0[at] = number;
    }
}

/// The automaton with its states in our order.
struct Automat {
    states: usize,
    stride: usize,
    /// The number of the first state with output.
    output_from: usize,
    /// The transition table, its last column empty.
    rows: Vec<u32>,
    /// The rules whose triggers end in each state from `output_from` on.
    outputs: Vec<Vec<u32>>,
}

impl Automat {
    fn compile(distinct: &Distinct<'_>, classes: &Classes) -> Result<Self, BuildError> {
        let too_large = |error: &dyn std::fmt::Display| BuildError::TooLarge(error.to_string());
        let dfa = DFA::builder()
            .match_kind(MatchKind::Standard)
            .start_kind(StartKind::Unanchored)
            .prefilter(false)
            .build(&distinct.patterns)
            .map_err(|error| too_large(&error))?;
        let start = dfa.start_state(Anchored::No).map_err(|error| too_large(&error))?;
        let next = |state, byte| dfa.next_state(Anchored::No, state, byte);

        // Breadth first, then those with output behind the others.
        let mut numbers = Numbers::default();
        numbers.set(start, 0);
        let mut found = vec![start];
        let mut at = 0;
        while let Some(&state) = found.get(at) {
            for &byte in &classes.bytes {
                let to = next(state, byte);
                if numbers.get(to).is_none() {
                    numbers.set(to, 0);
                    found.push(to);
                }
            }
            at += 1;
        }
        let (plain, hits): (Vec<StateID>, _) =
            found.into_iter().partition(|&state| !dfa.is_match(state));
        let stride = classes.count + 1;
        let states = plain.len() + hits.len();
        for (index, state) in plain.iter().chain(&hits).enumerate() {
            numbers.set(*state, (index * stride) as u32);
        }
        let mut rows = Vec::with_capacity(states * stride);
        for &state in plain.iter().chain(&hits) {
            let to = classes.bytes.iter().map(|&byte| numbers.get(next(state, byte)));
            rows.extend(to.map(Option::unwrap_or_default));
            rows.push(0);
        }
        let rules_of = |state: StateID| {
            let (dfa, rules) = (&dfa, &distinct.rules);
            let patterns = (0..dfa.match_len(state)).map(move |at| dfa.match_pattern(state, at));
            patterns.map(|pattern| rules[pattern.as_usize()].as_slice())
        };
        let outputs: usize = hits.iter().flat_map(|&state| rules_of(state)).map(<[u32]>::len).sum();
        at_most(outputs.saturating_mul(8), || format!("{outputs} rules in lists of states"))?;
        let ends_in = |&state: &StateID| {
            let mut rules: Vec<u32> = rules_of(state).flatten().copied().collect();
            rules.sort_unstable();
            rules
        };
        let outputs = hits.iter().map(ends_in).collect();
        Ok(Self { states, stride, output_from: plain.len() * stride, rows, outputs })
    }

    /// Puts the rows in their place, and the output lists behind everything.
    fn push_lists(&mut self, words: &mut Vec<u32>, rows: usize, tables: &Tables) {
        let classes = self.stride - 1;
        for (index, output) in self.outputs.iter().enumerate() {
            self.rows[self.output_from + index * self.stride + classes] = words.len() as u32;
            words.push(output.len() as u32);
            words.extend(output.iter().flat_map(|&rule| [rule, tables.to_verify[rule as usize]]));
        }
        words[rows..rows + self.rows.len()].copy_from_slice(&self.rows);
    }
}

/// Where contents and rules are.
struct Tables {
    contents: usize,
    rules: usize,
    /// For each rule, the second word of its entries in output lists.
    to_verify: Vec<u32>,
}

impl Tables {
    fn push(words: &mut Vec<u32>, set: &PatternSet, triggers: &[usize], folds: bool) -> Self {
        let mut records = Vec::new();
        let mut rules = Vec::new();
        let mut to_verify = Vec::new();
        for (index, (rule, &trigger)) in set.rules().iter().zip(triggers).enumerate() {
            let first = records.len();
            for (at, content) in rule.contents.iter().enumerate() {
                let mut flags = if content.nocase { NOCASE } else { 0 };
                if at == trigger {
                    flags |= TRIGGER;
                    if folds && content.has_case() {
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
            let [_, _, flags, offset, end, ..] = records[trigger];
            let certain = count == 1
                && rule.kinds == Kinds::ALL
                && flags & COMPARE == 0
                && (offset, end) == (0, u32::MAX);
            to_verify.push(if certain { CERTAIN } else { trigger as u32 });
        }
        let contents = words.len();
        words.extend(records.as_flattened());
        let at = words.len();
        words.extend(rules.as_flattened());
        Self { contents, rules: at, to_verify }
    }
}
