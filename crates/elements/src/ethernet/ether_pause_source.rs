//! EtherPauseSource - generates Ethernet PAUSE frames (flow control)
//!
//! # Synopsis
//! `EtherPauseSource(SRC, PAUSETIME [, keywords DST, LIMIT, ACTIVE, INTERVAL])`
//!
//! # Description
//! Generates Ethernet PAUSE frames (IEEE 802.3, annex 31B) of 64 bytes. If its output is push, it emits
//! one every INTERVAL; if its output is pull, it emits as many as are requested.
//!
//! # Arguments
//! - SRC: source address. Positional, mandatory.
//! - PAUSETIME: how long to pause, in units of 512 bit times, 0 to 65535. Positional, mandatory.
//! - DST: destination address. Default 01-80-C2-00-00-01, the address of this protocol.
//! - LIMIT: maximum number of frames; no limit if negative. Default -1.
//! - ACTIVE: whether it generates frames. Default true.
//! - INTERVAL: the time between frames, at least 1 ms. Default 1 second.
//!
//! # Ports
//! No input, one agnostic output.
//!
//! # Handlers
//! - `src`, `dst`, `pausetime`, `limit`, `active` (read, write): the values of the arguments.
//! - `count` (read): number of frames generated.
//! - `reset_counts` (write): resets `count` to 0.
//!
//! # Drops
//! - no buffer: there was no packet for a frame.
//!
//! # Example
//! ```click
//! EtherPauseSource(2:0:0:0:0:1, 0xffff, LIMIT 3) -> Discard;
//! ```
//!
//! # See also
//! RatedSource, EtherEncap

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, Ordering::Relaxed};

use millrace_core::args::Seconds;
use millrace_core::headers::{EthernetHeader, Header, U16};
use millrace_core::net::EtherAddress;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Packet, Published, Reason, Refused,
    Setup, Timer, Timestamp, register,
};
use zerocopy::IntoBytes;

/// The element; its manual is at the top of the file.
pub struct EtherPauseSource {
    src: Published<EtherAddress>,
    dst: Published<EtherAddress>,
    pause: AtomicU16,
    limit: AtomicI64,
    count: AtomicI64,
    active: AtomicBool,
    interval: Timestamp,
    pushes: AtomicBool,
    timer: Timer,
}

register!(EtherPauseSource, "ether_pause_source.rs");

/// Length of a frame in bytes.
const LEN: usize = 64;
const MAC_CONTROL: u16 = 0x8808;
const PAUSE: u16 = 1;
/// The group of all stations that understand MAC control frames.
const CONTROL_GROUP: EtherAddress = EtherAddress([0x01, 0x80, 0xc2, 0, 0, 1]);

impl Element for EtherPauseSource {
    const CLASS: Class = Class::new("EtherPauseSource", "0/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let timer = setup.timer();
        let args = &mut setup.args;
        let src = args.mandatory("SRC");
        let pause: u16 = args.mandatory("PAUSETIME");
        let dst = args.keyword("DST", CONTROL_GROUP);
        let limit: i32 = args.keyword("LIMIT", -1);
        let active = args.keyword("ACTIVE", true);
        let interval: Seconds = args.keyword("INTERVAL", Seconds::new(1));
        if interval.as_millis() == 0 {
            args.error("INTERVAL", "INTERVAL must be at least a millisecond");
        }
        args.complete()?;
        Ok(Self {
            src: Published::new(src),
            dst: Published::new(dst),
            pause: pause.into(),
            limit: i64::from(limit).into(),
            count: 0.into(),
            active: AtomicBool::new(active),
            interval: Timestamp::from_millis(i64::try_from(interval.as_millis()).unwrap_or(0)),
            pushes: false.into(),
            timer,
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.pushes.store(!init.is_pull_output(0), Relaxed);
        if self.limit.load(Relaxed) != 0 && self.active.load(Relaxed) && self.pushes.load(Relaxed) {
            self.timer.schedule_at(init.clock().now() + self.interval);
        }
        Ok(())
    }

    fn run_timer(&self, cx: &mut Context, (): &mut ()) {
        if !self.active.load(Relaxed) || !self.is_left() {
            return;
        }
        if let Some(frame) = self.make(cx) {
            cx.push(0, frame);
        }
        if self.is_left() {
            self.timer.schedule_at(cx.now() + self.interval);
        }
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        while batch.len() < max && self.active.load(Relaxed) && self.is_left() {
            // The batch has room for the requested number.
            if self.make(cx).is_none_or(|frame| batch.push(frame).is_err()) {
                return;
            }
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        super::header::address_handler(handlers, "src", |source| &source.src);
        super::header::address_handler(handlers, "dst", |source| &source.dst);
        handlers.read("pausetime", |source, _| source.pause.load(Relaxed));
        handlers.write("pausetime", |source, call| {
            source.pause.store(call.parse()?, Relaxed);
            Ok(())
        });
        handlers.read("count", |source, _| source.count.load(Relaxed));
        handlers.read("limit", |source, _| source.limit.load(Relaxed));
        handlers.write("limit", |source, call| {
            source.limit.store(call.parse::<i32>()?.into(), Relaxed);
            source.wake(call.now());
            Ok(())
        });
        handlers.read("active", |source, _| source.active.load(Relaxed));
        handlers.write("active", |source, call| {
            source.active.store(call.parse()?, Relaxed);
            source.wake(call.now());
            Ok(())
        });
        handlers.write("reset_counts", |source, call| {
            source.count.store(0, Relaxed);
            source.wake(call.now());
            Ok(())
        });
    }
}

impl EtherPauseSource {
    fn is_left(&self) -> bool {
        let limit = self.limit.load(Relaxed);
        limit < 0 || self.count.load(Relaxed) < limit
    }

    fn wake(&self, now: Timestamp) {
        let waits = self.pushes.load(Relaxed) && self.timer.expiry().is_none();
        if waits && self.active.load(Relaxed) {
            self.timer.schedule_at(now);
        }
    }

    fn make(&self, cx: &mut Context) -> Option<Packet> {
        cx.created(1);
        let Some(mut frame) = Packet::with_len(LEN) else {
            cx.dropped(1, Reason::NoBuffer);
            return None;
        };
        let (src, dst) = (*self.src.load(), *self.dst.load());
        let header = EthernetHeader { dst, src, ether_type: U16::new(MAC_CONTROL) };
        let control = [U16::new(PAUSE), U16::new(self.pause.load(Relaxed))];
        let content = [header.as_bytes(), control.as_bytes()].concat();
        if let Some(start) = frame.data_mut().get_mut(..content.len()) {
            start.copy_from_slice(&content);
        }
        frame.set_link_header(0, EthernetHeader::LEN);
        self.count.fetch_add(1, Relaxed);
        Some(frame)
    }
}
