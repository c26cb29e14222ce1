//! What ProtocolTranslator46 and ProtocolTranslator64 have in common.

use millrace_core::checksum::Sum;
use millrace_core::headers::{Header, TcpHeader, UdpHeader, protocol};
use millrace_core::{Failed, Setup};

/// Bytes by which an IPv6 header is longer than one of IPv4.
pub(super) const LONGER_BY: u32 = 20;

/// Refuses arguments, in Click's words.
pub(super) fn no_arguments(setup: &mut Setup<'_>) -> Result<(), Failed> {
    if !setup.args.rest().is_empty() {
        setup.args.error((), "there should be no arguments");
    }
    setup.args.complete()
}

/// Sets the checksum of a TCP segment or UDP datagram; `sum` sums over it and the pseudo header.
pub(super) fn fill_transport_checksum(
    protocol: u8,
    payload: &mut [u8],
    sum: impl Fn(&[u8]) -> Sum,
) {
    match protocol {
        protocol::TCP => {
            let Some((tcp, _)) = TcpHeader::view_mut(payload) else { return };
            tcp.checksum.set(0);
            let checksum = sum(payload).finish();
            if let Some((tcp, _)) = TcpHeader::view_mut(payload) {
                tcp.checksum.set(checksum);
            }
        }
        protocol::UDP => {
            let Some((udp, _)) = UdpHeader::view_mut(payload) else { return };
            udp.checksum.set(0);
            let checksum = sum(payload).finish_udp();
            if let Some((udp, _)) = UdpHeader::view_mut(payload) {
                udp.checksum.set(checksum);
            }
        }
        _ => {}
    }
}

/// The MTU that an ICMP error says; in IPv4 its first two bytes are zero (RFC 1191).
pub(super) fn mtu_of(rest: [u8; 4]) -> u32 {
    u32::from_be_bytes(rest)
}

/// The bytes that say an MTU.
pub(super) fn mtu_with(mtu: u32) -> [u8; 4] {
    mtu.to_be_bytes()
}
