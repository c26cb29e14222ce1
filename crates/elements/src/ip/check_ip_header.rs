//! CheckIPHeader - validates IPv4 headers
//!
//! # Synopsis
//! `CheckIPHeader([OFFSET, keyword INTERFACES, BADSRC, GOODDST, CHECKSUM, VERBOSE, DETAILS])`
//!
//! # Description
//! Checks that each packet has a valid IP header at OFFSET: version, header length, total length and checksum are
//! correct (RFC 1812, 5.2.2), and the source address is allowed.
//!
//! For valid packets, the element sets the network and transport header positions, and sets the destination annotation
//! to the header's destination address. It cuts off everything after the IP datagram, such as the padding of short
//! Ethernet frames.
//!
//! Source addresses are checked only if INTERFACES or BADSRC is given (RFC 1812, 5.3.7).
//!
//! A message is printed for the first bad packet.
//!
//! # Arguments
//! - OFFSET: number of bytes before the IP header. Positional or keyword, default 0.
//! - INTERFACES: this router's addresses with their prefixes, separated by spaces. Adds the networks' broadcast
//!   addresses, 0.0.0.0 and 255.255.255.255 to BADSRC, and the addresses to GOODDST. Networks of one or two addresses
//!   have no broadcast address (RFC 3021). Keyword, default none.
//! - BADSRC: source addresses to reject, separated by spaces. Keyword, default none.
//! - GOODDST: destination addresses, separated by spaces. Packets to them may come from any source. Keyword, default
//!   none.
//! - CHECKSUM: whether to verify the checksum. Keyword, default true.
//! - VERBOSE: whether to print a message for every bad packet. Keyword, default false.
//! - DETAILS: whether to provide the handler `drop_details`. Keyword, default false.
//!
//! Configurations for old versions of Click may use `CheckIPHeader(BADSRC, OFFSET)`. In that form 0.0.0.0 and
//! 255.255.255.255 are bad sources too.
//!
//! # Ports
//! One agnostic input. Output 0, agnostic: valid packets. Output 1, push, optional: bad packets, unchanged.
//!
//! # Handlers
//! - `count` (read): number of valid packets.
//! - `drops` (read): number of bad packets, dropped or sent to output 1.
//! - `drop_details` (read): bad packets by fault. Each line has a count, a tab and the fault. Present only with
//!   DETAILS.
//!
//! # Drops
//! Without output 1:
//! - truncated: the packet is too short for an IP header.
//! - bad version: not IP version 4.
//! - bad header length: the header length field is less than 20 bytes.
//! - bad length: the total length exceeds the packet, or is less than the header length.
//! - bad checksum: the header checksum is wrong.
//! - bad source address: the source is in BADSRC and the destination is not in GOODDST.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 401177d7 01000001 02000002>, LIMIT 10)
//!     -> CheckIPHeader(INTERFACES 18.26.4.9/24 18.32.9.44/28, DETAILS true)
//!     -> Discard;
//! ```
//!
//! # See also
//! CheckIPHeader2, MarkIPHeader, SetIPChecksum, StripIPHeader

mod addresses;

use std::marker::PhantomData;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millrace_core::headers::{Header, Ipv4Header};
use millrace_core::{
    Call, Class, Context, Count, Element, Failed, HandlerError, Handlers, Moment, Packet,
    PerPacket, PerThread, Reason, Setup, View, Way, checksum, register,
};

use addresses::{Addresses, read_old_bad_sources, read_positional};

/// The element; its manual is at the top of the file.
pub type CheckIpHeader = CheckIp<Summing>;

register!(CheckIpHeader, "check_ip_header.rs");

/// Verifies checksums by default.
pub struct Summing;

impl Kind for Summing {
    const CLASS: Class = Class::new("CheckIPHeader", "1/1-2", "a/ah");
    const CHECKSUM: bool = true;
}

/// A configured check.
pub(super) struct HeaderCheck {
    name: String,
    offset: u32,
    checksum: bool,
    /// Addresses in memory order.
    bad_sources: Vec<[u8; 4]>,
    /// A bit for the last octet, modulo 64, of each bad source. Most sources match none of the bits.
    bad_endings: u64,
    good_destinations: Vec<[u8; 4]>,
    verbose: bool,
    details: bool,
    counts: PerThread<Counts>,
    reported: AtomicBool,
    /// The message for a bad packet; if `None`, the message names the fault.
    message: Option<&'static str>,
}

