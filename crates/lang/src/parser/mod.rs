//! The parser: from tokens to the syntax tree, by recursive descent.
//!
//! A file with errors still gives a tree of everything that could be read, and all its errors: after an error
//! the parser continues with the next statement. Nesting is limited by [`MAX_NESTING`], so no text can
//! exhaust the stack, and every byte is read a limited number of times.

mod ports;
mod recover;

use recover::max_parts;

use crate::ast::{
    Alternative, Body, Chain, Class, Compound, Declaration, Directive, DirectiveKind, Element,
    ElementClass, File, Formal, Group, Item, Link, Ports,
};
use crate::diagnostic::{Diagnostic, Findings};
use crate::lexer::{Lexer, TextRange, Token, TokenKind};
use crate::source::{LineMark, SourceId, SourceMap};

/// Compound elements and groups nested deeper than this are an error.
pub const MAX_NESTING: usize = 100;

/// The highest valid port number.
pub const MAX_PORT: u32 = 65_535;

/// This many unclosed parentheses are reported, each with a new start at the next statement; a further one
/// ends the file.
const MAX_UNCLOSED: usize = 16;

/// The result of parsing one text.
#[derive(Debug)]
pub struct Parsed {
    /// The tree of everything that could be read.
    pub file: File,
    /// The line marks, for [`SourceMap::set_marks`].
    pub marks: Vec<LineMark>,
    /// The diagnostics, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

/// Parses a text of the map and records its line marks there.
///
/// ```
/// use millrace_lang::{SourceMap, parser};
/// let mut map = SourceMap::default();
/// let source = map.add("router.click", "a :: Idle -> ] b :: Discard;\nc :: -> a;");
/// let (file, diagnostics) = parser::parse(&mut map, source);
/// assert_eq!(diagnostics.len(), 2);
/// assert_eq!(diagnostics[0].message, "syntax error near ‘]’");
/// assert_eq!(map.landmark(diagnostics[1].span.unwrap()), "router.click:2");
/// # let _ = file;
/// ```
pub fn parse(map: &mut SourceMap, source: SourceId) -> (File, Vec<Diagnostic>) {
    let text = map.get(source).map_or("", |source| source.text.as_str());
    let Parsed { file, marks, diagnostics } = parse_text(source, text);
    map.set_marks(source, marks);
    (file, diagnostics)
}

/// Parses `text`, which is called `source` in messages.
pub fn parse_text(source: SourceId, text: &str) -> Parsed {
    let (file, marks, findings) = parse_findings(source, text);
    Parsed { file, marks, diagnostics: findings.into_sorted() }
}

pub(crate) fn parse_findings(source: SourceId, text: &str) -> (File, Vec<LineMark>, Findings) {
    let mut findings = Findings::default();
    let text = if u32::try_from(text.len()).is_ok() {
        text
    } else {
        findings.push(Diagnostic::error(None, "configuration is larger than 4 GiB"));
        ""
    };
    let mut parser = Parser::new(source, text, findings);
    let mut items = Vec::new();
    loop {
        parser.items(&mut items);
        let token = parser.peek();
        if token.kind == TokenKind::End || parser.findings.is_full() {
            break;
        }
        // Only a closing bracket ends the statements before the text does.
        parser.unexpected(token);
        parser.bump();
    }
    let whole = parser.parts_left > 0;
    let Parser { mut lexer, mut findings, skipped, .. } = parser;
    if !whole {
        items.clear();
    }
    findings.append(std::mem::take(&mut lexer.errors));
    let file = File { source, items, comments: lexer.comments, skipped };
    (file, lexer.marks, findings)
}

/// A compound element or group counts as this many parts.
const BLOCK_PARTS: usize = 5;

/// What contains the statements being read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    File,
    Group,
    Compound,
}

