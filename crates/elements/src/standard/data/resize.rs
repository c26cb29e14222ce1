//! Resize - adds or removes bytes at both ends of packets
//!
//! # Synopsis
//! `Resize([HEAD, TAIL])`
//!
//! # Description
//! Adds HEAD bytes to the front of each packet, or removes bytes if HEAD is negative. Then adds TAIL bytes to its
//! end, or removes bytes if TAIL is negative. Added bytes hold whatever the buffer contains, such as bytes removed
//! earlier. Removal stops when the packet is empty.
//!
//! # Arguments
//! - HEAD: number of bytes to add to the front. Positional, default 0.
//! - TAIL: number of bytes to add to the end. Positional, default 0.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `head`, `tail` (read, write): the arguments of these names.
//! - `config` (read, write): both arguments.
//!
//! # Drops
//! - too big: the packet would have more than 65535 bytes.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> Resize(-14, -4) -> Discard;
//! ```
//!
//! # See also
//! Strip, Unstrip, Truncate, Pad

use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use crate::standard::LONGEST;

/// The element; its manual is at the top of the file.
pub struct Resize {
    head: AtomicI32,
    tail: AtomicI32,
}

register!(Resize, "resize.rs");

impl Element for Resize {
    const CLASS: Class = Class::new("Resize", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let head: i32 = setup.args.positional("HEAD", 0);
        let tail: i32 = setup.args.positional("TAIL", 0);
        setup.args.complete()?;
        Ok(Self { head: head.into(), tail: tail.into() })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.reconfigure(|resize, new| {
            resize.head.store(new.head.into_inner(), Relaxed);
            resize.tail.store(new.tail.into_inner(), Relaxed);
            Ok(())
        });
        handlers.read("head", |resize, _| resize.head.load(Relaxed));
        handlers.write("head", |resize, call| {
            resize.head.store(call.parse()?, Relaxed);
            Ok(())
        });
        handlers.read("tail", |resize, _| resize.tail.load(Relaxed));
        handlers.write("tail", |resize, call| {
            resize.tail.store(call.parse()?, Relaxed);
            Ok(())
        });
    }
}

impl PerPacket for Resize {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let fits =
            add_front(packet, self.head.load(Relaxed)) && add_end(packet, self.tail.load(Relaxed));
        if fits { Way::ON } else { Way::drop(Reason::TooBig) }
    }
}

/// False when the packet would be too long.
fn add_front(packet: &mut View, n: i32) -> bool {
    let bytes = n.unsigned_abs() as usize;
    if n < 0 {
        return packet.strip(bytes.min(packet.len()));
    }
    let fits = packet.len() + bytes <= LONGEST;
    if fits && !packet.unstrip(bytes) {
        packet.prepend(bytes);
    }
    fits
}

/// False when the packet would be too long.
fn add_end(packet: &mut View, n: i32) -> bool {
    let bytes = n.unsigned_abs() as usize;
    if n < 0 {
        return packet.trim(bytes.min(packet.len()));
    }
    let len = packet.len() + bytes;
    let fits = len <= LONGEST;
    if fits && bytes > 0 {
        packet.with_packet(|packet| {
            if !packet.set_len(len) {
                packet.append(bytes);
            }
        });
    }
    fits
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    #[test]
    fn removes_and_adds_bytes_at_both_ends() {
        let mut rig = Rig::new("Resize(-2, -1)", 1, 1).unwrap();
        assert_eq!(
            rig.push(0, &["abcdef", "abc", "ab", ""])[0],
            ["cde", "", "", ""].map(str::as_bytes)
        );
        let mut rig = Rig::new("Resize(3, 2)", 1, 1).unwrap();
        let out = rig.push(0, &["abc"]);
        assert_eq!((out[0][0].len(), &out[0][0][3..6]), (8, &b"abc"[..]));
    }

    #[test]
    fn drops_packets_that_would_be_too_long() {
        let mut rig = Rig::new("Resize(2147483647)", 1, 1).unwrap();
        assert!(rig.push(0, &["a"])[0].is_empty());
        rig.write("head", "0").unwrap();
        rig.write("tail", "65535").unwrap();
        assert!(rig.push(0, &["a"])[0].is_empty());
        assert_eq!(rig.push(0, &[""])[0][0].len(), 65_535);
        assert_eq!(rig.stats().drops, [(Reason::TooBig, 2)]);
        rig.write("tail", "-2147483648").unwrap();
        assert_eq!(rig.push(0, &["abc"])[0], [b""]);
        rig.write("config", "-1").unwrap();
        assert_eq!(rig.push(0, &["abc"])[0], [b"bc"]);
    }
}
