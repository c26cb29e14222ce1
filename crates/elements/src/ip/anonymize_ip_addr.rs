//! AnonymizeIPAddr - replaces IP addresses, keeping common prefixes
//!
//! # Synopsis
//! `AnonymizeIPAddr([keywords CLASS, PRESERVE_8])`
//!
//! # Description
//! Replaces the source and destination address of each packet by others, chosen at random, in such a way that
//! two addresses whose first N bits are the same become two others whose first N bits are the same. 0.0.0.0 and
//! 255.255.255.255 stay. The IP checksum is changed to fit, those of TCP and UDP are not. ICMP errors quote
//! a packet; its addresses are replaced as well.
//!
//! Each bit of an address is kept or turned as a keyed hash of the bits before it says; nothing is stored. The
//! method is that of J. Xu, J. Fan, M. Ammar and S. Moon, "Prefix-preserving IP address anonymization", ICNP 2002.
//! It is not proof against somebody who knows some of the traffic.
//!
//! # Arguments
//! - CLASS: how many leading ones of an address stay: 1 keeps class A apart, 2 class B too, 4 classes A to
//!   D; up to 32. Keyword, default 0.
//! - PRESERVE_8: first bytes, in one argument, whose networks stay: `18 10` keeps 18.0.0.0/8 and
//!   10.0.0.0/8. Keyword.
//!
//! # Ports
//! One agnostic input, one agnostic output; an optional push output for packets without an IP header.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - header not set: the IP header is not known, and output 1 is not connected.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, FORCE_IP true, STOP true) -> AnonymizeIPAddr(CLASS 4) -> ToDump(out.pcap);
//! ```
//!
//! # See also
//! EraseIPPayload, SetRandIPAddress

use std::hash::{BuildHasher, RandomState};
use std::net::Ipv4Addr;

use millrace_core::headers::{Header, IcmpHeader, Ipv4Header, icmp_type, protocol};
use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, checksum, register,
};

/// The element; its manual is at the top of the file.
pub struct AnonymizeIpAddr {
    map: Map,
}

/// The replacement of addresses.
#[derive(Debug)]
struct Map {
    class: u32,
    kept: Vec<u8>,
    /// SipHash with a key of its own.
    hash: RandomState,
}

register!(AnonymizeIpAddr, "anonymize_ip_addr.rs");

impl Element for AnonymizeIpAddr {
    const CLASS: Class = Class::new("AnonymizeIPAddr", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let class = args.in_range("CLASS", millrace_core::args::Kind::Keyword, 0..=32).unwrap_or(0);
        let list: Option<millrace_core::args::Raw> = args.optional_keyword("PRESERVE_8");
        let mut kept = Vec::new();
        for word in list.iter().flat_map(|list| list.0.split_whitespace()) {
            match word.parse() {
                Ok(network) => kept.push(network),
                Err(_) => {
                    let message = format!("bad 8-bit prefix ‘{word}’, should be between 0 and 255");
                    args.error("PRESERVE_8", message);
                }
            }
        }
        args.complete()?;
        Ok(Self { map: Map { class, kept, hash: RandomState::new() } })
    }
}

impl PerPacket for AnonymizeIpAddr {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        match self.map.replace(packet) {
            true => Way::ON,
            false => Way::output_or_drop(1, Reason::NoHeader),
        }
    }
}

impl Map {
    /// Replaces the addresses of a packet; false if it has none.
    fn replace(&self, packet: &mut View) -> bool {
        let Some((header, _)) = packet.network_data_mut().and_then(Ipv4Header::view_mut) else {
            return false;
        };
        self.replace_in(header);
        if header.protocol == protocol::ICMP && header.is_first_fragment() {
            self.replace_quoted(packet);
        }
        true
    }

    /// Replaces the addresses of a header; gives each address as it was and as it is now.
    fn replace_in(&self, header: &mut Ipv4Header) -> [(u32, u32); 2] {
        let old = [header.source().to_bits(), header.destination().to_bits()];
        let new = old.map(|address| self.of(address));
        let mut sum = header.checksum.get();
        for (old, new) in old.into_iter().zip(new) {
            sum = checksum::update_u32(sum, old, new);
        }
        header.checksum = sum.into();
        header.src = Ipv4Addr::from_bits(new[0]).octets();
        header.dst = Ipv4Addr::from_bits(new[1]).octets();
        [(old[0], new[0]), (old[1], new[1])]
    }

