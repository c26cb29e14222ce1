//! A packet's headers, field by field, and what has changed between two looks at it.

use millrace_core::headers::{
    ArpHeader, EthernetHeader, Header, IcmpHeader, Ipv4Header, Ipv6Header, TcpHeader, UdpHeader,
    VlanHeader, ether_type, protocol,
};
use millrace_core::net::EtherAddress;
use millrace_io::pcap::LinkType;
use serde::{Deserialize, Serialize};

/// A change of a field. What was not there before, or is not any more, is empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Change {
    /// The field, such as `ip ttl`, or the name of an annotation.
    pub(crate) field: String,
    /// What it was.
    pub(crate) before: String,
    /// What it is.
    pub(crate) after: String,
}

/// Fields by name, in their order.
pub(super) type Fields = Vec<(String, String)>;

/// The headers of a packet, and a sum over the bytes behind them.
pub(super) fn of(link: LinkType, data: &[u8], whole: usize) -> Fields {
    let mut fields = vec![("length".to_owned(), whole.to_string())];
    let mut add = |name: &str, value: String| fields.push((name.to_owned(), value));
    let rest = if link == LinkType::IP { ip(data, &mut add) } else { ethernet(data, &mut add) };
    // What has changed of the rest does not matter as much as that it has.
    let sum = rest.iter().fold(0xcbf2_9ce4_8422_2325u64, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    add("payload", format!("{sum:016x}"));
    fields
}

type Add<'a> = &'a mut dyn FnMut(&str, String);

fn ethernet<'d>(data: &'d [u8], add: Add<'_>) -> &'d [u8] {
    let Some((header, mut rest)) = EthernetHeader::view(data) else { return data };
    let address = |address: EtherAddress| address.to_string();
    add("ether dst", address(header.dst));
    add("ether src", address(header.src));
    let mut kind = header.ether_type.get();
    for n in 1.. {
        let Some((tag, behind)) = Some(kind)
            .filter(|&kind| ether_type::is_tag(kind))
            .and_then(|_| VlanHeader::view(rest))
        else {
            break;
        };
        let name = if n == 1 { "vlan".to_owned() } else { format!("vlan {n}") };
        add(&name, tag.vlan().to_string());
        add(&format!("{name} priority"), tag.priority().to_string());
        (kind, rest) = (tag.ether_type.get(), behind);
    }
    add("ether type", format!("{kind:#06x}"));
    match kind {
        ether_type::IPV4 | ether_type::IPV6 => ip(rest, add),
        ether_type::ARP => match ArpHeader::view(rest) {
            Some((arp, rest)) => {
                add("arp operation", arp.operation.get().to_string());
                rest
            }
            None => rest,
        },
        _ => rest,
    }
}

fn ip<'d>(data: &'d [u8], add: Add<'_>) -> &'d [u8] {
    match data.first().map(|byte| byte >> 4) {
        Some(4) => ip4(data, add),
        Some(6) => ip6(data, add),
        _ => data,
    }
}

fn ip4<'d>(data: &'d [u8], add: Add<'_>) -> &'d [u8] {
    let Some((header, _)) = Ipv4Header::view(data) else { return data };
    add("ip header length", header.header_len().to_string());
    add("ip tos", format!("{:#04x}", header.tos));
    add("ip length", header.total_len.get().to_string());
    add("ip id", header.id.get().to_string());
    let fragment = header.flags_fragment.get();
    let bit = |mask: u16| u8::from(fragment & mask != 0);
    add("ip dont-fragment", bit(Ipv4Header::DONT_FRAGMENT).to_string());
    add("ip more-fragments", bit(Ipv4Header::MORE_FRAGMENTS).to_string());
    let offset = fragment & Ipv4Header::OFFSET_MASK;
    add("ip offset", (u32::from(offset) * 8).to_string());
    add("ip ttl", header.ttl.to_string());
    add("ip protocol", header.protocol.to_string());
    add("ip checksum", format!("{:#06x}", header.checksum.get()));
    add("ip src", header.source().to_string());
    add("ip dst", header.destination().to_string());
    let rest = data.get(header.header_len()..).unwrap_or_default();
    match offset {
        0 => transport(header.protocol, rest, add),
        _ => rest,
    }
}

fn ip6<'d>(data: &'d [u8], add: Add<'_>) -> &'d [u8] {
    let Some((header, rest)) = Ipv6Header::view(data) else { return data };
    add("ip6 class", header.traffic_class().to_string());
    add("ip6 flow", header.flow_label().to_string());
    add("ip6 length", header.payload_len.get().to_string());
    add("ip6 next header", header.next_header.to_string());
    add("ip6 hop limit", header.hop_limit.to_string());
    add("ip6 src", header.source().to_string());
    add("ip6 dst", header.destination().to_string());
    match header.extensions(rest).upper() {
        Some((protocol, at)) => transport(protocol, rest.get(at..).unwrap_or_default(), add),
        None => rest,
    }
}

fn transport<'d>(kind: u8, data: &'d [u8], add: Add<'_>) -> &'d [u8] {
    match kind {
        protocol::TCP => {
            let Some((tcp, rest)) = TcpHeader::view(data) else { return data };
            add("tcp src port", tcp.src_port.get().to_string());
            add("tcp dst port", tcp.dst_port.get().to_string());
            add("tcp sequence", tcp.sequence.get().to_string());
            add("tcp acknowledgment", tcp.acknowledgment.get().to_string());
            add("tcp flags", format!("{:#04x}", tcp.flags));
            add("tcp window", tcp.window.get().to_string());
            add("tcp checksum", format!("{:#06x}", tcp.checksum.get()));
            rest
        }
        protocol::UDP => {
            let Some((udp, rest)) = UdpHeader::view(data) else { return data };
            add("udp src port", udp.src_port.get().to_string());
            add("udp dst port", udp.dst_port.get().to_string());
            add("udp length", udp.len.get().to_string());
            add("udp checksum", format!("{:#06x}", udp.checksum.get()));
            rest
        }
        protocol::ICMP | protocol::ICMPV6 => {
            let Some((icmp, rest)) = IcmpHeader::view(data) else { return data };
            add("icmp type", icmp.kind.to_string());
            add("icmp code", icmp.code.to_string());
            add("icmp checksum", format!("{:#06x}", icmp.checksum.get()));
            rest
        }
        _ => data,
    }
}

/// What is different, in the order of the fields. A header that is gone, or new, is one change.
pub(super) fn changes(before: &Fields, after: &Fields) -> Vec<Change> {
    let find = |fields: &Fields, name: &str| {
        fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone())
    };
    let header = |name: &str| name.split_once(' ').map(|(header, _)| header.to_owned());
    let has = |fields: &Fields, name: &str| {
        fields.iter().any(|(own, _)| header(own).as_deref() == Some(name))
    };
    let mut changes: Vec<Change> = Vec::new();
    let mut whole = Vec::new();
    let names = before.iter().chain(after.iter().filter(|(name, _)| find(before, name).is_none()));
    for (name, _) in names {
        if let Some(header) = header(name)
            && has(before, &header) != has(after, &header)
        {
            if !whole.contains(&header) {
                let there = |there: bool| if there { "there" } else { "" }.to_owned();
                changes.push(Change {
                    field: format!("{header} header"),
                    before: there(has(before, &header)),
                    after: there(has(after, &header)),
                });
                whole.push(header);
            }
            continue;
        }
        let (was, is) = (find(before, name), find(after, name));
        if was != is {
            let sum = name == "payload";
            let text = |value: Option<String>| match value {
                Some(_) if sum => String::new(),
                value => value.unwrap_or_default(),
            };
            changes.push(Change { field: name.clone(), before: text(was), after: text(is) });
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_named_by_field_and_by_header() {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 1, 2, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0, 53, 0, 80, 0, 12, 0, 0, b'a', b'b', b'c', b'd']);
        let fields = |link, data: &[u8]| of(link, data, data.len());
        let before = fields(LinkType::ETHER, &frame);
        let mut after = frame.clone();
        (after[22], after[24]) = (63, 2);
        let told = |after: &[u8], link| -> Vec<(String, String, String)> {
            let changes = changes(&before, &fields(link, after));
            changes.into_iter().map(|one| (one.field, one.before, one.after)).collect()
        };
        let owned = |told: &[(&str, &str, &str)]| -> Vec<(String, String, String)> {
            told.iter().map(|t| (t.0.to_owned(), t.1.to_owned(), t.2.to_owned())).collect()
        };
        assert_eq!(
            told(&after, LinkType::ETHER),
            owned(&[("ip ttl", "64", "63"), ("ip checksum", "0x0102", "0x0202")])
        );
        assert_eq!(
            told(&frame[14..], LinkType::IP),
            owned(&[("length", "46", "32"), ("ether header", "there", "")])
        );
        after = frame.clone();
        after[45] = b'x';
        assert_eq!(told(&after, LinkType::ETHER), owned(&[("payload", "", "")]));
    }

    #[test]
    fn short_packets_have_fewer_fields() {
        for length in 0..60 {
            for first in [0x45u8, 0x60, 0x00] {
                let mut data = vec![first; length];
                of(LinkType::IP, &data, length);
                if let Some(kind) = data.get_mut(12..14) {
                    kind.copy_from_slice(&[8, 0]);
                }
                of(LinkType::ETHER, &data, length);
            }
        }
    }
}
