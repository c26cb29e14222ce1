//! AnonymizeIPAddr - replaces IP addresses with random ones, preserving common prefixes
//!
//! # Synopsis
//! `AnonymizeIPAddr([keywords CLASS, PRESERVE_8])`
//!
//! # Description
//! Replaces the source and destination address of each packet with random addresses such that two addresses with the
//! same first N bits map to addresses with the same first N bits. 0.0.0.0 and 255.255.255.255 do not change. The IP
//! checksum is updated; TCP and UDP checksums are not. In ICMP errors, the addresses of the quoted packet are replaced
//! too.
//!
//! A keyed hash of the preceding bits decides whether each bit of an address is kept or inverted; no mappings are
//! stored. The method is that of J. Xu, J. Fan, M. Ammar and S. Moon, "Prefix-preserving IP address anonymization",
//! ICNP 2002. It does not protect against an attacker who knows some of the traffic.
//!
//! # Arguments
//! - CLASS: how many leading 1 bits of an address to preserve, 0 to 32: 1 preserves class A, 2 class B too, 4 classes A
//!   to D. Keyword, default 0.
//! - PRESERVE_8: /8 networks to preserve, as a list of first bytes separated by spaces: `18 10` preserves 18.0.0.0/8
//!   and 10.0.0.0/8. Keyword.
//!
//! # Ports
//! One agnostic input, one agnostic output; an optional push output 1 for packets without an IP header.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - header not set: the packet's network header is not set, and output 1 is not connected.
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
    /// SipHash with its own random key.
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
    /// Replaces the addresses of a packet; returns false if it has none.
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

    /// Replaces the addresses of a header; returns each address before and after.
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
        // The ICMP checksum also covers the quoted header's checksum.
        icmp.checksum = checksum::update(sum, old_sum, header.checksum.get()).into();
    }

    /// The replacement of an address.
    fn of(&self, address: u32) -> u32 {
        const SPECIAL: [u32; 2] = [0, u32::MAX];
        let mut new = address;
        if !SPECIAL.contains(&address) {
            new = self.turned(new);
            // An address that would become a special one gets that one's replacement, so that no two addresses become
            // the same.
            while SPECIAL.contains(&new) {
                new = self.turned(new);
            }
        }
        new
    }

    fn turned(&self, address: u32) -> u32 {
        (0..32).fold(0, |new, bit| {
            // The preceding bits and their number: a 1 marks where they begin.
            let before = (1_u64 << 32 | u64::from(address)) >> (32 - bit);
            let turn = !self.keeps(address, bit) && self.hash.hash_one(before) & 1 == 1;
            new << 1 | ((address >> (31 - bit) & 1) ^ u32::from(turn))
        })
    }

    /// Whether a bit is preserved; bits are counted from the first.
    fn keeps(&self, address: u32, bit: u32) -> bool {
        let of_class = bit < self.class && address.leading_ones() >= bit;
        let before = |network: u8| (u32::from(network) << 24 ^ address).leading_zeros() >= bit;
        of_class || (bit < 8 && self.kept.iter().any(|network| before(*network)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_packets::ip::Datagram;
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
        fn preserved_classes_and_networks_do_not_change(a: u32, class in 0_u32..=32) {
            let new = map(class, &[18]).turned(a);
            prop_assert_eq!(new.leading_ones().min(class), a.leading_ones().min(class));
            prop_assert_eq!(new >> 24 == 18, a >> 24 == 18);
            prop_assert_eq!(new >> 24 == 19, a >> 24 == 19);
        }

        #[test]
        fn checksums_stay_correct(src: u32, dst: u32) {
            let datagram = Datagram { source: src.into(), destination: dst.into(), ..Datagram::default() };
            let replace = |packet: &mut View| map(0, &[]).replace(packet);
            let (packet, replaced) = datagram.packet().with_view(replace);
            prop_assert!(replaced);
            prop_assert!(checksum::verify(&packet.network_data().unwrap()[..20]));
        }
    }

    #[test]
    fn the_first_and_the_last_address_do_not_change() {
        let map = map(0, &[]);
        assert_eq!((map.of(0), map.of(u32::MAX)), (0, u32::MAX));
    }
}
