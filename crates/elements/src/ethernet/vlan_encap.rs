//! VLANEncap - inserts a VLAN tag (802.1Q) into Ethernet frames
//!
//! # Synopsis
//! `VLANEncap([VLAN_TCI, VLAN_PCP, keywords VLAN_ID, NATIVE_VLAN, ETHERTYPE])`
//!
//! # Description
//! Inserts an IEEE 802.1Q tag after the addresses of each Ethernet frame. Frames of the native VLAN are
//! unchanged.
//!
//! # Arguments
//! - VLAN_TCI: priority and number of the VLAN in 16 bits; or `ANNO` to use the packet's VLAN
//!   annotation. Positional.
//! - VLAN_PCP: the priority, 0 to 7. Positional, default 0.
//! - VLAN_ID: the number of the VLAN, 0 to 4095, if VLAN_TCI is not given. Default 0.
//! - NATIVE_VLAN: the VLAN whose frames get no tag; -1 for none. Default 0.
//! - ETHERTYPE: the EtherType that marks a tag. Default 0x8100; use 0x88a8 for service tags (802.1ad).
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `vlan_tci`, `vlan_id`, `vlan_pcp`, `native_vlan`, `ethertype` (read, write): the values of the
//!   arguments.
//! - `config` (read, write): the current configuration, all of which may change while packets run.
//!
//! # Drops
//! - truncated: the packet is shorter than two Ethernet addresses.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> VLANEncap(VLAN_ID 5, VLAN_PCP 3) -> Discard;
//! ```
//!
//! # See also
//! VLANDecap, EtherVLANEncap, SetVLANAnno

use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use millrace_core::headers::{EthernetHeader, Header, ether_type};
use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Published, Reason, Setup, View, Way,
    register,
};

use super::header::vlan_tag::{self, Tagging, VlanTag};
use super::header::{ADDRESSES, TAG};

/// The element; its manual is at the top of the file.
pub struct VlanEncap {
    tag: Published<VlanTag>,
    ether_type: AtomicU16,
}

register!(VlanEncap, "vlan_encap.rs");

impl Element for VlanEncap {
    const CLASS: Class = Class::new("VLANEncap", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let tag = VlanTag::configure(&mut setup.args);
        let ether_type = setup.args.keyword("ETHERTYPE", ether_type::VLAN);
        setup.args.complete()?;
        Ok(Self { tag: Published::new(tag), ether_type: ether_type.into() })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.reconfigure(|encap, new| {
            encap.tag.store(new.tag.load());
            encap.ether_type.store(new.ether_type.into_inner(), Relaxed);
            Ok(())
        });
        vlan_tag::handlers(handlers);
        vlan_tag::native_handlers(handlers);
        handlers.read("ethertype", |encap, _| encap.ether_type.load(Relaxed));
        handlers.write("ethertype", |encap, call| {
            encap.ether_type.store(call.parse()?, Relaxed);
            Ok(())
        });
    }
}

impl Tagging for VlanEncap {
    fn tag(&self) -> &Published<VlanTag> {
        &self.tag
    }
}

impl PerPacket for VlanEncap {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        let Some(tci) = self.tag.get(at).of(packet) else {
            packet.set_link_header(0, EthernetHeader::LEN);
            return Way::ON;
        };
        if packet.len() < ADDRESSES {
            return Way::drop(Reason::Truncated);
        }
        packet.prepend(TAG);
        let frame = packet.data_mut();
        frame.copy_within(TAG..TAG + ADDRESSES, 0);
        let [a, b] = self.ether_type.load(Relaxed).to_be_bytes();
        let [c, d] = tci.to_be_bytes();
        frame[ADDRESSES..ADDRESSES + TAG].copy_from_slice(&[a, b, c, d]);
        packet.set_link_header(0, EthernetHeader::LEN + TAG);
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};
    use proptest::prelude::*;

    #[test]
    fn short_packets_are_dropped_unless_in_the_native_vlan() {
        let mut rig = Rig::new("VLANEncap(7)", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["0123456789a", "0123456789ab"])[0], [b"0123456789ab\x81\0\0\x07"]);
        assert_eq!(rig.stats().drops, [(Reason::Truncated, 1)]);
        rig.write("native_vlan", "7").unwrap();
        assert_eq!(rig.push(0, &["x"])[0], [b"x"]);
    }

    proptest! {
        #[test]
        fn an_independent_parser_reads_the_tags(
            tci: u16,
            payload in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let config = format!("VLANEncap({tci}, NATIVE_VLAN -1)");
            let mut rig = Rig::new(&config, 1, 1).unwrap();
            let frame = [&b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\x00"[..], &payload].concat();
            let out = rig.push_packets(0, vec![Packet::from_bytes(&frame).unwrap()]);
            let sliced = etherparse::SingleVlanSlice::from_slice(&out[0][0].data()[14..]).unwrap();
            prop_assert_eq!(sliced.vlan_identifier().value(), tci & 0xfff);
            prop_assert_eq!(sliced.priority_code_point().value(), (tci >> 13) as u8);
            prop_assert_eq!(sliced.payload_slice(), &payload[..]);
            let mut back = Rig::new("VLANDecap", 1, 1).unwrap();
            let plain = back.push_packets(0, out.into_iter().flatten().collect());
            prop_assert_eq!(plain[0][0].data(), &frame[..]);
            prop_assert_eq!(plain[0][0].vlan_tci(), tci);
        }
    }
}
