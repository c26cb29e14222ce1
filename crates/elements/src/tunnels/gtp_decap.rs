//! GTPDecap - removes the GTP-U header from packets
//!
//! # Synopsis
//! `GTPDecap()`
//!
//! # Description
//! Removes the GTP version 1 header (3GPP TS 29.281, 5) of each packet, including optional fields and extension
//! headers, and sets the aggregate annotation to the tunnel endpoint identifier.
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
//! - truncated: the packet is shorter than its header.
//! - bad version: not version 1.
//! - bad header length: an extension header has length zero.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<30ff0002 00000016 4500>, LIMIT 10)
//!     -> GTPDecap
//!     -> Discard;
//! ```
//!
//! # See also
//! GTPEncap, Strip

use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct GtpDecap;

register!(GtpDecap, "gtp_decap.rs");

/// If any of these bits is set, a sequence number, an N-PDU number and the type of an extension header follow.
const OPTIONAL: u8 = 0x07;
/// The extension header type is valid.
const EXTENDED: u8 = 0x04;
const LEN: usize = 8;
const OPTIONAL_LEN: usize = 4;

impl Element for GtpDecap {
    const CLASS: Class = Class::new("GTPDecap", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for GtpDecap {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        Way::on_or_drop(unwrap(packet))
    }
}

fn unwrap(packet: &mut View) -> Result<(), Reason> {
    let data = packet.data();
    let &[flags, _, _, _, a, b, c, d] = data.first_chunk::<LEN>().ok_or(Reason::Truncated)?;
    if flags >> 5 != 1 {
        return Err(Reason::BadVersion);
    }
    let mut len = LEN;
    if flags & OPTIONAL != 0 {
        len += OPTIONAL_LEN;
    }
    if flags & EXTENDED != 0 {
        // Each extension header begins with its length in words, and ends with the type of the next one.
        while *data.get(len - 1).ok_or(Reason::Truncated)? != 0 {
            match data.get(len).ok_or(Reason::Truncated)? {
                0 => return Err(Reason::BadHeaderLength),
                words => len += 4 * usize::from(*words),
            }
        }
    }
    if !packet.strip(len) {
        return Err(Reason::Truncated);
    }
    packet.set_aggregate(u32::from_be_bytes([a, b, c, d]));
    Ok(())
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    use crate::test_packets::ip::withstands;

    #[test]
    fn optional_fields_and_extension_headers_are_removed() {
        let mut rig = Rig::new("GTPDecap", 1, 1).unwrap();
        let packets = [
            &b"\x30\xff\0\x01\0\0\0\x09x"[..],
            b"\x32\xff\0\x05\0\0\0\x09\0\x01\0\x85x",
            b"\x34\xff\0\x09\0\0\0\x09\0\0\0\x85\x01\x10\x09\0x",
            b"\x34\xff\0\x0d\0\0\0\x09\0\0\0\x85\x01\x10\x09\x40\x01\0\0\0x",
        ];
        assert_eq!(rig.push(0, &packets)[0], [b"x"; 4]);
        let wrong = [
            &b"\x30\xff\0\0\0\0\0"[..],
            b"\x34\xff\0\x04\0\0\0\x09\0\0\0\x85",
            b"\x34\xff\0\x08\0\0\0\x09\0\0\0\x85\0\0\0\0",
            b"\x50\xff\0\0\0\0\0\x09",
        ];
        assert!(rig.push(0, &wrong)[0].is_empty());
        let mut found = rig.stats().drops;
        found.sort();
        let drops = [(Reason::Truncated, 2), (Reason::BadVersion, 1), (Reason::BadHeaderLength, 1)];
        assert_eq!(found, drops);
    }

    #[test]
    fn withstands_anything() {
        withstands("GTPDecap", 1);
    }
}
