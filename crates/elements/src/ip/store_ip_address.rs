//! StoreIPAddress - writes an IP address into packet data
//!
//! # Synopsis
//! `StoreIPAddress(OFFSET)`, `StoreIPAddress(ADDRESS, OFFSET)`
//!
//! # Description
//! Writes ADDRESS into the packet at OFFSET, as four bytes. Without ADDRESS, writes the destination annotation.
//!
//! OFFSET can be `src` or `dst` for the IP header's source or destination address. The checksums of the IP header and
//! of a TCP or UDP header are then updated. With an offset in bytes, no checksum is updated.
//!
//! # Arguments
//! - ADDRESS: the address. Positional, default the packet's destination annotation.
//! - OFFSET: number of bytes before the address, or `src` or `dst`. Positional, mandatory.
//!
//! # Ports
//! One agnostic input. Output 0, agnostic: packets with the address. Output 1, push, optional: packets to which the
//! address could not be written, unchanged.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! Without output 1:
//! - truncated: the packet is too short for an address at OFFSET.
//! - header not set: with `src` or `dst`, the packet's network header is not set. With an offset in bytes and no
//!   ADDRESS, the destination annotation is zero.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 401177d7 01000001 02000002>, LIMIT 10)
//!     -> MarkIPHeader
//!     -> StoreIPAddress(10.0.0.7, src)
//!     -> Discard;
//! ```
//!
//! # See also
//! GetIPAddress, SetIPAddress, IPAddrRewriter

use std::net::Ipv4Addr;

use millrace_core::args::Word;
use millrace_core::checksum;
use millrace_core::headers::{Header, Ipv4Header, TcpHeader, U16, UdpHeader, protocol};
use millrace_core::{Batch, Class, Context, Element, Failed, Packet, Reason, Setup, register};

use super::{network_header, network_header_mut};

/// The element; its manual is at the top of the file.
pub struct StoreIpAddress {
    address: Option<Ipv4Addr>,
    place: Place,
}

/// Where the address goes.
#[derive(Clone, Copy)]
enum Place {
    Offset(usize),
    Source,
    Destination,
}

register!(StoreIpAddress, "store_ip_address.rs");

impl Element for StoreIpAddress {
    const CLASS: Class = Class::new("StoreIPAddress", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let address = (args.len() > 1).then(|| args.mandatory("ADDR"));
        let Word(offset) = args.mandatory("OFFSET");
        let place = match offset.to_ascii_lowercase().as_str() {
            "src" => Place::Source,
            "dst" => Place::Destination,
            number => {
                match millrace_core::args::parse::<i32>(number, args.scope()).map(u32::try_from) {
                    Ok(Ok(offset)) => Place::Offset(offset as usize),
                    _ => {
                        if !args.has_errors() {
                            args.error("OFFSET", "type mismatch: OFFSET requires integer");
                        }
                        Place::Offset(0)
                    }
                }
            }
        };
        args.complete()?;
        Ok(Self { address, place })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        batch.map_filter(|mut packet| {
            let annotation = packet.dst_ip();
            let stored = match self.place {
                Place::Offset(_) if self.address.is_none() && annotation.is_unspecified() => {
                    Err(Reason::NoHeader)
                }
                place => store(&mut packet, place, self.address.unwrap_or(annotation)),
            };
            match stored {
                Ok(()) => Some(packet),
                Err(reason) => {
                    cx.push_or_drop(1, packet, reason);
                    None
                }
            }
        });
    }
}

fn store(packet: &mut Packet, place: Place, address: Ipv4Addr) -> Result<(), Reason> {
    let octets = address.octets();
    if let Place::Offset(offset) = place {
        // Don't copy a packet that is not changed.
        if packet.data().get(offset..).and_then(<[u8]>::first_chunk::<4>).is_none() {
            return Err(Reason::Truncated);
        }
        let bytes = packet.data_mut().get_mut(offset..).and_then(<[u8]>::first_chunk_mut::<4>);
        *bytes.ok_or(Reason::Truncated)? = octets;
        return Ok(());
    }
    let header_len = network_header(packet).ok_or(Reason::NoHeader)?.header_len();
    if header_len < Ipv4Header::LEN {
        return Err(Reason::NoHeader);
    }
    let ip = network_header_mut(packet).ok_or(Reason::NoHeader)?;
    let field = if matches!(place, Place::Source) { &mut ip.src } else { &mut ip.dst };
    let (old, new) = (u32::from_be_bytes(*field), address.to_bits());
    *field = octets;
    let updated = |sum: &mut U16| sum.set(checksum::update_u32(sum.get(), old, new));
    updated(&mut ip.checksum);
    let transport = ip.is_first_fragment().then_some(ip.protocol);
    let bytes = packet.transport_data_mut().unwrap_or_default();
    match transport {
        Some(protocol::TCP) => {
            if let Some((tcp, _)) = TcpHeader::view_mut(bytes) {
                updated(&mut tcp.checksum);
            }
        }
        Some(protocol::UDP) => {
            // 0: the sender computed none.
            if let Some((udp, _)) = UdpHeader::view_mut(bytes)
                && udp.checksum.get() != 0
            {
                updated(&mut udp.checksum);
            }
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use proptest::prelude::*;

    use crate::test_packets::ip::{Datagram, has_right_transport_checksum, withstands};

    proptest! {
        /// The incremental updates give the checksums that etherparse computes from scratch.
        #[test]
        fn checksums_stay_correct(
            address: [u8; 4],
            tcp: bool,
            source: bool,
            data in prop::collection::vec(any::<u8>(), 0..50),
        ) {
            let datagram = if tcp { Datagram::tcp(&data) } else { Datagram::udp(&data) };
            let [a, b, c, d] = address;
            let place = if source { "src" } else { "dst" };
            let element = format!("StoreIPAddress({a}.{b}.{c}.{d}, {place})");
            let out = Rig::new(&element, 1, 1).unwrap().push_packets(0, vec![datagram.packet()]);
            prop_assert!(has_right_transport_checksum(out[0][0].data()));
            let at = if source { 12 } else { 16 };
            prop_assert_eq!(&out[0][0].data()[at..at + 4], address);
        }
    }

    #[test]
    fn withstands_anything() {
        withstands("StoreIPAddress(1.2.3.4, src)", 1);
        withstands("StoreIPAddress(30)", 2);
    }
}
