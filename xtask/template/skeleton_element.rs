//! SkeletonElement - passes on packets of at least so many bytes
//!
//! # Synopsis
//! `SkeletonElement(LENGTH)`
//!
//! # Description
//! Passes on packets of LENGTH bytes or more. Shorter ones are dropped, or leave by output 1 when
//! it is connected.
//!
//! # Arguments
//! - LENGTH: number of bytes. Positional, mandatory.
//!
//! # Ports
//! One agnostic input, one agnostic output; an optional push output for what is too short.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - filtered: the packet was too short, and output 1 is not connected.
//!
//! # Example
//! ```click
//! RatedSource(LENGTH 60, LIMIT 10) -> SkeletonElement(14) -> Discard;
//! ```
//!
//! # See also
//! Strip

use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct SkeletonElement {
    length: u32,
}

register!(SkeletonElement, "skeleton_element.rs");

impl Element for SkeletonElement {
    const CLASS: Class = Class::new("SkeletonElement", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let length = setup.args.mandatory("LENGTH");
        setup.args.complete()?;
        Ok(Self { length })
    }
}

impl PerPacket for SkeletonElement {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let passes = packet.len() >= self.length as usize;
        if passes { Way::ON } else { Way::output_or_drop(1, Reason::Filtered) }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::{Reason, testing::Rig};

    #[test]
    fn a_length_is_mandatory_and_what_is_shorter_is_dropped() {
        assert!(Rig::new("SkeletonElement", 1, 1).is_err());
        let mut rig = Rig::new("SkeletonElement(3)", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["abcd", "ab", "abc"]), [[b"abcd".to_vec(), b"abc".to_vec()]]);
        assert_eq!(rig.stats().drops, [(Reason::Filtered, 1)]);
        assert!(rig.stats().balanced());
    }

    #[test]
    fn what_is_too_short_leaves_by_the_second_output() {
        let mut rig = Rig::new("SkeletonElement(3)", 1, 2).unwrap();
        assert_eq!(rig.push(0, &["ab", "abc"]), [[b"abc".to_vec()], [b"ab".to_vec()]]);
    }
}
