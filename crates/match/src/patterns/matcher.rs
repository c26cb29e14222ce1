//! A choice of engines with the same results.

use super::outside::Outside;
use super::{BuildError, Dfa, Image, PatternSet, Scratch, Text};

/// The engine of a matcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// [`Dfa`], because no other engine is generally faster.
    #[default]
    Auto,
    /// [`Dfa`].
    Dfa,
    /// The library Hyperscan or Vectorscan, if the machine has it.
    Hyperscan,
}

/// A pattern set, compiled for the selected engine.
#[derive(Debug)]
pub struct Matcher(Engine);

#[derive(Debug)]
enum Engine {
    Dfa(Box<Dfa>),
    Hyperscan(Box<Outside>),
}

impl Matcher {
    /// Compiles a pattern set.
    pub fn new(set: &PatternSet, choice: EngineChoice) -> Result<Self, BuildError> {
        Ok(Self(match choice {
            EngineChoice::Auto | EngineChoice::Dfa => Engine::Dfa(Dfa::new(set)?.into()),
            EngineChoice::Hyperscan => Engine::Hyperscan(Outside::new(set)?.into()),
        }))
    }

    /// The name of the engine.
    pub fn engine(&self) -> &'static str {
        match &self.0 {
            Engine::Dfa(_) => "dfa",
            Engine::Hyperscan(_) => "hyperscan",
        }
    }

    /// The image for a GPU, if the engine has one.
    pub fn image(&self) -> Option<&Image> {
        match &self.0 {
            Engine::Dfa(engine) => engine.image(),
            Engine::Hyperscan(_) => None,
        }
    }

    /// The size of the engine in bytes.
    pub fn memory(&self) -> usize {
        match &self.0 {
            Engine::Dfa(engine) => engine.memory(),
            Engine::Hyperscan(engine) => engine.memory(),
        }
    }

    /// The result of one text: the lowest rule that alerts plus 1, or 0.
    pub fn first(&self, text: Text<'_>, scratch: &mut Scratch) -> u32 {
        match &self.0 {
            Engine::Dfa(engine) => engine.first(text, scratch),
            Engine::Hyperscan(engine) => engine.first(text, scratch),
        }
    }

    /// The results of many texts. `results` is as long as `texts`.
    pub fn firsts(&self, texts: &[Text<'_>], results: &mut [u32], scratch: &mut Scratch) {
        match &self.0 {
            Engine::Dfa(engine) => engine.firsts(texts, results, scratch),
            Engine::Hyperscan(engine) => {
                for (&text, result) in texts.iter().zip(results) {
                    *result = engine.first(text, scratch);
                }
            }
        }
    }

    /// Calls `tell` for each rule that alerts in a text, once, in no particular order.
    pub fn each(&self, text: Text<'_>, scratch: &mut Scratch, tell: impl FnMut(u32)) {
        match &self.0 {
            Engine::Dfa(engine) => engine.each(text, scratch, tell),
            Engine::Hyperscan(engine) => engine.each(text, scratch, tell),
        }
    }
}
