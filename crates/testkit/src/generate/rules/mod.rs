//! Rule sets like those of real firewalls and routers.
//!
//! The kinds are those of ClassBench (Taylor and Turner, IEEE/ACM ToN 15(3), 2007): access lists, firewalls, and chains
//! of Linux's ipchains. Of each kind we keep what is published about sets of 10,000 rules: how many tuples they have, how
//! many prefixes, how many true ranges of ports. [`Statistics`] counts them in any set.
//!
//! The generator is our own. Beyond those figures it knows that prefixes lie in each other, that few of them stand in
//! many rules, and that what is more special stands in front; it does not know the dependence between fields that
//! ClassBench's seeds record.

mod kinds;
mod set;
mod statistics;

use std::fmt;
use std::net::Ipv4Addr;

pub use kinds::{ACL1, FW1, IPC1, KINDS, Kind};
pub use set::{Fields, RuleSet};
pub(super) use set::{station, unicast as unicast_address};
pub use statistics::{Statistics, Tuple};

/// IP protocol numbers that rules name.
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const ICMP: u8 = 1;

/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;

/// A network: an address whose bits after the prefix are zero, and the length of the prefix, at most 32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    /// The network's first address.
    pub address: u32,
    /// The length of the prefix in bits.
    pub length: u8,
}

/// The ports from the first to the last one, both included.
pub type PortRange = (u16, u16);

/// Every port.
pub const ALL_PORTS: PortRange = (0, u16::MAX);

/// The conditions of a rule on seven fields of packets, and its action. `None` means no condition.
///
/// In arrays, the source comes first, then the destination.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The addresses of the Ethernet header.
    pub ethernet: [Option<[u8; 6]>; 2],
    /// The EtherType, after VLAN tags.
    pub ether_type: Option<u16>,
    /// The networks of the IPv4 header.
    pub nets: [Prefix; 2],
    /// The ports of TCP or UDP.
    pub ports: [PortRange; 2],
    /// The protocol of the IPv4 header.
    pub protocol: Option<u8>,
    /// The action: the number of an output.
    pub action: u16,
}

/// The seven fields of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// The addresses of the Ethernet header, source first.
    pub ethernet: [[u8; 6]; 2],
    /// The EtherType. If it is not [`IPV4`], the fields below have no meaning.
    pub ether_type: u16,
    /// The addresses of the IPv4 header, source first.
    pub addresses: [u32; 2],
    /// The protocol of the IPv4 header.
    pub protocol: u8,
    /// The ports, source first, where the protocol is TCP or UDP.
    pub ports: [u16; 2],
}

impl Prefix {
    /// Every address.
    pub const ALL: Self = Self { address: 0, length: 0 };

    /// The network of this length that contains an address.
    #[must_use]
    pub fn around(address: u32, length: u8) -> Self {
        Self { address: address & mask(length), length }
    }

    /// True if the network contains an address.
    #[must_use]
    pub fn contains(&self, address: u32) -> bool {
        address & mask(self.length) == self.address
    }

    /// The network's last address.
    #[must_use]
    pub fn last(&self) -> u32 {
        self.address | !mask(self.length)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", Ipv4Addr::from_bits(self.address), self.length)
    }
}

impl Rule {
    /// The rule that every packet matches.
    #[must_use]
    pub fn any(action: u16) -> Self {
        Self {
            ethernet: [None; 2],
            ether_type: None,
            nets: [Prefix::ALL; 2],
            ports: [ALL_PORTS; 2],
            protocol: None,
            action,
        }
    }

    /// True if a packet matches the rule. A packet without IPv4 has no addresses and no protocol, and a packet
    /// without TCP or UDP has no ports: it matches only rules without conditions on them.
    #[must_use]
    pub fn holds(&self, header: &Header) -> bool {
        let is_ip = header.ether_type == IPV4;
        let has_ports = is_ip && matches!(header.protocol, TCP | UDP);
        let mut ethernet = self.ethernet.iter().zip(header.ethernet);
        let mut nets = self.nets.iter().zip(header.addresses);
        let mut ports = self.ports.iter().zip(header.ports);
        ethernet.all(|(wanted, address)| wanted.is_none_or(|wanted| wanted == address))
            && self.ether_type.is_none_or(|wanted| wanted == header.ether_type)
            && nets.all(|(net, address)| net.length == 0 || is_ip && net.contains(address))
            && self.protocol.is_none_or(|wanted| is_ip && wanted == header.protocol)
            && ports.all(|(range, port)| {
                *range == ALL_PORTS || has_ports && (range.0..=range.1).contains(&port)
            })
    }

    /// The rule in the language of IPFilter and IPClassifier, which knows only IP: conditions on Ethernet fields are
    /// omitted.
    #[must_use]
    pub fn expression(&self) -> String {
        let mut parts = Vec::new();
        for (end, net) in ["src", "dst"].iter().zip(self.nets) {
            if net.length > 0 {
                parts.push(format!("{end} net {net}"));
            }
        }
        match self.protocol {
            Some(TCP) => parts.push("tcp".to_owned()),
            Some(UDP) => parts.push("udp".to_owned()),
            Some(other) => parts.push(format!("ip proto {other}")),
            None => {}
        }
        for (end, (first, last)) in ["src", "dst"].iter().zip(self.ports) {
            match (first, last) {
                ALL_PORTS => {}
                (first, last) if first == last => parts.push(format!("{end} port {first}")),
                (first, u16::MAX) => parts.push(format!("{end} port >= {first}")),
                (0, last) => parts.push(format!("{end} port <= {last}")),
                (first, last) => {
                    parts.push(format!("{end} port >= {first} && {end} port <= {last}"));
                }
            }
        }
        if parts.is_empty() { "all".to_owned() } else { parts.join(" && ") }
    }
}

