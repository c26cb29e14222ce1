//! How a device is reached.

use millrace_core::net::EtherAddress;

use crate::flow_rule::FlowRule;

use crate::rule::Rule;

/// The method by which a device is reached, with its options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Packet sockets with rings that are shared with the kernel: works on every interface.
    #[default]
    Ring,
    /// Packet sockets without rings: a system call for each burst.
    Socket,
    /// AF_XDP: packets go between the interface and Millrace's own memory.
    Xdp(XdpOptions),
    /// A DPDK port. DPDK drives the card itself.
    Dpdk(DpdkOptions),
    /// The best method that the machine has for the device: AF_XDP, or else packet sockets with rings.
    Best(XdpOptions),
}

impl Method {
    /// The names of the methods, as values of METHOD.
    pub const NAMES: &'static [&'static str] =
        &["LINUX", "PCAP", "SOCKET", "XDP", "DPDK", "NETMAP", "BEST"];

    /// The method with this name. Click's two methods on Linux, LINUX and PCAP, are the same packet sockets
    /// here. NETMAP stands for the best available method.
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

/// The service with the method for devices whose configuration does not specify one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultMethod(pub Method);

/// The options of AF_XDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpOptions {
    /// Where the kernel runs the program that takes the packets.
    pub hook: XdpHook,
    /// Whether the device reads and writes Millrace's memory itself, without a copy by the kernel. By
    /// default, if it can; `true` rejects devices that cannot.
    pub zero_copy: Option<bool>,
    /// For how many microseconds a call polls the device instead of waiting for its interrupts; no polling by
    /// default.
    pub busy_poll: Option<u32>,
    /// The packets to take from the kernel: those that match one of these rules; all packets when there are
    /// none.
    pub only: Vec<Rule>,
    /// The packets, among those, that the kernel keeps.
    pub except: Vec<Rule>,
    /// Whether to receive also from queues of the device that were not requested, so that every packet
    /// arrives, whatever its queue. Set it unless the user named the queues.
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
    /// In the driver, or in the network stack if the driver cannot.
    #[default]
    Best,
    /// In the driver (native mode).
    Driver,
    /// In the network stack, which works on any interface (generic mode).
    Generic,
}

/// The options of a DPDK port. All elements that use a port must agree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DpdkOptions {
    /// The maximum packet length after the Ethernet header, in bytes; by default unchanged.
    pub mtu: Option<u16>,
    /// The port's Ethernet address; by default its own.
    pub ether: Option<EtherAddress>,
    /// Whether the card filters by VLAN.
    pub vlan_filter: bool,
    /// Whether the card removes VLAN tags, and puts them in the VLAN annotation.
    pub vlan_strip: bool,
    /// Whether the card understands outer VLAN tags.
    pub vlan_extend: bool,
    /// Whether packets get the hash over their flow as aggregate annotation.
    pub rss_aggregate: bool,
    /// Whether packets are painted with the number of their queue.
    pub paint_queue: bool,
    /// The number of queues over which packets are spread; by default all.
    pub rss_queues: Option<u16>,
    /// Rules by which the card selects queues, each with the place where it is written.
    pub flow_rules: Vec<(String, FlowRule)>,
    /// Whether only packets of flows with a rule are received.
    pub flow_isolate: bool,
    /// Flow control.
    pub pause: Option<Pause>,
    /// Whether an idle thread may sleep until the card has packets, instead of polling.
    pub interrupts: bool,
    /// Whether transmitted packets may come from elsewhere than the port's own pool, and be shared, without a
    /// copy. This disables the shortcut by which some cards free packets.
    pub any_packet: bool,
}

/// Which Ethernet pause frames (IEEE 802.3, annex 31B) a port obeys and sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Neither.
    Neither,
    /// It obeys them.
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
