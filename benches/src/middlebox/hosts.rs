//! A client and a server, and a host between them, which are network namespaces.
//!
//! ```text
//! client:lan ---- eth0:between:eth1 ---- lan:server
//! 10.9.1.1                                10.9.2.2
//! 2001:db8:0:1::1                         2001:db8:0:2::2
//! ```
//!
//! The hosts are on one network, or on two with a router between them; the addresses are the same. All neighbours are
//! known, so that nothing asks for addresses while it is measured.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::Context;
use millrace_testkit::Namespace;
use serde_json::Value;

use super::output;

/// The hosts.
pub(crate) struct Hosts {
    pub(crate) client: Namespace,
    pub(crate) between: Namespace,
    pub(crate) server: Namespace,
}

/// How the hosts are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wiring {
    /// On one network: the host between passes frames on.
    Bridged,
    /// On two: the kernel of the host between forwards packets.
    Routed,
}

/// A version of the Internet protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Family {
    Four,
    Six,
}

pub(crate) const FAMILIES: [Family; 2] = [Family::Four, Family::Six];

/// The side of the host between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Side {
    Client,
    Server,
}

/// The address of frames that are counted on arrival, and that no host takes for its own.
pub(crate) const NOWHERE: [u8; 6] = [2, 0, 0, 0, 0x0f, 0x0f];

/// Addresses of the server's side that generated packets may have.
pub(crate) const FAR_ADDRESSES: u8 = 8;

/// What an interface has counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    /// Packets that were received.
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Packets that were sent.
    pub(crate) sent: u64,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Four { "IPv4" } else { "IPv6" })
    }
}

impl Side {
    const fn network(self) -> u8 {
        match self {
            Self::Client => 1,
            Self::Server => 2,
        }
    }

    /// The address of the host between on this side.
    pub(crate) const fn gateway(self) -> [u8; 6] {
        [2, 0, 0, 0, self.network(), 9]
    }

    const fn own(self) -> [u8; 6] {
        [2, 0, 0, 0, self.network(), self.network()]
    }

    /// An address of a host on this side: the client is host 1, the server host 2, 9 the router, and those from 200 on
    /// are nobody's.
    pub(crate) fn address(self, family: Family, host: u8) -> IpAddr {
        let network = self.network();
        match family {
            Family::Four => Ipv4Addr::new(10, 9, network, host).into(),
            Family::Six => {
                let last = u16::from(host);
                Ipv6Addr::new(0x2001, 0xdb8, 0, network.into(), 0, 0, 0, last).into()
            }
        }
    }
}

impl Hosts {
    /// Makes the hosts. Needs root, `ip` and `sysctl`.
    ///
    /// # Errors
    /// A setting is refused.
    pub(crate) fn new(wiring: Wiring) -> anyhow::Result<Self> {
        let hosts = Self {
            client: Namespace::new("client"),
            between: Namespace::new("between"),
            server: Namespace::new("server"),
        };
        for host in [&hosts.client, &hosts.server] {
            allow_ip6(host)?;
        }
        if wiring == Wiring::Routed {
            allow_ip6(&hosts.between)?;
            set(&hosts.between, &["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"])?;
        }
        hosts.between.connect("eth0", &hosts.client, "lan");
        hosts.between.connect("eth1", &hosts.server, "lan");
        hosts.address(Side::Client, wiring);
        hosts.address(Side::Server, wiring);
        // A connection that is closed keeps its port for a while.
        set(&hosts.client, &["net.ipv4.ip_local_port_range=1024 65535"])?;
        Ok(hosts)
    }

    /// The host on this side.
    pub(crate) fn at(&self, side: Side) -> &Namespace {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }

    /// The server's address.
    pub(crate) fn server_address(family: Family) -> IpAddr {
        Side::Server.address(family, 2)
    }

    /// Gives a host and its gateway their addresses and their neighbours.
    fn address(&self, side: Side, wiring: Wiring) {
        let (host, number) = (self.at(side), side.network());
        let other = if side == Side::Client { Side::Server } else { Side::Client };
        let port = format!("eth{}", number - 1);
        host.ip(&format!("link set dev lan address {}", text(side.own())));
        self.between.ip(&format!("link set dev {port} address {}", text(side.gateway())));
        for family in FAMILIES {
            let own = side.address(family, number);
            let (narrow, wide) = if family == Family::Four { (24, 16) } else { (64, 32) };
            let rest = if family == Family::Four { "" } else { " nodad" };
            if wiring == Wiring::Bridged {
                host.ip(&format!("address add {own}/{wide} dev lan{rest}"));
                let peer = other.address(family, other.network());
                neighbour(host, peer, other.own(), "lan");
                continue;
            }
            let gateway = side.address(family, 9);
            host.ip(&format!("address add {own}/{narrow} dev lan{rest}"));
            neighbour(host, gateway, side.gateway(), "lan");
            host.ip(&format!("route add default via {gateway}"));
            self.between.ip(&format!("address add {gateway}/{narrow} dev {port}{rest}"));
            neighbour(&self.between, own, side.own(), &port);
            for nobody in 0..FAR_ADDRESSES {
                neighbour(&self.between, side.address(family, 200 + nobody), NOWHERE, &port);
            }
        }
    }

    /// Makes hosts send packets that are no longer than the links' MTU, with their checksums, as over a real cable.
    ///
    /// # Errors
    /// The interfaces refuse.
    pub(crate) fn forbid_offloads(&self) -> anyhow::Result<()> {
        for host in [&self.client, &self.server] {
            let words = ["-K", "lan", "tx", "off", "tso", "off", "gso", "off", "gro", "off"];
            output(host.command("ethtool").args(words))?;
        }
        Ok(())
    }

    /// What the host on this side has received and sent.
    ///
    /// # Errors
    /// The kernel does not say.
    pub(crate) fn counts(&self, side: Side) -> anyhow::Result<Counts> {
        let links = self.at(side).ip("-s -j link show dev lan");
        let links: Value = serde_json::from_slice(&links.stdout).context("counters of a link")?;
        let count = |pointer: &str| {
            let count = links.pointer(&format!("/0/stats64/{pointer}")).and_then(Value::as_u64);
            count.context("counters of a link")
        };
        Ok(Counts {
            packets: count("rx/packets")?,
            bytes: count("rx/bytes")?,
            sent: count("tx/packets")?,
        })
    }
}

fn allow_ip6(host: &Namespace) -> anyhow::Result<()> {
    let settings = ["all", "default"].map(|of| format!("net.ipv6.conf.{of}.disable_ipv6=0"));
    set(host, &settings.each_ref().map(String::as_str))?;
    set(host, &["net.ipv6.conf.default.accept_dad=0", "net.ipv6.conf.default.accept_ra=0"])
}

fn set(host: &Namespace, settings: &[&str]) -> anyhow::Result<()> {
    output(host.command("sysctl").args(["-q", "-w"]).args(settings)).map(drop)
}

fn neighbour(host: &Namespace, address: IpAddr, ether: [u8; 6], interface: &str) {
    let ether = text(ether);
    host.ip(&format!("neighbour add {address} lladdr {ether} dev {interface} nud permanent"));
}

fn text(ether: [u8; 6]) -> String {
    ether.map(|byte| format!("{byte:02x}")).join(":")
}
