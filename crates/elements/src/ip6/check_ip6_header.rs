//! CheckIP6Header - drops packets that lack a valid IPv6 header
//!
//! # Synopsis
//! `CheckIP6Header([BADADDRS, OFFSET])`
//!
//! # Description
//! Checks that each packet has a valid IPv6 header OFFSET bytes from its start: the version is 6, the packet holds the
//! whole payload that the header announces, and the source address is neither a multicast address (RFC 4291, 2.7) nor
//! one of BADADDRS. `::` is a valid source on a link but not through a router (RFC 4291, 2.5.2), so a router should
//! list it in BADADDRS.
//!
//! For valid packets, sets the network and transport header positions and cuts off what follows the payload, such as
//! the padding of short Ethernet frames. Does not set the destination annotation; GetIP6Address does.
//!
//! A message is printed for the first bad packet.
//!
//! # Arguments
//! - BADADDRS: source addresses to refuse, separated by spaces. Positional or keyword, default none.
//! - OFFSET: bytes before the IPv6 header. Positional or keyword, default 0.
//!
//! # Ports
//! One agnostic input. Output 0, agnostic: valid packets. Output 1, push, optional: bad packets, unchanged.
//!
//! # Handlers
//! - `count` (read): valid packets.
//! - `drops` (read): bad packets, dropped or sent to output 1.
//!
//! # Drops
//! Without output 1:
//! - truncated: the packet is too short for an IPv6 header.
//! - bad version: not IP version 6.
//! - bad length: the payload length exceeds the packet.
//! - bad source address: a multicast address, or one of BADADDRS.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<6000000000001140 20010db8000000000000000000000001
//!                       20010db8000100000000000000000002>, LIMIT 10)
//!     -> CheckIP6Header(:: ::1)
//!     -> Discard;
//! ```
//!
//! # See also
//! MarkIP6Header, GetIP6Address, CheckIPHeader

use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millrace_core::headers::{Header, Ipv6Header};
use millrace_core::{
    Class, Context, Count, Element, Failed, Handlers, Moment, Packet, PerPacket, PerThread, Reason,
    Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct CheckIp6Header {
    name: String,
    offset: usize,
    bad_sources: Vec<[u8; 16]>,
    bad: PerThread<Count>,
    reported: AtomicBool,
}

register!(CheckIp6Header, "check_ip6_header.rs");

impl Element for CheckIp6Header {
    const CLASS: Class = Class::new("CheckIP6Header", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let name = setup.name().to_owned();
        let bad_sources: Vec<Ipv6Addr> = setup.args.positional("BADADDRS", Vec::new());
        let offset: u32 = setup.args.positional("OFFSET", 0);
        setup.args.complete()?;
        Ok(Self {
            name,
            offset: offset as usize,
            bad_sources: bad_sources.iter().map(Ipv6Addr::octets).collect(),
            bad: PerThread::default(),
            reported: AtomicBool::new(false),
        })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        // Every packet received, less the bad ones.
        handlers.read("count", |element, call| {
            let received = call.router().stats_of(call.element()).received;
            received.saturating_sub(element.bad.total())
        });
        handlers.read("drops", |element, _| element.bad.total());
    }
}

impl PerPacket for CheckIp6Header {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        match self.check(packet) {
            Ok(()) => Way::ON,
            Err(fault) => Way::output_or_drop(1, fault),
        }
    }

    fn aside(&self, cx: &mut Context, (): &mut (), packet: Packet, way: Way) -> Option<Packet> {
        if !self.reported.swap(true, Relaxed) {
            let fault = way.reason();
            cx.router().chatter(&format!("{}: IPv6 header check failed: {fault}", self.name));
        }
        self.bad.mine(cx).add(1);
        cx.send_or_drop(packet, way)
    }
}

impl CheckIp6Header {
    /// Checks a packet, sets its header positions and cuts off what follows the payload.
    #[inline(always)]
    fn check(&self, packet: &mut View) -> Result<(), Reason> {
        let data = packet.data().get(self.offset..).unwrap_or_default();
        let Some((ip, payload)) = Ipv6Header::view(data) else { return Err(Reason::Truncated) };
        if ip.version() != 6 {
            return Err(Reason::BadVersion);
        }
        let payload_len = usize::from(ip.payload_len.get());
        if payload_len > payload.len() {
            return Err(Reason::BadLength);
        }
        if ip.src[0] == MULTICAST || self.bad_sources.contains(&ip.src) {
            return Err(Reason::BadSource);
        }
        packet.truncate(self.offset + Ipv6Header::LEN + payload_len);
        packet.set_network_header(self.offset as isize, Ipv6Header::LEN);
        Ok(())
    }
}

