//! AggregateIPAddrPair - numbers pairs of IP addresses
//!
//! # Synopsis
//! `AggregateIPAddrPair()`
//!
//! # Description
//! Gives each pair of source and destination address a number, from 1 on in the order in which they
//! come, and sets the aggregate annotation of each packet to it. Packets in the other direction have
//! the same number. The paint annotation is 0 for packets in the direction of the pair's first, 1
//! for the others.
//!
//! Numbers are kept until `clear` is written: some 24 bytes for each pair.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One agnostic input, one agnostic output; an optional push output for packets without an IP header.
//!
//! # Handlers
//! - `clear` (write): forgets all pairs; numbers go on.
//!
//! # Drops
//! - header not set: the IP header is not known, and output 1 is not connected.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, FORCE_IP true, STOP true) -> AggregateIPAddrPair -> AggregateCounter -> Discard;
//! ```
//!
//! # See also
//! AggregateIP, AggregateIPFlows, AggregateCounter

use std::collections::HashMap;
use std::net::Ipv4Addr;

use foldhash::fast::RandomState;
use millrace_core::headers::{Header, Ipv4Header};
use millrace_core::{
    Class, Element, Failed, Handlers, Lock, Moment, PerPacket, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct AggregateIpAddrPair {
    pairs: Lock<Pairs>,
}

/// The numbers of the pairs.
struct Pairs {
    /// By the lower and the higher address: the number, and whether the first packet's source was
    /// the higher one.
    known: HashMap<(Ipv4Addr, Ipv4Addr), (u32, bool), RandomState>,
    next: u32,
}

register!(AggregateIpAddrPair, "aggregate_ip_addr_pair.rs");

impl Element for AggregateIpAddrPair {
    const CLASS: Class = Class::new("AggregateIPAddrPair", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self { pairs: Lock::new(Pairs { known: HashMap::default(), next: 1 }) })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.write("clear", |pairs, _| {
            pairs.pairs.lock().known.clear();
            Ok(())
        });
    }
}

impl PerPacket for AggregateIpAddrPair {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let Some((header, _)) = packet.network_data().and_then(Ipv4Header::view) else {
            return Way::output_or_drop(1, Reason::NoHeader);
        };
        let (source, destination) = (header.source(), header.destination());
        let (number, is_reply) = self.number(source, destination);
        packet.set_aggregate(number);
        packet.set_paint(is_reply.into());
        Way::ON
    }
}

impl AggregateIpAddrPair {
    /// The number of a pair, and whether this is the direction of the replies.
    fn number(&self, source: Ipv4Addr, destination: Ipv4Addr) -> (u32, bool) {
        let mut pairs = self.pairs.lock();
        let Pairs { known, next } = &mut *pairs;
        let from_higher = source > destination;
        let key = (source.min(destination), source.max(destination));
        let (number, first_from_higher) = *known.entry(key).or_insert_with(|| {
            let number = *next;
            *next = next.wrapping_add(1);
            (number, from_higher)
        });
        (number, from_higher != first_from_higher)
    }
}
