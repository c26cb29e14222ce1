//! ICMPError - generates ICMP error messages in reply to packets
//!
//! # Synopsis
//! `ICMPError(SRC, TYPE [, CODE, BADADDRS, keyword MTU, PMTU, USE_FIX_ANNO])`
//!
//! # Description
//! Turns each IP packet into an ICMP error message to the packet's sender. The message has source address SRC, the
//! given type and code, and as much of the packet, from its IP header on, as fits in MTU. Its destination annotation is
//! set to its destination. Its "fix IP source" annotation makes FixIPSrc replace SRC with the address of the outgoing
//! interface. Connect ICMPError to the error outputs of elements such as DecIPTTL, before the route lookup, possibly
//! behind a rate limit.
//!
//! As RFC 1812, 4.3.2.7 requires, no error is sent in reply to ICMP errors, to packets to broadcast or multicast
//! addresses, to packets received as link-level broadcasts or multicasts, to fragments other than the first, or to
//! packets whose source address does not identify a single host: 0.0.0.0/8, 127.0.0.0/8, multicast, class E, or one of
//! BADADDRS.
//!
//! - A parameter problem with code 0 (`erroratptr`) points to the byte in the packet's ICMP parameter problem
//!   annotation, which IPGWOptions sets.
//! - A redirect reports the packet's destination annotation as the better gateway. No redirect is sent for a packet
//!   with a source route. RFC 1812 allows code 1 (`host`) only.
//! - Unreachable with code 4 (`needfrag`) reports PMTU (RFC 1191).
//!
//! The error for a packet with a source route has a source route too: the routers that the packet passed, in reverse.
//! It has none if the error is about the source route itself (RFC 1812, 4.3.2.6).
//!
//! # Arguments
//! - SRC: source address of the errors. Positional, mandatory.
//! - TYPE: ICMP type by number or name: `unreachable` (3), `sourcequench` (4), `redirect` (5),
//!   `timeexceeded` (11) or `parameterproblem` (12). Positional, mandatory.
//! - CODE: ICMP code by number or name. For `unreachable`: `net` (0), `host` (1), `protocol` (2), `port` (3),
//!   `needfrag` (4) and others; for `redirect`: `net` (0), `host` (1); for `timeexceeded`: `transit` (0), `reassembly`
//!   (1); for `parameterproblem`: `erroratptr` (0), `missingopt` (1), `length` (2). Positional, default 0.
//! - BADADDRS: addresses, separated by spaces, that do not identify a single host, such as the networks' broadcast
//!   addresses. No errors are sent for packets from or to them. Positional, default none.
//! - MTU: maximum length of an error in bytes, 28 to 65535. Keyword, default 576 (RFC 1812, 4.3.2.3).
//! - PMTU: the next hop's MTU, reported in `unreachable, needfrag` errors; 0 for unknown. Keyword, default 0.
//! - USE_FIX_ANNO: whether to set the "fix IP source" annotation. SET_FIX_ANNO is a synonym. Keyword, default true.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `src` (read, write): SRC.
//! - `mtu` (read, write): MTU.
//! - `pmtu` (read, write): PMTU.
//!
//! # Drops
//! - no reply due: no error may be sent for the packet.
//! - header not set: the packet's network header is not set.
//! - no buffer: there was no memory for the error.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 0111b6d7 01000001 02000002>, LIMIT 10)
//!     -> CheckIPHeader
//!     -> hop :: DecIPTTL
//!     -> Discard;
//! hop[1] -> ICMPError(18.26.4.24, timeexceeded, BADADDRS 18.26.4.255) -> Discard;
//! ```
//!
//! # See also
//! DecIPTTL, FixIPSrc, IPGWOptions, IPFragmenter

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering::Relaxed};

use millrace_core::args::{Kind, Raw};
use millrace_core::checksum::checksum;
use millrace_core::headers::{
    Header, HeaderOption, IcmpHeader, Ipv4Header, Options, icmp_type, ipv4_option, protocol,
};
use millrace_core::memory::DEFAULT_HEADROOM;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Packet, PacketType, Reason, Setup, register,
};