/// The first byte of multicast addresses (RFC 4291, 2.4).
const MULTICAST: u8 = 0xff;

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};
    use proptest::prelude::*;

    use crate::test_packets::ip6::{Datagram, withstands};

    /// The reason that a packet is dropped for; `None` if it passes.
    fn fate(element: &str, bytes: &[u8]) -> Option<Reason> {
        let mut rig = Rig::new(element, 1, 1).unwrap();
        let passed = rig.push(0, &[bytes])[0].len();
        let drops = rig.stats().drops;
        assert_eq!(passed + drops.len(), 1);
        drops.first().map(|drop| drop.0)
    }

    #[test]
    fn a_valid_packet_is_marked_and_trimmed() {
        let datagram = Datagram::default().bytes();
        let frame = [&[0; 14], datagram.as_slice(), &[0; 9]].concat();
        for element in ["CheckIP6Header(, 14)", "CheckIP6Header(OFFSET 14)"] {
            let mut rig = Rig::new(element, 1, 1).unwrap();
            let out = rig.push_packets(0, vec![Packet::from_bytes(&frame).unwrap()]);
            let packet = &out[0][0];
            assert_eq!(packet.network_data(), Some(datagram.as_slice()));
            assert_eq!(packet.transport_offset(), Some(54));
            assert_eq!(rig.read("count").unwrap(), "1");
            assert_eq!(rig.read("drops").unwrap(), "0");
        }
    }

    #[test]
    fn each_fault_has_its_reason() {
        let sound = Datagram::default().bytes();
        let edited = |at: usize, byte: u8| {
            let mut bytes = sound.clone();
            bytes[at] = byte;
            bytes
        };
        let beyond = sound.len() as u8 - 40 + 1;
        for (bytes, reason) in [
            (sound.clone(), None),
            (sound[..39].to_vec(), Some(Reason::Truncated)),
            (sound[..40].to_vec(), Some(Reason::BadLength)),
            (Vec::new(), Some(Reason::Truncated)),
            (edited(0, 0x45), Some(Reason::BadVersion)),
            (edited(5, beyond), Some(Reason::BadLength)),
            (edited(5, 0), None),
            (edited(8, 0xff), Some(Reason::BadSource)),
        ] {
            assert_eq!(fate("CheckIP6Header", &bytes), reason, "{bytes:02x?}");
        }
    }

    #[test]
    fn configured_sources_are_refused() {
        let from = |source: &str| {
            Datagram { source: source.parse().unwrap(), ..Datagram::default() }.bytes()
        };
        let listed = "CheckIP6Header(:: 2001:db8::bad)";
        for bad in ["::", "2001:db8::bad", "ff02::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"] {
            assert_eq!(fate(listed, &from(bad)), Some(Reason::BadSource), "{bad}");
        }
        assert_eq!(fate(listed, &from("::1")), None);
        assert_eq!(fate("CheckIP6Header", &from("::")), None);
        assert_eq!(fate("CheckIP6Header(BADADDRS ::1)", &from("::1")), Some(Reason::BadSource));
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for arguments in ["14", "10.0.0.1", "::1, -1", "::1, 2, 3", "OFFSETS 3"] {
            let element = format!("CheckIP6Header({arguments})");
            assert!(Rig::new(&element, 1, 1).is_err(), "{element}");
        }
    }

    #[test]
    fn bad_packets_go_to_output_1() {
        let mut rig = Rig::new("CheckIP6Header", 1, 2).unwrap();
        let sound = Datagram::default().bytes();
        let out = rig.push(0, &[&b"bad"[..], &sound, &[0; 40]]);
        assert_eq!(out, [vec![sound], vec![b"bad".to_vec(), vec![0; 40]]]);
        assert_eq!(rig.stats().dropped(), 0);
        assert_eq!(rig.read("drops").unwrap(), "2");
    }

    /// Etherparse, an independent parser, accepts the same packets.
    #[test]
    fn agrees_with_etherparse() {
        let rig = RefCell::new(Rig::new("CheckIP6Header", 1, 1).unwrap());
        let edits = prop::collection::vec((0usize..8, any::<u8>()), 0..3);
        proptest!(|(edits in edits, cut in 0usize..60)| {
            let mut bytes = Datagram::default().bytes();
            edits.into_iter().for_each(|(at, byte)| bytes[at] = byte);
            bytes.truncate(bytes.len() - cut.min(bytes.len()));
            let oracle = etherparse::Ipv6Header::from_slice(&bytes)
                .ok()
                .filter(|(header, payload)| usize::from(header.payload_length) <= payload.len())
                .map(|(header, _)| 40 + usize::from(header.payload_length));
            let out = rig.borrow_mut().push(0, &[bytes]);
            prop_assert_eq!(out[0].first().map(Vec::len), oracle);
        });
    }

    #[test]
    fn withstands_anything() {
        withstands("CheckIP6Header(::)", 1);
        withstands("CheckIP6Header(, 3)", 2);
    }
}
