//! Positions for the nodes of a directed graph, in layers (Sugiyama, Tagawa and Toda, "Methods for visual
//! understanding of hierarchical system structures", IEEE Transactions on Systems, Man and Cybernetics, 1981):
//!
//! 1. Edges that close a cycle are reversed.
//! 2. Each node is put in a layer below its predecessors.
//! 3. An edge that crosses layers gets a dummy node in each of them.
//! 4. The layers are sorted so that few edges cross.
//! 5. Nodes are placed as near to their neighbours as their widths allow.

use std::collections::HashMap;

/// The input: the widths of nodes, and edges. An edge contains the horizontal offsets of its ends from the middle of
/// their nodes.
pub(super) struct Problem {
    pub(super) widths: Vec<f64>,
    pub(super) edges: Vec<Wire>,
}

/// An edge, not from a node to itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wire {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) from_offset: f64,
    pub(super) to_offset: f64,
}

/// The result: layers are numbered from the top. Horizontal positions are those of the middle, and none is negative.
#[derive(Debug)]
pub(super) struct Layout {
    /// The layer and the position of each node.
    pub(super) nodes: Vec<(usize, f64)>,
    /// The path of each edge, as layers and positions from its start to its end. An edge that leads down crosses the
    /// layers between its nodes. An edge that leads up also crosses the layers of its nodes, beside the nodes.
    pub(super) ways: Vec<Vec<(usize, f64)>>,
    pub(super) layers: usize,
    pub(super) width: f64,
}

/// Free space between nodes.
const GAP: f64 = 26.0;
/// Free space between an edge that crosses a layer and its neighbours.
const LANE_GAP: f64 = 12.0;
/// Width of an edge that crosses a layer.
const LANE: f64 = 4.0;
/// The number of times that the layers are sorted.
const SWEEPS: usize = 24;
/// The number of times that the nodes are moved.
const MOVES: usize = 100;

/// The maximum number of dummies. A picture with more crossings of edges and layers is unreadable.
const MOST_DUMMIES: usize = 200_000;

/// Lays out a graph; `None` if its edges cross too many layers for a picture.
pub(super) fn lay_out(problem: &Problem) -> Option<Layout> {
    let mut graph = Layered::new(problem)?;
    graph.sort();
    graph.place();
    Some(graph.finish(problem))
}

/// A node or a dummy.
struct Vertex {
    layer: usize,
    width: f64,
    x: f64,
}

/// A piece of an edge between adjacent layers.
struct Segment {
    upper: usize,
    lower: usize,
    upper_offset: f64,
    lower_offset: f64,
    /// The priority of keeping it straight.
    weight: f64,
}

struct Layered {
    vertices: Vec<Vertex>,
    segments: Vec<Segment>,
    /// For each vertex, the segments above it and those below it.
    above: Vec<Vec<usize>>,
    below: Vec<Vec<usize>>,
    layers: Vec<Vec<usize>>,
    /// The dummies of each edge, from its start to its end.
    dummies: Vec<Vec<usize>>,
}

impl Layered {
    fn new(problem: &Problem) -> Option<Self> {
        let n = problem.widths.len();
        let turned = turned_edges(n, &problem.edges);
        let layer_of = layers(n, &problem.edges, &turned);
        let passed = problem.edges.iter().map(|e| layer_of[e.from].abs_diff(layer_of[e.to]));
        if passed.sum::<usize>() > MOST_DUMMIES {
            return None;
        }
        let vertices = problem.widths.iter().zip(&layer_of);
        let vertices =
            vertices.map(|(&width, &layer)| Vertex { layer, width, x: 0.0 }).collect::<Vec<_>>();
        let mut graph = Self {
            vertices,
            segments: Vec::new(),
            above: Vec::new(),
            below: Vec::new(),
            layers: Vec::new(),
            dummies: Vec::new(),
        };
        let mut shared = HashMap::new();
        for (wire, &turned) in problem.edges.iter().zip(&turned) {
            let dummies = match turned {
                true => graph.add_up(wire, &mut shared),
                false => graph.add_down(wire),
            };
            graph.dummies.push(dummies);
        }
        graph.above = vec![Vec::new(); graph.vertices.len()];
        graph.below = vec![Vec::new(); graph.vertices.len()];
        for (index, segment) in graph.segments.iter().enumerate() {
            graph.above[segment.lower].push(index);
            graph.below[segment.upper].push(index);
        }
        graph.weigh();
        graph.fill_layers();
        Some(graph)
    }

