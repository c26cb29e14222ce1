//! Names for addresses, ports and other numbers in arguments.
//!
//! A name that an AddressInfo or PortInfo element defines is known in that element's compound element, and in
//! the compound elements inside it. Names of network devices stand for the addresses of the devices, unless
//! another definition has the same name.
//!
//! One name can have an address of each kind. A suffix selects one: `NAME:ip`, `NAME:ipnet`, `NAME:ip6`,
//! `NAME:ip6net`, `NAME:eth`; `NAME:bcast` is the broadcast address of its IPv4 network and `NAME:gw` a
//! device's gateway.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::args::{Scope, enclosing};
use crate::net::{EtherAddress, Ipv4Prefix, Ipv6Prefix};

mod builtin;
mod define;
mod services;

pub use define::{address_info, port_info};

/// The built-in name of a number; if there are several, the first in alphabetical order.
pub fn name_of(kind: NumberKind, number: u32) -> Option<&'static str> {
    builtin::name(kind, number)
}

/// Looks up the addresses of network devices.
pub trait DeviceAddresses {
    /// The Ethernet address of a device.
    fn ether(&self, device: &str) -> Option<EtherAddress>;

    /// The first IPv4 address of a device and its network.
    fn ipv4(&self, device: &str) -> Option<Ipv4Prefix>;

    /// The first IPv6 address of a device and its network.
    fn ipv6(&self, device: &str) -> Option<Ipv6Prefix> {
        let _ = device;
        None
    }

    /// The gateway of the default route through a device.
    fn gateway(&self, device: &str) -> Option<Ipv4Addr> {
        let _ = device;
        None
    }
}

/// The names of one configuration, each known in one compound element and those inside it.
#[derive(Clone, Debug, Default)]
pub struct NameTable {
    /// By full name: the prefix of the compound element, then the name.
    addresses: HashMap<String, Addresses>,
    numbers: HashMap<(NumberKind, String), u32>,
}

/// The addresses that a name stands for, at most one of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Ethernet address.
    pub ether: Option<EtherAddress>,
    /// IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// IPv4 network.
    pub ipv4_prefix: Option<Ipv4Prefix>,
    /// IPv6 address.
    pub ipv6: Option<Ipv6Addr>,
    /// IPv6 network.
    pub ipv6_prefix: Option<Ipv6Prefix>,
}

/// What kind of number a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NumberKind {
    /// IP protocol number (0 to 255), or [`TCP_OR_UDP`], [`TRANSPORT`] and [`PAYLOAD`], which classifiers
    /// use.
    IpProtocol,
    /// Port of the transport protocol with this number.
    Port(u8),
    /// ICMP type.
    IcmpType,
    /// ICMP code under this type.
    IcmpCode(u8),
    /// Offset of a packet annotation in bytes, its length in the upper 16 bits (0: any).
    Annotation,
}

/// The number of the name `tcpudp`: TCP or UDP.
pub const TCP_OR_UDP: u32 = 256;
/// The number of the name `transp`: TCP, UDP, or another protocol with ports.
pub const TRANSPORT: u32 = 257;
/// The number of the name `payload`: the bytes after the transport header.
pub const PAYLOAD: u32 = 258;

const TCP: u8 = 6;
const UDP: u8 = 17;

impl NameTable {
    /// A table with only the built-in names.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds addresses to those of a name in the compound element with this prefix (`outer/` or empty). New
    /// addresses replace old ones of the same kind.
    pub fn define(&mut self, prefix: &str, name: &str, new: Addresses) {
        let entry = self.addresses.entry(format!("{prefix}{name}")).or_default();
        *entry = new.or(*entry);
    }

    /// Adds all names of another table, which replace existing ones.
    pub fn extend(&mut self, other: Self) {
        for (name, addresses) in other.addresses {
            self.define("", &name, addresses);
        }
        self.numbers.extend(other.numbers);
    }

    /// Gives a number a name in the compound element with this prefix.
    pub fn define_number(&mut self, kind: NumberKind, prefix: &str, name: &str, number: u32) {
        self.numbers.insert((kind, format!("{prefix}{name}")), number);
    }

