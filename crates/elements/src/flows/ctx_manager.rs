//! CTXManager - finds the flow of each packet, and keeps a context for it
//!
//! # Synopsis
//! `CTXManager([keywords CAPACITY, TIMEOUT, BUILDER, VERBOSE, AGGCACHE, CACHESIZE, CACHERINGSIZE, EARLYDROP, RESERVE,
//! CONTEXT, CLEAN_TIMER, ORDERED, NOCUT, OPTIMIZE, RELEASE, DEVICE])`
//!
//! # Description
//! Gives every flow a number, writes it into the AGGREGATE annotation of its packets, and keeps a context for it: one
//! block of memory, in which each element downstream that needs state per flow has its place (TCPIn, WordMatcher,
//! HTTPIn). Elements that number flows themselves, such as FlowCounter, use the number as well.
//!
//! A flow consists of the packets with the same IP addresses, protocol and ports; packets without ports, and later
//! fragments, are matched by addresses and protocol only. Packets are IP packets of either version, if their network
//! header is set, or frames that contain one, also behind VLAN tags, MPLS labels or PPPoE. Other packets have the number 0:
//! they pass, and no element keeps state for them.
//!
//! A flow ends when it is silent for TIMEOUT. If a TCPIn downstream follows its connection, it ends about two seconds after
//! that was closed, and after 20 seconds of silence while one of the hosts has not been heard. When there is no room for
//! another flow, the oldest such half-open flow ends, so that a flood of SYNs does not keep others out.
//!
//! After a hot swap, the manager of the same name takes over all flows and what elements keep for them, if CAPACITY and
//! these elements' names and arguments are the same (TCPIn's may change). Otherwise it says why not, and all flows begin
//! anew; TCPIn's UNTRACKED says what happens to connections that were open.
//!
//! # Arguments
//! - CAPACITY: maximum number of flows, rounded up to a power of two, at most 16777216. Default 65536.
//! - TIMEOUT: seconds of silence after which a flow ends, 0 for never. Default 300.
//! - BUILDER: whether packets of one flow that arrive in one batch are put next to each other, so that elements
//!   downstream find its context in the cache. The order within each flow stays. Default true.
//! - VERBOSE: 0 prints nothing, 1 or more prints a line when there is no room for a flow. Default 1.
//! - AGGCACHE, CACHESIZE, CACHERINGSIZE: accepted without effect: there is no cache in front of the table.
//! - EARLYDROP, OPTIMIZE, CONTEXT, DEVICE: accepted without effect: packets are classified where they pass.
//! - RESERVE, CLEAN_TIMER, RELEASE: accepted without effect: memory is taken as elements need it.
//! - ORDERED, NOCUT: accepted without effect: batches are never cut.
//!
//! # Ports
//! One push input, one or two push outputs.
//!
//! # Handlers
//! - `count` (read): the current number of flows.
//! - `capacity` (read): the maximum number of flows.
//! - `refused` (read): packets of flows for which there was no room.
//! - `reset` (write): ends all flows.
//!
//! # Drops
//! - table full: there is no room for another flow, none is half-open, and output 1 is not connected.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, STOP true)
//!     -> CTXManager(CAPACITY 1024)
//!     -> d :: CTXDispatcher(12/0800 0, - drop)
//!     -> FlowStrip(14)
//!     -> CheckIPHeader
//!     -> FlowCounter
//!     -> Discard;
//! ```
//!
//! # See also
//! CTXDispatcher, TCPIn, WordMatcher, FlowIPManager

use std::sync::Arc;

use millrace_core::args::Kind;
use millrace_core::headers::dissect::Start;
use millrace_core::{
    Batch, Class, Context, Count, Element, Failed, Footprint, Handlers, Init, Offers, Packet,
    PerThread, Reason, Setup, register,
};

use super::contexts::Contexts;
use super::key::WideKey;
use super::table::millis;

