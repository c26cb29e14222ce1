//! StoreTimestamp - writes the timestamp annotation into packet data
//!
//! # Synopsis
//! `StoreTimestamp(keywords OFFSET, TAIL)`
//!
//! # Description
//! Writes the timestamp annotation of each packet into its data as eight bytes: the nanoseconds since 1970 in the
//! machine's byte order, as Click does on 64-bit machines.
//!
//! # Arguments
//! - OFFSET: the offset of the timestamp, up to 65000. Packets that are too short are extended with zeros. Keyword.
//! - TAIL: whether to append the timestamp to the packet. Keyword. Exactly one of OFFSET and TAIL is required.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - no buffer: the packet has no room for the bytes.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 2) -> SetTimestamp -> StoreTimestamp(TAIL true) -> Print -> Discard;
//! ```
//!
//! # See also
//! SetTimestamp, AdjustTimestamp

use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct StoreTimestamp {
    /// `None` appends the timestamp.
    offset: Option<usize>,
}

register!(StoreTimestamp, "store_timestamp.rs");

/// The maximum offset: packets are no longer.
const MOST: u32 = 65_000;

impl Element for StoreTimestamp {
    const CLASS: Class = Class::new("StoreTimestamp", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let offset: Option<u32> = setup.args.optional_keyword("OFFSET");
        let tail = setup.args.keyword("TAIL", false);
        if offset.is_some() == tail {
            setup.args.error((), "must supply exactly one of ‘OFFSET’ and ‘TAIL’");
        }
        if offset.is_some_and(|offset| offset > MOST) {
            setup.args.error("OFFSET", format!("out of range, bound {MOST}"));
        }
        setup.args.complete()?;
        Ok(Self { offset: offset.map(|offset| offset as usize) })
    }
}

impl PerPacket for StoreTimestamp {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let bytes = packet.timestamp().as_nanos().to_ne_bytes();
        let offset = self.offset.unwrap_or(packet.len());
        let missing = (offset + bytes.len()).saturating_sub(packet.len());
        if missing > 0 {
            packet.append(missing).fill(0);
        }
        match packet.data_mut().get_mut(offset..offset + bytes.len()) {
            Some(place) => {
                place.copy_from_slice(&bytes);
                Way::ON
            }
            None => Way::drop(Reason::NoBuffer),
        }
    }
}
