//! Addresses, MTU and flags of an interface: sets and restores them.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use libc::c_int;
use millrace_core::Need;
use millrace_core::net::EtherAddress;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::system::{self, Number};
use crate::netlink::Netlink;
use crate::options::{TapKind, TapOptions};

/// A configured interface. Dropping it restores the settings that do not disappear with the interface.
#[derive(Debug)]
pub(super) struct Interface {
    name: String,
    changes: Vec<String>,
    /// Its earlier settings, if it existed before.
    before: Option<Before>,
}

/// The earlier settings of an interface.
#[derive(Debug, Default)]
struct Before {
    flags: Option<c_int>,
    mtu: Option<c_int>,
    ether: Option<EtherAddress>,
    /// A router that was added as the default route.
    gateway: Option<Ipv4Addr>,
    /// Addresses that were added, with their prefixes' lengths.
    addresses: Vec<(IpAddr, u8)>,
}

/// An operation that failed.
type Failure = (&'static str, io::Error);

impl Interface {
    /// Whether there is an interface with this name.
    pub(super) fn exists(name: &str) -> bool {
        index(name).is_ok()
    }

    /// Configures an interface. `existed` tells whether it existed before.
    pub(super) fn set_up(name: &str, existed: bool, options: &TapOptions) -> Result<Self, Failure> {
        let made = match options.kind {
            TapKind::Tap => "the TAP interface exists while the router runs",
            TapKind::Tun => "the TUN interface exists while the router runs",
        };
        let mut interface = Self {
            name: name.to_owned(),
            changes: Vec::new(),
            before: existed.then(Before::default),
        };
        if !existed {
            interface.changes.push(made.to_owned());
        }
        // What was done is undone on drop, should a step fail.
        interface.apply(options)?;
        Ok(interface)
    }

    /// The changes, as sentences.
    pub(super) fn changes(&self) -> &[String] {
        &self.changes
    }

    /// What it takes to restore its settings.
    pub(super) fn needs(&self) -> Vec<Need> {
        let restores = self.before.is_some();
        restores.then_some(Need::NetworkSettings).into_iter().collect()
    }

    /// The maximum packet length without the Ethernet header, in bytes.
    pub(super) fn mtu(&self) -> io::Result<usize> {
        usize::try_from(system::get(&self.name, Number::Mtu)?).map_err(io::Error::other)
    }

    fn apply(&mut self, options: &TapOptions) -> Result<(), Failure> {
        let Self { name, changes, before } = self;
        let step = |step: &'static str| move |error: io::Error| (step, error);
        if let Some(ether) = options.ether {
            if let Some(before) = before {
                before.ether = system::ether(name).ok();
            }
            system::set_ether(name, ether).map_err(step("set its Ethernet address"))?;
        }
        if let Some(mtu) = options.mtu {
            let mtu = c_int::try_from(mtu).unwrap_or(c_int::MAX);
            if let Some(before) = before {
                before.mtu = system::get(name, Number::Mtu).ok();
            }
            system::set(name, Number::Mtu, mtu).map_err(step("set its MTU"))?;
        }
        if let Some(prefix) = options.ipv4 {
            let step = step("set its IPv4 address");
            let odd = || io::Error::other("its mask is not that of a prefix");
            let added = prefix.length().ok_or_else(odd).and_then(|length| {
                add_address(name, before, (IpAddr::V4(prefix.address()), length))
            });
            added.map_err(step)?;
            changes.push(format!("the machine has the address {prefix} on it"));
        }
        if options.up || options.ipv4.is_some() || options.ipv6.is_some() {
            let flags = system::get(name, Number::Flags).map_err(step("ask for its flags"))?;
            if let Some(before) = before {
                before.flags = Some(flags);
            }
            let wanted = flags | libc::IFF_UP;
            system::set(name, Number::Flags, wanted).map_err(step("bring it up"))?;
        }
        // The kernel takes IPv6 addresses away from interfaces that are down.
        if let Some(prefix) = options.ipv6 {
            let address = (IpAddr::V6(prefix.address()), prefix.length());
            add_address(name, before, address).map_err(step("set its IPv6 address"))?;
            changes.push(format!("the machine has the address {prefix} on it"));
        }
        if let Some(gateway) = options.gateway {
            system::set_default_route(name, gateway, true)
                .map_err(step("set the default route"))?;
            if let Some(before) = before {
                before.gateway = Some(gateway);
            }
            changes.push(format!("the machine's default route leads to {gateway}"));
        }
        Ok(())
    }
}

impl Drop for Interface {
    fn drop(&mut self) {
        let Some(before) = self.before.take() else { return };
        let name = &self.name;
        // What cannot be undone, most likely because the interface is gone, stays.
        if let Some(gateway) = before.gateway {
            let _ = system::set_default_route(name, gateway, false);
        }
        for (address, length) in before.addresses {
            let _ = set_address(name, address, length, false);
        }
        if let Some(mtu) = before.mtu {
            let _ = system::set(name, Number::Mtu, mtu);
        }
        if let Some(ether) = before.ether {
            let _ = system::set_ether(name, ether);
        }
        if let Some(flags) = before.flags {
            let _ = system::set(name, Number::Flags, flags);
        }
    }
}

/// Adds an address to an interface; one that it already has is not ours to remove.
fn add_address(
    name: &str,
    before: &mut Option<Before>,
    (address, length): (IpAddr, u8),
) -> io::Result<()> {
    match set_address(name, address, length, true) {
        Ok(()) => {
            if let Some(before) = before {
                before.addresses.push((address, length));
            }
            Ok(())
        }
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

fn set_address(name: &str, address: IpAddr, length: u8, add: bool) -> io::Result<()> {
    Netlink::open()?.set_address(index(name)?, address, length, add)
}

/// The number of an interface.
fn index(name: &str) -> io::Result<u32> {
    let flags = SocketFlags::CLOEXEC;
    let any = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    Ok(rustix::net::netdevice::name_to_index(any, name)?)
}
