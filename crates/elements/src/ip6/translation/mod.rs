//! Code shared by ProtocolTranslator46 and ProtocolTranslator64.

use millrace_core::checksum::Sum;
use millrace_core::headers::{Header, TcpHeader, UdpHeader, protocol};
use millrace_core::{Failed, Setup};

/// Number of bytes by which an IPv6 header is longer than an IPv4 header.
pub(super) const LONGER_BY: u32 = 20;

/// Refuses arguments, with Click's message.
pub(super) fn no_arguments(setup: &mut Setup<'_>) -> Result<(), Failed> {
    if !setup.args.rest().is_empty() {
        setup.args.error((), "there should be no arguments");
    }
    setup.args.complete()
}

/// Sets the checksum of a TCP segment or UDP datagram; `sum` computes the sum over it and the pseudo header.
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

/// The MTU in an ICMP error; in IPv4 its first two bytes are zero (RFC 1191).
pub(super) fn mtu_of(rest: [u8; 4]) -> u32 {
    u32::from_be_bytes(rest)
}

/// The encoding of an MTU in an ICMP error.
pub(super) fn mtu_with(mtu: u32) -> [u8; 4] {
    mtu.to_be_bytes()
}
