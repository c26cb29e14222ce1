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
//! - `config` (read, write): the arguments; all but TIMESTAMP, STOP and END_CALL may change while packets run. Counts
//!   packets from 0 again.
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

use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use millrace_core::element::{Listening, PortKind};
use millrace_core::{
    Args, Batch, Class, Context, Element, Failed, Handlers, Init, Inspection, Notifier, Refused,
    Setup, Task, register,
};

use super::supply::{Given, Supply};
use crate::task_handlers::task_handlers;

/// The class; its manual is at the top of the file.
pub struct InfiniteSource;

register!(Source<InfiniteSource>, "infinite_source.rs");

impl SourceClass for InfiniteSource {
    const CLASS: Class = Class::new("InfiniteSource", "0/1", "a/a");

    fn configure(args: &mut Args<'_>) -> Result<(Supply, i32), Failed> {
        let data = args.optional("DATA");
        let limit = args.optional("LIMIT");
        let burst = burst(args);
        let active = args.optional("ACTIVE");
        Ok((Supply::configure(args, Given { data, limit, active })?, burst))
    }

    fn handlers(handlers: &mut Handlers<Source<Self>>) {
        handlers.reconfigure(|source: &Source<Self>, new| {
            source.supply.adopt(&new.supply)?;
            source.burst.store(new.burst.into_inner(), Relaxed);
            source.wake();
            Ok(())
        });
        Supply::data_handlers(handlers, |source| &source.supply);
    }
}

/// A class of elements that send as many packets as there is room for.
pub(super) trait SourceClass: Sized + Send + Sync + 'static {
    /// Name, port counts and processing.
    const CLASS: Class;

    /// Reads the arguments: what packets there are, and [`burst`].
    ///
    /// # Errors
    /// They are invalid.
    fn configure(args: &mut Args<'_>) -> Result<(Supply, i32), Failed>;

    /// Declares handlers in addition to those that all such elements have.
    fn handlers(_handlers: &mut Handlers<Source<Self>>) {}
}

/// Reads BURST.
pub(super) fn burst(args: &mut Args<'_>) -> i32 {
    let burst = args.positional("BURST", 1);
    if burst < 1 {
        args.error("BURST", "burst size must be >= 1");
    }
    burst
}

/// Pushes packets in bursts while there is room downstream, or returns them to a puller.
pub(super) struct Source<C> {
    class: PhantomData<C>,
    supply: Supply,
    burst: AtomicU32,
    task: Task,
    /// Tells pullers whether there are packets.
    notifier: Notifier,
    room: OnceLock<Listening>,
}

impl<C: SourceClass> Element for Source<C> {
    const CLASS: Class = C::CLASS;
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let (supply, burst) = C::configure(&mut setup.args)?;
        Ok(Self {
            class: PhantomData,
            supply,
            burst: burst.unsigned_abs().into(),
            task: setup.task(),
            notifier: Notifier::default(),
            room: OnceLock::new(),
        })
    }

    fn inspect(&self, inspection: &mut Inspection<'_>) {
        let pushes = inspection.outputs_of(inspection.id()).contains(&PortKind::Push);
        if pushes && self.burst.load(Relaxed) == 1 {
            inspection.advise(
                "sends bursts of 1, so what is below gets batches of 1; say BURST 32, for example",
            );
        }
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.supply.initialize(init)?;
        if !init.is_pull_output(0) {
            // An element is initialised once.
            let _ = self.room.set(init.listen_for_room(0, &self.task));
        }
        self.wake();
        Ok(())
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
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

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
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

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("burst", |e, _| e.burst.load(Relaxed));
        handlers.write("burst", |e, call| {
            match call.parse::<i32>() {
                Ok(burst @ 1..) => e.burst.store(burst.unsigned_abs(), Relaxed),
                _ => return Err("burstsize parameter must be integer >= 1".into()),
            }
            Ok(())
        });
        Supply::handlers(handlers, |e| &e.supply, Self::wake);
        task_handlers(handlers, |e| &e.task);
        C::handlers(handlers);
    }

    fn notifier(&self, _port: usize) -> Option<&Notifier> {
        Some(&self.notifier)
    }
}

impl<C> Source<C> {
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
        rig.write("config", "cd, 2").unwrap();
        let out = rig.pass(Default::default());
        assert_eq!(out[0].iter().map(|p| p.data().to_vec()).collect::<Vec<_>>(), [b"cd"; 2]);
        assert!(rig.write("config", "cd, 2, STOP true").is_err());
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
