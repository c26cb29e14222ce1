//! CheckCRC32 - checks and removes the CRC-32 checksum at the end of packets
//!
//! # Synopsis
//! `CheckCRC32`
//!
//! # Description
//! Computes the CRC of each packet without its last four bytes, and compares it with those four bytes, which SetCRC32
//! appended. If they match, removes the four bytes. Otherwise drops the packet and prints `CRC32 failed, len`
//! followed by the packet's length.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - bad checksum: the CRC does not match.
//! - truncated: the packet is shorter than four bytes.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> SetCRC32 -> CheckCRC32 -> Discard;
//! ```
//!
//! # See also
//! SetCRC32

use millrace_core::{
    Class, Context, Element, Failed, Moment, Packet, PerPacket, Reason, Setup, View, Way, register,
};

use super::set_crc32::crc32;

/// The element; its manual is at the top of the file.
pub struct CheckCrc32;

register!(CheckCrc32, "check_crc32.rs");

impl Element for CheckCrc32 {
    const CLASS: Class = Class::new("CheckCRC32", "1/1", "a/a").ordered();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for CheckCrc32 {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        match packet.data().split_last_chunk::<4>() {
            Some((bytes, crc)) if crc32(bytes) == *crc => {
                packet.truncate(packet.len() - 4);
                Way::ON
            }
            Some(_) => Way::drop(Reason::BadChecksum),
            None => Way::drop(Reason::Truncated),
        }
    }

    fn aside(&self, cx: &mut Context, (): &mut (), packet: Packet, way: Way) -> Option<Packet> {
        cx.router().chatter(&format!("CRC32 failed, len {}", packet.len()));
        cx.send_or_drop(packet, way)
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    #[test]
    fn packets_with_a_wrong_crc_are_dropped() {
        let mut set = Rig::new("SetCRC32", 1, 1).unwrap();
        let good = set.push(0, &["abc"])[0].remove(0);
        let mut bad = good.clone();
        bad[1] ^= 1;
        let mut rig = Rig::new("CheckCRC32", 1, 1).unwrap();
        assert_eq!(rig.push(0, &[&good[..], &bad, b"abc"])[0], [b"abc"]);
        assert_eq!(rig.stats().drops, [(Reason::Truncated, 1), (Reason::BadChecksum, 1)]);
    }
}
