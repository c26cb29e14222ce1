//! ICMPRewriter - translates ICMP errors about packets that a rewriter changed (NAT)
//!
//! # Synopsis
//! `ICMPRewriter(MAPS [, DST_ANNO, REPLY_ANNO])`
//!
//! # Description
//! An ICMP error quotes the packet that it is about. If a rewriter has changed that packet, the error quotes the
//! changed packet. This element looks for a mapping in the rewriters MAPS, in order, and rewrites the error so that it
//! is about the original packet. It rewrites the quoted addresses, the quoted ports or echo identifier, and the
//! checksums of the quoted packet and of the message. It also rewrites the destination of the error if that is the
//! quoted source. It handles destination unreachable, source quench, redirect, time exceeded and parameter problem.
//!
//! If a quoted packet has no usable ports (another protocol, a second or later fragment, fewer than eight bytes after
//! the header), only its addresses are looked up. IPAddrRewriter and IPAddrPairRewriter have such mappings.
//!
//! Errors without a mapping, incomplete errors, and ICMP messages of other types go to output 1 unchanged, if it is
//! connected and no rewriter in MAPS has a PORT; otherwise they are dropped. Packets that are not ICMP are dropped.
//! Packets must have their network header position set.
//!
//! # Arguments
//! - MAPS: rewriters, separated by spaces. With `NAME:PORT`, rewritten errors go to output PORT plus the mapping's
//!   output for replies to the quoted packet; otherwise to output 0. Mandatory.
//! - DST_ANNO: whether the destination annotation is set to the new destination. Keyword, default true.
//! - REPLY_ANNO: an annotation byte, by name or offset. Errors about packets of a flow get the same value there as
//!   replies to it. Keyword, default none.
//!
//! # Ports
//! One push input; output 0, push: rewritten errors; output 1, push, optional: packets that are not rewritten. More
//! outputs for MAPS with ports.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - unexpected: without output 1, an error without a mapping, or not an error.
//! - truncated: without output 1, an incomplete packet, or an error that quotes less than an IP header.
//! - bad header length: without output 1, the length in the IP header is below 20 bytes.
//! - no match: not ICMP.
//! - header not set: the network header position is not set.
//!
//! # Example
//! ```click
//! rw :: IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 0);
//! InfiniteSource(LENGTH 64, LIMIT 10) -> UDPIPEncap(10.0.0.2, 1234, 2.0.0.2, 53)
//!     -> rw -> ICMPError(3.0.0.3, unreachable, port) -> ICMPRewriter(rw) -> Discard;
//! ```
//!
//! # See also
//! IPRewriter, IPAddrRewriter, ICMPPingRewriter, ICMPError

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use millrace_core::args::{Annotation, ArgText};
use millrace_core::headers::{Ipv4Header, protocol};
use millrace_core::{
    Batch, Capability, Class, Context, Element, Failed, Init, Packet, Reason, Refused, Setup,
    register,
};

use super::icmp_ping_rewriter::not_negative_zero;
use super::mappings::transport;
use crate::capability::{FlowId, FlowTable};
use crate::flows::checksum::{field, update};

/// The element; its manual is at the top of the file.
pub struct IcmpRewriter {
    /// Rewriters by index and name, and the first output of each.
    maps: Vec<(usize, String, Option<usize>)>,
    outputs: usize,
    dst_anno: bool,
    reply_anno: Option<usize>,
    rewriters: OnceLock<Vec<Map>>,
}

register!(IcmpRewriter, "icmp_rewriter.rs");

/// A rewriter, and its first output.
type Map = (Arc<dyn FlowTable>, Option<usize>);

