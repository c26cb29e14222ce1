//! Packet sockets without rings: messages, a system call for each burst.

#![allow(unsafe_code, reason = "system calls that take pointers")]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::AsRawFd;

use libc::{c_void, socklen_t};
use millrace_core::{Packet, Timestamp};

use super::frame::{Arrival, vlan_of};
use super::socket::{PacketSocket, check};
use crate::offload;
use crate::offload::merge;

/// The maximum number of messages received with one call.
pub(super) const MESSAGES: usize = 32;
/// Bytes of a message that do not fit in its packet buffer, at most.
const OVERFLOW: usize = 1 << 16;

/// Where one call of [`PacketSocket::receive`] puts everything except the packets' first bytes.
pub(super) struct Inbox {
    headers: Vec<[u8; offload::HEADER]>,
    addresses: Vec<libc::sockaddr_ll>,
    controls: Vec<Control>,
    /// [`OVERFLOW`] bytes for each message.
    overflow: Vec<u8>,
    arrivals: Vec<Arrival>,
}

/// Room for the control messages of one packet.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct Control([u8; 128]);

impl Inbox {
    pub(super) fn new() -> Self {
        // SAFETY: a socket address is plain numbers, for which zeros are values.
        let address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        Self {
            headers: vec![[0; offload::HEADER]; MESSAGES],
            addresses: vec![address; MESSAGES],
            controls: vec![Control([0; 128]); MESSAGES],
            overflow: vec![0; MESSAGES * OVERFLOW],
            arrivals: Vec::with_capacity(MESSAGES),
        }
    }

    /// The received messages, and the bytes of each packet that did not fit in its buffer.
    pub(super) fn arrivals(&self) -> impl Iterator<Item = (&Arrival, &[u8])> {
        self.arrivals.iter().zip(self.overflow.chunks(OVERFLOW))
    }
}

impl PacketSocket {
    /// Receives into the buffers of the packets, one message each, at most [`MESSAGES`]; bytes that do not
    /// fit go to the inbox. Returns the number of messages.
    pub(super) fn receive(&self, inbox: &mut Inbox, packets: &mut [Packet]) -> io::Result<usize> {
        let Inbox { headers, addresses, controls, overflow, arrivals } = inbox;
        arrivals.clear();
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
                self.as_raw_fd(),
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
            let mut arrival = Arrival {
                length: (call.msg_len as usize).saturating_sub(offload::HEADER),
                header: *header,
                packet_type: address.sll_pkttype,
                ..Arrival::default()
            };
            // SAFETY: the kernel has filled in this header; its control buffer is alive.
            unsafe { read_controls(&call.msg_hdr, &mut arrival) };
            arrivals.push(arrival);
        }
        Ok(received)
    }

    /// Sends messages made from the packets. Returns how many messages were accepted.
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
                self.as_raw_fd(),
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
unsafe fn read_controls(header: &libc::msghdr, arrival: &mut Arrival) {
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
                arrival.vlan = vlan_of(data.tp_status, [data.tp_vlan_tpid, data.tp_vlan_tci]);
            }
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) if length >= size_of::<libc::timespec>() => {
                // SAFETY: as above.
                let time: libc::timespec =
                    unsafe { data.cast::<libc::timespec>().read_unaligned() };
                let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
                arrival.timestamp = Some(Timestamp::new(time.tv_sec, nanos));
            }
            _ => {}
        }
        // SAFETY: `control` is a control message of `header`.
        control = unsafe { libc::CMSG_NXTHDR(header, control) };
    }
}
