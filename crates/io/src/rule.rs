//! Rules that select which packets a device takes from the machine's own network stack.
//!
//! A rule is a list of words, all of which a packet must match. Commas separate the rules of a list; a packet
//! must match one of them:
//!
//! | words | packets |
//! |---|---|
//! | `ip`, `ip6`, `arp`, `ether 0x88cc` | of this EtherType, after up to two VLAN tags |
//! | `icmp`, `tcp`, `udp`, `sctp`, `icmp6`, `proto 47` | of this IP protocol |
//! | `port 53`, `src port 53`, `dst port 6000-6063` | of TCP, UDP or SCTP with this port on either side, or the one named |
//! | `net 10.0.0.0/8`, `src net ...`, `dst net 2001:db8::/32` | with this address on either side, or the one named; `host` is a synonym |
//!
//! `and` between the words is optional. Fragments of IP packets other than the first have no ports, and IPv6
//! extension headers are not skipped: such packets match no rule with ports.
//!
//! ```
//! use millrace_io::Rule;
//! let rules = Rule::list("arp, udp dst port 53, tcp and port 80 and net 10.0.0.0/8").unwrap();
//! assert_eq!(rules.len(), 3);
//! assert_eq!(rules[1].to_string(), "udp dst port 53");
//! assert!(Rule::list("udp port").is_err());
//! ```

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use millrace_core::net::{Ipv4Prefix, Ipv6Prefix};

/// A set of packets, selected by their headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub(crate) ether_type: Option<u16>,
    pub(crate) protocol: Option<u8>,
    pub(crate) ports: Vec<(Side, RangeInclusive<u16>)>,
    pub(crate) networks: Vec<(Side, Network)>,
}

/// Which of a packet's two addresses or ports to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Source,
    Destination,
    Either,
}

/// Addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    V4(Ipv4Prefix),
    V6(Ipv6Prefix),
}

/// A text that is not a valid rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad rule ‘{rule}’: {problem}")]
pub struct RuleError {
    rule: String,
    problem: String,
}

pub(crate) const IP: u16 = 0x0800;
pub(crate) const ARP: u16 = 0x0806;
pub(crate) const IP6: u16 = 0x86dd;

const ETHER_TYPES: [(&str, u16); 3] = [("ip", IP), ("arp", ARP), ("ip6", IP6)];
const PROTOCOLS: [(&str, u8, Option<u16>); 5] = [
    ("icmp", 1, Some(IP)),
    ("tcp", 6, None),
    ("udp", 17, None),
    ("icmp6", 58, Some(IP6)),
    ("sctp", 132, None),
];

impl Rule {
    /// Reads a list of rules, separated by commas; an empty text has none.
    ///
    /// # Errors
    /// A part of the text is not a valid rule.
    pub fn list(text: &str) -> Result<Vec<Self>, RuleError> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(Self::from_str).collect()
    }

    fn set_ether_type(&mut self, ether_type: u16) -> Result<(), String> {
        match self.ether_type.replace(ether_type) {
            Some(before) if before != ether_type => Err("two EtherTypes".to_owned()),
            _ => Ok(()),
        }
    }

    fn set_protocol(&mut self, protocol: u8, ether_type: Option<u16>) -> Result<(), String> {
        match self.protocol.replace(protocol) {
            Some(before) if before != protocol => return Err("two protocols".to_owned()),
            _ => {}
        }
        ether_type.map_or(Ok(()), |ether_type| self.set_ether_type(ether_type))
    }

    /// Reads one condition from the front of `words`.
    fn read(&mut self, words: &mut &[&str]) -> Result<(), String> {
        let word = next(words)?;
        if let Some((_, ether_type)) = ETHER_TYPES.iter().find(|(name, _)| *name == word) {
            return self.set_ether_type(*ether_type);
        }
        if let Some((_, protocol, over)) = PROTOCOLS.iter().find(|(name, ..)| *name == word) {
            return self.set_protocol(*protocol, *over);
        }
        match word {
            "and" => Ok(()),
            "ether" => self.set_ether_type(number(next(words)?)?),
            "proto" => self.set_protocol(number(next(words)?)?, None),
            "src" => self.read_side(Side::Source, next(words)?, words),
            "dst" => self.read_side(Side::Destination, next(words)?, words),
            _ => self.read_side(Side::Either, word, words),
        }
    }

    fn read_side(&mut self, side: Side, word: &str, words: &mut &[&str]) -> Result<(), String> {
        match word {
            "port" => {
                let text = next(words)?;
                let (low, high) = text.split_once('-').unwrap_or((text, text));
                let ports = number(low)?..=number(high)?;
                if ports.is_empty() {
                    return Err(format!("‘{text}’ ends before it begins"));
                }
                self.ports.push((side, ports));
                Ok(())
            }
            "net" | "host" => {
                let (network, ether_type) = network(next(words)?)?;
                self.networks.push((side, network));
                self.set_ether_type(ether_type)
            }
            word => Err(format!("unknown word ‘{word}’")),
        }
    }

    /// Rejects contradictions, which would match nothing.
    fn check(&self) -> Result<(), String> {
        let over_ip = matches!(self.ether_type, None | Some(IP | IP6));
        let has_ports = matches!(self.protocol, None | Some(6 | 17 | 132));
        if !over_ip && (self.protocol.is_some() || !self.ports.is_empty()) {
            return Err("only IP has protocols and ports".to_owned());
        }
        if !has_ports && !self.ports.is_empty() {
            return Err("only TCP, UDP and SCTP have ports".to_owned());
        }
        Ok(())
    }
}

