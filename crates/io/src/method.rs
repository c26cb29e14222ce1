//! By which means a device is reached.

/// The means by which a device is reached, and what can be chosen about each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Packet sockets with rings that are shared with the kernel: every interface has it.
    #[default]
    Ring,
    /// Packet sockets without rings: a system call for each burst.
    Socket,
    /// AF_XDP: packets go between the interface and our own memory.
    Xdp(XdpOptions),
    /// A port of DPDK, which drives the card itself.
    Dpdk(DpdkOptions),
    /// The best that the machine has for the device: AF_XDP, or else packet sockets.
    Best,
}

/// What can be chosen about AF_XDP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XdpOptions {}

/// What can be chosen about a port of DPDK.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DpdkOptions {}
