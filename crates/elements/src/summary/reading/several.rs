//! Packets that stand for several: emitting them one by one.

use millrace_core::headers::{Header, Ipv4Header, UdpHeader, protocol};
use millrace_core::{Packet, Timestamp};

/// A packet, and the differences between the packets that it stands for.
pub(super) struct Several {
    packet: Packet,
    plan: Option<Plan>,
}

/// The values for the packets.
#[derive(Clone, Copy)]
struct Plan {
    /// The length of all packets but the last, including extra length.
    length: u32,
    step: Timestamp,
    end: Timestamp,
}

/// The first of several packets, or `None` when there is no memory for it; and the rest.
pub(super) struct Split {
    pub(super) packet: Option<Packet>,
    pub(super) rest: Option<Several>,
}

impl Several {
    pub(super) fn new(packet: Packet) -> Self {
        Self { packet, plan: None }
    }

    pub(super) fn timestamp(&self) -> Timestamp {
        self.packet.timestamp()
    }

    /// All of them as one packet.
    pub(super) fn into_packet(self) -> Packet {
        self.packet
    }

    /// Splits off the first packet.
    pub(super) fn split(mut self) -> Split {
        let extra = self.packet.extra_packets();
        if extra == 0 {
            return Split { packet: Some(self.packet), rest: None };
        }
        let plan = *self.plan.get_or_insert_with(|| Plan::of(&mut self.packet));
        let own = self.packet.len() as u32;
        let first = self.packet.share().map(|mut first| {
            first.set_extra_packets(0);
            first.set_extra_length(plan.length.saturating_sub(own));
            first
        });
        let left = self.packet.extra_length().wrapping_sub(plan.length);
        self.packet.set_extra_packets(extra - 1);
        self.packet.set_extra_length(left);
        if extra == 1 {
            self.packet.set_timestamp(plan.end);
            set_lengths(&mut self.packet, own.wrapping_add(left));
        } else {
            self.packet.set_timestamp(self.packet.timestamp() + plan.step);
        }
        Split { packet: first, rest: Some(self) }
    }
}

impl Plan {
    /// Spreads the length and time of a packet over those that it stands for.
    fn of(packet: &mut Packet) -> Self {
        let count = packet.extra_packets().wrapping_add(1).max(1);
        let own = packet.len() as u32;
        let mut length = own.wrapping_add(packet.extra_length()) / count;
        if length < own {
            // Each packet has all the bytes that are present.
            length = own;
            packet.set_extra_length(length.wrapping_mul(count - 1));
        }
        let end = packet.timestamp();
        let mut step = Timestamp::ZERO;
        if !packet.first_timestamp().is_zero() {
            let span = (end - packet.first_timestamp()).as_nanos();
            step = Timestamp::from_nanos(span / i64::from((count - 1).max(1)));
            packet.set_timestamp(packet.first_timestamp());
        }
        set_lengths(packet, length);
        Self { length, step, end }
    }
}

/// Sets the lengths in the IP and UDP headers.
fn set_lengths(packet: &mut Packet, length: u32) {
    let Some(bytes) = packet.network_data_mut() else { return };
    let Some((ip, _)) = Ipv4Header::view_mut(bytes) else { return };
    ip.total_len.set(length as u16);
    let (header, is_udp) = (ip.header_len(), ip.protocol == protocol::UDP);
    let udp = bytes.get_mut(header..).filter(|_| is_udp).and_then(UdpHeader::view_mut);
    if let Some((udp, _)) = udp {
        udp.len.set((length as usize).wrapping_sub(header) as u16);
    }
}
