//! A packet as a summary dump sees it: which headers are valid, and what is wrong.

use millrace_core::Packet;
use millrace_core::headers::{Header, Ipv4Header, protocol};

/// How to examine packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wishes {
    /// Whether a packet is bad if it has fewer bytes than its IP header states.
    pub(crate) careful: bool,
    /// Whether lengths include the extra length annotation.
    pub(crate) extra_length: bool,
    /// Whether to describe what is wrong.
    pub(crate) bad: bool,
}

/// A packet, and the result of examining it.
pub(crate) struct Seen<'p> {
    pub(crate) packet: &'p Packet,
    /// The thread that writes it.
    pub(crate) thread: usize,
    pub(crate) wishes: Wishes,
    /// From the IP header, if valid, to the end of the datagram or the packet.
    pub(crate) ip: Option<Ip<'p>>,
    /// From the transport header to the same end, if the packet is of this protocol.
    pub(crate) tcp: Option<&'p [u8]>,
    pub(crate) udp: Option<&'p [u8]>,
    pub(crate) icmp: Option<&'p [u8]>,
    /// The number of bytes after the IP datagram.
    pub(crate) tail: usize,
    /// The extra length annotation, which examining may change.
    pub(crate) extra_length: u32,
    /// The first error found.
    pub(crate) bad: Option<String>,
}

/// An IP header and what follows, and the fields that are always present.
#[derive(Clone, Copy)]
pub(crate) struct Ip<'p> {
    pub(crate) bytes: &'p [u8],
    pub(crate) header_len: usize,
    pub(crate) total_len: usize,
    /// The offset of the header, relative to the data.
    pub(crate) offset: isize,
    /// The offset of what follows the header, relative to the header.
    pub(crate) transport: usize,
}

impl Ip<'_> {
    /// Flags and fragment offset; 0 if they were not captured.
    pub(crate) fn flags_fragment(&self) -> u16 {
        self.bytes
            .get(6..8)
            .and_then(|bytes| bytes.first_chunk())
            .map_or(0, |b| u16::from_be_bytes(*b))
    }

    pub(crate) fn is_first_fragment(&self) -> bool {
        self.flags_fragment() & Ipv4Header::OFFSET_MASK == 0
    }

    pub(crate) fn protocol(&self) -> Option<u8> {
        self.bytes.get(9).copied()
    }
}

/// What is missing for a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    Ethernet,
    Ip,
    /// This many bytes of this protocol's header.
    Transport(u8, usize),
    /// This many bytes of a header with ports.
    Ports(usize),
}

impl<'p> Seen<'p> {
    pub(crate) fn new(packet: &'p Packet, thread: usize, wishes: Wishes) -> Self {
        Self {
            packet,
            thread,
            wishes,
            ip: None,
            tcp: None,
            udp: None,
            icmp: None,
            tail: 0,
            extra_length: packet.extra_length(),
            bad: None,
        }
    }

    /// The length of the packet without what follows the IP datagram.
    pub(crate) fn len(&self) -> usize {
        self.packet.len() - self.tail.min(self.packet.len())
    }

