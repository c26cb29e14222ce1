//! EtherVLANEncap - prepends an Ethernet header with a VLAN tag (802.1Q) to packets
//!
//! # Synopsis
//! `EtherVLANEncap(ETHERTYPE, SRC, DST [, VLAN_TCI, VLAN_PCP, keywords VLAN_ID, NATIVE_VLAN])`
//!
//! # Description
//! Prepends an Ethernet header with these fields and an IEEE 802.1Q tag to each packet. Packets of the
//! native VLAN get a header without a tag. EtherVlanEncap is another name for it.
//!
//! # Arguments
//! - ETHERTYPE: the type of what follows the tag, 0 to 65535. Positional, mandatory.
//! - SRC: source address. Positional, mandatory.
//! - DST: destination address. Positional, mandatory.
//! - VLAN_TCI: priority and number of the VLAN in 16 bits; or `ANNO` to use the packet's VLAN
//!   annotation. Positional.
//! - VLAN_PCP: the priority, 0 to 7. Positional, default 0.
//! - VLAN_ID: the number of the VLAN, 0 to 4095, if VLAN_TCI is not given. Default 0.
//! - NATIVE_VLAN: the VLAN whose packets get no tag; -1 for none. Default 0.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `src`, `dst`, `ethertype`, `vlan_tci`, `vlan_id`, `vlan_pcp`, `native_vlan` (read, write): the
//!   values of the arguments.
//! - `config` (read, write): the current configuration, all of which may change while packets run.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, 5) -> Discard;
//! ```
//!
//! # See also
//! EtherEncap, VLANEncap, StripEtherVLANHeader, SetVLANAnno

use millrace_core::headers::{EthernetHeader, Header, U16, VlanHeader, ether_type};
use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Published, Setup, View, Way, register,
};
use zerocopy::IntoBytes;

use super::header::handlers::{self, WithHeader};
use super::header::vlan_tag::{self, Tagging, VlanTag};

/// The element; its manual is at the top of the file.
pub struct EtherVlanEncap {
    header: Published<EthernetHeader>,
    tag: Published<VlanTag>,
}

register!(EtherVlanEncap, "ether_vlan_encap.rs");

impl Element for EtherVlanEncap {
    const CLASS: Class = Class::new("EtherVLANEncap", "1/1", "a/a").aliases(&["EtherVlanEncap"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let header = handlers::configure(&mut setup.args);
        let tag = VlanTag::configure(&mut setup.args);
        setup.args.complete()?;
        Ok(Self { header: Published::new(header), tag: Published::new(tag) })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.reconfigure(|encap, new| {
            encap.header.store(new.header.load());
            encap.tag.store(new.tag.load());
            Ok(())
        });
        handlers::handlers(handlers, &["ethertype"]);
        vlan_tag::handlers(handlers);
        vlan_tag::native_handlers(handlers);
    }
}

impl WithHeader for EtherVlanEncap {
    fn header(&self) -> &Published<EthernetHeader> {
        &self.header
    }
}

impl Tagging for EtherVlanEncap {
    fn tag(&self) -> &Published<VlanTag> {
        &self.tag
    }

    fn other_arguments(&self) -> String {
        let header = self.header.load();
        format!("{}, {}, {}, ", header.ether_type, header.src, header.dst)
    }
}

impl PerPacket for EtherVlanEncap {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        let header = self.header.get(at);
        match self.tag.get(at).of(packet) {
            None => {
                packet.push_front(header.as_bytes());
                packet.set_link_header(0, EthernetHeader::LEN);
            }
            Some(tci) => {
                let tag = VlanHeader { tci: U16::new(tci), ether_type: header.ether_type };
                let outer = EthernetHeader { ether_type: U16::new(ether_type::VLAN), ..*header };
                packet.push_front(tag.as_bytes());
                packet.push_front(outer.as_bytes());
                packet.set_link_header(0, EthernetHeader::LEN + VlanHeader::LEN);
            }
        }
        Way::ON
    }
}
