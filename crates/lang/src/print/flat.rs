//! The flat configuration as text: the output of `click -q` and of the `flatconfig` handler.

use std::collections::HashMap;
use std::fmt::Write;

use crate::config::quote;
use crate::graph::{Connection, Graph};

/// Prints a flat configuration in Click's form: requirements, then a declaration for each element in order,
/// then the connections, joined into chains where they follow each other.
///
/// The text compiles to the same graph. Connections are sorted by the port that they enter, then by the port
/// that they leave, as in Click.
///
/// ```
/// use millrace_lang::{Options, SourceMap, compile, print_flat};
/// let mut map = SourceMap::default();
/// let text = "InfiniteSource(LIMIT 5) -> c :: Counter -> { -> Discard } ";
/// let source = map.add("config", text);
/// let (graph, _) = compile(&mut map, source, &Options::default());
/// assert_eq!(print_flat(&graph), "\
/// InfiniteSource@1 :: InfiniteSource(LIMIT 5);
/// c :: Counter;
/// @3/Discard@1 :: Discard;
///
/// InfiniteSource@1 -> c
///     -> @3/Discard@1;
/// ");
/// ```
pub fn print_flat(graph: &Graph) -> String {
    let mut out = String::new();
    if !graph.requirements.is_empty() {
        let words = graph.requirements.iter().map(|requirement| match requirement.text.as_str() {
            "compact_config" => requirement.text.clone(),
            package => format!("package {}", quote(package.as_bytes())),
        });
        let words: Vec<String> = words.collect();
        _ = writeln!(out, "require({});\n", words.join(", "));
    }
    for element in &graph.elements {
        _ = match element.config.text.as_str() {
            "" => writeln!(out, "{} :: {};", element.name, element.class),
            config => writeln!(out, "{} :: {}({config});", element.name, element.class),
        };
    }
    if !graph.elements.is_empty() {
        out.push('\n');
    }
    print_connections(graph, &mut out);
    out
}

fn print_connections(graph: &Graph, out: &mut String) {
    let mut connections: Vec<&Connection> = graph.connections.iter().collect();
    connections.sort_by_key(|c| (c.to, c.from));
    let next = successors(&connections);
    let mut starts = vec![true; connections.len()];
    for &successor in next.iter().flatten() {
        if let Some(start) = starts.get_mut(successor) {
            *start = false;
        }
    }
    let name = |index: usize| graph.elements.get(index).map_or("", |element| &element.name);
    let mut used = vec![false; connections.len()];
    let mut print_chain = |first: usize| {
        let mut at = first;
        if used.get(at) != Some(&false) {
            return;
        }
        while let (Some(connection), Some(used)) = (connections.get(at), used.get_mut(at)) {
            if *used {
                break;
            }
            *used = true;
            if at == first {
                out.push_str(name(connection.from.0));
                if connection.from.1 != 0 {
                    _ = write!(out, " [{}]", connection.from.1);
                }
                out.push_str(" -> ");
            } else {
                out.push_str("\n    -> ");
            }
            if connection.to.1 != 0 {
                _ = write!(out, "[{}] ", connection.to.1);
            }
            out.push_str(name(connection.to.0));
            let Some(&Some(successor)) = next.get(at) else { break };
            at = successor;
        }
        out.push_str(";\n");
    };
    for (index, start) in starts.iter().enumerate() {
        if *start {
            print_chain(index);
        }
    }
    // What is left leads in circles.
    for (index, start) in starts.iter().enumerate() {
        if !start {
            print_chain(index);
        }
    }
}

/// For each connection the one that continues its chain: out of port 0 of the element that it enters,
/// preferably into a port 0.
fn successors(connections: &[&Connection]) -> Vec<Option<usize>> {
    #[derive(Default)]
    struct Choice {
        /// The first two that enter a port 0.
        plain: [Option<usize>; 2],
        /// The last two.
        last: [Option<usize>; 2],
    }
    let mut by_origin: HashMap<(usize, usize), Choice> = HashMap::new();
    for (index, connection) in connections.iter().enumerate() {
        let choice = by_origin.entry(connection.from).or_default();
        if connection.to.1 == 0
            && let Some(slot) = choice.plain.iter_mut().find(|slot| slot.is_none())
        {
            *slot = Some(index);
        }
        choice.last = [Some(index), choice.last[0]];
    }
    let successor = |(index, connection): (usize, &&Connection)| {
        if connection.to.1 != 0 {
            return None;
        }
        let choice = by_origin.get(&connection.to)?;
        choice.plain.iter().chain(&choice.last).flatten().copied().find(|&next| next != index)
    };
    connections.iter().enumerate().map(successor).collect()
}
