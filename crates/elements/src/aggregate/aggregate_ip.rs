//! AggregateIP - makes a field of the packet its aggregate
//!
//! # Synopsis
//! `AggregateIP(FIELD [, keywords INCREMENTAL, UNSHIFT_IP_ADDR])`
//!
//! # Description
//! Sets the aggregate annotation of each packet to the value of FIELD. Packets that have no such field - of
//! another protocol, later fragments, too short ones - leave by output 1.
//!
//! A FIELD has a name, such as `ip src`, or a place: `ip[8:2]` are two bytes from byte 8 on, as are
//! `ip[8-9]`; in braces, numbers count bits. Places count from the start of the IP header (`ip`), the
//! transport header (`transp`; `tcp`, `udp` and `icmp` ask for that protocol too) or what follows the
//! TCP or UDP header (`data`). A length, `ip src/8`, takes the first bits of a field, a mask of contiguous ones
//! those under it: `ip[8:2] & 0x3f0`.
//!
//! Names are `ip` vers, hl, tos, dscp, ecn, len, id, off, rf, df, mf, fragoff, ttl, proto, sum, src, dst;
//! sport and dport, of `tcp` or `udp` or either; `udp` len, sum; `tcp` seq, ack, hl, flags, fin, syn, rst,
//! psh, ackf, urg, win, sum, urp; `icmp` type, code, sum.
//!
//! # Arguments
//! - FIELD: at most 32 bits, within four bytes that begin at a multiple of four. Positional, mandatory.
//! - INCREMENTAL: add to the old aggregate: with a field of N bits it becomes old * 2^N + value. Keyword,
//!   default false.
//! - UNSHIFT_IP_ADDR: leave the bits of an IP address where they are: `ip src/8` of 10.1.2.3 is 10.0.0.0.
//!   Keyword, default false.
//!
//! # Ports
//! One agnostic input, one agnostic output; an optional push output for packets without the field.
//!
//! # Handlers
//! - `header` (read): `ip`, `transp` or `payload`.
//! - `bit_offset`, `bit_length` (read): where in the header the field begins, and how long it is.
//!
//! # Drops
//! - no match: the packet has no such field, and output 1 is not connected.
//! - header not set: its IP header is not known, and output 1 is not connected.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, FORCE_IP true, STOP true)
//!     -> AggregateIP(ip src/24)
//!     -> AggregateCounter
//!     -> Discard;
//! ```
//!
//! # See also
//! AggregateLength, AggregatePaint, AggregateIPFlows, AggregateCounter

use millrace_core::headers::{Header, Ipv4Header, transport_header_len};
use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use super::field::{Field, Of, Part};

/// The element; its manual is at the top of the file.
pub struct AggregateIp {
    field: Field,
    /// Where the word with the field begins in its header.
    word: usize,
    shift: u32,
    mask: u32,
    incremental: bool,
    /// How far the value is put back to the left.
    unshift: u32,
}

register!(AggregateIp, "aggregate_ip.rs");

/// The bits of the two addresses in the IP header.
const ADDRESSES: [u32; 2] = [96, 128];

impl Element for AggregateIp {
    const CLASS: Class = Class::new("AggregateIP", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let field: Field = args.mandatory("FIELD");
        let incremental = args.keyword("INCREMENTAL", false);
        let unshift = args.keyword("UNSHIFT_IP_ADDR", false);
        let last = field.bit.saturating_add(field.bits - 1);
        if field.bits > 32 {
            args.error("FIELD", "too many aggregates: field length too large, max 32");
        } else if field.bit / 32 != last / 32 {
            args.error("FIELD", "field specification does not fit within a single word");
        } else if field.bits == 32 && incremental {
            args.error("INCREMENTAL", "‘INCREMENTAL’ is incompatible with field length 32");
        }
        args.complete()?;
        let shift = 31 - last % 32;
        let is_address =
            field.header == Part::Ip && ADDRESSES.iter().any(|bit| field.bit / 32 == bit / 32);
        Ok(Self {
            field,
            word: (field.bit / 32 * 4) as usize,
            shift,
            mask: u32::MAX.checked_shr(32 - field.bits).unwrap_or(0),
            incremental,
            unshift: if unshift && is_address { shift } else { 0 },
        })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("header", |it, _| it.field.header.kind());
        handlers.read("bit_offset", |it, _| it.field.bit);
        handlers.read("bit_length", |it, _| it.field.bits);
    }
}

impl PerPacket for AggregateIp {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        match self.value(packet) {
            Ok(value) => {
                let old = if self.incremental { packet.aggregate() << self.field.bits } else { 0 };
                packet.set_aggregate(old.wrapping_add(value << self.unshift));
                Way::ON
            }
            Err(reason) => Way::output_or_drop(1, reason),
        }
    }
}

impl AggregateIp {
    fn value(&self, packet: &View) -> Result<u32, Reason> {
        let network = packet.network_data().ok_or(Reason::NoHeader)?;
        let (ip, _) = Ipv4Header::view(network).ok_or(Reason::NoHeader)?;
        let bytes = match self.field.header {
            Part::Ip => Some(network),
            Part::Transport(of) => transport(packet, ip, of),
            Part::Payload => payload(packet, ip),
        };
        let word = bytes.and_then(|bytes| bytes.get(self.word..)?.first_chunk());
        let word = u32::from_be_bytes(*word.ok_or(Reason::NoMatch)?);
        Ok(word >> self.shift & self.mask)
    }
}

fn transport<'a>(packet: &'a View, ip: &Ipv4Header, of: Of) -> Option<&'a [u8]> {
    packet.transport_data().filter(|_| ip.is_first_fragment() && of.is(ip.protocol))
}

/// What follows the TCP or UDP header.
fn payload<'a>(packet: &'a View, ip: &Ipv4Header) -> Option<&'a [u8]> {
    let transport = packet.transport_data().filter(|_| ip.is_first_fragment())?;
    transport.get(transport_header_len(ip.protocol, transport)?..)
}
