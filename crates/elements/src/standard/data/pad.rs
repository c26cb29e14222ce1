//! Pad - extends packets to a minimum length
//!
//! # Synopsis
//! `Pad([LENGTH, keywords ZERO, RANDOM])`
//!
//! # Description
//! Appends bytes to packets that are shorter than LENGTH until they have that length. If LENGTH is 0, appends as
//! many bytes as the extra length annotation specifies; this restores the length that packets had before
//! Truncate or a dump cut them. In both cases, sets the extra length annotation to 0.
//!
//! # Arguments
//! - LENGTH: minimum length in bytes; 0 for the original length. Positional, default 0.
//! - ZERO: whether the added bytes are zero; otherwise they are whatever the buffer contains. Default true.
//! - RANDOM: whether the added bytes are random; overrides ZERO. Default false.
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
//! InfiniteSource(LENGTH 20, LIMIT 10) -> Pad(60) -> Discard;
//! ```
//!
//! # See also
//! Truncate, Resize

use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use crate::standard::LONGEST;

/// The element; its manual is at the top of the file.
pub struct Pad {
    /// 0 for the extra length annotation.
    length: usize,
    zero: bool,
    random: bool,
}

register!(Pad, "pad.rs");

impl Element for Pad {
    const CLASS: Class = Class::new("Pad", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let length: u32 = setup.args.positional("LENGTH", 0);
        let zero = setup.args.keyword("ZERO", true);
        let random = setup.args.keyword("RANDOM", false);
        setup.args.complete()?;
        Ok(Self { length: length as usize, zero, random })
    }
}

impl PerPacket for Pad {
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        let lacking = match self.length {
            0 => packet.extra_length() as usize,
            length => length.saturating_sub(packet.len()),
        };
        if lacking > 0 {
            if packet.len() + lacking > LONGEST {
                return Way::drop(Reason::TooBig);
            }
            let added = packet.append(lacking);
            if self.random {
                at.random().fill(added);
            } else if self.zero {
                added.fill(0);
            }
        }
        packet.set_extra_length(0);
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};

    #[test]
    fn packets_get_a_minimum_length() {
        let mut rig = Rig::new("Pad(4)", 1, 1).unwrap();
        let out = rig.push(0, &["", "abc", "abcd", "abcde"]);
        assert_eq!(out[0], ["\0\0\0\0", "abc\0", "abcd", "abcde"].map(str::as_bytes));
        let mut rig = Rig::new("Pad(200, ZERO false, RANDOM true)", 1, 1).unwrap();
        let out = rig.push(0, &["abc"]);
        assert_eq!(out[0][0].len(), 200);
        assert!(out[0][0][3..].iter().any(|&byte| byte != out[0][0][3]));
    }

    #[test]
    fn the_annotation_restores_the_original_length() {
        let mut rig = Rig::new("Pad", 1, 1).unwrap();
        let cut = |extra: u32| {
            let mut packet = Packet::from_bytes(b"ab").unwrap();
            packet.set_extra_length(extra);
            vec![packet]
        };
        let out = rig.push_packets(0, cut(3));
        assert_eq!((out[0][0].data(), out[0][0].extra_length()), (&b"ab\0\0\0"[..], 0));
        assert!(rig.push_packets(0, cut(u32::MAX))[0].is_empty());
        assert_eq!(rig.stats().drops, [(Reason::TooBig, 1)]);
    }
}
