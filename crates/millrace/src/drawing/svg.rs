//! SVG: boxes in layers, ports drawn as in Click's papers.

use std::fmt::Write;

use millrace_core::element::PortKind;

use super::layout::{Layout, Problem, Wire, lay_out};
use super::{Drawing, Edge, Node, escape};

/// Height of a box.
pub(super) const BOX: f64 = 42.0;
/// Height of the space between layers.
const SPACE: f64 = 46.0;
/// Width of the frame around everything.
const FRAME: f64 = 24.0;
/// Half the width of a port, and its height.
const PORT: f64 = 4.5;
/// The minimum distance between ports.
const PORT_PITCH: f64 = 16.0;
/// Average width of a letter of the name, and of the text below it.
const LETTER: (f64, f64) = (8.0, 6.5);

/// Colours of compounds: fill and border.
const COLOURS: [(&str, &str); 8] = [
    ("#f8fafc", "#64748b"),
    ("#eff6ff", "#3b82f6"),
    ("#f0fdf4", "#22a052"),
    ("#fefce8", "#b98a08"),
    ("#fdf2f8", "#d0408c"),
    ("#f5f3ff", "#7c5ce0"),
    ("#ecfeff", "#0891b2"),
    ("#fff7ed", "#e0701a"),
];

/// The graph as an SVG image. Inputs are triangles above a box, outputs rectangles below it. Push ports are filled,
/// pull ports empty, and unknown ones grey. The elements of a compound have its colour. `None` if the graph is too
/// large for a picture.
pub(crate) fn svg(drawing: &Drawing) -> Option<String> {
    let picture = Picture::new(drawing)?;
    let mut text = picture.head();
    for edge in 0..drawing.edges.len() {
        picture.edge(edge, &mut text);
    }
    for id in 0..drawing.nodes.len() {
        picture.node(id, &mut text);
    }
    text.push_str("</svg>\n");
    Some(text)
}

pub(super) struct Picture<'a> {
    drawing: &'a Drawing,
    widths: Vec<f64>,
    layout: Layout,
    /// The index of each edge in the layout; `None` for an edge from a node to itself.
    laid: Vec<Option<usize>>,
    /// Compounds in the order of their first element. The first one is the file itself.
    compounds: Vec<&'a str>,
}

impl<'a> Picture<'a> {
    pub(super) fn new(drawing: &'a Drawing) -> Option<Self> {
        let widths: Vec<f64> = drawing.nodes.iter().map(width).collect();
        let mut wires = Vec::new();
        let laid = drawing.edges.iter().map(|edge| {
            (edge.from.0 != edge.to.0).then(|| {
                wires.push(Wire {
                    from: edge.from.0,
                    to: edge.to.0,
                    from_offset: port_offset(&drawing.nodes[edge.from.0].outputs, edge.from.1),
                    to_offset: port_offset(&drawing.nodes[edge.to.0].inputs, edge.to.1),
                });
                wires.len() - 1
            })
        });
        let laid = laid.collect();
        let mut compounds = vec![""];
        for node in &drawing.nodes {
            if !compounds.contains(&node.compound()) {
                compounds.push(node.compound());
            }
        }
        let layout = lay_out(&Problem { widths: widths.clone(), edges: wires })?;
        Some(Self { drawing, widths, layout, laid, compounds })
    }

    /// The width and the height.
    pub(super) fn size(&self) -> (f64, f64) {
        let layers = self.layout.layers as f64;
        let height = (layers * (BOX + SPACE) - SPACE).max(0.0) + 2.0 * (FRAME + SPACE / 2.0);
        (self.layout.width + 2.0 * FRAME, height)
    }

    /// The width of a box.
    pub(super) fn width(&self, id: usize) -> f64 {
        self.widths.get(id).copied().unwrap_or_default()
    }

