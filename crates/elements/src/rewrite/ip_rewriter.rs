//! IPRewriter - translates the addresses and ports of TCP and UDP packets (NAT)
//!
//! # Synopsis
//! `IPRewriter(INPUTSPEC1, ..., INPUTSPECn [, keywords])`
//!
//! # Description
//! A network address and port translator. A mapping rewrites the packets of one flow (source address and port,
//! destination address and port, TCP or UDP) to another flow, and sends them to an output. It also rewrites the replies
//! to that other flow, which become replies to the original flow. A packet whose flow has a mapping is rewritten by it,
//! at whatever input it arrives. For a packet of an unknown flow, the INPUTSPEC of its input decides:
//!
//! - `drop` or `discard`: drops the packet.
//! - `pass [OUTPUT]` (also `nochange`, `passthrough`): sends the packet unchanged to OUTPUT, default 0. Makes no
//!   mapping.
//! - `keep FOUTPUT ROUTPUT`: makes a mapping that changes nothing. Packets of the flow go to FOUTPUT, replies to
//!   ROUTPUT.
//! - `pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`: makes a mapping by the pattern. A field given as `-` stays
//!   unchanged. SPORT may be a range `L-H`: the flow keeps its source port if that is in the range and no other mapping
//!   with the same destination has it, and gets a random free port otherwise. If `#` follows the range, ports are
//!   assigned in turn; if `?` follows it, at random. If no port is free, the packet is dropped. A pattern may also be
//!   `SADDR DADDR`, where SADDR may be a range `A1-A2` or a network, with the same marks; or `SADDR DADDR SPORT`.
//! - `pattern NAME FOUTPUT ROUTPUT`: the same with a pattern of IPRewriterPatterns.
//! - `ELEMENT`: a mapper, such as RoundRobinIPMapper, chooses the mapping.
//!
//! Packets must have their network header position set. Packets that are neither TCP nor UDP, second and later
//! fragments, and packets too short for ports are dropped, unless they arrive at a `pass` input. Checksums are updated
//! for what changed (RFC 1624); a UDP checksum of 0, which means none, stays 0.
//!
//! Expired mappings are removed every REAP_INTERVAL; until then they still work. At capacity, a new mapping replaces
//! the one that expires first among those whose guarantee has ended. If there is none, the new flow is refused and its
//! packet dropped.
//!
//! All threads share one table, so replies may arrive on any thread. The lookups of a batch run together. They never
//! wait, and they write only the time of the last packet and the state of the flow. A new flow holds a lock while it
//! chooses a port and adds the mapping. Lookups on other threads do not wait for it; a thread that misses the new
//! mapping takes the lock and looks again.
//!
//! On a hot swap, a rewriter takes over the mappings of the rewriter with the same name and class, except those whose
//! input or outputs it lacks. INPUTSPECs do not matter. An unchanged pattern continues at its position in the range.
//!
//! A mapping uses a 64-byte record, two index entries and one entry in the order of expiry: less than 256 bytes, and
//! 170 on average. The table grows by doubling and never shrinks.
//!
//! # Arguments
//! - INPUTSPEC: one for each input.
//! - TCP_TIMEOUT (or TIMEOUT): idle timeout of a TCP connection that has carried data in both directions. Keyword,
//!   seconds, default 24 hours.
//! - TCP_DONE_TIMEOUT: idle timeout of a TCP connection that has ended (FIN in both directions, or RST). Keyword,
//!   default 4 minutes.
//! - TCP_NODATA_TIMEOUT: idle timeout of a TCP connection that has not carried data in both directions. Keyword,
//!   default 5 minutes.
//! - TCP_GUARANTEE (or GUARANTEE): how long a connection is guaranteed to keep its mapping after its last packet.
//!   Keyword, default 5 seconds.
//! - UDP_TIMEOUT: idle timeout of a UDP flow. Keyword, default 5 minutes.
//! - UDP_STREAMING_TIMEOUT: idle timeout of a UDP flow with at least three packets, one of them a reply. Keyword,
//!   default UDP_TIMEOUT.
//! - UDP_GUARANTEE: as TCP_GUARANTEE. Keyword, default 5 seconds.
//! - REAP_INTERVAL (or REAP_TIME): how often expired mappings are removed, 0 for never. Keyword, default 15 minutes.
//! - MAPPING_CAPACITY (or CAPACITY): the maximum number of mappings, or another rewriter whose capacity to share.
//!   Keyword, default 1048576 (in Click, 2147483647).
//! - DST_ANNO: whether the destination annotation is set to the new destination. Keyword, default true.
//! - REPLY_ANNO: an annotation byte, by name or offset. Replies get the value that the packet which made the mapping
//!   had there. Keyword, default none.
//! - SET_AGGREGATE: whether the aggregate annotation is set to the number of the mapping. Keyword, default false.
//! - HANDLE_MIGRATION: accepted without effect: all threads share the mappings.
//!
//! # Ports
//! As many push inputs as INPUTSPECs, any number of push outputs.
//!
//! # Handlers
//! - `tcp_table`, `udp_table` (read): the mappings, one line for each direction, such as
//!   `(1.0.0.1, 20, 2.0.0.2, 30) => (3.0.0.3, 1024, 2.0.0.2, 30) [*0 1] i0 exp300`: the outputs, with a star at the
//!   output of the line's direction; the input that made the mapping; the seconds until it expires. Lines are in the
//!   order of Click's tables. Also `tcp_mappings`, `udp_mappings`.
//! - `tcp_lookup` (read): given `SADDR SPORT DADDR DPORT`, what the TCP flow is rewritten to, in the same form; empty
//!   if there is no mapping.
//! - `table_size` (read): the number of this rewriter's mappings. Also `nmappings`.
//! - `mapping_failures` (read): flows that got no mapping because no port was free or there was no room.
//! - `patterns` (read): the inputs, one per line, with the number of their mappings in brackets.
//! - `pattern0`, `pattern1`, ... (read, write): one input. Writing an INPUTSPEC removes the mappings that the old one
//!   made.
//! - `size` (read): the number of mappings that count against the capacity.
//! - `capacity` (read, write): the capacity.
//! - `clear` (write): removes all mappings that count against the capacity.
//!
//! # Drops
//! - filtered: the flow is new, and the INPUTSPEC is `drop`.
//! - table full: no port is free, or there is no room for a mapping.
//! - no match: neither TCP nor UDP.
//! - fragment: a second or later fragment.
//! - truncated, bad header length: the packet ends before its ports, or its IP header length is invalid.
//! - header not set: the network header position is not set.
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

