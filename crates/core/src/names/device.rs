//! Names of network devices.

use std::net::Ipv4Addr;

use crate::net::{EtherAddress, Ipv4Prefix, Ipv6Prefix};

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
