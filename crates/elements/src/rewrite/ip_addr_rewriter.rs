//! IPAddrRewriter - translates the source addresses of IP packets (NAT without ports)
//!
//! # Synopsis
//! `IPAddrRewriter(INPUTSPEC1, ..., INPUTSPECn [, keywords])`
//!
//! # Description
//! A network address translator without ports: each inside host gets an outside address of its own for as long as it
//! uses it. If a mapping has the packet's source address, the source address is rewritten. Otherwise, if a mapping has
//! the packet's destination address, the destination address is rewritten back. Otherwise the INPUTSPEC of the packet's
//! input decides:
//!
//! - `drop`, `discard`, `pass [OUTPUT]`, `keep FOUTPUT ROUTPUT`, `ELEMENT`: as IPRewriter.
//! - `pattern SADDR[-SADDR2] - FOUTPUT ROUTPUT`: maps the source address to SADDR, or to a free address of a range or
//!   of a network `ADDR/LEN` (without its first and last address). The free address is chosen at random, or in turn if
//!   `#` follows the range. The destination must be `-`. If no address is free, the packet is dropped.
//! - `pattern NAME FOUTPUT ROUTPUT`: the same with a pattern of IPRewriterPatterns.
//!
//! Packets must have their network header position set. Fragments are rewritten, too. Checksums are updated, including
//! those of TCP and UDP. The destination annotation of replies is set to the new destination.
//!
//! IPRewriter's manual describes how threads share mappings, and how much memory mappings need.
//!
//! # Arguments
//! - INPUTSPEC: one for each input.
//! - TIMEOUT: idle timeout of an address. Keyword, seconds, default 2 hours.
//! - GUARANTEE: how long an address is guaranteed to keep its mapping after its last packet. Keyword, default 5
//!   seconds.
//! - REAP_INTERVAL (or REAP_TIME), MAPPING_CAPACITY (or CAPACITY), REPLY_ANNO, SET_AGGREGATE, HANDLE_MIGRATION: as
//!   IPRewriter.
//!
//! # Ports
//! As many push inputs as INPUTSPECs, any number of push outputs.
//!
//! # Handlers
//! - `table` (read): the mappings, one line for each direction, such as `10.0.0.2 => 1.0.0.1 [*0 1] i0 exp7200`. Also
//!   `mappings`.
//! - `table_size`, `nmappings`, `mapping_failures`, `patterns`, `size` (read), `pattern0`, ..., `capacity` (read,
//!   write), `clear` (write): as IPRewriter.
//!
//! # Drops
//! - filtered: neither address has a mapping, and the INPUTSPEC is `drop`.
//! - table full: no address is free, or there is no room for a mapping; or the pattern changes more than the source.
//! - truncated, bad header length: the IP header is incomplete, or its length is invalid.
//! - header not set: the network header position is not set.
//!
//! # Example
//! ```click
//! rw :: IPAddrRewriter(pattern 1.0.0.1-1.0.0.9# - 0 0);
//! InfiniteSource(LENGTH 64, LIMIT 10) -> UDPIPEncap(10.0.0.2, 1234, 2.0.0.2, 53)
//!     -> rw -> Discard;
//! ```
//!
//! # See also
//! IPAddrPairRewriter, IPRewriter, IPRewriterPatterns

use millrace_core::{Class, Packet, Reason, Setup, register};

use super::mappings::addresses;
use super::mappings::family::Family;
use super::mappings::flow_set::FlowSet;
use super::mappings::flow_table::View;
use super::rewriter::{Dialect, Own, Rewriter, Rewriting, Seen, annotations};
use crate::flows::key::FlowId;

/// Translates the source address, or the destination address of replies; its manual is at the top of the file.
pub struct IpAddrRewriter;

register!(Rewriting<IpAddrRewriter>, "ip_addr_rewriter.rs");

impl Dialect for IpAddrRewriter {
    const CLASS: Class = Class::new("IPAddrRewriter", "1-/1-", "h/h");

    fn configure(setup: &mut Setup<'_>) -> Own {
        let policies = vec![addresses::policy(setup, 7200)];
        let annotations = annotations(setup, false);
        Own { family: Family::Address, annotations, policies }
    }

    #[inline(always)]
    fn read(packet: &Packet) -> Result<Seen, Reason> {
        addresses::read(packet)
    }

    #[inline(always)]
    fn keys(flow: FlowId) -> (FlowId, Option<FlowId>) {
        (flow.with_destination(0), Some(flow.with_source(0)))
    }

    #[inline(always)]
    fn apply(_: &Rewriter, _: &FlowSet, packet: &mut Packet, view: &View<'_>) -> u32 {
        addresses::apply_one(packet, view);
        view.state
    }
}
