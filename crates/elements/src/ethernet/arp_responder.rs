//! ARPResponder - answers ARP requests for configured addresses
//!
//! # Synopsis
//! `ARPResponder(IP[/MASK] [IP/MASK...] ETH, ...)`
//!
//! # Description
//! Input packets are ARP requests with their Ethernet headers. If an entry covers the requested
//! address, the element turns the request into a reply with the entry's ETH; the most specific entry
//! wins. The reply keeps the device and VLAN annotations of the request and no others.
//!
//! # Arguments
//! - IP/MASK... ETH: addresses or networks, and the Ethernet address to answer with. A name of both
//!   (AddressInfo) can replace them. Any number of such entries; among several for the same network,
//!   the last one wins.
//!
//! # Ports
//! One agnostic input; output 0 agnostic, output 1 push and optional: it emits the packets that are not
//! answered.
//!
//! # Handlers
//! - `table` (read): the entries, one per line, more specific ones before those that cover them.
//! - `lookup` (read): the Ethernet address for the IP address given as parameter.
//! - `add` (write): adds entries, in the format of an argument.
//! - `remove` (write): removes the entry with exactly this `IP/MASK`.
//! - `config` (read, write): the arguments.
//!
//! # Drops
//! - truncated: the packet is too short for an ARP message.
//! - unexpected: the packet is not a request for Ethernet and IPv4.
//! - no match: there is no entry for the address.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 1) -> ARPResponder(10.0.0.1 1:1:1:1:1:1) -> Discard;
//! ```
//!
//! # See also
//! ARPQuerier, AddressInfo

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::sync::Arc;

use millrace_core::args::{ArgText, Ipv4Network, Scope};
use millrace_core::headers::{ArpHeader, EthernetHeader, Header, arp_operation, ether_type};
use millrace_core::net::{EtherAddress, Ipv4Prefix};
use millrace_core::{
    Arg, Args, Batch, Class, Context, Element, Failed, Handlers, Packet, PacketType, Published,
    Reason, Setup, Timestamp, register,
};

/// The element; its manual is at the top of the file.
pub struct ArpResponder {
    table: Published<Table>,
}

/// The entries in force.
#[derive(Clone, Default)]
struct Table {
    /// More specific entries come before those that cover them.
    entries: Vec<Entry>,
    /// The configuration that a handler wrote.
    written: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    prefix: Ipv4Prefix,
    ether: EtherAddress,
}

register!(ArpResponder, "arp_responder.rs");

impl Element for ArpResponder {
    const CLASS: Class = Class::new("ARPResponder", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let entries = read(&mut setup.args);
        let (entries, doubles) = normalized(entries);
        for prefix in doubles {
            setup.args.warn((), format!("multiple entries for {prefix}"));
        }
        setup.args.complete()?;
        Ok(Self { table: Published::new(Table { entries, written: None }) })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        let table = self.table.load();
        batch.map_filter(|mut packet| match answer(&mut packet, &table.entries) {
            Ok(()) => Some(packet),
            Err(reason) => {
                cx.push_or_drop(1, packet, reason);
                None
            }
        });
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("table", |responder, _| {
            let line = |entry: &Entry| format!("{} {}\n", entry.prefix, entry.ether);
            responder.table.load().entries.iter().map(line).collect::<String>()
        });
        handlers.try_read("lookup", |responder, call| {
            let address = call.parse().map_err(|_| "expected IP address")?;
            let found = find(&responder.table.load().entries, address);
            Ok(found.map(|ether| ether.to_string()).unwrap_or_default())
        });
        handlers.write("add", |responder, call| {
            let text = call.text();
            let new = entries_of(&ArgText::from(&*text), &call.scope())?;
            responder.table.update(|table| {
                let all = table.entries.iter().chain(&new).copied().collect();
                Table { entries: normalized(all).0, ..Table::clone(table) }
            });
            Ok(())
        });
        handlers.write("remove", |responder, call| {
            let Ipv4Network(prefix) = call.parse().map_err(|_| "expected IP/MASK")?;
            let prefix = prefix.truncated();
            if !responder.table.load().entries.iter().any(|entry| entry.prefix == prefix) {
                return Err(format!("{prefix} not found").into());
            }
            responder.table.update(|table| {
                let mut table = Table::clone(table);
                table.entries.retain(|entry| entry.prefix != prefix);
                table
            });
            Ok(())
        });
        handlers.read("config", |responder, call| match &responder.table.load().written {
            Some(written) => written.clone(),
            None => {
                let element = call.router().elements().nth(call.element());
                element.map(|element| element.config.to_owned()).unwrap_or_default()
            }
        });
        handlers.write("config", |responder, call| {
            let mut args = call.args();
            let entries = read(&mut args);
            if args.complete().is_err() {
                return Err(args.messages().into());
            }
            let written = Some(call.text().into_owned());
            let table = Table { entries: normalized(entries).0, written };
            responder.table.store(Arc::new(table));
            Ok(())
        });
    }
}

