//! The IP header that IPEncap, UDPIPEncap and similar elements prepend to packets.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use millrace_core::args::{Arg, ArgError, ArgText, Scope};
use millrace_core::checksum::Sum;
use millrace_core::headers::Ipv4Header;
use millrace_core::{Handlers, Packet, Published};
use zerocopy::IntoBytes;

/// A header, complete except for the fields that differ from packet to packet.
#[derive(Clone, Debug)]
pub(crate) struct OuterHeader {
    /// Total length, identification and checksum are 0; so is the destination if it comes from the packets' annotation.
    header: Ipv4Header,
    /// The sum over `header`.
    sum: Sum,
    destination: Destination,
}

/// Where encapsulated packets go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Destination<A = Ipv4Addr> {
    /// All packets go to one address.
    Address(A),
    /// Each packet goes to the address in its destination annotation.
    Annotation,
}

/// The configurable fields of a header.
pub(crate) struct Choice {
    pub(crate) protocol: u8,
    pub(crate) source: Ipv4Addr,
    pub(crate) destination: Destination,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    pub(crate) dont_fragment: bool,
}

impl OuterHeader {
    pub(crate) fn new(choice: &Choice) -> Self {
        let fixed = match choice.destination {
            Destination::Address(address) => address,
            Destination::Annotation => Ipv4Addr::UNSPECIFIED,
        };
        let flags = if choice.dont_fragment { Ipv4Header::DONT_FRAGMENT } else { 0 };
        let header = Ipv4Header {
            version_ihl: 0x45,
            tos: choice.tos,
            total_len: 0.into(),
            id: 0.into(),
            flags_fragment: flags.into(),
            ttl: choice.ttl,
            protocol: choice.protocol,
            checksum: 0.into(),
            src: choice.source.octets(),
            dst: fixed.octets(),
        };
        Self { header, sum: Sum::of(header.as_bytes()), destination: choice.destination }
    }

    /// This header with another source.
    #[must_use]
    pub(crate) fn with_source(&self, source: Ipv4Addr) -> Self {
        Self::new(&Choice { source, ..self.choice() })
    }

    /// This header with another destination.
    #[must_use]
    pub(crate) fn with_destination(&self, destination: Destination) -> Self {
        Self::new(&Choice { destination, ..self.choice() })
    }

    /// The source.
    pub(crate) fn source(&self) -> Ipv4Addr {
        self.header.source()
    }

    /// The destination.
    pub(crate) fn destination(&self) -> Destination {
        self.destination
    }

    /// Returns the header for a packet that has `payload_len` bytes without it, and sets the packet's destination
    /// annotation; `None` if the datagram would be too long.
    #[inline(always)]
    pub(crate) fn for_packet(
        &self,
        packet: &mut Packet,
        payload_len: usize,
        id: u16,
    ) -> Option<Ipv4Header> {
        let total_len = u16::try_from(payload_len + size_of::<Ipv4Header>()).ok()?;
        let mut header = self.header;
        let mut sum = self.sum.add_u16(total_len).add_u16(id);
        header.total_len.set(total_len);
        header.id.set(id);
        match self.destination {
            Destination::Address(address) => packet.set_dst_ip(address),
            Destination::Annotation => {
                let address = packet.dst_ip();
                header.dst = address.octets();
                sum = sum.add_u32(address.to_bits());
            }
        }
        header.checksum.set(sum.finish());
        Some(header)
    }

    fn choice(&self) -> Choice {
        Choice {
            protocol: self.header.protocol,
            source: self.header.source(),
            destination: self.destination,
            tos: self.header.tos,
            ttl: self.header.ttl,
            dont_fragment: self.header.dont_fragment(),
        }
    }
}

/// The handler `src` of class `E`, which has a header.
pub(crate) fn source_handler<E: 'static>(
    handlers: &mut Handlers<E>,
    of: impl Fn(&E) -> &Published<OuterHeader> + Copy + Send + Sync + 'static,
) {
    handlers.read("src", move |element, _| of(element).load().source());
    handlers.write("src", move |element, call| {
        let source: Ipv4Addr = call.parse()?;
        of(element).update(|outer| outer.with_source(source));
        Ok(())
    });
}

/// An address of either version, as an argument.
pub(crate) trait Address: Arg + fmt::Display {
    /// What is expected where there may also be `DST_ANNO`.
    const OR_ANNOTATION: &'static str;
}

impl Address for Ipv4Addr {
    const OR_ANNOTATION: &'static str = "an IP address or ‘DST_ANNO’";
}

impl Address for Ipv6Addr {
    const OR_ANNOTATION: &'static str = "an IPv6 address or ‘DST_ANNO’";
}

impl<A: Address> Arg for Destination<A> {
    const EXPECTS: &'static str = A::OR_ANNOTATION;

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        match text.as_str() {
            "DST_ANNO" => Ok(Self::Annotation),
            _ => A::parse(text, scope).map(Self::Address),
        }
    }

    fn placeholder() -> Self {
        Self::Annotation
    }
}

impl<A: Address> fmt::Display for Destination<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Annotation => f.write_str("DST_ANNO"),
        }
    }
}