use super::type_and_code::{is_error, read_code, read_type};

/// The element; its manual is at the top of the file.
pub struct IcmpError {
    source: AtomicU32,
    icmp_type: u8,
    code: u8,
    bad_addresses: Vec<Ipv4Addr>,
    mtu: AtomicU16,
    path_mtu: AtomicU16,
    use_fix_anno: bool,
}

register!(IcmpError, "icmp_error.rs");

impl Element for IcmpError {
    const CLASS: Class = Class::new("ICMPError", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let source: Ipv4Addr = args.mandatory("SRC");
        let icmp_type = read_type(args);
        let code = match icmp_type {
            Some(icmp_type) => read_code(args, icmp_type, WRONG_CODE),
            // The code cannot be interpreted without a valid type.
            None => args.optional("CODE").map_or(0, |Raw(_)| 0),
        };
        let bad_addresses = args.positional("BADADDRS", Vec::new());
        let mtu = args.in_range("MTU", Kind::Keyword, MTU_RANGE).unwrap_or(576);
        let path_mtu = args.keyword("PMTU", 0);
        let use_fix_anno = args.keyword("USE_FIX_ANNO", true);
        let use_fix_anno = args.keyword("SET_FIX_ANNO", use_fix_anno);
        if let Some(icmp_type) = icmp_type.filter(|&icmp_type| !is_error(icmp_type)) {
            args.error("TYPE", format!("ICMP type {icmp_type} is not an error type"));
        }
        args.complete()?;
        Ok(Self {
            source: source.to_bits().into(),
            icmp_type: icmp_type.unwrap_or_default(),
            code,
            bad_addresses,
            mtu: AtomicU16::new(mtu),
            path_mtu: AtomicU16::new(path_mtu),
            use_fix_anno,
        })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        batch.map_filter(|packet| match self.answer(cx, &packet) {
            Ok(answer) => Some(answer),
            Err(reason) => cx.drop(packet, reason),
        });
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("src", |element, _| Ipv4Addr::from_bits(element.source.load(Relaxed)));
        handlers.write("src", |element, call| {
            element.source.store(call.parse::<Ipv4Addr>()?.to_bits(), Relaxed);
            Ok(())
        });
        handlers.read("mtu", |element, _| element.mtu.load(Relaxed));
        handlers.write("mtu", |element, call| {
            let mtu = call.parse()?;
            if !MTU_RANGE.contains(&mtu) {
                return Err(format!("out of range, bound {}", MTU_RANGE.start()).into());
            }
            element.mtu.store(mtu, Relaxed);
            Ok(())
        });
        handlers.read("pmtu", |element, _| element.path_mtu.load(Relaxed));
        handlers.write("pmtu", |element, call| {
            element.path_mtu.store(call.parse()?, Relaxed);
            Ok(())
        });
    }
}

/// Building the error for one packet.
impl IcmpError {
    fn answer(&self, cx: &Context, packet: &Packet) -> Result<Packet, Reason> {
        let bytes = packet.network_data().ok_or(Reason::NoHeader)?;
        let (ip, behind) = Ipv4Header::view(bytes).ok_or(Reason::NoHeader)?;
        if !self.deserves_answer(packet, ip, bytes) {
            return Err(Reason::NoReply);
        }
        let options = behind.get(..ip.header_len().saturating_sub(Ipv4Header::LEN));
        let route = source_route(options.unwrap_or_default());
        if route.is_some() && self.icmp_type == icmp_type::REDIRECT {
            // RFC 1812, 5.2.7.2.
            return Err(Reason::NoReply);
        }
        let route = route.filter(|route| !self.complains_of(route, packet.icmp_param_prob()));
        let route = route.map(|route| reversed(&route)).unwrap_or_default();

        let header_len = Ipv4Header::LEN + route.len();
        let room = usize::from(self.mtu.load(Relaxed)).saturating_sub(header_len + IcmpHeader::LEN);
        let quoted = bytes.get(..room).unwrap_or(bytes);
        let icmp = IcmpHeader {
            kind: self.icmp_type,
            code: self.code,
            checksum: 0.into(),
            rest: self.particulars(packet),
        };
        let mut answer =
            Packet::stale(DEFAULT_HEADROOM, header_len + IcmpHeader::LEN + quoted.len(), 0)
                .ok_or(Reason::NoBuffer)?;
        self.write_ip(answer.data_mut(), ip.src, &route);
        answer.set_network_header(0, header_len);
        write_icmp(answer.transport_data_mut().unwrap_or_default(), icmp, quoted);
        answer.set_dst_ip(ip.source());
        answer.set_fix_ip_src(self.use_fix_anno);
        answer.set_timestamp(cx.now());
        Ok(answer)
    }

