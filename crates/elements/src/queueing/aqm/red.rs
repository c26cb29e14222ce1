//! RED - drops packets by Random Early Detection
//!
//! # Synopsis
//! `RED(MIN_THRESH, MAX_THRESH, MAX_P [, keywords QUEUES, STABILITY, GENTLE])`
//!
//! # Description
//! Follows the length of queues with a moving average, and lets packets go with a probability that grows with it, so
//! that those who send slow down before there is no room (Floyd and Jacobson, 1993). Up to MIN_THRESH none go; from
//! there the probability grows evenly, up to MAX_P at MAX_THRESH; when GENTLE, from there evenly up to 1 at twice
//! MAX_THRESH; above, all go.
//!
//! The queues are the nearest ones: downstream when packets are pushed through, upstream when they are pulled. What
//! has been pushed on counts as being in the queues at once.
//!
//! # Arguments
//! - MIN_THRESH, MAX_THRESH: lengths in packets, at most 65535. Positional, mandatory.
//! - MAX_P: a probability. Positional, mandatory.
//! - QUEUES: the queues to follow, by name, instead of the nearest ones.
//! - STABILITY: each look weighs one part in 2^STABILITY of the average, at most 16; 0 for the length as it is.
//!   Default 4.
//! - GENTLE: whether the probability grows above MAX_THRESH. Default true.
//!
//! # Ports
//! One agnostic input, one agnostic output; packets that go leave by push output 1, if that is connected.
//!
//! # Handlers
//! - `min_thresh`, `max_thresh`, `max_p` (read, write): as the arguments.
//! - `drops` (read): packets that have gone.
//! - `queues` (read): the queues, one a line.
//! - `avg_queue_size` (read): the average length.
//! - `stats` (read): the length, its average, and `drops`.
//! - `config` (read, write): the arguments; QUEUES stays as it is.
//!
//! # Drops
//! - limited: by the average length, and output 1 is not connected.
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
