//! SetEtherAddress - sets an annotation to an Ethernet address
//!
//! # Synopsis
//! `SetEtherAddress(ADDR, ANNO)`
//!
//! # Description
//! Sets the annotation ANNO of each packet to the address ADDR.
//!
//! # Arguments
//! - ADDR: the address. Positional, mandatory.
//! - ANNO: the annotation, of six bytes. Positional, mandatory.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `addr` (read, write): the value of ADDR.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> SetEtherAddress(2:0:0:0:0:1, 24)
//!   -> StoreEtherAddress(OFFSET dst, ANNO 24) -> Discard;
//! ```
//!
//! # See also
//! StoreEtherAddress, GetEtherAddress

use millrace_core::args::Annotation;
use millrace_core::net::EtherAddress;
use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Published, Setup, View, Way, register,
};

use super::header::address_place::LEN;

/// The element; its manual is at the top of the file.
pub struct SetEtherAddress {
    address: Published<EtherAddress>,
    annotation: usize,
}

register!(SetEtherAddress, "set_ether_address.rs");

impl Element for SetEtherAddress {
    const CLASS: Class = Class::new("SetEtherAddress", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let address: EtherAddress = setup.args.mandatory("ADDR");
        let Annotation(annotation) = setup.args.mandatory::<Annotation<LEN>>("ANNO");
        setup.args.complete()?;
        Ok(Self { address: Published::new(address), annotation })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        super::header::address_handler(handlers, "addr", |set| &set.address);
    }
}

impl PerPacket for SetEtherAddress {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        let annotations = packet.annotations_mut().get_mut(self.annotation..);
        if let Some(place) = annotations.and_then(<[u8]>::first_chunk_mut) {
            *place = self.address.get(at).octets();
        }
        Way::ON
    }
}
