//! ARPTable - stores IP-to-Ethernet addresses resolved by ARP
//!
//! # Synopsis
//! `ARPTable([keywords CAPACITY, ENTRY_CAPACITY, ENTRY_PACKET_CAPACITY, CAPACITY_SLIM_FACTOR, TIMEOUT])`
//!
//! # Description
//! Stores IP addresses with their Ethernet addresses, and the packets that wait for an address. An
//! ARPQuerier has such a table of its own; several ARPQueriers share one if their TABLE names it.
//!
//! # Arguments
//! - CAPACITY: maximum number of waiting packets. Default 2048; 0 for no limit.
//! - CAPACITY_SLIM_FACTOR: when more than CAPACITY packets would wait, packets are dropped, those
//!   waiting for the oldest entries first, until 1/CAPACITY_SLIM_FACTOR of CAPACITY is free. Default 2.
//! - ENTRY_CAPACITY: maximum number of entries; a new entry replaces the oldest one. Default 65536;
//!   0 for no limit.
//! - ENTRY_PACKET_CAPACITY: maximum number of packets that wait for one address; further packets are
//!   dropped. Default 0: no limit.
//! - TIMEOUT: how long an entry is valid. Default 5 minutes; 0 for forever.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! - `table` (read): the entries, one per line, oldest first: IP address, whether it is known, Ethernet
//!   address, age.
//! - `count`, `length` (read): number of entries; number of waiting packets.
//! - `drops` (read): packets dropped because no reply arrived or a limit was reached.
//! - `insert` (write): `IP ETH`: adds an entry. Packets waiting for the address continue to wait until
//!   a reply arrives.
//! - `delete` (write): `IP`: forgets an Ethernet address; the entry stays.
//! - `clear` (write): removes all entries and drops the waiting packets.
//!
//! # Drops
//! - unresolved address: no reply arrived before a limit, the timeout or `clear` removed the packet.
//!
//! # Example
//! ```click
//! table :: ARPTable(TIMEOUT 1min);
//! InfiniteSource(DATA \<4500>, LIMIT 10) -> SetIPAddress(10.0.0.2)
//!   -> arp :: ARPQuerier(10.0.0.1, 1:1:1:1:1:1, TABLE table) -> Discard;
//! Idle -> [1] arp;
//! ```
//!
//! # See also
//! ARPQuerier, ARPResponder

use std::sync::Arc;

use millrace_core::args::ArgText;
use millrace_core::net::EtherAddress;
use millrace_core::{
    Args, Class, Context, Element, Failed, Footprint, Handlers, Init, Offers, Refused, Setup,
    register,
};

use super::arp_cache::ArpCache;

/// The element; its manual is at the top of the file.
pub struct ArpTable {
    cache: Arc<ArpCache>,
}

register!(ArpTable, "arp_table.rs");

impl Element for ArpTable {
    const CLASS: Class = Class::new("ARPTable", "0/0", "a/a").information();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let timer = setup.timer();
        let cache = ArpCache::configure(&mut setup.args, timer);
        setup.args.complete()?;
        Ok(Self { cache: Arc::new(cache) })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.cache.start(init.clock().now());
        Ok(())
    }

    fn run_timer(&self, cx: &mut Context, (): &mut ()) {
        self.cache.clean(cx);
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide(self.cache.clone());
    }

    fn take_state(&self, old: &Self, init: &Init<'_>) {
        self.cache.take_state(&old.cache, init.clock().now());
    }

    fn footprint(&self) -> Footprint {
        self.cache.footprint()
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        table_handlers(handlers, |table| &table.cache);
        handlers.read("drops", |table, _| table.cache.drops());
        handlers.write("clear", |table, call| {
            table.cache.clear(call.now());
            Ok(())
        });
    }
}

/// Registers the handlers `table`, `count`, `length`, `insert` and `delete`.
pub(super) fn table_handlers<E: Element>(handlers: &mut Handlers<E>, of: fn(&E) -> &ArpCache) {
    handlers.read("table", move |element: &E, call| of(element).to_text(call.now()));
    handlers.read("count", move |element: &E, _| of(element).len());
    handlers.read("length", move |element: &E, _| of(element).waiting());
    handlers.write("insert", move |element: &E, call| {
        let mut args = Args::of_words(&ArgText::from(&*call.text()), call.scope());
        let (ip, ether) = (args.mandatory("IP"), args.mandatory("ETH"));
        if args.complete().is_err() {
            return Err(args.messages().into());
        }
        of(element).insert(ip, ether, call.now());
        of(element).see_to_cleaning(call.now());
        Ok(())
    });
    handlers.write("delete", move |element: &E, call| {
        of(element).insert(call.parse()?, EtherAddress::BROADCAST, call.now());
        of(element).see_to_cleaning(call.now());
        Ok(())
    });
}
