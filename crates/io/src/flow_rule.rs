//! Rules by which a card selects the queue of a flow, in the language of DPDK's testpmd.
//!
//! `ingress pattern eth / ipv4 src is 10.0.0.1 / udp dst is 53 / end actions queue index 2 / count / end`
//!
//! The headers of a pattern are given to DPDK as the bytes of the packet and a mask, which is how its structures are laid
//! out; so a rule needs no knowledge of them.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use millrace_core::net::EtherAddress;

/// A rule for a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowRule {
    /// Its group; packets begin in group 0.
    pub group: u32,
    /// Its priority in the group; 0 is the highest.
    pub priority: u32,
    /// The headers of the packets that it is about, outermost first.
    pub pattern: Vec<Pattern>,
    /// What happens to them.
    pub actions: Vec<Action>,
}

/// What a header must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The header.
    pub header: HeaderKind,
    /// Its bytes, those that matter.
    pub value: [u8; HEADER_LEN],
    /// The bits that matter.
    pub mask: [u8; HEADER_LEN],
}

/// The bytes of the longest header.
pub const HEADER_LEN: usize = 40;

/// A header that patterns know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum HeaderKind {
    /// Ethernet.
    Ethernet = 1,
    /// IEEE 802.1Q.
    Vlan = 2,
    /// IPv4.
    Ipv4 = 3,
    /// IPv6.
    Ipv6 = 4,
    /// UDP.
    Udp = 5,
    /// TCP.
    Tcp = 6,
    /// SCTP.
    Sctp = 7,
    /// ICMP.
    Icmp = 8,
}

/// What happens to packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// They go to this receive queue.
    Queue(u16),
    /// They are dropped.
    Drop,
    /// They are counted.
    Count,
    /// They are treated as if the rule did not exist.
    PassThrough,
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The byte of the line at which the word begins.
    pub at: usize,
    /// The reason, as a sentence.
    pub reason: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// The value of a field.
#[derive(Clone, Copy)]
enum Kind {
    Number,
    Ether,
    Ipv4,
    Ipv6,
}

/// A field of a header: name, position, length, and kind of value.
type Field = (&'static str, usize, usize, Kind);

/// The headers and their fields (RFC 791, 8200, 768, 9293, 9260, 792, and IEEE 802.1Q).
const HEADERS: [(&str, HeaderKind, &[Field]); 8] = [
    (
        "eth",
        HeaderKind::Ethernet,
        &[("dst", 0, 6, Kind::Ether), ("src", 6, 6, Kind::Ether), ("type", 12, 2, Kind::Number)],
    ),
    ("vlan", HeaderKind::Vlan, &[("tci", 0, 2, Kind::Number), ("inner_type", 2, 2, Kind::Number)]),
    (
        "ipv4",
        HeaderKind::Ipv4,
        &[
            ("tos", 1, 1, Kind::Number),
            ("ttl", 8, 1, Kind::Number),
            ("proto", 9, 1, Kind::Number),
            ("src", 12, 4, Kind::Ipv4),
            ("dst", 16, 4, Kind::Ipv4),
        ],
    ),
    (
        "ipv6",
        HeaderKind::Ipv6,
        &[
            ("proto", 6, 1, Kind::Number),
            ("hop", 7, 1, Kind::Number),
            ("src", 8, 16, Kind::Ipv6),
            ("dst", 24, 16, Kind::Ipv6),
        ],
    ),
    ("udp", HeaderKind::Udp, &[("src", 0, 2, Kind::Number), ("dst", 2, 2, Kind::Number)]),
    (
        "tcp",
        HeaderKind::Tcp,
        &[("src", 0, 2, Kind::Number), ("dst", 2, 2, Kind::Number), ("flags", 13, 1, Kind::Number)],
    ),
    ("sctp", HeaderKind::Sctp, &[("src", 0, 2, Kind::Number), ("dst", 2, 2, Kind::Number)]),
    ("icmp", HeaderKind::Icmp, &[("type", 0, 1, Kind::Number), ("code", 1, 1, Kind::Number)]),
];

impl FlowRule {
    /// Reads a rule. `None` for a line without one: it is blank, or a comment, which begins with `#`.
    ///
    /// # Errors
    /// It is no rule, or has something that is not supported here.
    pub fn parse(line: &str) -> Result<Option<Self>, RuleError> {
        let mut words = Words { line, rest: line };
        if matches!(words.peek(), None | Some((_, "#"))) || line.trim_start().starts_with('#') {
            return Ok(None);
        }
        // testpmd's `flow create PORT`: the port is the element's.
        if words.accepts("flow") {
            words.expect("create")?;
            words.number(u64::from(u16::MAX))?;
        }
        let mut rule = Self::default();
        loop {
            let (at, word) = words.next()?;
            match word {
                "ingress" => {}
                "group" => rule.group = words.number(u64::from(u32::MAX))? as u32,
                "priority" => rule.priority = words.number(u64::from(u32::MAX))? as u32,
                "pattern" => break,
                _ => return Err(unknown(at, word, &["ingress", "group", "priority", "pattern"])),
            }
        }
        while let Some(pattern) = words.pattern()? {
            rule.pattern.push(pattern);
        }
        words.expect("actions")?;
        while let Some(action) = words.action()? {
            rule.actions.push(action);
        }
        match words.peek() {
            Some((at, word)) => {
                Err(RuleError { at, reason: format!("‘{word}’ after the rule") })
            }
            None => Ok(Some(rule)),
        }
    }
}

/// The words of a line.
struct Words<'a> {
    line: &'a str,
    rest: &'a str,
}

