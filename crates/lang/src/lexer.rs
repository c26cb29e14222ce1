//! The lexer: bytes to tokens, comments, line marks and raw configuration strings.
//!
//! Click's lexical rules are few. An identifier consists of letters, digits, `_`, `@` and inner slashes;
//! comments and white space separate tokens; a `#` at the start of a line begins a line mark. The text
//! between the parentheses of a configuration does not consist of tokens at all: the parser requests it with
//! [`Lexer::config`] after it has read the `(`.

use std::sync::Arc;

use crate::config;
use crate::diagnostic::{Diagnostic, Findings};
use crate::source::{LineMark, SourceId, Span};

/// A range of bytes in the text of a syntax tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TextRange {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl TextRange {
    /// The range from the start of `self` to the end of `other`.
    #[must_use]
    pub fn to(self, other: TextRange) -> TextRange {
        TextRange { start: self.start, end: other.end.max(self.start) }
    }

    /// The same range as a span of a source.
    pub fn span(self, source: SourceId) -> Span {
        Span { source, start: self.start, end: self.end }
    }

    /// The bytes themselves; empty when they are not in the text.
    pub fn of(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize).unwrap_or("")
    }
}

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A name, a class or a number.
    Ident,
    /// `$name`
    Variable,
    /// `->`
    Arrow,
    /// `=>`
    FatArrow,
    /// `::`
    ColonColon,
    /// `||`
    BarBar,
    /// `...`
    Ellipsis,
    /// `elementclass`
    ElementClass,
    /// `require`
    Require,
    /// `provide`
    Provide,
    /// `define`
    Define,
    /// Any other character, by itself.
    Char(char),
    /// The end of the text.
    End,
}

/// A token and its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// Its kind.
    pub(crate) kind: TokenKind,
    /// Its range.
    pub(crate) range: TextRange,
}

impl Token {
    /// True for the single character `c`.
    pub(crate) fn is(&self, c: char) -> bool {
        self.kind == TokenKind::Char(c)
    }
}

/// The kind of a [`Comment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommentKind {
    /// From `//` to the end of the line.
    Line,
    /// From `/*` to `*/`.
    Block,
    /// A line mark.
    Mark,
}

/// A comment, or a line mark, which can be between tokens like a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Its kind.
    pub kind: CommentKind,
    /// Its bytes, without the line end.
    pub range: TextRange,
}

/// A raw configuration string, as returned by [`Lexer::config`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawConfig {
    /// The text between the parentheses.
    pub(crate) range: TextRange,
    /// The position of a quote or a comment that is not closed.
    pub(crate) open_quote: Option<u32>,
    /// False when the text ended before the closing parenthesis.
    pub(crate) closed: bool,
}

