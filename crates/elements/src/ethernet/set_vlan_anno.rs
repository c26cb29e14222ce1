//! SetVLANAnno - sets the VLAN annotation
//!
//! # Synopsis
//! `SetVLANAnno([VLAN_TCI, VLAN_PCP, keyword VLAN_ID])`
//!
//! # Description
//! Sets each packet's VLAN annotation, which VLANEncap, EtherVLANEncap and ARPQuerier read.
//! SetVlanAnno is another name for it.
//!
//! # Arguments
//! - VLAN_TCI: number and priority of the VLAN in 16 bits. Positional.
//! - VLAN_PCP: the priority, 0 to 7. Positional, default 0.
//! - VLAN_ID: the number, 0 to 4095, when VLAN_TCI is not given. Default 0.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `vlan_tci`, `vlan_id`, `vlan_pcp` (read, write): as the arguments.
//! - `config` (read): the configuration that is in force.
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

use arc_swap::ArcSwap;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Packet, PerPacket, Setup, Way, register,
};

use super::vlan_tag::{self, Tagging, VlanTag};

/// The element; its manual is at the top of the file.
pub struct SetVLANAnno {
    tag: ArcSwap<VlanTag>,
}

register!(SetVLANAnno, "set_vlan_anno.rs");

impl Element for SetVLANAnno {
    const CLASS: Class = Class::new("SetVLANAnno", "1/1", "a/a").aliases(&["SetVlanAnno"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let tag = VlanTag::configure_fixed(&mut setup.args);
        setup.args.complete()?;
        Ok(Self { tag: ArcSwap::from_pointee(tag) })
    }

    fn process(&self, cx: &mut Context, local: &mut Self::Local, batch: &mut Batch) {
        self.treat_batch(cx, local, batch);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        vlan_tag::handlers(handlers);
    }
}

impl Tagging for SetVLANAnno {
    fn tag(&self) -> &ArcSwap<VlanTag> {
        &self.tag
    }
}

impl PerPacket for SetVLANAnno {
    type Pass<'a> = u16;

    #[inline(always)]
    fn begin(&self, _cx: &Context, (): &mut ()) -> u16 {
        self.tag.load().tci()
    }

    #[inline(always)]
    fn treat(tci: &mut u16, packet: &mut Packet) -> Way {
        packet.set_vlan_tci(*tci);
        Way::ON
    }
}
