//! The parser's error messages, and how it continues after errors.

use super::{MAX_UNCLOSED, Parser};
use crate::ast::{Item, TextRange};
use crate::diagnostic::{Diagnostic, Findings, shorten};
use crate::lexer::{Token, TokenKind};

impl Parser<'_> {
    /// Reads the bracket that closes `open`. Statements on the way, after an unmatched closing bracket, go to
    /// `items`.
    pub(super) fn close(&mut self, open: Token, bracket: char, items: &mut Vec<Item>) -> TextRange {
        loop {
            let token = self.peek();
            let ends = match token.kind {
                TokenKind::Char(c) if c == bracket => return self.bump().range,
                TokenKind::End => true,
                // What closes something further out ends this here.
                TokenKind::Char('}') | TokenKind::BarBar => self.compounds > 0,
                TokenKind::Char(')') => self.groups > 0,
                _ => false,
            };
            if ends {
                let found = self.describe(token);
                let opened = open.range.span(self.source);
                let message = format!("expected ‘{bracket}’");
                self.findings.push(
                    Diagnostic::error(token.range.span(self.source), message)
                        .label(format!("found {found}"))
                        .remark(opened, "to close this bracket"),
                );
                return TextRange { start: self.last_end, end: self.last_end };
            }
            self.unexpected(token);
            self.bump();
            self.items(items);
        }
    }

    /// Skips everything up to the bracket that closes the last consumed one.
    pub(super) fn skip_nested(&mut self) -> TextRange {
        let mut depth = 0usize;
        loop {
            let token = self.bump();
            match token.kind {
                TokenKind::Char('{' | '(') => depth += 1,
                TokenKind::Char('}' | ')') => match depth.checked_sub(1) {
                    Some(less) => depth = less,
                    None => return token.range,
                },
                TokenKind::End => return token.range,
                _ => self.skip(token),
            }
        }
    }

    /// Checks what follows a chain: its semicolon, or the start of another statement.
    pub(super) fn end_of_statement(&mut self) {
        let token = self.peek();
        match token.kind {
            TokenKind::Char(';') => {
                self.bump();
            }
            TokenKind::Ident
            | TokenKind::Char('{' | '}' | '[' | ')')
            | TokenKind::BarBar
            | TokenKind::ElementClass
            | TokenKind::Require
            | TokenKind::Provide
            | TokenKind::Define
            | TokenKind::End => {}
            _ => {
                self.unexpected(token);
                self.bump();
                self.recover();
            }
        }
    }

    /// Continues after an error: skips the rest of the statement. A statement ends with its semicolon, before
    /// a bracket that closes what contains it, and before a word that can only start another one: a keyword,
    /// or an identifier at the start of a line.
    pub(super) fn recover(&mut self) {
        let mut braces = 0usize;
        loop {
            let token = self.peek();
            match token.kind {
                TokenKind::End => return,
                TokenKind::Char(';') if braces == 0 => {
                    self.bump();
                    return;
                }
                TokenKind::ElementClass
                | TokenKind::Require
                | TokenKind::Provide
                | TokenKind::Define => return,
                TokenKind::Ident if braces == 0 && self.starts_line(token) => return,
                TokenKind::BarBar | TokenKind::Char('}') if braces == 0 => return,
                TokenKind::Char(')') if braces == 0 && self.groups > 0 => return,
                TokenKind::Char('(') => {
                    self.skip_config();
                    continue;
                }
                TokenKind::Char('{') => braces += 1,
                TokenKind::Char('}') => braces -= 1,
                _ => {}
            }
            self.skip(token);
            self.bump();
        }
    }

    /// Skips what may be a configuration string; only its parenthesis if that is not closed.
    pub(super) fn skip_config(&mut self) {
        let open = self.bump();
        if self.unclosed >= MAX_UNCLOSED {
            return;
        }
        if self.lexer.config().closed {
            self.bump();
        } else {
            self.unclosed += 1;
            self.lexer.rewind(open.range.end);
        }
    }

    pub(super) fn skip(&mut self, token: Token) {
        if token.kind == TokenKind::Ident {
            self.skipped.push(token.range);
        }
    }

    /// True when there is only space between the start of the line and the token.
    pub(super) fn starts_line(&self, token: Token) -> bool {
        let between = TextRange { start: self.last_end, end: token.range.start };
        between.of(self.text).contains(['\n', '\r'])
    }

    /// Treats the rest as the end of the text.
    pub(super) fn give_up(&mut self) {
        self.lexer.rewind(self.text.len() as u32);
        self.ahead = [None, None];
    }

    /// Counts parts of the tree; too many of them end the text.
    pub(super) fn count(&mut self, parts: usize, place: TextRange) {
        let before = self.parts_left;
        self.parts_left = before.saturating_sub(parts);
        if self.parts_left == 0 && before > 0 {
            let most = max_parts(self.text.len());
            self.error(place, "configuration is too large")
                .label(format!("more than {most} elements, compounds and groups up to here"));
            self.give_up();
        }
    }

    /// Reports an error; the result accepts a label and help.
    pub(super) fn error(&mut self, range: TextRange, message: impl Into<String>) -> Report<'_> {
        let diagnostic = Diagnostic::error(range.span(self.source), message);
        Report { findings: &mut self.findings, diagnostic: Some(diagnostic) }
    }

    pub(super) fn unexpected(&mut self, token: Token) -> Report<'_> {
        let message = match token.kind {
            TokenKind::End => "syntax error at end of file".to_owned(),
            TokenKind::Char(c) if c.is_control() => {
                format!("syntax error near ‘{}’", c.escape_default())
            }
            _ => format!("syntax error near ‘{}’", shorten(token.range.of(self.text))),
        };
        self.error(token.range, message)
    }

    /// The token in the form for a message.
    pub(super) fn describe(&self, token: Token) -> String {
        match token.kind {
            TokenKind::End => "the end of the file".to_owned(),
            TokenKind::Char(c) => format!("‘{}’", c.escape_debug()),
            _ => format!("‘{}’", shorten(token.range.of(self.text))),
        }
    }
}

/// An error that is being built.
pub(super) struct Report<'p> {
    findings: &'p mut Findings,
    diagnostic: Option<Diagnostic>,
}

impl Report<'_> {
    pub(super) fn label(mut self, label: impl Into<String>) -> Self {
        self.diagnostic = self.diagnostic.take().map(|d| d.label(label));
        self
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.diagnostic = self.diagnostic.take().map(|d| d.help(help));
        self
    }
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        if let Some(diagnostic) = self.diagnostic.take() {
            self.findings.push(diagnostic);
        }
    }
}

/// The maximum number of parts of a text's tree: more than anyone writes, and in proportion to the text, so
/// that a tree needs no more than a small multiple of its memory.
pub(super) fn max_parts(len: usize) -> usize {
    100_000 + len / 8
}
