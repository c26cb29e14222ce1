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

impl Method {
    /// The names of the methods, as METHOD takes them.
    pub const NAMES: &'static [&'static str] =
        &["LINUX", "PCAP", "SOCKET", "XDP", "DPDK", "NETMAP", "BEST"];

    /// The method of this name. Click's two methods on Linux, LINUX and PCAP, are the same packet
    /// sockets here, and NETMAP is the best that there is instead of it.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "LINUX" | "PCAP" => Self::Ring,
            "SOCKET" => Self::Socket,
            "XDP" => Self::Xdp(XdpOptions::default()),
            "DPDK" => Self::Dpdk(DpdkOptions::default()),
            "NETMAP" | "BEST" => Self::Best,
            _ => return None,
        })
    }
}

/// The service that says by which method devices are reached where the configuration does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultMethod(pub Method);

/// What can be chosen about AF_XDP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XdpOptions {}

/// What can be chosen about a port of DPDK.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DpdkOptions {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_a_method() {
        for name in Method::NAMES {
            assert!(Method::named(name).is_some(), "{name}");
        }
        assert_eq!(Method::named("linux"), None);
    }
}
