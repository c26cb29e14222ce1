//! The automaton of a pattern set: Aho and Corasick, CACM 18(6), 1975.
//!
//! A state is a prefix of a pattern: the longest one that the text ends with. Its **row** contains the next state for
//! each class of bytes. The row of a state equals that of its *failure state* (the longest proper suffix that is a
//! state), except for the classes with which one of its patterns continues. So few rows must be stored: where
//! patterns do not branch, a state is represented by **a row that it shares, and one exception**. Of the 40,282
//! states of 3,640 phrases, 2,541 have their own row.
//!
//! The time and memory of the construction are proportional to the bytes of the patterns and to the entries of stored
//! rows.

use super::{BuildError, Content, Kinds, PatternSet, Rule};

/// The strings that an automaton searches for: the trigger of each rule.
pub(super) struct Triggers {
    /// For each rule, the index of the content that is its trigger.
    pub(super) contents: Vec<usize>,
    /// For each rule, whether it alerts wherever its trigger is found, so that nothing must be verified.
    pub(super) certain: Vec<bool>,
    /// True if `A` to `Z` are read as `a` to `z`.
    pub(super) folds: bool,
    pub(super) classes: Classes,
    pub(super) distinct: Distinct,
    /// Lengths of the longest and the shortest trigger in bytes; 0 without rules.
    pub(super) longest: usize,
    pub(super) shortest: usize,
}

/// Bytes that no pattern distinguishes are one class.
pub(super) struct Classes {
    /// The class of each byte.
    pub(super) map: [u8; 256],
    /// The number of classes, 1 to 256.
    pub(super) count: usize,
}

/// The patterns without duplicates, sorted, as classes of bytes.
pub(super) struct Distinct {
    pub(super) patterns: Vec<Vec<u8>>,
    /// For each pattern, the indices of the rules that search for it, in ascending order.
    pub(super) rules: Vec<Vec<u32>>,
}

/// States are numbered. 0 is the start. The others are numbered depth first, so that the states along a pattern are
/// consecutive.
pub(super) struct Automaton {
    pub(super) states: Vec<State>,
    /// The stored rows, of `classes` states each. The first is that of state 0.
    pub(super) rows: Vec<u32>,
    pub(super) classes: usize,
    /// The states, breadth first.
    pub(super) order: Vec<u32>,
    failures: Vec<u32>,
    /// The distinct pattern that equals a state, if there is one.
    own: Vec<u32>,
    /// The longest suffix of each state that is a pattern, possibly the state itself; 0 if there is none.
    ends: Vec<u32>,
}

/// A state: its row, and the only entry that differs from it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    /// The index of the row in [`Automaton::rows`].
    pub(super) row: u32,
    /// The next state for `class`. A state without an exception repeats the entry of its row.
    pub(super) to: u32,
    pub(super) class: u8,
}

/// No pattern, or no row.
const NONE: u32 = u32::MAX;

impl Triggers {
    pub(super) fn of(set: &PatternSet) -> Self {
        let contents: Vec<usize> = set.rules().iter().map(Rule::trigger).collect();
        let triggers = || set.rules().iter().zip(&contents).map(|(rule, &at)| &rule.contents[at]);
        let folds = triggers().any(|trigger| trigger.nocase && trigger.has_letters());
        let fold = |content: &Content| match folds {
            true => content.bytes.to_ascii_lowercase(),
            false => content.bytes.clone(),
        };
        let certain = |(rule, trigger): (&Rule, &Content)| {
            rule.contents.len() == 1
                && rule.kinds == Kinds::ALL
                && !(folds && trigger.has_case())
                && (trigger.offset, trigger.end()) == (0, u32::MAX)
        };
        let certain = set.rules().iter().zip(triggers()).map(certain).collect();
        let patterns: Vec<Vec<u8>> = triggers().map(fold).collect();
        let classes = Classes::of(&patterns, folds);
        let lengths = || patterns.iter().map(Vec::len);
        Self {
            certain,
            folds,
            distinct: Distinct::of(&patterns, &classes),
            longest: lengths().max().unwrap_or(0),
            shortest: lengths().min().unwrap_or(0),
            classes,
            contents,
        }
    }

    /// The number of states of the automaton.
    pub(super) fn states(&self) -> usize {
        let patterns = self.distinct.patterns.iter().zip(self.distinct.shared());
        1 + patterns.map(|(pattern, shared)| pattern.len() - shared).sum::<usize>()
    }

