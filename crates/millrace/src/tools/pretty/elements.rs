//! The part of a template that describes elements: `<~elements>`, and the tags inside its attributes.

use std::collections::HashSet;

use millrace_core::element::PortKind;

use super::document::Pretty;
use super::html::{Attributes, next_tag, quote_text};
use crate::tools::processing::Kind;
use crate::tools::router::{Element, Port};

/// Texts that are nested deeper than this are left out.
const MOST_NESTED: usize = 30;

/// The element that a template is filled in for.
#[derive(Clone, Copy)]
struct Subject {
    element: usize,
    /// True if the entry describes the element's class.
    is_class: bool,
    port: Option<(usize, bool)>,
}

/// Fills in templates for elements.
pub(super) struct Elements<'a> {
    pretty: &'a Pretty<'a>,
    /// The attributes of the `<~elements>` tag.
    main: &'a Attributes,
    out: String,
    /// The separator before the next text that is written.
    separator: String,
}

impl<'a> Elements<'a> {
    pub(super) fn new(pretty: &'a Pretty<'a>, main: &'a Attributes) -> Self {
        Self { pretty, main, out: String::new(), separator: String::new() }
    }

    /// A template, filled in for one element.
    pub(super) fn one(&mut self, template: &str, element: usize) -> String {
        self.run(template, Subject { element, is_class: false, port: None }, 0);
        self.separator = self.main.get("sep").cloned().unwrap_or_default();
        std::mem::take(&mut self.out)
    }

    /// The entries that the attributes select, sorted by name.
    pub(super) fn all(mut self) -> String {
        let mut entries: Vec<(String, Subject)> = Vec::new();
        let mut classes = HashSet::new();
        for (index, element) in self.pretty.router.iter() {
            if self.main.contains_key("entry") {
                let subject = Subject { element: index, is_class: false, port: None };
                entries.push((element.name.clone(), subject));
            }
            if self.main.contains_key("typeentry") && classes.insert(element.class()) {
                let subject = Subject { element: index, is_class: true, port: None };
                entries.push((element.class().to_owned(), subject));
            }
        }
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        let column = self.main.get("column").and_then(|text| text.split_once('/'));
        let column = column.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let (which, count): (usize, usize) =
            column.filter(|&(a, b)| (1..=b).contains(&a)).unwrap_or((1, 1));
        let each = entries.len().saturating_sub(1) / count + 1;
        let last = if which == count { entries.len() } else { which * each };
        let mut out = String::new();
        for (_, subject) in entries.into_iter().take(last).skip((which - 1) * each) {
            let name = if subject.is_class { "typeentry" } else { "entry" };
            let template = self.main.get(name).cloned().unwrap_or_default();
            self.run(&template, subject, 0);
            out += &std::mem::take(&mut self.out);
            self.separator = self.main.get("sep").cloned().unwrap_or_default();
        }
        out
    }

    fn write(&mut self, text: &str) {
        let separator = std::mem::take(&mut self.separator);
        self.out += &separator;
        self.out += text;
    }

    /// A filled-in template, which is returned instead of written.
    fn expanded(&mut self, template: &str, subject: Subject, depth: usize) -> String {
        let before = self.out.len();
        self.run(template, subject, depth + 1);
        let text = self.out.get(before..).unwrap_or("").to_owned();
        self.out.truncate(before);
        text
    }

    fn run(&mut self, template: &str, subject: Subject, depth: usize) {
        if depth > MOST_NESTED {
            return;
        }
        let mut rest = Some(template);
        while let Some(template) = rest {
            let (tag, after) = next_tag(template, true);
            rest = after;
            if !tag.before.is_empty() {
                self.write(&tag.before);
            }
            let before = self.out.len();
            let next = self.tag(&tag.name, &tag.attributes, subject, depth);
            if self.out.len() != before {
                self.separator = next;
            }
        }
    }

    /// The tag's own text, or the text for all tags of `<~elements>`.
    fn text(&self, attributes: &Attributes, own: &str, main: &str) -> String {
        let own = attributes.get(own).filter(|text| !text.is_empty());
        own.or_else(|| self.main.get(main)).cloned().unwrap_or_default()
    }