    fn dummy(&mut self, layer: usize) -> usize {
        self.vertices.push(Vertex { layer, width: LANE, x: 0.0 });
        self.vertices.len() - 1
    }

    /// Adds an edge that leads down, with a dummy in each layer between its nodes.
    fn add_down(&mut self, wire: &Wire) -> Vec<usize> {
        let (top, bottom) = (self.vertices[wire.from].layer, self.vertices[wire.to].layer);
        let dummies: Vec<usize> = (top + 1..bottom).map(|layer| self.dummy(layer)).collect();
        let mut upper = (wire.from, wire.from_offset);
        for &dummy in &dummies {
            self.join(upper, (dummy, 0.0));
            upper = (dummy, 0.0);
        }
        self.join(upper, (wire.to, wire.to_offset));
        dummies
    }

    /// Adds an edge that leads up, with a dummy in each layer between its nodes and beside them. Edges that lead up
    /// to the same port share their dummies, so that they look like one line with several starts.
    fn add_up(
        &mut self,
        wire: &Wire,
        shared: &mut HashMap<(usize, u64), Vec<usize>>,
    ) -> Vec<usize> {
        let (bottom, top) = (self.vertices[wire.from].layer, self.vertices[wire.to].layer);
        let lane = shared.entry((wire.to, wire.to_offset.to_bits())).or_default();
        for layer in top + lane.len()..=bottom {
            let dummy = self.dummy(layer);
            if let Some(&above) = lane.last() {
                self.join((above, 0.0), (dummy, 0.0));
            }
            lane.push(dummy);
        }
        lane.iter().take(bottom + 1 - top).rev().copied().collect()
    }

    fn join(&mut self, upper: (usize, f64), lower: (usize, f64)) {
        self.segments.push(Segment {
            upper: upper.0,
            lower: lower.0,
            upper_offset: upper.1,
            lower_offset: lower.1,
            weight: 1.0,
        });
    }

    /// Sets the priorities of straight edges: edges that cross layers first, then the edges of chains.
    fn weigh(&mut self) {
        for segment in &mut self.segments {
            let lanes = [segment.upper, segment.lower].map(|v| self.vertices[v].width == LANE);
            let chain =
                self.below[segment.upper].len() == 1 && self.above[segment.lower].len() == 1;
            segment.weight = match (lanes, chain) {
                ([true, true], _) => 12.0,
                ([false, false], true) => 8.0,
                ([false, false], false) => 1.0,
                _ => 2.0,
            };
        }
    }

    /// Puts the vertices into their layers, in the order in which a walk along the edges finds them. This is a good
    /// start for sorting.
    fn fill_layers(&mut self) {
        let count = self.vertices.iter().map(|vertex| vertex.layer + 1).max().unwrap_or(0);
        self.layers = vec![Vec::new(); count];
        let mut seen = vec![false; self.vertices.len()];
        for start in 0..self.vertices.len() {
            let mut stack = vec![start];
            while let Some(vertex) = stack.pop() {
                if std::mem::replace(&mut seen[vertex], true) {
                    continue;
                }
                self.layers[self.vertices[vertex].layer].push(vertex);
                let above = self.above[vertex].iter().map(|&s| self.segments[s].upper);
                let below = self.below[vertex].iter().rev().map(|&s| self.segments[s].lower);
                stack.extend(above.chain(below));
            }
        }
    }

    /// Sorts the layers, downwards and upwards, by the positions of the vertices' neighbours. Keeps the order with
    /// the fewest crossings.
    fn sort(&mut self) {
        let mut best = (self.crossings(), self.layers.clone());
        for sweep in 0..SWEEPS {
            let down = sweep % 2 == 0;
            let order: Vec<usize> = match down {
                true => (1..self.layers.len()).collect(),
                false => (0..self.layers.len().saturating_sub(1)).rev().collect(),
            };
            for layer in order {
                self.sort_layer(layer, down);
            }
            let crossings = self.crossings();
            if crossings < best.0 {
                best = (crossings, self.layers.clone());
            }
        }
        self.layers = best.1;
    }

