//! The kinds of rule sets, as tables.

/// A kind of rule set. Where a list has numbers beside values they are weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The name by which commands and reports call it.
    pub name: &'static str,
    /// Tuples in 10,000 rules.
    pub tuples: usize,
    /// Different prefixes of source and destination in 10,000 rules.
    pub prefixes: [usize; 2],
    /// Percentage of rules with a true range of ports.
    pub ranged: u32,
    /// Lengths of prefixes of source and destination.
    pub(super) lengths: [&'static [(u8, u32)]; 2],
    /// Percentages of rules without ranges that have one port of the source, of the destination.
    pub(super) ports: [u32; 2],
    /// Which end has the range: source, destination, both.
    pub(super) range_ends: [u32; 3],
    /// Percentage of rules for any protocol, among those that ask for no port.
    pub(super) any_protocol: u32,
}

/// Access lists: destinations are few, and their services many.
pub const ACL1: Kind = Kind {
    name: "acl1",
    tuples: 253,
    prefixes: [4543, 969],
    ranged: 12,
    lengths: [
        &[
            (0, 10),
            (8, 5),
            (14, 3),
            (16, 40),
            (17, 10),
            (18, 15),
            (19, 25),
            (20, 30),
            (21, 30),
            (22, 40),
            (23, 60),
            (24, 200),
            (25, 25),
            (26, 40),
            (27, 60),
            (28, 70),
            (29, 60),
            (30, 60),
            (31, 10),
            (32, 400),
        ],
        &[
            (0, 40),
            (16, 20),
            (20, 10),
            (22, 15),
            (23, 40),
            (24, 220),
            (25, 20),
            (26, 40),
            (27, 60),
            (28, 60),
            (29, 40),
            (30, 60),
            (31, 10),
            (32, 500),
        ],
    ],
    ports: [0, 65],
    range_ends: [0, 100, 0],
    any_protocol: 30,
};

/// Firewalls: a third of the rules are for any source.
pub const FW1: Kind = Kind {
    name: "fw1",
    tuples: 264,
    prefixes: [4081, 7329],
    ranged: 10,
    lengths: [
        &[
            (0, 400),
            (8, 6),
            (16, 40),
            (20, 10),
            (21, 10),
            (22, 20),
            (23, 30),
            (24, 160),
            (25, 15),
            (26, 25),
            (27, 35),
            (28, 35),
            (29, 20),
            (30, 30),
            (32, 300),
        ],
        &[
            (0, 100),
            (16, 20),
            (20, 10),
            (22, 20),
            (23, 30),
            (24, 130),
            (25, 20),
            (26, 30),
            (27, 50),
            (28, 50),
            (29, 30),
            (30, 40),
            (31, 10),
            (32, 600),
        ],
    ],
    ports: [12, 52],
    range_ends: [30, 60, 10],
    any_protocol: 40,
};

/// Rules as Linux's ipchains had them: of everything some.
pub const IPC1: Kind = Kind {
    name: "ipc1",
    tuples: 646,
    prefixes: [1562, 2797],
    ranged: 12,
    lengths: [
        &[
            (0, 130),
            (8, 10),
            (13, 3),
            (14, 5),
            (15, 5),
            (16, 60),
            (17, 10),
            (18, 20),
            (19, 30),
            (20, 40),
            (21, 40),
            (22, 50),
            (23, 60),
            (24, 200),
            (25, 30),
            (26, 40),
            (27, 60),
            (28, 60),
            (29, 40),
            (30, 40),
            (31, 10),
            (32, 300),
        ],
        &[
            (0, 110),
            (8, 8),
            (13, 3),
            (14, 5),
            (15, 5),
            (16, 50),
            (17, 10),
            (18, 15),
            (19, 25),
            (20, 30),
            (21, 30),
            (22, 50),
            (23, 60),
            (24, 220),
            (25, 30),
            (26, 40),
            (27, 60),
            (28, 60),
            (29, 40),
            (30, 40),
            (31, 10),
            (32, 350),
        ],
    ],
    ports: [12, 44],
    range_ends: [30, 55, 15],
    any_protocol: 40,
};

/// All kinds.
pub static KINDS: [Kind; 3] = [ACL1, FW1, IPC1];

impl Kind {
    /// The kind with a name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }

    /// Different prefixes of source and destination in `count` rules: as many in proportion.
    #[must_use]
    pub fn prefixes_of(&self, count: usize) -> [usize; 2] {
        self.prefixes.map(|prefixes| (prefixes * count).div_ceil(10_000))
    }

    /// Tuples in `count` rules. The larger sets that have been published have few more, the smaller ones fewer, but not in
    /// proportion: the fourth root is our guess.
    #[must_use]
    pub fn tuples_of(&self, count: usize) -> usize {
        let scale = (count as f64 / 10_000.0).powf(0.25);
        ((self.tuples as f64 * scale).round() as usize).min(count.div_ceil(2))
    }
}
