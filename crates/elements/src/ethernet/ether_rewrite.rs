//! EtherRewrite - sets the source and destination Ethernet addresses of packets
//!
//! # Synopsis
//! `EtherRewrite(SRC, DST)`
//!
//! # Description
//! Sets the source and destination addresses in the Ethernet header at the start of each packet, and
//! marks it as the MAC header.
//!
//! # Arguments
//! - SRC: source address. Positional, mandatory.
//! - DST: destination address. Positional, mandatory.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `src`, `dst` (read, write): the values of the arguments.
//!
//! # Drops
//! - truncated: the packet is shorter than an Ethernet header.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> EtherRewrite(1:1:1:1:1:1, 2:2:2:2:2:2) -> Discard;
//! ```
//!
//! # See also
//! EtherEncap, EtherMirror

use millrace_core::headers::EthernetHeader;
use millrace_core::net::EtherAddress;
use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Published, Reason, Setup, View, Way,
    register,
};

use super::header::rewrite_header;

/// The element; its manual is at the top of the file.
pub struct EtherRewrite {
    addresses: Published<Addresses>,
}

/// The addresses to write into frames.
#[derive(Clone, Copy)]
pub struct Addresses {
    src: EtherAddress,
    dst: EtherAddress,
}

register!(EtherRewrite, "ether_rewrite.rs");

impl Element for EtherRewrite {
    const CLASS: Class = Class::new("EtherRewrite", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let src = setup.args.mandatory("SRC");
        let dst = setup.args.mandatory("DST");
        setup.args.complete()?;
        Ok(Self { addresses: Published::new(Addresses { src, dst }) })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("src", |rewrite, _| rewrite.addresses.load().src.to_string());
        handlers.write("src", |rewrite, call| {
            let src = call.parse()?;
            rewrite.addresses.update(|addresses| Addresses { src, ..*addresses });
            Ok(())
        });
        handlers.read("dst", |rewrite, _| rewrite.addresses.load().dst.to_string());
        handlers.write("dst", |rewrite, call| {
            let dst = call.parse()?;
            rewrite.addresses.update(|addresses| Addresses { dst, ..*addresses });
            Ok(())
        });
    }
}

impl PerPacket for EtherRewrite {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        let addresses = self.addresses.get(at);
        let rewritten = rewrite_header(packet, |header: &mut EthernetHeader| {
            header.src = addresses.src;
            header.dst = addresses.dst;
        });
        match rewritten {
            true => Way::ON,
            false => Way::drop(Reason::Truncated),
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    #[test]
    fn sets_both_addresses_and_keeps_the_type() {
        let mut rig = Rig::new("EtherRewrite(1:1:1:1:1:1, 2:2:2:2:2:2)", 1, 1).unwrap();
        let out = rig.push(0, &["abcdefghijkl\x08\x06payload", "too short"]);
        assert_eq!(out[0].len(), 1);
        assert_eq!(out[0][0], *b"\x02\x02\x02\x02\x02\x02\x01\x01\x01\x01\x01\x01\x08\x06payload");
        assert_eq!(rig.stats().drops, [(Reason::Truncated, 1)]);
    }
}
