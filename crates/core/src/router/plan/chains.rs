//! The graph optimiser: which elements in a row run as one.
//!
//! Click has its configurations optimised by tools that write new ones (Kohler, Morris and Chen,
//! "Programming language optimizations for modular router configurations", ASPLOS 2002), PacketMill by a
//! compiler (Farshin et al., ASPLOS 2021). Here the program holds loops over many rows of elements already
//! ([`fuse!`](crate::fuse)), and picks those that the graph has use for, each with the constants of the
//! elements' own configuration; elements that only pass packets on cost nothing but their counts. The graph
//! stays as it is: names, handlers, counters, other ways in and out.

use std::collections::HashSet;

use super::Graph;
use crate::element::{FUSIONS, Fusion, PortKind};
use crate::engine::Link;
use crate::router::wiring;

/// Elements in a row that run as one.
#[derive(Clone, Debug)]
pub struct PlannedChain {
    pub(crate) links: Vec<Link>,
    /// The loop for those of them that are not transparent.
    pub(crate) fusion: Option<&'static Fusion>,
}

impl PlannedChain {
    /// The elements, in order.
    pub fn elements(&self) -> impl Iterator<Item = usize> {
        self.links.iter().map(|link| link.element)
    }

    /// The elements of the loop, in order.
    pub(crate) fn members(&self) -> impl Iterator<Item = usize> {
        self.links.iter().filter(|link| !link.transparent).map(|link| link.element)
    }
}

/// Finds the chains of a graph, whose tasks and timers are those of `starts`: from each input that packets
/// reach otherwise than through a chain, the longest row that there is a loop for.
pub(super) fn find(graph: &Graph<'_>, starts: &[usize]) -> Vec<PlannedChain> {
    let ways = Ways { graph, next: next(graph) };
    let rank = wiring::ranks(graph.outputs, graph.connections, starts);
    let mut order: Vec<usize> = (0..graph.names.len()).collect();
    order.sort_by_key(|&id| rank[id]);

    let mut ways_in: Vec<Vec<(usize, usize)>> = vec![Vec::new(); graph.names.len()];
    for (from, outputs) in ways.next.iter().enumerate() {
        for (output, to) in outputs.iter().enumerate() {
            to.iter().for_each(|&to| ways_in[to].push((from, output)));
        }
    }
    // The connections that packets pass inside chains, upstream ones first.
    let mut inside: HashSet<(usize, usize)> = HashSet::new();
    let mut chains: Vec<PlannedChain> = Vec::new();
    for element in order {
        if ways_in[element].iter().all(|way| inside.contains(way)) {
            continue;
        }
        if let Some(chain) = ways.longest(element) {
            let passed = chain.links.iter().take(chain.links.len() - 1);
            inside.extend(passed.map(|link| (link.element, link.output)));
            chains.push(chain);
        }
    }
    chains
}

/// For each element and push output the element that it leads to, where that is by input 0.
fn next(graph: &Graph<'_>) -> Vec<Vec<Option<usize>>> {
    let mut next: Vec<_> = graph.outputs.iter().map(|outputs| vec![None; outputs.len()]).collect();
    for &((from, output), (to, input)) in graph.connections {
        if input == 0 && graph.outputs[from][output] == PortKind::Push {
            next[from][output] = Some(to);
        }
    }
    next
}

struct Ways<'a> {
    graph: &'a Graph<'a>,
    next: Vec<Vec<Option<usize>>>,
}

impl Ways<'_> {
    /// The longest chain that begins with `first`; a loop over more elements is better than more elements.
    fn longest(&self, first: usize) -> Option<PlannedChain> {
        let none = std::iter::once(None);
        let chains = FUSIONS.iter().map(Some).chain(none).filter_map(|fusion| {
            let links = self.follow(first, fusion.map_or(&[][..], |fusion| fusion.classes))?;
            Some(PlannedChain { links, fusion })
        });
        let chains = chains.filter(|chain| chain.links.len() > 1);
        chains.max_by_key(|chain| (chain.members().count(), chain.links.len()))
    }

    /// The elements of these classes from `first` on, with transparent ones before, between and behind.
    fn follow(&self, first: usize, classes: &[(&str, u8)]) -> Option<Vec<Link>> {
        let mut links: Vec<Link> = Vec::new();
        let mut here = Some(first);
        let mut wanted = classes.iter().peekable();
        while let Some(element) = here {
            let class = &self.graph.classes[element].class;
            let output = match wanted.peek() {
                _ if class.transparent => 0,
                Some(&&(name, output)) if name == class.name => {
                    wanted.next();
                    usize::from(output)
                }
                Some(_) => return None,
                None => break,
            };
            // Around a loop.
            if links.iter().any(|link| link.element == element) {
                break;
            }
            links.push(Link { element, output, transparent: class.transparent });
            here = self.next[element].get(output).copied().flatten();
        }
        wanted.next().is_none().then_some(links)
    }
}
