//! VLANDecap - removes the VLAN tag (802.1Q) from Ethernet frames
//!
//! # Synopsis
//! `VLANDecap([ANNO, keyword ETHERTYPE])`
//!
//! # Description
//! Removes the IEEE 802.1Q tag, if there is one, from each Ethernet frame, and copies it to the
//! packet's VLAN annotation. Without a tag, the annotation is set to 0.
//!
//! # Arguments
//! - ANNO: whether to set the annotation. Positional, default true.
//! - ETHERTYPE: the EtherType that marks a tag. Default 0x8100.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - truncated: the packet ends in the middle of its tag.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> VLANEncap(5) -> VLANDecap -> Discard;
//! ```
//!
//! # See also
//! VLANEncap, StripEtherVLANHeader

use millrace_core::headers::{EthernetHeader, Header, ether_type};
use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use super::header::{ADDRESSES, TAG, tag_of};

/// The element; its manual is at the top of the file.
pub struct VlanDecap {
    annotate: bool,
    ether_type: u16,
}

register!(VlanDecap, "vlan_decap.rs");

impl Element for VlanDecap {
    const CLASS: Class = Class::new("VLANDecap", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let annotate = setup.args.positional("ANNO", true);
        let ether_type = setup.args.keyword("ETHERTYPE", ether_type::VLAN);
        setup.args.complete()?;
        Ok(Self { annotate, ether_type })
    }
}

impl PerPacket for VlanDecap {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let tci = match tag_of(packet.data(), self.ether_type) {
            None => 0,
            Some(None) => return Way::drop(Reason::Truncated),
            Some(Some(tci)) => {
                packet.data_mut().copy_within(..ADDRESSES, TAG);
                let stripped = packet.strip(TAG);
                debug_assert!(stripped, "a frame with a tag is longer than one");
                tci
            }
        };
        packet.set_link_header(0, EthernetHeader::LEN);
        if self.annotate {
            packet.set_vlan_tci(tci);
        }
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    #[test]
    fn truncated_tags_are_dropped_and_short_packets_are_forwarded() {
        let mut rig = Rig::new("VLANDecap", 1, 1).unwrap();
        let out = rig.push(0, &[&b"addresses...\x81\x00\x00"[..], b"short", b""]);
        assert_eq!(out[0], [&b"short"[..], b""]);
        assert_eq!(rig.stats().drops, [(Reason::Truncated, 1)]);
    }
}
