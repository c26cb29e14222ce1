//! DynamicUDPIPEncap - prepends UDP and IP headers with changing ports to packets
//!
//! # Synopsis
//! `DynamicUDPIPEncap(SRC, SPORT, DST, DPORT [, CHECKSUM, INTERVAL])`
//!
//! # Description
//! Like UDPIPEncap, but increments both ports by one after every INTERVAL packets. The identification counts up from 0,
//! the time to live is 250, and the destination annotation is set to DST.
//!
//! # Arguments
//! - SRC: source address. Positional, mandatory.
//! - SPORT: source port of the first packets, by number or name. Positional, mandatory.
//! - DST: destination address. Positional, mandatory.
//! - DPORT: destination port of the first packets, by number or name. Positional, mandatory.
//! - CHECKSUM: whether to compute the UDP checksum. Positional, default true.
//! - INTERVAL: number of packets after which the ports change; 0 for never. Positional, default 0.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - too big: with the headers, the packet would be longer than 65535 bytes.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 100)
//!     -> DynamicUDPIPEncap(1.0.0.1, 1000, 2.0.0.2, 2000, true, 10)
//!     -> Discard;
//! ```
//!
//! # See also
//! UDPIPEncap, FastUDPSource

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::args::UdpPort;
use millrace_core::headers::{Header, Ipv4Header};
use millrace_core::{Batch, Class, Context, Element, Failed, Reason, Setup, register};

use super::udp_ip_encap::UdpOuter;
use crate::ip::header::outer::Destination;

/// The element; its manual is at the top of the file.
pub struct DynamicUdpIpEncap {
    outer: UdpOuter,
    checksum: bool,
    interval: u32,
    /// Packets so far.
    count: AtomicU64,
}

register!(DynamicUdpIpEncap, "dynamic_udp_ip_encap.rs");

impl Element for DynamicUdpIpEncap {
    const CLASS: Class = Class::new("DynamicUDPIPEncap", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let source = args.mandatory("SRC");
        let UdpPort(src_port) = args.mandatory("SPORT");
        let destination: Ipv4Addr = args.mandatory("DST");
        let UdpPort(dst_port) = args.mandatory("DPORT");
        let checksum = args.positional("CHECKSUM", true);
        let interval = args.positional("INTERVAL", 0);
        args.complete()?;
        let destination = Destination::Address(destination);
        let outer = UdpOuter::new((source, src_port), (destination, dst_port));
        Ok(Self { outer, checksum, interval, count: AtomicU64::new(0) })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        let mut outer = self.outer.clone();
        let mut count = self.count.fetch_add(batch.len() as u64, Relaxed);
        batch.map_filter(|mut packet| {
            let step = count.checked_div(self.interval.into()).unwrap_or(0) as u16;
            outer.src_port = self.outer.src_port.wrapping_add(step);
            outer.dst_port = self.outer.dst_port.wrapping_add(step);
            let Some(headers) = outer.headers(&mut packet, count as u16, self.checksum) else {
                return cx.drop(packet, Reason::TooBig);
            };
            count += 1;
            packet.push_front(&headers);
            packet.set_network_header(0, Ipv4Header::LEN);
            Some(packet)
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::test_packets::ip::withstands;

    #[test]
    fn withstands_anything() {
        withstands("DynamicUDPIPEncap(1.0.0.1, 1, 2.0.0.2, 2, true, 3)", 1);
    }
}