    fn head(&self) -> String {
        let (width, height) = self.size();
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" \
             font-family=\"Helvetica, Arial, sans-serif\">\n\
             <style>.n {{ font-size: 13px; font-weight: 600; fill: #0f172a }} \
             .c {{ font-size: 11px; fill: #475569 }} \
             .e {{ fill: none; stroke: #64748b; stroke-width: 1.4 }}</style>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        )
    }

    /// The horizontal middle of a box, and its upper edge.
    pub(super) fn place(&self, id: usize) -> (f64, f64) {
        let (layer, x) = self.layout.nodes.get(id).copied().unwrap_or_default();
        (x + FRAME, top(layer))
    }

    fn node(&self, id: usize, text: &mut String) {
        let (Some(node), Some(&width)) = (self.drawing.nodes.get(id), self.widths.get(id)) else {
            return;
        };
        let (x, y) = self.place(id);
        let compound = self.compounds.iter().position(|name| *name == node.compound());
        // The first colour is that of the file itself.
        let colour = match compound.unwrap_or(0) {
            0 => 0,
            n => 1 + (n - 1) % (COLOURS.len() - 1),
        };
        let (fill, border) = COLOURS.get(colour).copied().unwrap_or(("#ffffff", "#000000"));
        let left = x - width / 2.0;
        let title = escape(&format!("{} :: {}", node.name, node.declaration()));
        let _ = writeln!(
            text,
            "<g><title>{title}</title><rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
             height=\"{BOX}\" rx=\"6\" fill=\"{fill}\" stroke=\"{border}\" stroke-width=\"1.2\"/>"
        );
        let mut line = |class: char, y: f64, words: &str| {
            let words = escape(words);
            let _ = writeln!(
                text,
                "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{words}</text>"
            );
        };
        match words(node) {
            (bold, plain) if plain.is_empty() => line('n', y + 27.0, &bold),
            (bold, plain) => {
                line('n', y + 19.0, &bold);
                line('c', y + 33.0, &plain);
            }
        }
        for (port, kind) in node.inputs.iter().enumerate() {
            let x = x + port_offset(&node.inputs, port);
            let _ = writeln!(
                text,
                "<path d=\"M{:.1} {y:.1}h{:.1}l-{PORT} {:.1}z\" {}/>",
                x - PORT,
                2.0 * PORT,
                PORT * 1.5,
                paint(*kind)
            );
        }
        for (port, kind) in node.outputs.iter().enumerate() {
            let x = x + port_offset(&node.outputs, port);
            let _ = writeln!(
                text,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{PORT}\" {}/>",
                x - PORT,
                y + BOX - PORT,
                2.0 * PORT,
                paint(*kind)
            );
        }
        text.push_str("</g>\n");
    }

    fn edge(&self, index: usize, text: &mut String) {
        if let Some(edge) = self.drawing.edges.get(index) {
            let _ = writeln!(text, "<path class=\"e\" d=\"{}\"/>", self.path(index, edge));
        }
    }

    /// The line of an edge, in SVG's language of paths.
    pub(super) fn path(&self, index: usize, edge: &Edge) -> String {
        let (start, end) = self.ends(edge);
        let way = self.laid.get(index).copied().flatten().and_then(|n| self.layout.ways.get(n));
        let mut path = format!("M{:.1} {:.1}", start.0, start.1);
        let mut at = start;
        match way {
            // From below the box, around it, to above it.
            None => {
                let side = self.place(edge.from.0).0 + self.width(edge.from.0) / 2.0 + 12.0;
                turn(&mut path, at, (side, start.1), SPACE / 2.0);
                let _ = write!(path, "V{:.1}", end.1);
                turn(&mut path, (side, end.1), end, -SPACE / 2.0);
            }
            Some(way) if self.leads_up(edge) => {
                for (n, &(layer, x)) in way.iter().enumerate() {
                    let (x, lower, upper) = (x + FRAME, top(layer) + BOX, top(layer));
                    match n {
                        0 => turn(&mut path, at, (x, lower), SPACE / 2.0),
                        _ => curve(&mut path, at, (x, lower)),
                    }
                    let _ = write!(path, "V{upper:.1}");
                    at = (x, upper);
                }
                turn(&mut path, at, end, -SPACE / 2.0);
            }
            Some(way) => {
                for &(layer, x) in way {
                    let (x, upper, lower) = (x + FRAME, top(layer), top(layer) + BOX);
                    curve(&mut path, at, (x, upper));
                    let _ = write!(path, "V{lower:.1}");
                    at = (x, lower);
                }
                curve(&mut path, at, end);
            }
        }
        path
    }