    /// The bytes of the packet without what follows the IP datagram.
    pub(crate) fn data(&self) -> &'p [u8] {
        self.packet.data().get(..self.len()).unwrap_or_default()
    }

    /// Examines IP and transport headers.
    pub(crate) fn look(&mut self) {
        let Some(offset) = self.packet.network_header() else { return };
        let bytes = self.packet.network_data().unwrap_or_default();
        self.ip = self.look_at_ip(bytes, offset);
        let Some(ip) = self.ip else { return };
        self.look_at_transport(ip);
        // From here on, lengths come from the IP header.
        if self.extra_length > 0 {
            let full = ip.bytes.len() as u64 + u64::from(self.extra_length);
            self.extra_length = match ip.total_len {
                0xffff => u32::try_from(full.saturating_sub(0xffff)).unwrap_or(u32::MAX),
                _ => 0,
            };
        }
    }

    fn look_at_ip(&mut self, bytes: &'p [u8], offset: isize) -> Option<Ip<'p>> {
        let Some([version, _, high, low]) = bytes.first_chunk() else {
            self.bad("truncated IP header");
            return None;
        };
        let header_len = usize::from(version & 0xf) * 4;
        let total_len = usize::from(u16::from_be_bytes([*high, *low]));
        if version >> 4 != 4 {
            self.bad(&format!("IP version {}", version >> 4));
            return None;
        }
        if header_len < Ipv4Header::LEN {
            self.bad(&format!("IP header length {}", header_len / 4));
            return None;
        }
        if total_len < header_len {
            self.bad(&format!("IP length {total_len}"));
            return None;
        }
        let missing = total_len as i64 - bytes.len() as i64;
        if missing < 0 {
            self.tail = missing.unsigned_abs() as usize;
            self.extra_length = self.extra_length.wrapping_add(self.tail as u32);
        } else if self.wishes.careful && missing > i64::from(self.extra_length) {
            self.bad(&format!("truncated IP missing {}", missing - i64::from(self.extra_length)));
        }
        let bytes = bytes.get(..bytes.len() - self.tail).unwrap_or_default();
        let transport = self
            .packet
            .transport_header()
            .and_then(|transport| usize::try_from(transport.checked_sub(offset)?).ok());
        let transport = transport.unwrap_or(header_len);
        Some(Ip { bytes, header_len, total_len, offset, transport })
    }

    fn look_at_transport(&mut self, ip: Ip<'p>) {
        if ip.bytes.len() <= ip.header_len || !ip.is_first_fragment() {
            return;
        }
        let bytes = ip.bytes.get(ip.transport..);
        match ip.protocol() {
            Some(protocol::TCP) => {
                self.tcp = bytes;
                let offset = bytes.and_then(|bytes| bytes.get(12)).map(|byte| byte >> 4);
                if let Some(offset @ 0..5) = offset {
                    self.bad(&format!("TCP header length {offset}"));
                    self.tcp = None;
                }
            }
            Some(protocol::UDP) => self.udp = bytes,
            Some(protocol::ICMP) => self.icmp = bytes,
            _ => {}
        }
    }

    fn bad(&mut self, what: &str) {
        if self.wishes.bad && self.bad.is_none() {
            self.bad = Some(format!("!bad {what}\n"));
        }
    }

    /// Records that a field is missing, and whether that makes the packet bad.
    #[cold]
    pub(crate) fn missing<T>(&mut self, missing: Missing) -> Option<T> {
        if self.wishes.bad
            && self.bad.is_none()
            && let Some(what) = self.defect(missing)
        {
            self.bad(&what);
        }
        None
    }

    /// What is wrong with a packet that lacks this; `None` if it is of another protocol.
    fn defect(&self, missing: Missing) -> Option<String> {
        let text = |text: &str| Some(text.to_owned());
        let (name, length) = match missing {
            Missing::Ethernet => return text("Ethernet header"),
            _ if self.ip.is_none() => return text("no IP header"),
            Missing::Ip => return text("truncated IP header capture"),
            Missing::Transport(protocol::TCP, length) => ("TCP", length),
            Missing::Transport(protocol::UDP, length) => ("UDP", length),
            Missing::Transport(protocol::ICMP, length) => ("ICMP", length),
            Missing::Transport(_, length) => ("?", length),
            Missing::Ports(length) => ("TCP/UDP", length),
        };
        let ip = self.ip?;
        let is_other = ip.protocol().is_some_and(|found| match missing {
            Missing::Transport(wanted, _) => found != wanted,
            _ => !matches!(found, protocol::TCP | protocol::UDP),
        });
        if is_other {
            return None;
        }
        let captured = ip.bytes.len().saturating_sub(ip.transport);
        if !ip.is_first_fragment() {
            return Some(format!("fragmented {name} header"));
        }
        Some(match captured as u64 + u64::from(self.extra_length) >= length as u64 {
            true => format!("truncated {name} header capture"),
            false => format!("truncated {name} header"),
        })
    }

    /// The TCP header, if this many bytes of it are present.
    pub(crate) fn tcp(&mut self, length: usize) -> Option<&'p [u8]> {
        let header = self.tcp.filter(|header| header.len() >= length);
        header.or_else(|| self.missing(Missing::Transport(protocol::TCP, length)))
    }

    /// The UDP header, if this many bytes of it are present.
    pub(crate) fn udp(&mut self, length: usize) -> Option<&'p [u8]> {
        let header = self.udp.filter(|header| header.len() >= length);
        header.or_else(|| self.missing(Missing::Transport(protocol::UDP, length)))
    }

    /// The ICMP header, if this many bytes of it are present.
    pub(crate) fn icmp(&mut self, length: usize) -> Option<&'p [u8]> {
        let header = self.icmp.filter(|header| header.len() >= length);
        header.or_else(|| self.missing(Missing::Transport(protocol::ICMP, length)))
    }

    /// The IP header, if this many bytes of it are present.
    pub(crate) fn ip(&mut self, length: usize) -> Option<&'p [u8]> {
        let header = self.ip.map(|ip| ip.bytes).filter(|header| header.len() >= length);
        header.or_else(|| self.missing(Missing::Ip))
    }
}

/// The 8 bits at `offset`; 0 beyond the end.
pub(crate) fn u8_at(bytes: &[u8], offset: usize) -> u64 {
    bytes.get(offset).copied().unwrap_or_default().into()
}

/// The 16 bits at `offset`; 0 beyond the end.
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> u64 {
    u8_at(bytes, offset) << 8 | u8_at(bytes, offset + 1)
}

/// The 32 bits at `offset`; 0 beyond the end.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u64 {
    u16_at(bytes, offset) << 16 | u16_at(bytes, offset + 2)
}
