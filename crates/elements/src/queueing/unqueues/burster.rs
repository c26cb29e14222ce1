//! Burster - pulls a burst of packets at regular intervals and pushes it on
//!
//! # Synopsis
//! `Burster(INTERVAL [, BURST])`
//!
//! # Description
//! A TimedUnqueue with a different default for BURST: pulls up to BURST packets at once, pushes them on, and repeats
//! after INTERVAL. If it finds no packets and the queues upstream report none, it sleeps until a packet arrives, and
//! pulls that one immediately.
//!
//! # Arguments
//! - INTERVAL: time between pulls, in whole milliseconds. Positional, mandatory.
//! - BURST: maximum number of packets at a time. Positional, default 8.
//!
//! # Ports
//! One pull input, one push output.
//!
//! # Handlers
//! - `scheduled`, `home_thread` (read, write): whether its task is scheduled; the thread that runs the task.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> Queue -> Burster(10ms) -> Discard;
//! ```
//!
//! # See also
//! TimedUnqueue, Unqueue, RatedUnqueue, TimedSink

use millrace_core::{Class, Context, Element, Failed, Handlers, Init, Refused, Setup, register};

use super::timed_unqueue::Timed;
use crate::task_handlers::task_handlers;

/// The element; its manual is at the top of the file.
pub struct Burster(Timed);

register!(Burster, "burster.rs");

impl Element for Burster {
    const CLASS: Class = Class::new("Burster", "1/1", "l/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Timed::configure(setup, 8).map(Self)
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.0.initialize(init);
        Ok(())
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        self.0.run_task(cx)
    }

    fn run_timer(&self, _cx: &mut Context, (): &mut ()) {
        self.0.task().schedule();
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        task_handlers(handlers, |unqueue| unqueue.0.task());
    }
}
