//! How many packets passed each connection. Elements count packets, not their ports: where an element's packets all come or
//! go by one connection, or all others are known, its counts tell.

use super::snapshot::{Connection, Element};

/// An end of a connection: (element, port).
type End = (usize, usize);

/// The connections with their counts, as far as they are known.
pub(super) fn counted(links: &[(End, End)], elements: &[Element]) -> Vec<Connection> {
    let mut edges: Vec<Connection> = links
        .iter()
        .map(|&((from, from_port), (to, to_port))| Connection {
            from,
            from_port,
            to,
            to_port,
            packets: None,
        })
        .collect();
    // An element's connections on one side, and what they count together.
    let mut sides: Vec<(Vec<usize>, u64)> = Vec::new();
    sides.extend(elements.iter().map(|element| (Vec::new(), element.sent)));
    sides.extend(elements.iter().map(|element| (Vec::new(), element.received)));
    let sides_of = |edge: &Connection| [edge.from, elements.len() + edge.to];
    for (at, edge) in edges.iter().enumerate() {
        for side in sides_of(edge) {
            if let Some((list, _)) = sides.get_mut(side) {
                list.push(at);
            }
        }
    }
    let mut open: Vec<usize> = (0..sides.len()).collect();
    while let Some(side) = open.pop() {
        let Some((list, sum)) = sides.get(side) else { continue };
        let packets = |at: &usize| edges.get(*at).and_then(|edge| edge.packets);
        let mut unknown = list.iter().filter(|at| packets(at).is_none());
        let (Some(&last), None) = (unknown.next(), unknown.next()) else { continue };
        let rest = list.iter().filter_map(packets).fold(*sum, u64::saturating_sub);
        if let Some(edge) = edges.get_mut(last) {
            edge.packets = Some(rest);
            open.extend(sides_of(edge));
        }
    }
    edges
}
