//! SetVLANAnno - sets the VLAN annotation of packets
//!
//! # Synopsis
//! `SetVLANAnno([VLAN_TCI, VLAN_PCP, keyword VLAN_ID])`
//!
//! # Description
//! Sets each packet's VLAN annotation, which VLANEncap, EtherVLANEncap and ARPQuerier read.
//! SetVlanAnno is another name for it.
//!
//! # Arguments
//! - VLAN_TCI: priority and number of the VLAN in 16 bits. Positional.
//! - VLAN_PCP: the priority, 0 to 7. Positional, default 0.
//! - VLAN_ID: the number of the VLAN, 0 to 4095, if VLAN_TCI is not given. Default 0.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `vlan_tci`, `vlan_id`, `vlan_pcp` (read, write): the values of the arguments.
//! - `config` (read): the current configuration.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> SetVLANAnno(5, 3) -> VLANEncap(ANNO) -> Discard;
//! ```
//!
//! # See also
//! VLANEncap, EtherVLANEncap, VLANDecap

use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Published, Setup, View, Way, register,
};

use super::header::vlan_tag::{self, Tagging, VlanTag};

/// The element; its manual is at the top of the file.
pub struct SetVlanAnno {
    tag: Published<VlanTag>,
}

register!(SetVlanAnno, "set_vlan_anno.rs");

impl Element for SetVlanAnno {
    const CLASS: Class = Class::new("SetVLANAnno", "1/1", "a/a").aliases(&["SetVlanAnno"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let tag = VlanTag::configure_fixed(&mut setup.args);
        setup.args.complete()?;
        Ok(Self { tag: Published::new(tag) })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        vlan_tag::handlers(handlers);
    }
}

impl Tagging for SetVlanAnno {
    fn tag(&self) -> &Published<VlanTag> {
        &self.tag
    }
}

impl PerPacket for SetVlanAnno {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        packet.set_vlan_tci(self.tag.get(at).tci());
        Way::ON
    }
}