#[derive(Default)]
struct Counts {
    faults: [Count; Fault::ALL.len()],
}

/// The possible faults of a header, in the order of the checks.
#[derive(Clone, Copy)]
enum Fault {
    Tiny,
    Version,
    HeaderLength,
    Length,
    Checksum,
    Source,
}

impl Fault {
    const ALL: [Self; 6] =
        [Self::Tiny, Self::Version, Self::HeaderLength, Self::Length, Self::Checksum, Self::Source];

    /// The fault in Click's wording, which programs that read `drop_details` expect.
    fn text(self) -> &'static str {
        match self {
            Self::Tiny => "tiny packet",
            Self::Version => "bad IP version",
            Self::HeaderLength => "bad IP header length",
            Self::Length => "bad IP length",
            Self::Checksum => "bad IP checksum",
            Self::Source => "bad source address",
        }
    }

    #[inline(always)]
    fn reason(self) -> Reason {
        match self {
            Self::Tiny => Reason::Truncated,
            Self::Version => Reason::BadVersion,
            Self::HeaderLength => Reason::BadHeaderLength,
            Self::Length => Reason::BadLength,
            Self::Checksum => Reason::BadChecksum,
            Self::Source => Reason::BadSource,
        }
    }
}

/// What distinguishes the two elements.
pub trait Kind: Send + Sync + 'static {
    /// Name, port counts and processing.
    const CLASS: Class;
    /// Whether the checksum is verified by default.
    const CHECKSUM: bool;
}

/// The element CheckIPHeader or CheckIPHeader2.
pub struct CheckIp<K: Kind>(HeaderCheck, PhantomData<K>);

impl<K: Kind> Element for CheckIp<K> {
    const CLASS: Class = K::CLASS;
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Ok(Self(HeaderCheck::configure(setup, K::CHECKSUM)?, PhantomData))
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        HeaderCheck::handlers(handlers, |element| &element.0);
    }
}

impl<K: Kind> PerPacket for CheckIp<K> {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        self.0.treat(packet)
    }

    fn treat_more(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        self.0.treat_carefully(packet)
    }

    fn aside(&self, cx: &mut Context, (): &mut (), packet: Packet, way: Way) -> Option<Packet> {
        self.0.reject(cx, packet, way)
    }
}

/// The checks on packets.
impl HeaderCheck {
    /// Checks and marks a packet if it has the usual form. Other packets need a [careful check](Self::treat_carefully).
    #[inline(always)]
    pub(super) fn treat(&self, packet: &mut View) -> Way {
        let mut destination = [0; 4];
        let usual = packet.enter_ipv4(self.offset as usize, |header| {
            let (words, _) = header.as_chunks();
            let &[.., source, to] = words else { return false };
            destination = to;
            (!self.checksum || checksum::verify_header(header))
                && self.bad_endings & ending(source) == 0
        });
        if !usual {
            return Way::MORE;
        }
        packet.set_dst_ip(destination.into());
        Way::ON
    }

    /// Checks and marks a packet that may have options, a suspicious source, or a fault.
    pub(super) fn treat_carefully(&self, packet: &mut View) -> Way {
        match self.check(packet) {
            Ok(()) => Way::ON,
            Err(fault) => Way::output_or_drop(1, fault.reason()),
        }
    }

    fn check(&self, packet: &mut View) -> Result<(), Fault> {
        let offset = self.offset as usize;
        let data = packet.data().get(offset..).unwrap_or_default();
        let Some((ip, _)) = Ipv4Header::view(data) else { return Err(Fault::Tiny) };
        if ip.version() != 4 {
            return Err(Fault::Version);
        }
        let header_len = ip.header_len();
        if header_len < Ipv4Header::LEN {
            return Err(Fault::HeaderLength);
        }
        let total_len = usize::from(ip.total_len.get());
        if total_len > data.len() || total_len < header_len {
            return Err(Fault::Length);
        }
        if self.checksum && !has_right_checksum(data, header_len) {
            return Err(Fault::Checksum);
        }
        // RFC 1812, 5.3.7 and 4.2.2.11.
        if self.bad_endings & ending(ip.src) != 0
            && self.bad_sources.contains(&ip.src)
            && !self.good_destinations.contains(&ip.dst)
        {
            return Err(Fault::Source);
        }
        let destination = ip.destination();
        packet.truncate(offset + total_len);
        packet.set_network_header(offset as isize, header_len);
        packet.set_dst_ip(destination);
        Ok(())
    }

