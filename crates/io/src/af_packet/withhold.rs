//! Keeping packets from the kernel's own network stack.
//!
//! Packet sockets get a copy of each packet before anything else looks at it; what comes right behind
//! them is the ingress hook for traffic control. There we attach a program of two instructions that
//! drops everything. It is attached by a link (TCX, since Linux 6.6; bpf(2), BPF_LINK_CREATE), so it
//! goes when the link's descriptor is closed, also when this process is killed. Programs of others at
//! the same hook go on to run before it.

#![allow(unsafe_code, reason = "a system call that takes pointers")]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use libc::c_int;

use super::socket::check;

/// As long as this lives, the kernel's own stack gets no packets of an interface.
#[derive(Debug)]
pub(super) struct Withheld {
    _link: OwnedFd,
}

/// The beginning of `union bpf_attr` for `BPF_PROG_LOAD`.
#[repr(C)]
struct Load {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
}

/// The beginning of `union bpf_attr` for `BPF_LINK_CREATE`.
#[repr(C)]
struct Attach {
    program: RawFd,
    interface: c_int,
    place: u32,
    flags: u32,
}

impl Withheld {
    pub(super) fn from(interface: c_int) -> io::Result<Self> {
        const PROG_LOAD: c_int = 5;
        const LINK_CREATE: c_int = 28;
        const SCHED_CLS: u32 = 3;
        const TCX_INGRESS: u32 = 46;
        /// `r0 = 2` (TC_ACT_SHOT), `exit`: eight bytes each, the constant in the upper half.
        const DROP: [u64; 2] = [0xb7 | 2 << 32, 0x95];
        let load = Load {
            kind: SCHED_CLS,
            instructions: DROP.len() as u32,
            code: DROP.as_ptr().addr() as u64,
            license: c"MIT".as_ptr().addr() as u64,
            log_level: 0,
            log_size: 0,
            log: 0,
        };
        // SAFETY: it reads the instructions and the license, which are constants.
        let program = unsafe { bpf(PROG_LOAD, &load) }?;
        let attach =
            Attach { program: program.as_raw_fd(), interface, place: TCX_INGRESS, flags: 0 };
        // SAFETY: it refers to no memory.
        let link = unsafe { bpf(LINK_CREATE, &attach) };
        match link {
            Ok(link) => Ok(Self { _link: link }),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Err(io::Error::other(
                "the kernel is older than Linux 6.6, which has the means (TCX)",
            )),
            Err(error) => Err(error),
        }
    }
}

/// A call of bpf(2) that makes a descriptor.
///
/// # Safety
/// What the attributes refer to is valid until the call returns.
unsafe fn bpf<T>(command: c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the attributes are as long as told; the rest is the caller's promise.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>())
    };
    let descriptor = check(c_int::try_from(result).unwrap_or(-1))?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
