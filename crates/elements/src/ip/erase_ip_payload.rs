//! EraseIPPayload - overwrites the payload of IP packets with zeros
//!
//! # Synopsis
//! `EraseIPPayload()`
//!
//! # Description
//! Sets every byte after the headers to zero: after the TCP or UDP header if there is one, otherwise after the IP
//! header. The packet's length and checksums do not change, so the TCP or UDP checksum becomes wrong.
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
//! - header not set: the packet's network header is not set.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, FORCE_IP true, STOP true) -> EraseIPPayload -> ToDump(out.pcap);
//! ```
//!
//! # See also
//! AnonymizeIPAddr, TruncateIPPayload

use millrace_core::headers::{Header, Ipv4Header};
use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct EraseIpPayload;

register!(EraseIpPayload, "erase_ip_payload.rs");

impl Element for EraseIpPayload {
    const CLASS: Class = Class::new("EraseIPPayload", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for EraseIpPayload {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let Some(headers) = header_len(packet) else {
            return Way::drop(Reason::NoHeader);
        };
        if let Some(payload) = packet.network_data_mut().and_then(|data| data.get_mut(headers..)) {
            payload.fill(0);
        }
        Way::ON
    }
}

/// The length of the IP header and the TCP or UDP header after it.
fn header_len(packet: &View) -> Option<usize> {
    let network = packet.network_data()?;
    let (ip, _) = Ipv4Header::view(network)?;
    Some(ip.headers_len(network))
}
