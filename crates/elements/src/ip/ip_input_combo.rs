//! IPInputCombo - paints, strips and validates IP packets on a router's input path
//!
//! # Synopsis
//! `IPInputCombo(COLOR [, BADSRC, keyword INTERFACES, BADSRC, GOODDST])`
//!
//! # Description
//! Equivalent to `Paint(COLOR) -> Strip(14) -> CheckIPHeader(...) -> GetIPAddress(16)`. A message is printed for the
//! first bad packet.
//!
//! # Arguments
//! - COLOR: the paint of packets, 0 to 255. Positional, mandatory.
//! - BADSRC: source addresses to reject, separated by spaces. Positional or keyword, default none. The positional form,
//!   used in old configurations, also rejects 0.0.0.0 and 255.255.255.255.
//! - INTERFACES: this router's addresses with their prefixes, separated by spaces. Adds the networks' broadcast
//!   addresses, 0.0.0.0 and 255.255.255.255 to BADSRC, and the addresses to GOODDST. Keyword, default none.
//! - GOODDST: destination addresses, separated by spaces. Packets to them may come from any source. Keyword, default
//!   none.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `drops` (read): number of bad packets.
//!
//! # Drops
//! As CheckIPHeader. Packets too short to strip are dropped as truncated.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, STOP true)
//!     -> IPInputCombo(1, INTERFACES 18.26.4.9/24)
//!     -> Discard;
//! ```
//!
//! # See also
//! Paint, Strip, CheckIPHeader, GetIPAddress, IPOutputCombo

use millrace_core::{
    Class, Context, Element, Failed, Handlers, Moment, Packet, PerPacket, Reason, Setup, View, Way,
    register,
};

use super::check_ip_header::HeaderCheck;

/// The element; its manual is at the top of the file.
pub struct IpInputCombo {
    color: u8,
    check: HeaderCheck,
}

register!(IpInputCombo, "ip_input_combo.rs");

impl Element for IpInputCombo {
    const CLASS: Class = Class::new("IPInputCombo", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let color = setup.args.mandatory("COLOR");
        Ok(Self { color, check: HeaderCheck::configure_combo(setup)? })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        HeaderCheck::drops_handler(handlers, |element| &element.check);
    }
}

/// Bytes of an Ethernet header.
const LINK_LAYER: usize = 14;

impl PerPacket for IpInputCombo {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        packet.set_paint(self.color);
        match packet.strip(LINK_LAYER) {
            true => self.check.treat(packet),
            false => Way::drop(Reason::Truncated),
        }
    }

    fn treat_more(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        self.check.treat_carefully(packet)
    }

    fn aside(&self, cx: &mut Context, (): &mut (), packet: Packet, way: Way) -> Option<Packet> {
        self.check.reject(cx, packet, way)
    }
}

#[cfg(test)]
mod tests {
    use crate::test_packets::ip::withstands;

    #[test]
    fn withstands_anything() {
        withstands("IPInputCombo(1, INTERFACES 1.0.0.1/8)", 1);
    }
}
