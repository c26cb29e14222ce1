//! Receiving.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use millrace_core::memory::copies::{self, CopyCause};
use millrace_core::{Batch, Packet, PacketType};

use super::socket::{Inbox, MESSAGES, Message, PacketSocket};
use crate::offload::{Finished, Finisher, Offload};
use crate::queue::{QueueCounts, RxOptions, RxQueue};

/// The receive queue of an interface.
pub(super) struct Receiver {
    socket: PacketSocket,
    inbox: Inbox,
    /// Packets to receive into.
    spares: Vec<Packet>,
    /// Packets that are received and not yet handed on.
    ready: VecDeque<Packet>,
    limits: Limits,
    /// Drops that the kernel has told of; it forgets those that it has told.
    lost: Cell<u64>,
    segmented: u64,
}

/// What is kept of packets.
struct Limits {
    finisher: Finisher,
    outbound: bool,
}

/// Bytes received into a packet itself: any frame of the usual MTU.
const BUFFER: usize = 2048;

impl Receiver {
    pub(super) fn new(socket: PacketSocket, options: &RxOptions) -> Self {
        Self {
            socket,
            inbox: Inbox::new(),
            spares: Vec::with_capacity(MESSAGES),
            ready: VecDeque::new(),
            limits: Limits {
                finisher: Finisher { headroom: options.headroom, snap_length: options.snap_length },
                outbound: options.outbound,
            },
            lost: Cell::new(0),
            segmented: 0,
        }
    }

    /// Hands on what is ready, as much as there is room for.
    fn hand_on(&mut self, batch: &mut Batch, room: usize) -> usize {
        let n = room.min(self.ready.len());
        for packet in self.ready.drain(..n) {
            // There is room for n.
            let _ = batch.push(packet);
        }
        n
    }

    /// Receives up to `max` messages. Returns how many came.
    fn collect(&mut self, max: usize) -> io::Result<usize> {
        let wanted = max.min(MESSAGES);
        while self.spares.len() < wanted {
            // The kernel keeps the packets for as long as it can when we have no memory.
            let Some(packet) = Packet::stale(self.limits.finisher.headroom, 0, BUFFER) else {
                break;
            };
            self.spares.push(packet);
        }
        let available = wanted.min(self.spares.len());
        let spares = self.spares.get_mut(..available).unwrap_or_default();
        if spares.is_empty() {
            return Ok(0);
        }
        let received = match self.socket.receive(&mut self.inbox, spares) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(0),
            // A packet with an offload that the kernel has no words for: it has dropped it.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                self.add_lost(1);
                return Ok(0);
            }
            Err(error) => return Err(error),
        };
        copies::count_many(CopyCause::Receive, received as u64);
        let Self { inbox, spares, ready, limits, segmented, .. } = self;
        let mut lost = 0;
        for ((message, overflow), packet) in inbox.messages().zip(spares.drain(..received)) {
            match limits.unfold(message, overflow, packet, ready) {
                Finished::Whole => {}
                Finished::Cut => *segmented += 1,
                Finished::Lost => lost += 1,
            }
        }
        self.add_lost(lost);
        Ok(received)
    }

    fn add_lost(&self, n: u64) {
        self.lost.set(self.lost.get() + n);
    }
}

impl RxQueue for Receiver {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> io::Result<usize> {
        let room = max.min(batch.room());
        let mut n = self.hand_on(batch, room);
        while n < room {
            let wanted = room - n;
            let received = self.collect(wanted)?;
            n += self.hand_on(batch, wanted);
            if received < wanted.min(MESSAGES) {
                break;
            }
        }
        Ok(n)
    }

    fn readiness(&self) -> Option<OwnedFd> {
        self.socket.duplicate().ok()
    }

    fn counts(&self) -> QueueCounts {
        // Where the kernel does not tell, what is known is all there is.
        self.add_lost(self.socket.take_drops().unwrap_or(0).into());
        QueueCounts { lost: self.lost.get(), segmented: self.segmented }
    }
}

impl Limits {
    /// Makes finished packets of a message whose first bytes are in `packet`'s buffer and the others
    /// in `overflow`.
    fn unfold(
        &self,
        message: &Message,
        overflow: &[u8],
        mut packet: Packet,
        ready: &mut VecDeque<Packet>,
    ) -> Finished {
        let packet_type = packet_type(message.packet_type);
        if packet_type == PacketType::Outgoing && !self.outbound {
            return Finished::Whole;
        }
        let capacity = packet.buffer_mut().len();
        let Some(overflow) = overflow.get(..message.length.saturating_sub(capacity)) else {
            return Finished::Lost;
        };
        if !packet.set_len(message.length.min(capacity)) {
            return Finished::Lost;
        }
        packet.set_packet_type(packet_type);
        if let Some(timestamp) = message.timestamp {
            packet.set_timestamp(timestamp);
        }
        let mut offload = Offload::parse(&message.header);
        if let Some(tag) = message.vlan
            && insert_tag(&mut packet, tag)
        {
            offload.shift(TAG);
        }
        self.finisher.finish(offload, packet, overflow, |packet| ready.push_back(packet))
    }
}

fn packet_type(kind: u8) -> PacketType {
    match kind {
        libc::PACKET_BROADCAST => PacketType::Broadcast,
        libc::PACKET_MULTICAST => PacketType::Multicast,
        libc::PACKET_OTHERHOST => PacketType::OtherHost,
        libc::PACKET_OUTGOING => PacketType::Outgoing,
        libc::PACKET_LOOPBACK => PacketType::Loopback,
        _ => PacketType::Host,
    }
}

/// Bytes of a VLAN tag.
const TAG: usize = 4;
/// Bytes in front of it: the two Ethernet addresses.
const ADDRESSES: usize = 12;

/// Puts a VLAN tag back where it was. False, and nothing changed, when the frame is too short.
fn insert_tag(packet: &mut Packet, (protocol, control): (u16, u16)) -> bool {
    if packet.len() < ADDRESSES {
        return false;
    }
    packet.prepend(TAG);
    let frame = packet.data_mut();
    frame.copy_within(TAG..TAG + ADDRESSES, 0);
    if let Some(tag) = frame.get_mut(ADDRESSES..ADDRESSES + TAG) {
        let [p, c] = [protocol, control].map(u16::to_be_bytes);
        tag.copy_from_slice(&[p[0], p[1], c[0], c[1]]);
    }
    true
}
