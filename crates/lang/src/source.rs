//! Source texts and positions in them.

use std::path::Path;
use std::sync::Arc;

/// A source text held by a [`SourceMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub(crate) u32);

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
    /// A span in no text, for values that come from handlers and the command line.
    pub const NOWHERE: Span = Span { source: SourceId(u32::MAX), start: 0, end: 0 };

    /// The span from the start of `self` to the end of `other`, which is in the same text.
    pub fn to(self, other: Span) -> Span {
        Span { end: other.end.max(self.start), ..self }
    }

    /// The part `start..end` of this span, in bytes from its start, limited to the span.
    pub fn sub(self, start: usize, end: usize) -> Span {
        let len = self.end.saturating_sub(self.start) as usize;
        let start = start.min(len);
        let end = end.clamp(start, len);
        Span { start: self.start + start as u32, end: self.start + end as u32, ..self }
    }
}

/// One configuration text and its name in messages.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name in messages: a path, `config` for an expression, `<stdin>`.
    pub name: String,
    /// The text. Bytes that are not UTF-8 have been replaced.
    pub text: String,
    /// First byte of every line except the first.
    line_starts: Vec<u32>,
    /// The line marks that the lexer found, in order.
    marks: Vec<LineMark>,
}

/// A line mark: `# 12 "file"` means that the next line is line 12 of `file`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineMark {
    /// First byte of the mark's line.
    pub start: u32,
    /// One past the mark's last byte; excludes the line end.
    pub end: u32,
    /// The number of the line that follows.
    pub line: u32,
    /// The file of the following lines; `None` is the source itself. A mark without a name keeps the file of
    /// the mark before it.
    pub file: Option<Arc<str>>,
}

/// The location of a byte, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location<'a> {
    /// The file, with line marks applied.
    pub file: &'a str,
    /// The line, from 1, with line marks applied.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl Source {
    fn new(name: String, text: String) -> Self {
        let line_starts = line_starts(&text);
        Self { name, text, line_starts, marks: Vec::new() }
    }

    /// The physical line that contains byte `offset`, from 0.
    pub fn line_index(&self, offset: u32) -> usize {
        self.line_starts.partition_point(|&start| start <= offset)
    }

    /// The byte range of physical line `index` (from 0), including its line end.
    pub fn line_range(&self, index: usize) -> std::ops::Range<usize> {
        let start = match index.checked_sub(1) {
            None => 0,
            Some(i) => self.line_starts.get(i).map_or(self.text.len(), |&s| s as usize),
        };
        let end = self.line_starts.get(index).map_or(self.text.len(), |&s| s as usize);
        start..end.max(start)
    }

    /// File, line and column of byte `offset`, with line marks applied.
    pub fn location(&self, offset: u32) -> Location<'_> {
        let range = self.line_range(self.line_index(offset));
        let upto = self.text.get(range.start..(offset as usize).clamp(range.start, range.end));
        let column = upto.map_or(0, |s| s.chars().count()) as u32 + 1;
        let (file, line) = self.file_and_line(offset);
        Location { file, line, column }
    }

    /// File and line of byte `offset`, with line marks applied. Not slower on long lines.
    pub fn file_and_line(&self, offset: u32) -> (&str, u32) {
        let index = self.line_index(offset);
        let passed = self.marks.partition_point(|mark| mark.end <= offset);
        let Some(mark) = passed.checked_sub(1).and_then(|i| self.marks.get(i)) else {
            return (&self.name, index as u32 + 1);
        };
        // The line after the mark's own is line `mark.line`.
        let since = index.saturating_sub(self.line_index(mark.start) + 1) as u32;
        (mark.file.as_deref().unwrap_or(&self.name), mark.line.saturating_add(since))
    }

    /// The line marks in bytes `start..end`.
    pub fn marks_in(&self, start: u32, end: u32) -> &[LineMark] {
        let from = self.marks.partition_point(|mark| mark.start < start);
        let to = self.marks.partition_point(|mark| mark.start < end);
        self.marks.get(from..to).unwrap_or_default()
    }
}