use millrace_core::headers::protocol;
use millrace_core::{Class, Handlers, Packet, Reason, Setup, register};

use super::mappings::family::Family;
use super::mappings::flow_set::{FlowSet, Policy, Timeouts, time};
use super::mappings::flow_table::View;
use super::mappings::transport;
use super::rewriter::{Dialect, Own, Rewriter, Rewriting, Seen, annotations, handlers};
use super::tcp_rewriter::tcp_policy;

/// Translates TCP and UDP, each in its own map; its manual is at the top of the file.
pub struct IpRewriter;

register!(Rewriting<IpRewriter>, "ip_rewriter.rs");

impl Dialect for IpRewriter {
    const CLASS: Class = Class::new("IPRewriter", "1-/1-", "h/h");

    fn configure(setup: &mut Setup<'_>) -> Own {
        let tcp = tcp_policy(setup);
        let plain = time(setup, "UDP_TIMEOUT").unwrap_or(300_000);
        let streaming = time(setup, "UDP_STREAMING_TIMEOUT").unwrap_or(plain);
        let guarantee = time(setup, "UDP_GUARANTEE").unwrap_or(5000);
        let udp = Policy { guarantee, timeouts: Timeouts::Udp { plain, streaming } };
        let annotations = annotations(setup, true);
        Own { family: Family::Ip, annotations, policies: vec![tcp, udp] }
    }

    fn handlers(handlers: &mut Handlers<Rewriting<Self>>) {
        handlers::tables(handlers, ["tcp_table", "tcp_mappings"], 0);
        handlers::tables(handlers, ["udp_table", "udp_mappings"], 1);
        handlers::lookup(handlers, "tcp_lookup");
    }

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
        match super::mappings::flow_set::protocol_of(view.state) {
            protocol::TCP => transport::apply_tcp(set, packet, view),
            _ => transport::apply_udp(packet, view),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use millrace_core::testing::Rig;

    use crate::rewrite::rewriter::Rewriter;

    #[test]
    fn a_router_that_ends_frees_its_mappings() {
        let rig = Rig::new("IPRewriter(keep 0 0)", 1, 1).unwrap();
        let router = rig.router();
        let rewriter = (0..router.len()).find_map(|id| router.offered::<Rewriter>(id)).unwrap();
        let mappings = Arc::downgrade(&rewriter);
        drop((rewriter, rig));
        assert!(mappings.upgrade().is_none(), "somebody still has it");
    }
}