    fn leads_up(&self, edge: &Edge) -> bool {
        let layer = |id: usize| self.layout.nodes.get(id).map_or(0, |node| node.0);
        layer(edge.from.0) >= layer(edge.to.0)
    }

    /// The output port where an edge starts and the input port where it ends.
    fn ends(&self, edge: &Edge) -> ((f64, f64), (f64, f64)) {
        let ports = |id: usize, side: fn(&Node) -> &Vec<PortKind>, port: usize| {
            self.drawing.nodes.get(id).map_or(0.0, |node| port_offset(side(node), port))
        };
        let (from, to) = (self.place(edge.from.0), self.place(edge.to.0));
        let out = ports(edge.from.0, |node| &node.outputs, edge.from.1);
        let into = ports(edge.to.0, |node| &node.inputs, edge.to.1);
        ((from.0 + out, from.1 + BOX), (to.0 + into, to.1))
    }
}

/// The upper edge of a layer's boxes.
fn top(layer: usize) -> f64 {
    FRAME + SPACE / 2.0 + layer as f64 * (BOX + SPACE)
}

/// The text of a box: the name in bold, and below it the class with its configuration. If the element has no name,
/// the class in bold, and the configuration below it.
pub(super) fn words(node: &Node) -> (String, String) {
    match (node.given_name(), node.compound()) {
        (Some(_), _) => (node.name.clone(), node.declaration()),
        (None, "") => (node.class.clone(), node.config.clone()),
        (None, compound) => (format!("{compound}/{}", node.class), node.config.clone()),
    }
}

/// The width of a box, so that its text and its ports fit.
fn width(node: &Node) -> f64 {
    let (above, below) = words(node);
    let (bold, plain) = LETTER;
    let words = (above.chars().count() as f64 * bold).max(below.chars().count() as f64 * plain);
    let ports = node.inputs.len().max(node.outputs.len()) as f64 * PORT_PITCH;
    (words.max(ports) + 20.0).max(64.0)
}

/// The distance of a port from the middle of its box.
pub(super) fn port_offset(ports: &[PortKind], port: usize) -> f64 {
    (port as f64 - (ports.len() as f64 - 1.0) / 2.0) * PORT_PITCH
}

fn paint(kind: PortKind) -> &'static str {
    match kind {
        PortKind::Push => "fill=\"#1e293b\" stroke=\"#1e293b\"",
        PortKind::Pull => "fill=\"#ffffff\" stroke=\"#1e293b\"",
        PortKind::Agnostic => "fill=\"#94a3b8\" stroke=\"#64748b\"",
    }
}

/// Draws a curve to a point; it starts and ends vertically.
fn curve(path: &mut String, from: (f64, f64), to: (f64, f64)) {
    if (from.0 - to.0).abs() < 0.5 {
        let _ = write!(path, "V{:.1}", to.1);
        return;
    }
    let middle = (from.1 + to.1) / 2.0;
    let _ =
        write!(path, "C{:.1} {middle:.1} {:.1} {middle:.1} {:.1} {:.1}", from.0, to.0, to.0, to.1);
}

/// Draws an arc to a point at the same height; downwards if `depth` is positive.
fn turn(path: &mut String, from: (f64, f64), to: (f64, f64), depth: f64) {
    let (a, b) = (from.1 + depth, to.1 + depth);
    let _ = write!(path, "C{:.1} {a:.1} {:.1} {b:.1} {:.1} {:.1}", from.0, to.0, to.0, to.1);
}
