//! SetIPECN - sets the explicit congestion notification (ECN) bits of IP packets
//!
//! # Synopsis
//! `SetIPECN(ECN)`
//!
//! # Description
//! Sets the explicit congestion notification bits of each packet's IP header (RFC 3168), the lower two bits of the
//! type-of-service byte, and updates the header checksum. The DSCP does not change.
//!
//! # Arguments
//! - ECN: a number, 0 to 3, or a name: `no` or `-` (0, transport not ECN-capable), `ect1` or `ECT(1)` (1), `ect2` or
//!   `ECT(0)` (2), `ce` or `CE` (3, congestion experienced). Positional, mandatory.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `ecn` (read, write): ECN.
//! - `config` (read, write): the arguments; all may change while packets run.
//!
//! # Drops
//! - header not set: the packet's network header is not set.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 401177d7 01000001 02000002>, LIMIT 10)
//!     -> MarkIPHeader
//!     -> SetIPECN(ect1)
//!     -> Discard;
//! ```
//!
//! # See also
//! MarkIPCE, SetIPDSCP

use millrace_core::args::Raw;
use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Setup, View, Way, register,
};

use super::header::tos_bits::{Field, TosBits};

/// The element; its manual is at the top of the file.
pub struct SetIpEcn(TosBits);

register!(SetIpEcn, "set_ip_ecn.rs");

static FIELD: Field = Field {
    argument: "ECN",
    handler: "ecn",
    kept: 0xfc,
    read: |args| {
        let Raw(text) = args.mandatory("ECN");
        match text.as_str() {
            "0" | "no" | "-" => 0,
            "1" | "ect1" | "ECT(1)" => 1,
            "2" | "ect2" | "ECT(0)" => 2,
            "3" | "ce" | "CE" => 3,
            _ => {
                args.error("ECN", "bad ECN argument");
                0
            }
        }
    },
};

impl Element for SetIpEcn {
    const CLASS: Class = Class::new("SetIPECN", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        TosBits::configure(setup, &FIELD).map(Self)
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        TosBits::handler(handlers, &FIELD, |element| &element.0);
    }
}

impl PerPacket for SetIpEcn {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        self.0.treat(packet)
    }
}
