//! Safe wrappers of the system calls for AF_XDP sockets and BPF.
//!
//! Sources: the kernel's `Documentation/networking/af_xdp.rst`, `linux/if_xdp.h`, bpf(2), `linux/bpf.h`.

#![allow(unsafe_code, reason = "system calls that take pointers")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use libc::{c_int, c_uint, c_void, socklen_t};

/// How long to retry a queue or an interface that is in use: the kernel releases the resources of an ended
/// process some milliseconds after its end.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);

/// Repeats an operation until it no longer returns that something is busy.
pub(super) fn while_busy<T>(mut step: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let end = Instant::now() + PATIENCE;
    loop {
        match step() {
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
                    && Instant::now() < end =>
            {
                std::thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
}

/// The result of a system call.
pub(super) fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A socket that does not block.
pub(super) fn socket(family: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: a call without pointers.
    let fd = check(unsafe { libc::socket(family, kind, protocol) })?;
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a socket option.
pub(super) fn set<T: Copy>(
    socket: &OwnedFd,
    level: c_int,
    option: c_int,
    value: &T,
) -> io::Result<()> {
    let size = size_of::<T>() as socklen_t;
    // SAFETY: `value` is valid for reading, and its size is given.
    check(unsafe {
        let value = std::ptr::from_ref(value).cast();
        libc::setsockopt(socket.as_raw_fd(), level, option, value, size)
    })?;
    Ok(())
}

/// Types that [`get`] may read: plain numbers, for which any bytes are a value.
///
/// # Safety
/// Every pattern of bytes is a value of the type.
pub(super) unsafe trait Plain: Copy + Default {}

// SAFETY: a number.
unsafe impl Plain for c_int {}

/// Reads a socket option. Fields that an older kernel does not fill in stay 0.
pub(super) fn get<T: Plain>(socket: &OwnedFd, level: c_int, option: c_int) -> io::Result<T> {
    let mut value = T::default();
    let mut size = size_of::<T>() as socklen_t;
    // SAFETY: `value` and `size` are valid for writing, `size` says how long `value` is, and any bytes
    // are a value of the type.
    check(unsafe {
        let value = (&raw mut value).cast();
        libc::getsockopt(socket.as_raw_fd(), level, option, value, &raw mut size)
    })?;
    Ok(value)
}

/// Binds a socket to an address.
pub(super) fn bind<T: Copy>(socket: &OwnedFd, address: &T) -> io::Result<()> {
    let size = size_of::<T>() as socklen_t;
    // SAFETY: `address` is valid for reading, and its size is given.
    check(unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(address).cast(), size) })?;
    Ok(())
}

/// Makes the kernel transmit what is in the ring. The error of a full device is `EAGAIN`.
pub(super) fn kick_transmit(socket: &OwnedFd) -> io::Result<()> {
    // SAFETY: no bytes are given, so no pointer is followed.
    let result = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            std::ptr::null(),
            0,
            libc::MSG_DONTWAIT,
            std::ptr::null(),
            0,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes the kernel look at the fill ring, or poll the device if the socket is set to poll it.
pub(super) fn kick_receive(socket: &OwnedFd) -> io::Result<()> {
    // SAFETY: no bytes are taken, so no pointer is followed.
    let result = unsafe {
        libc::recvfrom(
            socket.as_raw_fd(),
            std::ptr::null_mut(),
            0,
            libc::MSG_DONTWAIT,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Discards what waits in a socket; returns whether there was anything.
pub(super) fn drain(socket: &OwnedFd) -> bool {
    let mut buffer = [0u8; 4096];
    let mut any = false;
    loop {
        // SAFETY: the buffer is valid for writing, and its length is given.
        let length = unsafe {
            let buffer: *mut c_void = buffer.as_mut_ptr().cast();
            libc::recv(socket.as_raw_fd(), buffer, 4096, libc::MSG_DONTWAIT)
        };
        // What is lost for want of room counts, too: something has changed.
        let is_overflow = io::Error::last_os_error().raw_os_error() == Some(libc::ENOBUFS);
        if length == 0 || length < 0 && !is_overflow {
            return any;
        }
        any = true;
    }
}

/// Memory that is shared with the kernel, until it is dropped.
#[derive(Debug)]
pub(super) struct Shared {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping hands out an address only.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Maps `len` bytes of a socket's rings; `which` is the ring's page offset.
    pub(super) fn map(socket: &OwnedFd, len: usize, which: libc::off_t) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let place = std::ptr::null_mut();
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(place, len, access, flags, socket.as_raw_fd(), which) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { base, len })
    }

    /// The address at `offset` bytes, if `len` bytes from there are inside the mapping.
    pub(super) fn at(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: the offset lies within the mapping, as just checked.
        Some(unsafe { self.base.add(offset) })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own. Failing, it stays mapped.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// The `bpf(2)` command with its attributes.
fn bpf<T>(command: c_int, attributes: &mut T) -> io::Result<c_int> {
    // SAFETY: each caller gives the attributes of its command, whose size is passed along; addresses in
    // them are valid for the length of the call.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<T>())
    };
    check(c_int::try_from(result).unwrap_or(-1))
}

fn new_object<T>(command: c_int, attributes: &mut T) -> io::Result<OwnedFd> {
    let fd = bpf(command, attributes)?;
    // SAFETY: these commands give a new descriptor, which is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Creates a map from queue numbers below `queues` to AF_XDP sockets.
pub(super) fn socket_map(queues: u32) -> io::Result<OwnedFd> {
    const BPF_MAP_CREATE: c_int = 0;
    const BPF_MAP_TYPE_XSKMAP: u32 = 17;
    #[repr(C)]
    struct Attributes {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
        map_flags: u32,
    }
    let mut attributes = Attributes {
        map_type: BPF_MAP_TYPE_XSKMAP,
        key_size: 4,
        value_size: 4,
        max_entries: queues,
        map_flags: 0,
    };
    new_object(BPF_MAP_CREATE, &mut attributes)
}

/// Puts a socket into a map, or removes the one that is there.
pub(super) fn set_in_map(map: &OwnedFd, queue: u32, socket: Option<&OwnedFd>) -> io::Result<()> {
    const BPF_MAP_UPDATE_ELEM: c_int = 2;
    const BPF_MAP_DELETE_ELEM: c_int = 3;
    #[repr(C)]
    struct Attributes {
        map: c_int,
        padding: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let value = socket.map_or(-1, AsRawFd::as_raw_fd);
    let mut attributes = Attributes {
        map: map.as_raw_fd(),
        padding: 0,
        key: (&raw const queue).addr() as u64,
        value: (&raw const value).addr() as u64,
        flags: 0,
    };
    let command = if socket.is_some() { BPF_MAP_UPDATE_ELEM } else { BPF_MAP_DELETE_ELEM };
    bpf(command, &mut attributes).map(|_| ())
}

/// An instruction of BPF (RFC 9669): operation, registers (source above destination), offset, value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    pub(super) code: u8,
    pub(super) registers: u8,
    pub(super) offset: i16,
    pub(super) value: i32,
}

/// Loads an XDP program. With `fragments` it accepts packets of several buffers.
pub(super) fn load_program(program: &[Instruction], fragments: bool) -> io::Result<OwnedFd> {
    const BPF_PROG_LOAD: c_int = 5;
    const BPF_PROG_TYPE_XDP: u32 = 6;
    const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
    const LICENSE: &std::ffi::CStr = c"Dual MIT/GPL";
    #[repr(C)]
    struct Attributes {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
        name: [u8; 16],
        interface: u32,
        attach_type: u32,
    }
    let mut attributes = Attributes {
        kind: BPF_PROG_TYPE_XDP,
        count: u32::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        instructions: program.as_ptr().addr() as u64,
        license: LICENSE.as_ptr().addr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: if fragments { BPF_F_XDP_HAS_FRAGS } else { 0 },
        name: *b"millrace\0\0\0\0\0\0\0\0",
        interface: 0,
        attach_type: BPF_XDP,
    };
    new_object(BPF_PROG_LOAD, &mut attributes)
}

const BPF_XDP: u32 = 37;

/// Runs a program on the packets that an interface receives, for as long as the descriptor is open: when the
/// process ends, in whatever way, the kernel detaches the program.
pub(super) fn link_program(
    program: &OwnedFd,
    interface: c_uint,
    in_driver: bool,
) -> io::Result<OwnedFd> {
    const BPF_LINK_CREATE: c_int = 28;
    const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
    const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
    #[repr(C)]
    struct Attributes {
        program: c_int,
        interface: u32,
        attach_type: u32,
        flags: u32,
    }
    let mut attributes = Attributes {
        program: program.as_raw_fd(),
        interface,
        attach_type: BPF_XDP,
        flags: if in_driver { XDP_FLAGS_DRV_MODE } else { XDP_FLAGS_SKB_MODE },
    };
    new_object(BPF_LINK_CREATE, &mut attributes)
}

/// Replaces the running program with another one; no packet is missed.
pub(super) fn replace_program(link: &OwnedFd, program: &OwnedFd) -> io::Result<()> {
    const BPF_LINK_UPDATE: c_int = 29;
    #[repr(C)]
    struct Attributes {
        link: c_int,
        program: c_int,
        flags: u32,
        old: u32,
    }
    let mut attributes =
        Attributes { link: link.as_raw_fd(), program: program.as_raw_fd(), flags: 0, old: 0 };
    bpf(BPF_LINK_UPDATE, &mut attributes).map(|_| ())
}

/// Makes a request to the kernel about the interface with this name (netdevice(7)).
pub(super) fn interface_call(
    any: &OwnedFd,
    name: &str,
    request: libc::Ioctl,
) -> io::Result<[u8; 16]> {
    let mut call = named_call(name);
    // SAFETY: the kernel reads and writes no more than an `ifreq` for the requests of netdevice(7).
    check(unsafe { libc::ioctl(any.as_raw_fd(), request, &raw mut call) })?;
    // SAFETY: every variant of the union may be read as bytes; it is longer than 16 bytes, and all of
    // it was zeroed or written by the kernel.
    Ok(unsafe { (&raw const call.ifr_ifru).cast::<[u8; 16]>().read() })
}

/// The same with an ethtool command, a list of words that the kernel reads and writes. The first word is the
/// command, which determines the number of words.
pub(super) fn ethtool_call(any: &OwnedFd, name: &str, words: &mut [u32]) -> io::Result<()> {
    const SIOCETHTOOL: libc::Ioctl = 0x8946;
    let mut call = named_call(name);
    call.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the kernel reads and writes as many bytes as the command has; `device.rs`, the one
    // caller, gives rows of that length.
    check(unsafe { libc::ioctl(any.as_raw_fd(), SIOCETHTOOL, &raw mut call) })?;
    Ok(())
}

fn named_call(name: &str) -> libc::ifreq {
    // SAFETY: zeros are a value of this struct of bytes, numbers and pointers.
    let mut call: libc::ifreq = unsafe { std::mem::zeroed() };
    // One byte stays zero: the end of the name.
    let room = call.ifr_name.len() - 1;
    for (to, from) in call.ifr_name.iter_mut().take(room).zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    call
}

/// Makes an interface receive packets for all hosts until the descriptor is closed.
pub(super) fn promiscuous(interface: c_int) -> io::Result<OwnedFd> {
    let socket = socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
    let request = libc::packet_mreq {
        mr_ifindex: interface,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(&socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)?;
    Ok(socket)
}

/// A socket on which the kernel reports each change to an interface (rtnetlink(7)).
pub(super) fn link_changes() -> io::Result<OwnedFd> {
    let socket = socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
    // SAFETY: zeros are a value of this struct of numbers.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as u16;
    address.nl_groups = libc::RTMGRP_LINK as u32;
    bind(&socket, &address)?;
    Ok(socket)
}
