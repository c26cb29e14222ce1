//! Strip - removes bytes from the front of packets
//!
//! # Synopsis
//! `Strip(LENGTH)`
//!
//! # Description
//! Removes the first LENGTH bytes of each packet. The bytes stay in the packet's headroom: header positions remain
//! valid, and Unstrip can restore the bytes. Packets shorter than LENGTH are dropped.
//!
//! # Arguments
//! - LENGTH: number of bytes to remove. Positional, mandatory.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - truncated: the packet is shorter than LENGTH.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> Strip(14) -> Discard;
//! ```
//!
//! # See also
//! Unstrip

use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct Strip {
    length: usize,
}

register!(Strip, "strip.rs");

impl Element for Strip {
    const CLASS: Class = Class::new("Strip", "1/1", "a/a").aliases(&["FlowStrip"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let length: u32 = setup.args.mandatory("LENGTH");
        setup.args.complete()?;
        Ok(Self { length: length as usize })
    }
}

impl PerPacket for Strip {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        match packet.strip(self.length) {
            true => Way::ON,
            false => Way::drop(Reason::Truncated),
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    #[test]
    fn removes_the_front_and_drops_short_packets() {
        let mut rig = Rig::new("Strip(2)", 1, 1).unwrap();
        let out = rig.push(0, &["abcd", "ab", "a"]);
        assert_eq!(out[0], [b"cd".to_vec(), b"".to_vec()]);
        assert_eq!(rig.stats().drops, [(Reason::Truncated, 1)]);
        assert!(rig.stats().balanced());
    }
}