/// The lexer. It reads the text once, from front to back, and stores only the comments and line marks that it
/// has found.
#[derive(Debug)]
pub(crate) struct Lexer<'a> {
    text: &'a str,
    source: SourceId,
    pos: usize,
    pub(crate) comments: Vec<Comment>,
    pub(crate) marks: Vec<LineMark>,
    pub(crate) errors: Findings,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(source: SourceId, text: &'a str) -> Self {
        let (comments, marks, errors) = (Vec::new(), Vec::new(), Findings::default());
        Self { text, source, pos: 0, comments, marks, errors }
    }

    /// The next token.
    pub(crate) fn next(&mut self) -> Token {
        self.skip_blank();
        let start = self.pos;
        let (kind, len) = match self.byte(0) {
            None => (TokenKind::End, 0),
            Some(b) if is_ident(b) => {
                let len = self.ident_len();
                (keyword(self.text.get(start..start + len).unwrap_or("")), len)
            }
            Some(b'$') if self.byte(1).is_some_and(is_variable) => {
                let name = self.rest().iter().skip(1).take_while(|&&b| is_variable(b)).count();
                (TokenKind::Variable, 1 + name)
            }
            Some(_) => self.symbol(),
        };
        self.pos = start + len;
        Token { kind, range: self.range(start, self.pos) }
    }

    /// The configuration string that starts here, up to the parenthesis that closes it; the parenthesis
    /// itself is not read.
    pub(crate) fn config(&mut self) -> RawConfig {
        let start = self.pos;
        let mut depth = 0usize;
        let mut open_quote = None;
        while let Some(b) = self.byte(0) {
            let here = self.pos;
            match b {
                b'(' => depth += 1,
                b')' if depth == 0 => {
                    return RawConfig { range: self.range(start, here), open_quote, closed: true };
                }
                b')' => depth -= 1,
                b'#' if self.at_line_start() => {
                    self.line_mark();
                    continue;
                }
                _ => {
                    let end = config::skip_opaque(self.text.as_bytes(), here);
                    if end.unclosed {
                        open_quote = Some(here as u32);
                    }
                    self.pos = end.pos.max(here + 1);
                    continue;
                }
            }
            self.pos += 1;
        }
        RawConfig { range: self.range(start, self.pos), open_quote, closed: false }
    }

    /// Continues from byte `offset`, to read text again in another way.
    pub(crate) fn rewind(&mut self, offset: u32) {
        self.pos = (offset as usize).min(self.text.len());
        let keep = self.comments.partition_point(|comment| comment.range.start < offset);
        self.comments.truncate(keep);
        let keep = self.marks.partition_point(|mark| mark.start < offset);
        self.marks.truncate(keep);
    }

    /// Where to continue after an unclosed configuration string from byte `offset`: after the first line that
    /// ends in a semicolon, or before the first one that looks like another statement. The text in between
    /// was most probably meant to be in the string.
    pub(crate) fn next_statement(&self, offset: u32) -> u32 {
        let mut at = offset as usize;
        loop {
            let rest = self.text.get(at..).unwrap_or("");
            let (line, len) = match rest.find(['\n', '\r']) {
                Some(len) => (rest.get(..len).unwrap_or(""), len + 1),
                None => return self.text.len() as u32,
            };
            let next = at + len;
            let following = self.text.get(next..).unwrap_or("");
            let following = following.trim_start_matches([' ', '\t']);
            if line.trim_end().ends_with(';') || starts_statement(following) {
                return next as u32;
            }
            at = next;
        }
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.pos..).unwrap_or_default()
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.pos + ahead).copied()
    }

    fn range(&self, start: usize, end: usize) -> TextRange {
        TextRange { start: start as u32, end: end as u32 }
    }

    fn at_line_start(&self) -> bool {
        let before = self.pos.checked_sub(1).and_then(|i| self.text.as_bytes().get(i));
        before.is_none_or(|&b| b == b'\n' || b == b'\r')
    }

    /// Skips white space, comments and line marks.
    fn skip_blank(&mut self) {
        loop {
            let start = self.pos;
            let kind = match (self.byte(0), self.byte(1)) {
                (Some(b), _) if config::is_space(b) => {
                    self.pos += 1;
                    continue;
                }
                (Some(b'/'), Some(b'/')) => CommentKind::Line,
                (Some(b'/'), Some(b'*')) => CommentKind::Block,
                (Some(b'#'), _) if self.at_line_start() => {
                    self.line_mark();
                    let range = self.range(start, self.pos);
                    self.comments.push(Comment { kind: CommentKind::Mark, range });
                    continue;
                }
                _ => return,
            };
            self.pos = if kind == CommentKind::Line {
                start + line_len(self.rest())
            } else {
                let end = config::skip_opaque(self.text.as_bytes(), start);
                if end.unclosed {
                    let at = self.range(start, start + 2).span(self.source);
                    let error = Diagnostic::warning(at, "comment is not closed");
                    self.errors.push(error.label("‘*/’ is missing"));
                }
                end.pos
            };
            self.comments.push(Comment { kind, range: self.range(start, self.pos) });
        }
    }

    /// Reads `# 12 "file"` or `#line 12 "file"`, up to the line end.
    fn line_mark(&mut self) {
        let start = self.pos;
        let len = line_len(self.rest());
        self.pos = start + len;
        let range = self.range(start, self.pos);
        match parse_mark(range.of(self.text)) {
            Some((line, file)) => {
                let file = match file {
                    None => self.marks.last().and_then(|mark| mark.file.clone()),
                    Some(name) => (!name.is_empty()).then(|| Arc::from(name)),
                };
                self.marks.push(LineMark { start: range.start, end: range.end, line, file });
            }
            None => {
                let error =
                    Diagnostic::error(range.span(self.source), "unknown preprocessor directive");
                self.errors.push(error.help(
                    "a line that starts with ‘#’ is a line mark, as in ‘# 12 \"file\"’; comments \
                     start with ‘//’",
                ));
            }
        }
    }

    fn ident_len(&self) -> usize {
        let rest = self.rest();
        let mut len = 0;
        loop {
            let part = rest.iter().skip(len).take_while(|&&b| is_ident(b)).count();
            len += part;
            // A slash belongs to the identifier when an identifier goes on after it.
            if rest.get(len) == Some(&b'/') && rest.get(len + 1).is_some_and(|&b| is_ident(b)) {
                len += 1;
            } else {
                return len;
            }
        }
    }

    fn symbol(&self) -> (TokenKind, usize) {
        let rest = self.rest();
        let fixed = [
            ("->", TokenKind::Arrow),
            ("=>", TokenKind::FatArrow),
            ("::", TokenKind::ColonColon),
            ("||", TokenKind::BarBar),
            ("...", TokenKind::Ellipsis),
        ];
        for (symbol, kind) in fixed {
            if rest.starts_with(symbol.as_bytes()) {
                return (kind, symbol.len());
            }
        }
        match self.text.get(self.pos..).and_then(|rest| rest.chars().next()) {
            Some(c) => (TokenKind::Char(c), c.len_utf8()),
            None => (TokenKind::End, 0),
        }
    }
}

