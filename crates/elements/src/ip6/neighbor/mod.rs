//! Neighbour discovery messages (RFC 4861, 4.3 and 4.4) in their Ethernet frames, as IP6NDSolicitor and
//! IP6NDAdvertiser send them, with one option, an Ethernet address; and read them, with any options.

use std::mem::offset_of;
use std::net::Ipv6Addr;

use millrace_core::headers::{EthernetHeader, Header, Ipv6Header, ether_type, protocol};
use millrace_core::net::EtherAddress;
use millrace_core::{Packet, Reason};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::outer::{fill_icmp6_checksum, header, transport_sum};

/// A neighbour solicitation or advertisement.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct NeighborMessage {
    pub(super) kind: u8,
    pub(super) code: u8,
    pub(super) checksum: [u8; 2],
    /// The flags of advertisements; zero in solicitations.
    pub(super) flags: [u8; 4],
    pub(super) target: [u8; 16],
    pub(super) option_kind: u8,
    /// In units of 8 bytes.
    pub(super) option_len: u8,
    pub(super) ether: EtherAddress,
}

/// Option types.
pub(super) const SOURCE_LINK_ADDRESS: u8 = 1;
pub(super) const TARGET_LINK_ADDRESS: u8 = 2;

/// Flags of advertisements: the sender is a router; it was asked; its address replaces another one.
pub(super) const ROUTER: u8 = 0x80;
pub(super) const SOLICITED: u8 = 0x40;
pub(super) const OVERRIDE: u8 = 0x20;

const LEN: usize = size_of::<NeighborMessage>();

/// The source and destination of a frame.
pub(super) struct Ends {
    pub(super) source: (Ipv6Addr, EtherAddress),
    pub(super) destination: (Ipv6Addr, EtherAddress),
}

impl NeighborMessage {
    /// A message with this option; the checksum is not set yet.
    pub(super) fn new(kind: u8, flags: u8, target: Ipv6Addr, option: (u8, EtherAddress)) -> Self {
        Self {
            kind,
            code: 0,
            checksum: [0; 2],
            flags: [flags, 0, 0, 0],
            target: target.octets(),
            option_kind: option.0,
            option_len: 1,
            ether: option.1,
        }
    }

    /// The message in its frame; `None` if there is no memory.
    pub(super) fn in_frame(&self, ends: &Ends) -> Option<Packet> {
        let ip = header(ends.source.0, ends.destination.0, protocol::ICMPV6, LEN as u16);
        let mut message = [0; LEN];
        message.copy_from_slice(self.as_bytes());
        fill_icmp6_checksum(&ip, &mut message);
        let frame = EthernetHeader {
            dst: ends.destination.1,
            src: ends.source.1,
            ether_type: ether_type::IPV6.into(),
        };
        let mut packet = Packet::with_room(128, 0, EthernetHeader::LEN + Ipv6Header::LEN + LEN)?;
        packet.push_back(frame.as_bytes());
        packet.push_back(ip.as_bytes());
        packet.push_back(&message);
        packet.set_link_header(0, EthernetHeader::LEN);
        packet.set_network_header(EthernetHeader::LEN as isize, Ipv6Header::LEN);
        Some(packet)
    }
}

/// A message that arrived in an Ethernet frame and is valid (RFC 4861, 7.1).
pub(super) struct Received<'p> {
    pub(super) frame: &'p EthernetHeader,
    pub(super) ip: &'p Ipv6Header,
    /// The flags of advertisements.
    pub(super) flags: u8,
    pub(super) target: Ipv6Addr,
    options: &'p [u8],
}

/// Length of a message without options.
const FIXED_LEN: usize = offset_of!(NeighborMessage, option_kind);

impl<'p> Received<'p> {
    /// Reads a message of this kind.
    ///
    /// # Errors
    /// The frame is too short, holds something else or was routed; the checksum, the target or the options are wrong.
    pub(super) fn read(bytes: &'p [u8], kind: u8) -> Result<Self, Reason> {
        let (frame, rest) = EthernetHeader::view(bytes).ok_or(Reason::Truncated)?;
        let (ip, payload) = Ipv6Header::view(rest).ok_or(Reason::Truncated)?;
        let fixed = payload.first_chunk::<FIXED_LEN>().ok_or(Reason::Truncated)?;
        let (&[found_kind, code, _, _, flags, ..], Some(target)) =
            (fixed, fixed.last_chunk::<16>())
        else {
            return Err(Reason::Truncated);
        };
        // Routers decrement the hop limit, so no neighbour sent anything below 255.
        let is_one = frame.ether_type.get() == ether_type::IPV6
            && ip.next_header == protocol::ICMPV6
            && ip.hop_limit == u8::MAX
            && (found_kind, code) == (kind, 0);
        let target = Ipv6Addr::from(*target);
        if !is_one || target.is_multicast() {
            return Err(Reason::Unexpected);
        }
        let message = payload.get(..ip.payload_len.get().into()).ok_or(Reason::Truncated)?;
        let options = message.get(FIXED_LEN..).ok_or(Reason::BadLength)?;
        if !transport_sum(ip, protocol::ICMPV6, message).is_right() {
            return Err(Reason::BadChecksum);
        }
        let received = Self { frame, ip, flags, target, options };
        match received.options().all(|option| option.is_some()) {
            true => Ok(received),
            false => Err(Reason::BadOption),
        }
    }

    /// The Ethernet address in the first option of this kind.
    pub(super) fn ether(&self, kind: u8) -> Option<EtherAddress> {
        self.options().flatten().find_map(|option| match *option {
            [found, 1, a, b, c, d, e, f] if found == kind => Some(EtherAddress([a, b, c, d, e, f])),
            _ => None,
        })
    }

    /// The options; `None`, as the last one, for one whose length is wrong.
    fn options(&self) -> impl Iterator<Item = Option<&'p [u8]>> + use<'p> {
        let mut rest = self.options;
        std::iter::from_fn(move || {
            let option = match *rest {
                [] => return None,
                // In units of 8 bytes.
                [_, len, ..] if len > 0 => rest.split_at_checked(usize::from(len) * 8),
                _ => None,
            };
            rest = option.map_or(&[], |(_, rest)| rest);
            Some(option.map(|(option, _)| option))
        })
    }
}