struct Parser<'a> {
    text: &'a str,
    source: SourceId,
    lexer: Lexer<'a>,
    /// Tokens that are read and not yet consumed.
    ahead: [Option<Token>; 2],
    /// End of the last consumed token.
    last_end: u32,
    findings: Findings,
    skipped: Vec<TextRange>,
    scope: Scope,
    /// The number of open groups and compound elements.
    groups: usize,
    compounds: usize,
    unclosed: usize,
    /// The number of further parts that the tree may have.
    parts_left: usize,
    /// True when the last chain ends in `output` alone, or no chain has been read.
    ends_in_output: bool,
}

impl<'a> Parser<'a> {
    fn new(source: SourceId, text: &'a str, findings: Findings) -> Self {
        Self {
            text,
            source,
            lexer: Lexer::new(source, text),
            ahead: [None, None],
            last_end: 0,
            findings,
            skipped: Vec::new(),
            scope: Scope::File,
            groups: 0,
            compounds: 0,
            unclosed: 0,
            parts_left: max_parts(text.len()),
            ends_in_output: true,
        }
    }

    /// Reads statements up to the end, or to a closing bracket.
    fn items(&mut self, items: &mut Vec<Item>) {
        loop {
            let token = self.peek();
            match token.kind {
                TokenKind::Char(';') => {
                    self.bump();
                }
                TokenKind::Ident
                | TokenKind::Char('[' | '{' | '(')
                | TokenKind::Arrow
                | TokenKind::FatArrow => {
                    if let Some(chain) = self.chain() {
                        items.push(Item::Chain(chain));
                    }
                }
                TokenKind::ElementClass => {
                    let class = self.element_class();
                    items.extend(class.map(|class| Item::ElementClass(Box::new(class))));
                }
                TokenKind::Require => self.directive(DirectiveKind::Require, items),
                TokenKind::Provide => self.directive(DirectiveKind::Provide, items),
                TokenKind::Define => self.directive(DirectiveKind::Define, items),
                TokenKind::End | TokenKind::BarBar | TokenKind::Char('}' | ')') => return,
                _ => {
                    self.unexpected(token);
                    self.bump();
                    self.recover();
                }
            }
            if self.findings.is_full() {
                // Nobody reads on; the rest would only take time.
                return self.give_up();
            }
        }
    }

    /// Reads declarations and connections, with the semicolon after them.
    fn chain(&mut self) -> Option<Chain> {
        let mut elements: Vec<Element> = Vec::new();
        let mut first_stage = true;
        loop {
            let stage = elements.len();
            let mut broken = false;
            loop {
                match self.element(first_stage, elements.len() == stage) {
                    Ok(Some(element)) => elements.push(element),
                    Ok(None) => break,
                    Err(()) => {
                        broken = true;
                        break;
                    }
                }
                if !self.peek().is(',') {
                    break;
                }
                self.bump();
                if let Some(last) = elements.last_mut() {
                    last.link = Link::Comma;
                }
            }
            let link = match self.peek().kind {
                TokenKind::Arrow if !broken => Link::Arrow,
                TokenKind::FatArrow if !broken => Link::FatArrow,
                _ => Link::End,
            };
            if let Some(last) = elements.last_mut() {
                last.link = link;
            }
            if broken {
                self.recover();
                break;
            }
            if elements.len() == stage || link == Link::End {
                self.end_of_statement();
                break;
            }
            let arrow = self.bump();
            let implicit = elements.get(stage..).unwrap_or_default().iter();
            if !first_stage && implicit.clone().any(|e| matches!(e.body, Body::Implicit)) {
                let error = "implicit ports used in the middle of a chain";
                self.error(arrow.range, error).help("end the statement before it with ‘;’");
            }
            first_stage = false;
        }
        self.ends_in_output = self.is_output(&elements);
        elements.shrink_to_fit();
        (!elements.is_empty()).then_some(Chain { elements })
    }