/// Turns a request into its reply.
fn answer(packet: &mut Packet, entries: &[Entry]) -> Result<(), Reason> {
    let (frame, message) = EthernetHeader::view(packet.data()).ok_or(Reason::Truncated)?;
    let (request, _) = ArpHeader::view(message).ok_or(Reason::Truncated)?;
    let is_request = frame.ether_type.get() == ether_type::ARP
        && request.concerns_ipv4()
        && request.operation.get() == arp_operation::REQUEST;
    if !is_request {
        return Err(Reason::Unexpected);
    }
    let ether = find(entries, request.target()).ok_or(Reason::NoMatch)?;
    let reply = ArpHeader::new(
        arp_operation::REPLY,
        (ether, request.target()),
        (request.sender_ether, request.sender()),
    );
    // A reply has no padding, even if the request had some.
    packet.truncate(EthernetHeader::LEN + ArpHeader::LEN);
    let (frame, message) = EthernetHeader::view_mut(packet.data_mut()).ok_or(Reason::Truncated)?;
    frame.dst = reply.target_ether;
    frame.src = ether;
    let (place, _) = ArpHeader::view_mut(message).ok_or(Reason::Truncated)?;
    *place = reply;
    let tci = packet.vlan_tci();
    packet.clear_annotations();
    packet.set_vlan_tci(tci);
    packet.set_timestamp(Timestamp::ZERO);
    packet.set_packet_type(PacketType::Host);
    packet.set_link_header(0, EthernetHeader::LEN);
    packet.clear_transport_header();
    Ok(())
}

fn find(entries: &[Entry], address: Ipv4Addr) -> Option<EtherAddress> {
    entries.iter().find(|entry| entry.prefix.contains(address)).map(|entry| entry.ether)
}

/// Sorts the entries into search order, each network once: an entry stands immediately before the most specific one that
/// covered it when it came, or last. Also returns the networks that had more than one entry.
fn normalized(entries: Vec<Entry>) -> (Vec<Entry>, Vec<Ipv4Prefix>) {
    let mut own: Vec<Entry> = Vec::new();
    // For each entry those that stand before it, oldest first; and those that stand before none.
    let mut before: Vec<Vec<usize>> = Vec::new();
    let mut last = Vec::new();
    let mut places: HashMap<Ipv4Prefix, usize> = HashMap::new();
    // Those with most ones first.
    let mut masks: BTreeSet<(Reverse<u32>, Ipv4Addr)> = BTreeSet::new();
    let mut doubles = Vec::new();
    for entry in entries {
        let Entry { prefix, .. } = entry;
        if let Some(&place) = places.get(&prefix) {
            own[place] = entry;
            doubles.push(prefix);
            continue;
        }
        let around = masks
            .iter()
            .map(|&(_, mask)| Ipv4Prefix::with_mask(prefix.address(), mask).truncated());
        let mut covering =
            around.filter(|around| around.covers(prefix)).filter_map(|around| places.get(&around));
        covering.next().map_or(&mut last, |&next| &mut before[next]).push(own.len());
        masks.insert((Reverse(ones(prefix)), prefix.mask()));
        places.insert(prefix, own.len());
        own.push(entry);
        before.push(Vec::new());
    }
    let mut sorted = Vec::new();
    last.iter().for_each(|&place| add_in_order(place, &before, &own, &mut sorted));
    // Of masks that are no prefixes, several may cover an entry, and neither of them the other.
    if own.iter().any(|entry| entry.prefix.length().is_none()) {
        sorted.sort_by_key(|entry| Reverse(ones(entry.prefix)));
    }
    (sorted, doubles)
}

/// Adds the entries that stand before this one, then this one. Each level has a longer mask.
fn add_in_order(place: usize, before: &[Vec<usize>], own: &[Entry], sorted: &mut Vec<Entry>) {
    before[place].iter().for_each(|&place| add_in_order(place, before, own, sorted));
    sorted.push(own[place]);
}

fn ones(prefix: Ipv4Prefix) -> u32 {
    prefix.mask().to_bits().count_ones()
}

/// Reads the entries of all arguments.
fn read(args: &mut Args<'_>) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (number, argument) in args.rest().iter().enumerate() {
        match entries_of(argument, args.scope()) {
            Ok(new) => entries.extend(new),
            Err(message) => args.error(argument, format!("argument {number}: {message}")),
        }
    }
    entries
}

