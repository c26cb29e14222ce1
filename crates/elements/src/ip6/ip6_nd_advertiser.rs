//! IP6NDAdvertiser - answers neighbour solicitations
//!
//! # Synopsis
//! `IP6NDAdvertiser(IP6[/MASK] [IP6/MASK...] ETH, ...)`
//!
//! # Description
//! Receives ICMPv6 neighbour solicitations with their Ethernet headers. If an entry covers the target address, replies
//! with a neighbour advertisement that carries the entry's ETH and the flags "router" and "solicited" (RFC 4861, 4.4).
//! The most specific entry wins; of equal ones, the first. All other packets are dropped.
//!
//! A solicitation without a source address comes from a host that wants to know whether the address that it chose is
//! in use (RFC 4862, 5.4). The answer to it goes to all nodes, without the flag "solicited" (RFC 4861, 7.2.4).
//!
//! # Arguments
//! - IP6/MASK... ETH: addresses or networks, and the Ethernet address to answer with. A name of both (AddressInfo) can
//!   replace them. Any number of such entries.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - truncated, bad length: the packet, or its payload length, is too short for a solicitation.
//! - unexpected: the packet is not a neighbour solicitation, or it was routed (its hop limit is not 255); or it has no
//!   source address, and was not sent to a solicited-node group or has a source link-layer address.
//! - bad checksum: the ICMPv6 checksum is wrong.
//! - bad option: the length of an option is wrong.
//! - no match: no entry covers the address.
//! - no buffer: there was no memory for an answer.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 86, LIMIT 1)
//!     -> IP6NDAdvertiser(2001:db8::/64 1:1:1:1:1:1)
//!     -> Discard;
//! ```
//!
//! # See also
//! IP6NDSolicitor, ARPResponder

use std::net::Ipv6Addr;

use millrace_core::args::{ArgText, Ipv6Network, Scope};
use millrace_core::headers::icmpv6_type;
use millrace_core::net::{EtherAddress, Ipv6Prefix};
use millrace_core::{Arg, Batch, Class, Context, Element, Failed, Packet, Reason, Setup, register};

use super::neighbor::{
    Ends, NeighborMessage, ROUTER, Received, SOLICITED, SOURCE_LINK_ADDRESS, TARGET_LINK_ADDRESS,
};

/// The element; its manual is at the top of the file.
pub struct Ip6NdAdvertiser {
    entries: Vec<(Ipv6Prefix, EtherAddress)>,
}

register!(Ip6NdAdvertiser, "ip6_nd_advertiser.rs");

/// The group of all nodes on the link (RFC 4291, 2.7.1; RFC 2464, 7).
const ALL_NODES: (Ipv6Addr, EtherAddress) =
    (Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), EtherAddress([0x33, 0x33, 0, 0, 0, 1]));
/// The first bytes of every solicited-node group.
const GROUP: [u8; 13] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff];

impl Element for Ip6NdAdvertiser {
    const CLASS: Class = Class::new("IP6NDAdvertiser", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let mut entries = Vec::new();
        for (number, text) in args.rest().iter().enumerate() {
            match entries_of(text, args.scope()) {
                Ok(new) => entries.extend(new),
                Err(message) => args.error(text, format!("argument {number} {message}")),
            }
        }
        args.complete()?;
        Ok(Self { entries })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        batch.map_filter(|packet| match self.answer(&packet) {
            Ok(mut answer) => {
                answer.set_timestamp(cx.now());
                Some(answer)
            }
            Err(reason) => cx.drop(packet, reason),
        });
    }
}

impl Ip6NdAdvertiser {
    fn answer(&self, packet: &Packet) -> Result<Packet, Reason> {
        let asked = Received::read(packet.data(), icmpv6_type::NEIGHBOR_SOLICITATION)?;
        let source = asked.ip.source();
        let is_anonymous = source.is_unspecified();
        let has_address = || asked.ether(SOURCE_LINK_ADDRESS).is_some();
        if is_anonymous && (!asked.ip.destination().octets().starts_with(&GROUP) || has_address()) {
            return Err(Reason::Unexpected);
        }
        let ether = self.find(asked.target).ok_or(Reason::NoMatch)?;
        let kind = icmpv6_type::NEIGHBOR_ADVERTISEMENT;
        let (flags, destination) = match is_anonymous {
            true => (ROUTER, ALL_NODES),
            false => (ROUTER | SOLICITED, (source, asked.frame.src)),
        };
        let reply = NeighborMessage::new(kind, flags, asked.target, (TARGET_LINK_ADDRESS, ether));
        let ends = Ends { source: (asked.target, ether), destination };
        reply.in_frame(&ends).ok_or(Reason::NoBuffer)
    }

    /// The first of the most specific entries.
    fn find(&self, address: Ipv6Addr) -> Option<EtherAddress> {
        let covering = self.entries.iter().rev().filter(|(prefix, _)| prefix.contains(address));
        covering.max_by_key(|(prefix, _)| prefix.length()).map(|&(_, ether)| ether)
    }
}

