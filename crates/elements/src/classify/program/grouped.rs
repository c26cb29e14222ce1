//! Programs in which several tests of one word are one step.

use std::fmt;

use super::decision::{Program, write_end, write_step};
use super::insn::{Insn, Jump, Test};

/// The number of values from which on they are sorted and searched by bisection.
const MIN_BINARY_SEARCH: usize = 7;

/// A test of one masked word against any of several values: `port 80 or 443 or 8080`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The first of the tests; the others differ only in the value.
    pub insn: Insn,
    /// The values, in the order in which they are tested. Seven or more values are sorted by their bytes in reverse
    /// order: as the numbers that a little-endian machine loads, which is Click's order.
    pub values: Vec<u32>,
}

impl Group {
    /// True if the values are searched by bisection.
    pub fn is_sorted(&self) -> bool {
        self.values.len() >= MIN_BINARY_SEARCH
    }
}

/// A decision program whose steps are groups. Jumps lead to groups by their number.
///
/// Displayed, it is the text of the `program` handler of Click's IPFilter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grouped {
    groups: Vec<Group>,
    constant: Option<Jump>,
    safe_length: u32,
    align_offset: u16,
}

impl Grouped {
    /// Groups the tests of a program.
    pub fn new(program: &Program) -> Self {
        let insns = program.insns();
        let mut uses = vec![0_u32; insns.len()];
        for to in insns.iter().flat_map(|insn| insn.jump).filter_map(Jump::step) {
            uses[to] += 1;
        }
        let mut absorbed = vec![false; insns.len()];
        let mut place = vec![0; insns.len()];
        let mut groups = Vec::new();
        for (at, insn) in insns.iter().enumerate() {
            if absorbed[at] {
                continue;
            }
            let mut group = Group { insn: *insn, values: vec![insn.test.value] };
            while let Some(no) = group.insn.no().step() {
                let next = &insns[no];
                let alike = uses[no] == 1
                    && next.yes() == insn.yes()
                    && next.test.offset == insn.test.offset
                    && next.test.mask == insn.test.mask;
                if !alike {
                    break;
                }
                group.values.push(next.test.value);
                group.insn.jump[0] = next.no();
                absorbed[no] = true;
            }
            if group.is_sorted() {
                group.values.sort_unstable_by_key(|value| value.swap_bytes());
            }
            place[at] = groups.len();
            groups.push(group);
        }
        for jump in groups.iter_mut().flat_map(|group| &mut group.insn.jump) {
            if let Some(to) = jump.step() {
                *jump = Jump::to(place[to]);
            }
        }
        Self {
            groups,
            constant: program.constant(),
            safe_length: program.safe_length(),
            align_offset: program.align_offset(),
        }
    }

    /// The groups; none when all packets have the same destination.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The destination of all packets, when there are no groups.
    pub fn constant(&self) -> Option<Jump> {
        self.constant
    }
}

impl fmt::Display for Grouped {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One line per value.
        let first_line: Vec<usize> = self
            .groups
            .iter()
            .scan(0, |line, group| {
                let first = *line;
                *line += group.values.len();
                Some(first)
            })
            .collect();
        let to_line = |jump: Jump| match jump.step() {
            Some(group) => Jump::to(first_line[group]),
            None => jump,
        };
        for (group, &first) in self.groups.iter().zip(&first_line) {
            let [no, yes] = group.insn.jump.map(to_line);
            for (nth, &value) in group.values.iter().enumerate() {
                let line = first + nth;
                let last = nth + 1 == group.values.len();
                let jump = [if last { no } else { Jump::to(line + 1) }, yes];
                let test = Test { value, ..group.insn.test };
                write_step(out, line, Insn { test, jump, ..group.insn }, self.align_offset)?;
            }
        }
        write_end(out, self.constant, self.safe_length, self.align_offset)
    }
}