    /// Reports and counts a packet that failed the check, then sends it to output 1 or drops it.
    pub(super) fn reject(&self, cx: &mut Context, packet: Packet, way: Way) -> Option<Packet> {
        let fault = Fault::ALL.into_iter().find(|fault| fault.reason() == way.reason());
        let fault = fault.unwrap_or(Fault::Tiny);
        if self.verbose || !self.reported.swap(true, Relaxed) {
            match self.message {
                Some(message) => cx.router().chatter(message),
                None => {
                    let message =
                        format!("{}: IP header check failed: {}", self.name, fault.text());
                    cx.router().chatter(&message);
                }
            }
        }
        if let Some(count) = self.counts.mine(cx).faults.get(fault as usize) {
            count.add(1);
        }
        cx.send_or_drop(packet, way)
    }
}

/// The bit of an address's last octet.
#[inline(always)]
fn ending([_, _, _, last]: [u8; 4]) -> u64 {
    1 << (last % 64)
}

/// Whether the checksum of the header of `header_len` bytes at the start of `data` is correct.
fn has_right_checksum(data: &[u8], header_len: usize) -> bool {
    data.get(..header_len).is_some_and(checksum::verify)
}

/// Arguments and handlers.
impl HeaderCheck {
    /// Reads the arguments; `checksum` is the default of CHECKSUM.
    pub(super) fn configure(setup: &mut Setup<'_>, checksum: bool) -> Result<Self, Failed> {
        let name = setup.name().to_owned();
        let args = &mut setup.args;
        let mut addresses = Addresses::read(args);
        let mut offset: u32 = args.keyword("OFFSET", 0);
        let verbose = args.keyword("VERBOSE", false);
        let details = args.keyword("DETAILS", false);
        let checksum = args.keyword("CHECKSUM", checksum);
        read_positional(args, &mut offset, &mut addresses.bad_sources);
        args.complete()?;
        Ok(Self { offset, checksum, verbose, details, ..Self::new(name, addresses, None) })
    }

    /// Reads the arguments of IPInputCombo that configure the check; no other arguments follow them.
    pub(super) fn configure_combo(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let mut addresses = Addresses::read(args);
        if let Some(text) = args.rest_positional().first() {
            read_old_bad_sources(args, text, &mut addresses.bad_sources);
        }
        args.complete()?;
        Ok(Self::new(String::new(), addresses, Some("IP checksum failed")))
    }

    fn new(name: String, addresses: Addresses, message: Option<&'static str>) -> Self {
        let Addresses { bad_sources, good_destinations } = addresses;
        Self {
            name,
            offset: 0,
            checksum: true,
            bad_endings: bad_sources.iter().fold(0, |all, bad| all | ending(bad.octets())),
            bad_sources: octets(bad_sources),
            good_destinations: octets(good_destinations),
            verbose: false,
            details: false,
            counts: PerThread::default(),
            reported: AtomicBool::new(false),
            message,
        }
    }

    /// Declares the handlers of class `E`, which holds a check.
    pub(super) fn handlers<E: 'static>(handlers: &mut Handlers<E>, of: fn(&E) -> &Self) {
        handlers.read("count", move |element, call| of(element).good(call));
        Self::drops_handler(handlers, of);
        handlers.try_read("drop_details", move |element, call| {
            let check = of(element);
            if !check.details {
                return Err(HandlerError::NoHandler(call.handler().to_owned()));
            }
            let line = |fault: Fault| format!("{}\t{}\n", check.faults(fault), fault.text());
            Ok(Fault::ALL.map(line).concat())
        });
    }

    /// Declares the handler `drops` alone.
    pub(super) fn drops_handler<E: 'static>(handlers: &mut Handlers<E>, of: fn(&E) -> &Self) {
        handlers.read("drops", move |element, _| of(element).bad());
    }

    /// Bad packets.
    fn bad(&self) -> u64 {
        Fault::ALL.map(|fault| self.faults(fault)).iter().sum()
    }

    /// Packets that arrived and were not bad.
    fn good(&self, call: &Call<'_>) -> u64 {
        call.router().stats_of(call.element()).received.saturating_sub(self.bad())
    }

    fn faults(&self, fault: Fault) -> u64 {
        self.counts
            .iter()
            .filter_map(|counts| counts.faults.get(fault as usize))
            .map(Count::get)
            .sum()
    }
}

