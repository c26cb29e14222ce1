//! Searching with the library [Hyperscan](crate::hyperscan), which finds the triggers. Hits are verified by the same
//! code as for [`Dfa`](super::Dfa).

use super::dfa::{Each, Lowest, Sink};
use super::verify::{Missed, Verifier};
use super::{BuildError, Content, Kinds, PatternSet, Rule, Scratch, Text};
use crate::hyperscan::{Database, Literal, ScanSpace, version};

/// A pattern set compiled by the library.
#[derive(Debug)]
pub(super) struct Outside {
    /// `None` without rules.
    database: Option<Database>,
    verifier: Verifier,
    /// For each rule, whether it alerts wherever its trigger is found.
    certain: Box<[bool]>,
}

impl Outside {
    pub(super) fn new(set: &PatternSet) -> Result<Self, BuildError> {
        let no_engine = |error: String| BuildError::NoEngine(format!("no Hyperscan: {error}"));
        version().map_err(no_engine)?;
        let certain: Box<[bool]> = set.rules().iter().map(is_certain).collect();
        let literals: Vec<Literal<'_>> = set
            .rules()
            .iter()
            .zip(&certain)
            .map(|(rule, &once)| {
                let Content { bytes, nocase, .. } = &rule.contents[rule.trigger()];
                Literal { bytes, nocase: *nocase, once }
            })
            .collect();
        let database = match literals.is_empty() {
            true => None,
            false => Some(Database::compile(&literals).map_err(no_engine)?),
        };
        Ok(Self { database, verifier: Verifier::new(set, false), certain })
    }

    /// The size in bytes.
    pub(super) fn memory(&self) -> usize {
        self.database.as_ref().map_or(0, Database::memory) + self.verifier.memory()
    }

    pub(super) fn first(&self, text: Text<'_>, scratch: &mut Scratch) -> u32 {
        let mut lowest = Lowest::default();
        self.search(text, &mut scratch.missed, &mut scratch.space, &mut lowest);
        lowest.result()
    }

    pub(super) fn each(&self, text: Text<'_>, scratch: &mut Scratch, tell: impl FnMut(u32)) {
        let Scratch { missed, space, told, .. } = scratch;
        let mut each = Each::new(told, self.certain.len(), tell);
        self.search(text, missed, space, &mut each);
    }

    fn search(
        &self,
        text: Text<'_>,
        missed: &mut Missed,
        space: &mut ScanSpace,
        sink: &mut impl Sink,
    ) {
        let Some(database) = &self.database else { return };
        missed.begin(&self.verifier);
        let mark = missed.mark(0);
        let scanned = database.scan(text.bytes, space, |rule, end| {
            if rule < sink.below() && sink.wants(rule) {
                let certain = self.certain.get(rule as usize) == Some(&true);
                if certain || self.verifier.alerts(rule, text, end, missed, mark) {
                    sink.alert(rule);
                }
            }
            sink.below() > 0
        });
        if scanned.is_err() {
            // There was no memory for the library's space. The text is searched by the slow method instead.
            self.verifier.search(text, |rule| {
                if rule < sink.below() && sink.wants(rule) {
                    sink.alert(rule);
                }
            });
        }
    }
}

/// True if a rule alerts wherever its trigger is found.
fn is_certain(rule: &Rule) -> bool {
    let [content] = &*rule.contents else { return false };
    rule.kinds == Kinds::ALL && content.offset == 0 && content.end() == u32::MAX
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::patterns::testing::{naive, sets, texts};
    use crate::patterns::{Content, Dfa, Kind};

    /// True if the library is installed; otherwise prints that the test is skipped.
    fn is_there(test: &str) -> bool {
        let there = version().is_ok();
        if !there {
            millrace_testkit::announce(test, &"needs the library of the package libhyperscan5");
        }
        there
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn it_finds_what_the_automaton_finds(set in sets(), texts in texts()) {
            if version().is_err() {
                return Ok(());
            }
            let (outside, dfa) = (Outside::new(&set).unwrap(), Dfa::new(&set).unwrap());
            let mut scratch = Scratch::default();
            for (bytes, kind) in &texts {
                let text = Text { bytes, kind: *kind };
                prop_assert_eq!(outside.first(text, &mut scratch), dfa.first(text, &mut scratch));
                let mut all = Vec::new();
                outside.each(text, &mut scratch, |rule| all.push(rule));
                all.sort_unstable();
                prop_assert_eq!(&all, &naive::all(&set, bytes, *kind));
                // The method that is used when the library fails.
                let mut all = Vec::new();
                outside.verifier.search(text, |rule| all.push(rule));
                prop_assert_eq!(all, naive::all(&set, bytes, *kind));
            }
        }
    }

    #[test]
    fn a_space_serves_one_database_after_the_other() {
        if !is_there("a_space_serves_one_database_after_the_other") {
            return;
        }
        let mut scratch = Scratch::default();
        let text = Text { bytes: &b"x".repeat(70_000), kind: Kind::Tcp };
        for count in [1, 3000, 2, 0_i32] {
            let mut set = PatternSet::new();
            for number in 0..count {
                set.push(Rule::of(Content::of(format!("pattern {number};")))).unwrap();
            }
            let matcher = Outside::new(&set).unwrap();
            assert_eq!(matcher.first(text, &mut scratch), 0);
            let last = format!("a pattern {};", count - 1);
            let last = Text { bytes: last.as_bytes(), ..text };
            assert_eq!(matcher.first(last, &mut scratch), count as u32);
        }
    }

    #[test]
    fn errors_of_the_library_are_returned() {
        if !is_there("errors_of_the_library_are_returned") {
            return;
        }
        let mut set = PatternSet::new();
        set.push(Rule::of(Content::of(vec![b'a'; 65_535]))).unwrap();
        let error = Outside::new(&set).unwrap_err().to_string();
        assert!(error.starts_with("no Hyperscan: hyperscan: "), "{error}");
    }
}
