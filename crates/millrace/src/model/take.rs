//! How a snapshot is taken.

use std::time::Instant;

use millrace_core::memory::copies::{self, Copies};
use millrace_core::router::ElementInfo;
use millrace_core::schedule::DelayStats;
use millrace_core::stats::ElementStats;
use millrace_core::{Phase, Router, Timestamp, graph};
use millrace_elements::capability::Storage;

use super::snapshot::{Delays, Element, PortKind, QueueFill, Snapshot, Totals, Worker};
use super::{Ledger, edges};

/// The moment at which counting begins.
pub(super) struct Origin {
    start: Instant,
    clock: Timestamp,
    copies: Copies,
}

impl Origin {
    /// Begins to count now.
    pub(super) fn new(router: &Router) -> Self {
        let clock = router.clock().now();
        Self { start: Instant::now(), clock, copies: copies::snapshot() }
    }
}

impl Snapshot {
    /// Reads the counts of this moment. No thread is stopped, so counts that change together may be read at slightly
    /// different moments.
    pub(super) fn take(router: &Router, ledger: &Ledger, origin: &Origin) -> Self {
        let infos = router.elements().zip(consistent(router)).enumerate();
        let elements: Vec<Element> =
            infos.map(|(id, (info, stats))| element(router, id, &info, &stats)).collect();
        let copies = copies::snapshot().since(&origin.copies);
        let virtual_seconds = router
            .clock()
            .is_virtual()
            .then(|| (router.clock().now() - origin.clock).to_duration().as_secs_f64());
        Self {
            version: Self::VERSION,
            program: concat!("millrace ", env!("CARGO_PKG_VERSION")).to_owned(),
            pid: std::process::id(),
            generation: router.generation(),
            phase: phase(router.phase()).to_owned(),
            seconds: origin.start.elapsed().as_secs_f64(),
            virtual_seconds,
            threads: router.plan().threads,
            workers: (0..router.plan().threads).map(|thread| worker(router, thread)).collect(),
            connections: edges::counted(router.connections(), &elements),
            devices: ledger.devices(),
            copies: copies.iter().map(|(cause, n)| (cause.name().to_owned(), n)).collect(),
            idle_cycles: router.idle_cycles(),
            totals: totals(&elements),
            elements,
        }
    }
}

/// The counts of all elements. They are read again, a few times at most, if a packet moved between the readings of two
/// elements: so a router that is not busy at this very moment accounts for every packet.
fn consistent(router: &Router) -> Vec<ElementStats> {
    const TIMES: usize = 4;
    let read =
        || -> Vec<ElementStats> { (0..router.len()).map(|id| router.stats_of(id)).collect() };
    let balanced = |all: &Vec<ElementStats>| {
        let sums = all.iter().fold((0, 0), |(came, went), one| {
            (came + one.created, went + one.consumed + one.dropped() + one.held)
        });
        sums.0 == sums.1 && all.iter().all(ElementStats::balanced)
    };
    let mut stats = read();
    for _ in 1..TIMES {
        if balanced(&stats) {
            break;
        }
        stats = read();
    }
    stats
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Running => "running",
        Phase::Ending => "ending",
        Phase::Draining => "draining",
        Phase::Halted => "halted",
    }
}

fn worker(router: &Router, thread: usize) -> Worker {
    let (spent, rest) = (router.spent_on(thread), router.rest_of(thread));
    let delays = |delays: DelayStats| Delays {
        count: delays.count,
        mean_seconds: delays.mean() as f64 / 1e9,
        longest_seconds: delays.longest as f64 / 1e9,
    };
    Worker {
        thread,
        cores: router.plan().seats.get(thread).map_or(Vec::new(), |seat| seat.cores.clone()),
        busy_cycles: spent.busy,
        polling_cycles: spent.polling,
        idle_cycles: spent.idle,
        sleeps: rest.sleeps,
        slept_seconds: rest.nanos as f64 / 1e9,
        arrivals: delays(rest.arrivals),
        calls: delays(rest.calls),
        alarms: delays(rest.alarms),
    }
}

fn element(router: &Router, id: usize, info: &ElementInfo<'_>, stats: &ElementStats) -> Element {
    let kinds = |kinds: &[graph::PortKind]| kinds.iter().copied().map(PortKind::from).collect();
    let queue = router
        .offered::<dyn Storage>(id)
        .map(|queue| QueueFill { length: queue.size() as u64, capacity: queue.capacity() as u64 });
    let element = Element {
        id,
        name: info.name.to_owned(),
        class: info.class.name.to_owned(),
        landmark: info.landmark.to_owned(),
        information: info.class.information,
        inputs: kinds(info.inputs),
        outputs: kinds(info.outputs),
        received: stats.received,
        created: stats.created,
        sent: stats.sent,
        consumed: stats.consumed,
        bytes: byte_count(router, id),
        batches: stats.batches,
        cycles: stats.cycles,
        polling_cycles: stats.polling,
        held: stats.held,
        queue,
        drops: stats.drops.iter().map(|(why, n)| (why.name().to_owned(), *n)).collect(),
        balanced: stats.balanced(),
        ..Element::default()
    };
    element.complete()
}

fn byte_count(router: &Router, id: usize) -> Option<u64> {
    let text = router.read_of(id, "byte_count", b"").ok()?;
    std::str::from_utf8(&text).ok()?.trim().parse().ok()
}

fn totals(elements: &[Element]) -> Totals {
    let mut totals = Totals::default();
    for element in elements {
        totals.entered += element.created;
        totals.left += element.consumed;
        totals.dropped += element.dropped;
        totals.held += element.held;
    }
    let all = totals.entered == totals.left + totals.dropped + totals.held;
    totals.balanced = all && elements.iter().all(|element| element.balanced);
    totals
}

impl From<graph::PortKind> for PortKind {
    fn from(kind: graph::PortKind) -> Self {
        match kind {
            graph::PortKind::Push => Self::Push,
            graph::PortKind::Pull => Self::Pull,
            graph::PortKind::Agnostic => Self::Agnostic,
        }
    }
}
