//! The system calls of packet sockets, in safe dress.

#![allow(unsafe_code, reason = "system calls that take pointers")]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::{c_int, c_void, socklen_t};
use millrace_core::{Packet, Timestamp};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::offload::{self, merge};

/// A packet socket that does not block.
#[derive(Debug)]
pub(super) struct PacketSocket(OwnedFd);

/// Bytes that the kernel may keep for us before it drops packets.
const RECEIVE_BUFFER: c_int = 32 << 20;
/// Bytes that may be on their way to the interface.
const SEND_BUFFER: c_int = 4 << 20;

impl PacketSocket {
    /// A socket that is bound to nothing, so that nothing arrives.
    pub(super) fn open() -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        Ok(Self(rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?))
    }

    /// Asks for all that is to be known of received packets.
    pub(super) fn prepare_to_receive(&self, timestamps: bool) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)?;
        self.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, &1)?;
        self.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &c_int::from(timestamps))?;
        self.enlarge(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, RECEIVE_BUFFER);
        Ok(())
    }

    /// Announces the header of virtio-net, and gets room for whole batches.
    pub(super) fn prepare_to_transmit(&self) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)?;
        self.enlarge(libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, SEND_BUFFER);
        Ok(())
    }

    /// Sets the size of a buffer, beyond the limit for users where that is allowed. A smaller buffer
    /// works, too.
    fn enlarge(&self, forced: c_int, plain: c_int, bytes: c_int) {
        if self.set(libc::SOL_SOCKET, forced, &bytes).is_err() {
            let _ = self.set(libc::SOL_SOCKET, plain, &bytes);
        }
    }

    /// Leaves out what this machine sends. Kernels before 4.20 cannot: those packets are told by
    /// their type, and left out later.
    pub(super) fn ignore_outgoing(&self) {
        let _ = self.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1);
    }

    /// Has an interface receive packets for all hosts until the socket is closed.
    pub(super) fn be_promiscuous(&self, interface: c_int) -> io::Result<()> {
        let request = libc::packet_mreq {
            mr_ifindex: interface,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
    }

    /// Has the kernel drop packets that a BPF program (code, jt, jf, k) refuses.
    pub(super) fn attach_filter(&self, program: &[(u16, u8, u8, u32)]) -> io::Result<()> {
        if program.is_empty() {
            return Ok(());
        }
        let instruction =
            |&(code, jt, jf, k): &(u16, u8, u8, u32)| libc::sock_filter { code, jt, jf, k };
        let mut instructions: Vec<libc::sock_filter> = program.iter().map(instruction).collect();
        let len = u16::try_from(instructions.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        // The kernel copies the instructions while `set` runs; they live until after it.
        let program = libc::sock_fprog { len, filter: instructions.as_mut_ptr() };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Binds the socket to an interface and to an EtherType; 0 receives nothing.
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
                self.0.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as socklen_t,
            )
        })?;
        Ok(())
    }

    /// Packets that the kernel dropped for want of room since the last call.
    pub(super) fn take_drops(&self) -> io::Result<u32> {
        let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of::<libc::tpacket_stats>() as socklen_t;
        // SAFETY: `stats` and `length` are valid for writing, and `length` says how long `stats` is.
        check(unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut length,
            )
        })?;
        Ok(stats.tp_drops)
    }

    /// A descriptor of its own for the same socket.
    pub(super) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }

    fn set<T: Copy>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        // SAFETY: `value` is valid for reading, and its size is given.
        check(unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
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
        self.0.as_fd()
    }
}

/// Asks the kernel about an interface (netdevice(7)): the first bytes of what the request answers.
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
fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Messages received with one call.
pub(super) const MESSAGES: usize = 32;
/// Bytes of a message that may lie behind its packet buffer.
const OVERFLOW: usize = 1 << 16;

/// Where one call of [`PacketSocket::receive`] puts all but the packets' first bytes.
pub(super) struct Inbox {
    headers: Vec<[u8; offload::HEADER]>,
    addresses: Vec<libc::sockaddr_ll>,
    controls: Vec<Control>,
    /// [`OVERFLOW`] bytes for each message.
    overflow: Vec<u8>,
    messages: Vec<Message>,
}

