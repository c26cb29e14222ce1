//! Which elements are steps of a program, and how they are connected.

use std::collections::HashMap;
use std::ptr;

use super::out::Out;
use super::step::Steps;
use super::tile::{Mask, Tile};
use super::{Entry, Op, Program, leave};
use crate::graph::NOWHERE;

/// The steps of a program, before it is assigned to a thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    /// Upstream ones first.
    pub(super) steps: Vec<PlannedStep>,
    /// The frames by which packets leave.
    pub(super) outs: Vec<u32>,
}

#[derive(Clone, Debug)]
pub(super) struct PlannedStep {
    /// The element, or `usize::MAX` for a tap.
    pub(super) element: usize,
    pub(super) steps: Steps,
    /// The frame of its input 0; for a tap, [`NOWHERE`].
    pub(super) frame: u32,
    /// The target of each output; an element without outputs has the target "nowhere".
    pub(super) targets: Vec<Target>,
}

impl PlannedStep {
    fn is_tap(&self) -> bool {
        self.frame == NOWHERE
    }

    /// How many of its first outputs an element that chooses can use within the loop over packets. Each costs
    /// the step a check, with packets or without; packets for an unconnected output are handled elsewhere.
    fn fast_choices(&self) -> usize {
        let connected = self.targets.iter().take_while(|&&target| target != Target::Nowhere);
        connected.count().min(Mask::BITS as usize)
    }
}

/// The target of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Another step.
    Step(usize),
    /// A frame outside of the program, by its number among the exits.
    Out(usize),
    /// Nothing.
    Nowhere,
}

impl Layout {
    /// A layout of elements that are steps, in ascending order of their frames: each with its frame, and the
    /// frames that its outputs lead to, if any.
    pub(crate) fn new(elements: Vec<(usize, Steps, u32, Vec<Option<u32>>)>) -> Self {
        let frames: Vec<u32> = elements.iter().map(|element| element.2).collect();
        let sections = sections(&frames, &elements);
        let mut outs: Vec<u32> = Vec::new();
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
            let mut targets: Vec<Target> = outputs.into_iter().map(&mut target).collect();
            if targets.is_empty() {
                targets.push(Target::Nowhere);
            }
            steps.push(PlannedStep { element, steps: kind, frame, targets });
        }
        Self { steps, outs }
    }

    /// The same with a step for each tap at an output of an element, behind the element's own. A tap shows the packets
    /// that wait at it, and passes them on in their seats: so none overtakes another.
    pub(crate) fn tapped(&self, taps: &HashMap<(usize, usize), usize>) -> Self {
        let tap_of = |step: &PlannedStep, port: usize| taps.get(&(step.element, port)).copied();
        // Where each step is when there are taps in front of it.
        let mut place = 0;
        let mut places = Vec::new();
        for step in &self.steps {
            places.push(place);
            place +=
                1 + (0..step.targets.len()).filter(|&port| tap_of(step, port).is_some()).count();
        }
        let moved = |target: Target| match target {
            Target::Step(to) => Target::Step(places[to]),
            other => other,
        };
        let mut steps: Vec<PlannedStep> = Vec::new();
        for planned in &self.steps {
            let at = steps.len();
            let mut behind = Vec::new();
            let mut targets = Vec::new();
            for (port, &target) in planned.targets.iter().enumerate() {
                let target = moved(target);
                targets.push(match tap_of(planned, port).filter(|_| target != Target::Nowhere) {
                    Some(tap) => {
                        behind.push(PlannedStep {
                            element: usize::MAX,
                            steps: Steps::of_tap(tap),
                            frame: NOWHERE,
                            targets: vec![target],
                        });
                        Target::Step(at + behind.len())
                    }
                    None => target,
                });
            }
            steps.push(PlannedStep { targets, ..planned.clone() });
            steps.append(&mut behind);
        }
        Self { steps, outs: self.outs.clone() }
    }

    /// A program with these steps, not yet linked. `frames` is the number of frames.
    pub(crate) fn program(&self, frames: usize, elements: usize) -> Program {
        let mut entry_of = vec![NOWHERE; frames];
        for (at, step) in self.steps.iter().enumerate().filter(|(_, step)| !step.is_tap()) {
            entry_of[step.frame as usize] = at as u32;
        }
        let ops: Vec<Op> = self.ops().collect();
        let targets: Vec<u32> = self.targets().collect();
        Program {
            steps: self.steps.len(),
            outs: self.outs.iter().map(|&frame| Out::to(frame)).collect(),
            tile: Box::new(Tile::new()),
            pending: vec![0; ops.len().div_ceil(64)],
            sent: vec![0; targets.len()],
            stopped: false,
            held: Vec::new(),
            batch: 0,
            entered: 0,
            entries: self.entries().map(Entry::from).collect(),
            entry_of,
            shares: vec![0; elements],
            ops,
            targets,
        }
    }

    /// The steps before they are linked; then those for the exits.
    fn ops(&self) -> impl Iterator<Item = Op> {
        let blank = |step| Op {
            waiting: 0,
            count: 0,
            next: NOWHERE,
            step,
            end: None,
            element: ptr::null(),
            local: ptr::null_mut(),
            id: usize::MAX,
            stats: ptr::null(),
            outputs: 0..0,
            choices: 0,
            fast: 0,
            batch: 0,
            tap: usize::MAX,
        };
        let mut outputs = 0..0;
        let steps = self.steps.iter().map(move |planned| {
            outputs = outputs.end..outputs.end + planned.targets.len();
            let Steps { step, end, routes, tap, .. } = planned.steps;
            let choices = if routes { outputs.len() } else { 1 };
            let fast = if routes { planned.fast_choices() } else { 1 };
            let (id, outputs) = (planned.element, outputs.clone());
            let next = planned.targets.first().map_or(NOWHERE, |&first| self.op_of(first));
            Op { next, end, id, outputs, choices, fast, tap, ..blank(step) }
        });
        steps.chain(self.outs.iter().map(move |_| blank(leave)))
    }

    /// The next step for each output of each step.
    fn targets(&self) -> impl Iterator<Item = u32> {
        self.steps.iter().flat_map(|step| &step.targets).map(|&target| self.op_of(target))
    }

    fn op_of(&self, target: Target) -> u32 {
        match target {
            Target::Step(to) => to as u32,
            Target::Out(out) => (self.steps.len() + out) as u32,
            Target::Nowhere => NOWHERE,
        }
    }

    /// For each entry, what a packet can reach from there.
    fn entries(&self) -> impl Iterator<Item = Reached<'_>> {
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

/// The maximum number of steps in a row: an entry lists everything that can be reached from it.
const LONGEST: usize = 256;

/// For each step, the part of the program that it belongs to. A packet passes at most [`LONGEST`] steps of
/// one part, and leaves the program between two parts.
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

/// The steps that a packet can reach after it entered at one of them.
struct Reached<'a> {
    layout: &'a Layout,
    first: usize,
    steps: Vec<usize>,
}

impl From<Reached<'_>> for Entry {
    fn from(Reached { layout, first, steps }: Reached<'_>) -> Self {
        let of = |&at: &usize| &layout.steps[at];
        let mut inside: Vec<(usize, u64)> = Vec::new();
        for step in steps.iter().skip(1).map(of).filter(|step| !step.is_tap()) {
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
            ends: steps.iter().copied().filter(|at| of(at).steps.end.is_some()).collect(),
            elements: steps.iter().map(of).filter(|s| !s.is_tap()).map(|s| s.element).collect(),
            turn: super::SAMPLE,
            cycles: 0,
        }
    }
}