impl Element for IcmpRewriter {
    const CLASS: Class = Class::new("ICMPRewriter", "1/1-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let words = setup.args.with(
            "MAPS",
            millrace_core::args::Kind::Mandatory,
            "rewriters",
            |text, _| Ok::<_, millrace_core::args::ArgError>(text.words()),
        );
        let dst_anno = setup.args.keyword("DST_ANNO", true);
        let reply_anno: Option<Annotation<1>> = setup.args.optional_keyword("REPLY_ANNO");
        let mut maps = Vec::new();
        for word in words.unwrap_or_default() {
            let scope = setup.args.scope();
            let map = parse_map(&word);
            match map.and_then(|(name, port)| Some((scope.find_element(&name)?, name, port))) {
                Some(map) => maps.push(map),
                None => setup.args.error(&word, <dyn FlowTable>::missing(word.as_str())),
            }
        }
        setup.args.complete()?;
        Ok(Self {
            maps,
            outputs: setup.outputs(),
            dst_anno,
            reply_anno: reply_anno.map(|anno| anno.0),
            rewriters: OnceLock::new(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let mut rewriters = Vec::new();
        for (element, name, port) in &self.maps {
            let rewriter = init.require::<dyn FlowTable>(*element)?;
            if let Some(port) = port.filter(|port| port + rewriter.outputs() > self.outputs) {
                let plural = if self.outputs == 1 { "output" } else { "outputs" };
                let outputs = self.outputs;
                let message =
                    format!("{name}:{port} port offset requires more than {outputs} {plural}");
                return Err(message.into());
            }
            rewriters.push((rewriter, *port));
        }
        // An element is initialised only once.
        let _ = self.rewriters.set(rewriters);
        Ok(())
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        let unmapped = match cx.is_connected(1) && self.maps.iter().all(|(.., port)| port.is_none())
        {
            true => Some(1),
            false => None,
        };
        cx.route_or_drop(batch, |packet| match self.rewrite(packet) {
            Ok(output) => Ok(output),
            Err(reason @ (Reason::NoMatch | Reason::NoHeader)) => Err(reason),
            Err(reason) => unmapped.ok_or(reason),
        });
    }
}

fn parse_map(word: &ArgText) -> Option<(String, Option<usize>)> {
    match word.as_str().split_once(':') {
        None => Some((word.as_str().to_owned(), None)),
        Some((name, port)) => Some((name.to_owned(), Some(port.parse().ok()?))),
    }
}

const UNREACHABLE: u8 = 3;
const SOURCE_QUENCH: u8 = 4;
const REDIRECT: u8 = 5;
const ECHO: u8 = 8;
const TIME_EXCEEDED: u8 = 11;
const PARAMETER_PROBLEM: u8 = 12;
const ICMP_LEN: usize = 8;

/// The packet that an error quotes.
struct Quoted {
    /// The flow of replies to the quoted packet.
    replies: FlowId,
    protocol: u8,
    /// The position of the quoted IP header in the message.
    header: Range<usize>,
    /// Whether the quoted packet has ports, or an identifier, that are part of the flow.
    has_ports: bool,
}

impl Quoted {
    /// Reads an ICMP message.
    fn read(icmp: &[u8]) -> Result<Self, Reason> {
        let kind = icmp.first().ok_or(Reason::Truncated)?;
        let errors = [UNREACHABLE, SOURCE_QUENCH, REDIRECT, TIME_EXCEEDED, PARAMETER_PROBLEM];
        if !errors.contains(kind) {
            return Err(Reason::Unexpected);
        }
        let bytes = icmp.get(ICMP_LEN..).ok_or(Reason::Truncated)?;
        let head: &[u8; 20] = bytes.first_chunk().ok_or(Reason::Truncated)?;
        let len = usize::from(head[0] & 0xf) * 4;
        if head[0] >> 4 != 4 || len < head.len() {
            return Err(Reason::Unexpected);
        }
        let flow = FlowId { addresses: transport::addresses(head), ports: 0 };
        let mut replies = flow.reversed();
        let mut has_ports = false;
        let first = u16::from_be_bytes([head[6], head[7]]) & Ipv4Header::OFFSET_MASK == 0;
        let quoted = bytes.get(len..).filter(|_| first).unwrap_or_default();
        match head[9] {
            protocol::TCP | protocol::UDP | protocol::DCCP => {
                if let Some(&[a, b, c, d, _, _, _, _]) = quoted.first_chunk() {
                    let ports = u32::from_be_bytes([a, b, c, d]);
                    replies = FlowId { ports, ..flow }.reversed();
                    has_ports = true;
                }
            }
            protocol::ICMP => {
                if let Some(&[ECHO, _, _, _, high, low]) = quoted.first_chunk() {
                    replies = replies.with_source_port(u16::from_be_bytes([high, low]));
                    has_ports = true;
                }
            }
            _ => {}
        }
        let header = ICMP_LEN..ICMP_LEN + len;
        Ok(Self { replies, protocol: head[9], header, has_ports })
    }
}

impl IcmpRewriter {
    /// Rewrites an error; returns its output, or the reason that it cannot be rewritten.
    fn rewrite(&self, packet: &mut Packet) -> Result<usize, Reason> {
        let bytes = packet.network_data().ok_or(Reason::NoHeader)?;
        let (head, icmp) = transport::split(bytes)?;
        if head[9] != protocol::ICMP {
            return Err(Reason::NoMatch);
        }
        let quoted = Quoted::read(icmp)?;
        let header_len = usize::from(head[0] & 0xf) * 4;
        let rewriters = self.rewriters.get().map(Vec::as_slice).unwrap_or_default();
        let found = rewriters.iter().find_map(|(rewriter, port)| {
            Some((rewriter.mapping(quoted.protocol, quoted.replies, true)?, port))
        });
        let (mapping, port) = found.ok_or(Reason::Unexpected)?;
        let to = rewritten(&quoted, mapping.from, mapping.to);
        if let Some(anno) = self.reply_anno.filter(|_| mapping.is_reply) {
            packet.set_anno_u8(anno, mapping.annotation);
        }
        let bytes = packet.network_data_mut().ok_or(Reason::NoHeader)?;
        let redirected = redirect(bytes, quoted.replies.destination(), to.destination());
        let icmp = bytes.get_mut(header_len..).ok_or(Reason::Truncated)?;
        translate(icmp, &quoted, to).ok_or(Reason::Truncated)?;
        if redirected && self.dst_anno {
            packet.set_dst_ip(to.destination().into());
        }
        Ok(port.map_or(0, |port| port + usize::from(mapping.output)))
    }
}

/// The flow that the replies to the quoted packet become. Fields that the mapping does not cover stay unchanged.
fn rewritten(quoted: &Quoted, key: FlowId, to: FlowId) -> FlowId {
    let mut to = to;
    if key.source() == 0 && to.source() == 0 {
        to = to.with_source(quoted.replies.source());
    }
    if key.destination() == 0 && to.destination() == 0 {
        to = to.with_destination(quoted.replies.destination());
    }
    if quoted.has_ports && quoted.protocol != protocol::ICMP && key.ports == 0 && to.ports == 0 {
        to.ports = quoted.replies.ports;
    }
    to
}

/// Changes the destination of an error from `from` to `to`; returns false if it has another destination.
fn redirect(bytes: &mut [u8], from: u32, to: u32) -> bool {
    let Some(destination) = field::<4>(bytes, 16) else { return false };
    if *destination != from.to_be_bytes() {
        return false;
    }
    *destination = to.to_be_bytes();
    let mut delta = Delta::default();
    delta.note(&from.to_be_bytes(), &to.to_be_bytes());
    update(field(bytes, 10), delta.folded());
    true
}

/// Rewrites the packet that an error quotes; `to` is the flow that its replies become.
fn translate(icmp: &mut [u8], quoted: &Quoted, to: FlowId) -> Option<()> {
    let original = to.reversed();
    let mut all = Delta::default();
    let header = icmp.get_mut(quoted.header.clone())?;
    let mut addresses = Delta::default();
    addresses.exchange(field::<8>(header, 12)?, original.addresses.to_be_bytes());
    let sum = field(header, 10)?;
    let old = *sum;
    update(Some(&mut *sum), addresses.folded());
    all.note(&old, sum);
    all.add(addresses);
    if quoted.has_ports {
        let inner = icmp.get_mut(quoted.header.end..)?;
        let mut ports = Delta::default();
        let is_echo = quoted.protocol == protocol::ICMP;
        match is_echo {
            // The identifier determines both ports of a flow; see ICMPPingRewriter.
            true => ports.exchange(field::<2>(inner, 4)?, to.destination_port().to_be_bytes()),
            false => ports.exchange(field::<4>(inner, 0)?, original.ports.to_be_bytes()),
        }
        all.add(ports);
        let sum_at = match quoted.protocol {
            protocol::ICMP => Some(2),
            protocol::TCP => Some(16),
            protocol::UDP if field(inner, 6) != Some(&mut [0, 0]) => Some(6),
            _ => None,
        };
        // The checksum may be beyond the quoted bytes.
        if let Some(sum_at) = sum_at
            && let Some(sum) = field::<2>(inner, sum_at)
        {
            let old = *sum;
            if !is_echo {
                ports.add(addresses);
            }
            update(Some(sum), ports.folded());
            if is_echo {
                not_negative_zero(inner);
            }
            let new = field::<2>(inner, sum_at).map_or(old, |sum| *sum);
            all.note(&old, &new);
        }
    }
    update(field(icmp, 2), all.folded());
    Some(())
}

/// The change of a sum of words.
#[derive(Clone, Copy, Default)]
struct Delta(u64);

impl Delta {
    /// Adds the change of these words.
    fn note(&mut self, old: &[u8], new: &[u8]) {
        for (old, new) in old.as_chunks().0.iter().zip(new.as_chunks().0) {
            self.0 += u64::from(!u16::from_be_bytes(*old)) + u64::from(u16::from_be_bytes(*new));
        }
    }

    /// Replaces words, and adds the change.
    fn exchange<const N: usize>(&mut self, place: &mut [u8; N], new: [u8; N]) {
        self.note(&*place, &new);
        *place = new;
    }

    fn add(&mut self, other: Self) {
        self.0 += other.0;
    }

    fn folded(self) -> u16 {
        (self.0 % 0xffff) as u16
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_packets::ip::Datagram;

    proptest! {
        #[test]
        fn withstands_any_message(
            mut icmp: Vec<u8>, kind in 0u8..16, cut in 0usize..80, addresses: u64, ports: u32,
        ) {
            let quoted = Datagram { protocol: [1, 6, 17, 33, 47][usize::from(kind) % 5], ..Datagram::udp(&icmp) };
            let mut whole = [&[kind, 0, 0, 0, 0, 0, 0, 0], quoted.bytes().as_slice()].concat();
            whole.truncate(cut);
            for message in [&mut icmp, &mut whole] {
                let len = message.len();
                if let Ok(quoted) = Quoted::read(message) {
                    translate(message, &quoted, FlowId { addresses, ports });
                }
                prop_assert_eq!(message.len(), len);
            }
        }
    }
}