    /// Writes the replacement of a tag; returns the separator for what follows.
    fn tag(&mut self, name: &str, tag: &Attributes, subject: Subject, depth: usize) -> String {
        let pretty = self.pretty;
        let Some(element) = pretty.router.live(subject.element) else { return String::new() };
        let class = element.class();
        let has = |name: &str| tag.get(name).is_some_and(|value| !value.is_empty());
        let anchor = |href: String, text: &str| match href.is_empty() {
            true => text.to_owned(),
            false => format!("<a href='{href}'>{text}</a>"),
        };
        let own = !subject.is_class;
        let count = |n: usize, word: &str| match (has("english"), n) {
            (false, n) => n.to_string(),
            (true, 1) => format!("1 {word}"),
            (true, n) => format!("{n} {word}s"),
        };
        match name {
            "name" if subject.is_class => {
                let href = if has("link") { pretty.class_href(class) } else { String::new() };
                self.write(&anchor(href, class));
            }
            "name" => {
                let href = match tag.get("link").map(|link| link.to_ascii_lowercase()).as_deref() {
                    None | Some("") => String::new(),
                    Some("type") => pretty.class_href(class),
                    Some(_) => element_anchor(element),
                };
                self.write(&anchor(href, &element.name));
            }
            "anonymous" => {
                let yes = if element.name.contains('@') { "yes" } else { "" };
                self.write(yes);
            }
            "type" => {
                let href = if has("link") { pretty.class_href(class) } else { String::new() };
                self.write(&anchor(href, class));
            }
            "config" if own => {
                let limit = tag.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(0);
                let mut config = element.config.clone();
                if limit > 0 && config.chars().count() > limit {
                    config = config.chars().take(limit).collect::<String>() + "...";
                }
                match (config.is_empty(), has("parens")) {
                    (true, _) => {}
                    (false, true) => self.write(&format!("({})", quote_text(&config))),
                    (false, false) => self.write(&quote_text(&config)),
                }
            }
            "typerefs" => {
                let text = self.text(tag, "entry", "typeref");
                let mut users: Vec<(&str, usize)> = pretty
                    .router
                    .iter()
                    .filter(|(_, other)| other.class() == class)
                    .map(|(index, other)| (other.name.as_str(), index))
                    .collect();
                users.sort_unstable();
                for (_, element) in users {
                    self.run(&text, Subject { element, is_class: false, port: None }, depth + 1);
                    self.separator = tag.get("sep").cloned().unwrap_or_default();
                }
            }
            "configlink" if own => {
                let text = self.text(tag, "text", "configlink");
                if !text.is_empty() {
                    let text = format!("<a href='#{}'>{text}</a>", anchor_name(element));
                    self.run(&text, subject, depth + 1);
                    return tag.get("sep").cloned().unwrap_or_default();
                }
            }
            "ninputs" if own => self.write(&count(element.inputs, "input")),
            "noutputs" if own => self.write(&count(element.outputs, "output")),
            "inputs" | "outputs" if own => {
                let output = name == "outputs";
                let ports = if output { element.outputs } else { element.inputs };
                let side = if output { "output" } else { "input" };
                if ports == 0 {
                    let text = self.text(tag, "noentry", &format!("no{side}entry"));
                    self.run(&text, Subject { port: None, ..subject }, depth + 1);
                }
                let text = self.text(tag, "entry", &format!("{side}entry"));
                for port in 0..ports {
                    let subject = Subject { port: Some((port, output)), ..subject };
                    self.run(&text, subject, depth + 1);
                    self.separator = tag.get("sep").cloned().unwrap_or_default();
                }
            }
            "inputconnections" | "outputconnections" => {
                self.connections(name == "outputconnections", tag, subject, depth);
            }
            "port" => {
                if let Some((port, _)) = subject.port {
                    self.write(&port.to_string());
                }
            }
            "processing" => {
                if let Some((port, output)) = subject.port {
                    let kind = pretty.kind((subject.element, port), output);
                    self.write(&kind.map_or("??".to_owned(), |kind| kind.kind.to_string()));
                }
            }
            "processingcode" => {
                self.write(pretty.traits.class(class).map_or("", |class| class.processing));
            }
            "flowcode" => self.write(pretty.traits.class(class).map_or("", |class| class.flow)),
            "if" => {
                let value = |name: &str| tag.get(name).cloned().unwrap_or_default();
                let test = self.expanded(&value("test"), subject, depth);
                let compared = ["eq", "ne", "gt", "lt", "ge", "le"].into_iter().find(|op| has(op));
                let holds = match compared {
                    None => !test.is_empty(),
                    Some(op) => {
                        let other = self.expanded(&value(op), subject, depth);
                        match op {
                            "eq" => test == other,
                            "ne" => test != other,
                            "gt" => test > other,
                            "lt" => test < other,
                            "ge" => test >= other,
                            _ => test <= other,
                        }
                    }
                };
                let branch = value(if holds { "then" } else { "else" });
                self.run(&branch, subject, depth + 1);
            }
            other => {
                let text = self.main.get(other).or_else(|| pretty.definitions.get(other)).cloned();
                self.run(&text.unwrap_or_default(), subject, depth + 1);
            }
        }
        String::new()
    }

    fn connections(&mut self, output: bool, tag: &Attributes, subject: Subject, depth: usize) {
        let Some((port, is_output)) = subject.port.filter(|(_, is_output)| *is_output == output)
        else {
            return;
        };
        let router = self.pretty.router;
        let here = (subject.element, port);
        let mut others: Vec<Port> =
            if is_output { router.ports_from(here) } else { router.ports_to(here) };
        let name = |index: usize| router.elements.get(index).map_or("", |element| &*element.name);
        others.sort_by_key(|&(element, port)| (name(element), port));
        let side = if output { "output" } else { "input" };
        if others.is_empty() {
            let text = self.text(tag, "noentry", &format!("no{side}connection"));
            self.run(&text, subject, depth + 1);
        }
        let text = self.text(tag, "entry", &format!("{side}connection"));
        for (element, port) in others {
            let other = Subject { element, is_class: false, port: Some((port, !output)) };
            self.run(&text, other, depth + 1);
            self.separator = tag.get("sep").cloned().unwrap_or_default();
        }
    }
}

/// The text of a template for an element.
pub(super) fn label(pretty: &Pretty<'_>, template: &str, element: usize) -> String {
    let none = Attributes::new();
    Elements::new(pretty, &none).one(template, element)
}

/// The anchor at an element's declaration.
pub(super) fn anchor_name(element: &Element) -> String {
    format!("e-{}", element.name)
}

fn element_anchor(element: &Element) -> String {
    format!("#{}", anchor_name(element))
}

/// The letter of a port's kind. It is a capital if the port is agnostic, and pushes or pulls because its neighbours
/// do.
pub(super) fn letter(kind: Option<Kind>) -> char {
    match kind {
        Some(Kind { kind: PortKind::Push, by_neighbours: false }) => 'h',
        Some(Kind { kind: PortKind::Pull, by_neighbours: false }) => 'l',
        Some(Kind { kind: PortKind::Push, .. }) => 'H',
        Some(Kind { kind: PortKind::Pull, .. }) => 'L',
        _ => 'a',
    }
}
