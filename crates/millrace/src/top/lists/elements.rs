//! The elements, as a tree of compound elements, each of which can be folded.

use std::collections::{BTreeSet, HashMap};

use super::choice::{Choice, sort};
use crate::model::Element;
use crate::top::data::Data;
use crate::top::listing::{Cell, Column, Listing, Row, Target};
use crate::top::text::Ink;

const COLUMNS: &[Column] = &[
    Column { title: "ELEMENT", width: 16, rank: 0 },
    Column { title: "CLASS", width: 16, rank: 9 },
    Column { title: "PACKETS/S", width: 10, rank: 1 },
    Column { title: "BITS/S", width: 8, rank: 6 },
    Column { title: "BATCH", width: 6, rank: 7 },
    Column { title: "CYC/PKT", width: 8, rank: 4 },
    Column { title: "LOAD", width: 6, rank: 2 },
    Column { title: "POLL", width: 6, rank: 8 },
    Column { title: "DROPS/S", width: 8, rank: 3 },
    Column { title: "DROPS", width: 8, rank: 5 },
    Column { title: "HELD", width: 7, rank: 10 },
    Column { title: "HISTORY", width: 12, rank: 11 },
];

/// The column of the load.
pub(super) const LOAD: usize = 6;

/// An element or a compound element.
struct Node<'a> {
    name: &'a str,
    parent: Option<usize>,
    depth: usize,
    /// None for a compound element.
    class: Option<&'a str>,
    figures: Figures,
}

/// Of an element, or of all in a compound element.
#[derive(Clone, Copy, Default)]
struct Figures {
    /// Into a compound element: those that came from outside of it, or were made in it.
    packets: u64,
    left: u64,
    bytes: Option<u64>,
    batch: Option<f64>,
    cycles: u64,
    polling: u64,
    dropped: u64,
    drops: u64,
    held: u64,
}

impl Figures {
    fn of(now: &Element, passed: &Element) -> Self {
        Self {
            packets: passed.entered,
            left: passed.left,
            bytes: passed.bytes,
            batch: passed.mean_batch,
            cycles: passed.cycles,
            polling: passed.polling_cycles,
            dropped: passed.dropped,
            drops: now.dropped,
            held: now.held,
        }
    }

    fn is_idle(&self) -> bool {
        (self.packets, self.left, self.dropped) == (0, 0, 0)
    }
}

/// The compound elements around an element, outermost first: the places of the slashes in its name.
fn compounds_of(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').filter_map(|(at, _)| name.get(..at))
}

/// All compound elements.
pub(super) fn compounds(data: &Data) -> BTreeSet<String> {
    let all = data.elements().flat_map(|(now, _)| compounds_of(&now.name));
    all.map(str::to_owned).collect()
}

pub(super) fn listing<'a>(data: &'a Data, choice: &Choice) -> Listing<'a> {
    let rows = match choice.search.trim().is_empty() {
        true => tree(data, choice),
        false => found(data, choice),
    };
    let empty = if choice.search.is_empty() { "no element" } else { "no element is found" };
    Listing { columns: COLUMNS, sorted: choice.sorted, rows, empty }
}

/// The elements that are searched for, by their full names.
fn found<'a>(data: &'a Data, choice: &Choice) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = data
        .elements()
        .filter(|(now, _)| choice.finds(&format!("{} {}", now.name, now.class)))
        .map(|(now, passed)| (now, Figures::of(now, passed)))
        .filter(|(_, figures)| !(choice.hides_idle && figures.is_idle()))
        .map(|(now, figures)| Row {
            key: now.name.clone(),
            target: Target::Element(now.name.clone()),
            cells: cells(data, &now.name, Some(&now.class), &figures, Cell::text(&now.name)),
        })
        .collect();
    sort(&mut rows, choice);
    rows
}

fn tree<'a>(data: &'a Data, choice: &Choice) -> Vec<Row<'a>> {
    let nodes = nodes(data);
    let mut children: HashMap<Option<usize>, Vec<Row<'a>>> = HashMap::new();
    // What is in a folded compound element is not made into rows.
    let mut hidden = vec![false; nodes.len()];
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (at, node) in nodes.iter().enumerate() {
        let is_in_hidden = node.parent.is_some_and(|parent| hidden[parent]);
        let folded = node.class.is_none() && choice.folded.contains(node.name);
        hidden[at] = is_in_hidden || folded;
        if is_in_hidden || choice.hides_idle && node.figures.is_idle() {
            continue;
        }
        places.insert(node.name, at);
        let label = node.name.rsplit('/').next().unwrap_or(node.name);
        let target = match node.class {
            Some(_) => Target::Element(node.name.to_owned()),
            None => Target::Group { name: node.name.to_owned(), folded },
        };
        let mark = node.class.is_none().then_some(folded);
        let label = Cell::text(label).marked(node.depth, mark);
        let label = if mark.is_some() { label.ink(Ink::Strong) } else { label };
        children.entry(node.parent).or_default().push(Row {
            key: node.name.to_owned(),
            target,
            cells: cells(data, node.name, node.class, &node.figures, label),
        });
    }
    children.values_mut().for_each(|rows| sort(rows, choice));
    // From the top down: what is next lies at the end.
    let mut rows = Vec::new();
    let mut next: Vec<Row<'a>> = children.remove(&None).unwrap_or_default();
    next.reverse();
    while let Some(row) = next.pop() {
        let below = places.get(&*row.key).and_then(|&at| children.remove(&Some(at)));
        rows.push(row);
        next.extend(below.into_iter().flatten().rev());
    }
    rows
}

