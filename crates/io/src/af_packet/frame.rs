//! Makes finished packets from a received frame and the kernel's information about it.

use millrace_core::{Packet, PacketType, Timestamp};

use crate::bpf;
use crate::offload::{self, Finished, Finisher, Offload};
use crate::options::RxOptions;

/// The information about a received frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrival {
    /// Bytes of the frame that were received, including those beyond the buffers.
    pub(super) length: usize,
    /// Bytes that the filter in the kernel has cut off after them.
    pub(super) missing: usize,
    /// The header of virtio-net.
    pub(super) header: [u8; offload::HEADER],
    /// `PACKET_HOST`, `PACKET_BROADCAST`, ...
    pub(super) packet_type: u8,
    /// The protocol and the control information of a VLAN tag that the kernel removed.
    pub(super) vlan: Option<(u16, u16)>,
    /// When it arrived.
    pub(super) timestamp: Option<Timestamp>,
}

/// The options for frames, and how to make packets from them.
pub(super) struct Intake {
    finisher: Finisher,
    outbound: bool,
    timestamp: bool,
    /// The filter, for frames on which the kernel could not decide.
    filter: Vec<bpf::Instruction>,
}

/// The minimum room of a packet in bytes: any frame of the usual MTU fits.
const BUFFER: usize = 2048;

impl Intake {
    pub(super) fn new(options: &RxOptions) -> Self {
        Self {
            finisher: Finisher { headroom: options.headroom, snap_length: options.snap_length },
            outbound: options.outbound,
            timestamp: options.timestamp,
            filter: options.filter.clone(),
        }
    }

    /// An empty packet to receive into.
    pub(super) fn spare(&self) -> Option<Packet> {
        // A VLAN tag may have to go in front.
        Packet::stale(self.finisher.headroom + TAG, 0, BUFFER)
    }

    /// Makes finished packets from a frame whose first bytes are in `packet`'s buffer and the others in
    /// `overflow`.
    #[inline]
    pub(super) fn unfold(
        &self,
        arrival: &Arrival,
        overflow: &[u8],
        mut packet: Packet,
        mut take: impl FnMut(Packet),
    ) -> Finished {
        let packet_type = packet_type(arrival.packet_type);
        if packet_type == PacketType::Outgoing && !self.outbound {
            return Finished::Whole;
        }
        let capacity = packet.buffer_mut().len();
        let Some(overflow) = overflow.get(..arrival.length.saturating_sub(capacity)) else {
            return Finished::Lost;
        };
        if !packet.set_len(arrival.length.min(capacity)) {
            return Finished::Lost;
        }
        packet.set_packet_type(packet_type);
        let timestamp = if self.timestamp { arrival.timestamp } else { None };
        packet.set_timestamp(timestamp.unwrap_or_else(|| self.now()));
        let mut offload = Offload::parse(&arrival.header);
        if let Some(tag) = arrival.vlan
            && insert_tag(&mut packet, tag)
        {
            // The kernel judged the frame without its tag, which the filter wants to see.
            if !bpf::wants(&self.filter, packet.data()) {
                return Finished::Whole;
            }
            offload.shift(TAG);
        }
        if arrival.missing > 0 {
            // A checksum is over bytes that are not here, and so is what would be cut.
            offload = Offload::default();
        }
        self.finisher.finish(offload, packet, overflow, |mut packet| {
            packet.set_mac_header(0);
            if arrival.missing > 0 {
                packet.set_extra_length(packet.extra_length() + arrival.missing as u32);
            }
            take(packet);
        })
    }

    /// The time for a packet that arrived without one.
    fn now(&self) -> Timestamp {
        if self.timestamp { Timestamp::now() } else { Timestamp::ZERO }
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

/// The protocol and control information of a VLAN tag, as far as the status of a frame declares them valid.
pub(super) fn vlan_of(status: u32, [protocol, control]: [u16; 2]) -> Option<(u16, u16)> {
    const IEEE_802_1Q: u16 = 0x8100;
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let named = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    Some((if named { protocol } else { IEEE_802_1Q }, control))
}

/// Bytes of a VLAN tag.
pub(super) const TAG: usize = 4;
/// Bytes before it: the two Ethernet addresses.
const ADDRESSES: usize = 12;

/// Restores a VLAN tag. Returns false, and changes nothing, when the frame is too short.
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
