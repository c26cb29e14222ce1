//! AdaptiveRED - drops packets by Random Early Detection that adapts itself
//!
//! # Synopsis
//! `AdaptiveRED(TARGET, MAX_P [, keywords QUEUES, STABILITY])`
//!
//! # Description
//! RED with thresholds of half and of one and a half times TARGET, and gentle. Twice a second it makes MAX_P a tenth
//! smaller when the average length is below the middle between them, and somewhat greater when it is above, between
//! 0.01 and 0.5, so that the queues come to be about TARGET long.
//!
//! # Arguments
//! - TARGET: a length in packets; less than 10 is taken for 10. Positional, mandatory.
//! - MAX_P: the probability to begin with. Positional, mandatory.
//! - QUEUES: the queues to follow, by name, instead of the nearest ones.
//! - STABILITY: each look weighs one part in 2^STABILITY of the average, at most 16; 0 for the length as it is.
//!   Default 4.
//!
//! # Ports
//! One agnostic input, one agnostic output; packets that go leave by push output 1, if that is connected.
//!
//! # Handlers
//! - `min_thresh`, `max_thresh`, `max_p` (read): as those of RED. Writing them is refused, as by Click: their names
//!   are those of no arguments.
//! - `drops` (read): packets that have gone.
//! - `queues` (read): the queues, one a line.
//! - `avg_queue_size` (read): the average length.
//! - `stats` (read): the length, its average, and `drops`.
//! - `config` (read, write): what is read are the arguments of a RED that does the same now; what is written are
//!   TARGET, MAX_P and the others; QUEUES stays as it is.
//!
//! # Drops
//! - limited: by the average length, and output 1 is not connected.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> AdaptiveRED(20, 0.02) -> Queue(200) -> Unqueue -> Discard;
//! ```
//!
//! # See also
//! RED, CoDel, PI, Queue

use std::sync::{Mutex, PoisonError};

use millrace_core::args::UFixed;
use millrace_core::{
    Args, Batch, Class, Context, Element, Failed, Handlers, Init, Refused, Setup, Timer, Timestamp,
    register,
};

use super::early::Early;
use super::random_early::Params;

/// The element; its manual is at the top of the file.
pub struct AdaptiveRed {
    early: Early,
    timer: Timer,
    /// When the timer expires.
    due: Mutex<Timestamp>,
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
        Ok(Self { early, timer: setup.timer(), due: Mutex::default() })
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
        let due = *self.due.lock().unwrap_or_else(PoisonError::into_inner);
        self.again(due);
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        self.early.take_state(&old.early);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Early::handlers(handlers, |red| &red.early, read);
    }
}

impl AdaptiveRed {
    /// Lets the timer expire an interval after `last`.
    fn again(&self, last: Timestamp) {
        let due = last + INTERVAL;
        *self.due.lock().unwrap_or_else(PoisonError::into_inner) = due;
        self.timer.schedule_at(due);
    }
}
