//! StoreData - writes bytes into packets
//!
//! # Synopsis
//! `StoreData(OFFSET, DATA [, MASK, keyword GROW])`
//!
//! # Description
//! Writes DATA into each packet, OFFSET bytes from its start. Of DATA that reaches beyond the end
//! of the packet only what fits is written, unless GROW is true. Packets that end before OFFSET, or
//! there, stay as they are.
//!
//! With MASK only those bits are written that are set in it. A mask shorter than DATA counts for its
//! first bytes; those after are written whole.
//!
//! # Arguments
//! - OFFSET: where to write, in bytes. Positional, mandatory.
//! - DATA: what to write. Positional, mandatory.
//! - MASK: which bits to write, no longer than DATA. Positional; all by default.
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

use super::LONGEST;

/// The element; its manual is at the top of the file.
pub struct StoreData {
    offset: usize,
    /// What to write, and which bits of it.
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
    fn data_is_written_as_far_as_it_fits() {
        let mut rig = Rig::new("StoreData(2, XY)", 1, 1).unwrap();
        let out = rig.push(0, &["abcdef", "abc", "ab", ""]);
        assert_eq!(out[0], ["abXYef", "abX", "ab", ""].map(str::as_bytes));
        let mut rig = Rig::new("StoreData(2, XY, GROW true)", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["abc", "ab"])[0], ["abXY", "ab"].map(str::as_bytes));
    }

    #[test]
    fn a_mask_says_which_bits() {
        let mut rig = Rig::new(r"StoreData(1, \<ffffff>, \<f00f>)", 1, 1).unwrap();
        let out = rig.push(0, &[[0x11, 0x12, 0x13, 0x14, 0x15]]);
        assert_eq!(out[0], [[0x11, 0xf2, 0x1f, 0xff, 0x15]]);
        assert!(Rig::new("StoreData(1, ab, abc)", 1, 1).is_err());
    }
}
