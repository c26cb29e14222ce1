//! Graphs whose connections fit: each port is connected, push to push and pull to pull, and nothing goes round without a
//! queue in between. What elements are given is another matter.

use std::fmt::Write as _;

use arbitrary::Unstructured;
use millrace_core::element::PortKind;

use super::{Care, Known, arguments, below, known, one_of, rarely};

/// A configuration.
pub(crate) struct Drawing {
    /// Its text. Packets come in by the elements `feed0` ..., and go out by `catch0` ....
    pub(crate) text: String,
    /// How many elements bring packets in.
    pub(crate) feeds: usize,
}

/// Most elements of a configuration, those that its ends need not counted.
const ELEMENTS: usize = 12;

/// Most ports of an element on a side.
const PORTS: usize = 4;

/// An output that leads nowhere yet.
struct End {
    from: String,
    kind: PortKind,
}

#[derive(Default)]
struct Sketch {
    text: String,
    ends: Vec<End>,
    /// The queues that there are: what comes round may enter there.
    queues: Vec<String>,
    feeds: usize,
    names: usize,
}

/// A configuration. `first` is the class of its first element; without it, all are drawn.
pub(crate) fn draw(input: &mut Unstructured<'_>, first: Option<&Known>, care: Care) -> Drawing {
    let mut sketch = Sketch::default();
    let elements = 1 + below(input, ELEMENTS);
    for n in 0..elements {
        let class = match first.filter(|_| n == 0) {
            Some(class) => Some(class),
            None => drawn(input),
        };
        if let Some(class) = class {
            sketch.put(input, class, care);
        }
    }
    sketch.close(input);
    Drawing { text: sketch.text, feeds: sketch.feeds }
}

/// Any class, by two bytes.
fn drawn(input: &mut Unstructured<'_>) -> Option<&'static Known> {
    one_of(input, &known().classes)
}

impl Sketch {
    /// Puts an element behind ends that there are, or behind new ones.
    fn put(&mut self, input: &mut Unstructured<'_>, class: &Known, care: Care) {
        let name = format!("e{}", self.names);
        self.names += 1;
        let arguments = arguments(input, class, care);
        let _ = writeln!(self.text, "{name} :: {}({arguments});", class.name);
        let (inputs, outputs) = class.info.class.port_counts();
        let inputs = drawn_count(input, inputs.bounds(0));
        let outputs = drawn_count(input, outputs.bounds(inputs));
        let processing = class.info.class.processing();
        let is_pull = rarely(input, 3);
        let settled = |kind| match kind {
            PortKind::Agnostic if is_pull => PortKind::Pull,
            PortKind::Agnostic => PortKind::Push,
            kind => kind,
        };
        for port in 0..inputs {
            let kind = settled(processing.input(port));
            let end = self.end(input, kind);
            let _ = writeln!(self.text, "{end} -> [{port}] {name};");
            // Others may join.
            if kind == PortKind::Push && rarely(input, 4) && !self.ends.is_empty() {
                let end = self.end(input, kind);
                let _ = writeln!(self.text, "{end} -> [{port}] {name};");
            }
        }
        for port in 0..outputs {
            let kind = settled(processing.output(port));
            self.ends.push(End { from: format!("{name} [{port}]"), kind });
        }
        if class.name == "Queue" {
            self.queues.push(name);
        }
    }

    /// An end of a kind: one that there is, turned if it is of the other kind, or a new one.
    fn end(&mut self, input: &mut Unstructured<'_>, kind: PortKind) -> String {
        // The last one, most of the time, so that there are long ways.
        let at = match rarely(input, 3) {
            true => below(input, self.ends.len()),
            false => self.ends.len().saturating_sub(1),
        };
        if self.ends.is_empty() || rarely(input, 6) {
            let name = format!("feed{}", self.feeds);
            self.feeds += 1;
            let _ = writeln!(self.text, "{name} :: TestFeed;");
            return name;
        }
        let End { from, kind: has } = self.ends.remove(at);
        match (has, kind) {
            (PortKind::Push, PortKind::Pull) => {
                let name = format!("q{}", self.names);
                self.names += 1;
                let _ = writeln!(self.text, "{from} -> {name} :: Queue(64);");
                self.queues.push(name.clone());
                name
            }
            (PortKind::Pull, PortKind::Push) => format!("{from} -> Unqueue"),
            _ => from,
        }
    }

    /// Leads all ends somewhere.
    fn close(&mut self, input: &mut Unstructured<'_>) {
        for (n, End { from, kind }) in std::mem::take(&mut self.ends).into_iter().enumerate() {
            let queue = match kind == PortKind::Push && rarely(input, 8) {
                true => one_of(input, &self.queues),
                false => None,
            };
            let _ = match (queue, below(input, 4)) {
                (Some(queue), _) => writeln!(self.text, "{from} -> {queue};"),
                (None, 3) => writeln!(self.text, "{from} -> Discard;"),
                _ => writeln!(self.text, "{from} -> catch{n} :: TestCatch;"),
            };
        }
    }
}

/// A number of ports between bounds.
fn drawn_count(input: &mut Unstructured<'_>, (least, most): (usize, Option<usize>)) -> usize {
    let most = most.unwrap_or(PORTS).min(PORTS).max(least);
    least + below(input, most - least + 1)
}
