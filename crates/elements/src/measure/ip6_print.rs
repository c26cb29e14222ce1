//! IP6Print - prints IPv6 headers as text, one line per packet
//!
//! # Synopsis
//! `IP6Print([LABEL, keywords NBYTES, CONTENTS, ACTIVE])`
//!
//! # Description
//! Prints one line for each IPv6 packet: its addresses, payload length, next header and hop limit. With CONTENTS, the
//! packet's bytes follow, 24 per line. Packets whose network header position is not set are forwarded silently.
//!
//! # Arguments
//! - LABEL: text at the start of each line. Positional, default none.
//! - NBYTES: maximum number of bytes that CONTENTS prints. Keyword, default 1500.
//! - CONTENTS: whether to print the packet's bytes, in hexadecimal. Keyword, default false.
//! - ACTIVE: whether to print anything. Keyword, default true.
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
//! InfiniteSource(LENGTH 64, LIMIT 1)
//!     -> UDPIP6Encap(2001:db8::1, 1234, 2001:db8::2, 53)
//!     -> IP6Print(sent)
//!     -> Discard;
//! ```
//!
//! # See also
//! IPPrint, Print, CheckIP6Header

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millrace_core::headers::{Header, Ipv6Header};
use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Packet, Setup, register};

use super::printing::contents;

/// The element; its manual is at the top of the file.
pub struct Ip6Print {
    label: String,
    bytes: u32,
    contents: bool,
    active: AtomicBool,
}

register!(Ip6Print, "ip6_print.rs");

/// Bytes of contents per line.
const LINE: usize = 24;

impl Element for Ip6Print {
    const CLASS: Class = Class::new("IP6Print", "1/1", "a/a").shows_packets();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let label = args.positional("LABEL", String::new());
        let bytes = args.keyword("NBYTES", 1500);
        let contents = args.keyword("CONTENTS", false);
        let active = args.keyword("ACTIVE", true);
        args.complete()?;
        Ok(Self { label, bytes, contents, active: active.into() })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        if !self.active.load(Relaxed) {
            return;
        }
        for line in batch.iter().filter_map(|packet| self.line(packet)) {
            cx.router().chatter(&line);
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("active", |element, _| element.active.load(Relaxed));
        handlers.write("active", |element, call| {
            element.active.store(call.parse()?, Relaxed);
            Ok(())
        });
    }
}

impl Ip6Print {
    fn line(&self, packet: &Packet) -> Option<String> {
        let (ip, _) = packet.network_data().and_then(Ipv6Header::view)?;
        let mut line = self.label.clone();
        if !line.is_empty() {
            line.push_str(": ");
        }
        // Writing to a string cannot fail.
        let _ = write!(
            line,
            "{} -> {} plen {}, next {}, hlim {}",
            ip.source(),
            ip.destination(),
            ip.payload_len,
            ip.next_header,
            ip.hop_limit
        );
        if self.contents {
            let data = packet.data();
            let shown = data.get(..self.bytes as usize).unwrap_or(data);
            contents::hex(&mut line, shown, LINE, "\n  ");
            // Click puts a separator after each group, including the last one.
            if shown.len().is_multiple_of(LINE) {
                line.push_str("\n  ");
            } else if shown.len().is_multiple_of(4) {
                line.push(' ');
            }
        }
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use crate::test_packets::ip6::withstands;

    #[test]
    fn withstands_anything() {
        withstands("IP6Print(CONTENTS true)", 1);
    }
}