/// The element; its manual is at the top of the file.
pub struct CtxManager {
    contexts: Arc<Contexts>,
    builds: bool,
    verbose: i32,
    refused: PerThread<Count>,
}

register!(CtxManager, "ctx_manager.rs");

impl Element for CtxManager {
    const CLASS: Class = Class::new("CTXManager", "1/1-2", "h/h").aliases(&[
        "FlowManager",
        "FlowClassifier",
        "FlowDPDKManager",
        "FlowDPDKBuilderManager",
        "CTXDPDKManager",
        "CTXDPDKBuilderManager",
    ]);
    /// Packets to be put in order.
    type Local = Vec<(u32, Packet)>;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let capacity = args.in_range("CAPACITY", Kind::Keyword, 1..=1u32 << 24);
        let timeout: u32 = args.keyword("TIMEOUT", 300);
        let builder: i32 = args.keyword("BUILDER", 1);
        let verbose: i32 = args.keyword("VERBOSE", 1);
        for name in ["AGGCACHE", "CACHESIZE", "CACHERINGSIZE"] {
            args.ignored::<Vec<u8>>(name, Kind::Keyword, "there is no cache in front of the table");
        }
        for name in ["EARLYDROP", "OPTIMIZE", "CONTEXT", "DEVICE"] {
            args.ignored::<Vec<u8>>(name, Kind::Keyword, "packets are classified where they pass");
        }
        for name in ["RESERVE", "CLEAN_TIMER", "RELEASE"] {
            args.ignored::<Vec<u8>>(name, Kind::Keyword, "memory is taken as elements need it");
        }
        for name in ["ORDERED", "NOCUT"] {
            args.ignored::<Vec<u8>>(name, Kind::Keyword, "batches are never cut");
        }
        args.complete()?;
        let contexts =
            Contexts::new(capacity.unwrap_or(65_536) as usize, u64::from(timeout) * 1000).into();
        Ok(Self { contexts, builds: builder != 0, verbose, refused: PerThread::default() })
    }

    fn process(&self, cx: &mut Context, waiting: &mut Vec<(u32, Packet)>, batch: &mut Batch) {
        let now = millis(cx.now());
        let mut last = 0;
        let mut is_mixed = false;
        batch.map_filter(|mut packet| {
            let number = match flow_of(&packet) {
                None => 0,
                Some(key) => match self.contexts.enter(&*cx, key, now) {
                    Some(number) => number,
                    None => {
                        self.refuse(cx, packet);
                        return None;
                    }
                },
            };
            is_mixed |= last != 0 && number != last;
            last = number;
            packet.set_aggregate(number);
            Some(packet)
        });
        if self.builds && is_mixed {
            group(batch, waiting);
        }
    }

    fn take_state(&self, old: &Self, init: &Init<'_>) {
        if let Err(why) = self.contexts.take(&old.contexts) {
            let name = init.name();
            init.router().chatter(&format!("{name}: all flows begin anew, because {why}"));
        }
    }

    fn footprint(&self) -> Footprint {
        self.contexts.footprint()
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<Contexts>(self.contexts.clone());
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("count", |manager, call| manager.contexts.count(millis(call.now())));
        handlers.read("capacity", |manager, _| manager.contexts.capacity());
        handlers.read("refused", |manager, _| manager.refused.total());
        handlers.write("reset", |manager, _| {
            manager.contexts.clear();
            Ok(())
        });
    }
}

impl CtxManager {
    fn refuse(&self, cx: &mut Context, packet: Packet) {
        self.refused.mine(&*cx).add(1);
        if self.verbose > 0 && self.refused.total() == 1 {
            let capacity = self.contexts.capacity();
            cx.router().chatter(&format!("no room for another flow (there are {capacity})"));
        }
        cx.push_or_drop(1, packet, Reason::TableFull);
    }
}

/// The flow of an IP packet, or of a frame that contains one.
fn flow_of(packet: &Packet) -> Option<WideKey> {
    match packet.network_data() {
        Some(bytes) => WideKey::of_bytes(bytes, Start::Ip),
        None => WideKey::of_bytes(packet.data(), Start::Ether),
    }
}