fn next<'a>(words: &mut &[&'a str]) -> Result<&'a str, String> {
    let (first, rest) = words.split_first().ok_or("it is incomplete")?;
    *words = rest;
    Ok(first)
}

fn number<T: TryFrom<u32>>(text: &str) -> Result<T, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let number = number.ok().and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| format!("bad number ‘{text}’"))
}

fn network(text: &str) -> Result<(Network, u16), String> {
    let bad = || format!("bad network ‘{text}’");
    if !text.contains('/') {
        return match text.parse().map_err(|_| bad())? {
            IpAddr::V4(ip) => Ipv4Prefix::new(ip, 32).map(|net| (Network::V4(net), IP)),
            IpAddr::V6(ip) => Ipv6Prefix::new(ip, 128).map(|net| (Network::V6(net), IP6)),
        }
        .ok_or_else(bad);
    }
    if text.contains(':') {
        text.parse().map(|net| (Network::V6(net), IP6)).map_err(|_| bad())
    } else {
        text.parse().map(|net| (Network::V4(net), IP)).map_err(|_| bad())
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let mut rest = &words[..];
        let mut rule = Self::default();
        let read = |rule: &mut Self, rest: &mut &[&str]| {
            rule.read(rest)?;
            while !rest.is_empty() {
                rule.read(rest)?;
            }
            rule.check()
        };
        match read(&mut rule, &mut rest) {
            Ok(()) => Ok(rule),
            Err(problem) => Err(RuleError { rule: text.to_owned(), problem }),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        let protocol = PROTOCOLS.iter().find(|(_, number, _)| Some(*number) == self.protocol);
        let implied = protocol.and_then(|(.., over)| *over).or_else(|| {
            let first = self.networks.first();
            first.map(|(_, net)| if matches!(net, Network::V4(_)) { IP } else { IP6 })
        });
        if let Some(number) = self.ether_type.filter(|number| Some(*number) != implied) {
            let known = ETHER_TYPES.iter().find(|(_, known)| *known == number);
            words.push(known.map_or(format!("ether 0x{number:04x}"), |(name, _)| (*name).into()));
        }
        if let Some(number) = self.protocol {
            words.push(protocol.map_or(format!("proto {number}"), |(name, ..)| (*name).into()));
        }
        let side = |side: Side| match side {
            Side::Source => "src ",
            Side::Destination => "dst ",
            Side::Either => "",
        };
        for (at, ports) in &self.ports {
            let (low, high) = (ports.start(), ports.end());
            let range = if low == high { low.to_string() } else { format!("{low}-{high}") };
            words.push(format!("{}port {range}", side(*at)));
        }
        for (at, net) in &self.networks {
            words.push(match net {
                Network::V4(net) => format!("{}net {net}", side(*at)),
                Network::V6(net) => format!("{}net {net}", side(*at)),
            });
        }
        f.write_str(&words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_again() {
        for text in [
            "ip",
            "arp",
            "ip6 tcp",
            "ether 0x88cc",
            "icmp",
            "proto 47",
            "udp dst port 53",
            "tcp src port 1000-2000 dst port 80",
            "port 1",
            "net 10.0.0.0/8",
            "tcp dst net 2001:db8::/32",
            "icmp src net 10.0.0.1/32",
        ] {
            let rule: Rule = text.parse().unwrap();
            assert_eq!(rule.to_string(), text);
            assert_eq!(rule.to_string().parse(), Ok(rule), "{text}");
        }
        assert_eq!("host 10.0.0.1".parse::<Rule>(), "net 10.0.0.1/32".parse());
        assert_eq!("udp and port 0x35".parse::<Rule>(), "udp port 53".parse());
        assert_eq!(Rule::list(" , "), Ok(Vec::new()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, problem) in [
            ("", "incomplete"),
            ("tpc", "‘tpc’"),
            ("udp port", "incomplete"),
            ("udp port 65536", "‘65536’"),
            ("port 9-3", "‘9-3’"),
            ("arp tcp", "only IP"),
            ("icmp port 3", "only TCP"),
            ("tcp udp", "two protocols"),
            ("ip6 net 10.0.0.0/8", "two EtherTypes"),
            ("net 10.0.0.0/33", "‘10.0.0.0/33’"),
            ("src tcp", "‘tcp’"),
        ] {
            let error = text.parse::<Rule>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
