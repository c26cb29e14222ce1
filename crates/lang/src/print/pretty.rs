//! The pretty printer behind `millrace fmt`: formats a syntax tree.
//!
//! The text keeps its meaning: configuration strings and comments do not change, and neither do names, ports
//! and their order. Layout follows a few rules, so that formatting a formatted text changes nothing:
//!
//! - one statement per line, with its semicolon; blank lines between statements stay, as one;
//! - a chain stays on one line if it fits and its author wrote it so; otherwise each arrow starts a line,
//!   indented;
//! - the contents of brackets are indented on lines of their own, unless they fit on the line and the author
//!   wrote them so.

use crate::ast::{
    Alternative, Body, Chain, Class, Comment, CommentKind, Compound, DirectiveKind, Element, File,
    Item, Link, Ports, TextRange,
};
use crate::diagnostic::Diagnostic;
use crate::parser;
use crate::source::{SourceId, SourceMap};

/// Maximum line length in characters, if there is a place to break the line.
const WIDTH: usize = 100;

/// Spaces per level of indentation.
const INDENT: usize = 4;

/// Formats a text of the map.
///
/// # Errors
/// The text has syntax errors: text that was not understood cannot be kept.
///
/// ```
/// use millrace_lang::{SourceMap, format};
/// let mut map = SourceMap::default();
/// let source = map.add("a.click", "
/// elementclass Q{$n|input->Queue($n)->output} // a short one
/// FromDevice(eth0)->q::Q( 10 )
///    ->ToDevice(eth1)");
/// assert_eq!(format(&mut map, source).unwrap(), "\
/// elementclass Q { $n | input -> Queue($n) -> output } // a short one
/// FromDevice(eth0)
///     -> q :: Q( 10 )
///     -> ToDevice(eth1);
/// ");
/// ```
pub fn format(map: &mut SourceMap, source: SourceId) -> Result<String, Vec<Diagnostic>> {
    let (file, diagnostics) = parser::parse(map, source);
    if diagnostics.iter().any(Diagnostic::is_error) {
        return Err(diagnostics);
    }
    let text = map.get(source).map_or("", |source| source.text.as_str());
    Ok(print_file(&file, text))
}

/// Prints a tree; `text` is its source.
pub fn print_file(file: &File, text: &str) -> String {
    let mut printer = Printer {
        text,
        comments: &file.comments,
        next: 0,
        out: String::with_capacity(text.len()),
        line: 0,
        block: 0,
        indent: 0,
        read: 0,
        flat: false,
        failed: false,
    };
    printer.items(&file.items, text.len() as u32);
    printer.out
}

struct Printer<'a> {
    text: &'a str,
    comments: &'a [Comment],
    /// The comment to print next.
    next: usize,
    out: String,
    /// The start of the current line in `out`.
    line: usize,
    /// The start of the first statement of the current block in `out`.
    block: usize,
    /// The current level of indentation.
    indent: usize,
    /// End of what has been printed, in `text`.
    read: u32,
    /// True while trying to print on one line.
    flat: bool,
    /// True when that does not work.
    failed: bool,
}

