//! Checks tables of the kernel `lpm4`. Their layout is described in [`lpm4`](crate::table).

use super::words::{Fault, Words, below};
use crate::table::MORE;
use crate::table::lpm4::{FIRST, GROUP};

/// The top bit of an entry of 16 bits.
const NARROW_MORE: u32 = 0x8000;

pub(super) fn check(table: Words<'_>) -> Result<(), Fault> {
    let is_wide = table.header(2)? != 0;
    let hops = table.header(4)? as usize;
    table.part("decisions", table.header(7)?, hops)?;
    let packed = if is_wide { 1 } else { 2 };
    let (first, groups) = (table.header(6)?, table.header(3)?);
    let first = table.part("the first level", first, FIRST / packed)?;
    let groups = table.part("groups", groups, table.0.len().saturating_sub(groups as usize))?;

    // For each group, whether a network leads to it.
    let mut used = vec![false; groups.len() / (GROUP / packed)];
    each(first, is_wide, |entry| {
        if entry & MORE == 0 {
            return hop(entry, hops);
        }
        let group = below("a group", entry & !MORE, used.len())?;
        used[group] = true;
        Ok(())
    })?;
    for (group, _) in groups.chunks_exact(GROUP / packed).zip(used).filter(|(_, used)| *used) {
        each(group, is_wide, |entry| hop(entry, hops))?;
    }
    Ok(())
}

/// Checks an entry that leads to no group.
fn hop(entry: u32, hops: usize) -> Result<(), Fault> {
    below("an entry", entry, hops + 1).map(drop)
}

/// Calls a function for each entry, widened to 32 bits. Successive equal words are passed only once.
fn each(
    words: &[u32],
    is_wide: bool,
    mut check: impl FnMut(u32) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut last = None;
    for &word in words {
        if last == Some(word) {
            continue;
        }
        last = Some(word);
        if is_wide {
            check(word)?;
        } else {
            for half in [word & 0xffff, word >> 16] {
                check((half & NARROW_MORE) << 16 | (half & !NARROW_MORE))?;
            }
        }
    }
    Ok(())
}
