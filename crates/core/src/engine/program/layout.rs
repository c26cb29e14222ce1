//! Which elements are steps of a program, and which follows which.

use std::ops::Range;
use std::ptr;

use super::step::{self, Steps};
use super::{Entry, Op, lot};

/// The steps of a program, before a thread has it.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// Upstream ones first.
    pub(super) steps: Vec<PlannedStep>,
    /// The frames to which packets leave.
    pub(super) outs: Vec<u32>,
}

#[derive(Debug)]
pub(super) struct PlannedStep {
    pub(super) element: usize,
    pub(super) steps: Steps,
    /// The frame of its input 0.
    pub(super) frame: u32,
    /// What follows at each output.
    pub(super) targets: Vec<Target>,
    /// Where its outputs stand among those of all elements that choose.
    pub(super) first_edge: usize,
}

impl PlannedStep {
    /// Its outputs among those of all elements that choose; none if it does not.
    pub(super) fn edges(&self) -> Range<usize> {
        let count = if self.steps.routes { self.targets.len() } else { 0 };
        self.first_edge..self.first_edge + count
    }
}

/// What follows at an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Another step.
    Step(usize),
    /// A frame outside of the program, by its number among the ways out.
    Out(usize),
    /// Nothing.
    Nowhere,
}

impl Layout {
    /// A layout of elements that are steps, in ascending order of their frames: each with its frame, and the frame that
    /// each of its outputs leads to, if any.
    pub(crate) fn new(elements: Vec<(usize, Steps, u32, Vec<Option<u32>>)>) -> Self {
        let frames: Vec<u32> = elements.iter().map(|element| element.2).collect();
        let sections = sections(&frames, &elements);
        let mut outs: Vec<u32> = Vec::new();
        let mut edges = 0;
        let mut steps = Vec::new();
        for (at, (element, kind, frame, outputs)) in elements.into_iter().enumerate() {
            let mut target = |to: Option<u32>| {
                let Some(to) = to else { return Target::Nowhere };
                // What leads back, around a loop, leaves the program and enters it again.
                match frames.binary_search(&to) {
                    Ok(step) if step > at && sections[step] == sections[at] => Target::Step(step),
                    _ => Target::Out(outs.iter().position(|&out| out == to).unwrap_or_else(|| {
                        outs.push(to);
                        outs.len() - 1
                    })),
                }
            };
            let targets: Vec<Target> = outputs.into_iter().map(&mut target).collect();
            let first_edge = edges;
            edges += if kind.routes { targets.len() } else { 0 };
            steps.push(PlannedStep { element, steps: kind, frame, targets, first_edge });
        }
        Self { steps, outs }
    }

    /// The steps as they are before they are connected, those for the ways out, and one a step for packets that
    /// have none.
    pub(super) fn ops(&self) -> impl Iterator<Item = Op> {
        let blank = move |id| Op {
            run: step::LEAVE,
            next: ptr::null(),
            element: ptr::null(),
            local: ptr::null_mut(),
            state: ptr::null_mut(),
            edges: ptr::null(),
            outputs: 0,
            flow: ptr::null(),
            turn: step::NO_TURN,
            end: None,
            waiting_run: step::LEAVE,
            lot: ptr::null_mut(),
            id,
        };
        let steps = self.steps.iter().map(move |step| {
            let Steps { step: waiting_run, turn, end, waits, .. } = step.steps;
            let run = if waits { lot::MEET } else { waiting_run };
            Op { run, waiting_run, turn, end, ..blank(step.element) }
        });
        let outs = self.outs.iter().map(move |_| blank(usize::MAX));
        let nowhere =
            self.steps.iter().map(move |step| Op { run: step::NOWHERE, ..blank(step.element) });
        steps.chain(outs).chain(nowhere)
    }

    /// The steps at which packets meet.
    pub(super) fn waiting(&self) -> impl Iterator<Item = usize> {
        (0..self.steps.len()).filter(|&at| self.steps[at].steps.waits)
    }

    /// What belongs to each entry: where a packet can get from there.
    pub(super) fn entries(&self) -> impl Iterator<Item = Reached<'_>> {
        (0..self.steps.len()).map(|first| {
            let mut seen = vec![false; self.steps.len()];
            seen[first] = true;
            // Steps lead to later ones alone.
            for at in first..self.steps.len() {
                if seen[at] {
                    for target in &self.steps[at].targets {
                        if let Target::Step(to) = target {
                            seen[*to] = true;
                        }
                    }
                }
            }
            let steps = (first..self.steps.len()).filter(|&at| seen[at]).collect();
            Reached { layout: self, first, steps }
        })
    }
}

/// The most steps in a row. Where the compiler makes no jump of the call that ends a step, each takes a place on the
/// stack; and an entry lists all that can be reached from it.
const LONGEST: usize = 256;

/// For each step, in which part of the program it is: a packet passes at most [`LONGEST`] steps of one part, and leaves
/// the program between two.
fn sections(frames: &[u32], elements: &[(usize, Steps, u32, Vec<Option<u32>>)]) -> Vec<usize> {
    // How many steps are in front of each, on the longest way.
    let mut depths = vec![0; frames.len()];
    for (at, (.., outputs)) in elements.iter().enumerate() {
        for to in outputs.iter().flatten().filter_map(|to| frames.binary_search(to).ok()) {
            if to > at {
                depths[to] = depths[to].max(depths[at] + 1);
            }
        }
    }
    depths.into_iter().map(|depth: usize| depth / LONGEST).collect()
}

/// The steps that a packet can reach that enters at one of them.
pub(super) struct Reached<'a> {
    layout: &'a Layout,
    first: usize,
    steps: Vec<usize>,
}

impl From<Reached<'_>> for Entry {
    fn from(Reached { layout, first, steps }: Reached<'_>) -> Self {
        let of = |&at: &usize| &layout.steps[at];
        let mut inside: Vec<(usize, u64)> = Vec::new();
        for step in steps.iter().skip(1).map(of) {
            let (word, bit) = (step.frame as usize / 64, 1 << (step.frame % 64));
            match inside.iter_mut().find(|known| known.0 == word) {
                Some((_, bits)) => *bits |= bit,
                None => inside.push((word, bit)),
            }
        }
        let mut outs: Vec<usize> = Vec::new();
        for target in steps.iter().map(of).flat_map(|step| &step.targets) {
            if let Target::Out(out) = *target
                && !outs.contains(&out)
            {
                outs.push(out);
            }
        }
        outs.sort_unstable_by_key(|&out| layout.outs[out]);
        Entry {
            frame: layout.steps[first].frame,
            inside,
            outs,
            joins: steps.iter().copied().skip(1).collect(),
            edges: steps.iter().map(of).flat_map(PlannedStep::edges).collect(),
            waits: steps.iter().copied().filter(|at| of(at).steps.waits).collect(),
            ends: steps.iter().copied().filter(|at| of(at).steps.end.is_some()).collect(),
            elements: steps.iter().map(|at| of(at).element).collect(),
            turn: super::SAMPLE,
            cycles: 0,
        }
    }
}
