//! SetPacketType - sets the packet type annotation, such as HOST or BROADCAST
//!
//! # Synopsis
//! `SetPacketType(TYPE)`
//!
//! # Description
//! Sets the packet type annotation of each packet, which describes the packet's link-layer destination. Devices set
//! it for the packets that they receive. Elements such as DropBroadcasts and HostEtherFilter read or set it too.
//!
//! # Arguments
//! - TYPE: HOST, BROADCAST, MULTICAST, OTHERHOST, OUTGOING or LOOPBACK, case-insensitive. Positional,
//!   mandatory.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> SetPacketType(BROADCAST) -> DropBroadcasts -> Discard;
//! ```
//!
//! # See also
//! DropBroadcasts, HostEtherFilter

use millrace_core::args::Word;
use millrace_core::{
    Class, Element, Failed, Moment, PacketType, PerPacket, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct SetPacketType {
    packet_type: PacketType,
}

register!(SetPacketType, "set_packet_type.rs");

impl Element for SetPacketType {
    const CLASS: Class = Class::new("SetPacketType", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let Word(word) = setup.args.mandatory("TYPE");
        setup.args.complete()?;
        let packet_type = match word.to_ascii_uppercase().as_str() {
            "HOST" => PacketType::Host,
            "BROADCAST" => PacketType::Broadcast,
            "MULTICAST" => PacketType::Multicast,
            "OTHERHOST" => PacketType::OtherHost,
            "OUTGOING" => PacketType::Outgoing,
            "LOOPBACK" => PacketType::Loopback,
            _ => {
                setup.args.error("TYPE", format!("unrecognized packet type ‘{word}’"));
                return Err(Failed);
            }
        };
        Ok(Self { packet_type })
    }
}

impl PerPacket for SetPacketType {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        packet.set_packet_type(self.packet_type);
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, PacketType};

    #[test]
    fn sets_the_type() {
        for (word, packet_type) in [("outgoing", PacketType::Outgoing), ("HOST", PacketType::Host)]
        {
            let mut rig = Rig::new(&format!("SetPacketType({word})"), 1, 1).unwrap();
            let packet = Packet::from_bytes(b"a").unwrap();
            assert_eq!(rig.push_packets(0, vec![packet])[0][0].packet_type(), packet_type);
        }
        assert!(Rig::new("SetPacketType(FASTROUTE)", 1, 1).is_err());
        assert!(Rig::new("SetPacketType", 1, 1).is_err());
    }
}
