//! Safe wrappers of the system calls for packet sockets.

#![allow(unsafe_code, reason = "system calls that take pointers")]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use libc::{c_int, socklen_t};
use millrace_core::Lock;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::bpf::Instruction;

/// A packet socket that does not block.
#[derive(Debug)]
pub(super) struct PacketSocket {
    descriptor: OwnedFd,
    counted: Lock<Counted>,
}

/// The kernel's counts since a socket was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    /// Packets that it has stored for us.
    pub(super) received: u64,
    /// Packets that it has dropped for lack of room.
    pub(super) dropped: u64,
}

/// Bytes that the kernel may store for us before it drops packets.
const RECEIVE_BUFFER: c_int = 32 << 20;
/// Bytes that may be in flight to the interface.
const SEND_BUFFER: c_int = 4 << 20;

impl PacketSocket {
    /// A socket that is not bound, so that nothing arrives.
    pub(super) fn open() -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let descriptor =
            rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
        Ok(Self { descriptor, counted: Lock::default() })
    }

    /// Requests the header of virtio-net in front of each packet.
    pub(super) fn show_offloads(&self) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)
    }

    /// Requests all information about packets that are received as messages, and a large buffer.
    pub(super) fn receive_messages(&self, timestamps: bool) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, &1)?;
        self.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &c_int::from(timestamps))?;
        self.enlarge(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, RECEIVE_BUFFER);
        Ok(())
    }

    /// Makes a ring of the kind `option`, with headers in the format of TPACKET_V3.
    pub(super) fn make_ring(&self, option: c_int, ring: &libc::tpacket_req3) -> io::Result<()> {
        let version = libc::tpacket_versions::TPACKET_V3 as c_int;
        self.set(libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        self.set(libc::SOL_PACKET, option, ring)
    }

    /// Makes room for whole batches to be sent.
    pub(super) fn enlarge_send_buffer(&self) {
        self.enlarge(libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, SEND_BUFFER);
    }

    /// Sets the size of a buffer, beyond the limit for users where that is allowed. A smaller buffer also
    /// works.
    fn enlarge(&self, forced: c_int, plain: c_int, bytes: c_int) {
        if self.set(libc::SOL_SOCKET, forced, &bytes).is_err() {
            let _ = self.set(libc::SOL_SOCKET, plain, &bytes);
        }
    }

    /// Excludes packets that this machine sends. Kernels before 4.20 cannot do this: there, such packets are
    /// recognised by their type, and dropped later.
    pub(super) fn ignore_outgoing(&self) {
        let _ = self.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1);
    }

    /// Makes an interface receive packets for all hosts until the socket is closed.
    pub(super) fn be_promiscuous(&self, interface: c_int) -> io::Result<()> {
        let request = libc::packet_mreq {
            mr_ifindex: interface,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
    }

    /// Makes the kernel drop packets that a BPF program rejects; replaces the previous program. An empty
    /// program removes the filter.
    pub(super) fn set_filter(&self, program: &[Instruction]) -> io::Result<()> {
        if program.is_empty() {
            return match self.set(libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0) {
                Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
                _ => Ok(()),
            };
        }
        let instruction = |&(code, jt, jf, k): &Instruction| libc::sock_filter { code, jt, jf, k };
        let mut instructions: Vec<libc::sock_filter> = program.iter().map(instruction).collect();
        let len = u16::try_from(instructions.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        // The kernel copies the instructions while `set` runs; they live until after it.
        let program = libc::sock_fprog { len, filter: instructions.as_mut_ptr() };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Binds the socket to an interface and to an EtherType; with 0 it receives nothing.
    pub(super) fn bind(&self, interface: c_int, protocol: u16) -> io::Result<()> {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: protocol.to_be(),
            sll_ifindex: interface,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: `address` is a whole socket address of the given length, which the call only reads.
        check(unsafe {
            libc::bind(
                self.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as socklen_t,
            )
        })?;
        Ok(())
    }

    /// The interface that the socket is bound to; `None` when it is gone.
    pub(super) fn interface(&self) -> Option<c_int> {
        // SAFETY: a socket address is plain numbers, for which zeros are values.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let mut length = size_of::<libc::sockaddr_ll>() as socklen_t;
        // SAFETY: `address` and `length` are valid for writing, and `length` tells the size.
        let result = check(unsafe {
            libc::getsockname(self.as_raw_fd(), (&raw mut address).cast(), &raw mut length)
        });
        result.ok().map(|_| address.sll_ifindex).filter(|index| *index > 0)
    }

    /// Returns the error on the socket since the last call.
    pub(super) fn take_error(&self) -> io::Result<()> {
        rustix::net::sockopt::socket_error(&self.descriptor)?.map_err(io::Error::from)
    }

    /// The kernel's counts.
    pub(super) fn counted(&self) -> io::Result<Counted> {
        // What sockets without rings answer is shorter, with the same beginning.
        let mut stats = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
        // It forgets what it has told.
        let mut counted = self.counted.lock();
        self.get(libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut stats)?;
        counted.received += u64::from(stats.tp_packets.saturating_sub(stats.tp_drops));
        counted.dropped += u64::from(stats.tp_drops);
        Ok(*counted)
    }

    /// Joins the sockets that share the packets of an interface as `group` (its number, with kind and flags
    /// in the upper bits).
    pub(super) fn join_fanout(&self, group: u32) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_FANOUT, &group)
    }

    /// The number of its group.
    pub(super) fn fanout(&self) -> io::Result<u16> {
        let mut group = 0u32;
        self.get(libc::SOL_PACKET, libc::PACKET_FANOUT, &mut group)?;
        Ok(group as u16)
    }

    /// Makes the kernel send what waits in the transmit ring. Returns how many bytes of packets it accepted.
    pub(super) fn send_ring(&self) -> io::Result<usize> {
        // SAFETY: no buffer is given.
        let sent = unsafe { libc::send(self.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    fn get<T: Copy>(&self, level: c_int, option: c_int, value: &mut T) -> io::Result<()> {
        let mut length = size_of::<T>() as socklen_t;
        // SAFETY: `value` and `length` are valid for writing, and `length` says how long `value` is;
        // it is plain numbers, of which any are values.
        check(unsafe {
            let value = std::ptr::from_mut(value).cast();
            libc::getsockopt(self.as_raw_fd(), level, option, value, &raw mut length)
        })?;
        Ok(())
    }

    fn set<T: Copy>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        // SAFETY: `value` is valid for reading, and its size is given.
        check(unsafe {
            libc::setsockopt(
                self.as_raw_fd(),
                level,
                option,
                std::ptr::from_ref(value).cast(),
                size_of::<T>() as socklen_t,
            )
        })?;
        Ok(())
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl AsRawFd for PacketSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}

/// Makes a request to the kernel about an interface (netdevice(7)): returns the first bytes of the answer.
pub(super) fn ask_interface(name: &str, request: libc::Ioctl) -> io::Result<[u8; 16]> {
    let any = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: zeros are a value of this struct of bytes, numbers and pointers.
    let mut call: libc::ifreq = unsafe { std::mem::zeroed() };
    // One byte stays zero: the end of the name.
    let room = call.ifr_name.len() - 1;
    for (to, from) in call.ifr_name.iter_mut().take(room).zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the kernel reads and writes no more than an `ifreq` for the requests of netdevice(7).
    check(unsafe { libc::ioctl(any.as_raw_fd(), request, &raw mut call) })?;
    // SAFETY: every variant of the union may be read as bytes; it is longer than 16 bytes, and all of
    // it was zeroed or written by the kernel.
    Ok(unsafe { (&raw const call.ifr_ifru).cast::<[u8; 16]>().read() })
}

/// The result of a system call.
pub(super) fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
