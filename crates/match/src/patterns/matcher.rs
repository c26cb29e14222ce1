//! A choice of engines with one behaviour.

use super::{BuildError, Dfa, PatternSet, Scratch, Text};

/// Which engine searches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// [`Dfa`], unless there is a better one.
    #[default]
    Auto,
    /// [`Dfa`].
    Dfa,
    /// The library Hyperscan or Vectorscan, if the machine has it.
    Hyperscan,
}

/// A pattern set compiled for the engine that was chosen.
#[derive(Debug)]
pub struct Matcher {
    dfa: Dfa,
}

impl Matcher {
    /// Compiles a pattern set.
    pub fn new(set: &PatternSet, choice: EngineChoice) -> Result<Self, BuildError> {
        match choice {
            EngineChoice::Auto | EngineChoice::Dfa => Ok(Self { dfa: Dfa::new(set)? }),
            EngineChoice::Hyperscan => {
                Err(BuildError::NoEngine("hyperscan is not part of this program yet".into()))
            }
        }
    }

    /// The engine that searches, in a word.
    pub fn engine(&self) -> &'static str {
        "dfa"
    }

    /// Bytes that the engine takes.
    pub fn memory(&self) -> usize {
        self.dfa.memory()
    }

    /// The result of one text: the lowest rule that alerts plus 1, or 0.
    pub fn first(&self, text: Text<'_>, scratch: &mut Scratch) -> u32 {
        self.dfa.first(text, scratch)
    }

    /// The results of many texts. `results` is as long as `texts`.
    pub fn firsts(&self, texts: &[Text<'_>], results: &mut [u32], scratch: &mut Scratch) {
        self.dfa.firsts(texts, results, scratch);
    }

    /// Tells each rule that alerts in a text, once, in no order.
    pub fn each(&self, text: Text<'_>, scratch: &mut Scratch, tell: impl FnMut(u32)) {
        self.dfa.each(text, scratch, tell);
    }
}
