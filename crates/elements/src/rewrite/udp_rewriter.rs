//! UDPRewriter - translates the addresses and ports of UDP and TCP packets (NAT)
//!
//! # Synopsis
//! `UDPRewriter(INPUTSPEC1, ..., INPUTSPECn [, keywords])`
//!
//! # Description
//! Like IPRewriter, but with one table for all protocols that have ports at the same place as UDP: UDP, TCP and DCCP. A
//! flow is identified only by its addresses and ports, and connections are not tracked. Usually a UDPRewriter receives
//! packets of one protocol.
//!
//! IPRewriter's manual describes the INPUTSPECs, how threads share mappings, and how much memory mappings need.
//!
//! # Arguments
//! - INPUTSPEC: one for each input.
//! - TIMEOUT (or UDP_TIMEOUT): idle timeout of a flow. Keyword, seconds, default 5 minutes.
//! - STREAMING_TIMEOUT (or UDP_STREAMING_TIMEOUT): idle timeout of a flow with at least three packets, one of them a
//!   reply. Keyword, default TIMEOUT.
//! - GUARANTEE (or UDP_GUARANTEE): how long a flow is guaranteed to keep its mapping after its last packet. Keyword,
//!   default 5 seconds.
//! - REAP_INTERVAL (or REAP_TIME), MAPPING_CAPACITY (or CAPACITY), DST_ANNO, REPLY_ANNO, SET_AGGREGATE,
//!   HANDLE_MIGRATION: as IPRewriter.
//!
//! # Ports
//! As many push inputs as INPUTSPECs, any number of push outputs.
//!
//! # Handlers
//! - `table` (read): the mappings, as `udp_table` of IPRewriter. Also `mappings`.
//! - `table_size`, `nmappings`, `mapping_failures`, `patterns`, `size` (read), `pattern0`, ..., `capacity` (read,
//!   write), `clear` (write): as IPRewriter.
//!
//! # Drops
//! As IPRewriter, but no match: the packet is not UDP, TCP or DCCP.
//!
//! # Example
//! ```click
//! rw :: UDPRewriter(pattern 1.0.0.1 1024-65535 - - 0 0);
//! InfiniteSource(LENGTH 64, LIMIT 10) -> UDPIPEncap(10.0.0.2, 1234, 2.0.0.2, 53)
//!     -> rw -> Discard;
//! ```
//!
//! # See also
//! IPRewriter, TCPRewriter, IPRewriterPatterns

use millrace_core::headers::protocol;
use millrace_core::{Class, Packet, Reason, Setup, register};

use super::mappings::family::Family;
use super::mappings::flow_set::{FlowSet, Policy, Timeouts, time};
use super::mappings::flow_table::View;
use super::mappings::transport;
use super::rewriter::{Dialect, Own, Rewriter, Rewriting, Seen, annotations};

/// The class; its manual is at the top of the file.
pub struct UdpRewriter;

register!(Rewriting<UdpRewriter>, "udp_rewriter.rs");

impl Dialect for UdpRewriter {
    const CLASS: Class = Class::new("UDPRewriter", "1-/1-", "h/h");

    fn configure(setup: &mut Setup<'_>) -> Own {
        let plain = time(setup, "UDP_TIMEOUT");
        let plain = time(setup, "TIMEOUT").or(plain).unwrap_or(300_000);
        let streaming = time(setup, "UDP_STREAMING_TIMEOUT");
        let streaming = time(setup, "STREAMING_TIMEOUT").or(streaming).unwrap_or(plain);
        let guarantee = time(setup, "UDP_GUARANTEE");
        let guarantee = time(setup, "GUARANTEE").or(guarantee).unwrap_or(5000);
        let policies = vec![Policy { guarantee, timeouts: Timeouts::Udp { plain, streaming } }];
        let annotations = annotations(setup, true);
        Own { family: Family::Udp, annotations, policies }
    }

    #[inline(always)]
    fn read(packet: &Packet) -> Result<Seen, Reason> {
        let (flow, protocol) = transport::read(packet)?;
        match protocol {
            protocol::UDP | protocol::TCP | protocol::DCCP => Ok(Seen { flow, map: 0, protocol }),
            _ => Err(Reason::NoMatch),
        }
    }

    #[inline(always)]
    fn apply(_: &Rewriter, _: &FlowSet, packet: &mut Packet, view: &View<'_>) -> u32 {
        transport::apply_udp(packet, view)
    }
}
