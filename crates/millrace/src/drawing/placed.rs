//! Where the boxes and lines of a drawing lie, for a page that draws them itself.

use millrace_core::element::PortKind;
use serde::Serialize;

use super::folded::{Folded, Kind};
use super::svg::{BOX, Picture, port_offset, words};

/// A drawing in numbers. Its units are those of the SVG image.
#[derive(Debug, Serialize)]
pub(crate) struct Placed {
    width: f64,
    height: f64,
    boxes: Vec<Shape>,
    lines: Vec<Line>,
}

/// A box.
#[derive(Debug, Serialize)]
struct Shape {
    /// The index of the element; none for a folded compound.
    element: Option<usize>,
    /// The full name.
    name: String,
    /// The two lines of its text.
    title: String,
    detail: String,
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
}

/// A port, and its distance from the left of its box.
#[derive(Debug, Serialize)]
struct Port {
    x: f64,
    kind: &'static str,
}

/// A line.
#[derive(Debug, Serialize)]
struct Line {
    /// The indices of its boxes.
    from: usize,
    to: usize,
    /// It, in SVG's language of paths.
    path: String,
    /// The indices of the connections that it stands for.
    connections: Vec<usize>,
}

impl Placed {
    /// Places a drawing; `None` if it is too large for a picture.
    pub(crate) fn new(folded: &Folded) -> Option<Self> {
        let picture = Picture::new(&folded.drawing)?;
        let (width, height) = picture.size();
        let shape = |(id, (node, kind)): (usize, (&super::Node, &Kind))| {
            let (middle, y) = picture.place(id);
            let width = picture.width(id);
            let (title, detail) = words(node);
            let ports = |kinds: &[PortKind]| {
                let port = |(at, kind): (usize, &PortKind)| Port {
                    x: round(width / 2.0 + port_offset(kinds, at)),
                    kind: match kind {
                        PortKind::Push => "push",
                        PortKind::Pull => "pull",
                        PortKind::Agnostic => "agnostic",
                    },
                };
                kinds.iter().enumerate().map(port).collect()
            };
            Shape {
                element: match kind {
                    Kind::Element(id) => Some(*id),
                    Kind::Compound(_) => None,
                },
                name: node.name.clone(),
                title,
                detail,
                x: round(middle - width / 2.0),
                y,
                width,
                height: BOX,
                inputs: ports(&node.inputs),
                outputs: ports(&node.outputs),
            }
        };
        let edges = folded.drawing.edges.iter().enumerate().zip(&folded.connections);
        let lines = edges.map(|((index, edge), connections)| Line {
            from: edge.from.0,
            to: edge.to.0,
            path: picture.path(index, edge),
            connections: connections.clone(),
        });
        Some(Self {
            width: width.ceil(),
            height: height.ceil(),
            boxes: folded.drawing.nodes.iter().zip(&folded.kinds).enumerate().map(shape).collect(),
            lines: lines.collect(),
        })
    }
}

/// A tenth is as exact as a picture needs.
fn round(x: f64) -> f64 {
    (x * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::super::tests::graph;
    use super::*;

    #[test]
    fn boxes_lie_within_the_drawing_and_do_not_overlap() {
        let full = graph(6, &[(0, 1), (0, 2), (1, 3), (2, 3), (3, 0), (4, 4), (4, 5)]);
        let placed = Placed::new(&Folded::new(&full, |_| false)).unwrap();
        assert_eq!((placed.boxes.len(), placed.lines.len()), (6, 7));
        for (at, shape) in placed.boxes.iter().enumerate() {
            assert_eq!(shape.element, Some(at));
            assert!(shape.x >= 0.0 && shape.x + shape.width <= placed.width);
            assert!(shape.y >= 0.0 && shape.y + shape.height <= placed.height);
            for other in &placed.boxes[..at] {
                let beside = shape.x + shape.width <= other.x || other.x + other.width <= shape.x;
                assert!(shape.y != other.y || beside, "{} {}", shape.name, other.name);
            }
        }
    }
}
