//! ARPPrint - prints ARP packets as text, one line each
//!
//! # Synopsis
//! `ARPPrint([LABEL, keywords TIMESTAMP, ETHER, OUTFILE, ACTIVE])`
//!
//! # Description
//! Prints one line for each ARP message that maps IPv4 addresses to Ethernet or other hardware addresses, much like
//! tcpdump. The message starts at the packet's network header. Packets without a network header, and messages about
//! other addresses, are forwarded silently.
//!
//! # Arguments
//! - LABEL: text at the start of each line. Positional, default none.
//! - TIMESTAMP: whether to print the timestamp. Default true.
//! - ETHER: whether to print the Ethernet addresses. Default false.
//! - OUTFILE: file to print to. Default: standard error.
//! - ACTIVE: whether to print anything. Default true.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `active` (read, write): the ACTIVE argument.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! ARPFaker(10.0.0.1, 1:1:1:1:1:1, 10.0.0.2, 2:2:2:2:2:2) -> ARPPrint(faked) -> Discard;
//! ```
//!
//! # See also
//! CheckARPHeader, IPPrint, Print

use std::fmt::Write;

use millrace_core::headers::{ArpHeader, EthernetHeader, Header, arp_operation, ether_type};
use millrace_core::net::EtherAddress;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Packet, Refused, Router, Setup,
    register,
};

use super::printing::printer::Printer;

/// The element; its manual is at the top of the file.
pub struct ArpPrint {
    printer: Printer,
    ether: bool,
}

register!(ArpPrint, "arp_print.rs");

/// Bytes of the fixed part of a message, which holds the lengths of its addresses.
const FIXED: usize = 8;
/// The Ethernet type of IP packets with trailers (RFC 893).
const TRAILER: u16 = 0x1000;
const ETHERNET: u16 = 1;

impl Element for ArpPrint {
    const CLASS: Class = Class::new("ARPPrint", "1/1", "a/a").shows_packets();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let printer = Printer::configure(&mut setup.args);
        let ether = setup.args.keyword("ETHER", false);
        setup.args.complete()?;
        Ok(Self { printer, ether })
    }

    fn initialize(&self, _init: &mut Init<'_>) -> Result<(), Refused> {
        self.printer.initialize()
    }

    fn start(&self, _router: &Router) -> Result<(), Refused> {
        self.printer.start()
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        if !self.printer.is_active() {
            return;
        }
        for packet in batch.iter() {
            if let Some(line) = self.line(packet) {
                self.printer.print(cx, &line);
            }
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Printer::handlers(handlers, |print| &print.printer);
    }

    fn cleanup(&self, _router: &Router) -> Result<(), Refused> {
        self.printer.cleanup()
    }
}

impl ArpPrint {
    fn line(&self, packet: &Packet) -> Option<String> {
        let message = packet.network_data()?;
        let mut line = self.printer.begin(packet);
        if self.ether
            && let Some(ether) = ethernet_header(packet)
        {
            // Writing to a string cannot fail.
            let _ = write!(line, "{} > {}: ", ether.src, ether.dst);
        }
        if message.len() < FIXED {
            let _ = write!(line, "truncated-arp ({})", message.len());
            return Some(line);
        }
        // Truncated addresses are printed as far as they go.
        let mut whole = [0; ArpHeader::LEN];
        let known = message.len().min(whole.len());
        whole[..known].copy_from_slice(&message[..known]);
        let (arp, _) = ArpHeader::view(&whole)?;
        write_message(&mut line, arp).then_some(line)
    }
}

/// The Ethernet header in front of the network header. It starts at the MAC header position if that is set, otherwise
/// at the start of the packet.
fn ethernet_header(packet: &Packet) -> Option<&EthernetHeader> {
    let start = packet.mac_header().unwrap_or(0);
    let room = packet.network_header()? - start;
    let frame = packet.mac_data().unwrap_or_else(|| packet.data());
    let header = EthernetHeader::view(frame).map(|(header, _)| header);
    header.filter(|_| room >= EthernetHeader::LEN as isize)
}

/// Adds the text of a message. Returns false if it is about addresses that are not printed.
fn write_message(line: &mut String, arp: &ArpHeader) -> bool {
    let protocol = arp.protocol.get();
    let known = protocol == ether_type::IPV4 || protocol == TRAILER;
    if !known || arp.protocol_len != 4 || arp.hardware_len == 0 {
        return false;
    }
    if protocol == TRAILER {
        line.push_str("trailer-");
    }
    let (sender, target) = (arp.sender_ether, arp.target_ether);
    // Writing to a string cannot fail.
    let _ = match arp.operation.get() {
        arp_operation::REQUEST => {
            let _ = write!(line, "arp who-has {}", arp.target());
            if !is_unset(target, arp.hardware_len) {
                let _ = write!(line, " ({target})");
            }
            write!(line, " tell {}", arp.sender())
        }
        arp_operation::REPLY => write!(line, "arp reply {} is-at {sender}", arp.sender()),
        arp_operation::REVERSE_REQUEST => write!(line, "rarp who-is {target} tell {sender}"),
        arp_operation::REVERSE_REPLY => write!(line, "rarp reply {target} at {}", arp.target()),
        arp_operation::INVERSE_REQUEST => write!(line, "invarp who-is {target} tell {sender}"),
        arp_operation::INVERSE_REPLY => write!(line, "invarp reply {target} at {}", arp.target()),
        other => write!(line, "arp-#{other}"),
    };
    if arp.hardware.get() != ETHERNET {
        let _ = write!(line, "hardware #{}", arp.hardware);
    }
    true
}

/// Whether the first `len` bytes of an address are zero.
fn is_unset(address: EtherAddress, len: u8) -> bool {
    address.octets().iter().take(len.into()).all(|&byte| byte == 0)
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;

    #[test]
    fn withstands_anything() {
        crate::test_packets::ip::withstands("ARPPrint(OUTFILE /dev/null, ETHER true)", 1);
    }

    #[test]
    fn truncated_messages_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.txt");
        let config = format!("ARPPrint(TIMESTAMP false, OUTFILE {})", path.display());
        {
            let mut rig = Rig::new(&config, 1, 1).unwrap();
            let mut packet = Packet::from_bytes(&[0; 20]).unwrap();
            packet.set_network_header(14, 0);
            assert_eq!(rig.push_packets(0, vec![packet])[0].len(), 1);
            rig.stop();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), "truncated-arp (6)\n");
    }
}
