//! Packets for the tests of elements, by family: valid ones, made by etherparse, and hostile ones.
//!
//! ```
//! use millrace_core::testing::Rig;
//! use millrace_test_packets::ip::{Datagram, withstands};
//!
//! let datagram = Datagram { ttl: 7, ..Datagram::udp(b"data") };
//! let packet = datagram.packet();
//! assert_eq!(packet.network_data().unwrap(), datagram.bytes());
//!
//! // In a crate that links the element: random, malformed and truncated packets.
//! # let test = || {
//! withstands("DecIPTTL", 1);
//! let out = Rig::new("DecIPTTL", 1, 1).unwrap().push_packets(0, vec![datagram.packet()]);
//! assert_eq!(out[0].len(), 1);
//! # };
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a packet that cannot be built fails the test"
)]

pub mod ip;
pub mod ip6;
