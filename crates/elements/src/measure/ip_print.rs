//! IPPrint - prints IP packets as text, one line each, like tcpdump
//!
//! # Synopsis
//! `IPPrint([LABEL, keywords CONTENTS, PAYLOAD, MAXLENGTH, ETHER, ID, TIMESTAMP, PAINT, TOS, TTL, LENGTH, AGGREGATE, SWAP, OUTFILE, ACTIVE])`
//!
//! # Description
//! Prints one line for each IP packet, much like tcpdump: addresses, ports, and the contents of the TCP, UDP or ICMP
//! header. Packets whose network header position is not set are forwarded silently.
//!
//! # Arguments
//! - LABEL: text at the start of each line. Positional, default none.
//! - CONTENTS: `HEX`, `ASCII` or `NONE`: how to print the packet's bytes after the line. Default NONE.
//! - PAYLOAD: the same for the bytes after the transport header only. Cannot be combined with CONTENTS.
//! - MAXLENGTH: maximum number of bytes to print; all when negative. NBYTES is another name for it. Default 1500.
//! - ETHER, ID, PAINT, TOS, TTL, LENGTH, AGGREGATE: whether to print these. Default false.
//! - TIMESTAMP: whether to print the timestamp. Default true.
//! - SWAP: whether to print the identifier and sequence number of ICMP echo messages in their true byte order;
//!   otherwise they are printed as a little-endian host reads them. Default true.
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
//! InfiniteSource(DATA "hello", LIMIT 1) -> UDPIPEncap(1.0.0.1, 10, 2.0.0.2, 20)
//!   -> IPPrint(out, TTL true) -> Discard;
//! ```
//!
//! # See also
//! Print, CheckIPHeader, MarkIPHeader

mod ip_line;

use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Packet, Refused, Router, Setup,
    register,
};

use super::printing::contents::{Contents, ascii, hex};
use super::printing::printer::Printer;
use ip_line::{IpLine, payload};

/// The element; its manual is at the top of the file.
pub struct IpPrint {
    printer: Printer,
    line: IpLine,
    contents: Contents,
    /// Whether to print only the bytes of the payload.
    payload: bool,
    /// `None` for all.
    max_length: Option<usize>,
}

register!(IpPrint, "ip_print.rs");

impl Element for IpPrint {
    const CLASS: Class = Class::new("IPPrint", "1/1", "a/a").shows_packets();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let printer = Printer::configure(args);
        let contents = args.keyword("CONTENTS", Contents::None);
        let payload = args.keyword("PAYLOAD", Contents::None);
        let max_length: i32 = args.keyword("MAXLENGTH", 1500);
        let max_length: i32 = args.keyword("NBYTES", max_length);
        let line = IpLine {
            ether: args.keyword("ETHER", false),
            id: args.keyword("ID", false),
            paint: args.keyword("PAINT", false),
            tos: args.keyword("TOS", false),
            ttl: args.keyword("TTL", false),
            swap: args.keyword("SWAP", true),
            length: args.keyword("LENGTH", false),
            aggregate: args.keyword("AGGREGATE", false),
        };
        if contents != Contents::None && payload != Contents::None {
            args.error("PAYLOAD", "specify at most one of PAYLOAD and CONTENTS");
        }
        args.complete()?;
        Ok(Self {
            printer,
            line,
            contents: if payload == Contents::None { contents } else { payload },
            payload: payload != Contents::None,
            max_length: usize::try_from(max_length).ok(),
        })
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
        for packet in batch.iter().filter(|packet| packet.network_header().is_some()) {
            self.printer.print(cx, &self.text(packet));
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Printer::handlers(handlers, |print| &print.printer);
    }

    fn cleanup(&self, _router: &Router) -> Result<(), Refused> {
        self.printer.cleanup()
    }
}

impl IpPrint {
    fn text(&self, packet: &Packet) -> String {
        let mut text = self.printer.begin(packet);
        let whole = self.line.write(&mut text, packet);
        if !whole {
            return text;
        }
        let bytes = if self.payload { payload(packet) } else { packet.data() };
        let bytes = self.max_length.and_then(|most| bytes.get(..most)).unwrap_or(bytes);
        match self.contents {
            Contents::None => {}
            Contents::Hex => hex(&mut text, bytes, 24, "\n  "),
            Contents::Ascii => ascii(&mut text, bytes, 48, "\n  "),
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;

    #[test]
    fn prints_to_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.txt");
        let element = format!("IPPrint(x, TIMESTAMP false, OUTFILE {})", path.display());
        {
            let mut rig = Rig::new(&element, 1, 1).unwrap();
            let mut ip = vec![0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 1, 0, 0, 1, 2, 0, 0, 2];
            ip.extend([0, 10, 0, 20, 0, 8, 0, 0]);
            let mut packet = Packet::from_bytes(&ip).unwrap();
            packet.set_network_header(0, 20);
            let mut unmarked = Packet::from_bytes(&ip).unwrap();
            unmarked.set_dst_ip("9.9.9.9".parse().unwrap());
            assert_eq!(rig.push_packets(0, vec![packet, unmarked])[0].len(), 2);
            rig.stop();
        }
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text, "x: 1.0.0.1.10 > 2.0.0.2.20: udp 8\n");
    }

    #[test]
    fn refuses_invalid_arguments() {
        assert!(Rig::new("IPPrint(CONTENTS HEX, PAYLOAD ASCII)", 1, 1).is_err());
        assert!(Rig::new("IPPrint(CONTENTS LOUD)", 1, 1).is_err());
        assert!(Rig::new("IPPrint(OUTFILE /no/such/folder/x)", 1, 1).is_err());
    }
}