    /// Reads one element of a chain; `None` when there is none, which is an error only where the chain needs
    /// one.
    fn element(&mut self, first_stage: bool, first: bool) -> Result<Option<Element>, ()> {
        let inputs = self.ports();
        let start = self.peek();
        let mut outputs = None;
        let body = match start.kind {
            TokenKind::Ident => {
                self.bump();
                self.named(start)?
            }
            TokenKind::Char('{') => {
                let compound = self.compound();
                self.declaration(None, Some(Class::Compound(Box::new(compound))))?
            }
            TokenKind::Char('(') => self.group(None)?,
            _ if self.implicit(start, inputs.is_some(), first_stage, first) => Body::Implicit,
            _ => return self.no_element(start, inputs.as_deref(), first_stage, first),
        };
        if !matches!(body, Body::Implicit) {
            outputs = self.ports();
        }
        self.count(1, start.range);
        let end = TextRange { start: self.last_end, end: self.last_end };
        let range = match &inputs {
            Some(ports) => ports.range.to(end),
            None if matches!(body, Body::Implicit) => {
                let at = if first_stage { start.range.start } else { self.last_end };
                TextRange { start: at, end: at }
            }
            None => start.range.to(end),
        };
        Ok(Some(Element { inputs, body, outputs, link: Link::End, range }))
    }

    /// True when nothing is written in place of an element, and `input` or `output` is meant.
    fn implicit(&mut self, next: Token, ports: bool, first_stage: bool, first: bool) -> bool {
        if self.scope == Scope::File {
            return false;
        }
        match next.kind {
            TokenKind::Arrow | TokenKind::FatArrow => {
                let implicit = first_stage && (ports || first);
                if implicit && !ports && !self.ends_in_output {
                    let arrow = next.range.of(self.text);
                    let message =
                        format!("suggest ‘input {arrow}’ or ‘[0] {arrow}’ to start connection");
                    self.findings.push(
                        Diagnostic::warning(next.range.span(self.source), message)
                            .label("this is a new connection from ‘input’"),
                    );
                }
                implicit
            }
            TokenKind::Char(',') => ports,
            TokenKind::ColonColon => false,
            _ => !first_stage && (ports || first),
        }
    }

    /// Reports that there is no element at `next`.
    fn no_element(
        &mut self,
        next: Token,
        ports: Option<&Ports>,
        first_stage: bool,
        first: bool,
    ) -> Result<Option<Element>, ()> {
        if let Some(ports) = ports {
            self.error(ports.range, "stranded port ignored").label("no element follows");
        }
        if !first || (self.scope != Scope::File && first_stage) {
            return Ok(None);
        }
        self.unexpected(next);
        Err(())
    }

    /// What follows an identifier that starts an element.
    fn named(&mut self, name: Token) -> Result<Body, ()> {
        match self.peek().kind {
            TokenKind::ColonColon => {
                self.bump();
                if self.peek().is('(') {
                    return self.group(Some(name.range));
                }
                let class = self.class()?;
                self.declaration(Some(name.range), Some(class))
            }
            TokenKind::Char('(') => self.declaration(Some(name.range), None),
            _ => Ok(Body::Name(name.range)),
        }
    }

    /// Reads the text after a class: an optional configuration.
    fn declaration(&mut self, name: Option<TextRange>, class: Option<Class>) -> Result<Body, ()> {
        let config = if self.peek().is('(') { Some(self.config()?) } else { None };
        Ok(Body::Declaration(Box::new(Declaration { name, class, config })))
    }

    fn class(&mut self) -> Result<Class, ()> {
        let token = self.peek();
        match token.kind {
            TokenKind::Ident => {
                self.bump();
                Ok(Class::Name(token.range))
            }
            TokenKind::Char('{') => Ok(Class::Compound(Box::new(self.compound()))),
            _ => {
                let found = self.describe(token);
                self.error(token.range, "missing element type in declaration")
                    .label(format!("expected an element class, found {found}"));
                Err(())
            }
        }
    }

