//! CheckARPHeader - checks ARP headers and drops malformed packets
//!
//! # Synopsis
//! `CheckARPHeader([OFFSET, keywords VERBOSE, DETAILS])`
//!
//! # Description
//! Checks that each packet contains a complete ARP message, and that its address lengths are correct if
//! it is about Ethernet, IPv4 or IPv6. Marks the message as the network header. Other packets go to
//! output 1, or are dropped.
//!
//! # Arguments
//! - OFFSET: where the message starts, in bytes. Positional, default 0.
//! - VERBOSE: whether to report every faulty packet instead of only the first. Default false.
//! - DETAILS: whether to count faults by kind, for `drop_details`. Default false.
//!
//! # Ports
//! One agnostic input; output 0 agnostic, output 1 push and optional: it emits faulty packets.
//!
//! # Handlers
//! - `drops` (read): number of faulty packets.
//! - `drop_details` (read): that number by kind; only with DETAILS.
//!
//! # Drops
//! - truncated: the message is not complete.
//! - bad header length: an address length is wrong.
//!
//! # Example
//! ```click
//! ARPFaker(10.0.0.1, 1:1:1:1:1:1, 10.0.0.2, 2:2:2:2:2:2) -> CheckARPHeader(14) -> Discard;
//! ```
//!
//! # See also
//! ARPPrint, CheckIPHeader

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::headers::ether_type;
use millrace_core::{
    Class, Context, Element, Failed, HandlerError, Handlers, Moment, Packet, PerPacket, Reason,
    Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct CheckArpHeader {
    offset: usize,
    verbose: bool,
    details: bool,
    faults: [AtomicU64; Fault::ALL.len()],
}

/// The possible faults, in the order of the checks.
#[derive(Clone, Copy)]
enum Fault {
    Tiny,
    Short,
    Hardware,
    Protocol,
}

impl Fault {
    const ALL: [Self; 4] = [Self::Tiny, Self::Short, Self::Hardware, Self::Protocol];

    /// The fault in Click's words, because programs that read `drop_details` expect them.
    fn text(self) -> &'static str {
        match self {
            Self::Tiny => "tiny packet",
            Self::Short => "too small for addresses",
            Self::Hardware => "bad hardware type/length",
            Self::Protocol => "bad protocol type/length",
        }
    }

    fn reason(self) -> Reason {
        match self {
            Self::Tiny | Self::Short => Reason::Truncated,
            Self::Hardware | Self::Protocol => Reason::BadHeaderLength,
        }
    }
}

register!(CheckArpHeader, "check_arp_header.rs");

impl Element for CheckArpHeader {
    const CLASS: Class = Class::new("CheckARPHeader", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let offset: u32 = setup.args.positional("OFFSET", 0);
        let verbose = setup.args.keyword("VERBOSE", false);
        let details = setup.args.keyword("DETAILS", false);
        setup.args.complete()?;
        Ok(Self { offset: offset as usize, verbose, details, faults: Default::default() })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("drops", |check, _| check.drops());
        handlers.try_read("drop_details", |check, call| {
            if !check.details {
                return Err(HandlerError::NoHandler(call.handler().to_owned()));
            }
            let line =
                |fault: Fault| format!("{}\t{}\n", check.faults(fault).load(Relaxed), fault.text());
            Ok(Fault::ALL.map(line).concat())
        });
    }
}

impl PerPacket for CheckArpHeader {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        match check(packet.data().get(self.offset..).unwrap_or_default()) {
            Ok(len) => {
                packet.set_network_header(self.offset as isize, len);
                Way::ON
            }
            Err(fault) => Way::aside(fault as u8),
        }
    }

    fn aside(&self, cx: &mut Context, (): &mut (), packet: Packet, way: Way) -> Option<Packet> {
        let fault = way.note().and_then(|note| Fault::ALL.get(usize::from(note)));
        let Some(&fault) = fault else { return cx.send_or_drop(packet, way) };
        if self.verbose || self.drops() == 0 {
            cx.router().chatter(&format!("ARP header check failed: {}", fault.text()));
        }
        self.faults(fault).fetch_add(1, Relaxed);
        cx.push_or_drop(1, packet, fault.reason());
        None
    }
}

impl CheckArpHeader {
    fn faults(&self, fault: Fault) -> &AtomicU64 {
        &self.faults[fault as usize]
    }

    fn drops(&self) -> u64 {
        self.faults.iter().map(|count| count.load(Relaxed)).sum()
    }
}

/// The length of the message at the start of the bytes.
fn check(message: &[u8]) -> Result<usize, Fault> {
    const ETHERNET: u16 = 1;
    const FIXED: usize = 8;
    let Some(&[a, b, c, d, hardware_len, protocol_len, _, _]) = message.first_chunk::<FIXED>()
    else {
        return Err(Fault::Tiny);
    };
    let len = FIXED + 2 * usize::from(hardware_len) + 2 * usize::from(protocol_len);
    if message.len() < len {
        return Err(Fault::Short);
    }
    if u16::from_be_bytes([a, b]) == ETHERNET && hardware_len != 6 {
        return Err(Fault::Hardware);
    }
    match (u16::from_be_bytes([c, d]), protocol_len) {
        (ether_type::IPV4, 4) | (ether_type::IPV6, 16) => Ok(len),
        (ether_type::IPV4 | ether_type::IPV6, _) => Err(Fault::Protocol),
        _ => Ok(len),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn arbitrary_packets_never_panic() {
        crate::test_packets::ip::withstands("CheckARPHeader(14)", 1);
    }
}
