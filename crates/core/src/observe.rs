//! Watching packets while they are forwarded: at connections, and where they are dropped.
//!
//! An [`Observation`] says what is watched and who watches. While it lasts
//! ([`Router::observe`](crate::Router::observe) returns its guard), each thread of the router shows its [`Observer`]
//! the packets. A thread changes at the beginning of a round, when no packet waits anywhere: from then on outputs and
//! inputs of watched connections lead to a *tap*, which shows each packet and passes it on to where it would have gone.
//! Order, counts, drops and results stay as they are. Without an observation there are no taps, and forwarding takes
//! not one instruction more.
//!
//! An observation belongs to one router: after a hot swap, whoever wants to go on observes the new router.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::Lock;
use crate::drops::Reason;
use crate::memory::Packet;
use crate::schedule::Waker;
use crate::time::Timestamp;

/// Sees packets, on the thread that forwards them. It must not wait for anything: packets wait behind it.
pub trait Observer: Send + Sync {
    /// A packet passes a connection.
    fn passes(&self, at: &Passage, packet: &Packet);

    /// An element begins to process a packet that has been pushed to it, in an observation that has packets go singly:
    /// what it sends from now on, it sends because of this packet. Pulled packets are processed as soon as they have
    /// passed.
    fn begins(&self, at: &Begin, packet: &Packet) {
        let _ = (at, packet);
    }

    /// An element drops a packet.
    fn drops(&self, at: &Loss, packet: &Packet) {
        let _ = (at, packet);
    }

    /// An element counts dropped packets that it has already freed, or that it could not make.
    fn drops_unseen(&self, at: &Loss, count: usize) {
        let _ = (at, count);
    }
}

/// A packet on its way from one element to another.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    /// The connection, by its place in [`Router::connections`](crate::Router::connections).
    pub connection: usize,
    /// How many packets pass together.
    pub batch: usize,
    /// The thread that forwards it.
    pub thread: usize,
    /// When the round began.
    pub now: Timestamp,
    /// The cycles that the element in front has taken so far, in an observation that has packets go singly.
    pub cycles: u64,
}

/// The beginning of an element's work on a packet.
#[derive(Clone, Copy, Debug)]
pub struct Begin {
    /// The element.
    pub element: usize,
    /// The thread.
    pub thread: usize,
    /// When the round began.
    pub now: Timestamp,
}

/// The end of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// The element that drops it.
    pub element: usize,
    /// Why.
    pub reason: Reason,
    /// The thread.
    pub thread: usize,
    /// When the round began.
    pub now: Timestamp,
    /// As in [`Passage::cycles`].
    pub cycles: u64,
}

/// What is watched, and by whom.
#[derive(Clone)]
pub struct Observation {
    /// The watched connections, by their places in [`Router::connections`](crate::Router::connections).
    pub connections: Vec<usize>,
    /// Whether drops are watched.
    pub drops: bool,
    /// Whether each packet goes its whole way through the graph, element by element, before the next one starts: so it
    /// is known which packet an element made another one of, and what it cost. That is the order of Click.
    pub singly: bool,
    /// Who sees the packets.
    pub observer: Arc<dyn Observer>,
}

impl fmt::Debug for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connections, drops, singly, .. } = self;
        let mut shown = f.debug_struct("Observation");
        shown.field("connections", connections).field("drops", drops).field("singly", singly);
        shown.finish_non_exhaustive()
    }
}

/// Keeps an observation up; the threads end it in their next round when this is dropped.
#[must_use = "an observation ends when this is dropped"]
#[derive(Debug)]
pub struct Observing {
    all: Arc<Observations>,
    number: u64,
}

impl Drop for Observing {
    fn drop(&mut self) {
        self.all.change(|list| list.retain(|(number, _)| *number != self.number));
    }
}

/// The observations of one router.
#[derive(Debug)]
pub(crate) struct Observations {
    list: Lock<Vec<(u64, Observation)>>,
    /// How often the list has changed.
    changes: AtomicU64,
    is_singly: AtomicBool,
    wakers: Arc<[Arc<Waker>]>,
}

impl Observations {
    pub(crate) fn new(wakers: Arc<[Arc<Waker>]>) -> Self {
        Self { list: Lock::default(), changes: 0.into(), is_singly: false.into(), wakers }
    }

    pub(crate) fn add(self: &Arc<Self>, observation: Observation) -> Observing {
        let number = self.change(|list| {
            let number = list.last().map_or(0, |(last, _)| last + 1);
            list.push((number, observation));
            number
        });
        Observing { all: self.clone(), number }
    }

    fn change<R>(&self, change: impl FnOnce(&mut Vec<(u64, Observation)>) -> R) -> R {
        let mut list = self.list.lock();
        let result = change(&mut list);
        let is_singly = list.iter().any(|(_, one)| one.singly);
        self.is_singly.store(is_singly, Ordering::SeqCst);
        self.changes.fetch_add(1, Ordering::SeqCst);
        drop(list);
        self.wakers.iter().for_each(|waker| waker.announce());
        result
    }

    /// How often what is observed has changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Whether an observation has packets go singly.
    pub(crate) fn is_singly(&self) -> bool {
        self.is_singly.load(Ordering::SeqCst)
    }

    /// The observations, and [`changes`](Self::changes) at that moment.
    pub(crate) fn current(&self) -> (Vec<Observation>, u64) {
        let list = self.list.lock();
        (list.iter().map(|(_, one)| one.clone()).collect(), self.changes())
    }
}