    /// RFC 1812, 4.3.2.7.
    fn deserves_answer(&self, packet: &Packet, ip: &Ipv4Header, bytes: &[u8]) -> bool {
        let answers_error = ip.protocol == protocol::ICMP
            && bytes.get(ip.header_len()).is_none_or(|&icmp_type| is_error(icmp_type));
        let by_broadcast =
            matches!(packet.packet_type(), PacketType::Broadcast | PacketType::Multicast);
        !answers_error
            && !by_broadcast
            && ip.is_first_fragment()
            && self.is_unicast(ip.destination())
            && self.is_host(ip.source())
    }

    fn is_unicast(&self, address: Ipv4Addr) -> bool {
        !address.is_broadcast() && !address.is_multicast() && !self.bad_addresses.contains(&address)
    }

    /// Whether a packet may come from this address (RFC 1812, 5.3.7 and 4.2.2.11).
    fn is_host(&self, address: Ipv4Addr) -> bool {
        let [net, ..] = address.octets();
        self.is_unicast(address) && net != 0 && net != 127 && net < 240
    }

    /// Whether the error points into this source route as a wrong option.
    fn complains_of(&self, route: &HeaderOption<'_>, pointer: u8) -> bool {
        let start = Ipv4Header::LEN + route.offset;
        let range = start..start + route.bytes.len();
        (self.icmp_type, self.code) == PARAMETER_PROBLEM_AT_POINTER
            && range.contains(&usize::from(pointer))
    }

    /// The four bytes after the ICMP checksum.
    fn particulars(&self, packet: &Packet) -> [u8; 4] {
        match (self.icmp_type, self.code) {
            PARAMETER_PROBLEM_AT_POINTER => [packet.icmp_param_prob(), 0, 0, 0],
            (icmp_type::REDIRECT, _) => packet.dst_ip().octets(),
            FRAGMENTATION_NEEDED => {
                let [high, low] = self.path_mtu.load(Relaxed).to_be_bytes();
                [0, 0, high, low]
            }
            _ => [0; 4],
        }
    }

    /// Writes the IP header of an error message into `bytes`, which has the length of the message.
    fn write_ip(&self, bytes: &mut [u8], destination: [u8; 4], options: &[u8]) {
        // At most the MTU, which is a u16.
        let len = bytes.len() as u16;
        let Some((ip, rest)) = Ipv4Header::view_mut(bytes) else { return };
        *ip = Ipv4Header {
            version_ihl: 0,
            tos: 0,
            total_len: len.into(),
            id: NEXT_ID.fetch_add(1, Relaxed).into(),
            flags_fragment: 0.into(),
            ttl: TTL,
            protocol: protocol::ICMP,
            checksum: 0.into(),
            src: self.source.load(Relaxed).to_be_bytes(),
            dst: destination,
        };
        ip.set_header_len(Ipv4Header::LEN + options.len());
        if let Some(area) = rest.get_mut(..options.len()) {
            area.copy_from_slice(options);
        }
        Ipv4Header::fill_checksum(bytes);
    }
}

/// The minimum (both headers) and the maximum of MTU.
const MTU_RANGE: RangeInclusive<u16> = 28..=u16::MAX;

/// Click's message.
const WRONG_CODE: &str = "argument 2 takes ICMP code (integer between 0 and 255)";

/// The next identification: one counter for all elements, as in Click.
static NEXT_ID: AtomicU16 = AtomicU16::new(1);

/// The time to live of errors, as in Click.
const TTL: u8 = 200;