/// Room for the control messages of one packet.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct Control([u8; 128]);

/// What is known of a received packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Message {
    /// Bytes of the packet, those beyond the buffers included.
    pub(super) length: usize,
    /// The header of virtio-net.
    pub(super) header: [u8; offload::HEADER],
    /// `PACKET_HOST`, `PACKET_BROADCAST`, ...
    pub(super) packet_type: u8,
    /// The protocol and the control information of a VLAN tag that the kernel took out.
    pub(super) vlan: Option<(u16, u16)>,
    /// When it arrived.
    pub(super) timestamp: Option<Timestamp>,
}

impl Inbox {
    pub(super) fn new() -> Self {
        // SAFETY: a socket address is plain numbers, for which zeros are values.
        let address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        Self {
            headers: vec![[0; offload::HEADER]; MESSAGES],
            addresses: vec![address; MESSAGES],
            controls: vec![Control([0; 128]); MESSAGES],
            overflow: vec![0; MESSAGES * OVERFLOW],
            messages: Vec::with_capacity(MESSAGES),
        }
    }

    /// What was received, and the bytes of each packet that did not fit its buffer.
    pub(super) fn messages(&self) -> impl Iterator<Item = (&Message, &[u8])> {
        self.messages.iter().zip(self.overflow.chunks(OVERFLOW))
    }
}

impl PacketSocket {
    /// Receives into the buffers of the packets, one each, at most [`MESSAGES`]; what does not fit
    /// goes into the inbox. Returns how many came.
    pub(super) fn receive(&self, inbox: &mut Inbox, packets: &mut [Packet]) -> io::Result<usize> {
        let Inbox { headers, addresses, controls, overflow, messages } = inbox;
        messages.clear();
        let mut vectors = [[MaybeUninit::<libc::iovec>::uninit(); 3]; MESSAGES];
        let mut calls = [const { MaybeUninit::<libc::mmsghdr>::zeroed() }; MESSAGES];
        let mut wanted = 0;
        let parts = headers.iter_mut().zip(addresses.iter_mut()).zip(controls.iter_mut());
        let parts = parts.zip(overflow.chunks_mut(OVERFLOW)).zip(packets.iter_mut());
        for (((((header, address), control), overflow), packet), (vector, call)) in
            parts.zip(vectors.iter_mut().zip(&mut calls))
        {
            let into = |bytes: &mut [u8]| {
                let iov_base = bytes.as_mut_ptr().cast::<c_void>();
                MaybeUninit::new(libc::iovec { iov_base, iov_len: bytes.len() })
            };
            *vector = [into(header), into(packet.buffer_mut()), into(overflow)];
            // SAFETY: zeroed above, and zeros are a value of this struct of numbers and pointers.
            let call = unsafe { call.assume_init_mut() };
            call.msg_hdr.msg_name = std::ptr::from_mut(address).cast();
            call.msg_hdr.msg_namelen = size_of::<libc::sockaddr_ll>() as socklen_t;
            call.msg_hdr.msg_iov = vector.as_mut_ptr().cast();
            call.msg_hdr.msg_iovlen = vector.len();
            call.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            call.msg_hdr.msg_controllen = control.0.len();
            wanted += 1;
        }
        // SAFETY: the first `wanted` entries of `calls` point to memory that is borrowed mutably here:
        // headers, addresses, controls, overflow and packets, one each, with their true lengths.
        let received = check(unsafe {
            libc::recvmmsg(
                self.0.as_raw_fd(),
                calls.as_mut_ptr().cast(),
                wanted,
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
                std::ptr::null_mut(),
            )
        })?;
        let received = received as usize;
        for ((call, header), address) in
            calls.iter().zip(headers.iter()).zip(addresses.iter()).take(received)
        {
            // SAFETY: zeroed above.
            let call = unsafe { call.assume_init_ref() };
            let mut message = Message {
                length: (call.msg_len as usize).saturating_sub(offload::HEADER),
                header: *header,
                packet_type: address.sll_pkttype,
                ..Message::default()
            };
            // SAFETY: the kernel has filled in this header; its control buffer is alive.
            unsafe { read_controls(&call.msg_hdr, &mut message) };
            messages.push(message);
        }
        Ok(received)
    }