/// True for a text that starts like a statement: with a closing brace, a keyword, or a name and text that can
/// only follow a name.
fn starts_statement(text: &str) -> bool {
    let len = text.bytes().take_while(|&b| is_ident(b) || b == b'/').count();
    let (name, rest) = text.split_at_checked(len).unwrap_or((text, ""));
    let rest = rest.trim_start_matches([' ', '\t']);
    text.starts_with('}')
        || keyword(name) != TokenKind::Ident
        || len > 0 && ["::", "->", "=>"].iter().any(|symbol| rest.starts_with(symbol))
}

/// The length of the line, without the line end.
fn line_len(rest: &[u8]) -> usize {
    rest.iter().position(|&b| b == b'\n' || b == b'\r').unwrap_or(rest.len())
}

/// Line and file of a line mark.
fn parse_mark(line: &str) -> Option<(u32, Option<String>)> {
    let blank = [' ', '\t'];
    let rest = line.strip_prefix('#')?.trim_start_matches(blank);
    let rest = match rest.strip_prefix("line") {
        Some(after) if after.starts_with(blank) => after.trim_start_matches(blank),
        _ => rest,
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = rest.split_at_checked(digits)?;
    if number.is_empty() {
        return None;
    }
    let number = number.parse().unwrap_or(u32::MAX);
    let rest = rest.trim_start_matches(blank);
    if !rest.starts_with('"') {
        return Some((number, None));
    }
    let end = config::skip_opaque(rest.as_bytes(), 0).pos;
    let name = config::unquote(rest.get(..end).unwrap_or(rest));
    Some((number, Some(String::from_utf8_lossy(&name).into_owned())))
}

fn keyword(word: &str) -> TokenKind {
    match word {
        "elementclass" => TokenKind::ElementClass,
        "require" => TokenKind::Require,
        "provide" => TokenKind::Provide,
        "define" => TokenKind::Define,
        _ => TokenKind::Ident,
    }
}

fn is_ident(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'@'
}

fn is_variable(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}
