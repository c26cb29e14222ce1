//! Safe wrappers of the system calls that create TAP interfaces.

#![allow(unsafe_code, reason = "system calls that take pointers")]

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};

use libc::{c_char, c_int, c_short, c_uint};
use millrace_core::net::EtherAddress;
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::offload;
use crate::options::TapKind;

/// A new queue of the interface `name`, which is created if it does not exist; if the name is empty, the
/// kernel chooses one. Returns the interface's name.
pub(super) fn attach(kind: TapKind, name: &str, several: bool) -> io::Result<(OwnedFd, String)> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
    let kind = match kind {
        TapKind::Tap => libc::IFF_TAP,
        TapKind::Tun => libc::IFF_TUN,
    };
    let several = if several { libc::IFF_MULTI_QUEUE } else { 0 };
    let mut call = Request::new(name)?;
    call.0.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI | libc::IFF_VNET_HDR | several) as c_short;
    call.make(&file, libc::TUNSETIFF)?;
    Ok((file, call.name()))
}

/// Sets the header in front of packets, and which work the kernel may leave to us.
pub(super) fn set_offloads(file: &OwnedFd, wanted: bool) -> io::Result<()> {
    let size = offload::HEADER as c_int;
    // SAFETY: the request reads one `c_int` from the pointer.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const size) })?;
    const TCP: c_uint =
        libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    const UDP: c_uint = libc::TUN_F_USO4 | libc::TUN_F_USO6;
    let set = |features: c_uint| {
        let features = libc::c_ulong::from(features);
        // SAFETY: the request takes a number and no pointer.
        check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, features) })
    };
    if !wanted {
        set(0)?;
    } else if set(TCP | UDP).is_err() {
        // Kernels before 6.2 know nothing of trains of datagrams.
        set(TCP)?;
    }
    Ok(())
}

/// A request about an interface (netdevice(7)).
pub(super) struct Request(libc::ifreq);

impl Request {
    /// A request about the interface with this name.
    pub(super) fn new(name: &str) -> io::Result<Self> {
        // SAFETY: zeros are a value of this struct of bytes, numbers and pointers.
        let mut call: libc::ifreq = unsafe { std::mem::zeroed() };
        // One byte stays zero: the end of the name.
        if name.len() >= call.ifr_name.len() || name.contains('\0') {
            return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
        }
        for (to, from) in call.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as c_char;
        }
        Ok(Self(call))
    }

    fn name(&self) -> String {
        let bytes = self.0.ifr_name.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0);
        String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
    }

    fn make(&mut self, on: &OwnedFd, request: libc::Ioctl) -> io::Result<()> {
        // SAFETY: the kernel reads and writes no more than an `ifreq` for TUNSETIFF and for the
        // requests of netdevice(7), which are all that are made here.
        check(unsafe { libc::ioctl(on.as_raw_fd(), request, &raw mut self.0) })?;
        Ok(())
    }

    fn ask(mut self, request: libc::Ioctl) -> io::Result<libc::ifreq> {
        self.make(&any_socket(AddressFamily::INET)?, request)?;
        Ok(self.0)
    }
}

/// The properties of an interface that can be read and set.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Flags,
    Mtu,
}

/// Reads a number.
pub(super) fn get(name: &str, what: Number) -> io::Result<c_int> {
    let call = Request::new(name)?;
    Ok(match what {
        Number::Flags => {
            let answer = call.ask(libc::SIOCGIFFLAGS as libc::Ioctl)?;
            // SAFETY: the kernel has written the flags.
            unsafe { answer.ifr_ifru.ifru_flags }.into()
        }
        Number::Mtu => {
            let answer = call.ask(libc::SIOCGIFMTU as libc::Ioctl)?;
            // SAFETY: the kernel has written the MTU.
            unsafe { answer.ifr_ifru.ifru_mtu }
        }
    })
}

/// Sets a number.
pub(super) fn set(name: &str, what: Number, value: c_int) -> io::Result<()> {
    let mut call = Request::new(name)?;
    let request = match what {
        Number::Flags => {
            call.0.ifr_ifru.ifru_flags = value as c_short;
            libc::SIOCSIFFLAGS
        }
        Number::Mtu => {
            call.0.ifr_ifru.ifru_mtu = value;
            libc::SIOCSIFMTU
        }
    };
    call.ask(request as libc::Ioctl).map(drop)
}

/// The interface's Ethernet address.
pub(super) fn ether(name: &str) -> io::Result<EtherAddress> {
    let call = Request::new(name)?.ask(libc::SIOCGIFHWADDR as libc::Ioctl)?;
    // SAFETY: the kernel has written a socket address.
    let data = unsafe { call.ifr_ifru.ifru_hwaddr.sa_data };
    let mut octets = [0; 6];
    octets.iter_mut().zip(data).for_each(|(to, from)| *to = from as u8);
    Ok(EtherAddress(octets))
}

/// Sets the interface's Ethernet address.
pub(super) fn set_ether(name: &str, address: EtherAddress) -> io::Result<()> {
    let mut call = Request::new(name)?;
    let mut data: [c_char; 14] = [0; 14];
    data.iter_mut().zip(address.octets()).for_each(|(to, from)| *to = from as c_char);
    call.0.ifr_ifru.ifru_hwaddr = libc::sockaddr { sa_family: libc::ARPHRD_ETHER, sa_data: data };
    call.ask(libc::SIOCSIFHWADDR as libc::Ioctl).map(drop)
}

/// Adds or removes a default route through a host that the interface reaches.
pub(super) fn set_default_route(name: &str, gateway: Ipv4Addr, add: bool) -> io::Result<()> {
    let mut device = [0 as c_char; libc::IFNAMSIZ];
    let room = device.len() - 1;
    device.iter_mut().take(room).zip(name.bytes()).for_each(|(to, from)| *to = from as c_char);
    // SAFETY: zeros are a value of this struct of numbers, socket addresses and a pointer.
    let mut route: libc::rtentry = unsafe { std::mem::zeroed() };
    route.rt_dst = socket_address(Ipv4Addr::UNSPECIFIED);
    route.rt_genmask = socket_address(Ipv4Addr::UNSPECIFIED);
    route.rt_gateway = socket_address(gateway);
    route.rt_flags = libc::RTF_UP | libc::RTF_GATEWAY;
    route.rt_dev = device.as_mut_ptr();
    let request = if add { libc::SIOCADDRT } else { libc::SIOCDELRT };
    let any = any_socket(AddressFamily::INET)?;
    // SAFETY: the request reads an `rtentry` and the name that it points to, which ends with a zero
    // and lives until after the call.
    check(unsafe { libc::ioctl(any.as_raw_fd(), request as libc::Ioctl, &raw const route) })?;
    Ok(())
}

/// A socket for requests to the kernel.
fn any_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?)
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    let mut data: [c_char; 14] = [0; 14];
    // Two bytes of port, then the address.
    data.iter_mut().skip(2).zip(address.octets()).for_each(|(to, from)| *to = from as c_char);
    libc::sockaddr { sa_family: libc::AF_INET as u16, sa_data: data }
}

/// The result of a system call.
fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
