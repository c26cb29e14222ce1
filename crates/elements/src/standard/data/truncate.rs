//! Truncate - cuts packets to a maximum length
//!
//! # Synopsis
//! `Truncate(LENGTH [, keyword EXTRA_LENGTH])`
//!
//! # Description
//! Removes bytes from the end of packets that are longer than LENGTH. Unless EXTRA_LENGTH is false, adds the number
//! of removed bytes to the extra length annotation, so that the length on the wire stays known.
//!
//! # Arguments
//! - LENGTH: maximum length in bytes, 0 to 65535. Positional, mandatory.
//! - EXTRA_LENGTH: whether to add the number of removed bytes to the extra length annotation. Default true.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 100, LIMIT 10) -> Truncate(60) -> Discard;
//! ```
//!
//! # See also
//! Pad, Resize, Strip

use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

/// The element; its manual is at the top of the file.
#[derive(Clone, Copy)]
pub struct Truncate {
    length: usize,
    extra_length: bool,
}

register!(Truncate, "truncate.rs");

impl Element for Truncate {
    const CLASS: Class = Class::new("Truncate", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let length: u16 = setup.args.mandatory("LENGTH");
        let extra_length = setup.args.keyword("EXTRA_LENGTH", true);
        setup.args.complete()?;
        Ok(Self { length: length.into(), extra_length })
    }
}

impl PerPacket for Truncate {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let cut = packet.len().saturating_sub(self.length);
        if cut > 0 {
            packet.truncate(self.length);
            if self.extra_length {
                packet.set_extra_length(packet.extra_length().wrapping_add(cut as u32));
            }
        }
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;

    #[test]
    fn truncates_long_packets_and_sets_the_extra_length() {
        for (element, extra) in [("Truncate(3)", 9), ("Truncate(3, EXTRA_LENGTH false)", 7)] {
            let mut rig = Rig::new(element, 1, 1).unwrap();
            assert_eq!(
                rig.push(0, &["abcde", "abc", "", "ab"])[0],
                ["abc", "abc", "", "ab"].map(str::as_bytes)
            );
            let mut packet = Packet::from_bytes(b"abcde").unwrap();
            packet.set_extra_length(7);
            assert_eq!(rig.push_packets(0, vec![packet])[0][0].extra_length(), extra);
        }
        assert!(Rig::new("Truncate(65536)", 1, 1).is_err());
        assert!(Rig::new("Truncate", 1, 1).is_err());
    }
}
