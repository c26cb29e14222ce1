//! Building, and lookups.

use std::time::Instant;

use anyhow::Context;
use millrace_elements::ip::lookup::{Prefix, Route};

use super::subject::{Structure, Subject};

/// Lookups of a round.
const LOOKUPS: usize = 1 << 20;

/// The number of lookups that are timed together. It is so small that most such pieces run undisturbed.
const PIECE: usize = 1 << 14;

/// A table with its routes, and the cost of building it.
pub(crate) struct Built {
    pub(crate) subject: Box<dyn Subject>,
    /// The time from a list of routes, including the tree of routes; the best of the rounds.
    pub(crate) milliseconds: f64,
    /// Bytes of the routes, and of the structure.
    pub(crate) memory: (usize, usize),
}

/// Builds a table several times.
///
/// # Errors
/// There is not enough memory.
pub(crate) fn build(structure: &Structure, routes: &[Route], rounds: u32) -> anyhow::Result<Built> {
    let mut best: Option<Built> = None;
    for _ in 0..rounds {
        // One table at a time.
        let before = best.take().map_or(f64::INFINITY, |built| built.milliseconds);
        let start = Instant::now();
        let subject = (structure.build)(routes)?;
        let milliseconds = before.min(start.elapsed().as_secs_f64() * 1e3);
        let memory = subject.memory();
        best = Some(Built { subject, milliseconds, memory });
    }
    best.context("no rounds")
}

/// The destinations of packets.
pub(crate) struct Destinations {
    pub(crate) name: &'static str,
    pub(crate) addresses: Vec<u32>,
}

impl Destinations {
    /// Traffic to as many different addresses in the routes' networks, and to any address.
    pub(crate) fn all(routes: &[Route]) -> Vec<Self> {
        vec![
            Self::few("1,024", 1024, routes),
            Self::few("16,384", 16_384, routes),
            Self::few("1M", LOOKUPS, routes),
            Self::uniform(),
        ]
    }

    /// Packets to `count` addresses, each in the network of a random route, in random order.
    pub(crate) fn few(name: &'static str, count: usize, routes: &[Route]) -> Self {
        let mut random = fastrand::Rng::with_seed(7);
        let in_route = |random: &mut fastrand::Rng| {
            let prefix = random.choice(routes).map_or(Prefix::DEFAULT, |route| route.prefix);
            prefix.first() | random.u32(..) & !prefix.mask()
        };
        let known: Vec<u32> = (0..count).map(|_| in_route(&mut random)).collect();
        let addresses = if count < LOOKUPS {
            (0..LOOKUPS).map(|_| random.choice(&known).copied().unwrap_or_default()).collect()
        } else {
            known
        };
        Self { name, addresses }
    }

    fn uniform() -> Self {
        let mut random = fastrand::Rng::with_seed(8);
        Self { name: "any", addresses: (0..LOOKUPS).map(|_| random.u32(..)).collect() }
    }
}

/// The times of lookups: for each piece of the work, the best so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lookups {
    single: Vec<f64>,
    batched: Vec<f64>,
}

impl Lookups {
    /// Looks all addresses up, one by one and in batches.
    pub(crate) fn add_round(&mut self, subject: &dyn Subject, addresses: &[u32]) {
        pass(&mut self.single, addresses, |piece| subject.single(piece));
        pass(&mut self.batched, addresses, |piece| subject.batched(piece));
    }

    /// Nanoseconds per lookup that waits for the previous one.
    pub(crate) fn single(&self) -> f64 {
        mean(&self.single)
    }

    /// Nanoseconds per lookup in a batch.
    pub(crate) fn batched(&self) -> f64 {
        mean(&self.batched)
    }
}

fn pass(best: &mut Vec<f64>, addresses: &[u32], mut run: impl FnMut(&[u32])) {
    let pieces = addresses.chunks(PIECE);
    best.resize(pieces.len(), f64::INFINITY);
    for (piece, best) in pieces.zip(best) {
        let start = Instant::now();
        run(piece);
        *best = best.min(start.elapsed().as_secs_f64() * 1e9 / piece.len() as f64);
    }
}

fn mean(pieces: &[f64]) -> f64 {
    pieces.iter().sum::<f64>() / pieces.len().max(1) as f64
}
