//! AggregateIPAddrPair - numbers pairs of source and destination IP addresses
//!
//! # Synopsis
//! `AggregateIPAddrPair([keyword CAPACITY])`
//!
//! # Description
//! Numbers each pair of source and destination address in order of arrival, from 1, and sets the aggregate annotation
//! of each packet to its pair's number. Packets in both directions have the same number. The paint annotation is 0 for
//! packets in the direction of the pair's first packet, and 1 for the others.
//!
//! Pairs are kept until `clear` is written.
//!
//! # Arguments
//! - CAPACITY: maximum number of pairs. Keyword, default 16777216.
//!
//! # Ports
//! One agnostic input, one agnostic output; an optional push output for packets without an IP header.
//!
//! # Handlers
//! - `clear` (write): deletes all pairs; numbering continues.
//!
//! # Drops
//! - header not set: the IP header's position is not known, and output 1 is not connected.
//! - table full: the pair is new, and there are CAPACITY pairs.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, FORCE_IP true, STOP true) -> AggregateIPAddrPair -> AggregateCounter -> Discard;
//! ```
//!
//! # See also
//! AggregateIP, AggregateIPFlows, AggregateCounter

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use millrace_core::args::Kind;
use millrace_core::headers::{Header, Ipv4Header};
use millrace_core::{
    Class, Element, Failed, Footprint, Handlers, Moment, PerPacket, Reason, Setup, View, Way,
    register,
};

use crate::flows::key::{FlowId, Key};
use crate::flows::table::{Fixed, Flows};

/// The element; its manual is at the top of the file.
pub struct AggregateIpAddrPair {
    /// Keyed by the lower and the higher address: twice the number, plus 1 if the first packet's source was the higher
    /// one.
    pairs: Flows<Key, Fixed>,
    next: AtomicU32,
}

/// The default of CAPACITY.
const MOST_PAIRS: u32 = 1 << 24;

register!(AggregateIpAddrPair, "aggregate_ip_addr_pair.rs");

impl Element for AggregateIpAddrPair {
    const CLASS: Class = Class::new("AggregateIPAddrPair", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let capacity = setup.args.in_range("CAPACITY", Kind::Keyword, 1..=1u32 << 30);
        setup.args.complete()?;
        let pairs = Flows::new(capacity.unwrap_or(MOST_PAIRS) as usize, 0, 0);
        Ok(Self { pairs, next: 1.into() })
    }

    fn footprint(&self) -> Footprint {
        self.pairs.footprint()
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.write("clear", |pairs, _| {
            pairs.pairs.clear();
            Ok(())
        });
    }
}

impl PerPacket for AggregateIpAddrPair {
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        let Some((header, _)) = packet.network_data().and_then(Ipv4Header::view) else {
            return Way::output_or_drop(1, Reason::NoHeader);
        };
        let (flow, turned) = FlowId::of_hosts(header.source(), header.destination()).ordered();
        let turned = u64::from(turned);
        let new = || Some(u64::from(self.next.fetch_add(1, Relaxed)) << 1 | turned);
        let pair = self.pairs.number(at, Key { flow, space: 0 }, 0, new, |_| ());
        let Some(pair) = pair else { return Way::drop(Reason::TableFull) };
        packet.set_aggregate((pair >> 1) as u32);
        packet.set_paint(u8::from(pair & 1 != turned));
        Way::ON
    }
}
