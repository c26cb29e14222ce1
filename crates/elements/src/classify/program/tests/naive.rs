//! The meaning of expressions, spelled out: the oracle of the other tests.

use super::super::{Expr, Jump, Layout, NETWORK, TRANSPORT, Test};

/// The output of the first rule that holds.
pub(super) fn classify(rules: &[(Expr<Test>, Jump)], layout: Layout, packet: &[&[u8]; 3]) -> Jump {
    let rule = rules.iter().find(|(expr, _)| holds(expr, layout, packet, false));
    rule.map_or(Jump::Drop, |(_, output)| *output)
}

/// Whether an expression holds. `short` is the result of tests of missing bytes.
fn holds(expr: &Expr<Test>, layout: Layout, packet: &[&[u8]; 3], short: bool) -> bool {
    let holds = |expr| holds(expr, layout, packet, short);
    match expr {
        Expr::Is(test) => answer(test, layout, packet).unwrap_or(short),
        Expr::All(list) => list.iter().all(holds),
        Expr::Any(list) => list.iter().any(holds),
        Expr::Choose(list) => match &list[..] {
            [condition, then, ..] if holds(condition) => holds(then),
            [_, _, otherwise @ ..] => holds(&Expr::Choose(otherwise.to_vec())),
            [last] => holds(last),
            [] => unreachable!(),
        },
        Expr::Not { of, turns_short } => !self::holds(of, layout, packet, short != *turns_short),
    }
}

/// The result of a test, byte by byte; `None` when a tested byte is missing.
fn answer(test: &Test, layout: Layout, packet: &[&[u8]; 3]) -> Option<bool> {
    let (section, start) = match layout {
        Layout::Flat => (packet[0], isize::try_from(test.offset).unwrap()),
        Layout::Ip if test.offset < NETWORK => (packet[0], test.offset as isize - 2),
        Layout::Ip if test.offset < TRANSPORT => (packet[1], (test.offset - NETWORK) as isize),
        Layout::Ip => (packet[2], (test.offset - TRANSPORT) as isize),
    };
    let (value, mask) = (test.value.to_be_bytes(), test.mask.to_be_bytes());
    let counts: Vec<usize> = (0..4).filter(|&nth| mask[nth] != 0).collect();
    let byte = |nth: usize| section.get(usize::try_from(start + nth as isize).ok()?).copied();
    // Only the last tested byte matters: if it is present, so are those before it.
    let Some(&last) = counts.last() else { return Some(true) };
    byte(last)?;
    Some(counts.iter().all(|&nth| byte(nth).unwrap() & mask[nth] == value[nth]))
}
