//! ARPResponder - answers ARP requests
//!
//! # Synopsis
//! `ARPResponder(IP[/MASK] [IP/MASK...] ETH, ...)`
//!
//! # Description
//! Input is ARP requests with their Ethernet header. When an entry covers the address that is
//! asked for, the request becomes a reply with the entry's ETH; the most specific entry counts.
//! Device, VLAN and other annotations are those of the request.
//!
//! # Arguments
//! - IP/MASK... ETH: addresses or networks and the Ethernet address to answer with. A name of both
//!   (AddressInfo) may stand for the two. Any number of such entries.
//!
//! # Ports
//! One agnostic input; output 0 agnostic, output 1 push and optional: it gets packets that are not
//! answered.
//!
//! # Handlers
//! - `table` (read): the entries, one a line.
//! - `lookup` (read): the Ethernet address for the IP address given as parameter.
//! - `add` (write): adds entries, written as an argument.
//! - `remove` (write): removes the entry with exactly this `IP/MASK`.
//!
//! # Drops
//! - truncated: too short for an ARP message.
//! - unexpected: no request for Ethernet and IPv4.
//! - no match: no entry for the address.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 1) -> ARPResponder(10.0.0.1 1:1:1:1:1:1) -> Discard;
//! ```
//!
//! # See also
//! ARPQuerier, AddressInfo

use std::net::Ipv4Addr;

use arc_swap::ArcSwap;
use millrace_core::args::{ArgError, ArgText, Ipv4Network, Scope};
use millrace_core::headers::{ArpHeader, EthernetHeader, Header, arp_operation};
use millrace_core::net::{EtherAddress, Ipv4Prefix};
use millrace_core::{
    Arg, Batch, Class, Context, Element, Failed, Handlers, Packet, PacketType, Reason, Setup,
    register,
};

/// The element; its manual is at the top of the file.
pub struct ARPResponder {
    /// The most specific first.
    entries: ArcSwap<Vec<Entry>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    prefix: Ipv4Prefix,
    ether: EtherAddress,
}

register!(ARPResponder, "arp_responder.rs");

impl Element for ARPResponder {
    const CLASS: Class = Class::new("ARPResponder", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let mut entries = Vec::new();
        for argument in setup.args.rest() {
            let parsed: Option<Entries> = setup.args.parse_as("", &argument);
            entries.extend(parsed.unwrap_or_default().0);
        }
        setup.args.complete()?;
        sort(&mut entries);
        Ok(Self { entries: ArcSwap::from_pointee(entries) })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        let entries = self.entries.load();
        batch.map_filter(|mut packet| match answer(&mut packet, &entries) {
            Ok(()) => Some(packet),
            Err(reason) => {
                cx.push_or_drop(1, packet, reason);
                None
            }
        });
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("table", |responder, _| {
            let entries = responder.entries.load();
            entries.iter().map(|e| format!("{} {}\n", e.prefix, e.ether)).collect::<String>()
        });
        handlers.try_read("lookup", |responder, call| {
            let address: Ipv4Addr = call.parse()?;
            let found = find(&responder.entries.load(), address);
            Ok(found.map(|ether| ether.to_string()).unwrap_or_default())
        });
        handlers.write("add", |responder, call| {
            let new: Entries = call.parse()?;
            responder.entries.rcu(|entries| {
                let mut entries = entries.as_ref().clone();
                entries.retain(|entry| !new.0.iter().any(|new| new.prefix == entry.prefix));
                entries.extend(&new.0);
                sort(&mut entries);
                entries
            });
            Ok(())
        });
        handlers.write("remove", |responder, call| {
            let Ipv4Network(prefix) = call.parse()?;
            let prefix = prefix.truncated();
            if !responder.entries.load().iter().any(|entry| entry.prefix == prefix) {
                return Err(format!("{prefix} not found").into());
            }
            responder.entries.rcu(|entries| {
                entries.iter().copied().filter(|entry| entry.prefix != prefix).collect::<Vec<_>>()
            });
            Ok(())
        });
    }
}

/// Turns a request into its reply.
fn answer(packet: &mut Packet, entries: &[Entry]) -> Result<(), Reason> {
    let (_, message) = EthernetHeader::view(packet.data()).ok_or(Reason::Truncated)?;
    let (request, _) = ArpHeader::view(message).ok_or(Reason::Truncated)?;
    if !request.is_ethernet_ipv4() || request.operation.get() != arp_operation::REQUEST {
        return Err(Reason::Unexpected);
    }
    let ether = find(entries, request.target()).ok_or(Reason::NoMatch)?;
    let reply = ArpHeader::new(
        arp_operation::REPLY,
        (ether, request.target()),
        (request.sender_ether, request.sender()),
    );
    // A reply is as short as can be, whatever padding the request had.
    packet.truncate(EthernetHeader::LEN + ArpHeader::LEN);
    let (frame, message) = EthernetHeader::view_mut(packet.data_mut()).ok_or(Reason::Truncated)?;
    frame.dst = reply.target_ether;
    frame.src = ether;
    let (place, _) = ArpHeader::view_mut(message).ok_or(Reason::Truncated)?;
    *place = reply;
    packet.set_mac_header(0);
    packet.set_network_header(EthernetHeader::LEN as isize, 0);
    packet.set_packet_type(PacketType::Outgoing);
    Ok(())
}

fn find(entries: &[Entry], address: Ipv4Addr) -> Option<EtherAddress> {
    entries.iter().find(|entry| entry.prefix.contains(address)).map(|entry| entry.ether)
}

fn sort(entries: &mut [Entry]) {
    entries.sort_by_key(|entry| std::cmp::Reverse(u32::from(entry.prefix.mask())));
}

/// The entries of one argument: networks, then the Ethernet address for them.
#[derive(Default)]
struct Entries(Vec<Entry>);

impl Arg for Entries {
    const EXPECTS: &'static str = "‘IP/MASK [IP/MASK...] ETH’";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        let words = text.words();
        let mut prefixes = Vec::new();
        let mut ether = None;
        for word in &words {
            let network = Ipv4Network::parse(word, scope).ok();
            let address = EtherAddress::parse(word, scope).ok();
            if network.is_none() && address.is_none() {
                let message = format!("expected IP/MASK or ETH, not ‘{}’", word.as_str());
                return Err(ArgError::new(message));
            }
            prefixes.extend(network.map(|network| network.0.truncated()));
            if ether.is_some() && address.is_some() {
                return Err(ArgError::new("more than one ETH"));
            }
            ether = ether.or(address);
        }
        let ether = ether.ok_or_else(|| ArgError::new("missing ETH"))?;
        if prefixes.is_empty() {
            return Err(ArgError::new("missing IP/MASK"));
        }
        Ok(Self(prefixes.into_iter().map(|prefix| Entry { prefix, ether }).collect()))
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

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
