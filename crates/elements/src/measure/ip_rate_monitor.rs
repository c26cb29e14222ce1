//! IPRateMonitor - measures traffic rates by IP address, in more detail where there is more traffic
//!
//! # Synopsis
//! `IPRateMonitor(TYPE, RATIO, THRESH [, MEMORY, ANNO])`
//!
//! # Description
//! Measures the rates of traffic from IP addresses, from the packets of input 0, and to IP addresses, from the packets
//! of input 1. It starts with the first byte of the addresses. Where the rate in either direction reaches THRESH, it
//! measures the next byte separately too, down to single addresses. Once a second it undoes this where both rates have
//! dropped below about an eighth of THRESH, as Click compares them. Rates are exponentially weighted moving averages
//! over intervals of 8 ms.
//!
//! The rates of a packet's address are stored in the annotations FWD_RATE and REV_RATE, which CompareBlock reads.
//! Packets without an IP header are forwarded without being counted.
//!
//! When MEMORY is used up, no more bytes of addresses are measured separately, and packets whose addresses have no
//! counter yet are forwarded without being counted. With a MEMORY of 0 nothing limits how many addresses it measures.
//!
//! # Arguments
//! - TYPE: what to measure, `PACKETS` or `BYTES`. Positional, mandatory.
//! - RATIO: the fraction of packets to count, 0 to 1, chosen at random. Positional, mandatory.
//! - THRESH: packets or bytes per second, as if RATIO were 1. Positional, mandatory.
//! - MEMORY: maximum memory in kilobytes; 1 to 99 count as 100, 0 means no limit. Positional, default 65536.
//! - ANNO: whether to set the annotations. Positional, default true.
//!
//! # Ports
//! One or two agnostic inputs, one or two agnostic outputs: packets leave by the output with the number of their input.
//!
//! # Handlers
//! - `look` (read): first the time since the last reset, in units of 8 ms; then one line for each address, or part of
//!   one, with a rate: the address, the rate from it and the rate to it per second, separated by tabs.
//! - `thresh` (read): THRESH times RATIO.
//! - `mem`, `memmax` (read): memory used, and its limit, in bytes.
//! - `memmax` (write): the memory limit in kilobytes.
//! - `anno_level` (write): an address, a level from 0 to 3, and a number of seconds: for that long, the bytes of the
//!   address after that level are not measured separately.
//! - `reset` (write): discards all rates.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, FORCE_IP true, STOP true) -> m :: IPRateMonitor(PACKETS, 1, 256, 600) -> Discard;
//! ```
//!
//! # See also
//! CompareBlock, AggregateIP, Counter

mod rate_tree;

use std::net::Ipv4Addr;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use millrace_core::args::{ArgText, UFixed, Word};
use millrace_core::element::Call;
use millrace_core::headers::{Header, Ipv4Header};
use millrace_core::{
    Batch, Class, Context, Element, Failed, Footprint, HandlerError, Handlers, Init, Lock, Packet,
    Refused, Setup, Timestamp, register,
};

use rate_tree::{EPOCHS, RateTree};

/// The element; its manual is at the top of the file.
pub struct IpRateMonitor {
    bytes: bool,
    annotates: bool,
    /// With 16 bits of fraction.
    ratio: u32,
    reset: AtomicU32,
    tree: Lock<RateTree>,
}

/// The minimum memory limit, in kilobytes.
const LEAST: usize = 100;

register!(IpRateMonitor, "ip_rate_monitor.rs");

impl Element for IpRateMonitor {
    const CLASS: Class = Class::new("IPRateMonitor", "1-2/1-2", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let kind: Word = setup.args.mandatory("TYPE");
        let UFixed::<16>(ratio) = setup.args.mandatory("RATIO");
        let threshold: i32 = setup.args.mandatory("THRESH");
        let memory: Option<u32> = setup.args.optional("MEMORY");
        let annotates = setup.args.positional("ANNO", true);
        setup.args.complete()?;
        let bytes = match kind.as_str().to_ascii_uppercase().as_str() {
            "PACKETS" => false,
            "BYTES" => true,
            _ => {
                setup.args.error((), "monitor type should be \"PACKETS\" or \"BYTES\"");
                return Err(Failed);
            }
        };
        if ratio > 1 << 16 {
            setup.args.error((), "ratio must be between 0 and 1");
            return Err(Failed);
        }
        let threshold = (i64::from(threshold) * i64::from(ratio)) >> 16;
        let threshold = i32::try_from(threshold).unwrap_or(i32::MAX);
        let tree = RateTree::new(threshold, memory.map(limit));
        Ok(Self { bytes, annotates, ratio, reset: 0.into(), tree: Lock::new(tree) })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.reset.store(epoch(init.clock().now()), Relaxed);
        Ok(())
    }