/// The entries of one argument: networks, each with the Ethernet address. A word that can be either is a network.
fn entries_of(
    text: &ArgText,
    scope: &Scope<'_>,
) -> Result<Vec<(Ipv6Prefix, EtherAddress)>, &'static str> {
    let words = text.words();
    let mut prefixes = Vec::new();
    let mut ether = None;
    for word in &words {
        if let Ok(Ipv6Network(prefix)) = Ipv6Network::parse(word, scope) {
            prefixes.push(prefix.truncated());
        } else if let Ok(address) = EtherAddress::parse(word, scope) {
            if ether.replace(address).is_some() {
                return Err("has more than one Ethernet address");
            }
        } else {
            return Err("should be ‘IP6/MASK ETHADDR’");
        }
    }
    if prefixes.is_empty() {
        return Err("had no IP6 address and masks");
    }
    // A name can be that of both.
    let mut named = words.iter().filter_map(|word| EtherAddress::parse(word, scope).ok());
    let ether = ether.or_else(|| named.next()).ok_or("had no Ethernet address")?;
    Ok(prefixes.into_iter().map(|prefix| (prefix, ether)).collect())
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    use crate::test_packets::ip6::withstands;

    /// A solicitation from 2001:db8::9 at 9:9:9:9:9:9; etherparse computes its checksum.
    fn solicitation(target: &str) -> Vec<u8> {
        let target: std::net::Ipv6Addr = target.parse().unwrap();
        let mut body = vec![0; 4];
        body.extend(target.octets());
        body.extend([1, 1, 9, 9, 9, 9, 9, 9]);
        let source: std::net::Ipv6Addr = "2001:db8::9".parse().unwrap();
        let group: std::net::Ipv6Addr = "ff02::1:ff00:1".parse().unwrap();
        let builder = etherparse::PacketBuilder::ethernet2([9; 6], [0x33, 0x33, 0xff, 0, 0, 1])
            .ipv6(source.octets(), group.octets(), 255)
            .icmpv6_raw(135, 0, [0; 4]);
        let mut frame = Vec::new();
        builder.write(&mut frame, &body[4..]).unwrap();
        frame
    }

    #[test]
    fn only_covered_addresses_are_answered() {
        let config = "IP6NDAdvertiser(2001:db8::/32 2:2:2:2:2:2, 2001:db8::1 1:1:1:1:1:1)";
        let mut rig = Rig::new(config, 1, 1).unwrap();
        let asked = ["2001:db8::1", "2001:db8::2", "2001:db9::1"].map(solicitation);
        let out = rig.push(0, &asked);
        assert_eq!(out[0].len(), 2);
        for (reply, (ether, target)) in
            out[0].iter().zip([(1u8, "2001:db8::1"), (2, "2001:db8::2")])
        {
            let target: std::net::Ipv6Addr = target.parse().unwrap();
            assert_eq!(reply[..14], [&[9; 6][..], &[ether; 6], &[0x86, 0xdd]].concat());
            let (ip, payload) = etherparse::Ipv6Header::from_slice(&reply[14..]).unwrap();
            assert_eq!((ip.hop_limit, ip.next_header.0, ip.payload_length), (255, 58, 32));
            assert_eq!((ip.source, ip.destination[15]), (target.octets(), 9));
            let icmp = etherparse::Icmpv6Slice::from_slice(payload).unwrap();
            assert!(icmp.is_checksum_valid(ip.source, ip.destination));
            assert_eq!((payload[0], payload[1], payload[4]), (136, 0, 0xc0));
            assert_eq!(payload[8..24], target.octets());
            assert_eq!(payload[24..], [2, 1, ether, ether, ether, ether, ether, ether]);
        }
        assert_eq!(rig.stats().drops, [(Reason::NoMatch, 1)]);
    }

    #[test]
    fn routed_or_damaged_solicitations_are_dropped() {
        let mut rig = Rig::new("IP6NDAdvertiser(2001:db8::/32 2:2:2:2:2:2)", 1, 1).unwrap();
        let sound = solicitation("2001:db8::1");
        let edited = |at: usize| {
            let mut frame = sound.clone();
            frame[at] ^= 1;
            frame
        };
        let out = rig.push(0, &[edited(21), edited(54), edited(70), sound[..85].to_vec()]);
        assert!(out[0].is_empty());
        let drops = [(Reason::Truncated, 1), (Reason::BadChecksum, 1), (Reason::Unexpected, 2)];
        assert_eq!(rig.stats().drops, drops);
        for wrong in [
            "1:1:1:1:1:1",
            "2001:db8::1",
            "2001:db8::1 1:1:1:1:1:1 2:2:2:2:2:2",
            "10.0.0.1 1:1:1:1:1:1",
        ] {
            assert!(Rig::new(&format!("IP6NDAdvertiser({wrong})"), 1, 1).is_err());
        }
    }

    #[test]
    fn withstands_anything() {
        withstands("IP6NDAdvertiser(::/0 1:1:1:1:1:1)", 1);
    }
}
