//! StoreEtherAddress - writes an Ethernet address into packets
//!
//! # Synopsis
//! `StoreEtherAddress(ADDR, OFFSET)`
//!
//! `StoreEtherAddress(OFFSET, ANNO anno)`
//!
//! # Description
//! Writes an Ethernet address into each packet at OFFSET. The address is ADDR, or the value of the
//! packet's annotation ANNO.
//!
//! # Arguments
//! - ADDR: the address. Positional.
//! - OFFSET: where to write it, in bytes; `src` and `dst` are its places in an Ethernet header at the
//!   start of the packet. Positional, mandatory.
//! - ANNO: the annotation that contains the address, instead of ADDR.
//!
//! # Ports
//! One agnostic input; output 0 agnostic, output 1 push and optional: it emits packets that are too
//! short to contain the address.
//!
//! # Handlers
//! - `addr` (read, write): the value of ADDR.
//! - `config` (read, write): the arguments; ADDR may change while packets run.
//!
//! # Drops
//! - truncated: the packet ends before the address would.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> StoreEtherAddress(2:0:0:0:0:1, src) -> Discard;
//! ```
//!
//! # See also
//! EtherEncap, GetEtherAddress, SetEtherAddress

use millrace_core::args::Annotation;
use millrace_core::net::EtherAddress;
use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Published, Reason, Setup, View, Way,
    register,
};

use super::header::address_place::{LEN, Place};

/// The element; its manual is at the top of the file.
pub struct StoreEtherAddress {
    address: Published<EtherAddress>,
    annotation: Option<usize>,
    offset: usize,
}

register!(StoreEtherAddress, "store_ether_address.rs");

impl Element for StoreEtherAddress {
    const CLASS: Class = Class::new("StoreEtherAddress", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let annotation: Option<Annotation<LEN>> = args.optional_keyword("ANNO");
        // With ANNO, a single positional argument is OFFSET.
        let address: Option<EtherAddress> = match annotation {
            Some(_) if args.len() < 3 => args.optional_keyword("ADDR"),
            _ => args.optional("ADDR"),
        };
        let Place(offset) = args.mandatory("OFFSET");
        if address.is_some() == annotation.is_some() {
            args.error((), "must specify exactly one of ADDR/ANNO");
        }
        args.complete()?;
        let address = Published::new(address.unwrap_or_default());
        Ok(Self { address, annotation: annotation.map(|Annotation(offset)| offset), offset })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.reconfigure(|store, new| {
            if (store.annotation, store.offset) != (new.annotation, new.offset) {
                return Err("only ADDR can change while packets run".into());
            }
            store.address.store(new.address.load());
            Ok(())
        });
        super::header::address_handler(handlers, "addr", |store| &store.address);
    }
}

impl PerPacket for StoreEtherAddress {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        if self.offset + LEN > packet.len() {
            return Way::output_or_drop(1, Reason::Truncated);
        }
        let address = match self.annotation {
            Some(place) => packet.annotations().get(place..).and_then(<[u8]>::first_chunk).copied(),
            None => Some(self.address.get(at).octets()),
        };
        let place = packet.data_mut().get_mut(self.offset..).and_then(<[u8]>::first_chunk_mut);
        if let (Some(place), Some(address)) = (place, address) {
            *place = address;
        }
        Way::ON
    }
}
