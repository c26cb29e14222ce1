//! DOT, the language of Graphviz.

use std::collections::BTreeMap;
use std::fmt::Write;

use millrace_core::element::PortKind;

use super::{Drawing, Node, escape};

/// The graph in DOT: elements as tables with a cell for each port, compounds as clusters; push
/// ports are black, pull ports white, as in Click's papers.
pub(crate) fn dot(drawing: &Drawing) -> String {
    let mut text = String::from(
        "digraph router {\n  node [shape=plain, fontname=\"Helvetica\", fontsize=11];\n  \
         edge [arrowsize=0.7, color=\"#475569\"];\n",
    );
    let mut tree = Tree::default();
    for (id, node) in drawing.nodes.iter().enumerate() {
        tree.place(node.compound(), id);
    }
    tree.print(drawing, "", 1, &mut text);
    for edge in &drawing.edges {
        let (from, to) = (edge.from, edge.to);
        let _ = writeln!(text, "  e{}:o{}:s -> e{}:i{}:n;", from.0, from.1, to.0, to.1);
    }
    text.push_str("}\n");
    text
}

/// Compounds and the compounds inside them.
#[derive(Default)]
struct Tree {
    nodes: Vec<usize>,
    inner: BTreeMap<String, Tree>,
}

impl Tree {
    fn place(&mut self, compound: &str, id: usize) {
        let mut at = self;
        for part in compound.split('/').filter(|part| !part.is_empty()) {
            at = at.inner.entry(part.to_owned()).or_default();
        }
        at.nodes.push(id);
    }

    fn print(&self, drawing: &Drawing, path: &str, depth: usize, text: &mut String) {
        let indent = "  ".repeat(depth);
        for &id in &self.nodes {
            if let Some(node) = drawing.nodes.get(id) {
                let _ = writeln!(text, "{indent}e{id} [label=<{}>];", table(node));
            }
        }
        for (name, tree) in &self.inner {
            let path = format!("{path}/{name}");
            let quoted = path.trim_start_matches('/').replace('\\', "\\\\").replace('"', "\\\"");
            let _ = writeln!(text, "{indent}subgraph \"cluster_{quoted}\" {{");
            let _ = writeln!(text, "{indent}  label=\"{quoted}\"; color=\"#94a3b8\";");
            tree.print(drawing, &path, depth + 1, text);
            let _ = writeln!(text, "{indent}}}");
        }
    }
}

/// An element as a table: a row of inputs, its name, a row of outputs.
fn table(node: &Node) -> String {
    let name = match node.given_name() {
        Some(name) => format!("<B>{}</B><BR/>", escape(name)),
        None => String::new(),
    };
    format!(
        "<TABLE BORDER=\"1\" CELLBORDER=\"0\" CELLSPACING=\"0\" BGCOLOR=\"#f8fafc\">{}\
         <TR><TD CELLPADDING=\"4\">{name}{}</TD></TR>{}</TABLE>",
        ports(&node.inputs, 'i'),
        escape(&node.declaration()),
        ports(&node.outputs, 'o'),
    )
}

fn ports(kinds: &[PortKind], side: char) -> String {
    if kinds.is_empty() {
        return String::new();
    }
    let cells: String = kinds
        .iter()
        .enumerate()
        .map(|(port, kind)| {
            let fill = match kind {
                PortKind::Push => "#1e293b",
                PortKind::Pull => "#ffffff",
                PortKind::Agnostic => "#94a3b8",
            };
            format!(
                "<TD PORT=\"{side}{port}\" BORDER=\"1\" FIXEDSIZE=\"TRUE\" WIDTH=\"8\" \
                 HEIGHT=\"6\" BGCOLOR=\"{fill}\"></TD><TD WIDTH=\"4\"></TD>"
            )
        })
        .collect();
    format!(
        "<TR><TD><TABLE BORDER=\"0\" CELLSPACING=\"0\" CELLPADDING=\"0\"><TR>{cells}</TR></TABLE></TD></TR>"
    )
}
