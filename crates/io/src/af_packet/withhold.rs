//! Keeps packets from the kernel's own network stack.
//!
//! Packet sockets get a copy of each packet before anything else sees it; directly after them is the ingress
//! hook for traffic control. There we attach a program of two instructions that drops everything. It is
//! attached by a link (TCX, since Linux 6.6; bpf(2), BPF_LINK_CREATE), so it is removed when the link's
//! descriptor is closed, also when this process is killed. Other programs at the same hook still run before
//! it. On older kernels it is a traffic control filter (`traffic_control.rs`).

#![allow(unsafe_code, reason = "a system call that takes pointers")]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use libc::c_int;

use super::socket::check;
use super::traffic_control::Filter;

/// Until this is dropped, the kernel's own stack gets no packets from an interface.
#[derive(Debug)]
pub(super) enum Withheld {
    /// By a link, which is closed when this is dropped.
    Linked { _link: OwnedFd },
    /// By a filter, which is deleted when this is dropped.
    Filtered { _filter: Filter },
}

/// The start of `union bpf_attr` for `BPF_PROG_LOAD`.
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

/// The start of `union bpf_attr` for `BPF_LINK_CREATE`.
#[repr(C)]
struct Attach {
    program: RawFd,
    interface: c_int,
    place: u32,
    flags: u32,
}

impl Withheld {
    /// Keeps packets from the kernel with the method that it supports.
    pub(super) fn from(interface: c_int) -> io::Result<Self> {
        match Self::by_link(interface) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Self::by_filter(interface),
            outcome => outcome,
        }
    }

    /// The method, as text for users.
    pub(super) fn means(&self) -> &'static str {
        match self {
            Self::Linked { .. } => "a program at TCX ingress",
            Self::Filtered { .. } => "a filter at ingress, pref 19794",
        }
    }

    fn by_link(interface: c_int) -> io::Result<Self> {
        const LINK_CREATE: c_int = 28;
        const TCX_INGRESS: u32 = 46;
        let program = load()?;
        let attach =
            Attach { program: program.as_raw_fd(), interface, place: TCX_INGRESS, flags: 0 };
        // SAFETY: it refers to no memory.
        let link = unsafe { bpf(LINK_CREATE, &attach) }?;
        Ok(Self::Linked { _link: link })
    }

    fn by_filter(interface: c_int) -> io::Result<Self> {
        Ok(Self::Filtered { _filter: Filter::new(interface, &load()?)? })
    }
}

/// Loads the program that drops everything.
fn load() -> io::Result<OwnedFd> {
    const PROG_LOAD: c_int = 5;
    const SCHED_CLS: u32 = 3;
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
    unsafe { bpf(PROG_LOAD, &load) }
}

/// A call of bpf(2) that creates a descriptor.
///
/// # Safety
/// Everything that the attributes refer to is valid until the call returns.
unsafe fn bpf<T>(command: c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the attributes are as long as told; the rest is the caller's promise.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>())
    };
    let descriptor = check(c_int::try_from(result).unwrap_or(-1))?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::process::{Command, Output};
    use std::time::Duration;

    use rustix::thread::{UnshareFlags, unshare_unsafe};

    use super::super::interface::Interface;
    use super::*;

    /// With each method, although a given kernel uses only one of them.
    #[test]
    fn packets_are_withheld_and_come_back() {
        let Some(_alone) = millrace_testkit::privileged!("ip", "tc") else { return };
        // A thread of its own, and with it a network of its own.
        std::thread::spawn(|| {
            // SAFETY: this thread shares no descriptors that depend on its network.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
            run("ip", "link set dev lo up");
            let interface = Interface::find("lo").unwrap().index;
            for means in [Withheld::by_link, Withheld::by_filter, Withheld::from] {
                assert!(reaches_itself());
                let withheld = means(interface).unwrap();
                assert!(!reaches_itself(), "{}", withheld.means());
                drop(withheld);
            }
            // What a killed process leaves is replaced, and taken away in the end.
            std::mem::forget(Withheld::by_filter(interface).unwrap());
            assert!(!reaches_itself());
            drop(Withheld::by_filter(interface).unwrap());
            assert!(reaches_itself());
            let left = run("tc", "filter show dev lo ingress");
            assert!(left.stdout.is_empty(), "{left:?}");
            let place = || String::from_utf8(run("tc", "qdisc show dev lo").stdout).unwrap();
            assert!(place().contains("clsact"), "the killed one has made it");
            run("tc", "qdisc delete dev lo clsact");
            // What others put there meanwhile stays, and so does the place.
            let ours = Withheld::by_filter(interface).unwrap();
            let mine = "filter add dev lo ingress pref 5 u32 match u32 0 0 action ok";
            let tc = millrace_testkit::find_program("tc").unwrap();
            // The kernel may have no such filters.
            let added = Command::new(tc).args(mine.split(' ')).output().unwrap().status.success();
            drop(ours);
            assert_eq!(place().contains("clsact"), added);
        })
        .join()
        .unwrap();
    }

    fn reaches_itself() -> bool {
        let host = UdpSocket::bind("127.0.0.1:0").unwrap();
        host.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        host.send_to(&[7], host.local_addr().unwrap()).unwrap();
        host.recv(&mut [0; 16]).is_ok()
    }

    fn run(program: &str, arguments: &str) -> Output {
        let program = millrace_testkit::find_program(program).unwrap();
        let output = Command::new(program).args(arguments.split(' ')).output().unwrap();
        assert!(output.status.success(), "{arguments}: {output:?}");
        output
    }
}
