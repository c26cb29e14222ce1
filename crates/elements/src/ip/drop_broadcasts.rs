//! DropBroadcasts - drops packets that arrived as link-level broadcast or multicast
//!
//! # Synopsis
//! `DropBroadcasts`
//!
//! # Description
//! Drops packets that arrived as link-level broadcast or multicast, which a router must not forward
//! (RFC 1812, 5.3.4). The element reads the packet type annotation, which FromDevice and HostEtherFilter set.
//!
//! A message is printed for the first such packet.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One agnostic input. Output 0, agnostic: all other packets. Output 1, push, optional: the broadcasts and multicasts.
//!
//! # Handlers
//! - `drops` (read): number of broadcasts and multicasts, dropped or sent to output 1.
//!
//! # Drops
//! - filtered: a broadcast or multicast, and output 1 is not connected.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> DropBroadcasts -> Discard;
//! ```
//!
//! # See also
//! FromDevice, HostEtherFilter

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millrace_core::{
    Class, Context, Count, Element, Failed, Handlers, Moment, Packet, PacketType, PerPacket,
    PerThread, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
#[derive(Default)]
pub struct DropBroadcasts {
    drops: PerThread<Count>,
    reported: AtomicBool,
}

register!(DropBroadcasts, "drop_broadcasts.rs");

impl Element for DropBroadcasts {
    const CLASS: Class = Class::new("DropBroadcasts", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self::default())
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("drops", |element, _| element.drops.total());
    }
}

impl PerPacket for DropBroadcasts {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        match packet.packet_type() {
            PacketType::Broadcast | PacketType::Multicast => {
                Way::output_or_drop(1, Reason::Filtered)
            }
            _ => Way::ON,
        }
    }

    fn aside(&self, cx: &mut Context, (): &mut (), packet: Packet, way: Way) -> Option<Packet> {
        if !self.reported.swap(true, Relaxed) {
            cx.router().chatter("DropBroadcasts: dropped a packet");
        }
        self.drops.mine(cx).add(1);
        cx.send_or_drop(packet, way)
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, PacketType, Reason};

    fn packets() -> Vec<Packet> {
        let types = [
            PacketType::Host,
            PacketType::Broadcast,
            PacketType::OtherHost,
            PacketType::Multicast,
            PacketType::Outgoing,
        ];
        let packets = types.iter().enumerate().map(|(n, &packet_type)| {
            let mut packet = Packet::from_bytes(&[n as u8]).unwrap();
            packet.set_packet_type(packet_type);
            packet
        });
        packets.collect()
    }

    fn numbers(packets: &[Packet]) -> Vec<u8> {
        packets.iter().map(|packet| packet.data()[0]).collect()
    }

    #[test]
    fn broadcasts_and_multicasts_are_dropped() {
        let mut rig = Rig::new("DropBroadcasts", 1, 1).unwrap();
        let out = rig.push_packets(0, packets());
        assert_eq!(numbers(&out[0]), [0, 2, 4]);
        assert_eq!(rig.stats().drops, [(Reason::Filtered, 2)]);
        assert_eq!(rig.read("drops").unwrap(), "2");
    }

    #[test]
    fn broadcasts_and_multicasts_go_to_output_1() {
        let mut rig = Rig::new("DropBroadcasts", 1, 2).unwrap();
        let out = rig.push_packets(0, packets());
        assert_eq!((numbers(&out[0]), numbers(&out[1])), (vec![0, 2, 4], vec![1, 3]));
        assert_eq!(rig.stats().dropped(), 0);
    }
}