/// The entries of one argument: networks, and the Ethernet address for them. A word that can be
/// either is a network; if no other word is an Ethernet address, it provides that as well.
fn entries_of(text: &ArgText, scope: &Scope<'_>) -> Result<Vec<Entry>, &'static str> {
    let words = text.words();
    let mut prefixes = Vec::new();
    let mut ether = None;
    for word in &words {
        if let Ok(Ipv4Network(prefix)) = Ipv4Network::parse(word, scope) {
            prefixes.push(prefix.truncated());
        } else if let Ok(address) = EtherAddress::parse(word, scope) {
            if ether.replace(address).is_some() {
                return Err("more than one ETH");
            }
        } else {
            return Err("expected IP/MASK ETH");
        }
    }
    let named = || words.iter().find_map(|word| EtherAddress::parse(word, scope).ok());
    if prefixes.is_empty() {
        return Err("missing IP/MASK");
    }
    let ether = ether.or_else(named).ok_or("missing ETH")?;
    Ok(prefixes.into_iter().map(|prefix| Entry { prefix, ether }).collect())
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn request(target: [u8; 4]) -> Vec<u8> {
        let mut frame = b"\xff\xff\xff\xff\xff\xff\x0a\x0a\x0a\x0a\x0a\x0a\x08\x06".to_vec();
        frame.extend(b"\x00\x01\x08\x00\x06\x04\x00\x01\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x00\x00\x02");
        frame.extend([0; 6]);
        frame.extend(target);
        frame.extend([0; 18]);
        frame
    }

    #[test]
    fn answers_for_its_addresses_only() {
        let config = "ARPResponder(10.0.0.1 1:1:1:1:1:1, 10.0.0.0/24 2:2:2:2:2:2)";
        let mut rig = Rig::new(config, 1, 1).unwrap();
        let requests = [[10, 0, 0, 1], [10, 0, 0, 9], [10, 0, 1, 1]].map(request);
        let out = rig.push(0, &requests);
        assert_eq!(out[0].len(), 2);
        assert_eq!(out[0][0][..12], *b"\x0a\x0a\x0a\x0a\x0a\x0a\x01\x01\x01\x01\x01\x01");
        assert_eq!(out[0][0][20..32], *b"\x00\x02\x01\x01\x01\x01\x01\x01\x0a\x00\x00\x01");
        assert_eq!(out[0][0][32..], *b"\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x00\x00\x02");
        assert_eq!(out[0][1][22..28], [2; 6]);
        assert_eq!(rig.stats().drops, [(Reason::NoMatch, 1)]);
    }

    /// Inserts each entry before the first one that covers it.
    fn plainly_sorted(entries: &[Entry]) -> Vec<Ipv4Prefix> {
        let mut sorted: Vec<Ipv4Prefix> = Vec::new();
        for Entry { prefix, .. } in entries {
            if !sorted.contains(prefix) {
                let covering = sorted.iter().position(|other| other.covers(*prefix));
                sorted.insert(covering.unwrap_or(sorted.len()), *prefix);
            }
        }
        sorted
    }

    proptest! {
        #[test]
        fn entries_stand_before_those_that_cover_them(nets in vec((0..8u32, 0..=32u8), 0..40)) {
            let entry = |(bits, length): (u32, u8)| Entry {
                prefix: Ipv4Prefix::new(Ipv4Addr::from_bits(bits << 29), length).unwrap().truncated(),
                ether: EtherAddress::default(),
            };
            let entries: Vec<Entry> = nets.into_iter().map(entry).collect();
            let sorted: Vec<_> = normalized(entries.clone()).0.iter().map(|one| one.prefix).collect();
            prop_assert_eq!(sorted, plainly_sorted(&entries));
        }

        #[test]
        fn with_masks_of_any_kind_the_most_specific_entry_is_first(masks in vec(0..16u32, 0..20)) {
            let entry = |bits: u32| Entry {
                prefix: Ipv4Prefix::with_mask(Ipv4Addr::UNSPECIFIED, Ipv4Addr::from_bits(bits << 28)),
                ether: EtherAddress::default(),
            };
            let sorted = normalized(masks.into_iter().map(entry).collect()).0;
            for (at, one) in sorted.iter().enumerate() {
                prop_assert!(!sorted[..at].iter().any(|before| before.prefix.covers(one.prefix)));
            }
        }
    }

    #[test]
    fn truncated_and_other_messages_go_to_the_second_output() {
        let mut rig = Rig::new("ARPResponder(10.0.0.1 1:1:1:1:1:1)", 1, 2).unwrap();
        let whole = request([10, 0, 0, 1]);
        let mut reply = whole.clone();
        reply[21] = 2;
        let packets: Vec<&[u8]> = vec![&whole[..41], &whole[..3], b"", &reply];
        let out = rig.push(0, &packets);
        assert_eq!((out[0].len(), out[1].len()), (0, 4));
        assert!(rig.stats().balanced());
    }

    #[test]
    fn handlers_change_the_table() {
        let mut rig = Rig::new("ARPResponder(10.0.0.1 1:1:1:1:1:1)", 1, 1).unwrap();
        rig.write("add", "10.0.0.0/8 3:3:3:3:3:3").unwrap();
        assert_eq!(rig.push(0, &[request([10, 9, 9, 9])])[0].len(), 1);
        rig.write("remove", "10.0.0.0/8").unwrap();
        assert!(rig.push(0, &[request([10, 9, 9, 9])])[0].is_empty());
        assert!(rig.write("remove", "10.0.0.0/8").is_err());
        assert!(rig.write("add", "10.0.0.0/8").is_err());
    }
}
