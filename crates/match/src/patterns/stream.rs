//! Searching a stream of bytes that arrives in pieces.
//!
//! The state between pieces is small and bounded: no byte of the stream is stored. Therefore streams have other
//! automata than [texts](super::image). One contains the case-sensitive contents and one the others, so that nothing
//! must be compared when a content ends. Each contains all contents and not only triggers, because earlier bytes
//! cannot be searched again. A set with contents of both kinds is searched twice.

use super::dfa::{Dfa, Each, Lowest, Sink};
use super::{BuildError, Content, Kinds, PatternSet, Rule, Scratch, Text};

/// A pattern set compiled for streams.
#[derive(Debug)]
pub struct StreamMatcher {
    /// The case-sensitive contents, and the others.
    automata: [Automaton; 2],
    rules: Vec<Needed>,
}

/// An automaton for some contents. Each content is a rule of the automaton.
#[derive(Debug)]
struct Automaton {
    dfa: Dfa,
    contents: Vec<Place>,
}

/// The place of a content in a rule.
#[derive(Debug)]
struct Place {
    rule: u32,
    /// Its number among all contents of the set.
    number: u32,
    length: usize,
    offset: u64,
    end: u64,
}

/// The condition for a rule to alert.
#[derive(Debug)]
struct Needed {
    kinds: Kinds,
    /// The numbers of its contents.
    contents: std::ops::Range<u32>,
}

/// The state of the search in one stream. The default is the start of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamState {
    place: StreamPlace,
    /// The contents that were found, of rules that have several.
    found: Vec<u32>,
}

/// A state of the search to [return to](StreamState::return_to).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamPlace {
    states: [u32; 2],
    position: u64,
}

impl StreamState {
    /// The number of found contents that a stream remembers, of rules that have several. If there are more, the
    /// oldest is forgotten.
    pub const REMEMBERED: usize = 64;

    /// The number of bytes before.
    pub fn position(&self) -> u64 {
        self.place.position
    }

    /// Continues at another position, because bytes are missing or come again. No content can match across this
    /// point. Contents that were found before still count.
    pub fn resume_at(&mut self, position: u64) {
        self.place = StreamPlace { states: [0; 2], position };
    }

    /// The present state of the search.
    pub fn place(&self) -> StreamPlace {
        self.place
    }

    /// Returns to an earlier state, because the bytes since then come again.
    pub fn return_to(&mut self, place: StreamPlace) {
        self.place = place;
    }
}

impl StreamMatcher {
    /// Compiles a pattern set.
    pub fn new(set: &PatternSet) -> Result<Self, BuildError> {
        let mut sets = [PatternSet::new(), PatternSet::new()];
        let mut places = [const { Vec::new() }; 2];
        let mut rules = Vec::new();
        let mut number = 0;
        for (index, rule) in (0..).zip(set.rules()) {
            let first = number;
            for content in &rule.contents {
                let which = usize::from(content.nocase);
                let anywhere = Content { offset: 0, depth: None, ..content.clone() };
                // A content of one set may also be in the other.
                let _ = sets[which].push(Rule::of(anywhere));
                places[which].push(Place {
                    rule: index,
                    number,
                    length: content.bytes.len(),
                    offset: content.offset.into(),
                    end: match content.end() {
                        u32::MAX => u64::MAX,
                        end => end.into(),
                    },
                });
                number += 1;
            }
            rules.push(Needed { kinds: rule.kinds, contents: first..number });
        }
        let [cased, caseless] = places;
        let automata = [
            Automaton { dfa: Dfa::new(&sets[0])?, contents: cased },
            Automaton { dfa: Dfa::new(&sets[1])?, contents: caseless },
        ];
        Ok(Self { automata, rules })
    }

    /// The size in bytes.
    pub fn memory(&self) -> usize {
        let automata = self.automata.iter();
        let bytes = |automaton: &Automaton| {
            automaton.dfa.memory() + automaton.contents.len() * size_of::<Place>()
        };
        automata.map(bytes).sum::<usize>() + self.rules.len() * size_of::<Needed>()
    }

    /// Searches the next piece of a stream. Returns the lowest rule that alerts in it, plus 1, or 0. A rule alerts in
    /// the piece in which one of its contents ends, if the others have ended before or end in the same piece. A
    /// stream of one piece has the same result as a text.
    pub fn first(&self, state: &mut StreamState, piece: Text<'_>) -> u32 {
        let mut lowest = Lowest::default();
        self.feed(state, piece, &mut lowest);
        lowest.result()
    }

    /// As [`first`](Self::first); also calls a function for each such rule, once, in no particular order.
    pub fn each(
        &self,
        state: &mut StreamState,
        piece: Text<'_>,
        scratch: &mut Scratch,
        tell: impl FnMut(u32),
    ) {
        let mut each = Each::new(&mut scratch.told, self.rules.len(), tell);
        self.feed(state, piece, &mut each);
    }

