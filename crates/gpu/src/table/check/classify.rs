//! Checks tables of the kernel `classify`. Their layout is described in [`millrace_match::rules::table`] and
//! [`millrace_match::rules::image`].

use millrace_match::rules::image::{ETHER, LAST};

use super::words::{Fault, Words, below};

/// Maximum number of trees, and the offset of their list.
const MOST_TREES: usize = 8;
const TREES: usize = 16;
/// The word of a key that a leaf asks for.
const NOTHING: u32 = 7;
/// A bit of word 6 of an entry that no packet has.
const NEVER: u32 = 0x40;

pub(super) fn check(table: Words<'_>) -> Result<(), Fault> {
    let [original, added, numbers, before, removed] = [3, 4, 5, 6, 7].map(|at| table.header(at));
    let count = table.header(9)? as usize;
    table.part("actions", table.header(8)?, count)?;
    let rules = check_image(table, original?)?;
    // The data for a rule's number: its action, and whether the rule was removed.
    below("rules of the original image", rules as u32, count + 1)?;
    let removed = removed?;
    if removed != 0 {
        table.part("rules taken out", removed, rules.div_ceil(32))?;
    }
    let added = added?;
    if added != 0 {
        let rules = check_image(table, added)?;
        table.part("places of new rules", before?, rules)?;
        for &number in table.part("numbers of new rules", numbers?, rules)? {
            below("the number of a new rule", number, count)?;
        }
    }
    Ok(())
}

/// Checks an image; returns its number of rules.
fn check_image(table: Words<'_>, at: u32) -> Result<usize, Fault> {
    let image = Words(table.quads("an image", at)?);
    let rules = image.header(3)? as usize;
    let trees = below("trees", image.header(4)?, MOST_TREES + 1)?;
    let nodes = image.part("nodes", image.header(5)?, u64::from(image.header(6)?) * 2)?;
    let count = image.header(8)?;
    let entries = image.quads("entries", image.header(7)?)?;
    let entries = Words(entries).part("entries", 0, u64::from(count) * 8)?;
    let numbers = image.part("rule numbers", image.header(9)?, count)?;

    let mut reached = vec![false; nodes.len() / 2];
    for tree in image.part("trees", TREES, 2 * trees)?.chunks_exact(2) {
        reached[below("a root", tree[0], nodes.len() / 2)?] = true;
    }
    // Children come after their parents, so that walks end, and one pass reaches all nodes.
    let last = numbers.iter().rposition(|number| number & LAST != 0);
    for (at, node) in nodes.chunks_exact(2).enumerate() {
        if !reached[at] {
            continue;
        }
        let (child, word, value) = ((node[0] >> 8) as usize, node[0] >> 5 & 7, node[1]);
        if word != NOTHING {
            for child in [child, child + 1] {
                let fault = Fault::Wrong { what: "a child", number: child as u32 };
                if child <= at {
                    return Err(fault);
                }
                *reached.get_mut(child).ok_or(fault)? = true;
            }
        } else if child != at || value == 0 {
            return Err(Fault::Wrong { what: "a leaf that leads elsewhere", number: child as u32 });
        } else {
            // The entries end with one that is marked as the last.
            below("the first entry of a leaf", value, last.map_or(0, |last| last + 1))?;
        }
    }

    let addresses = image.header(10)?;
    for (entry, number) in entries.chunks_exact(8).zip(numbers) {
        let asks = entry[6] & entry[7];
        if asks & NEVER != 0 {
            continue;
        }
        let rule = below("the rule of an entry", number & !LAST, rules)?;
        if entry[6] & ETHER != 0 {
            let addresses = Words(image.quads("Ethernet addresses", addresses)?);
            addresses.part("Ethernet addresses", 8 * rule, 8_usize)?;
        }
    }
    Ok(rules)
}
