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
//! - `length` (read): LENGTH.
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

use millrace_core::{Class, Context, Element, Failed, Handlers, Packet, Reason, Setup, register};

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

    fn simple_action(&self, cx: &mut Context, (): &mut (), packet: Packet) -> Option<Packet> {
        if packet.len() >= self.length as usize {
            return Some(packet);
        }
        cx.push_or_drop(1, packet, Reason::Filtered);
        None
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("length", |element, _| element.length);
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    #[test]
    fn passes_what_is_long_enough() {
        let mut rig = Rig::new("SkeletonElement(3)", 1, 1).unwrap();
        let out = rig.push(0, &["abcd", "ab", "abc"]);
        assert_eq!(out[0], [b"abcd".to_vec(), b"abc".to_vec()]);
        assert_eq!(rig.stats().drops, [(Reason::Filtered, 1)]);
        assert!(rig.stats().balanced());
        assert_eq!(rig.read("length").unwrap(), "3");
    }

    #[test]
    fn what_is_too_short_leaves_by_the_second_output() {
        let mut rig = Rig::new("SkeletonElement(3)", 1, 2).unwrap();
        let out = rig.push(0, &["ab", "abc"]);
        assert_eq!(out, [[b"abc".to_vec()], [b"ab".to_vec()]]);
    }

    #[test]
    fn the_length_must_be_given() {
        assert!(Rig::new("SkeletonElement", 1, 1).is_err());
    }
}
