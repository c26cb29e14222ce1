//! Mermaid, a language for diagrams that Markdown viewers draw.

use std::collections::BTreeMap;
use std::fmt::Write;

use millrace_core::element::PortKind;

use super::Drawing;

/// The graph as a Mermaid flowchart. Push connections are solid, pull connections dotted. Ports other than 0 are
/// written on the arrows.
pub(crate) fn mermaid(drawing: &Drawing) -> String {
    let mut text = String::from("flowchart TB\n");
    let mut compounds: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (id, node) in drawing.nodes.iter().enumerate() {
        compounds.entry(node.compound()).or_default().push(id);
    }
    for (number, (compound, ids)) in compounds.into_iter().enumerate() {
        let indent = if compound.is_empty() { "  " } else { "    " };
        if !compound.is_empty() {
            let _ = writeln!(text, "  subgraph c{number} [\"{}\"]", quote(compound));
        }
        for id in ids {
            let Some(node) = drawing.nodes.get(id) else { continue };
            let label = match node.given_name() {
                Some(name) => format!("{name}<br/>{}", quote(&node.declaration())),
                None => quote(&node.declaration()),
            };
            let _ = writeln!(text, "{indent}e{id}[\"{label}\"]");
        }
        if !compound.is_empty() {
            text.push_str("  end\n");
        }
    }
    for edge in &drawing.edges {
        let kind = drawing.nodes.get(edge.from.0).and_then(|node| node.outputs.get(edge.from.1));
        let arrow = if kind == Some(&PortKind::Pull) { "-.->" } else { "-->" };
        let label = match (edge.from.1, edge.to.1) {
            (0, 0) => String::new(),
            (from, to) => format!("|\"[{from}] to [{to}]\"|"),
        };
        let _ = writeln!(text, "  e{} {arrow}{label} e{}", edge.from.0, edge.to.0);
    }
    text
}

/// Text within Mermaid's quotation marks. Characters that would end the text, or be read as HTML, become character
/// entities.
fn quote(text: &str) -> String {
    let mut quoted = String::new();
    for c in text.chars() {
        match c {
            '"' | '<' | '>' | '#' | '&' | ';' | '`' => {
                let _ = write!(quoted, "#{};", u32::from(c));
            }
            c if c.is_control() => quoted.push(' '),
            c => quoted.push(c),
        }
    }
    quoted
}
