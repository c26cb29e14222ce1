//! SetIPAddress - sets the destination annotation to a fixed IP address
//!
//! # Synopsis
//! `SetIPAddress(IPADDR [, keyword ANNO])`
//!
//! # Description
//! Sets the destination annotation of each packet to IPADDR.
//!
//! # Arguments
//! - IPADDR: the address. Positional, mandatory.
//! - ANNO: the annotation to set, by name or offset. Keyword, default DST_IP.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `addr` (read, write): the address.
//! - `config` (read, write): the arguments; the address may change while packets run.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> SetIPAddress(10.0.0.1) -> Discard;
//! ```
//!
//! # See also
//! GetIPAddress, StoreIPAddress

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use millrace_core::args::Annotation;
use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct SetIpAddress {
    address: AtomicU32,
    annotation: usize,
}

register!(SetIpAddress, "set_ip_address.rs");

impl Element for SetIpAddress {
    const CLASS: Class = Class::new("SetIPAddress", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let address: Ipv4Addr = setup.args.mandatory("IPADDR");
        let Annotation(annotation) = setup.args.keyword("ANNO", Annotation::<4>(0));
        setup.args.complete()?;
        Ok(Self { address: address.to_bits().into(), annotation })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.reconfigure(|element, new| {
            if element.annotation != new.annotation {
                return Err("ANNO cannot change while packets run".into());
            }
            element.address.store(new.address.into_inner(), Relaxed);
            Ok(())
        });
        handlers.read("addr", |element, _| Ipv4Addr::from_bits(element.address.load(Relaxed)));
        handlers.write("addr", |element, call| {
            element.address.store(call.parse::<Ipv4Addr>()?.to_bits(), Relaxed);
            Ok(())
        });
    }
}

impl PerPacket for SetIpAddress {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        // Annotations hold addresses in network order.
        packet.set_anno_u32(self.annotation, self.address.load(Relaxed).to_be());
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use millrace_core::Packet;
    use millrace_core::testing::Rig;

    fn packet() -> Packet {
        Packet::with_len(0).unwrap()
    }

    #[test]
    fn sets_the_configured_annotation() {
        let mut rig = Rig::new("SetIPAddress(10.1.2.3)", 1, 1).unwrap();
        let out = rig.push_packets(0, vec![packet()]);
        assert_eq!(out[0][0].dst_ip(), Ipv4Addr::new(10, 1, 2, 3));
        let mut rig = Rig::new("SetIPAddress(10.1.2.3, ANNO 20)", 1, 1).unwrap();
        let out = rig.push_packets(0, vec![packet()]);
        assert_eq!(out[0][0].misc_ip(), Ipv4Addr::new(10, 1, 2, 3));
        assert_eq!(out[0][0].dst_ip(), Ipv4Addr::UNSPECIFIED);
    }

    #[test]
    fn the_address_can_be_changed() {
        let mut rig = Rig::new("SetIPAddress(10.1.2.3)", 1, 1).unwrap();
        assert_eq!(rig.read("addr").unwrap(), "10.1.2.3");
        rig.write("addr", "4.5.6.7").unwrap();
        assert!(rig.write("addr", "nobody").is_err());
        let out = rig.push_packets(0, vec![packet()]);
        assert_eq!(out[0][0].dst_ip(), Ipv4Addr::new(4, 5, 6, 7));
    }
}
