//! Source texts and places in them.

use std::path::Path;

/// A source text held by a [`SourceMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(u32);

/// A range of bytes in one source text: `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The text.
    pub source: SourceId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// No place in any text: of values that come from handlers and the command line.
    pub const NOWHERE: Span = Span { source: SourceId(u32::MAX), start: 0, end: 0 };

    /// The span from the start of `self` to the end of `other`, which lies in the same text.
    pub fn to(self, other: Span) -> Span {
        Span { end: other.end.max(self.start), ..self }
    }

    /// The part `start..end` of this span, in bytes counted from its start, clamped to it.
    pub fn sub(self, start: usize, end: usize) -> Span {
        let len = (self.end - self.start) as usize;
        let start = start.min(len);
        let end = end.clamp(start, len);
        Span { start: self.start + start as u32, end: self.start + end as u32, ..self }
    }
}

/// One configuration text and the name that messages give it.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name in messages: a path, `config` for an expression, `<stdin>`.
    pub name: String,
    /// The text. Bytes that are not UTF-8 have been replaced.
    pub text: String,
}

/// Every source text of a configuration.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    sources: Vec<Source>,
}

impl SourceMap {
    /// Adds a text under the name that messages shall give it.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> SourceId {
        let id = SourceId(u32::try_from(self.sources.len()).unwrap_or(u32::MAX));
        self.sources.push(Source { name: name.into(), text: text.into() });
        id
    }

    /// Reads a file and adds it under its path.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&mut self, path: &Path) -> std::io::Result<SourceId> {
        let bytes = std::fs::read(path)?;
        Ok(self.add(path.display().to_string(), String::from_utf8_lossy(&bytes)))
    }

    /// The text with this id.
    pub fn get(&self, id: SourceId) -> Option<&Source> {
        self.sources.get(id.0 as usize)
    }
}
