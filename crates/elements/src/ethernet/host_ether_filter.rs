//! HostEtherFilter - drops packets for other hosts, as a network card does
//!
//! # Synopsis
//! `HostEtherFilter(ETHER [, DROP_OWN, DROP_OTHER, keyword OFFSET])`
//!
//! # Description
//! Acts like the card of a host with address ETHER: it sets the packet type annotation to host,
//! broadcast, multicast or otherhost according to the destination address in the Ethernet header, and
//! drops packets for other hosts.
//!
//! # Arguments
//! - ETHER: the host's address. Positional, mandatory.
//! - DROP_OWN: whether packets *from* ETHER are dropped. Positional, default false.
//! - DROP_OTHER: whether packets for other hosts are dropped. Positional, default true.
//! - OFFSET: where the Ethernet header starts, in bytes. Default 0.
//!
//! # Ports
//! One agnostic input; output 0 agnostic, output 1 push and optional: it emits the packets that would
//! be dropped.
//!
//! # Handlers
//! - `ether` (read, write): the value of ETHER.
//! - `config` (read, write): the arguments; ETHER may change while packets run.
//!
//! # Drops
//! - other host: the packet is for another host or, with DROP_OWN, from ETHER.
//! - truncated: the packet is shorter than an Ethernet header.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> HostEtherFilter(1:1:1:1:1:1) -> Discard;
//! ```
//!
//! # See also
//! EtherSwitch, DropBroadcasts

use millrace_core::headers::{EthernetHeader, Header};
use millrace_core::net::EtherAddress;
use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PacketType, PerPacket, Published, Reason, Setup,
    View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct HostEtherFilter {
    address: Published<EtherAddress>,
    drop_own: bool,
    drop_other: bool,
    offset: usize,
}

register!(HostEtherFilter, "host_ether_filter.rs");

impl Element for HostEtherFilter {
    const CLASS: Class = Class::new("HostEtherFilter", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let address = setup.args.mandatory("ETHER");
        let drop_own = setup.args.positional("DROP_OWN", false);
        let drop_other = setup.args.positional("DROP_OTHER", true);
        let offset: u32 = setup.args.keyword("OFFSET", 0);
        setup.args.complete()?;
        let address = Published::new(address);
        Ok(Self { address, drop_own, drop_other, offset: offset as usize })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.reconfigure(|filter, new| {
            let fixed = |filter: &Self| (filter.drop_own, filter.drop_other, filter.offset);
            if fixed(filter) != fixed(&new) {
                return Err("only ETHER can change while packets run".into());
            }
            filter.address.store(new.address.load());
            Ok(())
        });
        super::header::address_handler(handlers, "ether", |filter| &filter.address);
    }
}

impl PerPacket for HostEtherFilter {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        let address = *self.address.get(at);
        let frame = packet.data().get(self.offset..).unwrap_or_default();
        let Some((header, _)) = EthernetHeader::view(frame) else {
            return Way::output_or_drop(1, Reason::Truncated);
        };
        let kind = kind_of(header.dst, address);
        let unwanted = (self.drop_own && header.src == address)
            || (self.drop_other && kind == PacketType::OtherHost);
        packet.set_packet_type(kind);
        match unwanted {
            true => Way::output_or_drop(1, Reason::OtherHost),
            false => Way::ON,
        }
    }
}

/// The packet type for the host with address `own`.
#[inline(always)]
fn kind_of(destination: EtherAddress, own: EtherAddress) -> PacketType {
    if destination == own {
        PacketType::Host
    } else if destination.is_broadcast() {
        PacketType::Broadcast
    } else if destination.is_group() {
        PacketType::Multicast
    } else {
        PacketType::OtherHost
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, PacketType, Reason};

    fn frame(dst: [u8; 6], src: [u8; 6]) -> Packet {
        Packet::from_bytes(&[&dst[..], &src, b"\x08\x00"].concat()).unwrap()
    }

    #[test]
    fn accepts_what_a_card_would_accept() {
        let mut rig = Rig::new("HostEtherFilter(2:2:2:2:2:2)", 1, 1).unwrap();
        let frames =
            [[2; 6], [0xff; 6], [1, 0, 0x5e, 0, 0, 1], [4; 6]].map(|dst| frame(dst, [8; 6]));
        let out = rig.push_packets(0, frames.into());
        let kinds: Vec<PacketType> = out[0].iter().map(Packet::packet_type).collect();
        assert_eq!(kinds, [PacketType::Host, PacketType::Broadcast, PacketType::Multicast]);
        assert_eq!(rig.stats().drops, [(Reason::OtherHost, 1)]);
    }

    #[test]
    fn unwanted_packets_go_to_output_1() {
        let mut rig = Rig::new("HostEtherFilter(2:2:2:2:2:2, true, false)", 1, 2).unwrap();
        let out = rig.push_packets(0, vec![frame([2; 6], [2; 6]), frame([4; 6], [8; 6])]);
        assert_eq!((out[0].len(), out[1].len()), (1, 1));
        assert_eq!(rig.push(0, &["short"])[1].len(), 1);
    }
}