/// Type and code of errors that point to a byte of the packet.
const PARAMETER_PROBLEM_AT_POINTER: (u8, u8) = (icmp_type::PARAMETER_PROBLEM, 0);

/// Type and code of errors that report the next hop's MTU.
const FRAGMENTATION_NEEDED: (u8, u8) = (icmp_type::UNREACHABLE, 4);

/// The offset of a source route's pointer: the number of the byte where the next address begins, counted from 1.
const POINTER: usize = 2;

/// The offset of the first address of a source route.
const ROUTE_START: usize = 3;

/// The first source route among the options that has a valid pointer.
fn source_route(options: &[u8]) -> Option<HeaderOption<'_>> {
    Options::new(options).map_while(Result::ok).find(|option| {
        let pointer = option.bytes.get(POINTER).copied().map_or(0, usize::from);
        matches!(option.kind, ipv4_option::LOOSE_SOURCE_ROUTE | ipv4_option::STRICT_SOURCE_ROUTE)
            && pointer > ROUTE_START
            && pointer.is_multiple_of(4)
            && pointer <= option.bytes.len() + 1
    })
}

/// The route that a packet has taken so far, as an option for the way back, padded to a multiple of 4 bytes.
fn reversed(route: &HeaderOption<'_>) -> Vec<u8> {
    let pointer = route.bytes.get(POINTER).copied().unwrap_or(0);
    let len = pointer.saturating_sub(1);
    let passed = route.bytes.get(ROUTE_START..usize::from(len)).unwrap_or_default();
    let mut option = vec![route.kind, len, ROUTE_START as u8 + 1];
    option.extend(passed.rchunks(4).flatten());
    option.push(ipv4_option::END);
    option
}

