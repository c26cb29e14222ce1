//! RED - drops packets at random before a queue is full (Random Early Detection)
//!
//! # Synopsis
//! `RED(MIN_THRESH, MAX_THRESH, MAX_P [, keywords QUEUES, STABILITY, GENTLE])`
//!
//! # Description
//! Keeps a moving average of the queue length, and drops packets with a probability that grows with the average, so
//! that senders slow down before the queue is full (Floyd and Jacobson, 1993). Up to MIN_THRESH no packet is dropped.
//! From there the probability grows linearly, to MAX_P at MAX_THRESH. With GENTLE it then grows linearly to 1 at twice
//! MAX_THRESH. Above that, or above MAX_THRESH without GENTLE, all packets are dropped.
//!
//! The queues watched are the nearest ones: downstream if packets are pushed through the element, upstream if they are
//! pulled. A packet that is pushed on counts as queued immediately.
//!
//! # Arguments
//! - MIN_THRESH, MAX_THRESH: queue lengths in packets, at most 65535. Positional, mandatory.
//! - MAX_P: the drop probability at MAX_THRESH. Positional, mandatory.
//! - QUEUES: the names of the queues to watch, instead of the nearest ones.
//! - STABILITY: the weight of each sample in the average is 1/2^STABILITY; at most 16. With 0, the current length is
//!   used without averaging. Default 4.
//! - GENTLE: whether the probability grows gradually above MAX_THRESH. Default true.
//!
//! # Ports
//! One agnostic input, one agnostic output. Dropped packets leave by push output 1 if it is connected.
//!
//! # Handlers
//! - `min_thresh`, `max_thresh`, `max_p` (read, write): the arguments of the same names.
//! - `drops` (read): packets dropped or sent to output 1.
//! - `queues` (read): the names of the queues, one per line.
//! - `avg_queue_size` (read): the average queue length.
//! - `stats` (read): the current and the average queue length, and `drops`.
//! - `config` (read, write): the arguments; a write does not change QUEUES.
//!
//! # Drops
//! - limited: dropped because of the average queue length, and output 1 is not connected.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> RED(5, 50, 0.02) -> Queue(200) -> Unqueue -> Discard;
//! ```
//!
//! # See also
//! AdaptiveRED, CoDel, PI, Queue

use std::sync::MutexGuard;

use millrace_core::args::{Kind, UFixed};
use millrace_core::element::Call;
use millrace_core::{
    Args, Batch, Class, Context, Element, Failed, HandlerError, Handlers, Init, Lock, Refused,
    Setup, register,
};

use super::random_early::{Params, RandomEarly};
use super::watched::{Dropper, Watched, reread, with_argument};

/// The element; its manual is at the top of the file.
pub struct Red(Early);

register!(Red, "red.rs");

fn read(args: &mut Args<'_>) -> Params {
    Params {
        min_thresh: args.mandatory("MIN_THRESH"),
        max_thresh: args.mandatory("MAX_THRESH"),
        max_p: args.mandatory::<UFixed<16>>("MAX_P").0,
        stability: args.keyword("STABILITY", 4),
        gentle: args.keyword("GENTLE", true),
    }
}

impl Element for Red {
    const CLASS: Class = Class::new("RED", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Early::configure(setup, read).map(Self)
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.0.initialize(init)
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        self.0.push(cx, batch);
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        self.0.pull(cx, max, batch);
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        self.0.take_state(&old.0);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Early::handlers(handlers, |red| &red.0, read);
    }
}

/// Drops packets according to the average queue length.
pub(super) struct Early {
    watched: Watched,
    state: Lock<RandomEarly>,
}

/// Reads the arguments of a class, except QUEUES.
pub(super) type Read = fn(&mut Args<'_>) -> Params;

impl Early {
    pub(super) fn configure(setup: &mut Setup<'_>, read: Read) -> Result<Self, Failed> {
        let (params, watched) = read_all(&mut setup.args, read);
        if setup.args.has_errors() {
            return Err(Failed);
        }
        Ok(Self { watched, state: Lock::new(RandomEarly::new(params)) })
    }

    pub(super) fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.watched.initialize(init, "no nearby Queues")
    }

    pub(super) fn push(&self, cx: &mut Context, batch: &mut Batch) {
        self.push_on(cx, batch);
    }

    pub(super) fn pull(&self, cx: &mut Context, max: usize, batch: &mut Batch) {
        self.pull_rest(cx, max, batch);
    }

    /// Takes over the average of the old element.
    pub(super) fn take_state(&self, old: &Self) {
        let average = old.state().average;
        self.state().average = average;
    }

    /// Adapts the probability to the current queue length.
    pub(super) fn adapt(&self) {
        let size = self.watched.size() as u64;
        self.state().adapt(size);
    }

    /// The handlers `drops min_thresh max_thresh max_p avg_queue_size stats queues config`.
    pub(super) fn handlers<E: Element>(
        handlers: &mut Handlers<E>,
        of: fn(&E) -> &Self,
        read: Read,
    ) {
        handlers.read("drops", move |e, _| of(e).state().drops);
        handlers.read("min_thresh", move |e, _| of(e).state().params.min_thresh);
        handlers.read("max_thresh", move |e, _| of(e).state().params.max_thresh);
        handlers.read("max_p", move |e, _| UFixed::<16>(of(e).state().params.max_p).to_string());
        for (at, name) in ["min_thresh", "max_thresh", "max_p"].into_iter().enumerate() {
            handlers.write(name, move |e, call| {
                let config = with_argument(&of(e).config(call), at, &call.text());
                of(e).reconfigure(call, &config, read)
            });
        }
        handlers.read("avg_queue_size", move |e, _| of(e).state().average.text());
        handlers.read("stats", move |e, _| {
            let size = of(e).watched.size();
            let state = of(e).state();
            format!(
                "{size} current queue\n{} avg queue\n{} drops\n",
                state.average.text(),
                state.drops
            )
        });
        handlers.read("queues", move |e, call| of(e).watched.names(call.router(), "\n"));
        handlers.read("config", move |e, call| of(e).config(call));
        handlers.write("config", move |e, call| of(e).reconfigure(call, &call.text(), read));
    }

    /// The current settings, as arguments of RED.
    fn config(&self, call: &Call<'_>) -> String {
        let queues = self.watched.config(call.router());
        let Params { min_thresh, max_thresh, max_p, gentle, stability } = self.state().params;
        let gentle = if gentle { "" } else { ", GENTLE false" };
        let max_p = UFixed::<16>(max_p);
        format!("{min_thresh}, {max_thresh}, {max_p}, {queues}, STABILITY {stability}{gentle}")
    }

    /// Applies new arguments, except the queues.
    fn reconfigure(&self, call: &Call<'_>, config: &str, read: Read) -> Result<(), HandlerError> {
        reread(call, config, |args| {
            let (params, _) = read_all(args, read);
            if !args.has_errors() {
                self.state().params = params;
            }
        })
    }

    fn state(&self) -> MutexGuard<'_, RandomEarly> {
        self.state.lock()
    }
}

/// Reads all arguments of a class; errors are recorded in `args`.
fn read_all(args: &mut Args<'_>, read: Read) -> (Params, Watched) {
    let params = read(args);
    let watched = Watched::configure(args, Kind::Keyword);
    if args.complete().is_ok() {
        params.check(args);
    }
    (params, watched)
}

impl Dropper for Early {
    fn watched(&self) -> &Watched {
        &self.watched
    }

    fn goes(&self, cx: &mut Context, size: usize) -> bool {
        let now = cx.now();
        self.state().goes(size as u64, now, || cx.random().u32(0..0x10000))
    }
}
