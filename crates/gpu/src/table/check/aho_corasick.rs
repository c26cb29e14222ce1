//! Checks tables of the kernel `aho_corasick`. Their layout is described in [`millrace_match::patterns::image`].

use std::collections::VecDeque;

use millrace_match::patterns::image::{CERTAIN, CONTENT, RULE};

use super::words::{Fault, Words, below};

/// Words of the class map.
const CLASS_MAP: usize = 64;

pub(super) fn check(table: Words<'_>) -> Result<(), Fault> {
    let (states, classes) = (table.header(4)?, table.header(5)? as usize);
    let stride = table.header(6)?;
    // A row consists of its transitions and its list.
    if stride as usize != classes + 1 || classes > 256 {
        return Err(Fault::Wrong { what: "words of a row", number: stride });
    }
    let rows = u64::from(states) * u64::from(stride);
    let rows = table.part("the transition table", table.header(8)?, rows)?;
    let map = table.part("the class map", table.header(7)?, CLASS_MAP)?;
    for class in map.iter().flat_map(|word| word.to_le_bytes()) {
        below("the class of a byte", class.into(), classes)?;
    }
    let rules = Rules { table, contents: table.header(10)?, count: table.header(12)? as usize };
    rules.check(table.header(11)?)?;
    let output_from = table.header(9)? as usize;
    let stride = stride as usize;
    for (row, depth) in depths(rows, stride)?.into_iter().enumerate() {
        if row * stride >= output_from
            && let Some(depth) = depth
        {
            rules.check_list(rows[row * stride + classes], depth)?;
        }
    }
    Ok(())
}

/// The minimum number of bytes that were read when the automaton is in the state of each row; `None` for unreachable
/// rows.
fn depths(rows: &[u32], stride: usize) -> Result<Vec<Option<u32>>, Fault> {
    let mut depths = vec![None; rows.len() / stride];
    *depths.first_mut().ok_or(Fault::Wrong { what: "states", number: 0 })? = Some(0);
    let mut open = VecDeque::from([(0, 0)]);
    while let Some((row, depth)) = open.pop_front() {
        for &state in &rows[row * stride..][..stride - 1] {
            let next = below("a state", state, rows.len())?;
            if next % stride != 0 {
                return Err(Fault::Wrong { what: "a state between rows", number: state });
            }
            let there = &mut depths[next / stride];
            if there.is_none() {
                *there = Some(depth + 1);
                open.push_back((next / stride, depth + 1));
            }
        }
    }
    Ok(depths)
}

#[derive(Clone, Copy)]
struct Rules<'a> {
    table: Words<'a>,
    /// The offset of the contents.
    contents: u32,
    count: usize,
}

impl<'a> Rules<'a> {
    /// Checks all contents of the rules.
    fn check(self, rules: u32) -> Result<(), Fault> {
        for rule in self.table.part("rules", rules, self.count * RULE)?.chunks_exact(RULE) {
            let (first, count) = (rule[0], rule[1]);
            // Their end is a number of 32 bits.
            first
                .checked_add(count)
                .ok_or(Fault::Wrong { what: "contents of a rule", number: first })?;
            for content in self.contents(first, count)?.chunks_exact(CONTENT) {
                let bytes = u64::from(content[1]).div_ceil(4);
                self.table.part("the bytes of a content", content[5], bytes)?;
            }
        }
        Ok(())
    }

    fn contents(self, first: u32, count: u32) -> Result<&'a [u32], Fault> {
        let at = u64::from(self.contents) + u64::from(first) * CONTENT as u64;
        self.table.part("contents", at, u64::from(count) * CONTENT as u64)
    }

    /// Checks an output list: the patterns that end after at least `depth` bytes must not begin before the text.
    fn check_list(self, at: u32, depth: u32) -> Result<(), Fault> {
        let count = self.table.part("an output list", at, 1_usize)?[0];
        let entries = self.table.part("an output list", u64::from(at) + 1, u64::from(count) * 2)?;
        for entry in entries.chunks_exact(2) {
            below("a rule of an output list", entry[0], self.count)?;
            if entry[1] != CERTAIN {
                let content = self.contents(entry[1], 1)?;
                below("bytes of a trigger", content[1], depth as usize + 1)?;
                self.table.part("the bytes of a trigger", content[5], content[1].div_ceil(4))?;
            }
        }
        Ok(())
    }
}