/// The elements and the compound elements around them; each after the one around it.
fn nodes(data: &Data) -> Vec<Node<'_>> {
    let mut nodes: Vec<Node<'_>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (now, passed) in data.elements() {
        let mut parent = None;
        let mut depth = 0;
        for name in compounds_of(&now.name) {
            let place = *places.entry(name).or_insert_with(|| {
                let figures = Figures::default();
                nodes.push(Node { name, parent, depth, class: None, figures });
                nodes.len() - 1
            });
            (parent, depth) = (Some(place), depth + 1);
        }
        let figures = Figures::of(now, passed);
        add(&mut nodes, parent, &figures, passed.created);
        nodes.push(Node { name: &now.name, parent, depth, class: Some(&now.class), figures });
    }
    arrivals(data, &mut nodes, &places);
    nodes
}

/// Adds what an element counted to the compound elements around it.
fn add(nodes: &mut [Node<'_>], mut parent: Option<usize>, own: &Figures, created: u64) {
    while let Some(node) = parent.and_then(|at| nodes.get_mut(at)) {
        let sum = &mut node.figures;
        let parts = [
            (&mut sum.packets, created),
            (&mut sum.left, own.left),
            (&mut sum.cycles, own.cycles),
            (&mut sum.polling, own.polling),
            (&mut sum.dropped, own.dropped),
            (&mut sum.drops, own.drops),
            (&mut sum.held, own.held),
        ];
        parts.into_iter().for_each(|(sum, part)| *sum = sum.saturating_add(part));
        parent = node.parent;
    }
}

/// Adds the packets that came into compound elements from outside.
fn arrivals(data: &Data, nodes: &mut [Node<'_>], places: &HashMap<&str, usize>) {
    let elements = &data.passed.elements;
    // Where a connection's packets are not known, those of its element are taken, once.
    let mut taken: BTreeSet<(usize, &str)> = BTreeSet::new();
    for connection in &data.passed.connections {
        let ends = (elements.get(connection.from), elements.get(connection.to));
        let (Some(from), Some(to)) = ends else { continue };
        for compound in compounds_of(&to.name) {
            let inside = from.name.strip_prefix(compound).is_some_and(|rest| rest.starts_with('/'));
            if inside {
                continue;
            }
            let packets = match connection.packets {
                Some(packets) => packets,
                None if taken.insert((connection.to, compound)) => to.received,
                None => 0,
            };
            let node = places.get(compound).and_then(|&at| nodes.get_mut(at));
            if let Some(node) = node {
                node.figures.packets = node.figures.packets.saturating_add(packets);
            }
        }
    }
}

fn cells<'a>(
    data: &'a Data,
    name: &str,
    class: Option<&'a str>,
    figures: &Figures,
    label: Cell<'a>,
) -> Vec<Cell<'a>> {
    let thread = data.cycles_of_a_thread();
    let load = |cycles: u64| if thread > 0.0 { cycles as f64 / thread } else { 0.0 };
    // What leaves the elements of a compound element is counted several times.
    let packets = class.map_or(figures.packets, |_| figures.packets.max(figures.left));
    let has_cycles = figures.cycles > 0 && packets > 0;
    let cycles = has_cycles.then(|| figures.cycles as f64 / packets as f64);
    let bits = match figures.bytes {
        Some(bytes) => Cell::rate(data.bits(bytes)),
        None => Cell::mean(None),
    };
    let drops = Cell::count(figures.drops);
    vec![
        label,
        Cell::text(class.unwrap_or_default()).ink(Ink::Faint),
        Cell::rate(data.rate(figures.packets)),
        bits,
        Cell::mean(figures.batch),
        Cell::mean(cycles),
        Cell::share(load(figures.cycles)),
        Cell::share(load(figures.polling)),
        Cell::rate(data.rate(figures.dropped)).bad_if(figures.dropped > 0),
        if figures.drops > 0 { drops.ink(Ink::Notable) } else { drops },
        Cell::count(figures.held),
        Cell::spark(data.history.element(name).map(|own| &own.packets), None),
    ]
}
