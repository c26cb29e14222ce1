//! AdaptiveRED - drops packets by Random Early Detection and adapts its drop probability
//!
//! # Synopsis
//! `AdaptiveRED(TARGET, MAX_P [, keywords QUEUES, STABILITY])`
//!
//! # Description
//! Works like a RED with thresholds of half and of one and a half times TARGET, and with GENTLE on. Twice a second it
//! compares the average queue length with the midpoint of the thresholds. Below it, MAX_P shrinks by a tenth; above
//! it, MAX_P grows by a quarter or by 0.01, whichever is less. MAX_P stays between about 0.01 and 0.5, and the queue
//! length settles near TARGET.
//!
//! # Arguments
//! - TARGET: the target queue length in packets; values below 10 count as 10. Positional, mandatory.
//! - MAX_P: the initial drop probability at the upper threshold. Positional, mandatory.
//! - QUEUES: the names of the queues to watch, instead of the nearest ones.
//! - STABILITY: the weight of each sample in the average is 1/2^STABILITY; at most 16. With 0, the current length is
//!   used without averaging. Default 4.
//!
//! # Ports
//! One agnostic input, one agnostic output. Dropped packets leave by push output 1 if it is connected.
//!
//! # Handlers
//! - `min_thresh`, `max_thresh`, `max_p` (read): the current values, as in RED. Writing them fails, as in Click,
//!   because there are no arguments with these names.
//! - `drops` (read): packets dropped or sent to output 1.
//! - `queues` (read): the names of the queues, one per line.
//! - `avg_queue_size` (read): the average queue length.
//! - `stats` (read): the current and the average queue length, and `drops`.
//! - `config` (read, write): a read returns the arguments of an equivalent RED; a write needs TARGET and MAX_P, accepts
//!   the other arguments, and does not change QUEUES.
//!
//! # Drops
//! - limited: dropped because of the average queue length, and output 1 is not connected.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> AdaptiveRED(20, 0.02) -> Queue(200) -> Unqueue -> Discard;
//! ```
//!
//! # See also
//! RED, CoDel, PI, Queue

use millrace_core::args::UFixed;
use millrace_core::{
    Args, Batch, Class, Context, Element, Failed, Handlers, Init, Refused, Setup, Timer, Timestamp,
    register,
};

use super::random_early::Params;
use super::red::Early;

/// The element; its manual is at the top of the file.
pub struct AdaptiveRed {
    early: Early,
    timer: Timer,
}

const INTERVAL: Timestamp = Timestamp::from_millis(500);

register!(AdaptiveRed, "adaptive_red.rs");

fn read(args: &mut Args<'_>) -> Params {
    let target: u32 = args.mandatory("TARGET");
    let max_p = args.mandatory::<UFixed<16>>("MAX_P").0;
    let stability = args.keyword("STABILITY", 4);
    let target = target.max(10);
    let min_thresh = target / 2;
    let max_thresh = target.saturating_add(min_thresh);
    Params { min_thresh, max_thresh, max_p, gentle: true, stability }
}

impl Element for AdaptiveRed {
    const CLASS: Class = Class::new("AdaptiveRED", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let early = Early::configure(setup, read)?;
        Ok(Self { early, timer: setup.timer() })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.early.initialize(init)?;
        self.again(init.clock().now());
        Ok(())
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        self.early.push(cx, batch);
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        self.early.pull(cx, max, batch);
    }

    fn run_timer(&self, _cx: &mut Context, (): &mut ()) {
        self.early.adapt();
        self.again(self.timer.expired());
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        self.early.take_state(&old.early);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Early::handlers(handlers, |red| &red.early, read);
    }
}

impl AdaptiveRed {
    /// Schedules the timer one interval after `last`.
    fn again(&self, last: Timestamp) {
        self.timer.schedule_at(last + INTERVAL);
    }
}
