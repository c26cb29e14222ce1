//! CheckIPHeader2 - validates IPv4 headers without verifying the checksum
//!
//! # Synopsis
//! `CheckIPHeader2([OFFSET, keyword INTERFACES, BADSRC, GOODDST, CHECKSUM, VERBOSE, DETAILS])`
//!
//! # Description
//! Does the same as CheckIPHeader, but verifies the checksum only if CHECKSUM is true.
//!
//! # Arguments
//! As CheckIPHeader:
//! - OFFSET: number of bytes before the IP header. Positional or keyword, default 0.
//! - INTERFACES: this router's addresses with their prefixes, separated by spaces. Adds the
//!   networks' broadcast addresses, 0.0.0.0 and 255.255.255.255 to BADSRC, and the addresses to
//!   GOODDST. Keyword, default none.
//! - BADSRC: source addresses to reject, separated by spaces. Keyword, default none.
//! - GOODDST: destination addresses, separated by spaces. Packets to them may come from any source. Keyword, default
//!   none.
//! - CHECKSUM: whether to verify the checksum. Keyword, default false.
//! - VERBOSE: whether to print a message for every bad packet. Keyword, default false.
//! - DETAILS: whether to provide the handler `drop_details`. Keyword, default false.
//!
//! # Ports
//! One agnostic input. Output 0, agnostic: valid packets. Output 1, push, optional: bad packets, unchanged.
//!
//! # Handlers
//! - `count` (read): number of valid packets.
//! - `drops` (read): number of bad packets, dropped or sent to output 1.
//! - `drop_details` (read): bad packets by fault. Each line has a count, a tab and the fault. Present only with
//!   DETAILS.
//!
//! # Drops
//! As CheckIPHeader.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 40110000 01000001 02000002>, LIMIT 10)
//!     -> CheckIPHeader2
//!     -> Discard;
//! ```
//!
//! # See also
//! CheckIPHeader, MarkIPHeader, StripIPHeader

use millrace_core::{Class, register};

use super::check_ip_header::{CheckIp, Kind};

/// The element; its manual is at the top of the file.
pub type CheckIpHeader2 = CheckIp<NotSumming>;

register!(CheckIpHeader2, "check_ip_header2.rs");

/// Does not verify checksums by default.
pub struct NotSumming;

impl Kind for NotSumming {
    const CLASS: Class = Class::new("CheckIPHeader2", "1/1-2", "a/ah");
    const CHECKSUM: bool = false;
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    use crate::test_packets::ip::{Datagram, withstands};

    #[test]
    fn the_checksum_is_verified_only_on_request() {
        let mut bytes = Datagram::default().bytes();
        bytes[10] ^= 1;
        let mut rig = Rig::new("CheckIPHeader2", 1, 1).unwrap();
        assert_eq!(rig.push(0, &[&bytes, &bytes[..19].to_vec()])[0], [bytes.clone()]);
        assert_eq!(rig.stats().drops, [(Reason::Truncated, 1)]);
        let mut rig = Rig::new("CheckIPHeader2(CHECKSUM true)", 1, 1).unwrap();
        assert!(rig.push(0, &[&bytes])[0].is_empty());
        assert_eq!(rig.stats().drops, [(Reason::BadChecksum, 1)]);
    }

    #[test]
    fn withstands_anything() {
        withstands("CheckIPHeader2", 2);
    }
}
