//! StripEtherVLANHeader - strips the Ethernet header, with its VLAN tag, from packets
//!
//! # Synopsis
//! `StripEtherVLANHeader([NATIVE_VLAN])`
//!
//! # Description
//! Strips the Ethernet header from each packet, together with the IEEE 802.1Q tag if there is one, and
//! copies the tag to the packet's VLAN annotation. A frame without a tag belongs to the native VLAN. If
//! there is no native VLAN, the frame goes to output 1 unchanged, or is dropped. StripEtherVlanHeader
//! is another name for it.
//!
//! # Arguments
//! - NATIVE_VLAN: the VLAN of frames without a tag; -1 for none. Positional, default 0.
//!
//! # Ports
//! One agnostic input; output 0 agnostic, output 1 push and optional: it emits the packets that would
//! be dropped.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - filtered: the frame has no tag and there is no native VLAN.
//! - truncated: the packet is shorter than its Ethernet header.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!   -> EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, 5)
//!   -> StripEtherVLANHeader -> Discard;
//! ```
//!
//! # See also
//! EtherVLANEncap, VLANDecap, Strip

use millrace_core::args::Kind;
use millrace_core::headers::{EthernetHeader, Header, ether_type};
use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use super::header::{TAG, tag_of};

/// The element; its manual is at the top of the file.
pub struct StripEtherVlanHeader {
    native: Option<u16>,
}

register!(StripEtherVlanHeader, "strip_ether_vlan_header.rs");

impl Element for StripEtherVlanHeader {
    const CLASS: Class =
        Class::new("StripEtherVLANHeader", "1/1-2", "a/ah").aliases(&["StripEtherVlanHeader"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let native = args.in_range("NATIVE_VLAN", Kind::Positional, i32::MIN..=0xfff).unwrap_or(0);
        args.complete()?;
        Ok(Self { native: u16::try_from(native).ok() })
    }
}

impl PerPacket for StripEtherVlanHeader {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        const TAGGED: usize = EthernetHeader::LEN + TAG;
        let (tci, header_len) = match (tag_of(packet.data(), ether_type::VLAN), self.native) {
            (Some(tci), _) => (tci, TAGGED),
            (None, Some(native)) => (Some(native), EthernetHeader::LEN),
            (None, None) => return Way::output_or_drop(1, Reason::Filtered),
        };
        match tci {
            Some(tci) if packet.strip(header_len) => {
                packet.set_vlan_tci(tci);
                Way::ON
            }
            _ => Way::output_or_drop(1, Reason::Truncated),
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    #[test]
    fn truncated_frames_are_dropped() {
        let mut rig = Rig::new("StripEtherVLANHeader", 1, 1).unwrap();
        let cut: [&[u8]; 4] =
            [b"", b"addresses...\x08", b"addresses...\x81\0\0\x05\x08", b"addresses...\x81\0\0"];
        assert!(rig.push(0, &cut)[0].is_empty());
        assert_eq!(rig.stats().drops, [(Reason::Truncated, 4)]);
    }
}
