//! The kinds of rule sets, as tables.

/// A kind of rule set. In lists of values with numbers, the numbers are weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The name in commands and reports.
    pub name: &'static str,
    /// The number of tuples in 10,000 rules.
    pub tuples: usize,
    /// The number of different source and destination prefixes in 10,000 rules.
    pub prefixes: [usize; 2],
    /// Percentage of rules with a real range of ports.
    pub ranged: u32,
    /// Lengths of source and destination prefixes.
    pub(super) lengths: [&'static [(u8, u32)]; 2],
    /// Of the rules without ranges, the percentages with a single source port and with a single destination port.
    pub(super) ports: [u32; 2],
    /// The end that has the range: source, destination, both.
    pub(super) range_ends: [u32; 3],
    /// Percentage of rules for any protocol, among those without a condition on ports.
    pub(super) any_protocol: u32,
}

/// Access lists: few destinations with many services.
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

/// Rules like those of Linux ipchains: a mixture.
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

    /// The number of different source and destination prefixes in `count` rules, in proportion.
    #[must_use]
    pub fn prefixes_of(&self, count: usize) -> [usize; 2] {
        self.prefixes.map(|prefixes| (prefixes * count).div_ceil(10_000))
    }

    /// The number of tuples in `count` rules. Published larger sets have slightly more and smaller ones fewer, but
    /// not in proportion. The fourth root is our estimate.
    #[must_use]
    pub fn tuples_of(&self, count: usize) -> usize {
        let scale = (count as f64 / 10_000.0).powf(0.25);
        ((self.tuples as f64 * scale).round() as usize).min(count.div_ceil(2))
    }
}
