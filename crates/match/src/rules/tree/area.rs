//! The part of the space of keys that rules cover.

use crate::rules::key::Key;
use crate::rules::rule::{Masked, Ports, Rule};

/// A part of the key that nodes ask for: the bits of `word` from `shift` on, moved to the top of a word. The bits
/// below belong to other fields; they do not affect a comparison with a value that has zeros there.
pub(super) struct Dimension {
    word: u8,
    shift: u8,
}

/// The parts of the key.
pub(super) const DIMENSIONS: [Dimension; 10] = [
    Dimension { word: 4, shift: 0 },  // IPv4 source
    Dimension { word: 5, shift: 0 },  // IPv4 destination
    Dimension { word: 6, shift: 16 }, // destination port
    Dimension { word: 6, shift: 0 },  // source port
    Dimension { word: 3, shift: 16 }, // protocol
    Dimension { word: 3, shift: 0 },  // EtherType
    Dimension { word: 0, shift: 0 },  // Ethernet destination, first four bytes
    Dimension { word: 1, shift: 0 },  // Ethernet destination, last two bytes
    Dimension { word: 1, shift: 16 }, // Ethernet source, first two bytes
    Dimension { word: 2, shift: 0 },  // Ethernet source, last four bytes
];

/// The first and the last value in each dimension.
pub(super) type Bounds = [(u32, u32); DIMENSIONS.len()];

/// All values in a dimension.
pub(super) const EVERYTHING: (u32, u32) = (0, u32::MAX);

/// The fields that a packet must have if its value in a dimension is not 0.
const FIELDS: [u32; DIMENSIONS.len()] = [
    Key::IPV4,
    Key::IPV4,
    Key::IPV4 | Key::PORTS,
    Key::IPV4 | Key::PORTS,
    Key::IPV4,
    Key::TYPE,
    Key::ETHERNET,
    Key::ETHERNET,
    Key::ETHERNET,
    Key::ETHERNET,
];

/// The words of a key for which rules have masks: all but ports.
const MASKED_WORDS: usize = 6;

/// The area of each rule.
pub(super) struct Areas {
    /// The smallest box that contains it, by dimension; empty if no rule limits the dimension.
    bounds: [Vec<(u32, u32)>; DIMENSIONS.len()],
    /// The fields that it requires.
    needs: Vec<u32>,
    /// Rules whose masks have gaps cover less than their box. If there is such a rule, this has the masks of all
    /// rules.
    bits: Vec<Bits>,
}

/// The value and the mask of the words of a key.
#[derive(Clone, Copy)]
struct Bits {
    value: [u32; MASKED_WORDS],
    mask: [u32; MASKED_WORDS],
}

/// How a node divides keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// At this value in a dimension.
    Value(usize, u32),
    /// By a bit of a word, counted from the top.
    Bit(usize, u8),
}

/// The number of rules on either side of a cut.
#[derive(Clone, Copy)]
pub(super) struct Sides {
    pub(super) below: usize,
    pub(super) above: usize,
}

impl Areas {
    pub(super) fn new(rules: &[Rule]) -> Self {
        let has_gaps = rules.iter().any(|rule| Bits::of(rule).has_gaps());
        let mut of_all: [Vec<(u32, u32)>; DIMENSIONS.len()] = Default::default();
        for (dimension, of_all) in of_all.iter_mut().enumerate() {
            of_all.extend(rules.iter().map(|rule| bounds(rule)[dimension]));
            if of_all.iter().all(|bounds| *bounds == EVERYTHING) {
                of_all.clear();
            }
        }
        Self {
            bounds: of_all,
            needs: rules.iter().map(Rule::needs).collect(),
            bits: if has_gaps { rules.iter().map(Bits::of).collect() } else { Vec::new() },
        }
    }

    /// The dimensions that rules limit, and the bounds of all rules there.
    pub(super) fn dimensions(&self) -> impl Iterator<Item = (usize, &[(u32, u32)])> {
        let of_all = self.bounds.iter().map(Vec::as_slice).enumerate();
        of_all.filter(|(_, bounds)| !bounds.is_empty())
    }

    /// The bounds of a rule in a dimension.
    fn bounds(&self, dimension: usize, rule: u32) -> (u32, u32) {
        self.bounds[dimension].get(rule as usize).copied().unwrap_or(EVERYTHING)
    }

    /// A bit for each of both IPv4 addresses, both Ethernet addresses, both ports and the type, which is set if a
    /// rule limits it to a 256th or less.
    pub(super) fn kinds(&self) -> impl Iterator<Item = u8> {
        (0..self.needs.len() as u32).map(|rule| {
            let is_narrow = |dimension: usize| {
                let (first, last) = self.bounds(dimension, rule);
                last - first < 1 << 24
            };
            let of_ethernet = [is_narrow(6) || is_narrow(7), is_narrow(8) || is_narrow(9)];
            let of_ports = [is_narrow(2), is_narrow(3)];
            [is_narrow(0), is_narrow(1)]
                .into_iter()
                .chain(of_ethernet)
                .chain(of_ports)
                .chain([is_narrow(5)])
                .enumerate()
                .fold(0, |kind, (bit, narrow)| kind | u8::from(narrow) << bit)
        })
    }

