//! ICMPPingRewriter - translates the addresses and identifiers of ICMP echo requests and replies (NAT)
//!
//! # Synopsis
//! `ICMPPingRewriter(INPUTSPEC1, ..., INPUTSPECn [, keywords])`
//!
//! # Description
//! Lets pings pass a network address translator. An echo request of an unknown flow (source address, destination
//! address, identifier) gets a mapping by the INPUTSPEC of its input, where the identifier takes the place of the
//! source port: `pattern SADDR SPORT - - FOUTPUT ROUTPUT` or `pattern SADDR - SPORT FOUTPUT ROUTPUT`. SPORT is usually
//! a range. The other INPUTSPECs are those of IPRewriter. Replies to the rewritten request become replies to the
//! original request.
//!
//! Packets must have their network header position set. Echo replies without a mapping, packets that are not echo
//! requests or replies, and second and later fragments are dropped, unless they arrive at a `pass` input. Checksums are
//! updated.
//!
//! IPRewriter's manual describes how threads share mappings, and how much memory mappings need.
//!
//! # Arguments
//! - INPUTSPEC: one for each input.
//! - TIMEOUT: idle timeout of a flow. Keyword, seconds, default 5 minutes.
//! - GUARANTEE: how long a flow is guaranteed to keep its mapping after its last packet. Keyword, default 5 seconds.
//! - REAP_INTERVAL (or REAP_TIME), MAPPING_CAPACITY (or CAPACITY), DST_ANNO, REPLY_ANNO, SET_AGGREGATE,
//!   HANDLE_MIGRATION: as IPRewriter.
//!
//! # Ports
//! As many push inputs as INPUTSPECs, any number of push outputs.
//!
//! # Handlers
//! - `table` (read): the mappings, one line for each direction, such as
//!   `(10.0.0.2, 2.0.0.2, 77) => (1.0.0.1, 2.0.0.2, 1024) [*0 1] i0 exp300`. As in Click, lines of replies show the
//!   identifier plus 256. Also `mappings`.
//! - `table_size`, `nmappings`, `mapping_failures`, `patterns`, `size` (read), `pattern0`, ..., `capacity` (read,
//!   write), `clear` (write): as IPRewriter.
//!
//! # Drops
//! - filtered: the flow is new, and the INPUTSPEC is `drop`.
//! - table full: no identifier is free, or there is no room for a mapping.
//! - unexpected: an echo reply without a mapping.
//! - no match: neither an echo request nor an echo reply.
//! - fragment: a second or later fragment.
//! - truncated, bad header length: the packet ends before the identifier, or its IP header length is invalid.
//! - header not set: the network header position is not set.
//!
//! # Example
//! ```click
//! rw :: ICMPPingRewriter(pattern 1.0.0.1 1024-65535# - - 0 0);
//! InfiniteSource(DATA \<4500001c 00000000 40010000 0a000002 02000002 0800f7ff 00000000>, LIMIT 10)
//!     -> MarkIPHeader -> SetIPChecksum -> rw -> Discard;
//! ```
//!
//! # See also
//! IPRewriter, ICMPRewriter, ICMPPingResponder

use millrace_core::headers::protocol;
use millrace_core::{Class, Packet, Reason, Setup, register};

use super::mappings::family::{Family, next_identifier};
use super::mappings::flow_set::FlowSet;
use super::mappings::flow_table::View;
use super::mappings::transport::write_addresses;
use super::mappings::{addresses, transport};
use super::rewriter::{Dialect, Own, Rewriter, Rewriting, Seen, annotations};
use crate::flows::checksum::{field, update};
use crate::flows::key::FlowId;

/// The class; its manual is at the top of the file. Its flows consist of both addresses and the identifier. In requests, the identifier is the source port and its successor
/// the destination port; in replies it is the other way round.
pub struct IcmpPingRewriter;

register!(Rewriting<IcmpPingRewriter>, "icmp_ping_rewriter.rs");

const ECHO_REPLY: u8 = 0;
const ECHO: u8 = 8;

impl Dialect for IcmpPingRewriter {
    const CLASS: Class = Class::new("ICMPPingRewriter", "1-/1-", "h/h");

    fn configure(setup: &mut Setup<'_>) -> Own {
        let policies = vec![addresses::policy(setup, 300)];
        let annotations = annotations(setup, true);
        Own { family: Family::Ping, annotations, policies }
    }

    #[inline(always)]
    fn read(packet: &Packet) -> Result<Seen, Reason> {
        let (mut flow, protocol) = transport::read(packet)?;
        if protocol != protocol::ICMP {
            return Err(Reason::NoMatch);
        }
        let bytes = packet.network_data().ok_or(Reason::NoHeader)?;
        let (_, icmp) = transport::split(bytes)?;
        let [kind, _, _, _, high, low] = *icmp.first_chunk().ok_or(Reason::Truncated)?;
        let identifier = u16::from_be_bytes([high, low]);
        let next = next_identifier(identifier);
        flow = match kind {
            ECHO => flow.with_source_port(identifier).with_destination_port(next),
            ECHO_REPLY => flow.with_source_port(next).with_destination_port(identifier),
            _ => return Err(Reason::NoMatch),
        };
        Ok(Seen { flow, map: 0, protocol })
    }

    #[inline(always)]
    fn may_begin(flow: FlowId) -> bool {
        flow.destination_port() == next_identifier(flow.source_port())
    }

    #[inline(always)]
    fn apply(_: &Rewriter, _: &FlowSet, packet: &mut Packet, view: &View<'_>) -> u32 {
        let Some(bytes) = packet.network_data_mut() else { return view.state };
        let Some((_, icmp)) = write_addresses(bytes, view) else { return view.state };
        let identifier = match view.found.reply {
            false => view.to.source_port(),
            true => view.to.destination_port(),
        };
        if let Some(place) = field(icmp, 4) {
            *place = identifier.to_be_bytes();
        }
        update(field(icmp, 2), view.deltas.1);
        not_negative_zero(icmp);
        view.state
    }
}

/// Corrects the checksum of a message of all zeros: it is 0xffff, not 0.
pub(super) fn not_negative_zero(icmp: &mut [u8]) {
    if icmp.iter().all(|byte| *byte == 0)
        && let Some(sum) = field(icmp, 2)
    {
        *sum = [0xff, 0xff];
    }
}
