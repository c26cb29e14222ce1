//! SetIPDSCP - sets the Differentiated Services code point of IP packets
//!
//! # Synopsis
//! `SetIPDSCP(DSCP)`
//!
//! # Description
//! Sets the Differentiated Services code point of each packet's IP header (RFC 2474), the upper six bits of the
//! type-of-service byte, and updates the header checksum. The two ECN bits do not change.
//!
//! # Arguments
//! - DSCP: the code point, 0 to 63. Positional, mandatory.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `dscp` (read, write): DSCP.
//! - `config` (read, write): the arguments; all may change while packets run.
//!
//! # Drops
//! - header not set: the packet's network header is not set.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 401177d7 01000001 02000002>, LIMIT 10)
//!     -> MarkIPHeader
//!     -> SetIPDSCP(46)
//!     -> Discard;
//! ```
//!
//! # See also
//! SetIPECN, MarkIPCE, IPEncap

use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Setup, View, Way, register,
};

use super::header::tos_bits::{Field, TosBits};

/// The element; its manual is at the top of the file.
pub struct SetIpDscp(TosBits);

register!(SetIpDscp, "set_ip_dscp.rs");

static FIELD: Field = Field {
    argument: "DSCP",
    handler: "dscp",
    kept: 0x03,
    read: |args| {
        let code: u32 = args.mandatory("DSCP");
        if code > 63 {
            args.error("DSCP", "diffserv code point out of range");
        }
        (code as u8) << 2
    },
};

impl Element for SetIpDscp {
    const CLASS: Class = Class::new("SetIPDSCP", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        TosBits::configure(setup, &FIELD).map(Self)
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        TosBits::handler(handlers, &FIELD, |element| &element.0);
    }
}

impl PerPacket for SetIpDscp {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        self.0.treat(packet)
    }
}
