//! IP6Fragmenter - forwards IPv6 packets that fit an MTU and rejects longer ones
//!
//! # Synopsis
//! `IP6Fragmenter(MTU)`
//!
//! # Description
//! Forwards packets of at most MTU bytes. Despite its name it never fragments a packet, because only the sender of an
//! IPv6 packet may do so (RFC 8200, 5). A longer packet goes to output 1, where ICMP6Error (type 2) can notify its
//! sender. Click's element does not fragment either.
//!
//! # Arguments
//! - MTU: maximum length of a packet in bytes. Positional, mandatory.
//!
//! # Ports
//! One push input. Output 0, push: packets that fit. Output 1, push, optional: packets that do not fit.
//!
//! # Handlers
//! - `drops` (read): packets that do not fit, dropped or sent to output 1.
//! - `fragments` (read): always 0.
//!
//! # Drops
//! - too big: the packet does not fit, and output 1 is not connected.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!     -> IP6Encap(59, 2001:db8::1, 2001:db8::2)
//!     -> IP6Fragmenter(1500)
//!     -> Discard;
//! ```
//!
//! # See also
//! ICMP6Error, IPFragmenter

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Reason, Setup, register};

/// The element; its manual is at the top of the file.
pub struct Ip6Fragmenter {
    mtu: u32,
    drops: AtomicU64,
}

register!(Ip6Fragmenter, "ip6_fragmenter.rs");

impl Element for Ip6Fragmenter {
    const CLASS: Class = Class::new("IP6Fragmenter", "1/1-2", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let mtu = setup.args.mandatory("MTU");
        setup.args.complete()?;
        Ok(Self { mtu, drops: 0.into() })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        let mtu = self.mtu as usize;
        if batch.iter().all(|packet| packet.len() <= mtu) {
            return;
        }
        batch.map_filter(|packet| {
            if packet.len() <= mtu {
                return Some(packet);
            }
            self.drops.fetch_add(1, Relaxed);
            cx.push_or_drop(1, packet, Reason::TooBig);
            None
        });
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("drops", |element, _| element.drops.load(Relaxed));
        handlers.read("fragments", |_, _| 0);
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    #[test]
    fn long_packets_go_to_output_1() {
        let mut rig = Rig::new("IP6Fragmenter(5)", 1, 2).unwrap();
        let out = rig.push(0, &["12345", "123456", "1"]);
        assert_eq!(out, [vec![b"12345".to_vec(), b"1".to_vec()], vec![b"123456".to_vec()]]);
        assert_eq!(rig.read("drops").unwrap(), "1");
        let mut rig = Rig::new("IP6Fragmenter(5)", 1, 1).unwrap();
        rig.push(0, &["123456"]);
        assert_eq!(rig.stats().drops, [(Reason::TooBig, 1)]);
    }
}
