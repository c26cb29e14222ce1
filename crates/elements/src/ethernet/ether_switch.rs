//! EtherSwitch - forwards Ethernet frames to the ports of learned addresses (learning switch)
//!
//! # Synopsis
//! `EtherSwitch([keyword TIMEOUT])`
//!
//! # Description
//! Each pair of an input and the output with the same number is a LAN. The element learns from each
//! frame that its source address is in the LAN that it arrives from. Later frames for that address go
//! to that LAN only, and are dropped if they arrive from it. Frames for groups and for unknown
//! addresses go to all other LANs. Times are those of the packets' timestamps.
//!
//! # Arguments
//! - TIMEOUT: how many seconds after its last frame an address is remembered. With 0, nothing is
//!   learned. Default 300.
//!
//! # Ports
//! At least two push inputs, the same number of push outputs.
//!
//! # Handlers
//! - `table` (read): the known addresses and their ports, one per line.
//! - `timeout` (read, write): the value of TIMEOUT.
//!
//! # Drops
//! - filtered: the destination is in the LAN that the frame arrives from.
//! - truncated: the packet is shorter than an Ethernet header.
//! - no buffer: there was no memory for a copy of the frame.
//!
//! # Example
//! ```click
//! switch :: EtherSwitch;
//! InfiniteSource(LENGTH 64, LIMIT 10) -> [0] switch [0] -> Discard;
//! InfiniteSource(LENGTH 64, LIMIT 10) -> [1] switch [1] -> Discard;
//! ```
//!
//! # See also
//! ListenEtherSwitch, EtherSpanTree

use std::sync::Arc;

use millrace_core::net::EtherAddress;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Offers, Reason, Setup, register,
};

use super::learning::{Direction, Learning, flood};
use crate::capability::StationTable;

/// The element; its manual is at the top of the file.
pub struct EtherSwitch {
    learning: Learning,
}

register!(EtherSwitch, "ether_switch.rs");

impl Element for EtherSwitch {
    const CLASS: Class = Class::new("EtherSwitch", "2-/=", "h/h").flow("#/[^#]");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let learning = Learning::configure(&mut setup.args);
        setup.args.complete()?;
        Ok(Self { learning })
    }

    fn push(&self, cx: &mut Context, (): &mut (), port: usize, batch: &mut Batch) {
        for packet in batch.drain() {
            match self.learning.direct(port, &packet) {
                None => drop(cx.drop(packet, Reason::Truncated)),
                Some(Direction::Everywhere) => flood(cx, port, packet),
                Some(Direction::Port(to)) if to == port => drop(cx.drop(packet, Reason::Filtered)),
                Some(Direction::Port(to)) => cx.push(to, packet),
            }
        }
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn StationTable>(self.clone());
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Learning::handlers(handlers, |switch| &switch.learning);
    }
}

impl StationTable for EtherSwitch {
    fn port_of(&self, station: EtherAddress) -> Option<usize> {
        self.learning.port_of(station)
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};

    fn frame(dst: u8, src: u8) -> Packet {
        Packet::from_bytes(&[[dst; 6], [src; 6], [8; 6]].concat()).unwrap()
    }

    #[test]
    fn every_packet_is_accounted_for() {
        let mut rig = Rig::new("EtherSwitch", 3, 3).unwrap();
        let cut = Packet::from_bytes(b"short").unwrap();
        let out = rig.push_packets(0, vec![frame(4, 2), frame(2, 4), cut, frame(0xff, 6)]);
        assert_eq!(out.iter().map(Vec::len).collect::<Vec<_>>(), [0, 2, 2]);
        assert_eq!(rig.stats().drops, [(Reason::Filtered, 1), (Reason::Truncated, 1)]);
        assert!(rig.stats().balanced());
    }
}
