//! GetIPAddress - copies an IP address from packet data to the destination annotation
//!
//! # Synopsis
//! `GetIPAddress(OFFSET [, ANNO, keyword IP])`
//!
//! # Description
//! Copies the four bytes at OFFSET, or the IP header's source or destination address, to the destination annotation.
//! Route lookups and ARPQuerier read this annotation to find out where the packet goes. OFFSET 16 is the destination of
//! a packet that starts with its IP header.
//!
//! # Arguments
//! - OFFSET: number of bytes before the address. Positional.
//! - ANNO: the annotation to set, by name or offset. Positional, default DST_IP.
//! - IP: `src` or `dst`, instead of OFFSET: the IP header's source or destination address. Keyword.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - truncated: the packet ends before the address does.
//! - header not set: with IP, the packet's network header is not set.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 401177d7 01000001 02000002>, LIMIT 10)
//!     -> GetIPAddress(16)
//!     -> Discard;
//! ```
//!
//! # See also
//! SetIPAddress, StoreIPAddress, CheckIPHeader

use millrace_core::args::Annotation;
use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct GetIpAddress {
    place: Place,
    annotation: usize,
}

/// Where the address is.
#[derive(Clone, Copy)]
pub enum Place {
    /// At an offset from the start of the data.
    Offset(u32),
    /// The IP header's source.
    Source,
    /// The IP header's destination.
    Destination,
}

register!(GetIpAddress, "get_ip_address.rs");

impl Element for GetIpAddress {
    const CLASS: Class = Class::new("GetIPAddress", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let offset: Option<u32> = args.optional("OFFSET");
        let Annotation(annotation) = args.positional("ANNO", Annotation::<4>(0));
        let ip: Option<String> = args.optional_keyword("IP");
        let place = match (offset, ip.as_deref()) {
            (Some(offset), None) => Place::Offset(offset),
            (None, Some("src")) => Place::Source,
            (None, Some("dst")) => Place::Destination,
            (None, Some(_)) => {
                args.error("IP", "bad IP");
                return Err(Failed);
            }
            _ => {
                args.error((), "set one of OFFSET, IP");
                return Err(Failed);
            }
        };
        args.complete()?;
        Ok(Self { place, annotation })
    }
}

impl PerPacket for GetIpAddress {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let (address, absent) = match self.place {
            Place::Offset(offset) => {
                let offset = offset as usize;
                let bytes = packet.data().get(offset..offset + 4).and_then(<[u8]>::first_chunk);
                (bytes.copied(), Reason::Truncated)
            }
            Place::Source => (packet.ipv4().map(|ip| ip.src), Reason::NoHeader),
            Place::Destination => (packet.ipv4().map(|ip| ip.dst), Reason::NoHeader),
        };
        let Some(address) = address else { return Way::drop(absent) };
        packet.set_anno_u32(self.annotation, u32::from_ne_bytes(address));
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};

    use crate::test_packets::ip::{Datagram, withstands};

    fn annotated(element: &str, packet: Packet) -> Packet {
        Rig::new(element, 1, 1).unwrap().push_packets(0, vec![packet]).remove(0).remove(0)
    }

    #[test]
    fn copies_the_address_from_the_configured_place() {
        let packet = || {
            let mut packet = Datagram::default().packet();
            packet.set_dst_ip(Ipv4Addr::UNSPECIFIED);
            packet
        };
        let (source, destination) = (Datagram::SOURCE, Datagram::DESTINATION);
        assert_eq!(annotated("GetIPAddress(16)", packet()).dst_ip(), destination);
        assert_eq!(annotated("GetIPAddress(OFFSET 12)", packet()).dst_ip(), source);
        assert_eq!(annotated("GetIPAddress(IP src)", packet()).dst_ip(), source);
        assert_eq!(annotated("GetIPAddress(IP dst)", packet()).dst_ip(), destination);
        let elsewhere = annotated("GetIPAddress(16, ANNO MISC_IP)", packet());
        assert_eq!(elsewhere.misc_ip(), destination);
        assert_eq!(elsewhere.dst_ip(), Ipv4Addr::UNSPECIFIED);
    }

    #[test]
    fn drops_packets_without_the_address() {
        let mut rig = Rig::new("GetIPAddress(16)", 1, 1).unwrap();
        rig.push(0, &[[0; 19]]);
        assert_eq!(rig.stats().drops, [(Reason::Truncated, 1)]);
        let mut rig = Rig::new("GetIPAddress(IP dst)", 1, 1).unwrap();
        rig.push(0, &[[0; 64]]);
        assert_eq!(rig.stats().drops, [(Reason::NoHeader, 1)]);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for arguments in ["", "16, IP src", "IP source", "16, PAINT", "16, 45", "-1"] {
            assert!(Rig::new(&format!("GetIPAddress({arguments})"), 1, 1).is_err(), "{arguments}");
        }
    }

    #[test]
    fn withstands_anything() {
        withstands("GetIPAddress(16)", 1);
        withstands("GetIPAddress(IP dst)", 1);
    }
}
