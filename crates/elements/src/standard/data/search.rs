//! Search - finds a byte pattern and strips packets up to it
//!
//! # Synopsis
//! `Search(PATTERN [, keywords STRIP_AFTER, ANNO, SET_ANNO])`
//!
//! # Description
//! Searches each packet for PATTERN. If it is found, the element removes the bytes before the pattern and the pattern
//! itself, adds their number to the annotation ANNO, and sends the packet to output 0. UnstripAnno uses that
//! annotation to restore the bytes. Packets without the pattern leave unchanged by output 1.
//!
//! # Arguments
//! - PATTERN: the bytes to search for, at least one. Positional, mandatory.
//! - STRIP_AFTER: whether to remove the pattern too. Default true.
//! - ANNO: two-byte annotation, by name or offset. Default PAINT2.
//! - SET_ANNO: whether to add the number of removed bytes to ANNO. Default true.
//!
//! # Ports
//! One push input, one or two push outputs.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - no match: the packet does not contain the pattern, and output 1 is not connected.
//!
//! # Example
//! ```click
//! InfiniteSource("GET / HTTP/1.1\r\n\r\nbody", LIMIT 1) -> Search("\r\n\r\n") -> Print -> Discard;
//! ```
//!
//! # See also
//! UnstripAnno, Strip, StripTCPHeader

use millrace_core::args::Annotation;
use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use crate::flows::words::find;
use crate::standard::annotations::PAINT2;

/// The element; its manual is at the top of the file.
pub struct Search {
    pattern: Vec<u8>,
    strips_pattern: bool,
    /// Offset of the annotation for the number of removed bytes.
    anno: Option<usize>,
}

register!(Search, "search.rs");

impl Element for Search {
    const CLASS: Class = Class::new("Search", "1/1-2", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let pattern: Vec<u8> = setup.args.mandatory("PATTERN");
        let strips_pattern = setup.args.keyword("STRIP_AFTER", true);
        let Annotation(anno) = setup.args.keyword("ANNO", PAINT2);
        let notes = setup.args.keyword("SET_ANNO", true);
        setup.args.complete()?;
        if pattern.is_empty() {
            setup.args.error((), "Cannot search for an empty string!");
            return Err(Failed);
        }
        Ok(Self { pattern, strips_pattern, anno: notes.then_some(anno) })
    }
}

impl PerPacket for Search {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let Some(start) = find(packet.data(), &self.pattern) else {
            return Way::output_or_drop(1, Reason::NoMatch);
        };
        let bytes = if self.strips_pattern { start + self.pattern.len() } else { start };
        // This cannot fail: the packet contains these bytes.
        let _ = packet.strip(bytes);
        if let Some(anno) = self.anno {
            packet.set_anno_u16(anno, packet.anno_u16(anno).wrapping_add(bytes as u16));
        }
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn strips_up_to_the_pattern() {
        let mut rig = Rig::new("Search(bc)", 1, 2).unwrap();
        let out = rig.push(0, &["abcd", "ab", "", "xxbc"]);
        assert_eq!(out, [vec![b"d".to_vec(), vec![]], vec![b"ab".to_vec(), vec![]]]);
        let mut rig = Rig::new("Search(bc, STRIP_AFTER false)", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["abcbc", "b"])[0], [b"bcbc"]);
        assert!(rig.stats().balanced());
        assert!(Rig::new("Search(\"\")", 1, 1).is_err());
    }
}