    /// Reads `(` and the configuration string after it, with the `)`.
    fn config(&mut self) -> Result<TextRange, ()> {
        let open = self.bump();
        let raw = self.lexer.config();
        if raw.closed {
            self.last_end = raw.range.end;
            self.bump();
            return Ok(raw.range);
        }
        let mut error = Diagnostic::error(open.range.span(self.source), "expected ‘)’")
            .label("this configuration string is not closed");
        if let Some(quote) = raw.open_quote {
            let range = TextRange { start: quote, end: quote + 1 };
            error = error.remark(range.span(self.source), "this quotation mark has no counterpart");
        }
        self.findings.push(error);
        self.unclosed += 1;
        if self.unclosed <= MAX_UNCLOSED {
            let next = self.lexer.next_statement(open.range.end);
            self.lexer.rewind(next);
            self.last_end = open.range.end;
            return Ok(TextRange { start: open.range.end, end: next });
        }
        self.last_end = raw.range.end;
        Err(())
    }

    /// Reads `( statements )`.
    fn group(&mut self, name: Option<TextRange>) -> Result<Body, ()> {
        let open = self.bump();
        let mut items = Vec::new();
        let close = self.nested(open, Scope::Group, "group", |parser| {
            parser.items(&mut items);
            parser.close(open, ')', &mut items)
        });
        let next = self.peek();
        let message = match next.kind {
            TokenKind::ColonColon => "a group cannot be declared",
            TokenKind::Char('(') => "configuration string ignored on element group",
            _ => {
                let range = open.range.to(close);
                return Ok(Body::Group(Box::new(Group { name, range, items })));
            }
        };
        self.error(next.range, message).help("a compound element, in braces, can");
        self.bump();
        Err(())
    }

    /// Reads `{ alternatives }`.
    fn compound(&mut self) -> Compound {
        let open = self.bump();
        let mut alternatives: Vec<Alternative> = Vec::new();
        let mut extends = None;
        let close = self.nested(open, Scope::Compound, "compound element", |parser| {
            loop {
                if let Some(dots) = parser.take(TokenKind::Ellipsis) {
                    extends = Some(dots.range);
                    if alternatives.is_empty() || !parser.peek().is('}') {
                        let error = "‘...’ should occur last, after one or more compounds";
                        parser.error(dots.range, error);
                    }
                } else {
                    alternatives.push(parser.alternative());
                }
                match parser.peek().kind {
                    TokenKind::BarBar => {
                        parser.bump();
                    }
                    _ => {
                        let last = alternatives.last_mut().map(|last| &mut last.items);
                        return parser.close(open, '}', last.unwrap_or(&mut Vec::new()));
                    }
                }
            }
        });
        if alternatives.is_empty() {
            let range = TextRange { start: open.range.end, end: open.range.end };
            alternatives.push(Alternative { formals: Vec::new(), bar: None, items: vec![], range });
        }
        Compound { range: open.range.to(close), alternatives, extends }
    }

    fn alternative(&mut self) -> Alternative {
        let start = TextRange { start: self.last_end, end: self.last_end };
        let (formals, bar) = self.formals();
        let mut items = Vec::new();
        self.ends_in_output = true;
        self.items(&mut items);
        Alternative { formals, bar, items, range: start.to(self.before_next()) }
    }

    /// Reads `$a, KEY $b |`; the range is that of the bar.
    fn formals(&mut self) -> (Vec<Formal>, Option<TextRange>) {
        let mut formals = Vec::new();
        loop {
            let token = self.peek();
            let formal = match token.kind {
                TokenKind::Variable => Formal { keyword: None, variable: token.range },
                TokenKind::Ident if self.peek_second().kind == TokenKind::Variable => {
                    self.bump();
                    Formal { keyword: Some(token.range), variable: self.peek().range }
                }
                TokenKind::Char('|') => {
                    return (formals, Some(self.bump().range));
                }
                _ => {
                    if !formals.is_empty() {
                        self.error(token.range, "expected variable");
                    }
                    return (formals, None);
                }
            };
            self.bump();
            formals.push(formal);
            let token = self.peek();
            if token.is(',') {
                self.bump();
            } else if !token.is('|') {
                self.error(token.range, "expected ‘,’ or ‘|’").label("the parameters end with ‘|’");
                return (formals, None);
            }
        }
    }

