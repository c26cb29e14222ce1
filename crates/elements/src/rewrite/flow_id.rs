//! What a flow is known by.

use std::fmt;
use std::net::Ipv4Addr;

/// Source and destination: addresses and ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct FlowId {
    /// The source address in the upper half, the destination address in the lower one.
    pub(crate) addresses: u64,
    /// The source port in the upper half, the destination port in the lower one.
    pub(crate) ports: u32,
}

impl FlowId {
    pub(super) fn new(source: (u32, u16), destination: (u32, u16)) -> Self {
        Self {
            addresses: u64::from(source.0) << 32 | u64::from(destination.0),
            ports: u32::from(source.1) << 16 | u32::from(destination.1),
        }
    }

    pub(super) fn source(self) -> u32 {
        (self.addresses >> 32) as u32
    }

    pub(super) fn destination(self) -> u32 {
        self.addresses as u32
    }

    pub(super) fn source_port(self) -> u16 {
        (self.ports >> 16) as u16
    }

    pub(super) fn destination_port(self) -> u16 {
        self.ports as u16
    }

    #[must_use]
    pub(super) fn with_source(self, source: u32) -> Self {
        Self { addresses: u64::from(source) << 32 | u64::from(self.destination()), ..self }
    }

    #[must_use]
    pub(super) fn with_destination(self, destination: u32) -> Self {
        Self { addresses: u64::from(self.source()) << 32 | u64::from(destination), ..self }
    }

    #[must_use]
    pub(super) fn with_source_port(self, port: u16) -> Self {
        Self { ports: u32::from(port) << 16 | self.ports & 0xffff, ..self }
    }

    #[must_use]
    pub(super) fn with_destination_port(self, port: u16) -> Self {
        Self { ports: self.ports & 0xffff_0000 | u32::from(port), ..self }
    }

    /// The flow of the replies: source and destination change places.
    #[inline(always)]
    #[must_use]
    pub(super) fn reversed(self) -> Self {
        Self { addresses: self.addresses.rotate_left(32), ports: self.ports.rotate_left(16) }
    }

    /// The hash by which Click's tables, and so the lines of their dumps, are ordered.
    pub(crate) fn click_hash(self) -> u32 {
        let (source, destination) = (self.source().swap_bytes(), self.destination().swap_bytes());
        let (from, to) = (u32::from(self.source_port()), u32::from(self.destination_port()));
        source.rotate_left(from % 16 + 1)
            ^ destination.rotate_left(31 - to % 16)
            ^ (to << 16 | from)
    }
}

/// As Click writes a flow: `(1.0.0.1, 20, 2.0.0.2, 30)`.
impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, destination) =
            (Ipv4Addr::from(self.source()), Ipv4Addr::from(self.destination()));
        write!(f, "({source}, {}, {destination}, {})", self.source_port(), self.destination_port())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_and_its_replies() {
        let flow = FlowId::new((0x0100_0001, 20), (0x0200_0002, 30));
        assert_eq!(flow.to_string(), "(1.0.0.1, 20, 2.0.0.2, 30)");
        assert_eq!(flow.reversed().to_string(), "(2.0.0.2, 30, 1.0.0.1, 20)");
        assert_eq!(flow.reversed().reversed(), flow);
        let other = flow.with_source(3).with_destination(4).with_source_port(5);
        assert_eq!(other.with_destination_port(6), FlowId::new((3, 5), (4, 6)));
    }
}
