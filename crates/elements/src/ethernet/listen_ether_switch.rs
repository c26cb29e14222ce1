//! ListenEtherSwitch - forwards Ethernet frames as a learning switch, and copies all frames to an extra output
//!
//! # Synopsis
//! `ListenEtherSwitch([keyword TIMEOUT])`
//!
//! # Description
//! An EtherSwitch with one more output than inputs. The last output emits a copy of every frame.
//!
//! # Arguments
//! - TIMEOUT: how many seconds after its last frame an address is remembered. With 0, nothing is
//!   learned. Default 300.
//!
//! # Ports
//! Any number of push inputs, one more push output.
//!
//! # Handlers
//! - `table` (read): the known addresses and their ports, one per line.
//! - `timeout` (read, write): the value of TIMEOUT.
//!
//! # Drops
//! - truncated: the packet is shorter than an Ethernet header.
//! - no buffer: there was no memory for a copy of the frame.
//!
//! # Example
//! ```click
//! switch :: ListenEtherSwitch;
//! InfiniteSource(LENGTH 64, LIMIT 10) -> [0] switch [0] -> Discard;
//! InfiniteSource(LENGTH 64, LIMIT 10) -> [1] switch [1] -> Discard;
//! switch [2] -> Print(seen) -> Discard;
//! ```
//!
//! # See also
//! EtherSwitch

use std::sync::Arc;

use millrace_core::net::EtherAddress;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Offers, Reason, Setup, register,
};

use super::ether_switch::{Direction, Learning, copy_to, flood};
use crate::capability::StationTable;

/// The element; its manual is at the top of the file.
pub struct ListenEtherSwitch {
    learning: Learning,
}

register!(ListenEtherSwitch, "listen_ether_switch.rs");

impl Element for ListenEtherSwitch {
    const CLASS: Class = Class::new("ListenEtherSwitch", "-/=+", "h/h").flow("#/[^#]");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let learning = Learning::configure(&mut setup.args);
        setup.args.complete()?;
        Ok(Self { learning })
    }

    fn push(&self, cx: &mut Context, (): &mut (), port: usize, batch: &mut Batch) {
        let listener = cx.outputs().saturating_sub(1);
        for packet in batch.drain() {
            match self.learning.direct(port, &packet) {
                None => drop(cx.drop(packet, Reason::Truncated)),
                Some(Direction::Everywhere) => flood(cx, port, packet),
                Some(Direction::Port(to)) if to == port => cx.push(listener, packet),
                Some(Direction::Port(to)) => {
                    copy_to(cx, listener, &packet);
                    cx.push(to, packet);
                }
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

impl StationTable for ListenEtherSwitch {
    fn port_of(&self, station: EtherAddress) -> Option<usize> {
        self.learning.port_of(station)
    }
}