    /// What a name stands for in the compound element with this prefix: the innermost definition that has the
    /// kind of address that `pick` selects.
    pub fn address<T>(
        &self,
        prefix: &str,
        name: &str,
        pick: impl Fn(&Addresses) -> Option<T>,
    ) -> Option<T> {
        let found = |prefix: &str| pick(self.addresses.get(&format!("{prefix}{name}"))?);
        enclosing(prefix).find_map(found)
    }

    /// The number that a name stands for in the compound element with this prefix. Built-in names come after
    /// the defined ones, and last come the names in this machine's services(5) and protocols(5).
    pub fn number(&self, kind: NumberKind, prefix: &str, name: &str) -> Option<u32> {
        let found = |prefix: &str| self.numbers.get(&(kind, format!("{prefix}{name}"))).copied();
        enclosing(prefix)
            .find_map(found)
            .or_else(|| builtin::number(kind, name))
            .or_else(|| services::number(kind, name))
    }
}

/// The meaning of names of addresses. Does not handle texts that are addresses themselves.
impl Scope<'_> {
    /// The Ethernet address that `NAME` or `NAME:eth` stands for.
    pub fn ether_named(&self, text: &str) -> Option<EtherAddress> {
        let name = strip_suffix(text, &["eth", "ether", "ethernet"])?;
        let defined = self.address(name, |a| a.ether);
        defined.or_else(|| self.devices()?.ether(name))
    }

    /// The IPv4 address that `NAME`, `NAME:ip`, `NAME:bcast` or `NAME:gw` stands for.
    pub fn ipv4_named(&self, text: &str) -> Option<Ipv4Addr> {
        if let Some(name) = strip_suffix(text, &["ip", "ip4"]) {
            let defined = self.address(name, |a| a.ipv4);
            return defined.or_else(|| Some(self.devices()?.ipv4(name)?.address()));
        }
        let (name, suffix) = text.rsplit_once(':')?;
        if suffix.eq_ignore_ascii_case("bcast") {
            return self.ipv4_prefix_named(name).map(Ipv4Prefix::broadcast);
        }
        if !suffix.eq_ignore_ascii_case("gw") {
            return None;
        }
        // A gateway that nobody names is the first address of the network.
        let first = |net: Ipv4Prefix| Ipv4Addr::from_bits(net.network().to_bits() | 1);
        let defined = self.address(text, |a| a.ipv4);
        defined
            .or_else(|| self.address(name, |a| a.ipv4_prefix).map(first))
            .or_else(|| self.devices()?.gateway(name))
            .or_else(|| self.devices()?.ipv4(name).map(first))
    }

    /// The IPv4 network that `NAME` or `NAME:ipnet` stands for.
    pub fn ipv4_prefix_named(&self, text: &str) -> Option<Ipv4Prefix> {
        let name = strip_suffix(text, &["net", "ipnet", "ip4net"])?;
        let defined = self.address(name, |a| a.ipv4_prefix);
        defined.or_else(|| self.devices()?.ipv4(name))
    }

    /// The IPv6 address that `NAME` or `NAME:ip6` stands for.
    pub fn ipv6_named(&self, text: &str) -> Option<Ipv6Addr> {
        let name = strip_suffix(text, &["ip6"])?;
        let defined = self.address(name, |a| a.ipv6);
        defined.or_else(|| Some(self.devices()?.ipv6(name)?.address()))
    }

    /// The IPv6 network that `NAME` or `NAME:ip6net` stands for.
    pub fn ipv6_prefix_named(&self, text: &str) -> Option<Ipv6Prefix> {
        let name = strip_suffix(text, &["ip6net"])?;
        let defined = self.address(name, |a| a.ipv6_prefix);
        defined.or_else(|| self.devices()?.ipv6(name))
    }
}

/// The name before the suffix, `None` when there is a suffix that is not in the list (in any case).
fn strip_suffix<'t>(text: &'t str, suffixes: &[&str]) -> Option<&'t str> {
    match text.rsplit_once(':') {
        None => Some(text),
        Some((name, suffix)) => {
            suffixes.iter().any(|known| known.eq_ignore_ascii_case(suffix)).then_some(name)
        }
    }
}

/// The transport protocols that ports are named for.
const PORT_PROTOCOLS: [u8; 2] = [TCP, UDP];