    fn push(&self, cx: &mut Context, (): &mut (), port: usize, batch: &mut Batch) {
        self.measure(cx, port, batch);
        cx.push_batch(port, batch);
    }

    fn pull(&self, cx: &mut Context, (): &mut (), port: usize, max: usize, batch: &mut Batch) {
        cx.pull(port, max, batch);
        self.measure(cx, port, batch);
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        if old.bytes == self.bytes && old.ratio == self.ratio {
            self.reset.store(old.reset.load(Relaxed), Relaxed);
            self.tree().take(&mut old.tree());
        }
    }

    fn footprint(&self) -> Footprint {
        match self.tree().limit() {
            0 => Footprint::unlimited("address"),
            // The allocator adds some, and each table stands in the list of ages.
            most => Footprint::tables(most.saturating_add(most / 8)),
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("thresh", |monitor, _| monitor.tree().threshold());
        handlers.read("look", |monitor, call| {
            let now = epoch(call.now());
            let passed = now.wrapping_sub(monitor.reset.load(Relaxed)) & (u32::MAX >> 3);
            format!("{passed}\n{}", monitor.tree().text(now))
        });
        handlers.read("mem", |monitor, _| monitor.tree().memory());
        handlers.read("memmax", |monitor, _| monitor.tree().limit());
        handlers.write("memmax", |monitor, call| {
            let kilobytes: i32 = match &call.args().rest()[..] {
                [one] => one.as_str().parse().map_err(|_| "not an integer")?,
                _ => return Err("expecting 1 integer".into()),
            };
            monitor
                .tree()
                .set_limit(limit(u32::try_from(kilobytes).unwrap_or(0)), epoch(call.now()));
            Ok(())
        });
        handlers.write("anno_level", IpRateMonitor::set_level);
        handlers.write("reset", |monitor, call| {
            monitor.tree().clear();
            monitor.reset.store(epoch(call.now()), Relaxed);
            Ok(())
        });
    }
}

impl IpRateMonitor {
    fn measure(&self, cx: &mut Context, port: usize, batch: &mut Batch) {
        let now = epoch(cx.now());
        let mut tree = self.tree();
        batch.for_each(|packet: &mut Packet| {
            let Some((ip, _)) = packet.network_data().and_then(Ipv4Header::view) else { return };
            let amount = if self.bytes { i32::from(ip.total_len.get()) } else { 1 };
            let address = if port == 0 { ip.source() } else { ip.destination() };
            let counts = self.ratio == 1 << 16 || cx.random().u32(..1 << 16) <= self.ratio;
            let forward_or_not = cx.random().bool();
            let rates = tree.update(
                address.to_bits(),
                port == 0,
                counts.then_some(amount),
                now,
                forward_or_not,
            );
            if let Some([forward, reverse]) = rates.filter(|_| self.annotates) {
                packet.set_anno_u32(20, forward.cast_unsigned());
                packet.set_anno_u32(24, reverse.cast_unsigned());
            }
        });
    }

    fn set_level(&self, call: &Call<'_>) -> Result<(), HandlerError> {
        // Separated by commas, as Click expects them, or by spaces, as in its manual.
        let arguments: Vec<ArgText> = match call.args().rest() {
            one if one.len() == 1 => one.iter().flat_map(ArgText::words).collect(),
            several => several,
        };
        let [address, level, when] = &arguments[..] else {
            return Err("expecting 3 arguments".into());
        };
        let address: Ipv4Addr = millrace_core::args::parse(address.as_str(), &call.scope())
            .map_err(|_| "not an IP address")?;
        let level = level.as_str().parse().ok().filter(|level| *level < 4usize);
        let level = level.ok_or("2nd argument specifies a level, between 0 and 3, to annotate")?;
        let when: Option<u32> = when.as_str().parse().ok().filter(|when| *when > 0);
        let when = when.ok_or("3rd argument specifies when this rule expires, must be > 0")?;
        let when = when.wrapping_mul(EPOCHS).wrapping_add(epoch(call.now()));
        self.tree().set_level(address.to_bits(), level, when);
        Ok(())
    }

    fn tree(&self) -> MutexGuard<'_, RateTree> {
        self.tree.lock()
    }
}

/// A limit in kilobytes, converted to bytes.
fn limit(kilobytes: u32) -> usize {
    match kilobytes as usize {
        0 => 0,
        kilobytes => kilobytes.max(LEAST) * 1024,
    }
}

/// A time in units of 8 milliseconds, in which rates are measured; wraps around.
fn epoch(time: Timestamp) -> u32 {
    (time.as_millis() as u32) >> 3
}