impl<'a> Words<'a> {
    /// The next word, and where it begins.
    fn peek(&self) -> Option<(usize, &'a str)> {
        let rest = self.rest.trim_start();
        let word = rest.split_whitespace().next()?;
        Some((self.line.len() - rest.len(), word))
    }

    fn next(&mut self) -> Result<(usize, &'a str), RuleError> {
        let at = self.line.trim_end().len();
        let (at, word) = self
            .peek()
            .ok_or_else(|| RuleError { at, reason: "the rule has no end".to_owned() })?;
        self.rest = self.line.get(at + word.len()..).unwrap_or_default();
        Ok((at, word))
    }

    fn accepts(&mut self, wanted: &str) -> bool {
        let there = self.peek().is_some_and(|(_, word)| word == wanted);
        there && self.next().is_ok()
    }

    fn expect(&mut self, wanted: &str) -> Result<(), RuleError> {
        match self.next()? {
            (_, word) if word == wanted => Ok(()),
            (at, word) => {
                Err(RuleError { at, reason: format!("expected ‘{wanted}’, not ‘{word}’") })
            }
        }
    }

    /// A number, decimal or hexadecimal.
    fn number(&mut self, most: u64) -> Result<u64, RuleError> {
        let (at, word) = self.next()?;
        let parsed = match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => word.parse(),
        };
        parsed.ok().filter(|number| *number <= most).ok_or_else(|| RuleError {
            at,
            reason: format!("expected a number from 0 to {most}, not ‘{word}’"),
        })
    }

    /// A header with its fields, up to the slash; `None` at the end of the pattern.
    fn pattern(&mut self) -> Result<Option<Pattern>, RuleError> {
        let (at, word) = self.next()?;
        if word == "end" {
            return Ok(None);
        }
        let Some((_, header, fields)) = HEADERS.iter().find(|(name, ..)| *name == word) else {
            let mut known = HEADERS.map(|(name, ..)| name).to_vec();
            known.push("end");
            return Err(unknown(at, word, &known));
        };
        let mut pattern =
            Pattern { header: *header, value: [0; HEADER_LEN], mask: [0; HEADER_LEN] };
        loop {
            let (at, word) = self.next()?;
            if word == "/" {
                return Ok(Some(pattern));
            }
            let Some(field) = fields.iter().find(|(name, ..)| *name == word) else {
                let known: Vec<&str> = fields.iter().map(|(name, ..)| *name).chain(["/"]).collect();
                return Err(unknown(at, word, &known));
            };
            self.field(*field, &mut pattern)?;
        }
    }

    /// What is said of a field: `is VALUE`, `spec VALUE`, `mask VALUE` or `prefix BITS`.
    fn field(&mut self, field: Field, pattern: &mut Pattern) -> Result<(), RuleError> {
        let (_, start, length, kind) = field;
        let (at, relation) = self.next()?;
        let place = start..start + length;
        let ones = [0xff; HEADER_LEN];
        match relation {
            "is" => {
                let value = self.value(kind, length)?;
                copy(&mut pattern.value, place.clone(), &value);
                copy(&mut pattern.mask, place, &ones);
            }
            "spec" => {
                let value = self.value(kind, length)?;
                copy(&mut pattern.value, place, &value);
            }
            "mask" => {
                let value = self.value(kind, length)?;
                copy(&mut pattern.mask, place, &value);
            }
            "prefix" => {
                let bits = self.number(length as u64 * 8)? as usize;
                for (number, byte) in pattern.mask.iter_mut().skip(start).take(length).enumerate() {
                    let own = bits.saturating_sub(number * 8).min(8);
                    *byte = !(0xff_u16 >> own) as u8;
                }
            }
            _ => return Err(unknown(at, relation, &["is", "spec", "mask", "prefix"])),
        }
        Ok(())
    }

    /// The bytes of a value, of which the first `length` count.
    fn value(&mut self, kind: Kind, length: usize) -> Result<[u8; HEADER_LEN], RuleError> {
        let mut bytes = [0; HEADER_LEN];
        let (at, word) = self.peek().unwrap_or((self.line.len(), ""));
        let wrong =
            |what: &str| RuleError { at, reason: format!("expected {what}, not ‘{word}’") };
        match kind {
            Kind::Number => {
                let number = self.number((1u64 << (8 * length)) - 1)?;
                let all = number.to_be_bytes();
                copy(&mut bytes, 0..length, all.get(8 - length..).unwrap_or_default());
                return Ok(bytes);
            }
            Kind::Ether => {
                let address: EtherAddress =
                    word.parse().map_err(|_| wrong("an Ethernet address"))?;
                copy(&mut bytes, 0..6, &address.0);
            }
            Kind::Ipv4 => {
                let address: Ipv4Addr = word.parse().map_err(|_| wrong("an IPv4 address"))?;
                copy(&mut bytes, 0..4, &address.octets());
            }
            Kind::Ipv6 => {
                let address: Ipv6Addr = word.parse().map_err(|_| wrong("an IPv6 address"))?;
                copy(&mut bytes, 0..16, &address.octets());
            }
        }
        self.next()?;
        Ok(bytes)
    }

    /// An action, up to the slash; `None` at the end of the actions.
    fn action(&mut self) -> Result<Option<Action>, RuleError> {
        let (at, word) = self.next()?;
        let action = match word {
            "end" => return Ok(None),
            "queue" => {
                self.expect("index")?;
                Action::Queue(self.number(u64::from(u16::MAX))? as u16)
            }
            "drop" => Action::Drop,
            "count" => Action::Count,
            "passthru" => Action::PassThrough,
            _ => return Err(unknown(at, word, &["queue", "drop", "count", "passthru", "end"])),
        };
        self.expect("/")?;
        Ok(Some(action))
    }
}