    /// Builds the automaton of all triggers, if its rows have at most `most` entries. Building needs 36 bytes per
    /// state, and 4 bytes per entry.
    pub(super) fn automaton(&self, most: usize) -> Result<Automaton, BuildError> {
        Automaton::of(&self.distinct, self.classes.count, most)
    }

    /// The rules whose triggers end in a state, in ascending order.
    pub(super) fn rules(&self, automaton: &Automaton, number: u32) -> Vec<u32> {
        let ends = automaton.ends(number);
        let mut rules: Vec<u32> =
            ends.flat_map(|pattern| &self.distinct.rules[pattern]).copied().collect();
        rules.sort_unstable();
        rules
    }
}

impl Classes {
    /// If `folds` is true, `A` to `Z` are read as `a` to `z`; then the patterns must not contain them.
    pub(super) fn of(patterns: &[Vec<u8>], folds: bool) -> Self {
        let mut used = [false; 256];
        patterns.iter().flatten().for_each(|&byte| used[usize::from(byte)] = true);
        // Class 0 contains the bytes that are in no pattern, if there are any.
        let mut count = usize::from(used.contains(&false));
        let mut map = [0; 256];
        for (class, used) in map.iter_mut().zip(used) {
            if used {
                *class = count as u8;
                count += 1;
            }
        }
        if folds {
            for upper in b'A'..=b'Z' {
                map[usize::from(upper)] = map[usize::from(upper.to_ascii_lowercase())];
            }
        }
        Self { map, count }
    }

    /// A byte of a class; for letters in both cases, the lower case one.
    pub(super) fn byte(&self, class: u8) -> u8 {
        (0..=u8::MAX).rev().find(|&byte| self.map[usize::from(byte)] == class).unwrap_or(0)
    }
}

impl Distinct {
    pub(super) fn of(patterns: &[Vec<u8>], classes: &Classes) -> Self {
        let class = |&byte: &u8| classes.map[usize::from(byte)];
        let classes = patterns.iter().map(|pattern| pattern.iter().map(class).collect::<Vec<u8>>());
        let mut sorted: Vec<(Vec<u8>, u32)> = classes.zip(0..).collect();
        sorted.sort_unstable();
        let mut distinct = Self { patterns: Vec::new(), rules: Vec::new() };
        for (pattern, rule) in sorted {
            match distinct.rules.last_mut() {
                Some(rules) if distinct.patterns.last() == Some(&pattern) => rules.push(rule),
                _ => {
                    distinct.patterns.push(pattern);
                    distinct.rules.push(vec![rule]);
                }
            }
        }
        distinct
    }

    /// For each pattern, the number of classes at its start that are equal to those of the pattern before it.
    pub(super) fn shared(&self) -> impl Iterator<Item = usize> {
        let before = std::iter::once(&[][..]).chain(self.patterns.iter().map(Vec::as_slice));
        before.zip(&self.patterns).map(|(before, pattern)| {
            before.iter().zip(pattern).take_while(|(one, other)| one == other).count()
        })
    }
}

impl Automaton {
    fn of(distinct: &Distinct, classes: usize, most: usize) -> Result<Self, BuildError> {
        let trie = Trie::of(distinct);
        let count = trie.parents.len();
        let mut automaton = Self {
            states: vec![State::default(); count],
            rows: vec![0; classes],
            classes,
            order: Vec::with_capacity(count),
            failures: vec![0; count],
            own: Vec::new(),
            ends: vec![0; count],
        };
        for &child in trie.children(0) {
            automaton.rows[usize::from(trie.classes[child as usize])] = child;
        }
        automaton.states[0].to = automaton.rows[0];
        automaton.order.push(0);
        automaton.order.extend(trie.children(0));
        // For each state, a stored row that is equal to the state's row, if there is one.
        let mut whole = vec![NONE; count];
        let mut at = 1;
        while let Some(&number) = automaton.order.get(at) {
            let children = trie.children(number);
            automaton.state(number, children, &trie.classes, &mut whole);
            let rows = automaton.rows.len();
            if rows > most {
                let kept = rows / classes;
                return Err(BuildError::TooLarge(format!(
                    "{kept} rows for {classes} classes of bytes"
                )));
            }
            automaton.order.extend(children);
            automaton.ends[number as usize] = match trie.ends[number as usize] {
                NONE => automaton.ends[automaton.failures[number as usize] as usize],
                _ => number,
            };
            at += 1;
        }
        automaton.own = trie.ends;
        Ok(automaton)
    }

