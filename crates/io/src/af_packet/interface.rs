//! Information from the kernel about the machine's interfaces, in the network namespace of the calling
//! thread.

use std::fs::read_to_string;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use millrace_core::names::DeviceAddresses;
use millrace_core::net::{EtherAddress, Ipv4Prefix, Ipv6Prefix};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::socket::ask_interface;
use crate::queue::DeviceError;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    name: String,
    pub(super) index: libc::c_int,
}

/// Bytes of an Ethernet header.
pub(super) const ETHERNET_HEADER: usize = 14;

/// The link-layer header of an interface's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkLayer {
    Ethernet,
    /// Another one, by its `ARPHRD_` number.
    Other(u16),
}

impl Interface {
    /// The interface with this name.
    pub(super) fn find(name: &str) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let any = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
        let index = rustix::net::netdevice::name_to_index(any, name)?;
        let index = libc::c_int::try_from(index).map_err(io::Error::other)?;
        Ok(Self { name: name.to_owned(), index })
    }

    /// The interface with this name, if its packets have Ethernet headers.
    pub(super) fn usable(device: &str) -> Result<Self, DeviceError> {
        let interface = Self::find(device).map_err(|source| match source.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => DeviceError::Unknown(device.to_owned()),
            _ => DeviceError::refused(device, "look the interface up", source),
        })?;
        match interface
            .link_layer()
            .map_err(|source| DeviceError::refused(device, "ask for its type", source))?
        {
            LinkLayer::Ethernet => Ok(interface),
            LinkLayer::Other(kind) => {
                let what = format!("its packets have no Ethernet header (ARPHRD type {kind})");
                Err(DeviceError::unsupported(device, what))
            }
        }
    }

    /// The link-layer header of its packets.
    fn link_layer(&self) -> io::Result<LinkLayer> {
        let [low, high, ..] = ask_interface(&self.name, libc::SIOCGIFHWADDR)?;
        Ok(match u16::from_ne_bytes([low, high]) {
            libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => LinkLayer::Ethernet,
            other => LinkLayer::Other(other),
        })
    }

    /// Whether it is up.
    pub(super) fn is_up(&self) -> bool {
        let flags = ask_interface(&self.name, libc::SIOCGIFFLAGS);
        flags.is_ok_and(|[low, ..]| libc::c_int::from(low) & libc::IFF_UP != 0)
    }

    /// Its Ethernet address.
    pub(super) fn ether(&self) -> Option<EtherAddress> {
        let answer = ask_interface(&self.name, libc::SIOCGIFHWADDR).ok()?;
        // A socket address: two bytes of family, then the address.
        answer.get(2..)?.first_chunk().map(|bytes| EtherAddress(*bytes))
    }

    /// Its first IPv4 address and network.
    pub(super) fn ipv4(&self) -> Option<Ipv4Prefix> {
        let ask = |request| {
            let answer = ask_interface(&self.name, request).ok()?;
            // An IPv4 socket address: family and port, then the address.
            answer.get(4..)?.first_chunk::<4>().map(|bytes| Ipv4Addr::from(*bytes))
        };
        Some(Ipv4Prefix::with_mask(ask(libc::SIOCGIFADDR)?, ask(libc::SIOCGIFNETMASK)?))
    }

    /// The maximum packet length without the Ethernet header, in bytes.
    pub(super) fn mtu(&self) -> Option<usize> {
        let answer = ask_interface(&self.name, libc::SIOCGIFMTU).ok()?;
        usize::try_from(i32::from_ne_bytes(*answer.first_chunk()?)).ok()
    }

    /// The NUMA node that it is attached to.
    pub(super) fn numa_node(&self) -> Option<usize> {
        let path = format!("/sys/class/net/{}/device/numa_node", self.name);
        // Machines without nodes say -1.
        read_to_string(path).ok()?.trim().parse().ok()
    }
}

/// The addresses of the machine's interfaces, for names in configurations (`eth0:ip`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Interfaces;

impl DeviceAddresses for Interfaces {
    fn ether(&self, device: &str) -> Option<EtherAddress> {
        Interface::find(device).ok()?.ether()
    }

    fn ipv4(&self, device: &str) -> Option<Ipv4Prefix> {
        Interface::find(device).ok()?.ipv4()
    }

    /// The first address with more than link scope, or else the first one.
    fn ipv6(&self, device: &str) -> Option<Ipv6Prefix> {
        let table = read_to_string("/proc/thread-self/net/if_inet6").ok()?;
        ipv6_of(&table, device)
    }

    fn gateway(&self, device: &str) -> Option<Ipv4Addr> {
        let table = read_to_string("/proc/thread-self/net/route").ok()?;
        gateway_of(&table, device)
    }
}

/// Searches the text of `/proc/net/if_inet6`: address, index, prefix length, scope, flags, name.
fn ipv6_of(table: &str, device: &str) -> Option<Ipv6Prefix> {
    let address = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let address = Ipv6Addr::from(u128::from_str_radix(words.next()?, 16).ok()?);
        let length = u8::from_str_radix(words.nth(1)?, 16).ok()?;
        (words.nth(2)? == device).then_some(())?;
        Ipv6Prefix::new(address, length)
    };
    let mut addresses: Vec<Ipv6Prefix> = table.lines().filter_map(address).collect();
    addresses.sort_by_key(|prefix| prefix.address().is_unicast_link_local());
    addresses.first().copied()
}

/// Searches the text of `/proc/net/route` for the default route: interface, destination, gateway, flags,
/// three more fields, mask; addresses are in the machine's byte order.
fn gateway_of(table: &str, device: &str) -> Option<Ipv4Addr> {
    const GATEWAY: u32 = 2;
    table.lines().find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |at: usize| u32::from_str_radix(words.get(at)?, 16).ok();
        let is_default = *words.first()? == device && number(1)? == 0 && number(7)? == 0;
        let has_gateway = number(3)? & GATEWAY != 0;
        (is_default && has_gateway).then_some(Ipv4Addr::from(number(2)?.to_ne_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_to_everybody() {
        let Ok(interface) = Interface::find("lo") else {
            // A namespace of its own may have none that is up; the name is there all the same.
            panic!("no loopback interface");
        };
        assert_eq!(interface.link_layer().unwrap(), LinkLayer::Ethernet);
        assert_eq!(interface.ether(), Some(EtherAddress::default()));
        assert!(interface.mtu().unwrap() >= 1280);
        assert_eq!(Interface::find("no-such-name").unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    fn tables_of_the_kernel_are_read() {
        let table = "fe80000000000000020000fffe000001 02 40 20 80     eth0\n\
                     20010db8000000000000000000000001 02 30 00 80     eth0\n\
                     00000000000000000000000000000001 01 80 10 80       lo\n";
        let prefix = |text: &str| text.parse::<Ipv6Prefix>().ok();
        assert_eq!(ipv6_of(table, "eth0"), prefix("2001:db8::1/48"));
        assert_eq!(ipv6_of(table, "lo"), prefix("::1/128"));
        assert_eq!(ipv6_of(table, "eth1"), None);

        let local = u32::from_ne_bytes([10, 0, 0, 254]);
        let table = format!(
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\n\
             eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\n\
             eth0\t00000000\t{local:08X}\t0003\t0\t0\t0\t00000000\t0\n"
        );
        assert_eq!(gateway_of(&table, "eth0"), Some(Ipv4Addr::new(10, 0, 0, 254)));
        assert_eq!(gateway_of(&table, "eth1"), None);
    }
}