    /// Whether a rule covers keys on either side.
    pub(super) fn lies(&self, rule: u32, cut: Cut) -> [bool; 2] {
        match cut {
            Cut::Value(dimension, threshold) => {
                let (first, last) = self.bounds(dimension, rule);
                [first < threshold, last >= threshold]
            }
            Cut::Bit(word, bit) => {
                let Bits { value, mask } = &self.bits[rule as usize];
                let is_set = |word: u32| word << bit >> 31 == 1;
                [!is_set(value[word]), !is_set(mask[word]) || is_set(value[word])]
            }
        }
    }

    /// The number of a node's rules, in their order, that a packet may match: those up to the first one that holds
    /// for all packets of the node.
    pub(super) fn reachable(&self, rules: &[u32], node: &Bounds) -> usize {
        let has = node.iter().zip(FIELDS).fold(
            0,
            |has, (bounds, fields)| {
                if bounds.0 > 0 { has | fields } else { has }
            },
        );
        let holds_for_all = |rule: &u32| {
            let is_within = self.dimensions().all(|(dimension, bounds)| {
                let (of_rule, of_node) = (bounds[*rule as usize], node[dimension]);
                of_rule.0 <= of_node.0 && of_rule.1 >= of_node.1
            });
            is_within && self.needs[*rule as usize] & !has == 0 && !self.leaves_gaps(*rule)
        };
        rules.iter().position(holds_for_all).map_or(rules.len(), |at| at + 1)
    }

    fn leaves_gaps(&self, rule: u32) -> bool {
        self.bits.get(rule as usize).is_some_and(Bits::has_gaps)
    }

    /// The number of rules on either side of each bit, if any of these rules has gaps.
    pub(super) fn bits(&self, rules: &[u32], mut each: impl FnMut(Cut, Sides)) {
        if self.bits.is_empty() || !rules.iter().any(|rule| self.leaves_gaps(*rule)) {
            return;
        }
        for word in 0..MASKED_WORDS {
            let (mut zeros, mut ones) = ([0; 32], [0; 32]);
            for rule in rules {
                let Bits { value, mask } = &self.bits[*rule as usize];
                let mut left = mask[word];
                while left != 0 {
                    let bit = left.leading_zeros() as usize;
                    let counts = if value[word] << bit >> 31 == 1 { &mut ones } else { &mut zeros };
                    counts[bit] += 1;
                    left &= !(1 << (31 - bit));
                }
            }
            for (bit, (zeros, ones)) in (0..).zip(zeros.into_iter().zip(ones)) {
                // Each bit is used once per path, so that trees end.
                if zeros > 0 && ones > 0 {
                    let sides = Sides { below: rules.len() - ones, above: rules.len() - zeros };
                    each(Cut::Bit(word, bit), sides);
                }
            }
        }
    }
}

impl Bits {
    fn of(rule: &Rule) -> Self {
        let words = |to: u64, from: u64, ether_type: u16, protocol: u8, nets: [u32; 2]| {
            let rest = u32::from(ether_type) << 16 | u32::from(protocol) << 8;
            let middle = (to << 16) as u32 | (from >> 32) as u32 & 0xffff;
            [(to >> 16) as u32, middle, from as u32, rest, nets[0], nets[1]]
        };
        Self {
            value: words(
                rule.ether_destination.value(),
                rule.ether_source.value(),
                rule.ether_type.value(),
                rule.protocol.value(),
                [rule.source.value(), rule.destination.value()],
            ),
            mask: words(
                rule.ether_destination.mask(),
                rule.ether_source.mask(),
                rule.ether_type.mask(),
                rule.protocol.mask(),
                [rule.source.mask(), rule.destination.mask()],
            ),
        }
    }

    /// True if the part of a mask in a dimension is not a prefix, so that the rule does not cover its whole box.
    fn has_gaps(&self) -> bool {
        let [m0, m1, m2, m3, m4, m5] = self.mask;
        [m0, m1 & 0xffff_0000, m1 << 16, m2, m3 & 0xffff_0000, m3 << 16, m4, m5]
            .into_iter()
            .any(|mask| mask.leading_ones() != mask.count_ones())
    }
}

impl Cut {
    /// Word, shift and threshold, as they are encoded in nodes.
    pub(super) fn question(self) -> (u8, u8, u32) {
        match self {
            Self::Value(dimension, threshold) => {
                let of = &DIMENSIONS[dimension];
                (of.word, of.shift, threshold)
            }
            Self::Bit(word, bit) => (word as u8, bit, 1 << 31),
        }
    }
}

/// The smallest box that contains a rule.
fn bounds(rule: &Rule) -> Bounds {
    let word = |value: u32, mask: u32| (value, value | !mask);
    let half = |value: u64, mask: u64| word((value as u32) << 16, (mask as u32) << 16);
    let ports =
        |ports: &Ports| (u32::from(ports.first()) << 16, u32::from(ports.last()) << 16 | 0xffff);
    let net = |net: &Masked<u32>| word(net.value(), net.mask());
    let (to, from) = (&rule.ether_destination, &rule.ether_source);
    let (protocol, ether_type) = (&rule.protocol, &rule.ether_type);
    [
        net(&rule.source),
        net(&rule.destination),
        ports(&rule.destination_ports),
        ports(&rule.source_ports),
        word(u32::from(protocol.value()) << 24, u32::from(protocol.mask()) << 24),
        half(ether_type.value().into(), ether_type.mask().into()),
        word((to.value() >> 16) as u32, (to.mask() >> 16) as u32),
        half(to.value() & 0xffff, to.mask() & 0xffff),
        half(from.value() >> 32, from.mask() >> 32),
        word(from.value() as u32, from.mask() as u32),
    ]
}