    /// Reads the contents of brackets, one level deeper; skips them if that is too deep.
    fn nested(
        &mut self,
        open: Token,
        scope: Scope,
        what: &str,
        read: impl FnOnce(&mut Self) -> TextRange,
    ) -> TextRange {
        if self.groups + self.compounds >= MAX_NESTING {
            self.error(open.range, format!("maximum {what} nesting depth exceeded"))
                .label(format!("nested more than {MAX_NESTING} deep"));
            return self.skip_nested();
        }
        self.count(BLOCK_PARTS, open.range);
        let before = (self.scope, self.ends_in_output);
        let (groups, compounds) = (self.groups, self.compounds);
        match scope {
            Scope::Compound => self.compounds += 1,
            _ => self.groups += 1,
        }
        (self.scope, self.ends_in_output) = (scope, true);
        let close = read(self);
        (self.groups, self.compounds) = (groups, compounds);
        (self.scope, self.ends_in_output) = before;
        close
    }

    fn element_class(&mut self) -> Option<ElementClass> {
        let start = self.bump();
        let token = self.peek();
        if token.kind != TokenKind::Ident {
            let found = self.describe(token);
            self.error(token.range, "expected element type name").label(format!("found {found}"));
            if token.is('{') {
                self.compound();
            }
            self.recover();
            return None;
        }
        self.bump();
        let (name, next) = (token.range, self.peek());
        let class = match next.kind {
            TokenKind::Char('{') => Class::Compound(Box::new(self.compound())),
            TokenKind::Ident => {
                self.bump();
                Class::Name(next.range)
            }
            _ => {
                self.unexpected(next).label("expected a compound or the name of a class");
                self.skipped.push(name);
                self.recover();
                return None;
            }
        };
        let end = TextRange { start: self.last_end, end: self.last_end };
        Some(ElementClass { range: start.range.to(end), name, class })
    }

    fn directive(&mut self, kind: DirectiveKind, items: &mut Vec<Item>) {
        let start = self.bump();
        let next = self.peek();
        if !next.is('(') {
            let found = self.describe(next);
            self.error(next.range, "expected ‘(’").label(format!("found {found}"));
            return self.recover();
        }
        let Ok(config) = self.config() else { return };
        let range = TextRange { start: start.range.start, end: self.last_end };
        items.push(Item::Directive(Directive { kind, range, config }));
    }

    /// True for a chain whose last stage is only `output`.
    fn is_output(&self, elements: &[Element]) -> bool {
        let [before @ .., last] = elements else { return false };
        if before.last().is_some_and(|element| element.link == Link::Comma) {
            return false;
        }
        match &last.body {
            Body::Implicit => true,
            Body::Name(name) => name.of(self.text) == "output",
            _ => false,
        }
    }

    fn peek(&mut self) -> Token {
        let lexer = &mut self.lexer;
        *self.ahead[0].get_or_insert_with(|| lexer.next())
    }

    fn peek_second(&mut self) -> Token {
        self.peek();
        let lexer = &mut self.lexer;
        *self.ahead[1].get_or_insert_with(|| lexer.next())
    }

    fn bump(&mut self) -> Token {
        let token = self.peek();
        self.ahead = [self.ahead[1].take(), None];
        self.last_end = token.range.end;
        token
    }

    fn take(&mut self, kind: TokenKind) -> Option<Token> {
        (self.peek().kind == kind).then(|| self.bump())
    }

    /// The empty range before the next token.
    fn before_next(&mut self) -> TextRange {
        let start = self.peek().range.start;
        TextRange { start, end: start }
    }
}
