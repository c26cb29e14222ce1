//! Link types: the first header of a captured packet.
//!
//! Numbers are the `LINKTYPE_` values of <https://www.tcpdump.org/linktypes.html>. Names are those that
//! Click's `FromDump`, `ToDump` and `FromDevice` accept and print.

use std::fmt;
use std::str::FromStr;

/// The first header of the packets of a capture, by its `LINKTYPE_` number.
///
/// It prints as its name in a configuration (`ETHER`, `IP`, `SLL`, ...), or as `#` and its number if it has
/// none, and is parsed from either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkType(pub u32);

/// Names with their types. The first name of a type is the one that is printed.
const NAMES: &[(&str, LinkType)] = &[
    ("NULL", LinkType::NULL),
    ("IP", LinkType::IP),
    ("ETHER", LinkType::ETHER),
    ("FDDI", LinkType::FDDI),
    ("ATM", LinkType::ATM),
    ("RFC1483", LinkType::ATM),
    ("ATM_RFC1483", LinkType::ATM),
    ("802_11", LinkType::IEEE802_11),
    ("802.11", LinkType::IEEE802_11),
    ("802_11_RADIO", LinkType::IEEE802_11_RADIO),
    ("802.11_RADIO", LinkType::IEEE802_11_RADIO),
    ("SLL", LinkType::SLL),
    ("AIRONET", LinkType::AIRONET),
    ("HDLC", LinkType::HDLC),
    ("PPP_HDLC", LinkType::PPP_HDLC),
    ("PPP", LinkType::PPP),
    ("SUNATM", LinkType::SUNATM),
    ("PRISM", LinkType::PRISM),
];

impl LinkType {
    /// BSD loopback: a protocol family in the byte order of the host that captured it.
    pub const NULL: LinkType = LinkType(0);
    /// Ethernet.
    pub const ETHER: LinkType = LinkType(1);
    /// PPP, with or without address and control bytes.
    pub const PPP: LinkType = LinkType(9);
    /// FDDI.
    pub const FDDI: LinkType = LinkType(10);
    /// Raw IP with the number that some BSD hosts write; [`Self::canonical`] makes it [`Self::IP`].
    pub const HOST_RAW: LinkType = LinkType(12);
    /// PPP in HDLC framing, or Cisco HDLC (RFC 1662, RFC 1547).
    pub const PPP_HDLC: LinkType = LinkType(50);
    /// ATM with LLC/SNAP (RFC 1483, RFC 2684).
    pub const ATM: LinkType = LinkType(100);
    /// Raw IPv4 or IPv6.
    pub const IP: LinkType = LinkType(101);
    /// Cisco HDLC.
    pub const HDLC: LinkType = LinkType(104);
    /// IEEE 802.11.
    pub const IEEE802_11: LinkType = LinkType(105);
    /// Linux "cooked" capture, version 1.
    pub const SLL: LinkType = LinkType(113);
    /// IEEE 802.11 after a Prism II monitor header.
    pub const PRISM: LinkType = LinkType(119);
    /// IEEE 802.11 after an Aironet header.
    pub const AIRONET: LinkType = LinkType(120);
    /// ATM in SunATM's framing.
    pub const SUNATM: LinkType = LinkType(123);
    /// IEEE 802.11 after a radiotap header.
    pub const IEEE802_11_RADIO: LinkType = LinkType(127);

    /// The type with its usual number: raw IP has several.
    #[must_use]
    pub fn canonical(self) -> LinkType {
        if self == Self::HOST_RAW { Self::IP } else { self }
    }

    /// The offset of the IPv4 or IPv6 header of `frame`, according to the headers before it.
    ///
    /// It does not examine the IP header itself: the offset may be the frame's length, and the version field
    /// may contradict the header before it.
    #[must_use]
    pub fn ip_offset(self, frame: &[u8]) -> Option<usize> {
        let mut header = Header::first(self)?;
        let mut at = 0;
        // Every step but the last moves `at` forward, so that a frame of nested headers ends.
        loop {
            (header, at) = match header.step(frame.get(at..)?)? {
                Step::Ip(length) => return Some(at + length).filter(|&end| end <= frame.len()),
                Step::Next(header, length) => (header, at + length),
            };
        }
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, link_type)| link_type == self) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "#{}", self.0),
        }
    }
}

/// The text is neither the name of a link type nor `#` and a number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad encapsulation type")]
pub struct UnknownLinkType;

impl FromStr for LinkType {
    type Err = UnknownLinkType;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some((_, link_type)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Ok(*link_type);
        }
        text.strip_prefix('#')
            .and_then(|number| number.parse().ok())
            .filter(|&number| number < i32::MAX as u32)
            .map(LinkType)
            .ok_or(UnknownLinkType)
    }
}

/// A header in front of IP.
#[derive(Clone, Copy)]
enum Header {
    Ethernet,
    /// An EtherType and the data after it.
    EtherType,
    Fddi,
    /// LLC, with or without SNAP (RFC 1042, RFC 2684).
    Llc,
    SunAtm,
    Sll,
    CiscoHdlc,
    PppHdlc,
    Ppp,
    Wifi,
    Radiotap,
    Prism,
    Null,
    Ip,
}

