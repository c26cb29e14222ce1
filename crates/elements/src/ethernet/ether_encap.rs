//! EtherEncap - prepends an Ethernet header to packets
//!
//! # Synopsis
//! `EtherEncap(ETHERTYPE, SRC, DST)`
//!
//! # Description
//! Prepends an Ethernet header with these fields to each packet. Marks it as the MAC header, and the
//! bytes after it as the network header.
//!
//! # Arguments
//! - ETHERTYPE: 0 to 65535. Positional, mandatory.
//! - SRC: source address. Positional, mandatory.
//! - DST: destination address. Positional, mandatory.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `ethertype`, `src`, `dst` (read, write): the values of the arguments. `etht` is an old name for
//!   `ethertype`.
//! - `config` (read, write): the arguments; all may change while packets run.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Discard;
//! ```
//!
//! # See also
//! EtherRewrite, ARPQuerier, Strip

use millrace_core::headers::{EthernetHeader, Header};
use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Published, Setup, View, Way, register,
};
use zerocopy::IntoBytes;

use super::header::handlers::{self, WithHeader};

/// The element; its manual is at the top of the file.
pub struct EtherEncap {
    header: Published<EthernetHeader>,
}

register!(EtherEncap, "ether_encap.rs");

impl Element for EtherEncap {
    const CLASS: Class = Class::new("EtherEncap", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let header = handlers::configure(&mut setup.args);
        setup.args.complete()?;
        Ok(Self { header: Published::new(header) })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.reconfigure(|element, new| {
            element.header.store(new.header.load());
            Ok(())
        });
        handlers::handlers(handlers, &["ethertype", "etht"]);
    }
}

impl WithHeader for EtherEncap {
    fn header(&self) -> &Published<EthernetHeader> {
        &self.header
    }
}

impl PerPacket for EtherEncap {
    const PREPENDS: usize = EthernetHeader::LEN;

    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        packet.push_front(self.header.get(at).as_bytes());
        packet.set_link_header(0, EthernetHeader::LEN);
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn prepends_the_header() {
        let mut rig = Rig::new("EtherEncap(0x0800, 1:2:3:4:5:6, 7:8:9:a:b:c)", 1, 1).unwrap();
        let out = rig.push(0, &["ip"]);
        assert_eq!(out[0], [b"\x07\x08\x09\x0a\x0b\x0c\x01\x02\x03\x04\x05\x06\x08\x00ip"]);
        rig.write("dst", "ff:ff:ff:ff:ff:ff").unwrap();
        assert_eq!(rig.push(0, &["ip"])[0][0][..6], [0xff; 6]);
        assert!(rig.write("ethertype", "x").is_err());
    }
}
