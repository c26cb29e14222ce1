//! StoreFlowID - writes a flow number into the data of each packet
//!
//! # Synopsis
//! `StoreFlowID([OFFSET, keywords CAPACITY, VERBOSE])`
//!
//! # Description
//! Writes a 32-bit number, least significant byte first, into each packet, OFFSET bytes from its start. Each flow has
//! its own number, from 1. Flows are identified as in FlowCounter, and forgotten after 1000 seconds of silence. Packets
//! that are too short, and packets of a flow for which there is no room, are unchanged.
//!
//! # Arguments
//! - OFFSET: where to write the number, in bytes. Positional, default 40.
//! - CAPACITY: maximum number of flows. Default 65536.
//! - VERBOSE: whether to print a line when there is no room for a flow. Default 0.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, FORCE_IP true, STOP true) -> FlowIPManager -> StoreFlowID(OFFSET 40) -> Discard;
//! ```
//!
//! # See also
//! FlowIPManager, StoreData, NumberPacket

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use millrace_core::args::Kind;
use millrace_core::{
    Class, Context, Element, Failed, Footprint, Init, Moment, Packet, PerPacket, Setup, View, Way,
    register,
};

use super::balance::SWEEP;
use super::key::Key;
use super::table::{Fixed, Flows, millis};

/// The element; its manual is at the top of the file.
pub struct StoreFlowId {
    offset: usize,
    verbose: bool,
    flows: Flows<Key, Fixed>,
    next: AtomicU32,
}

/// Milliseconds of silence after which a flow is forgotten.
const IDLE: u64 = 1_000_000;

register!(StoreFlowId, "store_flow_id.rs");

impl Element for StoreFlowId {
    const CLASS: Class = Class::new("StoreFlowID", "1/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let offset: u16 = setup.args.positional("OFFSET", 40);
        let capacity = setup.args.in_range("CAPACITY", Kind::Keyword, 1..=1u32 << 30);
        let verbose: i32 = setup.args.keyword("VERBOSE", 0);
        setup.args.complete()?;
        let flows = Flows::new(capacity.unwrap_or(65_536) as usize, IDLE, SWEEP);
        Ok(Self { offset: offset.into(), verbose: verbose > 0, flows, next: 1.into() })
    }

    fn footprint(&self) -> Footprint {
        self.flows.footprint()
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        self.flows.take(&old.flows);
        self.next.store(old.next.load(Relaxed), Relaxed);
    }
}

impl PerPacket for StoreFlowId {
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        let new = || Some(self.next.fetch_add(1, Relaxed).into());
        let key = Key::of(packet);
        let number = self.flows.number(at, key, millis(at.now()), new, |_| ());
        let Some(number) = number else {
            return if self.verbose { Way::aside(0) } else { Way::ON };
        };
        if packet.len() >= self.offset + 4
            && let Some(place) =
                packet.data_mut().get_mut(self.offset..).and_then(<[u8]>::first_chunk_mut)
        {
            *place = (number as u32).to_le_bytes();
        }
        Way::ON
    }

    fn aside(&self, cx: &mut Context, (): &mut (), packet: Packet, _: Way) -> Option<Packet> {
        cx.router().chatter("no room for another flow");
        Some(packet)
    }
}
