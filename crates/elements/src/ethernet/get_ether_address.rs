//! GetEtherAddress - copies an Ethernet address from the packet to an annotation
//!
//! # Synopsis
//! `GetEtherAddress(ANNO, OFFSET)`
//!
//! # Description
//! Copies the Ethernet address at OFFSET into the annotation ANNO.
//!
//! # Arguments
//! - ANNO: the annotation, of six bytes. Positional, mandatory.
//! - OFFSET: where the address is, in bytes; `src` and `dst` are its places in an Ethernet header at
//!   the start of the packet. Positional, mandatory.
//!
//! # Ports
//! One agnostic input; output 0 agnostic, output 1 push and optional: it emits packets that are too
//! short to contain the address.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - truncated: the packet ends before the address does.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> GetEtherAddress(24, src) -> Discard;
//! ```
//!
//! # See also
//! StoreEtherAddress, SetEtherAddress

use millrace_core::args::Annotation;
use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use super::header::address_place::{LEN, Place};

/// The element; its manual is at the top of the file.
pub struct GetEtherAddress {
    annotation: usize,
    offset: usize,
}

register!(GetEtherAddress, "get_ether_address.rs");

impl Element for GetEtherAddress {
    const CLASS: Class = Class::new("GetEtherAddress", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let Annotation(annotation) = setup.args.mandatory::<Annotation<LEN>>("ANNO");
        let Place(offset) = setup.args.mandatory("OFFSET");
        setup.args.complete()?;
        Ok(Self { annotation, offset })
    }
}

impl PerPacket for GetEtherAddress {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let address =
            packet.data().get(self.offset..).and_then(<[u8]>::first_chunk::<LEN>).copied();
        let Some(address) = address else {
            return Way::output_or_drop(1, Reason::Truncated);
        };
        let annotations = packet.annotations_mut().get_mut(self.annotation..);
        if let Some(place) = annotations.and_then(<[u8]>::first_chunk_mut) {
            *place = address;
        }
        Way::ON
    }
}
