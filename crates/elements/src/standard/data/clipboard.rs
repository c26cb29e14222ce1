//! Clipboard - copies byte ranges from one packet into others
//!
//! # Synopsis
//! `Clipboard(RANGE, ...)`
//!
//! # Description
//! For each packet on input 0, stores the bytes in the given ranges and forwards the packet unchanged to output 0.
//! For each packet on input 1, writes the stored bytes into the same ranges and forwards the packet to output 1.
//! So the bytes of one packet can be written into any number of others.
//!
//! The stored bytes are initially zero. If a packet on input 0 ends within or before a range, only the bytes that
//! it has are stored; the rest of the range keeps its old contents. If a packet on input 1 is too short for any of
//! the ranges, it is not changed at all.
//!
//! # Arguments
//! - RANGE: offset and number of bytes, such as `12/2`. Positional, any number of ranges.
//!
//! # Ports
//! Two agnostic inputs, two agnostic outputs. Input N and output N are both push or both pull.
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

use crate::standard::LONGEST;

/// The element; its manual is at the top of the file.
pub struct Clipboard {
    ranges: Vec<Range<usize>>,
    /// The minimum length of packets that contain all ranges.
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

/// Parses a range, such as `12/2`.
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
    fn copies_bytes_from_one_packet_into_others() {
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
    fn refuses_malformed_ranges() {
        for wrong in ["1", "/1", "1/", "a/1", "1/-1", "1/70000", "1/2/3"] {
            assert!(Rig::new(&format!("Clipboard({wrong})"), 2, 2).is_err(), "{wrong}");
        }
        assert!(Rig::new("Clipboard", 2, 2).is_ok());
    }
}
