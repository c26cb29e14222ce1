//! ARPTable - keeps what ARP has found out
//!
//! # Synopsis
//! `ARPTable([keywords CAPACITY, ENTRY_CAPACITY, ENTRY_PACKET_CAPACITY, CAPACITY_SLIM_FACTOR, TIMEOUT])`
//!
//! # Description
//! Keeps IP addresses with the Ethernet addresses that belong to them, and the packets that wait for
//! one. An ARPQuerier has such a table of its own; several share one when their TABLE names it.
//!
//! # Arguments
//! - CAPACITY: most packets that wait. Default 2048; 0 for no limit.
//! - CAPACITY_SLIM_FACTOR: when there are more, one in so many of CAPACITY goes, those that wait for
//!   the oldest entries first. Default 2.
//! - ENTRY_CAPACITY: most entries; the oldest one goes for a new one. Default 0: no limit.
//! - ENTRY_PACKET_CAPACITY: most packets that wait for one address; those that come later are dropped.
//!   Default 0: no limit.
//! - TIMEOUT: how long an entry is good for. Default 5 minutes; 0 for ever.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! - `table` (read): the entries, a line each, the oldest first: address, whether it is known, Ethernet
//!   address, age.
//! - `count`, `length` (read): entries; packets that wait.
//! - `drops` (read): packets dropped because nobody answered or the table was full.
//! - `insert` (write): `IP ETH`: adds an entry. What waits for it goes on waiting until a reply comes.
//! - `delete` (write): `IP`: forgets an Ethernet address; the entry stays.
//! - `clear` (write): removes every entry, and the packets that wait.
//!
//! # Drops
//! - unresolved address: no reply came before the packet had to go.
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
    Args, Class, Context, Element, Failed, Handlers, Init, Refused, Setup, register,
};

use super::arp_cache::ArpCache;

/// The element; its manual is at the top of the file.
pub struct ARPTable {
    pub(super) cache: Arc<ArpCache>,
}

register!(ARPTable, "arp_table.rs");

impl Element for ARPTable {
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

    fn take_state(&self, old: &Self, init: &Init<'_>) {
        self.cache.take_state(&old.cache, init.clock().now());
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

/// The handlers `table`, `count`, `length`, `insert` and `delete`.
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
