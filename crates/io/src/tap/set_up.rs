//! Addresses, MTU and flags of an interface: set, and undone.

use std::io;
use std::net::Ipv4Addr;

use libc::c_int;
use millrace_core::net::EtherAddress;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::system::{self, Number, Which};
use super::{TapKind, TapOptions};

/// An interface that was set up. Dropping it undoes what will not go with the interface.
#[derive(Debug)]
pub(super) struct Interface {
    name: String,
    changes: Vec<String>,
    /// How it was, where it was there before.
    before: Option<Before>,
}

/// How an interface was.
#[derive(Debug, Default)]
struct Before {
    flags: Option<c_int>,
    mtu: Option<c_int>,
    ether: Option<EtherAddress>,
    /// Address and mask; 0.0.0.0 for none.
    ipv4: Option<(Ipv4Addr, Ipv4Addr)>,
    /// A router that was made the default one.
    gateway: Option<Ipv4Addr>,
    /// An address that was added.
    ipv6: Option<(u32, std::net::Ipv6Addr, u8)>,
}

/// A step that failed.
type Failure = (&'static str, io::Error);

impl Interface {
    /// Whether there is an interface of this name.
    pub(super) fn exists(name: &str) -> bool {
        index(name).is_ok()
    }

    /// Sets up an interface. `existed` says that it was there before.
    pub(super) fn set_up(name: &str, existed: bool, options: &TapOptions) -> Result<Self, Failure> {
        let made = match options.kind {
            TapKind::Tap => "the TAP interface is there until the end",
            TapKind::Tun => "the TUN interface is there until the end",
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

    /// What was done, in sentences.
    pub(super) fn changes(&self) -> &[String] {
        &self.changes
    }

    /// The longest packet without its Ethernet header, in bytes.
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
            if let Some(before) = before {
                let of = |which| system::ipv4(name, which).unwrap_or(Ipv4Addr::UNSPECIFIED);
                before.ipv4 = Some((of(Which::Address), of(Which::Netmask)));
            }
            // The mask of an address follows its class until it is set.
            let result = system::set_ipv4(name, Which::Address, prefix.address())
                .and_then(|()| system::set_ipv4(name, Which::Netmask, prefix.mask()));
            result.map_err(step("set its IPv4 address"))?;
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
            let index = index(name).map_err(step("look it up"))?;
            system::set_ipv6(index, prefix.address(), prefix.length(), true)
                .map_err(step("set its IPv6 address"))?;
            if let Some(before) = before {
                before.ipv6 = Some((index, prefix.address(), prefix.length()));
            }
            changes.push(format!("the machine has the address {prefix} on it"));
        }
        if let Some(gateway) = options.gateway {
            system::set_default_route(name, gateway, true)
                .map_err(step("set the default route"))?;
            if let Some(before) = before {
                before.gateway = Some(gateway);
            }
            changes.push(format!("the machine's default route leads by {gateway}"));
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
        if let Some((index, address, length)) = before.ipv6 {
            let _ = system::set_ipv6(index, address, length, false);
        }
        if let Some((address, mask)) = before.ipv4 {
            let _ = system::set_ipv4(name, Which::Address, address);
            if !address.is_unspecified() {
                let _ = system::set_ipv4(name, Which::Netmask, mask);
            }
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

/// The number of an interface.
fn index(name: &str) -> io::Result<u32> {
    let flags = SocketFlags::CLOEXEC;
    let any = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    Ok(rustix::net::netdevice::name_to_index(any, name)?)
}