/// Writes an ICMP message with its checksum.
fn write_icmp(bytes: &mut [u8], header: IcmpHeader, quoted: &[u8]) {
    let Some((icmp, data)) = IcmpHeader::view_mut(bytes) else { return };
    *icmp = header;
    data.iter_mut().zip(quoted).for_each(|(byte, quoted)| *byte = *quoted);
    let sum = checksum(bytes);
    if let Some((icmp, _)) = IcmpHeader::view_mut(bytes) {
        icmp.checksum.set(sum);
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, PacketType, Reason, Timestamp};
    use proptest::prelude::*;

    use crate::test_packets::ip::{Datagram, has_right_transport_checksum, read, withstands};

    /// The error for a packet: type and code, the four bytes after the checksum, and the quoted bytes.
    fn answer(element: &str, packet: Packet) -> ([u8; 2], [u8; 4], Vec<u8>) {
        let out = Rig::new(element, 1, 1).unwrap().push_packets(0, vec![packet]);
        assert!(has_right_transport_checksum(out[0][0].data()));
        let (_, icmp) = read(out[0][0].data());
        ([icmp[0], icmp[1]], icmp[4..8].try_into().unwrap(), icmp[8..].to_vec())
    }

    fn is_answered(element: &str, packet: Packet) -> bool {
        let mut rig = Rig::new(element, 1, 1).unwrap();
        let answered = rig.push_packets(0, vec![packet])[0].len() == 1;
        assert!(answered || rig.stats().drops == [(Reason::NoReply, 1)]);
        answered
    }

    #[test]
    fn errors_go_to_the_sender() {
        let datagram = Datagram::udp(&[7; 600]);
        let mut rig = Rig::new("ICMPError(19.19.19.19, timeexceeded)", 1, 1).unwrap();
        let out = rig.push_packets(0, vec![datagram.packet(), datagram.packet()]).remove(0);
        let mut ids = Vec::new();
        for packet in &out {
            let (ip, icmp) = read(packet.data());
            assert_eq!((ip.source, ip.destination), ([19; 4], [1, 0, 0, 1]));
            assert_eq!(ip.time_to_live, 200);
            ids.push(ip.identification);
            assert_eq!(icmp[..2], [11, 0]);
            assert!(has_right_transport_checksum(packet.data()));
            assert_eq!(packet.dst_ip(), Datagram::SOURCE);
            assert!(packet.fix_ip_src());
            assert_eq!(packet.timestamp(), Timestamp::from_secs(1_000_000_000));
            assert_eq!((packet.network_offset(), packet.transport_offset()), (Some(0), Some(20)));
        }
        assert_ne!(ids[0], ids[1]);
        assert!(rig.stats().balanced());
    }

    #[test]
    fn it_quotes_as_much_as_fits() {
        let whole = Datagram::udp(&[7; 600]).bytes();
        for (element, quoted) in [
            ("ICMPError(1.1.1.1, unreachable, port)", 548),
            ("ICMPError(1.1.1.1, unreachable, port, MTU 68)", 40),
            ("ICMPError(1.1.1.1, unreachable, port, MTU 1500)", whole.len()),
        ] {
            let (kind, rest, quote) = answer(element, Datagram::udp(&[7; 600]).packet());
            assert_eq!((kind, rest), ([3, 3], [0; 4]));
            assert_eq!(quote, whole[..quoted]);
        }
    }

    #[test]
    fn the_four_bytes_after_the_checksum_depend_on_the_type() {
        let packet = || {
            let mut packet = Datagram::default().packet();
            packet.set_icmp_param_prob(23);
            packet.set_dst_ip([4, 3, 2, 1].into());
            packet
        };
        for (arguments, kind, rest) in [
            ("parameterproblem", [12, 0], [23, 0, 0, 0]),
            ("parameterproblem, length", [12, 2], [0; 4]),
            ("redirect, host", [5, 1], [4, 3, 2, 1]),
            ("unreachable, needfrag, PMTU 1400", [3, 4], [0, 0, 5, 120]),
            ("unreachable, 4", [3, 4], [0; 4]),
            ("3, net, PMTU 1400", [3, 0], [0; 4]),
            ("sourcequench", [4, 0], [0; 4]),
        ] {
            let (got, particulars, _) =
                answer(&format!("ICMPError(1.1.1.1, {arguments})"), packet());
            assert_eq!((got, particulars), (kind, rest), "{arguments}");
        }
    }

    #[test]
    fn no_error_is_sent_where_rfc_1812_forbids_it() {
        let element = "ICMPError(1.1.1.1, timeexceeded, BADADDRS 5.5.5.255 6.6.6.255)";
        let from = |source: [u8; 4]| Datagram { source: source.into(), ..Datagram::default() };
        let to = |to: [u8; 4]| Datagram { destination: to.into(), ..Datagram::default() };
        for source in
            [[0, 1, 2, 3], [127, 0, 0, 1], [224, 0, 0, 1], [240, 0, 0, 1], [255; 4], [5, 5, 5, 255]]
        {
            assert!(!is_answered(element, from(source).packet()), "{source:?}");
        }
        for destination in [[239, 1, 1, 1], [255; 4], [6, 6, 6, 255]] {
            assert!(!is_answered(element, to(destination).packet()), "{destination:?}");
        }
        assert!(is_answered(element, to([240, 0, 0, 1]).packet()));
        for packet_type in [PacketType::Broadcast, PacketType::Multicast] {
            let mut packet = Datagram::default().packet();
            packet.set_packet_type(packet_type);
            assert!(!is_answered(element, packet));
        }
        let fragment = |fragment_offset| Datagram {
            fragment_offset,
            more_fragments: true,
            ..Datagram::default()
        };
        assert!(!is_answered(element, fragment(1).packet()));
        assert!(is_answered(element, fragment(0).packet()));
        for (kind, answered) in
            [(3, false), (4, false), (5, false), (11, false), (12, false), (8, true), (0, true)]
        {
            let packet = Datagram::icmp(kind, 0, [0; 4], b"quoted").packet();
            assert_eq!(is_answered(element, packet), answered, "{kind}");
        }
        assert!(!is_answered(element, Datagram::of(1).packet()));
    }

    #[test]
    fn source_routes_are_reversed() {
        // 128.4.45.60, 128.4.49.61, then 1.2.3.4 and 5.6.7.8 to come.
        let options = vec![137, 19, 12, 128, 4, 45, 60, 128, 4, 49, 61, 1, 2, 3, 4, 5, 6, 7, 8, 0];
        let datagram = Datagram { options, ..Datagram::tcp(b"") };
        let out = Rig::new("ICMPError(19.19.19.19, timeexceeded)", 1, 1)
            .unwrap()
            .push_packets(0, vec![datagram.packet()]);
        let (ip, icmp) = read(out[0][0].data());
        assert_eq!(ip.options.as_slice(), [137, 11, 4, 128, 4, 49, 61, 128, 4, 45, 60, 0]);
        assert_eq!(ip.destination, [1, 0, 0, 1]);
        assert_eq!(icmp.len(), 68);
        assert!(has_right_transport_checksum(out[0][0].data()));

        assert!(!is_answered("ICMPError(1.1.1.1, redirect, host)", datagram.packet()));
        for (pointer, reversed) in [(19, true), (20, false), (38, false), (39, true)] {
            let mut packet = datagram.packet();
            packet.set_icmp_param_prob(pointer);
            let out = Rig::new("ICMPError(1.1.1.1, parameterproblem)", 1, 1)
                .unwrap()
                .push_packets(0, vec![packet]);
            assert_eq!(!read(out[0][0].data()).0.options.is_empty(), reversed, "{pointer}");
        }
    }

    #[test]
    fn arguments_are_checked() {
        for arguments in [
            "1.1.1.1",
            "1.1.1.1, echo",
            "1.1.1.1, 8",
            "1.1.1.1, nonsense, host",
            "1.1.1.1, redirect, port",
            "1.1.1.1, 3, 256",
            "1.1.1.1, unreachable, net, MTU 27",
        ] {
            assert!(Rig::new(&format!("ICMPError({arguments})"), 1, 1).is_err(), "{arguments}");
        }
        for keyword in ["USE_FIX_ANNO", "SET_FIX_ANNO"] {
            let element = format!("ICMPError(1.1.1.1, 11, {keyword} false)");
            let mut rig = Rig::new(&element, 1, 1).unwrap();
            assert!(!rig.push_packets(0, vec![Datagram::default().packet()])[0][0].fix_ip_src());
        }
    }

    #[test]
    fn source_and_sizes_can_be_changed() {
        let mut rig = Rig::new("ICMPError(1.1.1.1, unreachable, needfrag)", 1, 1).unwrap();
        for (handler, before, after) in
            [("src", "1.1.1.1", "2.2.2.2"), ("mtu", "576", "100"), ("pmtu", "0", "1300")]
        {
            assert_eq!(rig.read(handler).unwrap(), before);
            rig.write(handler, after).unwrap();
            assert_eq!(rig.read(handler).unwrap(), after);
        }
        assert!(rig.write("mtu", "27").is_err());
        let out = rig.push_packets(0, vec![Datagram::udp(&[7; 600]).packet()]);
        let (ip, icmp) = read(out[0][0].data());
        assert_eq!((ip.source, ip.total_len), ([2; 4], 100));
        assert_eq!(icmp[6..8], [5, 20]);
    }

    proptest! {
        /// For any options, the error's headers are correct.
        #[test]
        fn errors_are_well_formed(
            words in prop::collection::vec(any::<[u8; 4]>(), 0..=10),
            kind in prop::sample::select(vec![7u8, 68, 131, 137]),
            pointer in 0u8..44,
        ) {
            let mut options = words.concat();
            if let [first, len, at, ..] = options.as_mut_slice() {
                (*first, *len, *at) = (kind, *len % 45, pointer);
            }
            let datagram = Datagram { options, ..Datagram::udp(&[7; 600]) };
            let mut rig = Rig::new("ICMPError(1.1.1.1, timeexceeded)", 1, 1).unwrap();
            let out = rig.push_packets(0, vec![datagram.packet()]);
            prop_assert_eq!(out[0][0].len(), 576);
            prop_assert!(has_right_transport_checksum(out[0][0].data()));
        }
    }

    #[test]
    fn withstands_anything() {
        withstands("ICMPError(1.1.1.1, parameterproblem)", 1);
        withstands("ICMPError(1.1.1.1, redirect, host, MTU 68)", 1);
    }
}