    /// Sends messages made of the packets. Returns how many messages were taken.
    pub(super) fn send(
        &self,
        messages: &[merge::Message],
        packets: &[Packet],
        outbox: &mut Outbox,
    ) -> io::Result<usize> {
        let Outbox { vectors, calls } = outbox;
        vectors.clear();
        calls.clear();
        // The kernel does not write to it.
        let from = |bytes: &[u8]| libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        for message in messages {
            vectors.push(from(message.head()));
            let parts = packets.get(message.packets.clone()).unwrap_or_default();
            vectors.extend(parts.iter().map(|packet| from(message.body(packet))));
        }
        let mut rest = vectors.as_mut_slice();
        for message in messages {
            let Some((own, others)) = rest.split_at_mut_checked(1 + message.packets.len()) else {
                break;
            };
            rest = others;
            // SAFETY: zeros are a value of this struct of numbers and pointers.
            let mut call: libc::mmsghdr = unsafe { std::mem::zeroed() };
            call.msg_hdr.msg_iov = own.as_mut_ptr();
            call.msg_hdr.msg_iovlen = own.len();
            calls.push(call);
        }
        // SAFETY: each entry points to entries of `vectors`, and those to the heads of messages and
        // the bytes of packets, all of which are borrowed until after the call.
        let sent = check(unsafe {
            libc::sendmmsg(
                self.0.as_raw_fd(),
                calls.as_mut_ptr(),
                calls.len() as u32,
                libc::MSG_DONTWAIT,
            )
        })?;
        Ok(sent as usize)
    }
}

/// Memory for [`PacketSocket::send`], which holds nothing between calls.
#[derive(Default)]
pub(super) struct Outbox {
    vectors: Vec<libc::iovec>,
    calls: Vec<libc::mmsghdr>,
}

// SAFETY: the pointers in it are of the last call, and are written anew before they are used again.
unsafe impl Send for Outbox {}

/// Reads the control messages of a packet.
///
/// # Safety
/// The kernel filled in `header`, and its control buffer is alive.
unsafe fn read_controls(header: &libc::msghdr, message: &mut Message) {
    // SAFETY: the caller's promise.
    let mut control = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: not null, hence within the control buffer, as the kernel made it.
    while let Some(current) = unsafe { control.as_ref() } {
        // SAFETY: `control` points to a control message.
        let data = unsafe { libc::CMSG_DATA(control) };
        // The kernel's length of a message covers its header, too.
        let length = current.cmsg_len.saturating_sub(data.addr() - control.addr());
        match (current.cmsg_level, current.cmsg_type) {
            (libc::SOL_PACKET, libc::PACKET_AUXDATA)
                if length >= size_of::<libc::tpacket_auxdata>() =>
            {
                // SAFETY: so many bytes of data follow the header; the place may be unaligned.
                let data: libc::tpacket_auxdata =
                    unsafe { data.cast::<libc::tpacket_auxdata>().read_unaligned() };
                message.vlan = vlan_of(&data);
            }
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) if length >= size_of::<libc::timespec>() => {
                // SAFETY: as above.
                let time: libc::timespec =
                    unsafe { data.cast::<libc::timespec>().read_unaligned() };
                let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
                message.timestamp = Some(Timestamp::new(time.tv_sec, nanos));
            }
            _ => {}
        }
        // SAFETY: `control` is a control message of `header`.
        control = unsafe { libc::CMSG_NXTHDR(header, control) };
    }
}

fn vlan_of(data: &libc::tpacket_auxdata) -> Option<(u16, u16)> {
    const IEEE_802_1Q: u16 = 0x8100;
    if data.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let named = data.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    Some((if named { data.tp_vlan_tpid } else { IEEE_802_1Q }, data.tp_vlan_tci))
}
