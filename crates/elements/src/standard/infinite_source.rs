//! InfiniteSource - generates packets as fast as possible
//!
//! # Synopsis
//! `InfiniteSource([DATA, LIMIT, BURST, ACTIVE, keywords LENGTH, TIMESTAMP, HEADROOM, STOP, END_CALL])`
//!
//! # Description
//! Makes packets with the bytes DATA and pushes BURST of them each time it is scheduled, up to LIMIT in
//! total. It waits while every Queue downstream is full. On a pull output, it returns as many packets as
//! the puller requests.
//!
//! # Arguments
//! - DATA: the packet's bytes. Positional, default a text of 69 bytes.
//! - LIMIT: number of packets to make; negative for no limit. Positional, default -1.
//! - BURST: packets to push each time, at least 1. Positional, default 1.
//! - ACTIVE: whether the source sends packets. Positional, default true.
//! - LENGTH (or DATASIZE): the packet's length; DATA is truncated or repeated to fit. Default: the length of DATA.
//! - TIMESTAMP: whether to set the timestamp annotation to the time when the packet is made. Default true.
//! - HEADROOM: headroom of the packets, in bytes. Default 128.
//! - STOP: whether to stop the program after the last packet. Default false.
//! - END_CALL: write handler to call after the last packet, such as `"counter.reset"`.
//!
//! # Ports
//! One agnostic output.
//!
//! # Handlers
//! - `data`, `length`, `limit`, `burst`, `active` (read, write): the arguments of these names.
//! - `count` (read): packets made so far.
//! - `reset` (write): sets `count` to 0, so that LIMIT more packets are made.
//! - `scheduled`, `home_thread` (read, write): whether the task is scheduled, and its home thread.
//!
//! # Drops
//! - no buffer: no packet memory was free.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<0800 4500>, LENGTH 64, LIMIT 1000, BURST 32, STOP true) -> Discard;
//! ```
//!
//! # See also
//! RatedSource, TimedSource

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use millrace_core::element::{Listening, PortKind};
use millrace_core::{
    Args, Batch, Class, Context, Element, Failed, Handlers, Init, Inspection, Notifier, Refused,
    Setup, Task, register,
};

use super::supply::{Given, Supply};
use crate::task_handlers::task_handlers;

/// The element; its manual is at the top of the file.
pub struct InfiniteSource {
    source: Source,
}

register!(InfiniteSource, "infinite_source.rs");

impl Element for InfiniteSource {
    const CLASS: Class = Class::new("InfiniteSource", "0/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let data = setup.args.optional("DATA");
        let limit = setup.args.optional("LIMIT");
        let burst = Source::burst(&mut setup.args);
        let active = setup.args.optional("ACTIVE");
        let supply = Supply::configure(&mut setup.args, Given { data, limit, active })?;
        Ok(Self { source: Source::new(setup, supply, burst) })
    }

    fn inspect(&self, inspection: &mut Inspection<'_>) {
        self.source.inspect(inspection);
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.source.initialize(init)
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        self.source.pull(cx, max, batch);
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        self.source.run_task(cx)
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Source::handlers(handlers, |source| &source.source);
        Supply::data_handlers(handlers, |source| source.source.supply());
    }

    fn notifier(&self, _port: usize) -> Option<&Notifier> {
        Some(self.source.notifier())
    }
}

/// Pushes packets in bursts while there is room downstream, or returns them to a puller.
pub(super) struct Source {
    supply: Supply,
    burst: AtomicU32,
    task: Task,
    /// Tells pullers whether there are packets.
    notifier: Notifier,
    room: OnceLock<Listening>,
}

impl Source {
    /// Reads BURST.
    pub(super) fn burst(args: &mut Args<'_>) -> i32 {
        let burst = args.positional("BURST", 1);
        if burst < 1 {
            args.error("BURST", "burst size must be >= 1");
        }
        burst
    }

    pub(super) fn new(setup: &mut Setup<'_>, supply: Supply, burst: i32) -> Self {
        Self {
            supply,
            burst: burst.unsigned_abs().into(),
            task: setup.task(),
            notifier: Notifier::default(),
            room: OnceLock::new(),
        }
    }

    pub(super) fn supply(&self) -> &Supply {
        &self.supply
    }

    pub(super) fn notifier(&self) -> &Notifier {
        &self.notifier
    }

