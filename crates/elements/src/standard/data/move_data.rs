//! MoveData - copies bytes from one offset to another within each packet
//!
//! # Synopsis
//! `MoveData(DST_OFFSET, SRC_OFFSET, LENGTH [, keyword GROW])`
//!
//! # Description
//! Copies LENGTH bytes of each packet from SRC_OFFSET to DST_OFFSET. If DST_OFFSET + LENGTH is beyond the packet's
//! end, the packet grows; any gap is filled with zeros. If GROW is false, such a packet is unchanged. Packets of
//! SRC_OFFSET + LENGTH bytes or fewer are also unchanged.
//!
//! # Arguments
//! - DST_OFFSET: offset to write to, in bytes. Positional, mandatory.
//! - SRC_OFFSET: offset to read from, in bytes. Positional, mandatory.
//! - LENGTH: number of bytes to copy. Positional, mandatory.
//! - GROW: whether packets that are too short grow. Default true.
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
//! InfiniteSource(LENGTH 64, LIMIT 10) -> MoveData(0, 6, 6) -> Discard;
//! ```
//!
//! # See also
//! StoreData, Clipboard

use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use crate::standard::LONGEST;

/// The element; its manual is at the top of the file.
pub struct MoveData {
    to: usize,
    from: usize,
    length: usize,
    grow: bool,
}

register!(MoveData, "move_data.rs");

impl Element for MoveData {
    const CLASS: Class = Class::new("MoveData", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let to: u32 = setup.args.mandatory("DST_OFFSET");
        let from: u32 = setup.args.mandatory("SRC_OFFSET");
        let length: u32 = setup.args.mandatory("LENGTH");
        let grow = setup.args.keyword("GROW", true);
        setup.args.complete()?;
        Ok(Self { to: to as usize, from: from as usize, length: length as usize, grow })
    }
}

impl PerPacket for MoveData {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let source = self.from..self.from + self.length;
        if packet.len() <= source.end {
            return Way::ON;
        }
        let end = self.to + self.length;
        if let Some(lacking @ 1..) = end.checked_sub(packet.len()) {
            if !self.grow {
                return Way::ON;
            }
            if end > LONGEST {
                return Way::drop(Reason::TooBig);
            }
            packet.append(lacking).fill(0);
        }
        packet.data_mut().copy_within(source, self.to);
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    #[test]
    fn bytes_are_copied_and_packets_grow() {
        let mut rig = Rig::new("MoveData(4, 1, 2)", 1, 1).unwrap();
        let out = rig.push(0, &["abcdefg", "abcd", "abc"]);
        assert_eq!(out[0], ["abcdbcg", "abcdbc", "abc"].map(str::as_bytes));
        let mut rig = Rig::new("MoveData(4, 1, 2, GROW false)", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["abcdefg", "abcd"])[0], ["abcdbcg", "abcd"].map(str::as_bytes));
        let mut rig = Rig::new("MoveData(4294967295, 0, 1)", 1, 1).unwrap();
        assert!(rig.push(0, &["abc"])[0].is_empty());
        assert_eq!(rig.stats().drops, [(Reason::TooBig, 1)]);
    }
}
