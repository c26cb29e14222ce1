//! IPRewriter - rewrites the addresses and ports of TCP and UDP packets
//!
//! # Synopsis
//! `IPRewriter(INPUTSPEC1, ..., INPUTSPECn [, keywords])`
//!
//! # Description
//! A network address and port translator. It keeps mappings: a flow (source address and port, destination address
//! and port, TCP or UDP) is rewritten to another one and leaves by an output, and so do the replies to that other
//! flow, which become replies to the first one. A packet of a flow that has a mapping is rewritten by it,
//! whatever the input. A packet of an unknown flow is treated as the INPUTSPEC of its input says:
//!
//! - `drop` or `discard`: it is dropped.
//! - `pass [OUTPUT]` (also `nochange`, `passthrough`): it leaves unchanged by OUTPUT, 0 unless given. No
//!   mapping is made.
//! - `keep FOUTPUT ROUTPUT`: makes a mapping that changes nothing. Packets of the flow leave by FOUTPUT, replies
//!   by ROUTPUT.
//! - `pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`: makes a mapping by the pattern. A field given as `-` stays
//!   as it is. SPORT may be a range `L-H`: the flow keeps its source port if that is in the range and no other
//!   mapping with the same destination has it, and gets any free port otherwise. With a `#` behind the range,
//!   ports are given out in turn; with a `?`, by chance. When no port is free the packet is dropped.
//!   A pattern may also be `SADDR DADDR`, where SADDR may be a range `A1-A2` or a network, with the same marks;
//!   or `SADDR DADDR SPORT`.
//! - `pattern NAME FOUTPUT ROUTPUT`: the same by a pattern of IPRewriterPatterns.
//! - `ELEMENT`: mappings are made as a mapper says, such as RoundRobinIPMapper.
//!
//! Packets must have their IP header marked. Those that are neither TCP nor UDP, second and later fragments, and
//! those too short to have ports are dropped, unless they come to a `pass` input. Checksums are updated for what
//! changed (RFC 1624); a UDP checksum of 0, which means none, stays.
//!
//! Mappings that have expired are taken out every REAP_INTERVAL, and when there is no room for a new one; until
//! then they still hold. When the capacity is reached, the mapping that expires first goes, of those whose
//! guarantee has ended; if there is none, the new flow is refused and its packet dropped.
//!
//! All threads share one table, so that it does not matter on which thread replies arrive. Lookups of a whole
//! batch run together, wait for nothing and write nothing but the time of the last packet. New flows take a lock
//! for as long as it takes to choose a port and to enter the mapping; a thread that looks up at this moment
//! does not wait, and one that misses the new mapping takes the lock and looks again.
//!
//! In a hot swap a rewriter takes over the mappings of the one with its name and class: all whose input and outputs
//! it has, too, whatever its INPUTSPECs are. A pattern that is the same goes on in its range.
//!
//! A mapping takes 64 bytes, two entries of an index and one in the order of expiry: less than 256 bytes, and 170
//! on average. The table grows by doubling and keeps its size.
//!
//! # Arguments
//! - INPUTSPEC: one for each input.
//! - TCP_TIMEOUT (or TIMEOUT): how long a TCP connection may be silent when there was data both ways. Keyword,
//!   seconds, default 24 hours.
//! - TCP_DONE_TIMEOUT: how long after its end (FIN both ways, or RST). Keyword, default 4 minutes.
//! - TCP_NODATA_TIMEOUT: how long when there was no data one way. Keyword, default 5 minutes.
//! - TCP_GUARANTEE (or GUARANTEE): how long after its last packet a connection keeps its mapping in any case.
//!   Keyword, default 5 seconds.
//! - UDP_TIMEOUT: how long a UDP flow may be silent. Keyword, default 5 minutes.
//! - UDP_STREAMING_TIMEOUT: the same when there were three packets and a reply. Keyword, default UDP_TIMEOUT.
//! - UDP_GUARANTEE: as TCP_GUARANTEE. Keyword, default 5 seconds.
//! - REAP_INTERVAL (or REAP_TIME): how often mappings that have expired are taken out, 0 for never. Keyword,
//!   default 15 minutes.
//! - MAPPING_CAPACITY (or CAPACITY): the most mappings; or another rewriter, whose capacity is shared. Keyword,
//!   default 2147483647.
//! - DST_ANNO: whether the destination annotation is set to the new destination. Keyword, default true.
//! - REPLY_ANNO: a byte of the annotations, by name or offset. Replies get the value there that the packet had
//!   which made the mapping. Keyword, default none.
//! - SET_AGGREGATE: whether the aggregate annotation is set to the number of the mapping. Keyword, default false.
//! - HANDLE_MIGRATION: taken for FastClick's sake; flows may change threads at any time. Keyword.
//!
//! # Ports
//! As many push inputs as INPUTSPECs, any number of push outputs.
//!
//! # Handlers
//! - `tcp_table`, `udp_table` (read): the mappings, one line for each direction, such as
//!   `(1.0.0.1, 20, 2.0.0.2, 30) => (3.0.0.3, 1024, 2.0.0.2, 30) [*0 1] i0 exp300`: outputs, with a star at the one
//!   that the line is about; the input that made the mapping; seconds until it expires. Lines are in the order
//!   that Click's tables have. Also `tcp_mappings`, `udp_mappings`.
//! - `tcp_lookup` (read): given `SADDR SPORT DADDR DPORT`, what the TCP flow is rewritten to, in the same form;
//!   nothing when there is no mapping.
//! - `table_size` (read): this rewriter's mappings. Also `nmappings`.
//! - `mapping_failures` (read): flows that got no mapping because no port was free, or for want of room.
//! - `patterns` (read): the inputs, a line each, with the number of their mappings in brackets.
//! - `pattern0`, `pattern1`, ... (read, write): one input. Writing an INPUTSPEC removes the mappings that the old
//!   one made.
//! - `size` (read): the mappings that count against the capacity.
//! - `capacity` (read, write): the capacity.
//! - `clear` (write): removes all mappings that count against the capacity.
//!
//! # Drops
//! - filtered: the flow is new and the INPUTSPEC is `drop`.
//! - table full: no port is free, or no room for a mapping.
//! - no match: neither TCP nor UDP.
//! - fragment: not the first fragment.
//! - truncated, bad header length: there are no ports.
//! - header not set: the IP header is not marked.
//!
//! # Example
//! ```click
//! rw :: IPRewriter(pattern 1.0.0.1 1024-65535 - - 0 1, drop);
//! inside :: InfiniteSource(LENGTH 64, LIMIT 10) -> UDPIPEncap(10.0.0.2, 1234, 2.0.0.2, 53)
//!     -> rw -> Discard;
//! outside :: InfiniteSource(LENGTH 64, LIMIT 10) -> UDPIPEncap(2.0.0.2, 53, 1.0.0.1, 1234)
//!     -> [1] rw [1] -> Discard;
//! ```
//!
//! # See also
//! TCPRewriter, UDPRewriter, IPAddrRewriter, IPAddrPairRewriter, ICMPPingRewriter, ICMPRewriter,
//! IPRewriterPatterns, RoundRobinIPMapper, SourceIPHashMapper, FTPPortMapper

