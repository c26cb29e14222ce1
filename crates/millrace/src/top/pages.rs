//! What can be opened above the tables: the page of an element, and pages of text.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::data::Data;
use super::source::{Failure, Handler, Request};
use super::text::printable;
use crate::model::PortKind;

/// A page.
#[derive(Clone, Debug)]
pub(crate) enum Page {
    Element(ElementPage),
    Text(TextPage),
    Help(Scroll),
}

/// The page of an element.
#[derive(Clone, Debug, Default)]
pub(crate) struct ElementPage {
    pub(crate) name: String,
    /// Which of its items is chosen.
    pub(crate) item: usize,
    pub(crate) scroll: Scroll,
    /// None until they have come.
    pub(crate) handlers: Option<Result<Vec<Handler>, String>>,
    pub(crate) config: String,
    /// What handlers have answered, or why they did not.
    pub(crate) values: BTreeMap<String, Result<String, String>>,
}

/// What can be chosen on the page of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Edge(Edge),
    Handler(Handler),
}

/// A connection of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    /// Whether packets come by it.
    pub(crate) comes: bool,
    pub(crate) port: usize,
    pub(crate) kind: Option<PortKind>,
    pub(crate) other: String,
    pub(crate) other_port: usize,
    /// Packets that passed lately, if that is known.
    pub(crate) packets: Option<u64>,
}

/// A page of text.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextPage {
    pub(crate) title: String,
    pub(crate) lines: Vec<String>,
    pub(crate) scroll: Scroll,
    /// The handler that it came from.
    pub(crate) handler: Option<String>,
}

/// Which line of a text is the first on the screen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scroll {
    top: Cell<usize>,
    page: Cell<usize>,
}

impl Scroll {
    /// Moves by so many lines.
    pub(crate) fn go(&self, by: isize) {
        self.top.set(self.top.get().saturating_add_signed(by));
    }

    /// As many lines as the screen has.
    pub(crate) fn page(&self) -> isize {
        self.page.get().max(2) as isize - 1
    }

    /// The first of `lines` to show on a screen of `height`.
    pub(crate) fn fit(&self, lines: usize, height: usize) -> usize {
        let top = self.top.get().min(lines.saturating_sub(height));
        self.top.set(top);
        self.page.set(height);
        top
    }

    /// Moves so that a line is on the screen.
    pub(crate) fn show(&self, line: usize, height: usize) {
        let lowest = (line + 1).saturating_sub(height);
        self.top.set(self.top.get().clamp(lowest, line.max(lowest)));
    }
}

impl ElementPage {
    /// The page of an element, and what has to be asked for it.
    pub(crate) fn open(name: &str) -> (Self, Request) {
        let page = Self { name: name.to_owned(), ..Self::default() };
        (page, Request::Handlers(name.to_owned()))
    }

    /// What can be chosen: the element's connections, then its handlers.
    pub(crate) fn items(&self, data: &Data) -> Vec<Item> {
        let mut items: Vec<Item> = edges(data, &self.name).into_iter().map(Item::Edge).collect();
        let handlers = self.handlers.iter().flatten().flatten();
        items.extend(handlers.cloned().map(Item::Handler));
        items
    }

    /// The chosen item.
    pub(crate) fn chosen(&self, data: &Data) -> Option<Item> {
        let items = self.items(data);
        let last = items.len().saturating_sub(1);
        items.into_iter().nth(self.item.min(last))
    }

    /// The element and the handler, as a handler is called.
    pub(crate) fn path(&self, handler: &Handler) -> String {
        format!("{}.{}", self.name, handler.name)
    }
}

/// The connections of an element, those first by which packets come.
pub(crate) fn edges(data: &Data, name: &str) -> Vec<Edge> {
    let Some(own) = data.find(name) else { return Vec::new() };
    let elements = &data.now.elements;
    let named = |at: usize| elements.get(at).map_or(String::new(), |it| it.name.clone());
    let mut edges = Vec::new();
    for connection in &data.passed.connections {
        let (from, to) = (connection.from, connection.to);
        if to == own {
            edges.push(Edge {
                comes: true,
                port: connection.to_port,
                kind: elements.get(to).and_then(|it| it.inputs.get(connection.to_port)).copied(),
                other: named(from),
                other_port: connection.from_port,
                packets: connection.packets,
            });
        }
        if from == own {
            edges.push(Edge {
                comes: false,
                port: connection.from_port,
                kind: elements
                    .get(from)
                    .and_then(|it| it.outputs.get(connection.from_port))
                    .copied(),
                other: named(to),
                other_port: connection.to_port,
                packets: connection.packets,
            });
        }
    }
    edges.sort_by_key(|edge| (!edge.comes, edge.port));
    edges
}

impl TextPage {
    /// A page with this text.
    pub(crate) fn new(title: &str, text: &str) -> Self {
        let lines = text.lines().map(printable).collect();
        Self { title: printable(title), lines, ..Self::default() }
    }

    /// The value of a handler.
    pub(crate) fn of_handler(handler: &str, value: &Result<String, Failure>) -> Self {
        let page = match value {
            Ok(value) if value.trim().is_empty() => Self::new(handler, "(empty)"),
            Ok(value) => Self::new(handler, value),
            Err(Failure::Lost(why) | Failure::Refused(why)) => Self::new(handler, why),
        };
        Self { handler: Some(handler.to_owned()), ..page }
    }
}