impl Printer<'_> {
    /// Prints statements, each on a line of its own, and the comments among them up to `end`.
    fn items(&mut self, items: &[Item], end: u32) {
        for (index, item) in items.iter().enumerate() {
            let range = item.range();
            self.comment_lines(range.start);
            self.start_line(range.start);
            self.item(item);
            if !matches!(item, Item::ElementClass(class) if matches!(class.class, Class::Compound(_)))
            {
                self.push(";");
            }
            self.read = self.read.max(range.end);
            let limit = items.get(index + 1).map_or(end, |next| next.range().start);
            self.trailing_comments(limit);
            self.out.push('\n');
            self.line = self.out.len();
        }
        self.comment_lines(end);
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Chain(chain) => self.chain(chain),
            Item::ElementClass(class) => {
                self.push("elementclass ");
                self.token(class.name);
                self.push(" ");
                self.class(&class.class);
            }
            Item::Directive(directive) => {
                self.push(match directive.kind {
                    DirectiveKind::Require => "require",
                    DirectiveKind::Provide => "provide",
                    DirectiveKind::Define => "define",
                });
                self.config(directive.config);
            }
        }
    }

    /// Prints a chain on one line, or with a line for each arrow.
    fn chain(&mut self, chain: &Chain) {
        if self.was_one_line(chain) && self.try_flat(|printer| printer.chain_as(chain, false)) {
            return;
        }
        self.chain_as(chain, true);
    }

    fn chain_as(&mut self, chain: &Chain, broken: bool) {
        let indent = self.indent;
        for (index, element) in chain.elements.iter().enumerate() {
            self.indent = indent + usize::from(index > 0);
            if let Some(before) = index.checked_sub(1).and_then(|i| chain.elements.get(i)) {
                self.link(before, element, index + 1 == chain.elements.len(), broken);
            }
            self.element(element);
            if self.failed {
                break;
            }
        }
        self.indent = indent;
    }

    /// Prints the text between two elements.
    fn link(&mut self, before: &Element, element: &Element, last: bool, broken: bool) {
        let arrow = match before.link {
            Link::Arrow => "->",
            Link::FatArrow => "=>",
            Link::Comma => {
                self.push(",");
                let comments = broken && self.comments_before(element.range.start);
                let break_line = broken && (comments || self.newline_before(element));
                return if break_line { self.break_line() } else { self.push(" ") };
            }
            Link::End => return,
        };
        let nothing = |e: &Element| matches!(e.body, Body::Implicit) && e.inputs.is_none();
        if nothing(before) {
            // The chain starts with the arrow.
        } else if broken && !(last && nothing(element)) {
            self.comments_before(element.range.start);
            self.break_line();
        } else {
            self.push(" ");
        }
        self.push(arrow);
        if !nothing(element) {
            self.push(" ");
        }
    }

    fn element(&mut self, element: &Element) {
        if let Some(ports) = &element.inputs {
            self.ports(ports);
        }
        let implicit = matches!(element.body, Body::Implicit);
        if element.inputs.is_some() && !implicit {
            self.push(" ");
        }
        match &element.body {
            Body::Implicit => {}
            Body::Name(name) => self.token(*name),
            Body::Group(group) => {
                if let Some(name) = group.name {
                    self.token(name);
                    self.push(" :: ");
                }
                self.group(group.range, &group.items);
            }
            Body::Declaration(declaration) => {
                if let Some(name) = declaration.name {
                    self.token(name);
                }
                if let Some(class) = &declaration.class {
                    if declaration.name.is_some() {
                        self.push(" :: ");
                    }
                    self.class(class);
                }
                if let Some(config) = declaration.config {
                    self.config(config);
                }
            }
        }
        if let Some(ports) = &element.outputs {
            self.push(" ");
            self.ports(ports);
        }
    }

    fn ports(&mut self, ports: &Ports) {
        self.flush(ports.range.start);
        let mut list: Vec<String> = Vec::with_capacity(ports.ranges.len());
        for range in &ports.ranges {
            list.push(if range.first == range.last {
                range.first.to_string()
            } else {
                format!("{}-{}", range.first, range.last)
            });
        }
        let open = if ports.open && !list.is_empty() { "," } else { "" };
        self.push(&format!("[{}{open}]", list.join(", ")));
        self.read = self.read.max(ports.range.end);
    }

    fn class(&mut self, class: &Class) {
        match class {
            Class::Name(name) => self.token(*name),
            Class::Compound(compound) => self.compound(compound),
        }
    }

    /// Prints a compound class on one line, or with its statements on lines of their own.
    fn compound(&mut self, compound: &Compound) {
        self.flush(compound.range.start);
        if self.has_one_line(compound) {
            let flat = self.try_flat(|printer| {
                printer.push("{");
                for alternative in &compound.alternatives {
                    printer.formals(alternative);
                    printer.flat_items(&alternative.items, " ");
                }
                printer.push(" }");
                printer.closed(compound.range);
            });
            if flat {
                return;
            }
        }
        if self.flat {
            self.failed = true;
            return;
        }
        self.push("{");
        self.read = self.read.max(compound.range.start + 1);
        for (index, alternative) in compound.alternatives.iter().enumerate() {
            if index > 0 {
                self.write_indent();
                self.push("||");
            }
            self.indent += 1;
            self.read = self.read.max(alternative.range.start);
            self.block(alternative);
            self.indent -= 1;
        }
        if let Some(dots) = compound.extends {
            self.start_line_at("||");
            self.indent += 1;
            self.block = self.out.len();
            self.comment_lines(dots.start);
            self.start_line_at("...");
            self.read = self.read.max(dots.end);
            self.comment_lines(compound.range.end);
            self.indent -= 1;
        }
        self.write_indent();
        self.push("}");
        self.closed(compound.range);
    }

    /// Prints one definition of a compound class: its parameters on the line of the brace or bar before it,
    /// unless comments come between, and the statements on lines of their own.
    fn block(&mut self, alternative: &Alternative) {
        let formal = alternative.formals.first();
        let formal = formal.map(|formal| formal.keyword.unwrap_or(formal.variable));
        let first = formal.or(alternative.bar);
        if first.is_none_or(|first| self.has_comment_before(first.start)) {
            self.end_line();
        }
        if let Some(first) = first {
            self.comment_lines(first.start);
            if self.out.len() == self.line {
                self.write_indent();
            }
            self.formals(alternative);
            let first = alternative.items.first();
            let limit = first.map_or(alternative.range.end, |item| item.range().start);
            self.trailing_comments(limit);
            self.end_line();
        }
        self.items(&alternative.items, alternative.range.end);
    }

    /// Ends the line; blank lines do not follow it.
    fn end_line(&mut self) {
        self.out.push('\n');
        self.line = self.out.len();
        self.block = self.out.len();
    }

    /// Prints `$a, KEY $b |`, with a space before it if there is text before it.
    fn formals(&mut self, alternative: &Alternative) {
        for (index, formal) in alternative.formals.iter().enumerate() {
            self.push(if index > 0 { "," } else { "" });
            self.space();
            if let Some(keyword) = formal.keyword {
                self.token(keyword);
                self.push(" ");
            }
            self.token(formal.variable);
        }
        if let Some(bar) = alternative.bar {
            self.space();
            self.token(bar);
        }
    }

    /// Whether a compound class may be printed on one line: a single definition, whose statements begin on
    /// the line of its brace or of the bar after its parameters.
    fn has_one_line(&self, compound: &Compound) -> bool {
        let [only] = compound.alternatives.as_slice() else { return false };
        let opening = only.bar.map_or(compound.range.start, |bar| bar.start);
        let range = TextRange { start: opening, end: compound.range.end };
        compound.extends.is_none() && self.opens_on_line(range)
    }

    fn group(&mut self, range: TextRange, items: &[Item]) {
        self.flush(range.start);
        if self.opens_on_line(range) {
            let flat = self.try_flat(|printer| {
                printer.push("(");
                printer.flat_items(items, "");
                printer.push(")");
                printer.closed(range);
            });
            if flat {
                return;
            }
        }
        if self.flat {
            self.failed = true;
            return;
        }
        self.push("(");
        self.read = self.read.max(range.start + 1);
        self.out.push('\n');
        self.line = self.out.len();
        self.block = self.out.len();
        self.indent += 1;
        self.items(items, range.end.saturating_sub(1));
        self.indent -= 1;
        self.write_indent();
        self.push(")");
        self.closed(range);
    }

    /// Prints statements on one line, with `before` in front of the first.
    fn flat_items(&mut self, items: &[Item], before: &str) {
        for (index, item) in items.iter().enumerate() {
            if self.failed {
                return;
            }
            self.push(if index > 0 { "; " } else { before });
            self.item(item);
        }
    }

    /// Called after the bracket that closes `range`: its contents must have been printed.
    fn closed(&mut self, range: TextRange) {
        if self.flat && self.has_comment_before(range.end) {
            self.failed = true;
        }
        self.read = self.read.max(range.end);
    }

    fn config(&mut self, range: TextRange) {
        self.flush(range.start);
        let text = range.of(self.text);
        if self.flat && text.contains(['\n', '\r']) {
            self.failed = true;
            return;
        }
        self.push("(");
        self.push(text);
        self.push(")");
        self.find_line();
        self.read = self.read.max(range.end);
    }

    fn token(&mut self, range: TextRange) {
        self.flush(range.start);
        let text = range.of(self.text);
        self.push(text);
        self.read = self.read.max(range.end);
    }

    /// Runs `print` and keeps its output if that fits on the line, without a comment.
    fn try_flat(&mut self, print: impl FnOnce(&mut Self)) -> bool {
        if self.flat {
            print(self);
            return true;
        }
        let before = (self.out.len(), self.next, self.read);
        (self.flat, self.failed) = (true, false);
        print(self);
        let failed = std::mem::take(&mut self.failed);
        self.flat = false;
        if failed {
            self.out.truncate(before.0);
            (self.next, self.read) = (before.1, before.2);
        }
        !failed
    }

    fn push(&mut self, text: &str) {
        if self.flat && self.out.len() - self.line + text.len() > 4 * WIDTH {
            self.failed = true;
            return;
        }
        self.out.push_str(text);
        if self.flat && self.column() > WIDTH {
            self.failed = true;
        }
    }

    fn space(&mut self) {
        if !self.out.ends_with([' ', '\n']) && self.out.len() > self.line {
            self.push(" ");
        }
    }

    /// Characters on the current line.
    fn column(&self) -> usize {
        self.out.get(self.line..).map_or(0, |line| line.chars().count())
    }

    fn break_line(&mut self) {
        if self.flat {
            self.failed = true;
            return;
        }
        self.trim();
        self.out.push('\n');
        self.line = self.out.len();
        self.write_indent();
    }

    /// Records the start of the current line after a text that contains line ends.
    fn find_line(&mut self) {
        let tail = self.out.get(self.line..).unwrap_or("");
        self.line += tail.rfind('\n').map_or(0, |end| end + 1);
    }

    fn trim(&mut self) {
        let len = self.out.trim_end_matches(' ').len();
        self.out.truncate(len);
    }

    fn write_indent(&mut self) {
        self.out.extend(std::iter::repeat_n(' ', INDENT * self.indent));
    }

    /// Starts a line for the text at `start`, after a blank one if there is one in the source.
    fn start_line(&mut self, start: u32) {
        let between = TextRange { start: self.read, end: start }.of(self.text);
        if count_line_ends(between) > 1 && self.out.len() > self.block {
            self.out.push('\n');
        }
        self.line = self.out.len();
        self.write_indent();
    }

    fn start_line_at(&mut self, text: &str) {
        self.write_indent();
        self.push(text);
        self.out.push('\n');
        self.line = self.out.len();
    }

    fn has_comment_before(&self, at: u32) -> bool {
        self.comments.get(self.next).is_some_and(|comment| comment.range.start < at)
    }

    fn take_comment(&mut self, before: u32) -> Option<Comment> {
        let comment = *self.comments.get(self.next).filter(|c| c.range.start < before)?;
        self.next += 1;
        Some(comment)
    }

    fn write_comment(&mut self, comment: Comment) {
        self.out.push_str(comment.range.of(self.text).trim_end());
        self.find_line();
        self.read = self.read.max(comment.range.end);
    }

    /// Prints the comments before `end`, one per line.
    fn comment_lines(&mut self, end: u32) {
        while let Some(comment) = self.take_comment(end) {
            self.start_line(comment.range.start);
            if comment.kind == CommentKind::Mark {
                self.out.truncate(self.line);
            }
            self.write_comment(comment);
            self.out.push('\n');
            self.line = self.out.len();
        }
    }

    /// Prints the comments that follow the last printed text on its line, before `limit`.
    fn trailing_comments(&mut self, limit: u32) {
        while let Some(&comment) = self.comments.get(self.next) {
            let between = TextRange { start: self.read, end: comment.range.start };
            if comment.range.start >= limit
                || comment.kind == CommentKind::Mark
                || between.of(self.text).contains(['\n', '\r'])
            {
                return;
            }
            self.next += 1;
            self.out.push(' ');
            self.write_comment(comment);
            if comment.kind == CommentKind::Line {
                return;
            }
        }
    }

    /// Prints the comments before the token at `at`, and continues where it can be.
    fn flush(&mut self, at: u32) {
        if !self.has_comment_before(at) {
            return;
        }
        self.indent += 1;
        if self.comments_before(at) {
            self.break_line();
        } else if !self.flat {
            self.out.push(' ');
        }
        self.indent -= 1;
    }

    /// Prints comments in the middle of a statement; true when the line must end after them.
    fn comments_before(&mut self, at: u32) -> bool {
        let mut must_break = false;
        while self.has_comment_before(at) {
            if self.flat {
                self.failed = true;
                return false;
            }
            let Some(comment) = self.take_comment(at) else { break };
            let between = TextRange { start: self.read, end: comment.range.start };
            let own_line = between.of(self.text).contains(['\n', '\r']);
            if comment.kind == CommentKind::Mark {
                self.break_line();
                self.out.truncate(self.line);
            } else if must_break || own_line {
                self.break_line();
            } else {
                self.space();
            }
            self.write_comment(comment);
            must_break = comment.kind != CommentKind::Block;
        }
        must_break
    }

    /// True when the author started a line with this element or the arrow before it.
    fn newline_before(&self, element: &Element) -> bool {
        let between = TextRange { start: self.read, end: element.range.start };
        between.of(self.text).contains(['\n', '\r'])
    }

    /// True when the author wrote the chain on one line, as far as its arrows and commas go.
    fn was_one_line(&self, chain: &Chain) -> bool {
        chain.elements.array_windows().all(|[before, after]| {
            let between = TextRange { start: before.range.end, end: after.range.start };
            matches!(after.body, Body::Implicit) && after.inputs.is_none()
                || !between.of(self.text).contains(['\n', '\r'])
        })
    }

    /// True when the author continued on the line of the opening bracket.
    fn opens_on_line(&self, range: TextRange) -> bool {
        let inside = TextRange { start: range.start + 1, end: range.end }.of(self.text);
        let blank = inside.len() - inside.trim_start().len();
        !inside.get(..blank).unwrap_or("").contains(['\n', '\r'])
    }
}

/// Number of line ends in a text; CR LF counts once.
fn count_line_ends(text: &str) -> usize {
    let bytes = text.as_bytes();
    let ends = |(i, &b): (usize, &u8)| match b {
        b'\n' => true,
        b'\r' => bytes.get(i + 1) != Some(&b'\n'),
        _ => false,
    };
    bytes.iter().enumerate().filter(|&pair| ends(pair)).count()
}