    fn sort_layer(&mut self, layer: usize, by_above: bool) {
        let positions = self.positions();
        let mut keyed: Vec<(f64, usize)> = Vec::new();
        for (at, &vertex) in self.layers[layer].iter().enumerate() {
            let segments = if by_above { &self.above[vertex] } else { &self.below[vertex] };
            let sum: f64 = segments.iter().map(|&s| self.end(s, by_above, &positions)).sum();
            let key = match segments.len() {
                // A vertex without neighbours there stays at its place.
                0 => at as f64,
                n => sum / n as f64,
            };
            keyed.push((key, vertex));
        }
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.layers[layer] = keyed.into_iter().map(|(_, vertex)| vertex).collect();
    }

    /// The index of each vertex in its layer.
    fn positions(&self) -> Vec<usize> {
        let mut positions = vec![0; self.vertices.len()];
        for layer in &self.layers {
            for (at, &vertex) in layer.iter().enumerate() {
                positions[vertex] = at;
            }
        }
        positions
    }

    /// The position of the far end of a segment, in units of vertices. The ports of a node differ by fractions of a
    /// unit.
    fn end(&self, segment: usize, upper: bool, positions: &[usize]) -> f64 {
        let segment = &self.segments[segment];
        let (vertex, offset) = match upper {
            true => (segment.upper, segment.upper_offset),
            false => (segment.lower, segment.lower_offset),
        };
        positions[vertex] as f64 + offset / self.vertices[vertex].width.max(1.0)
    }

    fn crossings(&self) -> usize {
        let positions = self.positions();
        let mut sum = 0;
        for layer in &self.layers {
            let mut ends: Vec<(f64, f64)> = layer
                .iter()
                .flat_map(|&vertex| &self.below[vertex])
                .map(|&s| (self.end(s, true, &positions), self.end(s, false, &positions)))
                .collect();
            ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
            let mut lower: Vec<f64> = ends.into_iter().map(|end| end.1).collect();
            sum += inversions(&mut lower);
        }
        sum
    }

    /// Moves the vertices of every layer towards their neighbours, downwards and upwards.
    fn place(&mut self) {
        for layer in 0..self.layers.len() {
            let wishes: Vec<(f64, f64)> = self.layers[layer].iter().map(|_| (0.0, 1.0)).collect();
            self.settle(layer, &wishes);
        }
        for step in 0..MOVES {
            let layers: Vec<usize> = match step % 2 == 0 {
                true => (0..self.layers.len()).collect(),
                false => (0..self.layers.len()).rev().collect(),
            };
            for layer in layers {
                let wishes: Vec<(f64, f64)> =
                    self.layers[layer].iter().map(|&vertex| self.wish(vertex)).collect();
                self.settle(layer, &wishes);
            }
        }
        self.straighten();
        let left = self.vertices.iter().map(|v| v.x - v.width / 2.0).fold(f64::MAX, f64::min);
        self.vertices.iter_mut().for_each(|vertex| vertex.x -= left);
    }

    /// Straightens chains from the top down. Other vertices move only if they must.
    fn straighten(&mut self) {
        for layer in 1..self.layers.len() {
            let wish = |&vertex: &usize| match self.above[vertex][..] {
                [only] if self.below[self.segments[only].upper].len() == 1 => {
                    let segment = &self.segments[only];
                    let x = self.vertices[segment.upper].x;
                    (x + segment.upper_offset - segment.lower_offset, 8.0)
                }
                _ => (self.vertices[vertex].x, 4.0),
            };
            let wishes: Vec<(f64, f64)> = self.layers[layer].iter().map(wish).collect();
            self.settle(layer, &wishes);
        }
    }

    /// The position at which a vertex would make its edges straightest, and its weight.
    fn wish(&self, vertex: usize) -> (f64, f64) {
        let above = self.above[vertex]
            .iter()
            .map(|&s| &self.segments[s])
            .map(|s| (self.vertices[s.upper].x + s.upper_offset - s.lower_offset, s.weight));
        let below = self.below[vertex]
            .iter()
            .map(|&s| &self.segments[s])
            .map(|s| (self.vertices[s.lower].x + s.lower_offset - s.upper_offset, s.weight));
        let (sum, weight) =
            above.chain(below).fold((0.0, 0.0), |(sum, all), (x, w)| (sum + x * w, all + w));
        match weight > 0.0 {
            true => (sum / weight, weight),
            false => (self.vertices[vertex].x, 0.1),
        }
    }

