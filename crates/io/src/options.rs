//! What elements want of devices.

use std::net::Ipv4Addr;

use millrace_core::net::{EtherAddress, Ipv4Prefix, Ipv6Prefix};

use crate::method::Method;

/// What an element requests of a receive device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RxOptions {
    /// How to reach the device.
    pub method: Method,
    /// Which of the device's queues to use; the backend may provide fewer.
    pub queues: Queues,
    /// The number of packets in a queue's ring; by default the backend chooses.
    pub descriptors: Option<usize>,
    /// The NUMA node for rings and packets; by default the device's own.
    pub numa_node: Option<usize>,
    /// How the device distributes packets over its queues.
    pub spread: Spread,
    /// Whether to receive packets for other hosts.
    pub promiscuous: bool,
    /// The maximum number of bytes kept of a packet.
    pub snap_length: usize,
    /// Free bytes before each packet.
    pub headroom: usize,
    /// Whether to receive packets that this machine sends, too.
    pub outbound: bool,
    /// Whether the machine's own network stack continues to receive the packets.
    pub sniffer: bool,
    /// Whether packets get their time of arrival as timestamp.
    pub timestamp: bool,
    /// A filter in the kernel, as assembled BPF instructions (code, jt, jf, k).
    pub filter: Vec<(u16, u8, u8, u32)>,
}

impl Default for RxOptions {
    fn default() -> Self {
        Self {
            method: Method::default(),
            queues: Queues::default(),
            descriptors: None,
            numa_node: None,
            spread: Spread::default(),
            promiscuous: false,
            snap_length: 65_535,
            headroom: 128,
            outbound: false,
            sniffer: true,
            timestamp: true,
            filter: Vec::new(),
        }
    }
}

/// What an element requests of a transmit device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxOptions {
    /// How to reach the device.
    pub method: Method,
    /// Which of the device's queues to use; the backend may provide fewer.
    pub queues: Queues,
    /// Whether these very queues are meant, even if others use them, too. Otherwise, a first queue of 0 leaves the
    /// choice to the backend.
    pub named: bool,
    /// The number of packets in a queue's ring; by default the backend chooses.
    pub descriptors: Option<usize>,
    /// The NUMA node for rings; by default the device's own.
    pub numa_node: Option<usize>,
}

/// A range of a device's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues {
    /// The number of the first one.
    pub first: usize,
    /// Their number; at least 1.
    pub count: usize,
}

impl Default for Queues {
    fn default() -> Self {
        Self { first: 0, count: 1 }
    }
}

/// How a device distributes received packets over its queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// By flow, as the device does by default.
    #[default]
    Flow,
    /// By flow, with both directions of a connection on the same queue.
    Symmetric,
}

/// The kind of interface to the machine's own network stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TapKind {
    /// One for Ethernet frames.
    #[default]
    Tap,
    /// One for IP packets.
    Tun,
}

/// The settings of an interface to the machine's own network stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapOptions {
    /// The kind of packets that it carries.
    pub kind: TapKind,
    /// Its name; by default the kernel chooses `tap0`, `tun1`, ... An existing interface, made by
    /// `ip tuntap add`, is used.
    pub name: Option<String>,
    /// How many queues it has; at least 1.
    pub queues: usize,
    /// The machine's address on it, and the network that it reaches.
    pub ipv4: Option<Ipv4Prefix>,
    /// The same for IPv6.
    pub ipv6: Option<Ipv6Prefix>,
    /// A host on that network through which the machine reaches all other hosts.
    pub gateway: Option<Ipv4Addr>,
    /// Its Ethernet address; by default the kernel chooses.
    pub ether: Option<EtherAddress>,
    /// The maximum packet length without its Ethernet header, in bytes; by default the kernel's 1,500.
    pub mtu: Option<usize>,
    /// Whether to bring it up. It is brought up for an address too.
    pub up: bool,
    /// Free bytes before each received packet.
    pub headroom: usize,
    /// Whether large segments and unfinished checksums may cross it in either direction.
    pub offloads: bool,
}

impl Default for TapOptions {
    fn default() -> Self {
        Self {
            kind: TapKind::Tap,
            name: None,
            queues: 1,
            ipv4: None,
            ipv6: None,
            gateway: None,
            ether: None,
            mtu: None,
            up: true,
            headroom: 128,
            offloads: true,
        }
    }
}