    fn feed(&self, state: &mut StreamState, piece: Text<'_>, sink: &mut impl Sink) {
        let StreamState { place: StreamPlace { states, position }, found } = state;
        let automata = self.automata.iter().zip(states);
        for (automaton, state) in automata.filter(|(automaton, _)| !automaton.contents.is_empty()) {
            automaton.dfa.follow(state, piece.bytes, |content, end| {
                let Some(place) = automaton.contents.get(content as usize) else { return };
                let Some(rule) = self.rules.get(place.rule as usize) else { return };
                let end = position.saturating_add(end as u64);
                // A stream may be joined in its middle, with a guessed position.
                let fits = end.saturating_sub(place.length as u64) >= place.offset
                    && end <= place.end
                    && rule.kinds.has(piece.kind);
                if fits && rule.complete(place.number, found) && sink.wants(place.rule) {
                    sink.alert(place.rule);
                }
            });
        }
        *position = position.saturating_add(piece.bytes.len() as u64);
    }
}

impl Needed {
    /// Notes that a content was found. Returns true if all contents of the rule were found.
    fn complete(&self, number: u32, found: &mut Vec<u32>) -> bool {
        if self.contents.len() == 1 {
            return true;
        }
        if !found.contains(&number) {
            if found.len() == StreamState::REMEMBERED {
                found.remove(0);
            }
            found.push(number);
        }
        self.contents.clone().all(|other| found.contains(&other))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::patterns::Kind;
    use crate::patterns::testing::{naive, sets, texts};

    /// The rules that alert in a piece.
    fn feed(matcher: &StreamMatcher, state: &mut StreamState, piece: Text<'_>) -> Vec<u32> {
        let mut copy = state.clone();
        let mut rules = Vec::new();
        matcher.each(state, piece, &mut Scratch::default(), |rule| rules.push(rule));
        rules.sort_unstable();
        let lowest = rules.first().map_or(0, |rule| rule + 1);
        assert_eq!(matcher.first(&mut copy, piece), lowest);
        assert_eq!(copy, *state);
        rules
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        /// However a text is divided into pieces: the rules that alert in a piece are those that alert in the text,
        /// and each alerts first in the piece where the text up to there alerts.
        #[test]
        fn a_stream_of_pieces_alerts_like_the_text(set in sets(), texts in texts(), cuts in prop::collection::vec(0_usize..40, 0..6)) {
            let matcher = StreamMatcher::new(&set).unwrap();
            for (bytes, kind) in &texts {
                let mut cuts: Vec<usize> = cuts.iter().map(|&cut| cut.min(bytes.len())).collect();
                cuts.extend([0, bytes.len()]);
                cuts.sort_unstable();
                let mut state = StreamState::default();
                let mut alerted = Vec::new();
                for cut in cuts.windows(2) {
                    let piece = Text { bytes: &bytes[cut[0]..cut[1]], kind: *kind };
                    alerted.extend(feed(&matcher, &mut state, piece));
                    alerted.sort_unstable();
                    alerted.dedup();
                    prop_assert_eq!(&alerted, &naive::all(&set, &bytes[..cut[1]], *kind));
                }
                prop_assert_eq!(state.position(), bytes.len() as u64);
            }
        }
    }

    #[test]
    fn contents_do_not_reach_over_a_gap() {
        let mut set = PatternSet::new();
        let both = vec![Content::of("ab"), Content { offset: 10, ..Content::of("cd") }];
        set.push(Rule { contents: both, ..Rule::of(Content::of("x")) }).unwrap();
        set.push(Rule::of(Content::of("abab"))).unwrap();
        let matcher = StreamMatcher::new(&set).unwrap();
        let text = |bytes| Text { bytes, kind: Kind::Tcp };
        let mut state = StreamState::default();
        assert_eq!(matcher.first(&mut state, text(b"cdab")), 0);
        state.resume_at(9);
        // "ab" was found before the gap. "cd" begins before its window, and then in it.
        assert_eq!(matcher.first(&mut state, text(b"cd")), 0);
        assert_eq!(matcher.first(&mut state, text(b"ab")), 0);
        assert_eq!(matcher.first(&mut state, text(b"abc")), 2);
        assert_eq!(matcher.first(&mut state, text(b"d")), 1);
        let mut state = StreamState::default();
        assert_eq!(matcher.first(&mut state, text(b"ab")), 0);
        let place = state.place();
        state.resume_at(20);
        assert_eq!(matcher.first(&mut state, text(b"ab")), 0);
        state.return_to(place);
        assert_eq!(matcher.first(&mut state, text(b"ab")), 2);
    }

    #[test]
    fn a_stream_remembers_only_so_much() {
        let mut set = PatternSet::new();
        for byte in 0..100 {
            let both = vec![Content::of([201, byte]), Content::of([202, byte])];
            set.push(Rule { contents: both, ..Rule::of(Content::of("x")) }).unwrap();
        }
        let matcher = StreamMatcher::new(&set).unwrap();
        let mut state = StreamState::default();
        let bytes: Vec<u8> = (0..100).flat_map(|byte| [201, byte]).collect();
        assert_eq!(matcher.first(&mut state, Text { bytes: &bytes, kind: Kind::Tcp }), 0);
        assert_eq!(state.found.len(), StreamState::REMEMBERED);
        assert_eq!(matcher.first(&mut state, Text { bytes: &[202, 99], kind: Kind::Tcp }), 100);
        assert_eq!(matcher.first(&mut state, Text { bytes: &[202, 3], kind: Kind::Tcp }), 0);
    }
}
