//! TCPRewriter - translates the addresses, ports and sequence numbers of TCP packets (NAT)
//!
//! # Synopsis
//! `TCPRewriter(INPUTSPEC1, ..., INPUTSPECn [, keywords])`
//!
//! # Description
//! Like IPRewriter, but for TCP only. Other elements can ask it to shift the sequence numbers of a connection from a
//! given number on. FTPPortMapper does so when it changes the length of data. Acknowledgments from the other side,
//! including selective ones (RFC 2018), are shifted back.
//!
//! IPRewriter's manual describes the INPUTSPECs, how threads share mappings, and how much memory mappings need.
//!
//! # Arguments
//! - INPUTSPEC: one for each input.
//! - TCP_TIMEOUT (or TIMEOUT): idle timeout of a connection that has carried data in both directions. Keyword, seconds,
//!   default 24 hours.
//! - TCP_DONE_TIMEOUT: idle timeout of a connection that has ended (FIN in both directions, or RST). Keyword, default 4
//!   minutes.
//! - TCP_NODATA_TIMEOUT: idle timeout of a connection that has not carried data in both directions. Keyword, default 5
//!   minutes.
//! - TCP_GUARANTEE (or GUARANTEE): how long a connection is guaranteed to keep its mapping after its last packet.
//!   Keyword, default 5 seconds.
//! - REAP_INTERVAL (or REAP_TIME), MAPPING_CAPACITY (or CAPACITY), DST_ANNO, REPLY_ANNO, SET_AGGREGATE,
//!   HANDLE_MIGRATION: as IPRewriter.
//!
//! # Ports
//! As many push inputs as INPUTSPECs, any number of push outputs.
//!
//! # Handlers
//! - `table` (read): the mappings, as `tcp_table` of IPRewriter; a connection with shifted numbers has ` seq +N`. Also
//!   `mappings`.
//! - `lookup` (read): as `tcp_lookup` of IPRewriter.
//! - `table_size`, `nmappings`, `mapping_failures`, `patterns`, `size` (read), `pattern0`, ..., `capacity` (read,
//!   write), `clear` (write): as IPRewriter.
//!
//! # Drops
//! As IPRewriter, but no match: the packet is not TCP.
//!
//! # Example
//! ```click
//! rw :: TCPRewriter(pattern 1.0.0.1 1024-65535 - - 0 0);
//! InfiniteSource(DATA \<45000028 00000000 4006b0ce 0a000001 0a000002
//!                       04d20050 00000000 00000000 50020000 00000000>, LIMIT 10)
//!     -> MarkIPHeader -> rw -> Discard;
//! ```
//!
//! # See also
//! IPRewriter, FTPPortMapper, IPRewriterPatterns

use millrace_core::headers::protocol;
use millrace_core::{Class, Handlers, Packet, Reason, Setup, register};

use super::mappings::family::Family;
use super::mappings::flow_set::{FlowSet, Policy, Timeouts, time};
use super::mappings::flow_table::View;
use super::mappings::transport;
use super::rewriter::{Dialect, Own, Rewriter, Rewriting, Seen, annotations, handlers};

/// The class; its manual is at the top of the file.
pub struct TcpRewriter;

register!(Rewriting<TcpRewriter>, "tcp_rewriter.rs");

/// Reads the timeouts and the guarantee of TCP mappings.
pub(super) fn tcp_policy(setup: &mut Setup<'_>) -> Policy {
    let no_data = time(setup, "TCP_NODATA_TIMEOUT").unwrap_or(300_000);
    let guarantee = time(setup, "TCP_GUARANTEE");
    let data = time(setup, "TIMEOUT");
    let data = time(setup, "TCP_TIMEOUT").or(data).unwrap_or(86_400_000);
    let done = time(setup, "TCP_DONE_TIMEOUT").unwrap_or(240_000);
    let guarantee = time(setup, "GUARANTEE").or(guarantee).unwrap_or(5000);
    Policy { guarantee, timeouts: Timeouts::Tcp { no_data, data, done } }
}

impl Dialect for TcpRewriter {
    const CLASS: Class = Class::new("TCPRewriter", "1-/1-", "h/h");

    fn configure(setup: &mut Setup<'_>) -> Own {
        let policies = vec![tcp_policy(setup)];
        let annotations = annotations(setup, true);
        Own { family: Family::Tcp, annotations, policies }
    }

    fn handlers(handlers: &mut Handlers<Rewriting<Self>>) {
        handlers::tables(handlers, ["table", "mappings"], 0);
        handlers::lookup(handlers, "lookup");
    }

    #[inline(always)]
    fn read(packet: &Packet) -> Result<Seen, Reason> {
        let (flow, protocol) = transport::read(packet)?;
        match protocol {
            protocol::TCP => Ok(Seen { flow, map: 0, protocol }),
            _ => Err(Reason::NoMatch),
        }
    }

    #[inline(always)]
    fn apply(_: &Rewriter, set: &FlowSet, packet: &mut Packet, view: &View<'_>) -> u32 {
        transport::apply_tcp(set, packet, view)
    }
}
