//! RSSSwitch - distributes flows over outputs by a hash (RSS)
//!
//! # Synopsis
//! `RSSSwitch([keywords SYMMETRIC, HASH, INNER, PORTS, ENCAP])`
//!
//! # Description
//! Hashes the innermost flow of each packet, like SoftwareRSS, and sends the packet to the output
//! selected by the hash. All packets of a flow leave by one output, in order. The packet keeps the
//! hash, as if a device had computed it.
//!
//! # Arguments
//! - SYMMETRIC: whether both directions of a connection go to the same output. Default false.
//! - HASH: FAST, or TOEPLITZ, the hash of network cards (with a symmetric key if SYMMETRIC is true).
//!   Default FAST.
//! - INNER: whether to look inside tunnels. Default true.
//! - PORTS: whether ports are part of the flow. Default true.
//! - ENCAP: ETHER, or IP for packets that begin with an IP header. Default ETHER.
//!
//! # Ports
//! One push input, one or more push outputs.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100, BURST 32) -> r :: RSSSwitch;
//! r[0] -> a :: Pipeliner -> Discard;
//! r[1] -> b :: Pipeliner -> Discard;
//! ```
//!
//! # See also
//! SoftwareRSS, HashSwitch, Pipeliner

use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

use super::flow_hash::{FlowHash, target};

/// The element; its manual is at the top of the file.
pub struct RssSwitch {
    hash: FlowHash,
    outputs: usize,
}

register!(RssSwitch, "rss_switch.rs");

impl Element for RssSwitch {
    const CLASS: Class = Class::new("RSSSwitch", "1/1-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let hash = FlowHash::configure(&mut setup.args);
        setup.args.complete()?;
        Ok(Self { hash, outputs: setup.outputs() })
    }
}

impl PerPacket for RssSwitch {
    const ROUTES: bool = true;

    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let hash = self.hash.of(packet.data());
        packet.with_packet(|packet| packet.set_device_hash(hash));
        Way::output(target(hash, self.outputs) as u16)
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn one_flow_goes_to_one_output() {
        let mut rig = Rig::new("RSSSwitch(SYMMETRIC true)", 1, 4).unwrap();
        let frame =
            |from: u8, to: u8| [&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 9, 9][..], &[7]].concat();
        let out = rig.push(0, &[frame(1, 2), frame(2, 1), frame(1, 2)]);
        assert_eq!(out.iter().map(Vec::len).filter(|&n| n > 0).collect::<Vec<_>>(), [3]);
        let many: Vec<Vec<u8>> = (0..100).map(|from| frame(from, 200)).collect();
        assert!(rig.push(0, &many).iter().all(|output| output.len() > 10));
        assert!(rig.stats().balanced());
    }
}
