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

use millrace_core::args::UFixed;
use millrace_core::{
    Args, Batch, Class, Context, Element, Failed, Handlers, Init, Refused, Setup, register,
};

use super::early::Early;
use super::random_early::Params;

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
