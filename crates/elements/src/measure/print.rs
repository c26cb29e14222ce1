//! Print - prints the length and contents of each packet on standard error
//!
//! # Synopsis
//! `Print([LABEL, MAXLENGTH, keywords CONTENTS, TIMESTAMP, PRINTANNO, HEADROOM, CPU, ACTIVE])`
//!
//! # Description
//! Prints one line for each packet on standard error: the label, the length and the first bytes.
//!
//! # Arguments
//! - LABEL: text at the start of each line. Positional, default none.
//! - MAXLENGTH: maximum number of bytes to print; all when negative. The keywords LENGTH and NBYTES are other names for
//!   it. Positional, default 24.
//! - CONTENTS: `HEX`, `ASCII` or `NONE`; true means HEX, false means NONE. Default HEX.
//! - TIMESTAMP: whether to print the timestamp. Default false.
//! - PRINTANNO: whether to print the annotations, in hexadecimal. Default false.
//! - HEADROOM: whether to print the headroom and tailroom. Default false.
//! - CPU: whether to print the number of the thread. Default false.
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
//! InfiniteSource(DATA "hello", LIMIT 1) -> Print(in, CONTENTS ASCII) -> Discard;
//! ```
//!
//! # See also
//! IPPrint, ToDump

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millrace_core::{
    Class, Context, Element, Failed, Handlers, Moment, Packet, PerPacket, Setup, View, Way,
    register,
};

use super::printing::contents::{Contents, ascii, hex};

/// The element; its manual is at the top of the file.
pub struct Print {
    label: String,
    /// `None` for all.
    max_length: Option<usize>,
    contents: Contents,
    timestamp: bool,
    annotations: bool,
    headroom: bool,
    cpu: bool,
    active: AtomicBool,
}

register!(Print, "print.rs");

impl Element for Print {
    const CLASS: Class = Class::new("Print", "1/1", "a/a").shows_packets();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let label: String = args.positional("LABEL", String::new());
        let max_length: i32 = args.positional("MAXLENGTH", 24);
        let max_length: i32 = args.keyword("LENGTH", max_length);
        let max_length: i32 = args.keyword("NBYTES", max_length);
        let contents = args.keyword("CONTENTS", Contents::Hex);
        let timestamp = args.keyword("TIMESTAMP", false);
        let annotations = args.keyword("PRINTANNO", false);
        let active = args.keyword("ACTIVE", true);
        let headroom = args.keyword("HEADROOM", false);
        let cpu = args.keyword("CPU", false);
        args.complete()?;
        Ok(Self {
            label,
            max_length: usize::try_from(max_length).ok(),
            contents,
            timestamp,
            annotations,
            headroom,
            cpu,
            active: active.into(),
        })
    }

    fn shows(&self) -> bool {
        self.active.load(Relaxed)
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("active", |print, _| print.active.load(Relaxed));
        handlers.write("active", |print, call| {
            print.active.store(call.parse()?, Relaxed);
            Ok(())
        });
    }
}

impl PerPacket for Print {
    #[inline(always)]
    fn treat(&self, (): &mut (), _: &mut View, _: &mut Moment) -> Way {
        if self.active.load(Relaxed) { Way::aside(0) } else { Way::ON }
    }

    fn aside(&self, cx: &mut Context, (): &mut (), packet: Packet, _way: Way) -> Option<Packet> {
        cx.router().chatter(&self.line(cx, &packet));
        Some(packet)
    }
}

impl Print {
    fn line(&self, cx: &Context, packet: &Packet) -> String {
        let mut line = self.label.clone();
        let mut separator = if line.is_empty() { "" } else { ": " };
        // Writing to a string cannot fail.
        if self.cpu {
            let _ = write!(line, "({})", cx.thread());
            separator = ": ";
        }
        if self.timestamp {
            let _ = write!(line, "{separator}{}", packet.timestamp());
            separator = ": ";
        }
        let _ = write!(line, "{separator}{:4}", packet.len());
        if self.headroom {
            let _ = write!(line, " (h{} t{})", packet.headroom(), packet.tailroom());
        }
        if self.annotations {
            line.push_str(" | ");
            for byte in packet.annotations() {
                let _ = write!(line, "{byte:02x}");
            }
        }
        let data = packet.data();
        let shown = self.max_length.and_then(|most| data.get(..most)).unwrap_or(data);
        if !shown.is_empty() {
            match self.contents {
                Contents::None => {}
                Contents::Hex => {
                    line.push_str(" | ");
                    hex(&mut line, shown, usize::MAX, "");
                }
                Contents::Ascii => {
                    line.push_str(" |  ");
                    ascii(&mut line, shown, usize::MAX, "");
                }
            }
        }
        line
    }
}
