//! Configuration messages of the spanning tree protocol (IEEE 802.1D-1998, 9.3.1), and their order
//! of preference.

use std::cmp::Ordering;
use std::fmt;

use millrace_core::Timestamp;
use millrace_core::headers::U16;
use millrace_core::net::EtherAddress;
use zerocopy::byteorder::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A message in its frame, in wire format.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Default)]
#[repr(C)]
pub(super) struct Wire {
    dst: EtherAddress,
    src: EtherAddress,
    /// Number of bytes that follow, without padding.
    length: U16,
    /// Service access points of both sides.
    sap: [u8; 2],
    control: u8,
    protocol: [u8; 2],
    version: u8,
    kind: u8,
    flags: u8,
    root: U64,
    cost: U32,
    bridge: U64,
    port: U16,
    /// Times in 256ths of a second.
    message_age: U16,
    max_age: U16,
    hello_time: U16,
    forward_delay: U16,
    padding: [u8; 8],
}

const ALL_BRIDGES: EtherAddress = EtherAddress([0x01, 0x80, 0xc2, 0, 0, 0]);
const BRIDGES_SAP: u8 = 0x42;
const UNNUMBERED_INFORMATION: u8 = 3;
const LENGTH: u16 = 38;
/// The kind of configuration messages.
const CONFIGURATION: u8 = 0;
const TOPOLOGY_CHANGE: u8 = 1;
const CHANGE_ACKNOWLEDGED: u8 = 0x80;

/// The contents of a message: a path to the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BridgeMessage {
    root: u64,
    cost: u32,
    bridge: u64,
    port: u16,
    topology_change: bool,
    /// In seconds, like all times here.
    pub(super) max_age: u16,
    pub(super) hello_time: u16,
    pub(super) forward_delay: u16,
    /// When the message was created, estimated from its age; None if it never expires.
    made: Option<Timestamp>,
}

impl BridgeMessage {
    /// The message of a port that has received nothing: the worst of all.
    pub(super) const NOTHING: Self = Self {
        root: u64::MAX,
        cost: u32::MAX,
        bridge: u64::MAX,
        port: 0,
        topology_change: false,
        max_age: 0,
        hello_time: 0,
        forward_delay: 0,
        made: None,
    };

    /// The message of a bridge that considers itself the root.
    pub(super) fn of_root(bridge: u64) -> Self {
        let times = Self { max_age: 20, hello_time: 2, forward_delay: 15, ..Self::NOTHING };
        Self { root: bridge, cost: 0, bridge, ..times }
    }

    /// Parses a frame. Returns the message, and whether it acknowledges a topology change.
    pub(super) fn from_wire(frame: &[u8], now: Timestamp) -> Option<(Self, bool)> {
        let wire = match frame.first_chunk::<{ size_of::<Wire>() }>() {
            Some(whole) => Wire::read_from_bytes(whole).ok()?,
            // The padding may be missing.
            None => {
                let mut whole = [0; size_of::<Wire>()];
                whole.get_mut(..frame.len())?.copy_from_slice(frame);
                let wire = Wire::read_from_bytes(&whole).ok()?;
                (frame.len() >= whole.len() - wire.padding.len()).then_some(wire)?
            }
        };
        if wire.protocol != [0; 2] || wire.kind != CONFIGURATION {
            return None;
        }
        let late = i64::from(wire.message_age.get()) * 1_000_000 / 256;
        let message = Self {
            root: wire.root.get(),
            cost: wire.cost.get(),
            bridge: wire.bridge.get(),
            port: wire.port.get(),
            topology_change: wire.flags & TOPOLOGY_CHANGE != 0,
            max_age: wire.max_age.get() / 256,
            hello_time: wire.hello_time.get() / 256,
            forward_delay: wire.forward_delay.get() / 256,
            made: Some(Timestamp::from_nanos(now.as_nanos() - late * 1000)),
        };
        Some((message, wire.flags & CHANGE_ACKNOWLEDGED != 0))
    }

    /// The frame in which bridge `bridge`, with address `src`, sends this message on its port
    /// `port`.
    pub(super) fn to_wire(self, src: EtherAddress, bridge: u64, port: u16, now: Timestamp) -> Wire {
        let age =
            self.made.map_or(0, |made| (now.as_nanos() - made.as_nanos()) * 256 / 1_000_000_000);
        let time = |seconds: u16| U16::new(seconds.wrapping_mul(256));
        Wire {
            dst: ALL_BRIDGES,
            src,
            length: U16::new(LENGTH),
            sap: [BRIDGES_SAP; 2],
            control: UNNUMBERED_INFORMATION,
            kind: CONFIGURATION,
            flags: u8::from(self.topology_change) * TOPOLOGY_CHANGE,
            root: U64::new(self.root),
            cost: U32::new(self.cost),
            bridge: U64::new(bridge),
            port: U16::new(port),
            message_age: U16::new(age as u16),
            max_age: time(self.max_age),
            hello_time: time(self.hello_time),
            forward_delay: time(self.forward_delay),
            ..Wire::default()
        }
    }

    /// The same, one LAN farther from the root.
    pub(super) fn one_farther(self) -> Self {
        Self { cost: self.cost.wrapping_add(1), ..self }
    }

    /// Compares with another message. Greater means that this message is better: it has a better
    /// root, or a shorter path to it, or comes from a better bridge, or from a better port. The
    /// smaller number is better.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        self.compare_as(other, self.bridge, self.port)
    }

    /// Like [`compare`](Self::compare), as if `bridge` had sent this message on its port `port`.
    pub(super) fn compare_as(&self, other: &Self, bridge: u64, port: u16) -> Ordering {
        let own = (self.root, self.cost, bridge, port);
        (other.root, other.cost, other.bridge, other.port).cmp(&own)
    }

    /// Resets the message if it was created at `limit` or before. Returns whether it was.
    pub(super) fn expire(&mut self, limit: Timestamp) -> bool {
        if self.made.is_none_or(|made| made > limit) {
            return false;
        }
        let Self { port, max_age, hello_time, forward_delay, .. } = *self;
        *self = Self { port, max_age, hello_time, forward_delay, ..Self::NOTHING };
        true
    }
}

impl fmt::Display for BridgeMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = if self.topology_change { "TC" } else { "tc" };
        let (bridge, root) = (format!("{:x}", self.bridge), format!("{:x}", self.root));
        write!(f, " {bridge:>16}:{:04x}: {change}  {:x} -> {root:>16}", self.port, self.cost)?;
        write!(f, "  m/h/d: {:x}/{:x}/{:x}", self.max_age, self.hello_time, self.forward_delay)
    }
}