/// A line in ClassBench's format, followed by words for conditions on Ethernet fields, and by the action.
impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [source, destination] = self.nets;
        let [from, to] = self.ports;
        write!(out, "@{source}\t{destination}\t{} : {}\t{} : {}\t", from.0, from.1, to.0, to.1)?;
        match self.protocol {
            Some(protocol) => write!(out, "0x{protocol:02x}/0xFF")?,
            None => write!(out, "0x00/0x00")?,
        }
        for (word, address) in ["eth_src", "eth_dst"].iter().zip(self.ethernet) {
            if let Some([a, b, c, d, e, f]) = address {
                write!(out, "\t{word}={a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")?;
            }
        }
        if let Some(ether_type) = self.ether_type {
            write!(out, "\teth_type=0x{ether_type:04x}")?;
        }
        write!(out, "\t{}", self.action)
    }
}

/// The rule that decides about a packet: the first one that matches. The search is simple on purpose, because it is
/// the oracle.
#[must_use]
pub fn first_match(rules: &[Rule], header: &Header) -> Option<usize> {
    rules.iter().position(|rule| rule.holds(header))
}

/// The file of a rule set: one rule per line.
#[must_use]
pub fn text(rules: &[Rule]) -> String {
    rules.iter().map(|rule| format!("{rule}\n")).collect()
}

fn mask(length: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> Rule {
        Rule {
            ethernet: [Some([2, 0, 0, 0, 0, 1]), None],
            ether_type: Some(IPV4),
            nets: [Prefix::around(0x0a01_02ff, 27), Prefix::around(0xc0a8_0001, 32)],
            ports: [ALL_PORTS, (1024, 2000)],
            protocol: Some(TCP),
            action: 3,
        }
    }

    fn header() -> Header {
        Header {
            ethernet: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
            ether_type: IPV4,
            addresses: [0x0a01_02e1, 0xc0a8_0001],
            protocol: TCP,
            ports: [7, 1024],
        }
    }

    #[test]
    fn a_rule_is_a_line() {
        assert_eq!(
            rule().to_string(),
            "@10.1.2.224/27\t192.168.0.1/32\t0 : 65535\t1024 : 2000\t0x06/0xFF\
             \teth_src=02:00:00:00:00:01\teth_type=0x0800\t3"
        );
        assert_eq!(
            Rule::any(0).to_string(),
            "@0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x00/0x00\t0"
        );
    }

    #[test]
    fn a_rule_is_an_expression() {
        let expected = "src net 10.1.2.224/27 && dst net 192.168.0.1/32 && tcp && dst port >= 1024 \
                        && dst port <= 2000";
        assert_eq!(rule().expression(), expected);
        assert_eq!(Rule::any(0).expression(), "all");
        let one = Rule { ports: [(80, 80), (0, 1023)], protocol: Some(1), ..Rule::any(0) };
        assert_eq!(one.expression(), "ip proto 1 && src port 80 && dst port <= 1023");
        let high = Rule { ports: [(1024, 65535), ALL_PORTS], ..Rule::any(0) };
        assert_eq!(high.expression(), "src port >= 1024");
    }

    #[test]
    fn each_field_decides() {
        let (rule, header) = (rule(), header());
        assert!(rule.holds(&header));
        let others = [
            Header { ethernet: [[2, 0, 0, 0, 0, 9], header.ethernet[1]], ..header },
            Header { ether_type: 0x86dd, ..header },
            Header { addresses: [0x0a01_02df, 0xc0a8_0001], ..header },
            Header { addresses: [0x0a01_0300, 0xc0a8_0001], ..header },
            Header { addresses: [0x0a01_02e1, 0xc0a8_0002], ..header },
            Header { protocol: UDP, ..header },
            Header { ports: [7, 1023], ..header },
            Header { ports: [7, 2001], ..header },
        ];
        for other in others {
            assert!(!rule.holds(&other), "{other:?}");
            assert!(Rule::any(0).holds(&other));
            assert_eq!(first_match(&[rule.clone(), Rule::any(1)], &other), Some(1));
        }
        // ICMP has no ports, ARP no addresses.
        let ported = Rule { ports: [ALL_PORTS, (0, 1023)], ..Rule::any(0) };
        let icmp = Header { protocol: ICMP, ports: [0, 0], ..header };
        assert!(!ported.holds(&icmp) && ported.holds(&Header { protocol: UDP, ..icmp }));
        let netted = Rule { nets: [Prefix::around(0, 1), Prefix::ALL], ..Rule::any(0) };
        let arp = Header { ether_type: 0x0806, addresses: [0, 0], ..header };
        assert!(!netted.holds(&arp) && netted.holds(&Header { ether_type: IPV4, ..arp }));
    }
}