/// First byte of every line except the first; LF, CR and CR LF end a line, as in Click.
fn line_starts(text: &str) -> Vec<u32> {
    let bytes = text.as_bytes();
    let ends = bytes
        .iter()
        .enumerate()
        .filter(|&(i, &b)| b == b'\n' || (b == b'\r' && bytes.get(i + 1).copied() != Some(b'\n')));
    ends.map_while(|(i, _)| u32::try_from(i + 1).ok()).collect()
}

/// All source texts of a configuration.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    sources: Vec<Source>,
}

impl SourceMap {
    /// Adds a text with its name in messages.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> SourceId {
        let id = SourceId(u32::try_from(self.sources.len()).unwrap_or(u32::MAX));
        self.sources.push(Source::new(name.into(), text.into()));
        id
    }

    /// Reads a file and adds it with its path as name.
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

    /// All texts.
    pub fn iter(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter()
    }

    /// The total length of all texts in bytes.
    pub(crate) fn total_len(&self) -> usize {
        self.sources.iter().map(|source| source.text.len()).sum()
    }

    /// Records the line marks that the lexer found in a text.
    pub fn set_marks(&mut self, id: SourceId, marks: Vec<LineMark>) {
        if let Some(source) = self.sources.get_mut(id.0 as usize) {
            source.marks = marks;
        }
    }

    /// The text of a span; empty when the span is in no text.
    pub fn text(&self, span: Span) -> &str {
        let text = self.get(span.source).map_or("", |source| source.text.as_str());
        text.get(span.start as usize..span.end as usize).unwrap_or("")
    }

    /// File, line and column of a span's first byte, with line marks applied.
    pub fn location(&self, span: Span) -> Option<Location<'_>> {
        self.get(span.source).map(|source| source.location(span.start))
    }

    /// `file:line` of a span's first byte, as in Click's messages; omits line 0.
    ///
    /// ```
    /// use millrace_lang::{SourceMap, Span};
    /// let mut map = SourceMap::default();
    /// let source = map.add("a.click", "a :: Idle;\nb :: Idle;\n");
    /// assert_eq!(map.landmark(Span { source, start: 11, end: 12 }), "a.click:2");
    /// ```
    pub fn landmark(&self, span: Span) -> String {
        let Some(source) = self.get(span.source) else { return String::new() };
        let (file, line) = source.file_and_line(span.start);
        if line == 0 {
            return file.to_owned();
        }
        // Click adds no second colon to a name that ends in one, nor one after a space.
        let colon = if file.ends_with([':', ' ', '\t']) { "" } else { ":" };
        format!("{file}{colon}{line}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn marks_name_the_lines_after_them() {
        let mut map = SourceMap::default();
        let source = map.add("a", "one\n# 9 \"b\"\ntwo\r\nthree\n");
        let file = Some(Arc::from("b"));
        map.set_marks(source, vec![LineMark { start: 4, end: 11, line: 9, file }]);
        let at = |start| map.landmark(Span { source, start, end: start });
        assert_eq!([at(0), at(5), at(12), at(17), at(24)], ["a:1", "a:2", "b:9", "b:10", "b:11"]);
        assert_eq!(map.text(Span { source, start: 12, end: 15 }), "two");
        assert_eq!(map.text(Span { source, start: 12, end: 99 }), "");
    }

    proptest! {
        #[test]
        fn lines_are_those_of_a_plain_count(text in "[a\n\ré]{0,20}", offset in 0..30u32) {
            let mut map = SourceMap::default();
            let source = map.add("x", text.clone());
            let source = map.get(source).unwrap();
            let before: String =
                text.char_indices().take_while(|&(i, _)| i < offset as usize).map(|(_, c)| c).collect();
            // A CR LF that the offset divides has not ended yet.
            let divided = before.ends_with('\r') && text[before.len()..].starts_with('\n');
            let lines = before.replace("\r\n", "\n").replace('\r', "\n").matches('\n').count();
            prop_assert_eq!(source.line_index(offset), lines - usize::from(divided));
            let range = source.line_range(source.line_index(offset));
            prop_assert!(text.get(range).is_some());
        }
    }
}
