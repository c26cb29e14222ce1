//! What elements want of devices.

use std::net::Ipv4Addr;

use millrace_core::net::{EtherAddress, Ipv4Prefix, Ipv6Prefix};

use crate::method::Method;

/// What an element wants of a receive device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RxOptions {
    /// By which means the device is reached.
    pub method: Method,
    /// Which of the device's queues are wanted; the backend may give fewer.
    pub queues: Queues,
    /// How many packets a queue's ring holds; the backend's own choice unless given.
    pub descriptors: Option<usize>,
    /// The NUMA node for rings and packets; the device's own unless given.
    pub numa_node: Option<usize>,
    /// How the device shares packets among its queues.
    pub spread: Spread,
    /// Whether to receive packets for other hosts.
    pub promiscuous: bool,
    /// The most bytes of a packet that are kept.
    pub snap_length: usize,
    /// Free bytes before each packet.
    pub headroom: usize,
    /// Whether packets that this machine sends are received too.
    pub outbound: bool,
    /// Whether the machine's own network stack keeps receiving the packets too.
    pub sniffer: bool,
    /// Whether packets get the time of their arrival.
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

/// What an element wants of a transmit device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxOptions {
    /// By which means the device is reached.
    pub method: Method,
    /// Which of the device's queues are wanted; the backend may give fewer.
    pub queues: Queues,
    /// How many packets a queue's ring holds; the backend's own choice unless given.
    pub descriptors: Option<usize>,
    /// The NUMA node for rings; the device's own unless given.
    pub numa_node: Option<usize>,
}

/// A run of a device's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues {
    /// The number of the first one.
    pub first: usize,
    /// How many; at least 1.
    pub count: usize,
}

impl Default for Queues {
    fn default() -> Self {
        Self { first: 0, count: 1 }
    }
}

/// How a device shares what it receives among its queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// By flow, as the device does of its own accord.
    #[default]
    Flow,
    /// By flow, and both directions of a connection to the same queue.
    Symmetric,
}

/// What kind of interface to the machine's own network stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TapKind {
    /// One for Ethernet frames.
    #[default]
    Tap,
    /// One for IP packets.
    Tun,
}

/// What an interface to the machine's own network stack is to be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapOptions {
    /// What it carries.
    pub kind: TapKind,
    /// Its name; the kernel chooses `tap0`, `tun1`, ... unless given. An interface that is there
    /// already, made by `ip tuntap add`, is used.
    pub name: Option<String>,
    /// How many queues it has; at least 1.
    pub queues: usize,
    /// The machine's address on it, and the network that is reached by it.
    pub ipv4: Option<Ipv4Prefix>,
    /// The same for IPv6.
    pub ipv6: Option<Ipv6Prefix>,
    /// A host on that network by which the machine reaches all others.
    pub gateway: Option<Ipv4Addr>,
    /// Its Ethernet address; the kernel chooses unless given.
    pub ether: Option<EtherAddress>,
    /// The longest packet without its Ethernet header, in bytes; the kernel's 1,500 unless given.
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