    /// Places the vertices of a layer as near to their desired positions as the distances between them allow (least
    /// squares, by pooling adjacent violators).
    fn settle(&mut self, layer: usize, wishes: &[(f64, f64)]) {
        let vertices = &self.layers[layer];
        let mut offsets = Vec::with_capacity(vertices.len());
        let mut offset = 0.0;
        for (at, &vertex) in vertices.iter().enumerate() {
            if let Some(&before) = at.checked_sub(1).and_then(|at| vertices.get(at)) {
                let widths = [before, vertex].map(|vertex| self.vertices[vertex].width);
                let gap = if widths.contains(&LANE) { LANE_GAP } else { GAP };
                offset += (widths[0] + widths[1]) / 2.0 + gap;
            }
            offsets.push(offset);
        }
        // Blocks of adjacent vertices: weighted sum of the desired positions, weight, number of vertices.
        let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
        for (&(wish, weight), offset) in wishes.iter().zip(&offsets) {
            let mut block = ((wish - offset) * weight, weight, 1);
            while let Some(&before) = blocks.last()
                && before.0 / before.1 >= block.0 / block.1
            {
                block = (before.0 + block.0, before.1 + block.1, before.2 + block.2);
                blocks.pop();
            }
            blocks.push(block);
        }
        let places =
            blocks.iter().flat_map(|block| std::iter::repeat_n(block.0 / block.1, block.2));
        let places: Vec<f64> = places.zip(&offsets).map(|(place, offset)| place + offset).collect();
        for (&vertex, place) in vertices.iter().zip(places) {
            self.vertices[vertex].x = place;
        }
    }

    fn finish(self, problem: &Problem) -> Layout {
        let place = |vertex: usize| {
            self.vertices.get(vertex).map_or((0, 0.0), |vertex| (vertex.layer, vertex.x))
        };
        let right = self.vertices.iter().map(|v| v.x + v.width / 2.0).fold(0.0, f64::max);
        Layout {
            nodes: (0..problem.widths.len()).map(place).collect(),
            ways: self
                .dummies
                .iter()
                .map(|dummies| dummies.iter().map(|&dummy| place(dummy)).collect())
                .collect(),
            layers: self.layers.len(),
            width: right,
        }
    }
}

/// The edges to reverse, so that no cycle is left: those that lead back to a node on the current path of a
/// depth-first search.
fn turned_edges(n: usize, edges: &[Wire]) -> Vec<bool> {
    let mut outgoing = vec![Vec::new(); n];
    let mut has_input = vec![false; n];
    for (index, wire) in edges.iter().enumerate() {
        outgoing[wire.from].push(index);
        has_input[wire.to] = true;
    }
    let mut turned = vec![false; edges.len()];
    // 0: not visited, 1: on the current path, 2: done.
    let mut state = vec![0u8; n];
    let starts = (0..n).filter(|&node| !has_input[node]).chain(0..n);
    for start in starts {
        if state[start] != 0 {
            continue;
        }
        state[start] = 1;
        let mut stack = vec![(start, 0)];
        while let Some((node, next)) = stack.last_mut() {
            let Some(&edge) = outgoing[*node].get(*next) else {
                state[*node] = 2;
                stack.pop();
                continue;
            };
            *next += 1;
            let to = edges[edge].to;
            match state[to] {
                0 => {
                    state[to] = 1;
                    stack.push((to, 0));
                }
                1 => turned[edge] = true,
                _ => {}
            }
        }
    }
    turned
}

/// The layer of each node: one below the lowest predecessor. A node without predecessors is directly above its
/// uppermost successor.
fn layers(n: usize, edges: &[Wire], turned: &[bool]) -> Vec<usize> {
    let ends = edges.iter().zip(turned).map(|(wire, &turned)| match turned {
        true => (wire.to, wire.from),
        false => (wire.from, wire.to),
    });
    let ends: Vec<(usize, usize)> = ends.collect();
    let mut waiting = vec![0usize; n];
    let mut next = vec![Vec::new(); n];
    for &(upper, lower) in &ends {
        waiting[lower] += 1;
        next[upper].push(lower);
    }
    let mut layer = vec![0usize; n];
    let mut ready: Vec<usize> = (0..n).filter(|&node| waiting[node] == 0).collect();
    let sources = ready.clone();
    while let Some(node) = ready.pop() {
        for &lower in &next[node] {
            layer[lower] = layer[lower].max(layer[node] + 1);
            waiting[lower] -= 1;
            if waiting[lower] == 0 {
                ready.push(lower);
            }
        }
    }
    for source in sources {
        if let Some(nearest) = next[source].iter().map(|&lower| layer[lower]).min() {
            layer[source] = nearest.saturating_sub(1);
        }
    }
    layer
}