    pub(super) fn inspect(&self, inspection: &mut Inspection<'_>) {
        let pushes = inspection.outputs_of(inspection.id()).contains(&PortKind::Push);
        if pushes && self.burst.load(Relaxed) == 1 {
            inspection.advise(
                "sends bursts of 1, so what is below gets batches of 1; say BURST 32, for example",
            );
        }
    }

    pub(super) fn initialize(&self, init: &Init<'_>) -> Result<(), Refused> {
        self.supply.initialize(init)?;
        if !init.is_pull_output(0) {
            // An element is initialised once.
            let _ = self.room.set(init.listen_for_room(0, &self.task));
        }
        self.wake();
        Ok(())
    }

    pub(super) fn pull(&self, cx: &mut Context, max: usize, batch: &mut Batch) {
        if self.supply.is_active() {
            self.supply.fill(cx, max, batch);
        }
        let has_more = || self.supply.is_active() && !self.supply.is_exhausted();
        if !has_more() {
            self.notifier.sleep_unless(has_more);
        }
        if batch.is_empty() && self.supply.is_exhausted() {
            self.supply.end(cx);
        }
    }

    pub(super) fn run_task(&self, cx: &mut Context) -> bool {
        let Some(room) = self.room.get().filter(|_| self.supply.is_active()) else {
            self.task.rest();
            return false;
        };
        if !room.active(cx.router()) {
            room.rest(&self.task, cx.router());
            return false;
        }
        if self.supply.is_exhausted() {
            self.task.rest();
            self.supply.end(cx);
            return false;
        }
        let mut left = self.burst.load(Relaxed) as usize;
        while left > 0 {
            let mut batch = cx.take_batch();
            let wanted = left.min(Batch::CAPACITY);
            self.supply.fill(cx, wanted, &mut batch);
            left = if self.supply.is_exhausted() { 0 } else { left - wanted };
            cx.push_batch(0, &mut batch);
            cx.give_batch(batch);
        }
        true
    }

    /// The handlers `burst length limit active count reset scheduled home_thread`.
    pub(super) fn handlers<E: 'static>(handlers: &mut Handlers<E>, source: fn(&E) -> &Self) {
        handlers.read("burst", move |e, _| source(e).burst.load(Relaxed));
        handlers.write("burst", move |e, call| {
            match call.parse::<i32>() {
                Ok(burst @ 1..) => source(e).burst.store(burst.unsigned_abs(), Relaxed),
                _ => return Err("burstsize parameter must be integer >= 1".into()),
            }
            Ok(())
        });
        Supply::handlers(handlers, move |e| &source(e).supply, move |e| source(e).wake());
        task_handlers(handlers, move |e| &source(e).task);
    }

    /// Starts sending if the source is active.
    fn wake(&self) {
        if !self.supply.is_active() {
            return;
        }
        match self.room.get() {
            Some(_) => self.task.schedule(),
            None => self.notifier.wake_unlocked(),
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn sends_its_data_up_to_the_limit() {
        let mut rig = Rig::new("InfiniteSource(ab, 3, LENGTH 5, BURST 2)", 0, 1).unwrap();
        let out = rig.pass(Default::default());
        assert_eq!(out[0].iter().map(|p| p.data().to_vec()).collect::<Vec<_>>(), [b"ababa"; 3]);
        assert_eq!(rig.read("count").unwrap(), "3");
        rig.write("limit", "4").unwrap();
        assert_eq!(rig.pass(Default::default())[0].len(), 1);
        assert!(rig.stats().balanced());
    }

    #[test]
    fn calls_a_handler_at_the_end() {
        let element = "InfiniteSource(LIMIT 2, END_CALL x.active false)";
        let mut rig = Rig::new(element, 0, 1).unwrap();
        assert_eq!(rig.pass(Default::default())[0].len(), 2);
        assert_eq!(rig.read("active").unwrap(), "false");
        assert!(Rig::new("InfiniteSource(END_CALL x.nothing)", 0, 1).is_err());
        assert!(Rig::new("InfiniteSource(STOP true, END_CALL x.reset)", 0, 1).is_err());
    }

    #[test]
    fn a_burst_may_be_larger_than_a_batch() {
        assert!(Rig::new("InfiniteSource(BURST 0)", 0, 1).is_err());
        let mut rig = Rig::new("InfiniteSource(BURST 1000, LIMIT 600)", 0, 1).unwrap();
        assert_eq!(rig.pass(Default::default())[0].len(), 600);
        assert!(rig.write("burst", "0").is_err());
    }
}