/// Puts packets with the same number next to each other, in the order in which numbers first appear.
fn group(batch: &mut Batch, waiting: &mut Vec<(u32, Packet)>) {
    waiting.clear();
    waiting.extend(batch.drain().map(|packet| (packet.aggregate(), packet)));
    let mut firsts: Vec<(u32, usize)> =
        waiting.iter().enumerate().map(|(n, (number, _))| (*number, n)).collect();
    firsts.sort_unstable();
    firsts.dedup_by_key(|(number, _)| *number);
    let first = |number: &u32| {
        let at = firsts.binary_search_by_key(number, |(number, _)| *number).ok()?;
        firsts.get(at).map(|(_, first)| *first)
    };
    waiting.sort_by_cached_key(|(number, _)| first(number));
    for (_, packet) in waiting.drain(..) {
        // As many came out as go in.
        let _ = batch.push(packet);
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};

    use crate::test_packets::ip::Datagram;

    fn datagram(host: u8, text: &[u8]) -> Packet {
        Datagram { source: [10, 0, 0, host].into(), ..Datagram::udp(text) }.packet()
    }

    #[test]
    fn packets_of_a_flow_get_its_number_and_stand_together() {
        let mut rig = Rig::new("CTXManager", 1, 1).unwrap();
        let packets = [1, 2, 1, 3, 2, 1].iter().enumerate();
        let packets = packets.map(|(n, host)| datagram(*host, &[n as u8])).collect();
        let out = rig.push_packets(0, packets).remove(0);
        let last = |packet: &Packet| packet.data().last().copied().unwrap();
        assert_eq!(out.iter().map(last).collect::<Vec<_>>(), [0, 2, 5, 1, 4, 3]);
        let numbers: Vec<u32> = out.iter().map(|packet| packet.aggregate()).collect();
        assert!(numbers[0] != 0 && numbers[0] == numbers[1] && numbers[0] == numbers[2]);
        assert!(numbers[3] == numbers[4] && numbers[3] != numbers[0] && numbers[5] != numbers[4]);
        assert_eq!(rig.read("count").unwrap(), "3");
        assert!(rig.stats().balanced());
    }

    #[test]
    fn frames_are_looked_into() {
        let mut rig = Rig::new("CTXManager", 1, 1).unwrap();
        let ip = Datagram::default().bytes();
        let plain = [&[2; 12][..], &[8, 0], &ip].concat();
        let tagged = [&[2; 12][..], &[0x81, 0, 0, 5, 8, 0], &ip].concat();
        let arp = [&[2; 12][..], &[8, 6], &ip].concat();
        let frames = [plain, tagged, arp, vec![], vec![0; 13], vec![0x81; 60]];
        let frames = frames.iter().map(|bytes| Packet::from_bytes(bytes).unwrap()).collect();
        let out = rig.push_packets(0, frames).remove(0);
        let numbers: Vec<u32> = out.iter().map(|packet| packet.aggregate()).collect();
        assert!(numbers[0] != 0 && numbers[0] == numbers[1]);
        assert_eq!(numbers[2..], [0, 0, 0, 0]);
    }

    #[test]
    fn flows_beyond_the_capacity_are_refused_and_counted() {
        let mut rig = Rig::new("CTXManager(CAPACITY 2, VERBOSE 0)", 1, 1).unwrap();
        let out = rig.push_packets(0, (0..5).map(|host| datagram(host, b"text")).collect());
        assert_eq!(out[0].len(), 2);
        assert_eq!(rig.read("refused").unwrap(), "3");
        assert_eq!(rig.stats().drops, [(Reason::TableFull, 3)]);
        rig.write("reset", "").unwrap();
        assert_eq!(rig.read("count").unwrap(), "0");
        assert_eq!(rig.push_packets(0, vec![datagram(4, b"text")])[0].len(), 1);
    }
}
