//! ListenEtherSwitch - a learning Ethernet switch with a port to listen at
//!
//! # Synopsis
//! `ListenEtherSwitch([keyword TIMEOUT])`
//!
//! # Description
//! An EtherSwitch with one output more than inputs: the last output gets a copy of every frame.
//!
//! # Arguments
//! - TIMEOUT: for how many seconds an address is remembered after it was heard from. Nothing is learnt
//!   when 0. Default 300.
//!
//! # Ports
//! Any number of push inputs, one push output more.
//!
//! # Handlers
//! - `table` (read): the addresses known and their ports, a line each.
//! - `timeout` (read, write): as the argument.
//!
//! # Drops
//! - truncated: the packet is shorter than an Ethernet header.
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

use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Reason, Setup, register};

use super::learning::{Direction, Learning, copy_to, flood};

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

    fn handlers(handlers: &mut Handlers<Self>) {
        Learning::handlers(handlers, |switch| &switch.learning);
    }
}
