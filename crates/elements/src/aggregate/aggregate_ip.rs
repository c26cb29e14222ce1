//! AggregateIP - sets the aggregate annotation from an IP, TCP, UDP or ICMP field
//!
//! # Synopsis
//! `AggregateIP(FIELD [, keywords INCREMENTAL, UNSHIFT_IP_ADDR])`
//!
//! # Description
//! Sets the aggregate annotation of each packet to the value of FIELD. Packets without the field - of another protocol,
//! later fragments, or too short - leave by output 1.
//!
//! A FIELD is given by name, such as `ip src`, or by position: `ip[8:2]` and `ip[8-9]` are the two bytes from byte 8
//! on; in braces, numbers count bits. Positions count from the start of the IP header (`ip`), of the transport header
//! (`transp`; `tcp`, `udp` and `icmp` also require that protocol) or of the TCP or UDP payload (`data`). A length, as
//! in `ip src/8`, selects the first bits of a field; a contiguous mask, as in `ip[8:2] & 0x3f0`, selects the bits under
//! it.
//!
//! The names are: for `ip` vers, hl, tos, dscp, ecn, len, id, off, rf, df, mf, fragoff, ttl, proto, sum, src, dst; for
//! `tcp`, `udp` or neither sport, dport; for `tcp` seq, ack, hl, flags, fin, syn, rst, psh, ackf, urg, win, sum, urp;
//! for `udp` len, sum; for `icmp` type, code, sum.
//!
//! # Arguments
//! - FIELD: at most 32 bits, within one aligned four-byte word of its header. Positional, mandatory.
//! - INCREMENTAL: combine with the old aggregate: with a field of N bits it becomes old * 2^N + value. Keyword, default
//!   false.
//! - UNSHIFT_IP_ADDR: leave the bits of an IP address in place: `ip src/8` of 10.1.2.3 is 10.0.0.0. Keyword, default
//!   false.
//!
//! # Ports
//! One agnostic input, one agnostic output; an optional push output for packets without the field.
//!
//! # Handlers
//! - `header` (read): `ip`, `transp` or `payload`.
//! - `bit_offset`, `bit_length` (read): the offset of the field in its header, and its length, in bits.
//!
//! # Drops
//! - no match: the packet does not have the field, and output 1 is not connected.
//! - header not set: the IP header's position is not known, and output 1 is not connected.
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

mod field;

use millrace_core::headers::{Header, Ipv4Header, transport_header_len};
use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use field::{Field, Of, Part};

/// The element; its manual is at the top of the file.
pub struct AggregateIp {
    field: Field,
    /// Offset, in the header, of the word that holds the field.
    word: usize,
    shift: u32,
    mask: u32,
    incremental: bool,
    /// How far the value is shifted back to the left.
    unshift: u32,
}

register!(AggregateIp, "aggregate_ip.rs");

/// The bit offsets of the two addresses in the IP header.
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

/// The bytes after the TCP or UDP header.
fn payload<'a>(packet: &'a View, ip: &Ipv4Header) -> Option<&'a [u8]> {
    let transport = packet.transport_data().filter(|_| ip.is_first_fragment())?;
    transport.get(transport_header_len(ip.protocol, transport)?..)
}