    /// Replaces the addresses of the packet that an ICMP error quotes.
    fn replace_quoted(&self, packet: &mut View) {
        let Some((icmp, quoted)) = packet.transport_data_mut().and_then(IcmpHeader::view_mut)
        else {
            return;
        };
        let is_error = matches!(
            icmp.kind,
            icmp_type::UNREACHABLE
                | icmp_type::SOURCE_QUENCH
                | icmp_type::REDIRECT
                | icmp_type::TIME_EXCEEDED
                | icmp_type::PARAMETER_PROBLEM
        );
        let Some((header, _)) = Ipv4Header::view_mut(quoted).filter(|_| is_error) else { return };
        let old_sum = header.checksum.get();
        let mut sum = icmp.checksum.get();
        for (old, new) in self.replace_in(header) {
            sum = checksum::update_u32(sum, old, new);
        }
        // The quoted header's own checksum is covered too.
        icmp.checksum = checksum::update(sum, old_sum, header.checksum.get()).into();
    }

    /// The address in place of another.
    fn of(&self, address: u32) -> u32 {
        const SPECIAL: [u32; 2] = [0, u32::MAX];
        let mut new = address;
        if !SPECIAL.contains(&address) {
            new = self.turned(new);
            // What would become one of these becomes what they would, lest two be the same.
            while SPECIAL.contains(&new) {
                new = self.turned(new);
            }
        }
        new
    }

    fn turned(&self, address: u32) -> u32 {
        (0..32).fold(0, |new, bit| {
            // The bits before this one, and their number: a 1 stands in front of them.
            let before = (1_u64 << 32 | u64::from(address)) >> (32 - bit);
            let turn = !self.keeps(address, bit) && self.hash.hash_one(before) & 1 == 1;
            new << 1 | ((address >> (31 - bit) & 1) ^ u32::from(turn))
        })
    }

    /// Whether a bit stays as it is, counted from the first.
    fn keeps(&self, address: u32, bit: u32) -> bool {
        let of_class = bit < self.class && address.leading_ones() >= bit;
        let before = |network: u8| (u32::from(network) << 24 ^ address).leading_zeros() >= bit;
        of_class || (bit < 8 && self.kept.iter().any(|network| before(*network)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::test_packets::Datagram;
    use proptest::prelude::*;

    fn map(class: u32, kept: &[u8]) -> Map {
        Map { class, kept: kept.to_vec(), hash: RandomState::new() }
    }

    proptest! {
        #[test]
        fn common_prefixes_stay_common(a: u32, b: u32, shared in 0_u32..32) {
            let mask = !(u32::MAX >> shared);
            let b = a & mask | b & !mask;
            let map = map(0, &[]);
            let common = |a: u32, b: u32| (a ^ b).leading_zeros();
            prop_assert_eq!(common(map.turned(a), map.turned(b)), common(a, b));
            prop_assert_eq!(map.of(a) == map.of(b), a == b);
        }

        #[test]
        fn what_is_to_stay_stays(a: u32, class in 0_u32..=32) {
            let new = map(class, &[18]).turned(a);
            prop_assert_eq!(new.leading_ones().min(class), a.leading_ones().min(class));
            prop_assert_eq!(new >> 24 == 18, a >> 24 == 18);
            prop_assert_eq!(new >> 24 == 19, a >> 24 == 19);
        }

        #[test]
        fn checksums_stay_right(src: u32, dst: u32) {
            let datagram = Datagram { source: src.into(), destination: dst.into(), ..Datagram::default() };
            let replace = |packet: &mut View| map(0, &[]).replace(packet);
            let (packet, replaced) = datagram.packet().with_view(replace);
            prop_assert!(replaced);
            prop_assert!(Ipv4Header::checksum_is_right(packet.network_data().unwrap()));
        }
    }

    #[test]
    fn the_first_and_the_last_address_stay() {
        let map = map(0, &[]);
        assert_eq!((map.of(0), map.of(u32::MAX)), (0, u32::MAX));
    }
}