/// The number of pairs in the wrong order; sorts the list (merge sort).
fn inversions(list: &mut [f64]) -> usize {
    let n = list.len();
    if n < 2 {
        return 0;
    }
    let (left, right) = list.split_at_mut(n / 2);
    let mut count = inversions(left) + inversions(right);
    let mut merged = Vec::with_capacity(n);
    let (mut l, mut r) = (0, 0);
    while let (Some(&a), Some(&b)) = (left.get(l), right.get(r)) {
        if a <= b {
            merged.push(a);
            l += 1;
        } else {
            merged.push(b);
            r += 1;
            count += left.len() - l;
        }
    }
    merged.extend_from_slice(left.get(l..).unwrap_or_default());
    merged.extend_from_slice(right.get(r..).unwrap_or_default());
    list.copy_from_slice(&merged);
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(n: usize, edges: &[(usize, usize)]) -> Problem {
        let wire =
            |&(from, to): &(usize, usize)| Wire { from, to, from_offset: 0.0, to_offset: 0.0 };
        Problem { widths: vec![100.0; n], edges: edges.iter().map(wire).collect() }
    }

    #[test]
    fn a_chain_is_a_straight_line_down() {
        let layout = lay_out(&problem(3, &[(0, 1), (1, 2)])).unwrap();
        assert_eq!(layout.nodes, [(0, 50.0), (1, 50.0), (2, 50.0)]);
        assert_eq!((layout.layers, layout.width), (3, 100.0));
    }

    #[test]
    fn nodes_of_a_layer_do_not_touch() {
        let edges = [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4), (0, 4), (4, 0)];
        let layout = lay_out(&problem(5, &edges)).unwrap();
        for (a, &(layer, x)) in layout.nodes.iter().enumerate() {
            for &(other_layer, other) in &layout.nodes[a + 1..] {
                assert!(layer != other_layer || (x - other).abs() >= 100.0 + GAP - 1e-6);
            }
            assert!(x >= 50.0 && x <= layout.width - 50.0 + 1e-6);
        }
        // The edge that crosses a layer has a position there, and the one that leads back has three.
        assert_eq!(layout.ways[6].len(), 1);
        assert_eq!(layout.ways[7].iter().map(|way| way.0).collect::<Vec<_>>(), [2, 1, 0]);
    }

    #[test]
    fn avoidable_crossings_are_removed() {
        // Two chains whose nodes alternate in the list.
        let mut graph = Layered::new(&problem(4, &[(0, 3), (1, 2)])).unwrap();
        graph.layers = vec![vec![0, 1], vec![2, 3]];
        assert_eq!(graph.crossings(), 1);
        graph.sort();
        assert_eq!(graph.crossings(), 0);
    }

    #[test]
    fn cycles_and_separate_graphs_are_laid_out() {
        let layout = lay_out(&problem(4, &[(0, 1), (1, 2), (2, 0)])).unwrap();
        assert_eq!(layout.nodes.iter().map(|node| node.0).collect::<Vec<_>>(), [0, 1, 2, 0]);
        let nothing = lay_out(&problem(0, &[])).unwrap();
        assert_eq!((nothing.layers, nothing.nodes.len()), (0, 0));
    }

    #[test]
    fn graphs_too_large_for_a_picture_are_not_laid_out() {
        let chain = (1..2000).map(|n| (n - 1, n));
        let edges: Vec<(usize, usize)> = chain.chain((0..300).map(|n| (n, 1999 - n))).collect();
        assert!(lay_out(&problem(2000, &edges)).is_none());
    }

    #[test]
    fn pairs_out_of_order_are_counted() {
        assert_eq!(inversions(&mut [1.0, 2.0, 3.0]), 0);
        assert_eq!(inversions(&mut [3.0, 2.0, 1.0]), 3);
        assert_eq!(inversions(&mut [2.0, 4.0, 1.0, 3.0]), 3);
    }
}
