//! The text of a configuration with highlighted syntax.

use std::collections::HashMap;

use millrace_lang::ast::{
    Body, Class, CommentKind, Compound, DirectiveKind, Element, Item, TextRange,
};
use millrace_lang::parser;

use super::document::Pretty;
use super::elements::anchor_name;
use super::html::{quote_attribute, quote_text};

/// A part of the text that is highlighted.
struct Mark {
    start: usize,
    end: usize,
    open: String,
    close: &'static str,
}

/// The text as HTML, in a `<pre>`.
pub(super) fn highlight(pretty: &Pretty<'_>) -> String {
    let Some(source) = pretty.assembly.parts.first().map(|part| part.span.source) else {
        return format!("<pre>{}</pre>\n", quote_text(pretty.text));
    };
    let file = parser::parse_text(source, pretty.text).file;
    let places = pretty.assembly.parts.iter().map(|part| (part.span.start, part.name.as_str()));
    let mut marker =
        Marker { pretty, places: places.collect(), marks: Vec::new(), classes: 0, depth: 0 };
    for comment in file.comments.iter().filter(|comment| comment.kind != CommentKind::Mark) {
        marker.span(comment.range, "c-cmt");
    }
    marker.items(&file.items);
    for found in pretty.found.iter().filter(|found| found.is_error()) {
        if let Some(span) = found.span.filter(|span| span.source == source) {
            let range = TextRange { start: span.start, end: span.end };
            let title = quote_attribute(&found.message);
            marker.mark(range, format!("<span class='c-err' title='{title}'>"), "</span>");
        }
    }
    write(pretty.text, marker.marks)
}

/// Writes the text with its marks. Marks are closed at the end of a line and reopened on the next one.
fn write(text: &str, mut marks: Vec<Mark>) -> String {
    marks.retain(|mark| mark.start < mark.end);
    // If two marks begin at the same place, the longer one is outside.
    marks.sort_by_key(|mark| (mark.start, std::cmp::Reverse(mark.end)));
    let mut out = String::from("<pre>");
    let mut open: Vec<&Mark> = Vec::new();
    let mut next = marks.iter().peekable();
    for (at, c) in text.char_indices() {
        // A mark that ends here is closed. Marks that overlap it are closed and reopened.
        while let Some(first) = open.iter().position(|mark| mark.end <= at) {
            let inside: Vec<&Mark> = open.drain(first..).collect();
            inside.iter().rev().for_each(|mark| out += mark.close);
            for mark in inside.into_iter().filter(|mark| mark.end > at) {
                out += &mark.open;
                open.push(mark);
            }
        }
        while let Some(mark) = next.next_if(|mark| mark.start <= at) {
            out += &mark.open;
            open.push(mark);
        }
        match c {
            '\n' => {
                open.iter().rev().for_each(|mark| out += mark.close);
                out.push('\n');
                open.retain(|mark| mark.end > at + 1);
                open.iter().for_each(|mark| out += &mark.open);
            }
            '\r' => {}
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            c => out.push(c),
        }
    }
    open.iter().rev().for_each(|mark| out += mark.close);
    out + "</pre>\n"
}

struct Marker<'a> {
    pretty: &'a Pretty<'a>,
    /// The names of elements by the positions of their declarations.
    places: HashMap<u32, &'a str>,
    marks: Vec<Mark>,
    /// The number of classes that the file has declared so far.
    classes: usize,
    /// The nesting depth of compounds.
    depth: usize,
}

impl Marker<'_> {
    fn mark(&mut self, range: TextRange, open: String, close: &'static str) {
        let (start, end) = (range.start as usize, range.end as usize);
        self.marks.push(Mark { start, end, open, close });
    }

    fn span(&mut self, range: TextRange, class: &str) {
        self.mark(range, format!("<span class='{class}'>"), "</span>");
    }

    fn keyword(&mut self, start: u32, word: &str) {
        self.span(TextRange { start, end: start.saturating_add(word.len() as u32) }, "c-kw");
    }

    fn items(&mut self, items: &[Item]) {
        for item in items {
            match item {
                Item::Chain(chain) => chain.elements.iter().for_each(|e| self.element(e)),
                Item::Directive(directive) => {
                    let word = match directive.kind {
                        DirectiveKind::Require => "require",
                        DirectiveKind::Provide => "provide",
                        DirectiveKind::Define => "define",
                    };
                    self.keyword(directive.range.start, word);
                    self.span(directive.config, "c-cfg");
                }
                Item::ElementClass(class) => {
                    self.keyword(class.range.start, "elementclass");
                    if self.depth == 0 && matches!(class.class, Class::Compound(_)) {
                        let open = format!("<a name='decl{}'><span class='c-cd'>", self.classes);
                        self.mark(class.name, open, "</span></a>");
                    } else {
                        self.span(class.name, "c-cd");
                    }
                    self.class(&class.class);
                    self.classes += usize::from(self.depth == 0);
                }
            }
        }
    }

    fn class(&mut self, class: &Class) {
        match class {
            Class::Name(name) => self.class_name(*name),
            Class::Compound(compound) => self.compound(compound),
        }
    }

    fn class_name(&mut self, name: TextRange) {
        let href = self.pretty.class_href(name.of(self.pretty.text));
        if !href.is_empty() {
            self.mark(name, format!("<a href='{href}'>"), "</a>");
        }
    }

    fn compound(&mut self, compound: &Compound) {
        self.depth += 1;
        for alternative in &compound.alternatives {
            self.items(&alternative.items);
        }
        self.depth -= 1;
    }

    fn element(&mut self, element: &Element) {
        match &element.body {
            Body::Implicit => {}
            Body::Name(name) => self.name(*name, *name, true),
            Body::Group(group) => self.items(&group.items),
            Body::Declaration(declaration) => {
                let class = declaration.class.as_ref();
                if let Some(name) = declaration.name {
                    let end = declaration.config.map_or(name.end, |config| config.end + 1);
                    let end = match class {
                        Some(Class::Name(class)) => end.max(class.end),
                        Some(Class::Compound(compound)) => end.max(compound.range.end),
                        None => end,
                    };
                    self.name(name, TextRange { start: name.start, end }, class.is_none());
                }
                if let Some(class) = class {
                    self.class(class);
                }
                if let Some(config) = declaration.config {
                    self.span(config, "c-cfg");
                }
            }
        }
    }

    /// An identifier: the name of an element, or the class of an element without a name. `whole` is its declaration.
    fn name(&mut self, name: TextRange, whole: TextRange, may_be_class: bool) {
        let text = name.of(self.pretty.text);
        let here = self.places.get(&name.start).copied().filter(|_| self.depth == 0);
        let known = here.or((self.depth == 0).then_some(text));
        let element = known.and_then(|known| self.pretty.router.find(known));
        let element = element.and_then(|index| self.pretty.router.live(index));
        if let Some(element) = element {
            let title = quote_attribute(&element.declaration());
            if here.is_some() {
                self.mark(name, format!("<a name='{}'>", anchor_name(element)), "</a>");
                self.span(whole, "c-ed");
            }
            self.mark(whole, format!("<span title='{title}'>"), "</span>");
        }
        let known = self.depth == 0
            || self.pretty.declared(text).is_some()
            || self.pretty.traits.class(text).is_some();
        if may_be_class && known && (element.is_none() || here.is_some_and(|here| here != text)) {
            self.class_name(name);
        }
    }
}