/// Copies as many bytes as there is place for.
fn copy(to: &mut [u8], place: std::ops::Range<usize>, from: &[u8]) {
    let place = to.get_mut(place).into_iter().flatten();
    place.zip(from).for_each(|(to, from)| *to = *from);
}

fn unknown(at: usize, word: &str, known: &[&str]) -> RuleError {
    RuleError {
        at, reason: format!("‘{word}’ is not known here; expected {}", known.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(line: &str) -> FlowRule {
        FlowRule::parse(line).unwrap().unwrap()
    }

    #[test]
    fn headers_are_bytes_and_masks() {
        let rule = rule(
            "ingress priority 3 pattern eth / ipv4 src spec 10.1.0.0 src mask 255.255.0.0 dst is 10.2.0.9 / \
             udp dst is 53 / end actions queue index 2 / count / end",
        );
        assert_eq!((rule.group, rule.priority), (0, 3));
        assert_eq!(rule.actions, [Action::Queue(2), Action::Count]);
        let [ether, ip, udp] = &rule.pattern[..] else { panic!("three headers") };
        assert_eq!((ether.header, ether.mask), (HeaderKind::Ethernet, [0; 40]));
        assert_eq!(ip.value[12..20], [10, 1, 0, 0, 10, 2, 0, 9]);
        assert_eq!(ip.mask[12..20], [255, 255, 0, 0, 255, 255, 255, 255]);
        assert!(ip.mask[..12].iter().chain(&ip.mask[20..]).all(|byte| *byte == 0));
        assert_eq!((udp.header, &udp.value[..4]), (HeaderKind::Udp, &[0, 0, 0, 53][..]));
        assert_eq!(udp.mask[..4], [0, 0, 255, 255]);
    }

    #[test]
    fn addresses_numbers_and_prefixes() {
        let rule = rule(
            "flow create 0 ingress pattern eth dst is 02:00:00:00:00:01 type is 0x86dd / \
             ipv6 src spec 2001:db8:: src prefix 33 / tcp flags spec 2 flags mask 0x12 / end actions drop / end",
        );
        let [ether, ip, tcp] = &rule.pattern[..] else { panic!("three headers") };
        assert_eq!(ether.value[..6], [2, 0, 0, 0, 0, 1]);
        assert_eq!(
            (&ether.value[12..14], &ether.mask[12..14]),
            (&[0x86, 0xdd][..], &[255, 255][..])
        );
        assert_eq!(ip.mask[8..14], [255, 255, 255, 255, 0x80, 0]);
        assert_eq!((tcp.value[13], tcp.mask[13]), (2, 0x12));
        assert_eq!(rule.actions, [Action::Drop]);
    }

    #[test]
    fn lines_without_a_rule() {
        for line in ["", "   ", "# ingress", "#ingress"] {
            assert_eq!(FlowRule::parse(line), Ok(None), "{line}");
        }
    }

    #[test]
    fn what_is_wrong_has_a_place_and_a_reason() {
        for (line, word, reason) in [
            ("egress pattern eth / end", "egress", "expected ingress, group"),
            ("ingress pattern ipv5 / end actions drop / end", "ipv5", "expected eth, vlan"),
            ("ingress pattern ipv4 port is 3 / end actions drop / end", "port", "expected tos"),
            ("ingress pattern ipv4 src is 10.0.0.256 / end", "10.0.0.256", "an IPv4 address"),
            ("ingress pattern udp src is 65536 / end", "65536", "0 to 65535"),
            ("ingress pattern udp src over 5 / end", "over", "expected is, spec"),
            ("ingress pattern eth / end actions mark id 4 / end", "mark", "expected queue"),
            ("ingress pattern eth / end actions queue 4 / end", "4", "expected ‘index’"),
            ("ingress pattern eth / end actions drop / end now", "now", "after the rule"),
        ] {
            let error = FlowRule::parse(line).unwrap_err();
            assert!(line[error.at..].starts_with(word), "{line}: {error:?}");
            assert!(error.reason.contains(reason), "{line}: {error:?}");
        }
        let error = FlowRule::parse("ingress pattern eth / end actions drop").unwrap_err();
        assert_eq!((error.at, error.reason.as_str()), (38, "the rule has no end"));
    }
}