/// What a header specifies about the next one, and its length in bytes.
enum Step {
    Ip(usize),
    Next(Header, usize),
}

const PPP_ADDRESS: u8 = 0xff;
const PPP_CONTROL: u8 = 0x03;
const PPP_IP: u8 = 0x21;
const PPP_IPV6: u8 = 0x57;

impl Header {
    fn first(link_type: LinkType) -> Option<Header> {
        Some(match link_type.canonical() {
            LinkType::NULL => Header::Null,
            LinkType::ETHER => Header::Ethernet,
            LinkType::PPP => Header::Ppp,
            LinkType::FDDI => Header::Fddi,
            LinkType::PPP_HDLC => Header::PppHdlc,
            LinkType::ATM => Header::Llc,
            LinkType::IP => Header::Ip,
            LinkType::HDLC => Header::CiscoHdlc,
            LinkType::IEEE802_11 => Header::Wifi,
            LinkType::SLL => Header::Sll,
            LinkType::PRISM => Header::Prism,
            LinkType::SUNATM => Header::SunAtm,
            LinkType::IEEE802_11_RADIO => Header::Radiotap,
            _ => return None,
        })
    }

    /// Reads the header at the start of `bytes`; `None` when it does not lead to IP.
    fn step(self, bytes: &[u8]) -> Option<Step> {
        match self {
            Header::Ip => Some(Step::Ip(0)),
            Header::Ethernet => Some(Step::Next(Header::EtherType, 12)),
            Header::EtherType => match be16(bytes, 0)? {
                0x0800 | 0x86dd => Some(Step::Ip(2)),
                // 802.1Q and 802.1ad: a tag, then the next EtherType.
                0x8100 | 0x88a8 => Some(Step::Next(Header::EtherType, 4)),
                _ => None,
            },
            // Only asynchronous LLC frames (frame control 01xx0xxx of ANSI X3.139) carry IP.
            Header::Fddi => (bytes.first()? & 0xf0 == 0x50).then_some(Step::Next(Header::Llc, 13)),
            Header::Llc => llc(bytes),
            Header::SunAtm => Some(Step::Next(Header::Llc, 4)),
            Header::Sll => Some(Step::Next(Header::EtherType, 14)),
            Header::CiscoHdlc => Some(Step::Next(Header::EtherType, 2)),
            Header::PppHdlc => match bytes.first()? {
                &PPP_ADDRESS => ppp_protocol(bytes.get(2..)?, 2),
                // Cisco HDLC unicast and broadcast.
                0x0f | 0x8f => Some(Step::Next(Header::CiscoHdlc, 0)),
                _ => None,
            },
            Header::Ppp => match bytes {
                [PPP_ADDRESS, PPP_CONTROL, rest @ ..] => ppp_protocol(rest, 2),
                _ => ppp_protocol(bytes, 0),
            },
            Header::Wifi => wifi(bytes),
            Header::Radiotap => {
                let length = usize::from(u16::from_le_bytes([*bytes.get(2)?, *bytes.get(3)?]));
                (length >= 8).then_some(Step::Next(Header::Wifi, length))
            }
            Header::Prism => Some(Step::Next(Header::Wifi, 144)),
            Header::Null => null(bytes),
        }
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

fn llc(bytes: &[u8]) -> Option<Step> {
    match bytes {
        // SNAP: an organisation, then a protocol number that it gives.
        [0xaa, 0xaa, _, o1, o2, o3, ..] => match ([*o1, *o2, *o3], be16(bytes, 6)?) {
            // Encapsulated Ethernet, and Cisco's bridging.
            ([0, 0, 0] | [0, 0, 0xf8], _) => Some(Step::Next(Header::EtherType, 6)),
            // RFC 2684 bridged Ethernet and FDDI, with and without their check sequence.
            ([0, 0x80, 0xc2], 0x0001 | 0x0007) => Some(Step::Next(Header::Ethernet, 8)),
            ([0, 0x80, 0xc2], 0x0004 | 0x000a) => Some(Step::Next(Header::Fddi, 9)),
            _ => None,
        },
        // IP by its own service access point.
        [0x06, 0x06, _, _, ..] => Some(Step::Ip(4)),
        _ => None,
    }
}

/// A PPP protocol number, which may be compressed to one byte (RFC 1661, 6.5), after `before`
/// bytes.
fn ppp_protocol(bytes: &[u8], before: usize) -> Option<Step> {
    match bytes {
        [PPP_IP | PPP_IPV6, ..] => Some(Step::Ip(before + 1)),
        [0, PPP_IP | PPP_IPV6, ..] => Some(Step::Ip(before + 2)),
        _ => None,
    }
}

fn wifi(bytes: &[u8]) -> Option<Step> {
    let (&control, &flags) = (bytes.first()?, bytes.get(1)?);
    let is_data = control & 0x0c == 0x08;
    // Between two access points the header has a fourth address; QoS data has a control field.
    let addresses = if flags & 0x03 == 0x03 { 30 } else { 24 };
    let qos = if control & 0x80 != 0 { 2 } else { 0 };
    is_data.then_some(Step::Next(Header::Llc, addresses + qos))
}

fn null(bytes: &[u8]) -> Option<Step> {
    let family: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
    // The number is small, so that the byte order of the host that wrote it shows.
    let family = u32::from_le_bytes(family).min(u32::from_be_bytes(family));
    // AF_INET, and AF_INET6 on NetBSD and OpenBSD, FreeBSD, and Darwin.
    matches!(family, 2 | 24 | 28 | 30).then_some(Step::Ip(4))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_and_numbers() {
        for (name, number, printed) in [
            ("ETHER", 1, "ETHER"),
            ("IP", 101, "IP"),
            ("FDDI", 10, "FDDI"),
            ("PPP", 9, "PPP"),
            ("SLL", 113, "SLL"),
            ("RFC1483", 100, "ATM"),
            ("802.11", 105, "802_11"),
            ("#113", 113, "SLL"),
            ("#276", 276, "#276"),
        ] {
            assert_eq!(name.parse(), Ok(LinkType(number)), "{name}");
            assert_eq!(LinkType(number).to_string(), printed);
        }
        for bad in ["", "ether", "#", "#-1", "#2147483647", "1", "#1x"] {
            assert_eq!(bad.parse::<LinkType>(), Err(UnknownLinkType), "{bad}");
        }
    }

    #[test]
    fn ip_behind_every_link_header() {
        let ethernet = |tail: &[u8]| [&[0; 12], tail].concat();
        let table: &[(LinkType, Vec<u8>, Option<usize>)] = &[
            (LinkType::IP, vec![0x45], Some(0)),
            (LinkType::HOST_RAW, vec![], Some(0)),
            (LinkType::ETHER, ethernet(&[0x08, 0x00, 0x45]), Some(14)),
            (LinkType::ETHER, ethernet(&[0x86, 0xdd]), Some(14)),
            (LinkType::ETHER, ethernet(&[0x08, 0x06, 0]), None),
            (LinkType::ETHER, ethernet(&[0x81, 0, 0, 5, 8, 0]), Some(18)),
            (LinkType::ETHER, ethernet(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0]), Some(22)),
            (LinkType::ETHER, ethernet(&[0x81, 0, 0, 5]), None),
            (LinkType::ETHER, vec![0; 12], None),
            (LinkType::SLL, [&[0; 14][..], &[8, 0]].concat(), Some(16)),
            (LinkType::FDDI, fddi(0x50), Some(21)),
            (LinkType::FDDI, fddi(0x40), None),
            (LinkType::ATM, vec![0xaa, 0xaa, 3, 0, 0, 0, 8, 0], Some(8)),
            (LinkType::ATM, vec![6, 6, 3, 0], Some(4)),
            (
                LinkType::ATM,
                [&[0xaa, 0xaa, 3, 0, 0x80, 0xc2, 0, 7][..], &ethernet(&[8, 0])].concat(),
                Some(22),
            ),
            (LinkType::SUNATM, vec![0, 0, 0, 0, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0], Some(12)),
            (LinkType::HDLC, vec![0x0f, 0, 8, 0], Some(4)),
            (LinkType::PPP_HDLC, vec![0xff, 3, 0, 0x21], Some(4)),
            (LinkType::PPP_HDLC, vec![0x8f, 0, 0x86, 0xdd], Some(4)),
            (LinkType::PPP, vec![0xff, 3, 0, 0x57], Some(4)),
            (LinkType::PPP, vec![0x21], Some(1)),
            (LinkType::PPP, vec![0xc0, 0x21], None),
            (
                LinkType::IEEE802_11,
                [&[8, 0][..], &[0; 22], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]].concat(),
                Some(32),
            ),
            (
                LinkType::IEEE802_11,
                [&[0x88, 3][..], &[0; 30], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]].concat(),
                Some(40),
            ),
            (LinkType::IEEE802_11, vec![0x80; 40], None),
            (
                LinkType::IEEE802_11_RADIO,
                [&[0, 0, 8, 0, 0, 0, 0, 0, 8, 0][..], &[0; 22], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]]
                    .concat(),
                Some(40),
            ),
            (LinkType::IEEE802_11_RADIO, vec![0; 64], None),
            (LinkType::NULL, vec![2, 0, 0, 0], Some(4)),
            (LinkType::NULL, vec![0, 0, 0, 30], Some(4)),
            (LinkType::NULL, vec![0, 0, 0, 7], None),
            (LinkType::AIRONET, vec![0; 64], None),
        ];
        for (link_type, frame, offset) in table {
            assert_eq!(link_type.ip_offset(frame), *offset, "{link_type} {frame:02x?}");
        }
    }

    fn fddi(control: u8) -> Vec<u8> {
        [&[control][..], &[0; 12], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]].concat()
    }

    proptest! {
        #[test]
        fn any_frame_is_read_without_harm(link in 0u32..130, frame in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(offset) = LinkType(link).ip_offset(&frame) {
                prop_assert!(offset <= frame.len());
            }
        }
    }
}
