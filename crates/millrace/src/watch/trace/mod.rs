//! The ways of single packets through the graph.

mod fields;
mod story;
mod tracer;

use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_core::Router;
use millrace_core::graph::PortKind;
use millrace_core::observe::{Observation, Observing};
use millrace_io::bpf::Instruction;
use serde::{Deserialize, Serialize};

use super::filter::Filter;
use super::places;
use super::wish::Wish;
use story::Stories;
pub(crate) use story::{Hop, Story, Traveller};
use tracer::Tracer;

/// Which packets to trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TraceWish {
    /// Who knows it reads the traces.
    pub(crate) key: String,
    /// A pattern in IPFilter's language; empty for all packets.
    pub(crate) filter: String,
    /// The same as programs, as in [`Wish::program`].
    pub(crate) program: Option<[Vec<Instruction>; 2]>,
    /// The element behind which traces begin; empty for where packets come into the router.
    pub(crate) at: String,
    /// How many packets to trace.
    pub(crate) count: u64,
    /// One packet in so many is traced.
    pub(crate) every: u64,
}

/// Traces of one router.
pub(super) struct Traces {
    tracer: Arc<Tracer>,
    stories: Stories,
    generation: u64,
    observing: Option<Observing>,
    last_read: Instant,
}

/// A read waits so long for traces.
const WAIT: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_millis(2);

impl Traces {
    /// Begins to trace.
    ///
    /// # Errors
    /// There is no such element, or the filter is wrong.
    pub(super) fn begin(router: &Router, wish: &TraceWish) -> Result<Self, String> {
        let links = router.connections().to_vec();
        let mut starts = vec![false; links.len()];
        match wish.at.is_empty() {
            true => {
                let comes_in = |id: usize| router.input_kind(id, 0).is_none();
                starts.iter_mut().zip(&links).for_each(|(start, link)| *start = comes_in(link.0.0));
            }
            false => {
                let places = vec![wish.at.clone()];
                let found = places::connections(router, &Wish { places, ..Wish::default() })?;
                found.into_iter().for_each(|at| starts[at] = true);
            }
        }
        let selects =
            Wish { filter: wish.filter.clone(), program: wish.program.clone(), ..Wish::default() };
        let filter = Filter::new(&selects, router)?;
        let kind = |(from, output): (usize, usize)| router.output_kind(from, output);
        let pulled = links.iter().map(|link| kind(link.0) == Some(PortKind::Pull)).collect();
        let sinks = router.elements().map(|info| info.outputs.is_empty()).collect();
        let stories = Stories::new(router);
        let connections = (0..links.len()).collect();
        let rate = (wish.every, wish.count);
        let threads = router.plan().threads;
        let tracer = Arc::new(Tracer::new(filter, starts, (links, pulled), sinks, rate, threads));
        let observer = tracer.clone();
        let observing =
            router.observe(Observation { connections, drops: true, singly: true, observer });
        Ok(Self {
            tracer,
            stories,
            generation: router.generation(),
            observing: Some(observing),
            last_read: Instant::now(),
        })
    }

    pub(super) fn last_read(&self) -> Instant {
        self.last_read
    }

    /// The traces that have come to an end; at the `end`, all of them. Nothing is observed any more then, nor in another
    /// router.
    pub(super) fn read(&mut self, router: &Router, end: bool) -> Vec<Story> {
        self.last_read = Instant::now();
        let ends = end || router.generation() != self.generation;
        if ends {
            self.observing = None;
        }
        let patience = Instant::now() + WAIT;
        let told = loop {
            self.stories.add(self.tracer.take(), self.tracer.missed());
            let told = self.stories.take(ends);
            if !told.is_empty() || ends || Instant::now() >= patience {
                break told;
            }
            std::thread::sleep(LOOK);
        };
        self.last_read = Instant::now();
        told
    }
}
