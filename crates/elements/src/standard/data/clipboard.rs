//! Clipboard - copies bytes from packets into other packets
//!
//! # Synopsis
//! `Clipboard(RANGE, ...)`
//!
//! # Description
//! Keeps a copy of the bytes in the given ranges of the last packet that came by input 0; the
//! packet leaves unchanged by output 0. Packets that come by input 1 get these bytes, in the same
//! places, and leave by output 1. So one packet's bytes can go into any number of others.
//!
//! Before a packet has come by input 0 the bytes are zero. Of a packet at input 0 that is too short
//! for a range, the bytes that it has are taken. A packet at input 1 that is too short for any of
//! the ranges stays as it is.
//!
//! # Arguments
//! - RANGE: offset and number of bytes, as in `12/2`. Positional, any number of them.
//!
//! # Ports
//! Two agnostic inputs, two agnostic outputs, each pair for itself.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! c :: Clipboard(0/6);
//! InfiniteSource(DATA "source", LIMIT 1) -> [0] c [0] -> Discard;
//! InfiniteSource(DATA "target packet", LIMIT 3) -> [1] c [1] -> Discard;
//! ```
//!
//! # See also
//! StoreData, Strip, Unstrip

use std::ops::Range;

use millrace_core::args::ArgText;
use millrace_core::{Batch, Class, Context, Element, Failed, Lock, Packet, Setup, register};

use super::LONGEST;

/// The element; its manual is at the top of the file.
pub struct Clipboard {
    ranges: Vec<Range<usize>>,
    /// The least length of packets that have all ranges.
    least: usize,
    /// The bytes of all ranges, one after the other.
    board: Lock<Vec<u8>>,
}

register!(Clipboard, "clipboard.rs");

impl Element for Clipboard {
    const CLASS: Class = Class::new("Clipboard", "2/2", "a/a").flow("#/#");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let mut ranges = Vec::new();
        for (number, text) in setup.args.rest().iter().enumerate() {
            match range(setup, text) {
                Ok(range) => ranges.push(range),
                Err(wrong) => {
                    setup.args.error(text, format!("range {number}: {wrong}"));
                    return Err(Failed);
                }
            }
        }
        setup.args.complete()?;
        let least = ranges.iter().map(|range| range.end).max().unwrap_or(0);
        let board = vec![0; ranges.iter().map(Range::len).sum()].into();
        Ok(Self { ranges, least, board })
    }

    fn push(&self, cx: &mut Context, (): &mut (), port: usize, batch: &mut Batch) {
        self.treat(port, batch);
        cx.push_batch(port, batch);
    }

    fn pull(&self, cx: &mut Context, (): &mut (), port: usize, max: usize, batch: &mut Batch) {
        cx.pull(port, max, batch);
        self.treat(port, batch);
    }
}

/// A range as written: `12/2`.
fn range(setup: &mut Setup<'_>, text: &ArgText) -> Result<Range<usize>, &'static str> {
    const WRONG: &str = "invalid offset or length";
    let len = text.as_str().len();
    let slash = text.as_str().find('/').filter(|&slash| slash > 0 && slash + 1 < len);
    let slash = slash.ok_or("expected '/' between offset and length")?;
    let offset: Option<u32> = setup.args.parse_as("OFFSET", &text.part(0..slash));
    let length: Option<u32> = setup.args.parse_as("LENGTH", &text.part(slash + 1..len));
    let range = offset.ok_or(WRONG)? as usize..length.ok_or(WRONG)? as usize;
    if range.start.max(range.end) > LONGEST {
        return Err(WRONG);
    }
    Ok(range.start..range.start + range.end)
}

impl Clipboard {
    fn treat(&self, port: usize, batch: &mut Batch) {
        match port {
            0 => {
                let mut board = self.board.lock();
                batch.iter().for_each(|packet| self.copy(packet, &mut board));
            }
            _ => {
                let board = self.board.lock();
                batch.for_each(|packet| self.paste(packet, &board));
            }
        }
    }

    fn copy(&self, packet: &Packet, board: &mut [u8]) {
        let mut at = 0;
        for range in &self.ranges {
            let bytes = packet.data().get(range.start..).unwrap_or_default();
            let place = board.get_mut(at..at + range.len()).unwrap_or_default();
            place.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
            at += range.len();
        }
    }

    fn paste(&self, packet: &mut Packet, board: &[u8]) {
        if packet.len() < self.least {
            return;
        }
        let mut board = board.iter();
        let data = packet.data_mut();
        for range in &self.ranges {
            let place = data.get_mut(range.clone()).unwrap_or_default();
            place.iter_mut().zip(&mut board).for_each(|(place, byte)| *place = *byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn bytes_go_from_one_packet_to_the_next() {
        let mut rig = Rig::new("Clipboard(0/2, 3/1)", 2, 2).unwrap();
        assert_eq!(rig.push(1, &["abcd"])[1], [b"\0\0c\0"]);
        assert_eq!(rig.push(0, &["wxyz", "WXYZ"])[0], [b"wxyz", b"WXYZ"]);
        assert_eq!(
            rig.push(1, &["abcd", "abc", "abcde"])[1],
            ["WXcZ", "abc", "WXcZe"].map(str::as_bytes)
        );
        rig.push(0, &["Q"]);
        assert_eq!(rig.push(1, &["abcd"])[1], [b"QXcZ"]);
    }

    #[test]
    fn ranges_have_two_numbers() {
        for wrong in ["1", "/1", "1/", "a/1", "1/-1", "1/70000", "1/2/3"] {
            assert!(Rig::new(&format!("Clipboard({wrong})"), 2, 2).is_err(), "{wrong}");
        }
        assert!(Rig::new("Clipboard", 2, 2).is_ok());
    }
}
