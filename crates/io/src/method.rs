//! By which means a device is reached.

use millrace_core::net::EtherAddress;

use crate::rule::Rule;

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
    /// The best that the machine has for the device: AF_XDP, or else packet sockets with rings.
    Best(XdpOptions),
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
            "NETMAP" | "BEST" => Self::Best(XdpOptions::default()),
            _ => return None,
        })
    }
}

/// The service that says by which method devices are reached where the configuration does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultMethod(pub Method);

/// What can be chosen about AF_XDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpOptions {
    /// Where the kernel runs the program that takes the packets.
    pub hook: XdpHook,
    /// Whether the device reads and writes our memory itself, without a copy by the kernel: as far as
    /// it can unless given; true refuses devices that cannot.
    pub zero_copy: Option<bool>,
    /// For how many microseconds a call polls the device instead of waiting for its interrupts; not
    /// at all unless given.
    pub busy_poll: Option<u32>,
    /// The packets to take from the kernel: those that fulfil one of these rules; all when there are
    /// none.
    pub only: Vec<Rule>,
    /// The packets that the kernel keeps, of those.
    pub except: Vec<Rule>,
    /// Whether queues of the device that nobody asked for are received from as well, so that no packet
    /// depends on the queue that it comes by. Set it unless the queues were named by the user.
    pub every_queue: bool,
}

impl Default for XdpOptions {
    fn default() -> Self {
        Self {
            hook: XdpHook::default(),
            zero_copy: None,
            busy_poll: None,
            only: Vec::new(),
            except: Vec::new(),
            every_queue: true,
        }
    }
}

/// Where the kernel runs an XDP program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpHook {
    /// In the driver, or in the network stack where the driver cannot.
    #[default]
    Best,
    /// In the driver (native mode).
    Driver,
    /// In the network stack, which any interface has (generic mode).
    Generic,
}

/// What can be chosen about a port of DPDK. All elements that use a port must agree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DpdkOptions {
    /// The longest packet behind the Ethernet header, in bytes; what the port has unless given.
    pub mtu: Option<u16>,
    /// The port's Ethernet address; its own unless given.
    pub ether: Option<EtherAddress>,
    /// Whether the card filters by VLAN.
    pub vlan_filter: bool,
    /// Whether the card takes VLAN tags off, into the VLAN annotation.
    pub vlan_strip: bool,
    /// Whether the card understands outer VLAN tags.
    pub vlan_extend: bool,
    /// Whether packets come with the hash over their flow as aggregate annotation.
    pub rss_aggregate: bool,
    /// Whether packets are painted with the number of their queue.
    pub paint_queue: bool,
    /// To how many of the queues packets are spread; all unless given.
    pub rss_queues: Option<u16>,
    /// Flow control.
    pub pause: Option<Pause>,
    /// Whether an idle thread may sleep until the card has packets, instead of looking again and again.
    pub interrupts: bool,
    /// Whether transmitted packets may come from other places than the port's own pool and be shared
    /// without being copied, which costs the shortcut by which some cards free packets.
    pub any_packet: bool,
}

/// Which Ethernet pause frames (IEEE 802.3, annex 31B) a port heeds and sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Neither.
    Neither,
    /// It heeds them.
    Receive,
    /// It sends them.
    Transmit,
    /// Both.
    Both,
}

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