use std::sync::Arc;

use millrace_core::headers::protocol;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Packet, Reason, Refused, Setup,
    register,
};

use super::family::Family;
use super::flow_set::{FlowSet, Policy, Timeouts};
use super::flow_table::View;
use super::rewriter::{Dialect, Lanes, Own, Rewriter, Seen, annotations, time};
use super::tcp_rewriter::tcp_policy;
use super::{handlers, transport};

/// The element; its manual is at the top of the file.
pub struct IpRewriter(Arc<Rewriter>);

register!(IpRewriter, "ip_rewriter.rs");

impl Element for IpRewriter {
    const CLASS: Class = Class::new("IPRewriter", "1-/1-", "h/h");
    type Local = Lanes;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let tcp = tcp_policy(setup);
        let plain = time(setup, "UDP_TIMEOUT").unwrap_or(300_000);
        let streaming = time(setup, "UDP_STREAMING_TIMEOUT").unwrap_or(plain);
        let guarantee = time(setup, "UDP_GUARANTEE").unwrap_or(5000);
        let udp = Policy { guarantee, timeouts: Timeouts::Udp { plain, streaming } };
        let annotations = annotations(setup, true);
        let own = Own { family: Family::Ip, annotations, policies: vec![tcp, udp] };
        Rewriter::configure(setup, own).map(Self)
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.0.initialize(init)
    }

    fn push(&self, cx: &mut Context, lanes: &mut Lanes, port: usize, batch: &mut Batch) {
        self.0.push::<Ports>(cx, lanes, port, batch);
    }

    fn run_timer(&self, cx: &mut Context, _: &mut Lanes) {
        self.0.run_timer(cx);
    }

    fn take_state(&self, old: &Self, init: &Init<'_>) {
        self.0.take_state(&old.0, init);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers::tables(handlers, |element| &element.0, ["tcp_table", "tcp_mappings"], 0);
        handlers::tables(handlers, |element| &element.0, ["udp_table", "udp_mappings"], 1);
        handlers::lookup(handlers, |element| &element.0, "tcp_lookup");
        handlers::common(handlers, |element| &element.0);
    }
}

/// TCP and UDP, each in a map of its own.
struct Ports;

impl Dialect for Ports {
    #[inline(always)]
    fn read(packet: &Packet) -> Result<Seen, Reason> {
        let (flow, protocol) = transport::read(packet)?;
        match protocol {
            protocol::TCP => Ok(Seen { flow, map: 0, protocol }),
            protocol::UDP => Ok(Seen { flow, map: 1, protocol }),
            _ => Err(Reason::NoMatch),
        }
    }

    #[inline(always)]
    fn apply(_: &Rewriter, set: &FlowSet, packet: &mut Packet, view: &View<'_>) -> u32 {
        match super::flow_set::protocol_of(view.state) {
            protocol::TCP => transport::apply_tcp(set, packet, view),
            _ => transport::apply_udp(packet, view),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use millrace_core::testing::Rig;

    use super::IpRewriter;

    #[test]
    fn a_router_that_ends_takes_its_mappings_with_it() {
        let rig = Rig::new("IPRewriter(keep 0 0)", 1, 1).unwrap();
        let router = rig.router();
        let rewriter = (0..router.len()).find_map(|id| router.element::<IpRewriter>(id)).unwrap();
        let mappings = Arc::downgrade(&rewriter.0);
        drop((rewriter, rig));
        assert!(mappings.upgrade().is_none(), "somebody still has it");
    }
}
