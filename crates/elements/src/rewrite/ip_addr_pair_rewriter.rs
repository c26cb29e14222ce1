//! IPAddrPairRewriter - translates the source and destination addresses of IP packets (NAT without ports)
//!
//! # Synopsis
//! `IPAddrPairRewriter(INPUTSPEC1, ..., INPUTSPECn [, keywords])`
//!
//! # Description
//! Like IPAddrRewriter, but a mapping is identified by both addresses of a packet and may change both. A host can thus
//! appear under different addresses to different peers.
//!
//! For a packet with an unknown pair, the INPUTSPEC of its input decides:
//!
//! - `drop`, `discard`, `pass [OUTPUT]`, `keep FOUTPUT ROUTPUT`, `ELEMENT`: as IPRewriter.
//! - `pattern SADDR[-SADDR2] DADDR FOUTPUT ROUTPUT`: maps the source address as IPAddrRewriter does, and the
//!   destination address to DADDR. An address given as `-` stays unchanged.
//! - `pattern NAME FOUTPUT ROUTPUT`: the same with a pattern of IPRewriterPatterns.
//!
//! Packets must have their network header position set. Fragments are rewritten, too. Checksums are updated, including
//! those of TCP and UDP. The destination annotation is set to the new destination.
//!
//! IPRewriter's manual describes how threads share mappings, and how much memory mappings need.
//!
//! # Arguments
//! - INPUTSPEC: one for each input.
//! - TIMEOUT: idle timeout of a pair. Keyword, seconds, default 2 hours.
//! - GUARANTEE: how long a pair is guaranteed to keep its mapping after its last packet. Keyword, default 5 seconds.
//! - REAP_INTERVAL (or REAP_TIME), MAPPING_CAPACITY (or CAPACITY), REPLY_ANNO, SET_AGGREGATE, HANDLE_MIGRATION: as
//!   IPRewriter.
//!
//! # Ports
//! As many push inputs as INPUTSPECs, any number of push outputs.
//!
//! # Handlers
//! - `table` (read): the mappings, one line for each direction, such as
//!   `(10.0.0.2, 2.0.0.2) => (1.0.0.1, 2.0.0.2) [*0 1] i0 exp7200`. Also `mappings`.
//! - `table_size`, `nmappings`, `mapping_failures`, `patterns`, `size` (read), `pattern0`, ..., `capacity` (read,
//!   write), `clear` (write): as IPRewriter.
//!
//! # Drops
//! As IPAddrRewriter, but a pattern may also change the destination address.
//!
//! # Example
//! ```click
//! rw :: IPAddrPairRewriter(pattern 1.0.0.1 3.0.0.3 0 0);
//! InfiniteSource(LENGTH 64, LIMIT 10) -> UDPIPEncap(10.0.0.2, 1234, 2.0.0.2, 53)
//!     -> rw -> Discard;
//! ```
//!
//! # See also
//! IPAddrRewriter, IPRewriter, IPRewriterPatterns

use millrace_core::{Class, Packet, Reason, Setup, register};

use super::mappings::addresses;
use super::mappings::family::Family;
use super::mappings::flow_set::FlowSet;
use super::mappings::flow_table::View;
use super::rewriter::{Dialect, Own, Rewriter, Rewriting, Seen, annotations};

/// Translates both addresses; its manual is at the top of the file.
pub struct IpAddrPairRewriter;

register!(Rewriting<IpAddrPairRewriter>, "ip_addr_pair_rewriter.rs");

impl Dialect for IpAddrPairRewriter {
    const CLASS: Class = Class::new("IPAddrPairRewriter", "1-/1-", "h/h");

    fn configure(setup: &mut Setup<'_>) -> Own {
        let policies = vec![addresses::policy(setup, 7200)];
        let annotations = annotations(setup, false);
        Own { family: Family::AddressPair, annotations, policies }
    }

    #[inline(always)]
    fn read(packet: &Packet) -> Result<Seen, Reason> {
        addresses::read(packet)
    }

    #[inline(always)]
    fn apply(_: &Rewriter, _: &FlowSet, packet: &mut Packet, view: &View<'_>) -> u32 {
        addresses::apply_both(packet, view);
        view.state
    }
}
