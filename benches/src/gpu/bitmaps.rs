//! The classifier that Snap used on the CPU: for each field and each range of its values, a bitmap of the rules that
//! match there. A packet is classified by the first bit that is set in the bitmaps of all its fields (Lakshman and
//! Stiliadis, SIGCOMM'98).
//!
//! It supports the five IP fields, not those of Ethernet.

use anyhow::ensure;
use millrace_testkit::generate::rules::{ALL_PORTS, Header, IPV4, Rule};

/// Fields: addresses, ports, protocol.
const FIELDS: usize = 5;

/// The value of a field that a packet lacks.
const ABSENT: u64 = 1 << 40;

/// The values of a packet's fields.
pub(super) type Fields = [u64; FIELDS];

/// The bitmaps.
pub(super) struct Bitmaps {
    fields: [Field; FIELDS],
    /// Words of a bitmap.
    words: usize,
}

/// The ranges of a field's values.
struct Field {
    /// The first value of each range, in ascending order.
    starts: Vec<u64>,
    /// The bitmaps of the ranges, one after the other.
    bits: Vec<u64>,
}

impl Bitmaps {
    /// Builds the bitmaps.
    ///
    /// # Errors
    /// A rule has a condition on an Ethernet field.
    pub(super) fn new(rules: &[Rule]) -> anyhow::Result<Self> {
        for rule in rules {
            let asks = rule.ethernet != [None; 2] || rule.ether_type.is_some();
            ensure!(!asks, "these bitmaps have no fields of Ethernet");
        }
        let words = rules.len().div_ceil(64);
        let ranges: Vec<_> = rules.iter().map(ranges).collect();
        let field =
            |field: usize| Field::new(ranges.iter().filter_map(|all| all.get(field)), words);
        Ok(Self { fields: [0, 1, 2, 3, 4].map(field), words })
    }

    /// The first rule that holds.
    #[inline]
    pub(super) fn first(&self, packet: &Fields) -> Option<usize> {
        let mut maps = [&[][..]; FIELDS];
        for ((map, field), value) in maps.iter_mut().zip(&self.fields).zip(packet) {
            *map = field.at(*value, self.words);
        }
        let [a, b, c, d, e] = maps;
        let all = a.iter().zip(b).zip(c).zip(d).zip(e);
        let mut words = all.map(|((((a, b), c), d), e)| a & b & c & d & e).enumerate();
        let (at, word) = words.find(|(_, word)| *word != 0)?;
        Some(at * 64 + word.trailing_zeros() as usize)
    }
}

impl Field {
    fn new<'a>(ranges: impl Iterator<Item = &'a (u64, u64)> + Clone, words: usize) -> Self {
        let mut starts: Vec<u64> =
            ranges.clone().flat_map(|&(first, end)| [first, end]).chain([0, ABSENT]).collect();
        starts.sort_unstable();
        starts.dedup();
        let mut bits = vec![0; starts.len() * words];
        for (rule, &(first, end)) in ranges.enumerate() {
            let from = starts.partition_point(|start| *start < first);
            let to = starts.partition_point(|start| *start < end);
            for map in bits.chunks_exact_mut(words).take(to).skip(from) {
                if let Some(word) = map.get_mut(rule / 64) {
                    *word |= 1 << (rule % 64);
                }
            }
        }
        Self { starts, bits }
    }

    #[inline]
    fn at(&self, value: u64, words: usize) -> &[u64] {
        let stretch = self.starts.partition_point(|start| *start <= value).saturating_sub(1);
        self.bits.get(stretch * words..(stretch + 1) * words).unwrap_or_default()
    }
}

/// The range of each field that a rule matches, without the end. A field without a condition may be absent.
fn ranges(rule: &Rule) -> [(u64, u64); FIELDS] {
    let any = (0, ABSENT + 1);
    let [source, destination] = rule.nets.map(|net| match net.length {
        0 => any,
        _ => (net.address.into(), u64::from(net.last()) + 1),
    });
    let [from, to] = rule.ports.map(|ports| match ports {
        ALL_PORTS => any,
        (first, last) => (first.into(), u64::from(last) + 1),
    });
    let protocol = rule.protocol.map_or(any, |one| (one.into(), u64::from(one) + 1));
    [source, destination, from, to, protocol]
}

/// The fields of a packet.
pub(super) fn fields(header: &Header) -> Fields {
    let is_ip = header.ether_type == IPV4;
    let has_ports = is_ip && matches!(header.protocol, 6 | 17);
    let when = |has, value| if has { value } else { ABSENT };
    let [source, destination] = header.addresses.map(|address| when(is_ip, address.into()));
    let [from, to] = header.ports.map(|port| when(has_ports, port.into()));
    [source, destination, from, to, when(is_ip, header.protocol.into())]
}

#[cfg(test)]
mod tests {
    use millrace_testkit::generate::rules::{KINDS, RuleSet, first_match};
    use millrace_testkit::generate::trace::Trace;

    use super::*;

    #[test]
    fn the_first_rule_is_found() {
        for kind in &KINDS {
            let rules = RuleSet::new(kind, 300).make();
            let bitmaps = Bitmaps::new(&rules).unwrap();
            for header in Trace::new(2000).make(&rules) {
                let found = bitmaps.first(&fields(&header));
                assert_eq!(found, first_match(&rules, &header), "{}: {header:?}", kind.name);
            }
        }
    }
}
