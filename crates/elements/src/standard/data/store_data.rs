//! StoreData - overwrites bytes in packets at a given offset
//!
//! # Synopsis
//! `StoreData(OFFSET, DATA [, MASK, keyword GROW])`
//!
//! # Description
//! Writes DATA into each packet, OFFSET bytes from its start. If DATA reaches beyond the end of the packet, only
//! the part that fits is written, unless GROW is true. Packets of OFFSET bytes or fewer are unchanged.
//!
//! With MASK, only the bits that are set in MASK are written. If MASK is shorter than DATA, it applies to the first
//! bytes of DATA; the remaining bytes are written whole.
//!
//! # Arguments
//! - OFFSET: offset to write to, in bytes. Positional, mandatory.
//! - DATA: bytes to write. Positional, mandatory.
//! - MASK: bits to write, no longer than DATA. Positional, default: all bits.
//! - GROW: whether packets that are too short for all of DATA grow. Default false.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - too big: the packet would have more than 65535 bytes.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> StoreData(12, \<0800>) -> Discard;
//! ```
//!
//! # See also
//! Clipboard, Strip, Unstrip

use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use crate::standard::LONGEST;

/// The element; its manual is at the top of the file.
pub struct StoreData {
    offset: usize,
    /// The bytes to write, each with its mask.
    data: Vec<(u8, u8)>,
    grow: bool,
}

register!(StoreData, "store_data.rs");

impl Element for StoreData {
    const CLASS: Class = Class::new("StoreData", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let offset: u32 = setup.args.mandatory("OFFSET");
        let data: Vec<u8> = setup.args.mandatory("DATA");
        let mask: Vec<u8> = setup.args.positional("MASK", Vec::new());
        let grow = setup.args.keyword("GROW", false);
        setup.args.complete()?;
        if mask.len() > data.len() {
            setup.args.error("MASK", "MASK must be no longer than DATA");
            return Err(Failed);
        }
        let masks = mask.into_iter().chain(std::iter::repeat(0xff));
        Ok(Self { offset: offset as usize, data: data.into_iter().zip(masks).collect(), grow })
    }
}

impl PerPacket for StoreData {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        if packet.len() <= self.offset {
            return Way::ON;
        }
        let lacking = (self.offset + self.data.len()).saturating_sub(packet.len());
        if self.grow && lacking > 0 {
            if packet.len() + lacking > LONGEST {
                return Way::drop(Reason::TooBig);
            }
            packet.append(lacking).fill(0);
        }
        let place = packet.data_mut().get_mut(self.offset..).unwrap_or_default();
        for (byte, &(data, mask)) in place.iter_mut().zip(&self.data) {
            *byte = (*byte & !mask) | (data & mask);
        }
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn writes_the_data_that_fits() {
        let mut rig = Rig::new("StoreData(2, XY)", 1, 1).unwrap();
        let out = rig.push(0, &["abcdef", "abc", "ab", ""]);
        assert_eq!(out[0], ["abXYef", "abX", "ab", ""].map(str::as_bytes));
        let mut rig = Rig::new("StoreData(2, XY, GROW true)", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["abc", "ab"])[0], ["abXY", "ab"].map(str::as_bytes));
    }

    #[test]
    fn the_mask_selects_the_bits() {
        let mut rig = Rig::new(r"StoreData(1, \<ffffff>, \<f00f>)", 1, 1).unwrap();
        let out = rig.push(0, &[[0x11, 0x12, 0x13, 0x14, 0x15]]);
        assert_eq!(out[0], [[0x11, 0xf2, 0x1f, 0xff, 0x15]]);
        assert!(Rig::new("StoreData(1, ab, abc)", 1, 1).is_err());
    }
}