    /// Finds the row and the exception of a state, and the failure states of its children. The state's own failure
    /// state is known.
    fn state(&mut self, number: u32, children: &[u32], classes: &[u8], whole: &mut [u32]) {
        let class = |child: u32| classes[child as usize];
        let failure = self.failures[number as usize];
        for &child in children {
            self.failures[child as usize] = self.next(failure, class(child));
        }
        let State { row, to, class: exception } = self.states[failure as usize];
        let is_whole = self.rows[row as usize + usize::from(exception)] == to;
        self.states[number as usize] = match *children {
            // Its row equals that of its failure state.
            [] => self.states[failure as usize],
            [child] if is_whole || exception == class(child) => {
                State { row, to: child, class: class(child) }
            }
            [child] => {
                let row = match whole[failure as usize] {
                    NONE => self.keep(failure),
                    row => row,
                };
                whole[failure as usize] = row;
                State { row, to: child, class: class(child) }
            }
            _ => {
                let row = self.keep(failure);
                for &child in children {
                    self.rows[row as usize + usize::from(class(child))] = child;
                }
                State { row, to: self.rows[row as usize], class: 0 }
            }
        };
    }

    /// Stores the row of a state after the other rows, and returns its index.
    fn keep(&mut self, number: u32) -> u32 {
        let State { row, to, class } = self.states[number as usize];
        let at = self.rows.len();
        self.rows.extend_from_within(row as usize..row as usize + self.classes);
        self.rows[at + usize::from(class)] = to;
        at as u32
    }

    /// The next state.
    pub(super) fn next(&self, number: u32, class: u8) -> u32 {
        let state = &self.states[number as usize];
        match state.class == class {
            true => state.to,
            false => self.rows[state.row as usize + usize::from(class)],
        }
    }

    /// The numbers of the distinct patterns that end in a state, the longest first.
    pub(super) fn ends(&self, number: u32) -> impl Iterator<Item = usize> {
        let end = |state: u32| Some(self.ends[state as usize]).filter(|&end| end != 0);
        let ends =
            std::iter::successors(end(number), move |&found| end(self.failures[found as usize]));
        ends.map(|state| self.own[state as usize] as usize)
    }

    /// For each state, the number of rules that search for the patterns that end in it.
    pub(super) fn outputs(&self, distinct: &Distinct) -> Vec<usize> {
        let mut outputs = vec![0; self.states.len()];
        for &number in &self.order {
            let own = distinct.rules.get(self.own[number as usize] as usize);
            let inherited = outputs[self.failures[number as usize] as usize];
            outputs[number as usize] = own.map_or(0, Vec::len) + inherited;
        }
        outputs
    }
}

/// The prefixes of the patterns as a tree, numbered depth first.
struct Trie {
    parents: Vec<u32>,
    /// The class that leads from the parent to each node.
    classes: Vec<u8>,
    /// The pattern that ends at each node, or [`NONE`].
    ends: Vec<u32>,
    /// All children, grouped by parents. Those of parent `n` are from `first[n]` to `first[n + 1]`.
    children: Vec<u32>,
    first: Vec<u32>,
}

impl Trie {
    fn of(distinct: &Distinct) -> Self {
        let mut trie = Self {
            parents: vec![0],
            classes: vec![0],
            ends: vec![NONE],
            children: Vec::new(),
            first: Vec::new(),
        };
        // Patterns are sorted, so a prefix that a pattern shares with an earlier one is also shared with the one
        // before it.
        let mut path = vec![0];
        for ((pattern, shared), number) in distinct.patterns.iter().zip(distinct.shared()).zip(0..)
        {
            path.truncate(shared + 1);
            for &class in &pattern[shared..] {
                trie.parents.push(path.last().copied().unwrap_or(0));
                trie.classes.push(class);
                trie.ends.push(NONE);
                path.push(trie.parents.len() as u32 - 1);
            }
            // No pattern is empty.
            if let Some(&end) = path.last() {
                trie.ends[end as usize] = number;
            }
        }
        trie.sort_children();
        trie
    }

    fn sort_children(&mut self) {
        let mut first = vec![0; self.parents.len() + 1];
        self.parents[1..].iter().for_each(|&parent| first[parent as usize + 1] += 1);
        let mut sum = 0;
        for place in &mut first {
            sum += *place;
            *place = sum;
        }
        let mut next = first.clone();
        self.children = vec![0; self.parents.len() - 1];
        for (&parent, child) in self.parents[1..].iter().zip(1..) {
            let place = &mut next[parent as usize];
            self.children[*place as usize] = child;
            *place += 1;
        }
        self.first = first;
    }

    fn children(&self, parent: u32) -> &[u32] {
        let parent = parent as usize;
        &self.children[self.first[parent] as usize..self.first[parent + 1] as usize]
    }
}
