//! What a program counts, and what follows from it.

use std::ops::Range;

use super::layout::{Layout, Target};
use crate::stats::{ElementStats, Tally};

/// The counts of one thread's program, which that thread writes and all may read.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(super) steps: Box<[StepFlow]>,
    pub(super) edges: Box<[EdgeFlow]>,
}

/// The counts of one step.
#[derive(Debug)]
pub(super) struct StepFlow {
    element: usize,
    /// Whether the element chooses among its outputs.
    pub(super) routes: bool,
    /// Its ways, if it does.
    edges: Range<usize>,
    /// Packets and batches that entered the program here.
    pub(super) entered: Tally,
    pub(super) batches: Tally,
    /// Packets that did not go on from here by themselves.
    pub(super) turned: Tally,
    /// The ways by which packets come here.
    from: Vec<From>,
    /// Where there are several.
    join: Option<Join>,
}

/// A step at which several ways meet: packets of one batch that come by several of them are one batch.
#[derive(Debug, Default)]
struct Join {
    /// Packets that have come are those counted here...
    plus: Vec<Term>,
    /// ... less these.
    minus: Vec<Term>,
    batches: Tally,
    /// The packets up to the batch before.
    before: Tally,
}

/// A count.
#[derive(Clone, Copy, Debug)]
enum Term {
    Entered(usize),
    Turned(usize),
    Edge(usize),
}

/// A way by which packets come to a step.
#[derive(Clone, Copy, Debug)]
enum From {
    /// Output 0 of a step.
    Step(usize),
    /// A way of one that chooses.
    Edge(usize),
}

/// The counts of one output of an element that chooses among them.
#[derive(Debug, Default)]
pub(super) struct EdgeFlow {
    pub(super) packets: Tally,
    batches: Tally,
    /// The packets up to the batch before.
    before: Tally,
}

impl EdgeFlow {
    /// A batch is through: one that had packets for this way counts.
    #[inline]
    pub(super) fn note_batch(&self) {
        let packets = self.packets.get();
        if packets != self.before.get() {
            self.before.set(packets);
            self.batches.add(1);
        }
    }
}

/// What passed one step.
#[derive(Clone, Copy, Debug, Default)]
struct Passed {
    received: u64,
    batches: u64,
    /// Packets that went on: by output 0, unless the element chooses.
    on: u64,
}

impl Flow {
    pub(super) fn of(layout: &Layout) -> Self {
        let mut from: Vec<Vec<From>> = vec![Vec::new(); layout.steps.len()];
        let mut edges = 0;
        for (at, step) in layout.steps.iter().enumerate() {
            for (output, target) in step.targets.iter().enumerate() {
                if let Target::Step(to) = *target {
                    match step.steps.routes {
                        true => from[to].push(From::Edge(step.first_edge + output)),
                        false if output == 0 => from[to].push(From::Step(at)),
                        // What leaves by another output goes by way of the engine.
                        false => {}
                    }
                }
            }
            edges = edges.max(step.edges().end);
        }
        let joins: Vec<_> = (0..from.len()).map(|at| join(&from, at)).collect();
        let steps = layout.steps.iter().zip(from).zip(joins).map(|((step, from), join)| StepFlow {
            element: step.element,
            routes: step.steps.routes,
            edges: step.edges(),
            entered: Tally::default(),
            batches: Tally::default(),
            turned: Tally::default(),
            from,
            join,
        });
        Self { steps: steps.collect(), edges: (0..edges).map(|_| EdgeFlow::default()).collect() }
    }

    /// Whether several ways meet at a step.
    pub(super) fn is_join(&self, step: usize) -> bool {
        self.steps[step].join.is_some()
    }

    /// A batch is through: a step at which several ways meet counts it if packets came by one of them.
    pub(super) fn note_batch_at(&self, step: usize) {
        let Some(join) = &self.steps[step].join else { return };
        let count = |term: &Term| match *term {
            Term::Entered(at) => self.steps[at].entered.get(),
            Term::Turned(at) => self.steps[at].turned.get(),
            Term::Edge(at) => self.edges[at].packets.get(),
        };
        let sum = |terms: &[Term]| terms.iter().map(count).fold(0, u64::wrapping_add);
        let packets = sum(&join.plus).wrapping_sub(sum(&join.minus));
        if packets != join.before.get() {
            join.before.set(packets);
            join.batches.add(1);
        }
    }

    /// Adds to an element's counts what passed it in the program.
    pub(crate) fn add_to(&self, element: usize, stats: &mut ElementStats) {
        let Some(at) = self.steps.iter().position(|step| step.element == element) else { return };
        let mut passed: Vec<Passed> = Vec::with_capacity(at + 1);
        for step in self.steps.iter().take(at + 1) {
            let here = self.passed(step, &passed);
            passed.push(here);
        }
        let Some(here) = passed.last() else { return };
        stats.received += here.received;
        stats.batches += here.batches;
        stats.sent += here.on;
    }

    /// What passed a step, from what passed those in front of it.
    fn passed(&self, step: &StepFlow, before: &[Passed]) -> Passed {
        let mut here = Passed { received: step.entered.get(), batches: step.batches.get(), on: 0 };
        for from in &step.from {
            let (packets, batches) = match *from {
                From::Step(at) => (before[at].on, before[at].batches),
                From::Edge(at) => (self.edges[at].packets.get(), self.edges[at].batches.get()),
            };
            here.received = here.received.wrapping_add(packets);
            if step.join.is_none() {
                here.batches = here.batches.wrapping_add(batches);
            }
        }
        if let Some(join) = &step.join {
            here.batches = here.batches.wrapping_add(join.batches.get());
        }
        here.on = match step.routes {
            true => step.edges.clone().map(|edge| self.edges[edge].packets.get()).sum(),
            // While packets are on their way the counts do not fit together to the last one.
            false => here.received.saturating_sub(step.turned.get()),
        };
        here
    }
}

/// How what comes to a step by several ways follows from what is counted.
fn join(from: &[Vec<From>], step: usize) -> Option<Join> {
    if from[step].len() < 2 {
        return None;
    }
    let mut join = Join::default();
    let mut todo = from[step].clone();
    while let Some(way) = todo.pop() {
        match way {
            From::Edge(edge) => join.plus.push(Term::Edge(edge)),
            From::Step(at) => {
                join.plus.push(Term::Entered(at));
                join.minus.push(Term::Turned(at));
                todo.extend(&from[at]);
            }
        }
    }
    Some(join)
}
