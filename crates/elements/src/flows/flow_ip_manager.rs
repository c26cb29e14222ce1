//! FlowIPManager - assigns a number to each IP flow
//!
//! # Synopsis
//! `FlowIPManager([CAPACITY, keywords TIMEOUT, RESERVE, LF, CACHE, VERBOSE, RECYCLE_INTERVAL])`
//!
//! # Description
//! Gives every flow a number, from 1, and writes it into the AGGREGATE annotation of its packets, where downstream flow
//! elements read it. Packets with the same IP addresses, ports and protocol belong to one flow; packets without ports,
//! and later fragments, are matched by addresses and protocol only. A flow that is silent for TIMEOUT is forgotten; its
//! number is not reused until the 32-bit counter wraps around.
//!
//! FastClick has many classes that differ in the table they use and in how threads share it. Here they are aliases of
//! this class, whose one table all threads share.
//!
//! # Arguments
//! - CAPACITY: maximum number of flows, rounded up to a power of two. Positional, default 65536.
//! - TIMEOUT: seconds of silence after which a flow is forgotten, 0 for never. Default 60.
//! - RECYCLE_INTERVAL: seconds between checks for such flows. Default 1.
//! - VERBOSE: 0 prints nothing, 1 a line when there is no room for a flow, 2 also a line for each new flow. Default 1.
//! - RESERVE: accepted without effect: downstream elements keep their own state.
//! - LF, CACHE: accepted without effect: there is only one kind of table.
//!
//! # Ports
//! One push input, one or two push outputs.
//!
//! # Handlers
//! - `count` (read): the current number of flows.
//! - `capacity`, `total_capacity` (read): the maximum number of flows.
//! - `reset` (write): forgets all flows.
//!
//! # Drops
//! - table full: there is no room for another flow.
//! - header not set: the packet has no IP header, and output 1 is not connected.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, FORCE_IP true, STOP true) -> FlowIPManager(1024, TIMEOUT 30) -> FlowCounter -> Discard;
//! ```
//!
//! # See also
//! FlowCounter, FlowSwitch, FlowIPLoadBalancer, AggregateIPFlows

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use millrace_core::args::Kind;
use millrace_core::{
    Class, Context, Element, Failed, Footprint, Handlers, Init, Moment, Packet, PerPacket, Reason,
    Setup, View, Way, register,
};

use super::key::Key;
use super::table::{Fixed, Flows, millis};

/// The element; its manual is at the top of the file.
pub struct FlowIpManager {
    /// The number of each flow.
    flows: Flows<Key, Fixed>,
    capacity: usize,
    verbose: i32,
    /// The number of the next flow.
    next: AtomicU32,
}

register!(FlowIpManager, "flow_ip_manager.rs");

impl Element for FlowIpManager {
    const CLASS: Class = Class::new("FlowIPManager", "1/1-2", "h/h").aliases(&[
        "FlowIPManagerMP",
        "FlowIPManagerIMP",
        "FlowIPManagerHIMP",
        "FlowIPManagerHMP",
        "FlowIPManagerH",
        "FlowIPManagerBucket",
        "FlowIPManagerDPDK",
        "FlowIPManagerMutex",
        "FlowIPManagerRW",
        "FlowIPManagerSpinlock",
        "FlowIPManager_CPPIMP",
        "FlowIPManager_CuckooPP",
        "FlowIPManager_CuckooPPIMP",
        "FlowIPManager_RobinMapIMP",
    ]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let capacity = args.in_range("CAPACITY", Kind::Positional, 1..=1u32 << 30);
        args.ignored::<u32>("RESERVE", Kind::Keyword, "downstream elements keep their own state");
        let timeout: i32 = args.keyword("TIMEOUT", 60);
        args.ignored::<bool>("LF", Kind::Keyword, "there is only one kind of table");
        args.ignored::<bool>("CACHE", Kind::Keyword, "there is only one kind of table");
        let verbose: i32 = args.keyword("VERBOSE", 1);
        let interval: f64 = args.keyword("RECYCLE_INTERVAL", 1.0);
        args.complete()?;
        let capacity = capacity.unwrap_or(65_536).next_power_of_two() as usize;
        let timeout = u64::try_from(timeout).unwrap_or(0) * 1000;
        let interval = (interval.max(0.0) * 1000.0) as u64;
        let flows = Flows::new(capacity, timeout, interval);
        Ok(Self { flows, capacity, verbose, next: 1.into() })
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        self.flows.take(&old.flows);
        self.next.store(old.next.load(Relaxed), Relaxed);
    }

    fn footprint(&self) -> Footprint {
        self.flows.footprint()
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("count", |manager, call| manager.flows.count(millis(call.now()), |_| ()));
        handlers.read("capacity", |manager, _| manager.capacity);
        handlers.read("total_capacity", |manager, _| manager.capacity);
        handlers.write("reset", |manager, _| {
            manager.flows.clear();
            Ok(())
        });
    }
}

impl PerPacket for FlowIpManager {
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        let Some(flow) = Key::five_tuple(packet) else {
            return Way::output_or_drop(1, Reason::NoHeader);
        };
        let mut is_new = false;
        let new = || {
            is_new = true;
            Some(self.number().into())
        };
        let number = self.flows.number(at, flow, millis(at.now()), new, |_| ());
        let Some(number) = number else { return Way::drop(Reason::TableFull) };
        packet.set_aggregate(number as u32);
        match is_new && self.verbose > 1 {
            true => Way::aside(0),
            false => Way::ON,
        }
    }

    fn aside(&self, cx: &mut Context, (): &mut (), packet: Packet, way: Way) -> Option<Packet> {
        if way.note().is_some() {
            cx.router().chatter(&format!("New flow {}", packet.aggregate()));
            return Some(packet);
        }
        if way.reason() == Reason::TableFull && self.verbose > 0 {
            let message = format!("Cannot add key (have {} items)!", self.capacity);
            cx.router().chatter(&message);
        }
        cx.send_or_drop(packet, way)
    }
}

impl FlowIpManager {
    /// The next number other than 0, which means no flow.
    fn number(&self) -> u32 {
        match self.next.fetch_add(1, Relaxed) {
            0 => self.next.fetch_add(1, Relaxed),
            number => number,
        }
    }
}