fn octets(mut addresses: Vec<Ipv4Addr>) -> Vec<[u8; 4]> {
    addresses.sort_unstable();
    addresses.dedup();
    addresses.into_iter().map(|address| address.octets()).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::net::Ipv4Addr;

    use millrace_core::headers::Ipv4Header;
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};
    use proptest::prelude::*;

    use crate::test_packets::ip::{Datagram, withstands};

    /// The reason why a packet is dropped; `None` when it passes.
    fn fate(element: &str, bytes: &[u8]) -> Option<Reason> {
        let mut rig = Rig::new(element, 1, 1).unwrap();
        let passed = rig.push(0, &[bytes])[0].len();
        let drops = rig.stats().drops;
        assert_eq!(passed + drops.len(), 1);
        drops.first().map(|drop| drop.0)
    }

    #[test]
    fn a_valid_packet_is_marked_trimmed_and_annotated() {
        let datagram = Datagram::default().bytes();
        let frame = [&[0; 14], datagram.as_slice(), &[0; 9]].concat();
        let mut rig = Rig::new("CheckIPHeader(14)", 1, 1).unwrap();
        let out = rig.push_packets(0, vec![Packet::from_bytes(&frame).unwrap()]);
        let packet = &out[0][0];
        assert_eq!(packet.network_data(), Some(datagram.as_slice()));
        assert_eq!(packet.transport_offset(), Some(34));
        assert_eq!(packet.dst_ip(), Datagram::DESTINATION);
        assert_eq!(rig.read("count").unwrap(), "1");
        assert_eq!(rig.read("drops").unwrap(), "0");
    }

    #[test]
    fn each_fault_has_its_drop_reason() {
        let sound = Datagram::default().bytes();
        let edited = |at: usize, byte: u8| {
            let mut bytes = sound.clone();
            bytes[at] = byte;
            bytes
        };
        let beyond = sound.len() as u8 + 1;
        for (bytes, reason) in [
            (sound.clone(), None),
            (sound[..19].to_vec(), Some(Reason::Truncated)),
            (Vec::new(), Some(Reason::Truncated)),
            (edited(0, 0x65), Some(Reason::BadVersion)),
            (edited(0, 0x44), Some(Reason::BadHeaderLength)),
            (edited(3, beyond), Some(Reason::BadLength)),
            (edited(3, 19), Some(Reason::BadLength)),
            (edited(8, 1), Some(Reason::BadChecksum)),
        ] {
            assert_eq!(fate("CheckIPHeader", &bytes), reason, "{bytes:02x?}");
        }
        assert_eq!(fate("CheckIPHeader(CHECKSUM false)", &edited(8, 1)), None);
    }

    #[test]
    fn sources_are_refused_as_configured() {
        let fate = |element: &str, source: [u8; 4], destination: [u8; 4]| {
            let datagram = Datagram { source: source.into(), ..Datagram::default() };
            let datagram = Datagram { destination: destination.into(), ..datagram };
            fate(element, &datagram.bytes()).is_none()
        };
        let interfaces = "CheckIPHeader(INTERFACES 18.26.4.9/24 18.32.9.44/28)";
        for bad in [[18, 26, 4, 255], [18, 32, 9, 47], [0; 4], [255; 4]] {
            assert!(!fate(interfaces, bad, [9, 9, 9, 9]), "{bad:?}");
            assert!(fate(interfaces, bad, [18, 26, 4, 9]), "{bad:?}");
            assert!(fate("CheckIPHeader", bad, [9, 9, 9, 9]), "{bad:?}");
        }
        assert!(fate(interfaces, [18, 26, 4, 254], [9, 9, 9, 9]));

        let listed = "CheckIPHeader(BADSRC 1.2.3.4 5.6.7.8, GOODDST 9.9.9.9)";
        assert!(!fate(listed, [5, 6, 7, 8], [1, 1, 1, 1]));
        assert!(fate(listed, [5, 6, 7, 8], [9, 9, 9, 9]));
        assert!(fate(listed, [0; 4], [1, 1, 1, 1]));

        let narrow = "CheckIPHeader(INTERFACES 10.0.0.1/31 10.0.0.3/32)";
        assert!(fate(narrow, [10, 0, 0, 1], [1, 1, 1, 1]));
        assert!(fate(narrow, [10, 0, 0, 3], [1, 1, 1, 1]));
    }

    #[test]
    fn the_old_syntax_is_accepted() {
        let old = Datagram { source: [18, 26, 4, 255].into(), ..Datagram::default() }.bytes();
        let none = Datagram { source: Ipv4Addr::UNSPECIFIED, ..Datagram::default() }.bytes();
        let framed = |bytes: &[u8]| [&[0; 14], bytes].concat();
        assert_eq!(fate("CheckIPHeader(18.26.4.255)", &old), Some(Reason::BadSource));
        assert_eq!(
            fate("CheckIPHeader(18.26.4.255 1.1.1.1, 14)", &framed(&old)),
            Some(Reason::BadSource)
        );
        assert_eq!(fate("CheckIPHeader(, 14)", &framed(&none)), Some(Reason::BadSource));
        assert_eq!(fate("CheckIPHeader(, 14)", &framed(&old)), None);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for element in [
            "CheckIPHeader(1.1.1.1, 14, 7)",
            "CheckIPHeader(nonsense)",
            "CheckIPHeader(INTERFACES 1.2.3.4/33)",
            "CheckIPHeader(INTERFACE 1.2.3.4/24)",
            "CheckIPHeader(OFFSET -1)",
        ] {
            assert!(Rig::new(element, 1, 1).is_err(), "{element}");
        }
    }

    #[test]
    fn bad_packets_go_to_output_1() {
        let mut rig = Rig::new("CheckIPHeader(DETAILS true)", 1, 2).unwrap();
        let sound = Datagram::default().bytes();
        let out = rig.push(0, &[&b"bad"[..], &sound, &[0; 20]]);
        assert_eq!(out, [vec![sound], vec![b"bad".to_vec(), vec![0; 20]]]);
        assert_eq!(rig.stats().dropped(), 0);
        assert_eq!(rig.read("drops").unwrap(), "2");
        assert_eq!(
            rig.read("drop_details").unwrap(),
            "1\ttiny packet\n1\tbad IP version\n0\tbad IP header length\n\
             0\tbad IP length\n0\tbad IP checksum\n0\tbad source address\n"
        );
        assert!(Rig::new("CheckIPHeader", 1, 2).unwrap().read("drop_details").is_err());
    }

    /// Etherparse, an independent parser, accepts the same headers.
    #[test]
    fn agrees_with_etherparse() {
        let rig = RefCell::new(Rig::new("CheckIPHeader", 1, 1).unwrap());
        let edits = prop::collection::vec((0usize..24, any::<u8>()), 0..3);
        proptest!(|(edits in edits, cut in 0usize..60, fix: bool)| {
            let datagram = Datagram { options: vec![1, 1, 1, 0], ..Datagram::default() };
            let mut bytes = datagram.bytes();
            edits.into_iter().for_each(|(at, byte)| bytes[at] = byte);
            // Etherparse ignores the reserved flag, in the checksum too.
            bytes[6] &= 0x7f;
            if fix {
                Ipv4Header::fill_checksum(&mut bytes);
            }
            bytes.truncate(bytes.len().max(cut) - cut);
            let oracle = etherparse::Ipv4Header::from_slice(&bytes).is_ok_and(|(header, _)| {
                let total_len = usize::from(header.total_len);
                (header.header_len()..=bytes.len()).contains(&total_len)
                    && header.header_checksum == header.calc_header_checksum()
            });
            let passed = !rig.borrow_mut().push(0, &[bytes])[0].is_empty();
            prop_assert_eq!(passed, oracle);
        });
    }

    #[test]
    fn withstands_anything() {
        withstands("CheckIPHeader(INTERFACES 1.0.0.1/8, DETAILS true)", 1);
        withstands("CheckIPHeader(3)", 2);
    }
}
