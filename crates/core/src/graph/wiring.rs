//! The graph in the form that the threads use.

use super::class::PortKind;

/// A connection: the output (element, port) that packets leave by, the input that they enter.
pub type Link = ((usize, usize), (usize, usize));

/// The connections, in the form that the threads use.
#[derive(Clone, Debug)]
pub(crate) struct Wiring {
    /// Push inputs as (element, port), upstream ones first: one frame each.
    pub(crate) frames: Vec<(u32, u32)>,
    /// For each element its range of outputs in `outputs`; one entry more than elements.
    pub(crate) first_output: Vec<u32>,
    /// For each output the frame that it leads to, a tap, or [`NOWHERE`].
    pub(crate) outputs: Vec<u32>,
    /// For each element its range of inputs in `inputs`; one entry more than elements.
    pub(crate) first_input: Vec<u32>,
    /// For each pull input the (element, output) that it pulls from, a tap and 0, or [`NOWHERE`] twice.
    pub(crate) inputs: Vec<(u32, u32)>,
}

impl Wiring {
    /// The frames that an element's outputs lead to, or [`NOWHERE`].
    pub(crate) fn outputs_of(&self, element: usize) -> &[u32] {
        let range = self.first_output[element] as usize..self.first_output[element + 1] as usize;
        &self.outputs[range]
    }

    /// The frame that an output leads to, or [`NOWHERE`].
    pub(crate) fn frame_of(&self, (element, output): (usize, usize)) -> u32 {
        self.outputs[self.first_output[element] as usize + output]
    }

    /// Makes an output lead to a tap.
    pub(crate) fn tap_output(&mut self, (element, output): (usize, usize), tap: u32) {
        self.outputs[self.first_output[element] as usize + output] = TAPPED | tap;
    }

    /// Makes an input pull from a tap.
    pub(crate) fn tap_input(&mut self, (element, input): (usize, usize), tap: u32) {
        self.inputs[self.first_input[element] as usize + input] = (TAPPED | tap, 0);
    }
}

/// The mark of an output that is not connected, or is pulled.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// From here on, numbers of frames and elements are numbers of taps, or [`NOWHERE`]: who goes on with those below asks
/// no more than who goes on with all but [`NOWHERE`].
pub(crate) const TAPPED: u32 = 1 << 31;

/// Makes the wiring of a graph whose port kinds are known. `starts` are the elements with tasks and timers.
pub(crate) fn make(
    inputs: &[Vec<PortKind>],
    outputs: &[Vec<PortKind>],
    connections: &[Link],
    starts: &[usize],
) -> Wiring {
    let first_output = offsets(outputs);
    let first_input = offsets(inputs);
    let rank = ranks(outputs, connections, starts);
    let mut frames: Vec<(u32, u32)> = Vec::new();
    for (element, kinds) in inputs.iter().enumerate() {
        for (port, &kind) in kinds.iter().enumerate() {
            if kind == PortKind::Push {
                frames.push((element as u32, port as u32));
            }
        }
    }
    frames.sort_by_key(|&(element, port)| (rank[element as usize], port));
    let mut frame_of = vec![NOWHERE; *first_input.last().unwrap_or(&0) as usize];
    for (frame, &(element, port)) in frames.iter().enumerate() {
        frame_of[(first_input[element as usize] + port) as usize] = frame as u32;
    }

    let mut targets = vec![NOWHERE; *first_output.last().unwrap_or(&0) as usize];
    let mut sources = vec![(NOWHERE, NOWHERE); frame_of.len()];
    for &((from, output), (to, input)) in connections {
        let input_at = first_input[to] as usize + input;
        if outputs[from][output] == PortKind::Push {
            targets[first_output[from] as usize + output] = frame_of[input_at];
        } else {
            sources[input_at] = (from as u32, output as u32);
        }
    }
    Wiring { frames, first_output, outputs: targets, first_input, inputs: sources }
}

/// Where each element's ports start in a list of all ports, and the list's length.
fn offsets(ports: &[Vec<PortKind>]) -> Vec<u32> {
    let mut at = 0u32;
    let mut offsets: Vec<u32> = ports
        .iter()
        .map(|ports| {
            let first = at;
            at += ports.len() as u32;
            first
        })
        .collect();
    offsets.push(at);
    offsets
}

/// The order in which elements run: reverse postorder of a depth-first walk over push connections, last
/// output first. So every element comes after those upstream of it (except around loops), and elements after
/// an earlier output come before those after a later one.
pub(crate) fn ranks(outputs: &[Vec<PortKind>], connections: &[Link], starts: &[usize]) -> Vec<u32> {
    let n = outputs.len();
    let mut next: Vec<Vec<(usize, usize)>> = vec![Vec::new(); n];
    for &((from, output), (to, _)) in connections {
        if outputs[from][output] == PortKind::Push {
            next[from].push((output, to));
        }
    }
    for targets in &mut next {
        targets.sort_unstable();
    }

    let mut seen = vec![false; n];
    let mut postorder = Vec::with_capacity(n);
    // What is walked later comes earlier in the reverse: the first start goes last.
    for start in starts.iter().rev().copied().chain(0..n) {
        walk(start, &mut next, &mut seen, &mut postorder);
    }
    let mut rank = vec![0; n];
    for (at, &element) in postorder.iter().rev().enumerate() {
        rank[element] = at as u32;
    }
    rank
}

/// Walks from `start`; removes the successors from `next` on the way.
fn walk(
    start: usize,
    next: &mut [Vec<(usize, usize)>],
    seen: &mut [bool],
    postorder: &mut Vec<usize>,
) {
    if std::mem::replace(&mut seen[start], true) {
        return;
    }
    let mut stack = vec![start];
    while let Some(&element) = stack.last() {
        match next[element].pop() {
            Some((_, to)) => {
                if !std::mem::replace(&mut seen[to], true) {
                    stack.push(to);
                }
            }
            None => {
                postorder.push(element);
                stack.pop();
            }
        }
    }
}
